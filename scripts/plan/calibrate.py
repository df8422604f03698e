"""Calibrate the cost model on finished jobs: write `results/calibration.json`, which plans and walltimes use from then on.

    python scripts/plan/calibrate.py              # from all finished jobs below results/
    python scripts/plan/calibrate.py --check 0    # calibrate on seed 0: how well does that predict the other seeds?

Without calibration a plan uses the constants of src/hardgrpo/planning/durations.py. Calibrate again when more jobs have finished.
"""

from hardgrpo.planning import calibration, durations
from hardgrpo.runtime import errors, files
from hardgrpo.study import load, paths

import argparse
import statistics
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="config.yaml", help="the configuration that the jobs were run with")
    parser.add_argument(
        "--gpu", choices=durations.GPUS, help="kind of GPU that the jobs ran on (default: `plan.gpu` of the configuration)"
    )
    parser.add_argument("--results", default="results", help="folder of results")
    parser.add_argument("--output", default=paths.CALIBRATION)
    parser.add_argument("--check", type=int, metavar="SEED", help="write nothing: predict the other seeds from this one")
    args = parser.parse_args()

    config = load.complete(files.read_yaml(args.config), Path(args.config).parent)
    gpu = args.gpu or config["plan"]["gpu"]
    measured = calibration.read_measured(args.results)
    if not measured:
        raise errors.UserError(
            f"{args.results}: no finished job has a provenance.json there; run some jobs first, or name another --results"
        )
    if args.check is not None:
        print(comparison(calibration.compare(config, measured, gpu, args.check), args.check, args.results))
        return
    found = calibration.calibrate(config, measured, gpu)
    calibration.write(found, args.output)
    print(f"{args.output}: {found.jobs} finished jobs in {len(found.groups)} groups; plans and walltimes use it from now on")


def comparison(compared: list[calibration.Comparison], seed: int, results: str) -> str:
    if not compared:
        raise errors.UserError(f"{results}: no finished job of a seed other than {seed}; run more seeds, or name another seed")
    lines = [f"Calibrated on seed {seed}; jobs of the other seeds, seconds:", ""]
    lines.append(f"{'rule':<14}{'jobs':>6}{'measured':>10}{'planned':>10}{'median error':>14}{'largest':>9}")
    rules = list(dict.fromkeys(one.measured.job.rule for one in compared))
    for rule in [*rules, None]:
        some = [one for one in compared if rule in (None, one.measured.job.rule)]
        errors_ = [one.error for one in some]
        measured, planned = sum(one.measured.seconds for one in some), sum(one.expected_seconds for one in some)
        lines.append(
            f"{rule or 'all':<14}{len(some):>6}{measured:>10.0f}{planned:>10.0f}{statistics.median(errors_):>14.1%}{max(errors_):>9.0%}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    errors.run(main)
