"""Calibrate the cost model on finished jobs: write `results/calibration.json`, which later plans and
walltimes use.

    python scripts/plan/calibrate.py

Without calibration, a plan uses only the constants of src/hardgrpo/planning/durations.py. Jobs that
were resumed are left out. Calibrate again when more jobs have finished.
"""

from hardgrpo.planning import calibration
from hardgrpo.runtime import errors, gpu_kinds
from hardgrpo.study import checks, load, paths


def main() -> None:
    parser = errors.parser(__doc__)
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
    args = parser.parse_args()

    config_names = ", ".join(["config.yaml", *args.config])
    config = read_configuration(args.config)
    config = checks.check(config, f"config/, {config_names}")
    gpu = args.gpu or config.plan.gpu
    finished_jobs = calibration.read_finished_jobs(args.results, config)
    if not finished_jobs:
        raise errors.UserError(
            f"{args.results}: no provenance of a finished job with the models, tasks, recipes and policies of {config_names} (resumed jobs do not count);"
            " run some jobs first, or give another folder with --results"
        )
    fitted = calibration.calibrate(finished_jobs, gpu)
    if not fitted.jobs:
        raise errors.UserError(
            f"{args.results}: no finished job can be compared with an estimate, because the size of its model is unknown, or because {config_names} gives the job no"
            " work, or its model other devices (key `gpus`) than the job ran on; name the configuration of the jobs with --config, and give the model's entry"
            " the key `shape`"
        )
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


if __name__ == "__main__":
    errors.run(main)
