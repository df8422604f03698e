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

    names = ["config.yaml", *args.config]
    config: dict = {}
    for name in names:
        config = load.lay_over(config, load.read_mapping(name))
    checked = checks.check(load.complete(config), f"config/, {', '.join(names)}")
    finished_jobs = calibration.read_finished_jobs(args.results, checked)
    fitted = calibration.calibrate(finished_jobs, args.gpu or checked.plan.gpu)
    if not fitted.jobs:
        raise errors.UserError(
            f"{args.results}: none of {len(finished_jobs)} finished jobs of {', '.join(names)} can be compared with an estimate; name the configuration of"
            " finished jobs with --config, and give their models the key `shape`"
        )
    calibration.write(fitted, args.output)
    print(f"{args.output}: {fitted.jobs} finished jobs in {len(fitted.groups)} groups")


if __name__ == "__main__":
    errors.run(main)
