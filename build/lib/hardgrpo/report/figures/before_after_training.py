"""Pass rate, mixed groups and pass@k before and after training on all prompts, by difficulty."""

import pandas as pd

from hardgrpo.report import plotting

BEFORE = {"color": "#666666", "marker": "s", "linestyle": "--", "markersize": 3}
AFTER = {"color": "#D55E00", "marker": "o", "linestyle": "-", "markersize": 3, "capsize": 0}


def draw(difficulty_classes, pass_at_each_k):
    """Three panels. The x axis of the first two panels is the share of right answers in the probe
    of the base model. The y axis is the pass rate in the first panel, and the share of mixed groups
    in the second. The third panel shows pass@k by k."""
    over_seeds = pass_at_each_k[pass_at_each_k.seed.isna()]
    figure, axes = plotting.panels(3, columns=3, height=2.6)
    classes = difficulty_classes.assign(
        after=difficulty_classes.before + difficulty_classes.gain,
        after_low=difficulty_classes.before + difficulty_classes.gain_low,
        after_high=difficulty_classes.before + difficulty_classes.gain_high,
    )
    places = 100 * classes.correct / classes.chosen_by
    for axis, before, after, text in (
        (axes[0], "before", "after", "pass rate"),
        (axes[1], "mixed_before", "mixed", "groups that are mixed"),
    ):
        axis.plot(places, 100 * classes[before], label="before training", **BEFORE)
        plotting.series(axis, places, classes, after, share=True, label="after training", **AFTER)
        axis.set_xlabel("right answers before training (%)")
        plotting.title(axis, text)
    axes[2].plot(over_seeds.k, 100 * over_seeds.before, **BEFORE | {"marker": ""})
    axes[2].plot(
        over_seeds.k, 100 * over_seeds.after, **{key: AFTER[key] for key in ("color", "linestyle")}
    )
    axes[2].fill_between(
        over_seeds.k,
        100 * over_seeds.after_low,
        100 * over_seeds.after_high,
        color=AFTER["color"],
        alpha=0.2,
    )
    axes[2].set_xlabel("samples per prompt (k)")
    plotting.title(axes[2], "pass@k")
    for axis in axes:
        axis.set_ylim(-4, 104)
    axes[0].set_ylabel("share (%)")
    plotting.legend(figure, axes)
    drawn_rows = [classes.assign(panel="classes"), over_seeds.assign(panel="pass@k")]
    return figure, pd.concat(drawn_rows, ignore_index=True).drop(columns=["seed"])
