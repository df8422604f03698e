"""Unlabelled prompts: choosing which to annotate, reading the annotator's answers, training on the
annotated prompts, and the report of whether the training was worth its cost."""

import json
from collections import Counter

import pytest
import yaml

from command_line import assert_refused, run
from conftest import World
from hardgrpo.data.question_ids import question_id
from hardgrpo.runtime import files
from own_prompts import OVERLAY, SAMPLES, TASK, check_order, choose_subset, make_world, read_answers

SOURCE = {
    "kind": "files", "train": "prompts.jsonl", "test": "test.jsonl",
    # the pool has no column `gold` yet
    "columns": {"question": "my prompt", "id": "name", "answer": "gold"},
}  # fmt: skip
SUBSETS = "results/subsets/mine/mine"


def to_annotate(world: World, policy="half") -> list[dict]:
    """The rows that an annotator gets."""
    return files.read_jsonl(world.folder / f"{SUBSETS}/{policy}/seed3.to_annotate.jsonl", {})


@pytest.fixture(scope="module")
def chosen(tmp_path_factory, untrained) -> World:
    """A world with a chosen subset. The pool is a file of JSON Lines without answers, and the
    policy chooses by agreement."""
    template = '{"name" :"n%d",  "my prompt": "%s %d", "\\u006eote": [1, {"a": null}]}'
    texts = ["plain", "caf\\u00e9", "naïve", 'Say \\"x\\"\\n'] * 5
    lines = [template % (i, text, i) for i, text in enumerate(texts)]
    test = [json.dumps({"name": f"t{i}", "my prompt": f"new {i}", "gold": "red"}) for i in range(6)]
    overlay = OVERLAY | {"tasks": {"mine": TASK | {"source": SOURCE, "labelled": False}}}
    overlay["policies"] = {"half": {"rule": "lowest", "by": "agreement", "budget": {"prompts": 10}}}
    pool = "\n" + "\n".join(lines) + "\n"
    folder = tmp_path_factory.mktemp("unlabelled")
    world = make_world(folder, untrained, overlay, prompts_jsonl=pool, test_jsonl="\n".join(test))
    world.pool = {row["name"]: row for row in map(json.loads, lines)}
    world.rows, world.description = choose_subset(world, by="agreement")
    return world


def test_the_agreement_is_the_share_of_the_most_frequent_answer(chosen):
    shares = {
        name: max(Counter(filter(None, answers)).values(), default=0) / SAMPLES
        for name, answers in read_answers(chosen).items()
    }
    signals = chosen.folder / "results/signals/mine/mine.csv"
    measured = files.read_rows(signals, {"id": str, "agreement": float})
    assert {row["id"]: row["agreement"] for row in measured} == shares
    assert not (chosen.folder / "results/difficulty").exists(), "pass rates must be unknown"
    check_order(chosen.rows, shares, by="agreement")


def test_the_signal_and_the_labels_of_a_choice_without_answers_are_reported(chosen):
    assert chosen.description["policy"]["by"] == "agreement" and chosen.description["labels"] == 10
    assert "mean agreement" in chosen.output and "pass rate" not in chosen.output
    file = f"{SUBSETS}/half/seed3.to_annotate.jsonl"
    assert f"to annotate, column 'gold'  {file}" in chosen.output


def test_chosen_rows_are_exported_with_an_empty_answer_and_the_reason_of_the_choice(chosen):
    assert to_annotate(chosen) == [
        chosen.pool[row["id"]]
        | {
            "gold": "",
            "prompt_id": question_id(chosen.pool[row["id"]]["my prompt"]),
            "chosen_because": f"lowest: agreement {row['agreement']:.3g}",
        }
        for row in chosen.rows
    ]


def test_a_random_choice_needs_neither_answers_nor_samples(chosen):
    policies = {"any": {"rule": "random", "budget": {"prompts": 3}}}
    random = {"policies": policies, "subset": {"policy": "any"}}
    (chosen.folder / "random.yaml").write_text(yaml.safe_dump(random))
    arguments = ("subset", "--configfile", "my.yaml", "random.yaml")
    rules = ("remove_answers", "select_subset", "export_subset", "subset")
    assert chosen.plan(*arguments) == dict.fromkeys(rules, 1)
    chosen.run(*arguments)
    exported = [(row["gold"], row["chosen_because"]) for row in to_annotate(chosen, "any")]
    assert exported == [("", "random")] * 3


