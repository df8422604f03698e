"""What the gains are made of: finishing against correctness, by policy, with 95 % intervals; the dot is the gain.

python scripts/plot_parts.py --parts results/summaries/mini/parts.csv --output parts.pdf parts.png
"""

import argparse

from hardgrpo import errors, plotting

PARTS = [("finishing", "#E69F00", "//"), ("correctness", "#0072B2", "")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", required=True)
    parser.add_argument("--output", required=True, nargs="+")
    args = parser.parse_args()

    columns = ["model", "task", "eval_task", "policy", "gain", "base_answered", "answered"]
    frame = plotting.read_table(args.parts, columns + [f"{part}{end}" for part, *_ in PARTS for end in ("", "_low", "_high")])
    models = frame.model.nunique()
    groups = sorted(frame.groupby(["model", "task", "eval_task"], sort=False), key=lambda item: item[0][1] != item[0][2])
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task, test), group) in zip(axes, groups):
        for offset, (part, color, hatch) in zip((-0.19, 0.19), PARTS):
            values = 100 * group[part]
            bars = [values - 100 * group[f"{part}_low"], 100 * group[f"{part}_high"] - values]
            places = [i + offset for i in range(len(group))]
            axis.bar(places, values, 0.36, color=color, hatch=hatch, edgecolor="white", linewidth=0.5, label=part)
            axis.errorbar(places, values, yerr=bars, fmt="none", ecolor="black", elinewidth=0.8, capsize=2)
        axis.plot(range(len(group)), 100 * group.gain, "k_", markersize=16, markeredgewidth=1.6, label="gain (their sum)")
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set_xticks(range(len(group)), group.policy)
        axis.grid(axis="x", visible=False)
        axis.set_ylabel("points of accuracy")
        name = plotting.label(model, task, models)
        share = f"answered {group.base_answered.iloc[0]:.1%} before, {group.answered.min():.1%} to {group.answered.max():.1%} after"
        if len(group) == 1:
            share = f"answered {group.base_answered.iloc[0]:.1%} before, {group.answered.iloc[0]:.1%} after"
        axis.set_title(f"{name if test == task else f'{name}, tested on {test}'}\n{share}")
    plotting.legend(figure, axes)
    plotting.save(figure, args.output)


if __name__ == "__main__":
    errors.run(main)
