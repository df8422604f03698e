"""Calibrate the cost model on finished jobs: write `results/calibration.json`, which later plans and
walltimes use.

    python scripts/plan/calibrate.py              # calibrate on the finished jobs in results/
    python scripts/plan/calibrate.py --check 0    # calibrate on seed 0, predict the jobs of other seeds

Without calibration, a plan uses only the constants of src/hardgrpo/planning/durations.py. Jobs that
were resumed are left out. Calibrate again when more jobs have finished.
"""

from hardgrpo.planning import calibration
from hardgrpo.runtime import errors, gpu_kinds
from hardgrpo.study import checks, load, paths

import argparse
import statistics


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--config",
        nargs="+",
        default=[],
        metavar="FILE",
        help="the files of `--configfile` with which the jobs were run; laid over config.yaml",
    )
    parser.add_argument(
        "--gpu",
        choices=gpu_kinds.GPUS,
        help="kind of GPU of jobs whose provenance does not name a known kind (default: `plan.gpu` of the configuration)",
    )
    parser.add_argument("--results", default="results", help="folder of results")
    parser.add_argument("--output", default=paths.CALIBRATION)
    parser.add_argument(
        "--check",
        type=int,
        metavar="SEED",
        help="write nothing: calibrate on the jobs of this seed and the jobs without a seed, and predict the times of the other seeds' jobs",
    )
    args = parser.parse_args()

    config_names = ", ".join(["config.yaml", *args.config])
    config = read_configuration(args.config)
    checks.check(config, f"config/, {config_names}")
    gpu = args.gpu or config["plan"]["gpu"]
    finished_jobs = calibration.read_finished_jobs(args.results, config)
    if not finished_jobs:
        raise errors.UserError(
            f"{args.results}: no provenance of a finished job with the models, tasks, recipes and policies of {config_names} (resumed jobs do not count);"
            " run some jobs first, or give another folder with --results"
        )
    comparable_jobs = [job for job in finished_jobs if job.is_comparable]
    incomparable = (
        f"{len(finished_jobs) - len(comparable_jobs)} finished jobs cannot be compared with estimates, because the size of their model is"
        f" unknown, or because {config_names} gives the jobs no work, or their model other devices (key `gpus`) than the jobs ran on; name the configuration of the jobs"
        " with --config, and give the model's entry the key `shape`"
    )
    if not comparable_jobs:
        raise errors.UserError(f"{args.results}: {incomparable}")
    if args.check is not None:
        seeds = {job.job.names.seed for job in comparable_jobs} - {None}
        note = f". {incomparable}" if len(comparable_jobs) < len(finished_jobs) else ""
        if args.check not in seeds:
            found_seeds = ", ".join(map(str, sorted(seeds))) or "none"
            raise errors.UserError(
                f"{args.results}: no finished job of seed {args.check} can be calibrated on; name a seed with finished jobs (here: {found_seeds}){note}"
            )
        if seeds == {args.check}:
            raise errors.UserError(
                f"{args.results}: no finished job of a seed other than {args.check} can be predicted; run jobs of another seed first{note}"
            )
        comparisons = calibration.compare(comparable_jobs, gpu, args.check)
        print(format_comparison(comparisons, args.check))
        return
    fitted = calibration.calibrate(comparable_jobs, gpu)
    calibration.write(fitted, args.output)
    print(
        f"{args.output}: {fitted.jobs} finished jobs in {len(fitted.groups)} groups; later plans and walltimes use {paths.CALIBRATION}"
    )


def read_configuration(config_files: list[str]) -> dict:
    """The configuration of this folder, overlaid by files as by Snakemake's --configfile. Raise a
    `UserError` if a file is not valid YAML or not a mapping."""
    config: dict = {}
    for path in ["config.yaml", *config_files]:
        config = load.lay_over(config, load.read_mapping(path))
    return load.complete(config)


def format_comparison(comparisons: list[calibration.Comparison], seed: int) -> str:
    """A table of measured and planned seconds by rule."""
    lines = [f"Seconds of the other seeds' jobs, planned with a calibration on seed {seed}:", ""]
    lines.append(
        f"{'rule':<14}{'jobs':>6}{'measured':>10}{'planned':>10}{'median error':>14}{'largest':>9}"
    )
    rule_of = lambda comparison: comparison.finished_job.job.names.rule
    for rule in [*dict.fromkeys(map(rule_of, comparisons)), None]:
        group = [comparison for comparison in comparisons if rule in (None, rule_of(comparison))]
        relative_errors = [comparison.error for comparison in group]
        measured_seconds = sum(comparison.finished_job.seconds for comparison in group)
        planned_seconds = sum(comparison.expected_seconds for comparison in group)
        lines.append(
            f"{rule or 'all':<14}{len(group):>6}{measured_seconds:>10.0f}{planned_seconds:>10.0f}"
            f"{statistics.median(relative_errors):>14.1%}{max(relative_errors):>9.0%}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    errors.run(main)
