"""The supplement's tables of the parts and kinds of gains, of sound answers, of equal answers, and
of majority votes."""

import pandas as pd

from hardgrpo.analysis.columns import CELL
from hardgrpo.analysis.formats import integer, round_parts, signed
from hardgrpo.analysis.summaries import own_test_rows
from hardgrpo.report.table_columns import (
    K_NOTE,
    Column,
    K,
    arrow,
    change,
    design,
    in_points,
    key_columns,
    number,
    seeds,
    with_several_tiers,
)

ARM_CELL = ("model", "task", "eval_task", "arm")


def parts(parts: pd.DataFrame):
    return parts, [
        *key_columns(parts, *ARM_CELL),
        arrow(parts, "base_answered", "answered", "answered, %"),
        arrow(parts, "base_accuracy_answered", "accuracy_answered", "right if answered, %"),
        *gain_and_parts(parts),
        *design(parts),
    ]


def kinds(kinds: pd.DataFrame):
    frame = kinds[kinds.tier.isna()]
    return frame, [
        *key_columns(frame, *ARM_CELL),
        *_kinds(frame),
        change(frame, "greedy_gain", "greedy gain"),
        *design(frame),
    ]


def tier_kinds(kinds: pd.DataFrame):
    frame = with_several_tiers(own_test_rows(kinds[kinds.tier.notna()]))
    return frame, [*key_columns(frame, *ARM_CELL, "tier"), *_kinds(frame), *design(frame)]


def _kinds(frame: pd.DataFrame) -> list[Column]:
    return [
        number(frame, "out_of_reach", "out %"),
        *_parts(frame, ["finishing", "sharpening", "new_solving"]),
    ]


def reasons(reasons: pd.DataFrame):
    return reasons, [
        *key_columns(reasons, *ARM_CELL),
        arrow(reasons, "base_sound_share", "sound_share", "every step right, of right answers %"),
        change(reasons, "sound_gain", "gain, every step right"),
        change(reasons, "lucky_gain", "gain, a step wrong"),
        *design(reasons),
    ]


def same_answers(same_answers: pd.DataFrame):
    return same_answers, [
        *key_columns(same_answers, *ARM_CELL),
        arrow(same_answers, "base_same", "same", "same answer %"),
        change(same_answers, "change", "change"),
        arrow(same_answers, "base_entropy", "entropy", "entropy, bits", "{:.2f}".format),
        *design(same_answers),
    ]


def majority(majority: pd.DataFrame):
    return majority, [
        *key_columns(majority, *ARM_CELL),
        number(majority, "k", K, "{:.0f}".format, K_NOTE),
        arrow(majority, "base", "majority", "majority right %"),
        change(majority, "gain", "gain"),
        *design(majority),
    ]


def graders(decomposition: pd.DataFrame):
    frame = last_step_rows(decomposition)
    frame = frame[frame.tier.isna()]
    # only arms whose gain depends on the grading
    frame = frame[frame.groupby(CELL).gain.transform("nunique") > 1]
    return frame, [
        *key_columns(frame, *ARM_CELL, "grading"),
        arrow(frame, "base_truncated", "truncated", "truncated %"),
        arrow(frame, "base_tokens", "tokens", "tokens", integer),
        *gain_and_parts(frame),
        seeds(frame),
    ]


def tier_parts(decomposition: pd.DataFrame):
    frame = last_step_rows(decomposition)
    frame = with_several_tiers(frame[frame.tier.notna() & (frame.grading == "task")])
    return frame, [
        *key_columns(frame, *ARM_CELL, "tier"),
        arrow(frame, "base_answered", "answered", "answered, %"),
        *gain_and_parts(frame),
        *design(frame),
    ]


def last_step_rows(decomposition: pd.DataFrame) -> pd.DataFrame:
    return decomposition[decomposition.step == decomposition.groupby(CELL).step.transform("max")]


def gain_and_parts(frame: pd.DataFrame) -> list[Column]:
    return _parts(frame, ["finishing", "correctness"])


def _parts(frame: pd.DataFrame, names: list[str]) -> list[Column]:
    """Columns of the gain, and of its parts with intervals. The parts are rounded so that they add
    up to the gain."""
    rounded = pd.DataFrame(
        [
            round_parts(row.gain, [getattr(row, name) for name in names])
            for row in frame.itertuples()
        ],
        frame.index,
        names,
    )
    printed = frame.assign(**rounded)
    return [
        number(printed, "gain", in_points("gain"), signed),
        *(change(printed, name, name.replace("_", " ")) for name in names),
    ]
