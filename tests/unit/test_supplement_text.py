"""The sentences of a supplement state the content of its tables: verdicts, and smallest and largest
values. A table without rows has no sentence."""

import csv

import pytest

from conftest import ROOT
from hardgrpo.analysis import claims, random_choice, summary_tables
from hardgrpo.report import paper
from hardgrpo.runtime import files

CELL = {"model": "m", "task": "t", "eval_task": "t"}
STUDY = {
    "study": "s", "title": "title", "models": ["m"], "tasks": ["t"], "policies": ["hard", "random"],
    "seeds": 3, "budgets": [0.1], "probe_samples": 8, "test_samples": 4, "greedy": False,
    "completion_tokens": {"t": 60}, "held_constant": [], "pretrained": True, "own_bases": True,
    "recipe": {"updates": 3, "prompts_per_update": 2, "learning_rate": 0.1}, "first_recipe": "",
    "other_recipes": {}, "chosen_from": [], "origins": [],
}  # fmt: skip


@pytest.fixture
def supplement(tmp_path):
    """A function from tables, as lists of rows, to the text of a supplement."""
    columns = {name: table.columns for name, table in summary_tables.all_tables().items()}
    columns |= {"claims": claims.COLUMNS, "against_random": random_choice.COLUMNS}

    def fill(study: dict = STUDY, **tables) -> str:
        for name, names in columns.items():
            with open(tmp_path / f"{name}.csv", "w", encoding="utf-8", newline="") as stream:
                writer = csv.DictWriter(stream, [*names, *({"eval_task"} - {*names})])
                writer.writeheader()
                writer.writerows(tables.get(name, []))
        text = paper.Paper(ROOT, study, files.Tables.below(tmp_path))
        return text.fill(ROOT / "paper/supplement.tex.j2").replace("$", "")

    return fill


def interval(name, value):
    return {name: value, f"{name}_low": value - 0.1, f"{name}_high": value + 0.1}


def claim(paper, task, estimate, verdict, primary=1):
    names = {"id": f"{paper}_claim", "paper": paper, "primary": primary, "model": "m"}
    names |= {"task": task, "eval_task": task, "population": "new base models"}
    columns = {"claim": f"something of {paper}", "p_holm": 0.01, "verdict": verdict}
    ends = {"estimate": estimate, "low": estimate - 0.1, "high": estimate + 0.1}
    return names | columns | ends


def test_the_abstract_has_each_primary_claim(supplement):
    tables = {
        "claims": [
            claim("HE", "t", -0.3, "contradicted"), claim("HE", "u", 0.0, "undecided"), claim("LDS", "t", 0.2, "supported"),
            claim("HE", "t", 0.9, "descriptive", primary=0),
        ],
    }  # fmt: skip
    abstract = lambda study: supplement(study, **tables).split(r"\section{Question}")[0]
    text = abstract(STUDY)
    he = "The claim that something of HE (HE) is contradicted on t (-30.0 [-40.0, -20.0] points) and undecided on u (0.0 [-10.0, 10.0] points)."
    assert he in text and "(LDS) is supported on t (+20.0 [" in text and "90.0" not in text
    assert "new base models of this kind" in text and "each with a base model" in text
    assert "the selection policies hard, random on t" in text
    shared = abstract(STUDY | {"own_bases": False})
    assert "another base model" in shared and "each with a base model" not in shared
    many = STUDY | {"policies": [f"policy_{number}" for number in range(16)]}
    assert "compare 16 selection policies on" in abstract(many)
    assert r"\begin{abstract}" not in abstract(STUDY | {"recipe": {}}), "nothing was trained"


def test_the_abstract_counts_many_verdicts_instead_of_listing_them(supplement):
    rows = [claim("HE", f"t{i}", 0.1, "supported" if i < 2 else "undecided") for i in range(5)]
    counts = "is undecided in 3 and supported in 2 of 5 pairs of model and task."
    assert counts in supplement(claims=rows)


def test_a_paragraph_has_the_verdicts_against_a_random_choice_and_the_detectable_difference(
    supplement,
):
    gains = [CELL | {"policy": "a", "decoding": "sampled"} | interval("gain", 0.1)]
    differences = [CELL | {"policy": "a", "minus": "b", "difference": -0.2, "mdd": 0.1}]
    compared = [
        CELL | {"policy": "a", "verdict": "worse"},
        CELL | {"policy": "c", "verdict": "no difference shown"},
    ]
    text = supplement(gains=gains, differences=differences, against_random=compared)
    verdicts = "by the verdict over all studies, c is not shown to differ; a is worse."
    assert f"compared with a random choice of as many prompts, {verdicts}" in text
    assert "A difference of 10.0 points would have been found" in text


def test_without_rows_there_is_no_sentence(supplement):
    text = supplement()
    for words in ("claims:", "compared with a random", "Never solved", "questions of pools"):
        assert words not in text, words
    assert r"\subsection{The primary claims}" not in text
