"""The table of recorded runs: differences of accuracy from the base model and from other runs over
the last five checkpoints, compared with a computation by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from conftest import ROOT
from hardgrpo.analysis import recorded_runs, statistics, summaries, summary_tables
from hardgrpo.analysis.cells import Cell
from hardgrpo.data import recorded_accuracies
from hardgrpo.report import tables
from hardgrpo.runtime import files

STEPS = (10, 20, 30, 40, 50, 60)
# pass rates of six questions, ten samples each: the first three are hard
BASE = [0.0, 0.2, 0.3, 0.4, 0.9, 1.0]


def frame(
    grades: dict[int, list[list[int]]], answered: int = 1, lenient: int | None = None
) -> pd.DataFrame:
    """An evaluation from {step: [[grade of each sample] of each question]}. Wrong completions are
    answered if `answered` is 1; `lenient` replaces the lenient grade of every completion."""
    rows = [
        {
            "step": step,
            "id": f"p{n}",
            "tier": "7",
            "decoding": "sampled",
            "sample": sample,
            "correct": grade,
        }
        | {"answered": max(grade, answered), "lenient": grade if lenient is None else lenient}
        for step, questions in grades.items()
        for n, samples in enumerate(questions)
        for sample, grade in enumerate(samples)
    ]
    return pd.DataFrame(rows)


def base(samples: int = 10) -> pd.DataFrame:
    return frame(
        {0: [[int(sample < round(samples * rate)) for sample in range(samples)] for rate in BASE]}
    )


def cell(policy: str, seed: int, bases: pd.DataFrame, **changes) -> Cell:
    draw = np.random.default_rng(seed)
    run = frame({step: draw.integers(0, 2, (6, 3)).tolist() for step in STEPS}, **changes)
    return Cell("m", "t", "t", policy, "recorded", [bases], [run], [0])


def rows_of(cells: list[Cell], published=()) -> dict[tuple, dict]:
    rows = recorded_runs.recorded_runs(cells, list(published))
    assert all(list(row) == summary_tables.all_tables()["recorded_runs"].columns for row in rows)
    by_key = {
        tuple(row[name] for name in ("policy", "minus", "grading", "questions", "measure")): row
        for row in rows
    }
    assert len(by_key) == len(rows)
    return by_key


def last_rates(cell: Cell) -> np.ndarray:
    return np.mean([cell.rates(step)[0] for step in STEPS[1:]], axis=0)


def test_a_subset_is_compared_with_all_prompts_over_the_last_five_checkpoints():
    everything, hard = cell("all", 1, base()), cell("hard30", 2, base())
    rows = rows_of([everything, hard])
    assert {key[:2] for key in rows} == {("all", "base"), ("hard30", "base"), ("hard30", "all")}
    differences = last_rates(hard) - last_rates(everything)
    for questions, values in (("all", differences), ("hard", differences[:3])):
        row = rows["hard30", "all", "task", questions, "accuracy"]
        expected = statistics.mean_interval(values[None])
        interval = [row["difference"], row["difference_low"], row["difference_high"]]
        assert interval == pytest.approx([expected.estimate, expected.low, expected.high])
        assert row["value"] - row["minus_value"] == pytest.approx(expected.estimate)
        parts = [
            rows["hard30", "all", "task", questions, part]["difference"]
            for part in ("finishing", "correctness")
        ]
        assert sum(parts) == pytest.approx(expected.estimate)
        assert (row["problems"], row["checkpoints"]) == (len(values), 5)


def test_a_gain_subtracts_the_base_model_and_pass_at_k_needs_one_right_sample():
    run = cell("all", 3, base())
    rows = rows_of([run])
    gain = rows["all", "base", "task", "all", "accuracy"]
    assert gain["minus_value"] == pytest.approx(np.mean(BASE)) and gain["value"] == pytest.approx(
        last_rates(run).mean()
    )
    passes = rows["all", "base", "task", "all", "pass@3"]
    solved = [(run.rates(step)[0] > 0).mean() for step in STEPS[1:]]
    assert passes["value"] == pytest.approx(np.mean(solved))
    assert passes["minus_value"] == pytest.approx(
        np.mean([statistics.pass_at_k(10, round(10 * rate), 3) for rate in BASE])
    )


def test_finishing_is_separated_from_correctness():
    silent = frame({0: [[0] * 10, [1] * 10]}, answered=0)
    run = frame({10: [[1] * 3, [1] * 3], 20: [[1] * 3, [1] * 3]})
    rows = rows_of([Cell("m", "t", "t", "all", "recorded", [silent], [run], [0])])
    row = rows["all", "base", "task", "all", "finishing"]
    assert (row["difference"], row["checkpoints"], row["value"]) == (pytest.approx(0.5), 2, None)


def test_without_several_samples_of_the_base_model_no_question_is_called_hard():
    assert {key[3] for key in rows_of([cell("all", 4, base(samples=1))])} == {"all"}


def test_a_lenient_grade_is_shown_if_it_differs_from_the_strict_grade():
    assert {key[2] for key in rows_of([cell("all", 5, base())])} == {"task"}
    rows = rows_of([cell("all", 5, base(), lenient=1)])
    assert rows["all", "base", "lenient", "all", "accuracy"]["value"] == 1


def write_recording(
    folder, name: str, values: list[float], base_value: float
) -> tuple[str, str, str, str]:
    rows = [
        {
            "step": step,
            "measure": "accuracy",
            "at_most_percent": percent,
            "value": value,
            "base": base_value,
            "problems": None,
        }
        for percent in (100, 30, 50)
        for step, value in zip(STEPS, values)
    ]
    files.write_rows(folder / f"{name}.csv", list(recorded_accuracies.COLUMNS), rows)
    return "m", "t", name, str(folder / f"{name}.csv")


def test_published_accuracies_have_the_widest_interval_and_runs_of_different_base_models_are_not_compared(
    tmp_path,
):
    runs = [
        write_recording(tmp_path, "all", [0.8] * 6, 0.5),
        write_recording(tmp_path, "hard30", [0.1, 0.7, 0.7, 0.7, 0.7, 0.7], 0.5),
        write_recording(tmp_path, "random_42", [0.6] * 6, 0.4),
    ]
    rows = {
        key: row
        for key, row in rows_of([cell("all", 6, base())], runs).items()
        if key[2] == "published"
    }
    assert {key[:2] for key in rows} == {
        ("all", "base"),
        ("hard30", "base"),
        ("random_42", "base"),
        ("hard30", "all"),
    }
    row = rows["hard30", "all", "published", "all", "accuracy"]
    half = stats.t.ppf(0.975, 5) * ((0.7 * 0.3 + 0.8 * 0.2) / 5) ** 0.5
    values = [row["difference"], row["difference_low"], row["difference_high"], row["problems"]]
    assert values == pytest.approx([-0.1, -0.1 - half, -0.1 + half, 6])
    gain = rows["hard30", "base", "published", "hard", "accuracy"]
    assert gain["difference"] == pytest.approx(0.2)
    assert {key[3] for key in rows} == {"all", "hard"}, (
        "only questions with pass rates up to 30 % are hard: there must be no rows for up to 50 %"
    )


# --- the committed table

COMMITTED = ROOT / "results/reference/recordings/recorded_runs.csv"


@pytest.mark.parametrize(
    # percentage points, with intervals from a bootstrap over questions that was computed
    # independently of this project
    ("model", "difference", "low", "high"),
    [
        ("qwen3-4b", -11.2, -15.6, -7.3),
        ("qwen3-8b", -6.0, -8.9, -3.2),
        ("qwen3-14b", 0.8, -1.6, 3.4),
    ],
)
def test_hard30_minus_all_equals_an_independent_analysis(model, difference, low, high):
    table = summaries.read(COMMITTED)
    keys = {
        "model": f"{model}-recorded",
        "task": "shuffled_objects_seven",
        "policy": "hard30",
        "minus": "all",
    }
    keys |= {"questions": "all", "measure": "accuracy"}
    rows = table[(table[list(keys)] == pd.Series(keys)).all(axis=1)].set_index("grading")
    # the independent analysis accepts every notation of an answer's letter
    row = rows.loc["lenient" if "lenient" in rows.index else "task"]
    assert 100 * row.difference == pytest.approx(difference, abs=0.06)
    assert (100 * row.difference_low, 100 * row.difference_high) == pytest.approx(
        (low, high), abs=0.35
    )


@pytest.mark.parametrize("name", ["recorded", "recorded_parts"])
def test_the_paper_shows_a_contrast_in_one_row_and_says_that_there_is_one_run_each(name):
    frame, columns = tables.make(name, {"recorded_runs": summaries.read(COMMITTED)}, {})
    assert len(frame) == len(frame.drop_duplicates(tables.RECORDED_KEYS))
    assert all(len(column.cells) == len(frame) for column in columns)
    assert "one run each" in tables.TABLES[name].caption


def test_a_published_difference_is_shown_only_if_completions_for_it_are_missing():
    frame = tables.recorded_accuracies(summaries.read(COMMITTED))
    published_rows = frame[frame.grading == "published"]
    assert ("hard30", "random_42") in set(zip(published_rows.policy, published_rows.minus)) and (
        "hard30",
        "all",
    ) not in set(zip(published_rows.policy, published_rows.minus))
