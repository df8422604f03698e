"""Figure 3: learnable share of the groups against gain in accuracy, one point a task and policy, with the line's R^2.

python scripts/plot_learnable.py --gains gains.csv --learnable learnable.csv --fit fit.csv --output learnable.pdf
"""

import argparse
import itertools

import numpy as np

from hardgrpo import errors, plotting

FILLS = (None, "white", "0.7", "0.85")  # of the markers, by task; None is the policy's colour


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gains", required=True)
    parser.add_argument("--learnable", required=True)
    parser.add_argument("--fit", required=True)
    parser.add_argument("--output", required=True, nargs="+")
    args = parser.parse_args()

    gains = plotting.read_table(args.gains, ["model", "task", "eval_task", "policy", "decoding", "gain", "gain_low", "gain_high"])
    shares = plotting.read_table(args.learnable, ["model", "task", "policy", "learnable", "learnable_low", "learnable_high"])
    fits = plotting.read_table(args.fit, ["task", "r_squared", "r_squared_low", "r_squared_high", "cells"], empty=True).set_index(
        "task"
    )
    gains = gains[(gains.decoding == "sampled") & (gains.eval_task == gains.task)]
    points = gains.merge(shares, on=["model", "task", "policy"])
    policies = list(dict.fromkeys(points.policy))
    tasks = list(dict.fromkeys(points.task))

    figure, (axis,) = plotting.panels(1, width=1.45)
    for row in points.itertuples():
        style = plotting.style(row.policy, policies) | {"linestyle": "none"}
        filled = {"markerfacecolor": FILLS[tasks.index(row.task) % len(FILLS)] or style["color"]}
        bars = {
            "xerr": [[100 * (row.learnable - row.learnable_low)], [100 * (row.learnable_high - row.learnable)]],
            "yerr": [[100 * (row.gain - row.gain_low)], [100 * (row.gain_high - row.gain)]],
        }
        axis.errorbar(100 * row.learnable, 100 * row.gain, elinewidth=0.6, capsize=1.5, **bars, **style, **filled)
    # One line over all cells is what the paper draws; a line within each task shows what it hides.
    for task, dashes in [("all", "-"), *((task, "--") for task in tasks)]:
        if task not in fits.index:
            continue
        kept = points if task == "all" else points[points.task == task]
        x, y = 100 * kept.learnable, 100 * kept.gain
        ends = np.array([x.min(), x.max()])
        fit = fits.loc[task]
        interval = "" if np.isnan(fit.r_squared_low) else f" [{fit.r_squared_low:.2f}, {fit.r_squared_high:.2f}]"
        text = f"{task}: $R^2$ = {fit.r_squared:.2f}{interval}, {int(fit.cells)} cells"
        axis.plot(ends, np.polyval(np.polyfit(x, y, 1), ends), color="0.4", linestyle=dashes, linewidth=0.8, label=text)
    for policy in policies:
        axis.plot([], [], label=policy, **(plotting.style(policy, policies) | {"linestyle": "none"}))
    for task, filled in zip(tasks, itertools.cycle(FILLS)):
        axis.plot([], [], marker="o", linestyle="none", color="0.4", markerfacecolor=filled or "0.4", label=task)
    axis.axhline(0, color="0.6", linewidth=0.6)
    axis.set_xlabel("learnable share of groups (%)")
    axis.set_ylabel("gain in accuracy (points)")
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)
    plotting.save(figure, args.output)


if __name__ == "__main__":
    errors.run(main)
