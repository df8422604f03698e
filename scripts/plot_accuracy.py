"""Figure 2: accuracy on the task's test set by checkpoint and policy, with 95 % intervals.

python scripts/plot_accuracy.py --accuracy results/summaries/mini/accuracy.csv --output accuracy.pdf accuracy.png
"""

import argparse

from hardgrpo import errors, plotting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accuracy", required=True)
    parser.add_argument("--output", required=True, nargs="+")
    args = parser.parse_args()

    columns = ["model", "task", "eval_task", "policy", "decoding", "step", "accuracy", "accuracy_low", "accuracy_high", "seeds"]
    frame = plotting.read_table(args.accuracy, columns)
    frame = frame[frame.decoding == "sampled"]
    models, policies = frame.model.nunique(), list(dict.fromkeys(frame.policy))
    groups = list(frame.groupby(["model", "task", "eval_task"], sort=False))
    groups.sort(key=lambda item: item[0][1] != item[0][2])  # in distribution first
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task, test), group) in zip(axes, groups):
        shown = list(dict.fromkeys(group.policy))
        span = group.step.max() - group.step.min()
        for index, policy in enumerate(shown):
            line = group[group.policy == policy].sort_values("step")
            # Intervals as bars, set side by side: bands of four policies on one another cannot be told apart.
            shift = (index - (len(shown) - 1) / 2) * span * 0.012
            shifts = line.step + shift * (line.step > 0)
            style = plotting.style(policy, policies)
            bars = [line.accuracy - line.accuracy_low, line.accuracy_high - line.accuracy]
            axis.errorbar(shifts, line.accuracy, yerr=bars, elinewidth=0.7, capsize=1.5, label=policy, **style)
        name = plotting.label(model, task, models)
        seeds, problems = int(group.seeds.max()), int(group.problems.max())
        where = name if test == task else f"{name}, tested on {test}"
        axis.set_title(f"{where}\n{problems} problems, {seeds} seed{'s' if seeds > 1 else ''}")
        axis.set_xlabel("GRPO updates")
        axis.set_ylabel("accuracy (T = 1)")
        axis.set_xticks(sorted(group.step.unique()) if group.step.nunique() < 8 else axis.get_xticks())
        axis.set_xlim(group.step.min() - 0.04 * span, group.step.max() + 0.04 * span)
    plotting.legend(figure, axes)
    plotting.save(figure, args.output)


if __name__ == "__main__":
    errors.run(main)
