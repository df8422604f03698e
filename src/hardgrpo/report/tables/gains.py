"""The supplement's tables of gains, differences between arms, and accuracies."""

import pandas as pd

from hardgrpo.analysis.formats import integer, points, probability, signed
from hardgrpo.analysis.summaries import own_test_rows
from hardgrpo.report.table_columns import (
    K_NOTE,
    K,
    P,
    change,
    design,
    estimate,
    in_points,
    key_columns,
    number,
    numbers,
    problems,
    text,
    with_several_tiers,
)
from hardgrpo.report.tables.compared import published_column

ACCURACY_BEFORE = "base %"
DETECTABLE = "detectable, pp"


def gain(gains: pd.DataFrame, compared: pd.DataFrame):
    frame = own_test_rows(gains).sort_values("decoding", ascending=False, kind="stable")
    return frame, [
        *key_columns(frame, "model", "task", "decoding", "arm"),
        number(frame, "base_accuracy", ACCURACY_BEFORE),
        change(frame, "gain", "gain"),
        *published_column(frame, compared, "gain"),
        number(frame, "mdd", DETECTABLE),
        *design(frame),
    ]


def transfer(gains: pd.DataFrame):
    frame = gains[(gains.task != gains.eval_task) & (gains.decoding == "sampled")]
    return frame, [
        *key_columns(frame, "model", "task", "eval_task", "arm"),
        number(frame, "base_accuracy", ACCURACY_BEFORE),
        change(frame, "gain", "gain"),
        *design(frame),
    ]


def out_of_distribution(pass_at_k: pd.DataFrame):
    frame = pass_at_k[pass_at_k.task != pass_at_k.eval_task]
    return frame, [
        *key_columns(frame, "model", "task", "eval_task", "arm"),
        number(frame, "k", K, integer, K_NOTE),
        number(frame, "base", ("base pass@", K, " %")),
        estimate(frame, "pass", ("pass@", K, " %")),
        change(frame, "gain", "gain"),
        *design(frame),
    ]


def differences(differences: pd.DataFrame):
    return differences, [
        *key_columns(differences, "model", "task", "eval_task", "arm"),
        text(differences, "minus_arm", "minus"),
        change(differences, "difference", "difference"),
        number(differences, "mdd", DETECTABLE),
        *design(differences),
    ]


def single_samples(mcnemar: pd.DataFrame):
    frame = mcnemar[mcnemar.groupby(["model", "task"]).seed.transform("nunique") == 1]
    return frame, [
        *key_columns(frame, "model", "task", "eval_task", "decoding", "arm"),
        text(frame, "minus_arm", "minus"),
        number(frame, "only_this", "only this run", integer),
        number(frame, "only_other", "only other run", integer),
        number(frame, "difference", in_points("difference"), signed),
        number(frame, "p", P, probability),
        number(frame, "p_holm", (P, " (Holm)"), probability),
        problems(frame),
    ]


def tiers(tiers: pd.DataFrame):
    frame = with_several_tiers(own_test_rows(tiers))
    return frame, [
        *key_columns(frame, "model", "task", "arm", "tier"),
        number(frame, "base_accuracy", ACCURACY_BEFORE),
        estimate(frame, "accuracy", "accuracy %"),
        change(frame, "gain", "gain"),
        *design(frame),
    ]


def catches_up(catches_up: pd.DataFrame):
    spread = [
        integer(first)
        if first == last or pd.isna(first)
        else f"{integer(first)} to {integer(last)}"
        for first, last in zip(catches_up.step_first, catches_up.step_last)
    ]
    seeds = [
        f"{integer(reached)} of {integer(total)}"
        for reached, total in zip(catches_up.seeds_reached, catches_up.seeds)
    ]
    return catches_up, [
        *key_columns(catches_up, "model", "task", "eval_task", "arm"),
        number(catches_up, "target", "accuracy of ‘all’ %", points),
        number(catches_up, "step", "reached at update", integer),
        numbers("range, over seeds", spread),
        number(catches_up, "steps", "of updates", integer, "of {} updates"),
        numbers("seeds", seeds),
    ]
