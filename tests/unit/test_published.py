"""Tables of published numbers are complete, and a study's numbers are compared with the
corresponding published numbers."""

from collections import Counter

import numpy as np
import pytest

import project_config
from conftest import ROOT
from hardgrpo.analysis import arms, published, summaries
from hardgrpo.runtime import files

CONFIG = project_config.config()
FOLDER = ROOT / "results/published"
ROWS = published.read(FOLDER)
READINGS = published.read_readings(FOLDER)


def test_every_number_has_a_place_a_unit_and_names_of_the_configuration():
    for row in ROWS:
        assert row["paper"] in {"HE", "LDS"} and row["place"], row
        assert row["model"] in {"", "average", *CONFIG["models"]}, row
        assert {row["task"], row["eval_task"]} <= {"", *CONFIG["tasks"]}, row
        assert row["policy"] in {"", "base", "checkpoint", "unknown_subset", *CONFIG["policies"]}, (
            row
        )
        assert np.isfinite(row["number"]) and row["number"] / published.SCALE[row["unit"]] < 1, row
    assert {task for _, task in READINGS} <= CONFIG["tasks"].keys()
    assert {
        task for row in ROWS for task in (row["task"], row["eval_task"]) if row["policy"] and task
    } <= {t for t, _ in READINGS}
    readme = (FOLDER / "README.md").read_text()
    assert all(path.name in readme for path in FOLDER.glob("*.csv"))


def read_numbers(place: str, quantity: str) -> dict:
    return {
        (row["model"], row["task"], row["policy"]): row["number"]
        for row in ROWS
        if (row["place"], row["quantity"]) == (place, quantity)
    }


def test_the_tables_are_complete():
    """HE's Tables 1 and 2 have 24 cells each (3 models, 2 tasks, 4 policies). Sums, maxima and
    correlations would reveal a changed number."""
    gains, learnable = read_numbers("Table 1", "gain"), read_numbers("Table 2", "learnable")
    assert gains.keys() == learnable.keys() and len(gains) == 24
    assert set(Counter(policy for *_, policy in gains).values()) == {6}
    assert sum(gains.values()) == pytest.approx(495.5)
    assert sum(learnable.values()) == pytest.approx(387.0)
    for model, task, _ in gains:
        by_policy = {
            name: gains[model, task, name] for name in ("hard", "middle", "easy", "random")
        }
        assert max(by_policy, key=by_policy.get) == "hard"
    weak_gains = read_numbers("Table 3", "gain")
    assert len(weak_gains) == 4 == len(read_numbers("Table 3", "learnable"))
    assert max([*gains.values(), *weak_gains.values()]) == 40.33
    shares, gain_values = zip(*((learnable[key], gains[key]) for key in gains))
    assert np.corrcoef(shares, gain_values)[0, 1] ** 2 > 0.4
    solved = [15 * share / 100 for share in read_numbers("Table 4", "pass_at_8").values()]
    assert solved == pytest.approx(np.round(solved), abs=0.05), "pass@8 is a multiple of 1/15"


def test_published_aime_results_have_exact_intervals_and_parts_that_add_up():
    """AIME 2025-I has 15 problems. The model trained on hard prompts solves 6 and the base model 5,
    and the interval of each share contains the other share. After training, more answers are boxed
    and a smaller share of these answers is correct. Finishing and correctness add up to the change
    in mean accuracy."""
    rows = compare(pass_at_k=[PASS_AT_8 | {"base": 0.3, "pass": 0.5}])
    ends = {row["policy"]: [row["published_low"], row["published_high"]] for row in rows}
    assert ends["hard"] == pytest.approx([0.163, 0.677], abs=0.001)
    assert ends["base"] == pytest.approx([0.118, 0.616], abs=0.001)
    answered, right, finishing, correctness = (
        read_numbers("released analysis", quantity)
        for quantity in ("answered", "accuracy_answered", "finishing", "correctness")
    )
    assert len(answered) == len(right) == 5 and len(finishing) == 4
    base = ("qwen3-4b", "gsm8k", "base")
    for key in finishing:
        change = (answered[key] * right[key] - answered[base] * right[base]) / 100
        # the parts are rounded
        assert finishing[key] + correctness[key] == pytest.approx(change, abs=0.11)
        assert finishing[key] > 0 > correctness[key]


CELL = {"model": "qwen3-4b", "task": "gsm8k", "eval_task": "gsm8k", "seeds": 3}
CELL |= {"policy": "hard", "recipe": "as_written"}
PASS_AT_8 = CELL | {"eval_task": "aime2025", "k": 8, "pass_low": 0.2, "pass_high": 0.6}


