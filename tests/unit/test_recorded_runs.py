"""The table of recorded runs: differences of accuracy from the base model and from other runs over
the last five checkpoints, compared with a computation by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from conftest import ROOT
from hardgrpo.analysis import recorded_runs, summaries
from hardgrpo.analysis.cells import Cell
from hardgrpo.data import recorded_accuracies
from hardgrpo.report import tables
from hardgrpo.runtime import files
from made_up_cells import cell, evaluation

STEPS = (10, 20, 30, 40, 50, 60)
BASE = [0.0, 0.2, 0.3, 0.4, 0.9, 1.0]  # pass rates of six questions: the first three are hard


def base(samples: int = 10) -> pd.DataFrame:
    counts = [round(samples * rate) for rate in BASE]
    grades = {f"p{n}": [1] * right + [0] * (samples - right) for n, right in enumerate(counts)}
    return evaluation({0: grades})


def run_of(policy: str, seed: int, samples: int = 10, **columns) -> Cell:
    """A recorded run with three samples per question; `columns` replace columns of its grades."""
    draw = np.random.default_rng(seed).integers
    grades = {step: {f"p{n}": draw(0, 2, 3).tolist() for n in range(6)} for step in STEPS}
    return cell([base(samples)], [evaluation(grades, **columns)], policy, "recorded")


def rows_of(cells: list[Cell], published=()) -> dict[tuple, dict]:
    rows = recorded_runs.recorded_runs(cells, list(published))
    names = ("policy", "minus", "grading", "questions", "measure")
    by_key = {tuple(row[name] for name in names): row for row in rows}
    assert len(by_key) == len(rows)
    return by_key


def write_recording(folder, name: str, values: list[float], base_value: float) -> tuple:
    keys = {"measure": "accuracy", "base": base_value, "problems": None}
    rows = [
        keys | {"step": step, "at_most_percent": percent, "value": value}
        for percent in (100, 30, 50)
        for step, value in zip(STEPS, values)
    ]
    files.write_rows(folder / f"{name}.csv", list(recorded_accuracies.COLUMNS), rows)
    return "m", "t", name, str(folder / f"{name}.csv")


def test_published_accuracies_have_the_widest_interval_and_need_equal_base_models(tmp_path):
    runs = [
        write_recording(tmp_path, "all", [0.8] * 6, 0.5),
        write_recording(tmp_path, "hard30", [0.1, 0.7, 0.7, 0.7, 0.7, 0.7], 0.5),
        write_recording(tmp_path, "random_42", [0.6] * 6, 0.4),
    ]
    rows = rows_of([run_of("all", 6)], runs)
    rows = {key: row for key, row in rows.items() if key[2] == "published"}
    with_base = {(name, "base") for name in ("all", "hard30", "random_42")}
    assert {key[:2] for key in rows} == with_base | {("hard30", "all")}
    row = rows["hard30", "all", "published", "all", "accuracy"]
    half = stats.t.ppf(0.975, 5) * ((0.7 * 0.3 + 0.8 * 0.2) / 5) ** 0.5
    values = [row["difference"], row["difference_low"], row["difference_high"], row["problems"]]
    assert values == pytest.approx([-0.1, -0.1 - half, -0.1 + half, 6])
    gain = rows["hard30", "base", "published", "hard", "accuracy"]
    assert gain["difference"] == pytest.approx(0.2)
    assert {key[3] for key in rows} == {"all", "hard"}, "no rows of pass rates up to 50 %"


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
    rows = summaries.read(COMMITTED).query(
        f"model == '{model}-recorded' and task == 'shuffled_objects_seven' and policy == 'hard30'"
        " and minus == 'all' and questions == 'all' and measure == 'accuracy'"
    )
    rows = rows.set_index("grading")
    # the independent analysis accepts every notation of an answer's letter
    row = 100 * rows.loc["lenient" if "lenient" in rows.index else "task"].filter(like="diff")
    assert row.difference == pytest.approx(difference, abs=0.06)
    assert (row.difference_low, row.difference_high) == pytest.approx((low, high), abs=0.35)


def test_the_paper_shows_a_contrast_in_one_row_and_says_that_there_is_one_run_each():
    frame, columns = tables.make("recorded", {"recorded_runs": summaries.read(COMMITTED)}, {})
    assert len(frame) == len(frame.drop_duplicates(tables.RECORDED_KEYS))
    assert all(len(column.cells) == len(frame) for column in columns)
    assert "one run each" in tables.TABLES["recorded"].caption


def test_a_published_difference_is_shown_only_if_completions_for_it_are_missing():
    frame = tables.recorded_accuracies(summaries.read(COMMITTED)).query("grading == 'published'")
    pairs = set(zip(frame.policy, frame.minus))
    assert ("hard30", "random_42") in pairs and ("hard30", "all") not in pairs
