"""Run a campaign of hostile inputs and print its report.

    make fuzz                                                # all targets, 12,000 cases
    python -m fuzzing --cases 3000 --kind files              # one kind of target
    python -m fuzzing --only 'files: signals' --seed 1234    # one case: target and seed of a finding

The exit status is 1 if there is a finding. A case depends only on its target and its seed.
"""

import argparse
import faulthandler
import importlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzzing.judge import judge_case, limit_this_process

KINDS = ("files", "originals", "configuration", "arguments", "texts")
GOOD = ("right", "refused")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cases",
        type=int,
        default=12_000,
        help="approximate number of cases of all targets together (default: %(default)s)",
    )
    parser.add_argument(
        "--kind", choices=KINDS, action="append", help="kind of targets; repeatable (default: all)"
    )
    parser.add_argument("--only", help="run only the targets whose names contain this text")
    parser.add_argument(
        "--seed",
        type=int,
        help="run only the case with this seed of each target, without catching its error",
    )
    parser.add_argument(
        "--first",
        type=int,
        default=0,
        help="seed of each target's first case; other seeds make other cases",
    )
    parser.add_argument(
        "--without-snakemake",
        action="store_true",
        help="leave out the target that starts Snakemake; each of its cases takes seconds",
    )
    parser.add_argument("--report", type=Path, help="also write the report to this file")
    args = parser.parse_args()

    targets = {
        f"{kind}: {name}": target
        for kind in args.kind or KINDS
        for name, target in importlib.import_module(f"fuzzing.{kind}").TARGETS.items()
    }
    if args.only:
        targets = {name: target for name, target in targets.items() if args.only in name}
    if not targets:
        parser.error(f"--only {args.only}: no target of the chosen kinds has this in its name")
    if args.without_snakemake:
        targets.pop("configuration: planned by Snakemake", None)
    if args.seed is not None:
        for name, target in targets.items():
            with tempfile.TemporaryDirectory() as folder:
                target.run(random.Random(f"{name}:{args.seed}"), Path(folder))
        return
    faulthandler.enable()
    faulthandler.register(signal.SIGXCPU, chain=True)
    limit_this_process()
    shares = {name: getattr(target, "share", 1.0) for name, target in targets.items()}
    cases = {
        name: max(1, round(args.cases * share / sum(shares.values())))
        for name, share in shares.items()
    }
    lines, findings, started = [], [], time.process_time()
    for name, target in targets.items():
        counts, target_started = Counter(), time.process_time()
        for seed in range(args.first, args.first + cases[name]):
            outcome, details = run(name, target, seed)
            counts[outcome] += 1
            if outcome not in GOOD:
                findings.append(f"{outcome}: {name}, seed {seed}: {details}")
        lines.append(report_line(name, counts, time.process_time() - target_started))
    total = f"{sum(cases.values())} cases of {len(targets)} targets, {len(findings)} findings, {time.process_time() - started:.0f} s of processor time"
    text = "\n".join([report_line(), *lines, "", total, *findings, ""])
    if args.report:
        args.report.parent.mkdir(parents=True, exist_ok=True)
        args.report.write_text(text, encoding="utf-8", errors="backslashreplace")
    sys.stdout.reconfigure(errors="backslashreplace")
    print(text, end="")
    sys.exit(bool(findings))


def run(name: str, target, seed: int) -> tuple[str, str]:
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        getattr(target, "prepare", lambda: None)()  # outside of the case's limit of processor time
        return judge_case(lambda: target.run(random.Random(f"{name}:{seed}"), folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def report_line(
    name: str = "target", counts: Counter | None = None, seconds: float | None = None
) -> str:
    columns = ("right", "refused", "traceback", "hang", "wrong", "message")
    cells = columns if counts is None else [counts[column] for column in columns]
    total = "cases" if counts is None else counts.total()
    return (
        f"{name:<44}{total:>7}"
        + "".join(f"{cell:>10}" for cell in cells)
        + f"{'seconds' if seconds is None else f'{seconds:.1f}':>9}"
    )


if __name__ == "__main__":
    main()
