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
    assert (
        gains.keys() == learnable.keys()
        and len(gains) == 24
        and set(Counter(key[2] for key in gains).values()) == {6}
    )
    assert sum(gains.values()) == pytest.approx(495.5) and sum(learnable.values()) == pytest.approx(
        387.0
    )
    for model, task, _ in gains:
        assert (
            max(["hard", "middle", "easy", "random"], key=lambda policy: gains[model, task, policy])
            == "hard"
        )
    weak_gains = read_numbers("Table 3", "gain")
    assert len(weak_gains) == 4 == len(read_numbers("Table 3", "learnable"))
    assert max([*gains.values(), *weak_gains.values()]) == 40.33
    shares, gain_values = zip(*((learnable[key], gains[key]) for key in gains))
    assert np.corrcoef(shares, gain_values)[0, 1] ** 2 > 0.4
    pass_at_8 = read_numbers("Table 4", "pass_at_8")
    assert all(round(15 * share / 100, 1) % 1 == 0 for share in pass_at_8.values()), (
        "pass@8 must be a multiple of 1/15"
    )


def test_published_aime_results_have_exact_intervals_and_parts_that_add_up():
    """AIME 2025-I has 15 problems. The model trained on hard prompts solves 6 and the base model 5,
    and the interval of each share contains the other share. After training, more answers are boxed
    and a smaller share of these answers is correct. Finishing and correctness add up to the change
    in mean accuracy."""
    cell = {"model": "qwen3-4b", "task": "gsm8k", "eval_task": "aime2025", "seeds": 3}
    rows = compare(
        pass_at_k=[
            cell
            | {
                "policy": "hard",
                "k": 8,
                "base": 0.3,
                "pass": 0.5,
                "pass_low": 0.4,
                "pass_high": 0.6,
            }
        ]
    )
    intervals = {
        row["policy"]: (row["published_low"], row["published_high"])
        for row in rows
        if row["quantity"] == "pass_at_8"
    }
    assert intervals["hard"] == pytest.approx((0.163, 0.677), abs=0.001) and intervals[
        "base"
    ] == pytest.approx((0.118, 0.616), abs=0.001)
    answered, right = (
        read_numbers("released analysis", "answered"),
        read_numbers("released analysis", "accuracy_answered"),
    )
    finishing, correctness = (
        read_numbers("released analysis", "finishing"),
        read_numbers("released analysis", "correctness"),
    )
    assert len(answered) == len(right) == 5 and len(finishing) == 4
    base = ("qwen3-4b", "gsm8k", "base")
    for key in finishing:
        change = (answered[key] * right[key] - answered[base] * right[base]) / 100
        assert finishing[key] + correctness[key] == pytest.approx(change, abs=0.11), (
            "the parts differ from the change by more than rounding"
        )
        assert finishing[key] > 0 > correctness[key]


TABLES = {
    name: []
    for name in (
        "gains",
        "learnable",
        "pass_at_k",
        "accuracy",
        "parts",
        "catches_up",
        "regressions",
    )
}
CELL = {
    "model": "qwen3-4b",
    "task": "gsm8k",
    "eval_task": "gsm8k",
    "policy": "hard",
    "recipe": "as_written",
    "seeds": 3,
}


def compare(**tables) -> list[dict]:
    labelled_tables = {
        name: [
            row | {"arm": arms.label(row.get("policy", ""), row.get("recipe", ""), "as_written")}
            for row in rows
        ]
        for name, rows in tables.items()
    }
    return published.compare(TABLES | labelled_tables, ROWS, READINGS)


def gain_row(value, half_width=0.01, **columns) -> dict:
    return (
        CELL
        | {
            "decoding": "sampled",
            "gain": value,
            "gain_low": value - half_width,
            "gain_high": value + half_width,
        }
        | columns
    )


def test_a_gain_is_compared_with_the_published_gain():
    rows = compare(
        gains=[
            gain_row(0.34),
            gain_row(0.5, policy="easy"),
            gain_row(0.3, decoding="greedy"),
            gain_row(0.3, task="mine", eval_task="mine"),
        ]
    )
    assert [(r["policy"], r["place"], r["published"], r["here"], r["inside"]) for r in rows] == [
        ("easy", "Table 1", pytest.approx(0.0349), 0.5, False),
        ("hard", "Table 1", pytest.approx(0.3419), 0.34, True),
        ("easy", "abstract and blog", 0.47, 0.5, False),
    ]


