"""Figure 2: accuracy on the task's test set by checkpoint and policy, with 95 % intervals.

python scripts/figures/plot_accuracy.py --tables results/summaries/mini/*.csv --output accuracy.pdf accuracy.png accuracy.csv
"""

from hardgrpo.report import plotting
from hardgrpo.runtime import errors

COLUMNS = ["model", "task", "eval_task", "policy", "step", "accuracy", "accuracy_low", "accuracy_high"]
COLUMNS += ["problems", "samples", "seeds"]


def main() -> None:
    args = plotting.parser(__doc__).parse_args()
    frame = plotting.read_table(args.tables["accuracy"], [*COLUMNS, "decoding"])
    plotting.save(*draw(frame), args.output)


def draw(frame):
    """(figure, rows drawn) of the table `accuracy`."""
    frame = frame[frame.decoding == "sampled"][COLUMNS]
    models, policies = frame.model.nunique(), list(dict.fromkeys(frame.policy))
    groups = plotting.groups(frame, ["model", "task", "eval_task"])
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task, test), group) in zip(axes, groups):
        shown = list(dict.fromkeys(group.policy))
        span = group.step.max() - group.step.min()
        for index, policy in enumerate(shown):
            line = group[group.policy == policy].sort_values("step")
            # Intervals as bars, set side by side: bands of four policies on one another cannot be told apart.
            steps = line.step + plotting.spread(index, len(shown), 0.05 * span) * (line.step > 0)
            look = plotting.style(policy, policies)
            axis.errorbar(steps, 100 * line.accuracy, yerr=plotting.bars(line, "accuracy"), elinewidth=0.7, label=policy, **look)
        plotting.title(axis, plotting.where(model, task, test, models), plotting.sizes(group))
        if group.step.nunique() < 7:
            axis.set_xticks(sorted(group.step.unique()))
        axis.set_xlim(group.step.min() - 0.04 * span, group.step.max() + 0.06 * span)
    plotting.outer_labels(axes, "GRPO updates", "accuracy (%)")
    plotting.legend(figure, axes)
    return figure, frame


if __name__ == "__main__":
    errors.run(main)
