"""The supplement's tables of subsets, of training and its cost, and of explanations of gains."""

import pandas as pd

from hardgrpo.analysis.columns import RUNS
from hardgrpo.analysis.formats import UNKNOWN, hundredths, integer, probability, signed
from hardgrpo.analysis.hard_leads import OTHER_MODELS, PREDICTORS
from hardgrpo.analysis.summaries import own_test_rows, own_test_samples
from hardgrpo.report.table_columns import (
    P_HAT,
    R_SQUARED,
    Math,
    P,
    change,
    design,
    estimate,
    in_points,
    key_columns,
    number,
    numbers,
    seeds,
    text,
)
from hardgrpo.report.tables.compared import published_column

# Keys of tables of subsets. There is no recipe, because a policy's subset is the same for all
# recipes. Only the subset of a policy in two rounds depends on the recipe.
POLICY = ("model", "task", "policy")
ARM = ("model", "task", "arm")


def learnable(learnable: pd.DataFrame, compared: pd.DataFrame):
    shares = [
        estimate(learnable, "learnable", "learnable %"),
        *published_column(learnable, compared, "learnable"),
    ]
    updates = number(learnable, "updates", "updates", integer, "{} updates")
    return learnable, [*key_columns(learnable, *ARM), *shares, updates, seeds(learnable)]


def weaker_signal(study: dict, gains: pd.DataFrame, learnable: pd.DataFrame):
    weaker = study["weaker_signal"]
    weak = gains[
        (gains.decoding == "sampled") & (gains.task.isin(weaker) | gains.model.isin(weaker))
    ]
    frame = own_test_rows(weak).merge(learnable, on=[*RUNS, "arm"], suffixes=("", "_updates"))
    estimates = [change(frame, "gain", "gain"), estimate(frame, "learnable", "learnable %")]
    return frame, [*key_columns(frame, *ARM), *estimates, *design(frame)]


def subsets(subsets: pd.DataFrame):
    return subsets, [
        *key_columns(subsets, *POLICY),
        number(subsets, "prompts", "prompts", integer, "{} prompts"),
        number(subsets, "pool", "pool", integer, "pool of {} prompts"),
        number(subsets, "mean_pass_rate", ("mean ", P_HAT), "{:.3f}".format),
        number(subsets, "zero_share", (Math(r"\hat p = 0", "p̂ = 0"), " %")),
        *(
            [
                number(subsets, "held_out_pass_rate", ("held-out ", P_HAT), "{:.3f}".format),
                number(
                    subsets,
                    "held_out_zero_share",
                    ("held-out ", Math(r"\hat p = 0", "p̂ = 0"), " %"),
                ),
            ]
            if subsets.held_out_pass_rate.notna().any()
            else []
        ),
        number(subsets, "boundary_pass_rate", ("boundary ", P_HAT), "{:.2f}".format),
        number(subsets, "tied", "tied, at boundary", integer),
        number(subsets, "tied_chosen", "chosen, of tied", integer),
    ]


def chosen(chosen: pd.DataFrame):
    shares = [
        ("never_solved", "never solved %"),
        ("mixed", "mixed %"),
        ("confidently_wrong", "confidently wrong %"),
    ]
    return chosen, [
        *key_columns(chosen, *POLICY),
        number(chosen, "prompts", "prompts", integer),
        number(chosen, "pass_rate", "right %"),
        *(number(chosen, name, words) for name, words in shares if chosen[name].notna().any()),
        number(chosen, "samples", "samples, per prompt", integer, "{} samples per prompt"),
        seeds(chosen),
    ]


def lead_regressions(lead_regressions: pd.DataFrame):
    # a predictor that is the same for all base models has no slope
    frame = own_test_rows(lead_regressions).dropna(subset=["slope"])
    ends = zip(frame.slope, frame.slope_low, frame.slope_high)
    keys = ("model", "task") if frame.model.notna().any() else ("task",)
    return frame, [
        *key_columns(frame.fillna({"model": OTHER_MODELS}), *keys),
        text(frame, "minus", "lead over"),
        text(frame, "predictor", "regressed on", PREDICTORS.get),
        numbers("slope, pp per pp [95 %]", [hundredths(*values) for values in ends]),
        numbers(
            R_SQUARED,
            [
                hundredths(*values)
                for values in zip(frame.r_squared, frame.r_squared_low, frame.r_squared_high)
            ],
        ),
        number(frame, "p", P, probability),
        number(frame, "points", "base models", integer, "{} base models"),
    ]