def test_a_published_task_can_correspond_to_several_tasks():
    rows = compare(
        gains=[
            gain_row(0.1, task=task, eval_task=task)
            for task in ("shuffled_objects", "shuffled_objects_seven")
        ]
    )
    assert [(row["task"], row["published"]) for row in rows if row["quantity"] == "gain"] == [
        ("shuffled_objects", pytest.approx(0.136)),
        ("shuffled_objects_seven", pytest.approx(0.136)),
    ]


def test_a_number_is_the_same_if_it_rounds_to_the_printed_digits():
    is_equal = lambda value: compare(gains=[gain_row(value)])[0]["same_when_rounded"]
    assert is_equal(0.34194) and not is_equal(0.3421)


def test_the_base_model_and_transfer_between_tasks_are_compared():
    pass_row = CELL | {
        "eval_task": "aime2025",
        "k": 8,
        "pass": 0.4,
        "pass_low": 0.2,
        "pass_high": 0.6,
        "base": 1 / 3,
    }
    rows = compare(pass_at_k=[pass_row, pass_row | {"policy": "easy"}])
    assert Counter(row["policy"] for row in rows) == {"base": 1, "hard": 1, "easy": 1}
    assert next(row for row in rows if row["policy"] == "base")["here"] == pytest.approx(1 / 3)
    columns = {"model": "qwen2.5-3b-instruct", "eval_task": "math_numeric", "policy": "all"}
    (row,) = compare(
        gains=[gain_row(0.3, task="gsm8k_1024", **columns), gain_row(0.2, task="math", **columns)]
    )
    assert (row["quantity"], row["task"], row["published"], row["inside"]) == (
        "transfer_difference",
        "gsm8k_1024",
        0.03,
        False,
    )
    assert row["here"] == pytest.approx(0.1) and row["high"] - row["here"] == pytest.approx(
        0.01 * 2**0.5
    )


def test_averages_over_models_are_compared_with_the_averages_of_the_blog_post():
    """HE's blog post states average accuracies of 85 % (`base_wrong`) and 82 % (`all`), and a
    relative lead of `base_wrong` over `base_right_matched` of 14.3 %. The study's averages
    are means over all models, of which there must be more than one."""
    accuracy = [
        {
            "model": model,
            "task": "gsm8k",
            "eval_task": "gsm8k",
            "policy": policy,
            "decoding": "sampled",
            "step": 10,
            "seeds": 3,
        }
        | {"accuracy": value, "accuracy_low": value, "accuracy_high": value, "answered_mean": 1.0}
        for model, values in {"qwen3-4b": (0.8, 0.7, 0.75), "phi-4": (0.9, 0.8, 0.85)}.items()
        for policy, value in zip(("base_wrong", "base_right_matched", "all"), values)
    ]
    rows = [row for row in compare(accuracy=accuracy) if row["model"] == "average"]
    values = {(row["policy"], row["quantity"]): (row["published"], row["here"]) for row in rows}
    assert values["base_wrong", "accuracy"] == (0.85, pytest.approx(0.85)) and values[
        "all", "accuracy"
    ] == (0.82, pytest.approx(0.8))
    relative = values["base_wrong", "relative_to_base_right_matched"]
    assert relative == (pytest.approx(0.143), pytest.approx((0.8 / 0.7 + 0.9 / 0.8) / 2 - 1))
    one_model_rows = compare(accuracy=accuracy[:3])
    assert not [row for row in one_model_rows if row["model"] == "average"], (
        "expected no average over one model"
    )


def test_a_study_without_published_quantities_gives_no_rows():
    fits = [
        {"task": task, "predictor": predictor, "adjusted_for": adjusted_for, "r_squared": 0.5}
        for task, predictor, adjusted_for in [
            ("all", "learnable", ""),
            ("all", "learnable", "tokens"),
            ("all", "tokens", ""),
            ("gsm8k", "learnable", ""),
        ]
    ]
    tiny_gain = gain_row(0.34, model="tiny", task="swaps", eval_task="swaps")
    assert compare(gains=[tiny_gain], regressions=fits) == []
    assert [row["quantity"] for row in compare(gains=[gain_row(0.34)], regressions=fits)] == [
        "gain",
        "largest_gain",
        "r_squared",
    ]


def test_one_published_number_differs_from_the_recordings_as_its_note_says():
    """One published number was computed from rounded shares, as its note says."""
    rows = published.compare(
        summaries.read_tables(
            files.Tables.below(ROOT / "results/reference/recordings"), list(TABLES), ""
        ),
        ROWS,
        READINGS,
    )
    assert len(rows) == 20
    assert [(row["task"], row["quantity"]) for row in rows if not row["same_when_rounded"]] == [
        ("gsm8k_hard_test", "finishing_share")
    ]
    assert all(row["inside"] in (True, None) for row in rows)
