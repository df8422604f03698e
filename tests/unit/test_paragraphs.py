"""The paper's paragraphs state the content of the tables: verdicts, and smallest and largest
values. The paragraph of a table without rows is empty."""

import pandas as pd

from hardgrpo.analysis import arms, claims, random_choice, summary_tables
from hardgrpo.report import paragraphs, registry


class Numbers:
    """A stand-in for report.numbers.Numbers. `add` returns the values instead of a macro, so that
    the tests can find the values in the sentences."""

    def __init__(self, **tables):
        judged = {"claims": claims.COLUMNS, "against_random": random_choice.COLUMNS}
        columns_by_table = {
            name: judged.get(name) or summary_tables.all_tables()[name].columns
            for name in registry.NUMBERED
        }
        frames = {
            name: pd.DataFrame(tables.get(name, []), columns=columns_by_table[name])
            for name in columns_by_table
        }
        self.tables = {
            name: arms.add_labels(frame, "").assign(line=2) for name, frame in frames.items()
        }

    def add(self, key, table, row, columns, how):
        if how.startswith("part"):
            # columns: the gain, the two ends of the part's interval, then the value of every part
            columns = [columns[2 + int(how.removeprefix("part "))], *columns[1:3]]
        return "/".join(
            f"{getattr(row, column):.2f}" if how != "text" else str(getattr(row, column))
            for column in columns
        )


CELL = {"model": "m", "task": "t", "eval_task": "t"}
STUDY = {"recipe": {"updates": 3}, "own_bases": True, "policies": ["hard", "random"]}


def interval(name, value):
    return {name: value, f"{name}_low": value - 0.1, f"{name}_high": value + 0.1}


def claim(paper, task, estimate, verdict, primary=1):
    keys = {
        "id": f"{paper}_claim",
        "paper": paper,
        "primary": primary,
        "model": "m",
        "task": task,
        "eval_task": task,
    }
    columns = {
        "population": "new base models",
        "claim": f"something of {paper}",
        "estimate": estimate,
        "low": estimate - 0.1,
    }
    return keys | columns | {"high": estimate + 0.1, "p_holm": 0.01, "verdict": verdict}


def kind(task, policy, gain, finishing, sharpening, new, tier=None):
    row = {
        "model": "m",
        "task": task,
        "eval_task": task,
        "policy": policy,
        "tier": tier,
        "gain": gain,
    }
    parts = (
        interval("finishing", finishing)
        | interval("sharpening", sharpening)
        | interval("new_solving", new)
    )
    return row | parts | {"out_of_reach": 0.4, "reach_samples": 64}


def test_the_abstract_has_each_primary_claim_and_the_parts_of_the_largest_gains():
    numbers = Numbers(
        claims=[
            claim("HE", "t", -0.3, "contradicted"), claim("HE", "u", 0.0, "undecided"), claim("LDS", "t", 0.2, "supported"),
            claim("HE", "t", 0.9, "descriptive", primary=0),
        ],
        kinds=[kind("t", "hard", 0.2, 0.0, 0.2, 0.0), kind("t", "easy", 0.5, 0.1, 0.3, 0.1), kind("t", "easy", 0.9, 0.9, 0.0, 0.0, 1.0)],
    )  # fmt: skip
    text = paragraphs.abstract(numbers, STUDY)
    assert text.count(". ") == 4 and text.endswith("."), "the abstract must have five sentences"
    he = "The claim that something of HE (HE) is contradicted on t (-0.30/-0.40/-0.20 points) and undecided on u (0.00/-0.10/0.10 points)."
    assert he in text and "(LDS) is supported on t (0.20/" in text and "0.90" not in text
    assert (
        "The largest gain on t is 0.50 points (easy): 0.10/0.00/0.20 finishing, 0.30/0.20/0.40 sharpening and 0.10/"
        in text
    )
    assert "new base models of this kind" in text and "each with a base model" in text
    shared = paragraphs.abstract(numbers, STUDY | {"own_bases": False})
    assert (
        "say nothing about another base model" in shared and "each with a base model" not in shared
    )
    assert paragraphs.abstract(numbers, STUDY | {"recipe": {}}) == "", (
        "a study without training must have no abstract"
    )


