"""The paper's tables of gains split into finishing and correctness."""

import pandas as pd

from hardgrpo.analysis.columns import CELL
from hardgrpo.analysis.formats import signed, whole
from hardgrpo.report.cells import Column, arrow, design, estimate, named, number, seeds


def parts(parts: pd.DataFrame):
    return parts, [
        *named(parts, *CELL),
        arrow(parts, "base_answered", "answered", "answered %"),
        arrow(parts, "base_accuracy_answered", "accuracy_answered", "right if so %"),
        *gain_and_parts(parts),
        *design(parts),
    ]


def graders(decomposition: pd.DataFrame):
    frame = at_the_end(decomposition)
    frame = frame[frame.tier.isna()]
    return frame, [
        *named(frame, *CELL, "grading"),
        arrow(frame, "base_truncated", "truncated", "cut off %"),
        arrow(frame, "base_tokens", "tokens", "tokens", whole),
        *gain_and_parts(frame),
        seeds(frame),
    ]


def tier_parts(decomposition: pd.DataFrame):
    frame = at_the_end(decomposition)
    frame = frame[frame.tier.notna() & (frame.grading == "task")]
    return frame, [
        *named(frame, *CELL, "tier"),
        arrow(frame, "base_answered", "answered", "answered %"),
        *gain_and_parts(frame),
        *design(frame),
    ]


def at_the_end(decomposition: pd.DataFrame) -> pd.DataFrame:
    return decomposition[decomposition.step == decomposition.groupby(CELL).step.transform("max")]


def gain_and_parts(frame: pd.DataFrame) -> list[Column]:
    return [number(frame, "gain", "gain", signed), *(estimate(frame, part, part) for part in ("finishing", "correctness"))]
