"""Tables of published numbers are complete, and a study's numbers are compared with the
corresponding published numbers."""

from collections import Counter

import numpy as np
import pytest

import project_config
from conftest import ROOT
from hardgrpo.analysis import arms, published, summaries
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

CONFIG = project_config.config()
FOLDER = ROOT / "results/published"
ROWS = published.read(FOLDER)
READINGS = published.read_readings(FOLDER)
UNITS = {*published.SCALE, "characters", "tokens_per_second", "factor"}


def test_every_number_names_its_place_and_known_things():
    for row in ROWS:
        assert row["paper"] in {"HE", "LDS", "TRL", "verl", "here", "elsewhere"} and row["place"], (
            row
        )
        assert row["model"] in {"", "average", *CONFIG["models"]} and row["unit"] in UNITS, row
        assert {row["task"], row["eval_task"]} <= {"", *CONFIG["tasks"]}, row
        assert row["policy"] in {"", "base", "checkpoint", "unknown_subset", *CONFIG["policies"]}, (
            row
        )
        assert (
            np.isfinite(row["number"]) and row["number"] / published.SCALE.get(row["unit"], 1e5) < 1
        ), row
    assert {task for _, task in READINGS} <= CONFIG["tasks"].keys()
    assert {
        task for row in ROWS for task in (row["task"], row["eval_task"]) if row["policy"] and task
    } <= {t for t, _ in READINGS}
    written = (FOLDER / "README.md").read_text()
    assert all(path.name in written for path in FOLDER.glob("*.csv"))


def of(place: str, quantity: str) -> dict:
    return {
        (row["model"], row["task"], row["policy"]): row["number"]
        for row in ROWS
        if (row["place"], row["quantity"]) == (place, quantity)
    }


def test_the_tables_are_whole():
    """The tables have 24 cells (3 models, 2 tasks, 4 policies) and satisfy known facts."""
    gains, learnable = of("Table 1", "gain"), of("Table 2", "learnable")
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
    weak = of("Table 3", "gain")
    assert len(weak) == 4 == len(of("Table 3", "learnable"))
    assert max([*gains.values(), *weak.values()]) == 40.33
    x, y = zip(*((learnable[key], gains[key]) for key in gains))
    assert np.corrcoef(x, y)[0, 1] ** 2 > 0.4
    aime = of("Table 4", "pass_at_8")
    assert all(round(15 * share / 100, 1) % 1 == 0 for share in aime.values()), (
        "pass@8 must be a multiple of 1/15"
    )
    # The alternative explanation: over the eight Qwen cells on GSM8K, length explains the gain.
    lengths = {
        key: value
        for key, value in of("released files", "mean_characters").items()
        if key[0].startswith("qwen")
    }
    assert np.corrcoef(*zip(*((lengths[key], gains[key]) for key in lengths)))[
        0, 1
    ] ** 2 == pytest.approx(0.97, abs=0.005)


def test_one_problem_of_fifteen_is_within_the_exact_interval_of_every_policy():
    """AIME 2025-I: 6 of 15 compared with 5 of 15. More answers are boxed and fewer of them are
    correct; the two parts add up to the change in mean accuracy."""
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
    ends = {
        row["policy"]: (row["published_low"], row["published_high"])
        for row in rows
        if row["quantity"] == "pass_at_8"
    }
    assert ends["hard"] == pytest.approx((0.163, 0.677), abs=0.001) and ends[
        "base"
    ] == pytest.approx((0.118, 0.616), abs=0.001)
    answered, right = (
        of("released analysis", "answered"),
        of("released analysis", "accuracy_answered"),
    )
    finishing, correctness = (
        of("released analysis", "finishing"),
        of("released analysis", "correctness"),
    )
    assert len(answered) == len(right) == 5 and len(finishing) == 4
    base = ("qwen3-4b", "gsm8k", "base")
    for key in finishing:
        change = (answered[key] * right[key] - answered[base] * right[base]) / 100
        assert finishing[key] + correctness[key] == pytest.approx(change, abs=0.11), "rounded"
        assert finishing[key] > 0 > correctness[key]