def test_answers_are_read_from_their_column_without_spaces_around_them(tmp_path):
    """Further faults of annotated files: tests/refusals.yaml."""
    files.write_jsonl(tmp_path / "P.jsonl", [{"id": "p", "question": "q", "answer": None}])
    options = {
        "problems": "P.jsonl",
        "annotated": "A.csv",
        "column": "answer",
        "output": "out.jsonl",
    }
    read = lambda: run(tmp_path, "read_annotated", grader="final_word", **options)
    (tmp_path / "A.csv").write_text(f"prompt_id,solution\n{question_id('q')},red\n")
    assert_refused(read(), "A.csv: row 2: no column 'answer'; found prompt_id, solution")
    assert not (tmp_path / "out.jsonl").exists()
    (tmp_path / "A.csv").write_text(f"prompt_id,answer\n{question_id('q')}, red \n")
    assert read().returncode == 0
    (problem,) = files.read_jsonl(tmp_path / "out.jsonl", {"id": str, "answer": str})
    assert (problem["id"], problem["answer"]) == ("p", "red")


# --- training on the annotated prompts

STUDY = ("--configfile", "my.yaml", "study.yaml")  # call of the study


def fill_in(world: World, answers: dict) -> None:
    """Write `answers` into the file of rows to annotate, as an annotator would, and save the file
    under another name."""
    rows = [row | {"gold": answers.get(row["name"], "")} for row in to_annotate(world)]
    files.write_jsonl(world.folder / "my data/filled in.jsonl", rows)


@pytest.fixture(scope="module")
def annotated(chosen, tmp_path_factory) -> World:
    """A world in which all chosen rows but one are annotated, and a study has trained on the
    annotated rows."""
    world = chosen.copy(tmp_path_factory.mktemp("annotated") / "world")
    world.ids = [row["id"] for row in chosen.rows]
    fill_in(world, dict.fromkeys(world.ids[1:], "red"))
    own = {"title": "Mine", "models": ["mine"], "tasks": ["mine"], "seeds": [0]}
    own["arms"] = [{"policy": ["annotated"], "recipe": ["mini"]}]
    task = {"annotated": "filled in.jsonl", "test": {"samples": 2, "greedy": False, "seed": 2}}
    recipe = {"updates": 4, "prompts_per_update": 3, "group_size": 4, "checkpoint_every": 2}
    overlay = {"study": "own", "studies": {"own": own}, "tasks": {"mine": task}}
    (world.folder / "study.yaml").write_text(
        yaml.safe_dump(overlay | {"recipes": {"mini": recipe}})
    )
    world.output = world.run(*STUDY)
    return world


def test_a_study_trains_on_annotated_prompts_and_reports_whether_training_was_worth_it(annotated):
    assert f"1 rows have no answer and are left out: {annotated.ids[0]}" in annotated.output
    subset = files.read_rows(annotated.folder / f"{SUBSETS}/annotated/seed0.csv", {"id": str})
    assert [row["id"] for row in subset] == annotated.ids[1:]
    summaries = annotated.folder / "results/summaries/own"
    (spent,) = files.read_rows(summaries / "spent.csv", {"labels": float})
    assert spent["labels"] == 9
    (gain,) = files.read_rows(summaries / "gains.csv", {"gain": float})
    shown = f"{100 * gain['gain']:+.1f}".replace("-", "\N{MINUS SIGN}").replace("+0.0", "0.0")
    page = (annotated.folder / "paper/own/worth.html").read_text()
    for part in (shown, "<td>annotated</td>", "<td>9</td>", "1 run of each arm"):
        assert part in page


def test_only_a_changed_answer_triggers_training_again(annotated, tmp_path):
    world = annotated.copy(tmp_path / "world")
    assert world.plan(*STUDY) == {}
    fill_in(world, dict.fromkeys(annotated.ids[1:], "red") | {annotated.ids[3]: "blue"})
    output = world.run(*STUDY)
    assert "Train mine on annotated" in output
    for message in ("Probe mine", "Evaluate mine on mine (base)", "Measure label-free signals"):
        assert message not in output
    path = "results/training/mine/mine/mini/annotated/seed0/provenance.json"
    assert (annotated.folder / path).read_text() != (world.folder / path).read_text()