def test_the_largest_gain_of_each_task_is_split_into_kinds_where_they_are_known():
    parts = [
        CELL | {"policy": "hard", "gain": gain, "task": task, "eval_task": task}
        | interval("finishing", 0.3) | interval("correctness", gain - 0.3)
        for task, gain in (("t", 0.5), ("u", 0.7))
    ]  # fmt: skip
    numbers = Numbers(kinds=[kind("t", "hard", 0.5, 0.3, 0.1, 0.1)], parts=parts)
    assert [
        (gain["task"], [part["name"] for part in gain["parts"]])
        for gain in paragraphs.largest_gains(numbers)
    ] == [("t", ["finishing", "sharpening", "new solving"]), ("u", ["finishing", "correctness"])]


def test_the_abstract_counts_many_verdicts_instead_of_listing_them():
    rows = [claim("HE", f"t{i}", 0.1, "supported" if i < 2 else "undecided") for i in range(5)]
    assert (
        "is undecided in 3 and supported in 2 of 5 pairs of model and task."
        in paragraphs.abstract(Numbers(claims=rows), STUDY)
    )


def test_a_paragraph_names_the_best_and_the_worst_policy_only():
    rows = [
        CELL | {"policy": policy, "decoding": decoding} | interval("gain", gain)
        for decoding, gains in (("sampled", (0.1, 0.3, 0.2)), ("greedy", (0.0, -0.1, 0.05)))
        for policy, gain in zip("abc", gains)
    ]
    differences = [
        CELL | {"policy": "a", "minus": "b", "difference": -0.2, "mdd": 0.1},
        CELL | {"policy": "b", "minus": "c", "difference": 0.1, "mdd": 0.1},
    ]
    compared = [
        CELL | {"policy": "a", "verdict": "worse"},
        CELL | {"policy": "c", "verdict": "no difference shown"},
    ]
    text = paragraphs.gains(Numbers(gains=rows, differences=differences, against_random=compared))
    assert (
        "0.10/0.00/0.20 (a) to 0.30/0.20/0.40 (b) points" in text
        and "0.20/0.10/0.30 (c)" not in text
    )
    assert "changes by -0.10/-0.20/0.00 (b) to 0.05/" in text
    assert (
        "Compared with a random choice of as many prompts, by the verdict over all studies, c is not shown to differ; a is worse."
        in " ".join(text.split())
    )
    alone = paragraphs.gains(Numbers(gains=rows[:1]))
    assert "0.10/0.00/0.20 (a) points." in alone and " to " not in alone


def test_without_rows_there_is_no_text():
    empty = Numbers()
    for name in (
        "judged",
        "gains",
        "made_of",
        "unsolved",
        "followed",
    ):
        assert getattr(paragraphs, name)(empty) == "", name


def test_the_abstract_names_few_policies_and_counts_many():
    numbers = Numbers(claims=[claim("Sun", "t", 0.2, "supported")])
    assert r"the selection policies \result{policies} on" in paragraphs.abstract(numbers, STUDY)
    many = STUDY | {"policies": [f"policy_{number}" for number in range(16)]}
    assert "compare 16 selection policies on" in paragraphs.abstract(numbers, many)


def test_a_primary_claim_of_any_paper_is_in_the_abstract():
    text = paragraphs.abstract(Numbers(claims=[claim("Sun", "t", 0.2, "supported")]), STUDY)
    assert "The claim that something of Sun (Sun) is supported on t" in text


def test_the_part_finishing_of_the_largest_final_gain_is_compared_between_graders():
    row = lambda policy, gain, finishing, grading: CELL | {
        "policy": policy, "grading": grading, "gain": gain, **interval("finishing", finishing)
    }  # fmt: skip
    rows = [row("low", 0.1, 0.0, name) for name in ("task", "strict", "lenient")]
    rows += [
        row("best", 0.4, value, name)
        for name, value in (("task", 0.1), ("strict", 0.1), ("lenient", 0.3))
    ]
    graders = paragraphs.finishing_by_grader(Numbers(), arms.add_labels(pd.DataFrame(rows), ""))
    assert graders == {"arm": "best", "strict": "0.10/0.00/0.20", "lenient": "0.30/0.20/0.40"}