def lead_by_model(lead_by_model: pd.DataFrame):
    frame = lead_by_model
    return frame, [
        text(frame, "task", "trained on", note="trained on {}"),
        text(frame, "eval_task", "tested on", note="tested on {}"),
        text(frame, "minus", "lead over"),
        number(frame, "models", "models", integer, "{} models"),
        number(frame, "least", in_points("least"), signed),
        number(frame, "most", in_points("most"), signed),
        number(frame, "spread", in_points("spread")),
        number(frame, "p", P, probability),
        seeds(frame),
    ]


def trajectories(trajectories: pd.DataFrame):
    all_epochs = trajectories[trajectories.stretch.isna()]
    last_stretch = trajectories[trajectories.end == 1].dropna(subset=["stretch"])
    ends = [*POLICY, "pass_rate", "pass_rate_low", "pass_rate_high"]
    frame = all_epochs.merge(last_stretch[ends], on=list(POLICY), suffixes=("", "_end"))
    frame = frame.rename(
        columns={
            "pass_rate_low_end": "pass_rate_end_low",
            "pass_rate_high_end": "pass_rate_end_high",
        }
    )
    return frame, [
        *key_columns(frame, *POLICY),
        number(frame, "prompts", "prompts", integer, "{} prompts"),
        number(frame, "never_solved", "never solved, in first epochs %"),
        estimate(frame, "mixed", "learnable %"),
        estimate(frame, "all_right", "all right %"),
        estimate(frame, "all_wrong", "all wrong %"),
        estimate(frame, "pass_rate_end", "right at the end %"),
        seeds(frame),
    ]


def spent(spent: pd.DataFrame, gains: pd.DataFrame):
    own_gains = own_test_samples(gains)[[*RUNS, "gain"]]
    spent = spent.merge(own_gains, on=RUNS, how="left")
    # SFT runs sample no tokens, so they have no gain per token
    spent["gain_per_million"] = spent.gain / (spent.tokens / 1e6).where(spent.tokens > 0)

    def spread(name: str, unit: float) -> list[str]:
        values = zip(
            spent[name] / unit, spent[f"{name}_least"] / unit, spent[f"{name}_most"] / unit
        )
        return [
            UNKNOWN if pd.isna(mean) else f"{mean:.2g} ({least:.2g}\N{EN DASH}{most:.2g})"
            for mean, least, most in values
        ]

    return spent, [
        *key_columns(spent, *ARM),
        *(
            number(spent, name, name, integer, f"{{}} {name}")
            for name in ("updates", "prompts", "rollouts")
        ),
        number(spent, "labels", "labels", integer),
        number(spent, "completion_tokens", "limit, tokens", integer, "completion limit: {} tokens"),
        numbers("tokens, millions", spread("tokens", 1e6)),
        numbers("minutes", spread("seconds", 60)),
        number(spent, "gain", in_points("gain"), signed),
        number(spent, "gain_per_million", in_points("gain per million"), signed),
        seeds(spent),
    ]


def regressions(regressions: pd.DataFrame):
    words = {"learnable": "learnable share", "tokens": "mean length"}
    predictor_name = lambda value: UNKNOWN if pd.isna(value) else words.get(value, value)
    return regressions, [
        text(regressions, "task", "task"),
        text(regressions, "predictor", "gain explained by", predictor_name),
        text(regressions, "adjusted_for", "adjusted for", predictor_name),
        number(regressions, "r_squared", R_SQUARED, "{:.2f}".format),
        number(
            regressions,
            "slope",
            "sign of the slope",
            lambda value: UNKNOWN if pd.isna(value) else "+" if value > 0 else "\N{MINUS SIGN}",
        ),
        number(regressions, "cells", "cells", integer),
    ]