TABLES = {
    name: []
    for name in ("gains", "learnable", "pass_at_k", "accuracy", "parts", "catches_up", "fit")
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
    labelled = {
        name: [
            row | {"arm": arms.label(row.get("policy", ""), row.get("recipe", ""), "as_written")}
            for row in rows
        ]
        for name, rows in tables.items()
    }
    return published.compare(TABLES | labelled, ROWS, READINGS)


def gain(value, half=0.01, **columns) -> dict:
    return (
        CELL
        | {
            "decoding": "sampled",
            "gain": value,
            "gain_low": value - half,
            "gain_high": value + half,
        }
        | columns
    )


def test_a_gain_stands_beside_the_published_one():
    rows = compare(
        gains=[
            gain(0.34),
            gain(0.5, policy="easy"),
            gain(0.3, decoding="greedy"),
            gain(0.3, task="mine", eval_task="mine"),
        ]
    )
    assert [(r["policy"], r["place"], r["published"], r["here"], r["inside"]) for r in rows] == [
        ("easy", "Table 1", pytest.approx(0.0349), 0.5, False),
        ("hard", "Table 1", pytest.approx(0.3419), 0.34, True),
        ("easy", "abstract and blog", 0.47, 0.5, False),
    ]


def test_a_published_task_may_be_read_in_several_ways():
    rows = compare(
        gains=[
            gain(0.1, task=task, eval_task=task)
            for task in ("shuffled_objects", "shuffled_objects_seven")
        ]
    )
    assert [(row["task"], row["published"]) for row in rows if row["quantity"] == "gain"] == [
        ("shuffled_objects", pytest.approx(0.136)),
        ("shuffled_objects_seven", pytest.approx(0.136)),
    ]


def test_a_number_is_the_same_as_far_as_it_was_printed():
    is_equal = lambda value: compare(gains=[gain(value)])[0]["same_when_rounded"]
    assert is_equal(0.34194) and not is_equal(0.3421)


def test_the_base_model_and_transfer_between_tasks():
    passes = CELL | {
        "eval_task": "aime2025",
        "k": 8,
        "pass": 0.4,
        "pass_low": 0.2,
        "pass_high": 0.6,
        "base": 1 / 3,
    }
    rows = compare(pass_at_k=[passes, passes | {"policy": "easy"}])
    assert Counter(row["policy"] for row in rows) == {"base": 1, "hard": 1, "easy": 1}
    assert next(row for row in rows if row["policy"] == "base")["here"] == pytest.approx(1 / 3)
    numeric = {"model": "qwen2.5-3b-instruct", "eval_task": "math_numeric", "policy": "all"}
    (row,) = compare(
        gains=[gain(0.3, task="gsm8k_1024", **numeric), gain(0.2, task="math", **numeric)]
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


def test_averages_over_models_stand_beside_the_blog_posts():
    """The blog post states 85 and 82 % on average and a relative lead of 14.3 %: means over the
    models that have all policies."""
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
    alone = compare(accuracy=accuracy[:3])
    assert not [row for row in alone if row["model"] == "average"], "one model is no average"


def test_studies_that_measured_nothing_that_was_published_give_no_rows():
    fit = {"task": "all", "r_squared": 0.5, "r_squared_low": 0.1, "r_squared_high": 0.8}
    assert (
        compare(gains=[gain(0.34, model="tiny", task="swaps", eval_task="swaps")], fit=[fit]) == []
    )
    assert [row["quantity"] for row in compare(gains=[gain(0.34)], fit=[fit])] == [
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


def test_a_broken_file_is_reported(tmp_path):
    with pytest.raises(UserError, match="no published numbers"):
        published.read(tmp_path)
    files.write_rows(
        tmp_path / "gains.csv", published.COLUMNS, [dict.fromkeys(published.COLUMNS, "x")]
    )
    with pytest.raises(
        UserError, match=r"gains\.csv: row 2: column 'value' is 'x', expected a number"
    ):
        published.read(tmp_path)
