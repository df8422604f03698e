"""The supplement's tables of recorded runs: the mean accuracy of a run's last checkpoints, and its
difference from the accuracy of the base model or of another run."""

import pandas as pd

from hardgrpo.analysis.columns import interval
from hardgrpo.report.table_columns import Column, arrow, change, key_columns, problems, text

KEYS = ["model", "task", "policy", "minus", "grading", "questions"]


def recorded(recorded_runs: pd.DataFrame):
    frame = last_checkpoints(recorded_runs)
    return frame, [
        *_keys(frame),
        text(frame, "grading", "grading"),
        arrow(frame, "minus_value", "value", "accuracy %"),
        change(frame, "difference", "difference"),
        problems(frame),
    ]


def recorded_parts(recorded_runs: pd.DataFrame):
    frame = last_checkpoints(recorded_runs)
    frame = frame[frame.grading == "task"].reset_index(drop=True)
    for name in ("finishing", "correctness", "pass@k"):
        is_measure = recorded_runs.measure.astype(str).str.startswith(name.removesuffix("k"))
        names = dict(zip(interval("difference"), interval(name)))
        part = recorded_runs[is_measure & _is_last(recorded_runs)][
            [*KEYS, *interval("difference")]
        ].rename(columns=names)
        frame = frame.merge(part, on=KEYS, how="left")
    measures = [change(frame, name, name) for name in ("finishing", "correctness", "pass@k")]
    return frame, [*_keys(frame), *measures, problems(frame)]


def last_checkpoints(recorded_runs: pd.DataFrame) -> pd.DataFrame:
    """The rows of accuracy over the last checkpoints. A published accuracy is left out if the table
    also has an accuracy that was graded here from the run's completions."""
    last = recorded_runs[_is_last(recorded_runs) & (recorded_runs.measure == "accuracy")]
    graded = pd.MultiIndex.from_frame(last[last.grading == "task"][KEYS[:4]])
    has_completions = pd.MultiIndex.from_frame(last[KEYS[:4]]).isin(graded)
    return last[(last.grading != "published") | ~has_completions].reset_index(drop=True)


def _is_last(recorded_runs: pd.DataFrame) -> pd.Series:
    return recorded_runs["at"].astype(str).str.startswith("last_")


def _keys(frame: pd.DataFrame) -> list[Column]:
    names = {"policy": "run", "minus": "minus", "questions": "questions"}
    return [
        *key_columns(frame, "model", "task"),
        *(text(frame, name, header) for name, header in names.items()),
    ]
