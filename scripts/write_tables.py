"""The paper's tables as LaTeX (points, with intervals) and CSV (shares, all digits), from a study's summaries.

python scripts/write_tables.py --summaries results/summaries/mini --weaker-signal arithmetic --output paper/mini/tables
"""

import argparse
from pathlib import Path

import pandas as pd

from hardgrpo import errors, files, latex
from hardgrpo.latex import escape, points, with_interval


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--summaries", required=True, help="folder of the study's summary tables")
    parser.add_argument("--weaker-signal", nargs="*", default=[], help="tasks or models of Table 3")
    parser.add_argument("--output", required=True, help="folder of the tables")
    args = parser.parse_args()

    folder = Path(args.summaries)
    gains, learnable, passes, subsets, parts, differences, claims = (
        read(folder / f"{name}.csv") for name in ("gains", "learnable", "pass_at_k", "subsets", "parts", "differences", "claims")
    )
    at_home = gains[gains.task == gains.eval_task]
    sampled = at_home[at_home.decoding == "sampled"]
    both = sampled.merge(learnable, on=["model", "task", "policy"], suffixes=("", "_updates"))
    weaker = both[both.task.isin(args.weaker_signal) | both.model.isin(args.weaker_signal)]
    tables = {
        "gain": (at_home, gain_rows(at_home)),
        "learnable": (learnable, learnable_rows(learnable)),
        "weaker_signal": (weaker, weaker_rows(weaker)),
        "out_of_distribution": (passes[passes.task != passes.eval_task], pass_rows(passes[passes.task != passes.eval_task])),
        "subsets": (subsets, subset_rows(subsets)),
        "parts": (parts, part_rows(parts)),
        "differences": (differences, difference_rows(differences)),
        "claims": (claims, claim_rows(claims)),
    }
    for name, (frame, (columns, rows, align)) in tables.items():
        files.write_text(Path(args.output) / f"{name}.csv", frame.to_csv(index=False))
        files.write_text(Path(args.output) / f"{name}.tex", latex.table(columns, rows, align) if rows else "")
    print(f"{args.output}: {len(tables)} tables")


def read(path: Path) -> pd.DataFrame:
    files.read_text(path)  # a missing or unreadable file is named
    return pd.read_csv(path, keep_default_na=True, dtype={"model": str, "task": str, "policy": str})


def design(row) -> list[str]:
    return [f"{row.problems:.0f}", f"{row.seeds:.0f}"]


def gain_rows(frame: pd.DataFrame):
    columns = ["model", "task", "decoding", "policy", "base \\%", "gain [95\\,\\%]", "$n$", "seeds"]
    rows = [
        [escape(r.model), escape(r.task), r.decoding, escape(r.policy), points(r.base_accuracy)]
        + [with_interval(r.gain, r.gain_low, r.gain_high), *design(r)]
        for r in frame.itertuples()
    ]
    return columns, rows, "llllrrrr"


def learnable_rows(frame: pd.DataFrame):
    columns = ["model", "task", "policy", "learnable \\% [95\\,\\%]", "updates", "seeds"]
    rows = [
        [escape(r.model), escape(r.task), escape(r.policy), with_interval(r.learnable, r.learnable_low, r.learnable_high)]
        + [f"{r.updates:.0f}", f"{r.seeds:.0f}"]
        for r in frame.itertuples()
    ]
    return columns, rows, "lllrrr"


def weaker_rows(frame: pd.DataFrame):
    columns = ["model", "task", "policy", "gain [95\\,\\%]", "learnable \\% [95\\,\\%]", "$n$", "seeds"]
    rows = [
        [escape(r.model), escape(r.task), escape(r.policy), with_interval(r.gain, r.gain_low, r.gain_high)]
        + [with_interval(r.learnable, r.learnable_low, r.learnable_high), *design(r)]
        for r in frame.itertuples()
    ]
    return columns, rows, "lllrrrr"


def pass_rows(frame: pd.DataFrame):
    columns = [
        "model",
        "trained on",
        "tested on",
        "policy",
        "$k$",
        "base pass@$k$",
        "pass@$k$ [95\\,\\%]",
        "gain [95\\,\\%]",
        "$n$",
        "seeds",
    ]
    rows = [
        [escape(r.model), escape(r.task), escape(r.eval_task), escape(r.policy), str(r.k), points(r.base)]
        + [with_interval(r.pass_, r.pass_low, r.pass_high), with_interval(r.gain, r.gain_low, r.gain_high), *design(r)]
        for r in frame.rename(columns={"pass": "pass_"}).itertuples()
    ]
    return columns, rows, "llllrrrrrr"


def subset_rows(frame: pd.DataFrame):
    columns = [
        "model",
        "task",
        "policy",
        "prompts",
        "pool",
        "mean $\\hat p$",
        "$\\hat p = 0$ \\%",
        "edge $\\hat p$",
        "tied",
        "chosen",
    ]
    rows = [
        [escape(r.model), escape(r.task), escape(r.policy), f"{r.prompts:.0f}", f"{r.pool:.0f}", f"{r.mean_pass_rate:.3f}"]
        + [points(r.zero_share), f"{r.boundary_pass_rate:.2f}", f"{r.tied:.0f}", f"{r.tied_chosen:.0f}"]
        for r in frame.itertuples()
    ]
    return columns, rows, "lllrrrrrrr"


def part_rows(frame: pd.DataFrame):
    columns = [
        "model",
        "tested on",
        "policy",
        "answered \\%",
        "right when answered \\%",
        "gain",
        "finishing [95\\,\\%]",
        "correctness [95\\,\\%]",
        "$n$",
        "seeds",
    ]
    rows = [
        [escape(r.model), escape(r.eval_task), escape(r.policy), f"{points(r.base_answered)} $\\to$ {points(r.answered)}"]
        + [f"{points(r.base_accuracy_answered)} $\\to$ {points(r.accuracy_answered)}", points(r.gain)]
        + [with_interval(r.finishing, r.finishing_low, r.finishing_high)]
        + [with_interval(r.correctness, r.correctness_low, r.correctness_high), *design(r)]
        for r in frame.itertuples()
    ]
    return columns, rows, "lllrrrrrrr"


def difference_rows(frame: pd.DataFrame):
    columns = ["model", "tested on", "policy", "minus", "difference [95\\,\\%]", "$n$", "seeds"]
    rows = [
        [
            escape(r.model),
            escape(r.eval_task),
            escape(r.policy),
            escape(r.minus),
            with_interval(r.difference, r.difference_low, r.difference_high),
        ]
        + design(r)
        for r in frame.itertuples()
    ]
    return columns, rows, "llllrrr"


def claim_rows(frame: pd.DataFrame):
    columns = ["paper", "task", "claim", "test", "estimate [95\\,\\%]", "$n$", "seeds", "verdict"]
    rows = []
    for r in frame.itertuples():
        if "R^2" in r.test:
            figure = f"{r.estimate:.2f} [{r.low:.2f}, {r.high:.2f}]"
        else:
            figure = with_interval(r.estimate, r.low, r.high)
        test = escape(r.test).replace(escape("R^2"), "$R^2$")
        tested = escape(r.task) + (f" $\\to$ {escape(r.eval_task)}" if r.eval_task != r.task else "")
        seeds = "--" if pd.isna(r.seeds) else f"{r.seeds:.0f}"
        rows.append([r.paper, tested, escape(r.claim), test, figure, f"{r.n:.0f}", seeds, r.verdict])
    return columns, rows, "llp{6cm}p{4cm}rrrl"


if __name__ == "__main__":
    errors.run(main)
