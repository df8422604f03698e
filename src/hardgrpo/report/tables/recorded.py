"""The paper's table of recorded runs: the mean of their last checkpoints, less the base model and less other runs."""

import pandas as pd

from hardgrpo.analysis.columns import interval
from hardgrpo.analysis.formats import integer, signed_interval
from hardgrpo.report.table_columns import arrow, estimate, key_columns, number, problems, text

KEYS = ["model", "task", "policy", "minus", "grading", "questions", "checkpoints", "problems"]
PARTS = ["finishing", "correctness"]


def recorded(recorded_runs: pd.DataFrame):
    last = recorded_runs[recorded_runs["at"].astype(str).str.startswith("last_")]
    by_measure = lambda is_measure, name: last[is_measure][[*KEYS[:6], *interval("difference")]].rename(
        columns=dict(zip(interval("difference"), interval(name)))
    )
    frame = last[last.measure == "accuracy"][[*KEYS, "value", "minus_value", *interval("difference")]]
    for name in PARTS:
        frame = frame.merge(by_measure(last.measure == name, name), on=KEYS[:6], how="left")
    frame = frame.merge(by_measure(last.measure.astype(str).str.startswith("pass@"), "passes"), on=KEYS[:6], how="left")
    return frame, [
        *key_columns(frame, "model", "task"),
        text(frame, "policy", "run"),
        text(frame, "minus", "less"),
        text(frame, "questions", "questions"),
        text(frame, "grading", "graded"),
        arrow(frame, "minus_value", "value", "accuracy %"),
        estimate(frame, "difference", "difference", signed_interval),
        *(estimate(frame, name, name, signed_interval) for name in PARTS),
        estimate(frame, "passes", "pass@k", signed_interval),
        number(frame, "checkpoints", "checkpoints", integer, "{} checkpoints"),
        problems(frame),
    ]
