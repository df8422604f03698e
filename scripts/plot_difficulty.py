"""How hard the pool is for the base model, and which pass rates each policy chooses.

python scripts/plot_difficulty.py --difficulty results/summaries/mini/difficulty.csv --output difficulty.pdf
"""

import argparse

from hardgrpo import errors, plotting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--difficulty", required=True)
    parser.add_argument("--output", required=True, nargs="+")
    args = parser.parse_args()

    frame = plotting.read_table(args.difficulty, ["model", "task", "group", "pass_rate", "problems"])
    models, policies = frame.model.nunique(), [name for name in dict.fromkeys(frame.group) if name != "pool"]
    groups = list(frame.groupby(["model", "task"], sort=False))
    figure, axes = plotting.panels(len(groups))
    for axis, ((model, task), table) in zip(axes, groups):
        pool = table[table.group == "pool"]
        width = 0.8 * min((b - a for a, b in zip(sorted(pool.pass_rate)[:-1], sorted(pool.pass_rate)[1:])), default=0.1)
        width = min(width, 0.08)
        # Shares and not numbers: a subset of a dozen would not be seen beside a pool of a thousand.
        axis.bar(
            pool.pass_rate,
            100 * pool.problems / pool.problems.sum(),
            width,
            color="0.85",
            edgecolor="0.5",
            linewidth=0.5,
            label=f"pool ({pool.problems.sum():.0f})",
        )
        for policy in (name for name in dict.fromkeys(table.group) if name != "pool"):
            chosen = table[table.group == policy].sort_values("pass_rate")
            share = 100 * chosen.problems / chosen.problems.sum()
            axis.plot(chosen.pass_rate, share, label=f"{policy} ({chosen.problems.sum():.0f})", **plotting.style(policy, policies))
        axis.set_xlabel("pass rate of the base model")
        axis.set_ylabel("share of problems (%)")
        axis.set_xlim(-0.08, 1.08)
        axis.set_title(plotting.label(model, task, models))
        axis.legend(fontsize=6)
    plotting.save(figure, args.output)


if __name__ == "__main__":
    errors.run(main)