def compare(**tables) -> list[dict]:
    label = lambda row: arms.label(row.get("policy", ""), row.get("recipe", ""), "as_written")
    labelled = {name: [row | {"arm": label(row)} for row in rows] for name, rows in tables.items()}
    return published.compare(dict.fromkeys(published.TABLES, []) | labelled, ROWS, READINGS)


def gain_row(value, half=0.01, **columns) -> dict:
    interval = {"gain": value, "gain_low": value - half, "gain_high": value + half}
    return CELL | {"decoding": "sampled"} | interval | columns


def test_a_gain_is_compared_with_the_published_gain():
    mine = gain_row(0.3, task="mine", eval_task="mine")
    others = [gain_row(0.5, policy="easy"), gain_row(0.3, decoding="greedy"), mine]
    rows = compare(gains=[gain_row(0.34), *others])
    assert [(r["policy"], r["place"], r["published"], r["here"], r["inside"]) for r in rows] == [
        ("easy", "Table 1", pytest.approx(0.0349), 0.5, False),
        ("hard", "Table 1", pytest.approx(0.3419), 0.34, True),
        ("easy", "abstract and blog", 0.47, 0.5, False),
    ]


def test_a_published_task_can_correspond_to_several_tasks():
    names = ("shuffled_objects", "shuffled_objects_seven")
    rows = compare(gains=[gain_row(0.1, task=name, eval_task=name) for name in names])
    assert [(row["task"], row["published"]) for row in rows if row["quantity"] == "gain"] == [
        ("shuffled_objects", pytest.approx(0.136)),
        ("shuffled_objects_seven", pytest.approx(0.136)),
    ]


def test_the_base_model_and_transfer_between_tasks_are_compared():
    row = PASS_AT_8 | {"pass": 0.4, "base": 1 / 3}
    rows = compare(pass_at_k=[row, row | {"policy": "easy"}])
    here = {row["policy"]: row["here"] for row in rows}
    assert here == {"base": pytest.approx(1 / 3), "hard": 0.4, "easy": 0.4} and len(rows) == 3
    columns = {"model": "qwen2.5-3b-instruct", "eval_task": "math_numeric", "policy": "all"}
    tasks = {"gsm8k_1024": 0.3, "math": 0.2}
    (row,) = compare(gains=[gain_row(gain, task=task, **columns) for task, gain in tasks.items()])
    names = ("quantity", "task", "published", "inside")
    assert [row[name] for name in names] == ["transfer_difference", "gsm8k_1024", 0.03, False]
    assert row["here"] == pytest.approx(0.1)
    assert row["high"] - row["here"] == pytest.approx(0.01 * 2**0.5)


def test_averages_over_models_are_compared_with_the_averages_of_the_blog_post():
    """HE's blog post states average accuracies of 85 % (`base_wrong`) and 82 % (`all`), and a
    relative lead of `base_wrong` over `base_right_matched` of 14.3 %. The study's averages
    are means over all models, of which there must be more than one."""
    keys = CELL | {"decoding": "sampled", "step": 10, "answered_mean": 1.0}
    by_model = {"qwen3-4b": (0.8, 0.7, 0.75), "phi-4": (0.9, 0.8, 0.85)}
    accuracy = [
        keys | {"model": model, "policy": policy, "accuracy": value}
        for model, values in by_model.items()
        for policy, value in zip(("base_wrong", "base_right_matched", "all"), values)
    ]
    rows = [row for row in compare(accuracy=accuracy) if row["model"] == "average"]
    values = {(row["policy"], row["quantity"]): (row["published"], row["here"]) for row in rows}
    assert values["base_wrong", "accuracy"] == (0.85, pytest.approx(0.85))
    assert values["all", "accuracy"] == (0.82, pytest.approx(0.8))
    relative = values["base_wrong", "relative_to_base_right_matched"]
    assert relative == (pytest.approx(0.143), pytest.approx((0.8 / 0.7 + 0.9 / 0.8) / 2 - 1))
    one_model = compare(accuracy=accuracy[:3])
    assert "average" not in {row["model"] for row in one_model}, "an average over one model"


def test_one_published_number_differs_from_the_recordings_as_its_note_says():
    """One published number was computed from rounded shares, as its note says."""
    recordings = files.Tables.below(ROOT / "results/reference/recordings")
    tables = summaries.read_tables(recordings, published.TABLES, "")
    rows = published.compare(tables, ROWS, READINGS)
    assert len(rows) == 20
    assert [(row["task"], row["quantity"]) for row in rows if not row["same_when_rounded"]] == [
        ("gsm8k_hard_test", "finishing_share")
    ]
    assert all(row["inside"] in (True, None) for row in rows)


def test_a_number_is_the_same_if_it_rounds_to_the_printed_digits():
    is_equal = lambda value: compare(gains=[gain_row(value)])[0]["same_when_rounded"]
    assert is_equal(0.34194) and not is_equal(0.3421)
