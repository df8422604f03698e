"""The first hour on GPUs: ten checks in order, from the node to weights that two GPUs share.

    python scripts/maintenance/gpu_check.py            all of them (`make gpu-check`), on a node with GPUs
    python scripts/maintenance/gpu_check.py --from 3   from the third, after one that failed was put right
    python scripts/maintenance/gpu_check.py --stand-in the same code on the CPU, with the small model `tiny` of a finished miniature

The numbers of each check go to results/gpu-check/numbers.json, and the first check that fails ends the program with its reason. Models
and problems must be here: `snakemake inputs --config study=paper` gets them on a machine with internet; nothing is downloaded here.
Checks 9 and 10 need two GPUs and are left out with fewer. Tolerances are those of bf16 (scripts/maintenance/gpu_checks/checks.py).
"""

from hardgrpo.runtime import environments, errors, files
from hardgrpo.study import paths

import argparse
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent / "gpu_checks"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="first", type=int, default=1, help="the number of the first check to do (default: 1)")
    parser.add_argument("--stand-in", action="store_true", help="on the CPU, with a small model")
    parser.add_argument("--output", default=paths.GPU_CHECK, help="folder to write (default: %(default)s)")
    args = parser.parse_args()

    sys.path.insert(0, str(HERE))
    import checks

    from workbench import REAL, Workbench, stand_in

    setting = stand_in() if args.stand_in else REAL
    if not 1 <= args.first <= len(checks.CHECKS):
        raise errors.UserError(f"--from is {args.first}, expected a number from 1 to {len(checks.CHECKS)}")
    environments.use(*["vllm"] * (not args.stand_in), gpus=setting.gpus)
    bench = Workbench(setting, Path(args.output))
    bench.check_inputs()
    report = bench.folder / "numbers.json"
    earlier_rows = files.read_json(report).get("checks", []) if report.exists() else []
    rows = [row for row in earlier_rows if row["check"] < args.first]
    for number, check in list(enumerate(checks.CHECKS, start=1))[args.first - 1 :]:
        title = check.__doc__.splitlines()[0]
        print(f"check {number} of {len(checks.CHECKS)}: {title}", flush=True)
        row, began = {"check": number, "title": title}, time.monotonic()
        try:
            row |= {"numbers": check(bench)}
        except checks.Failed as failure:
            row |= {"failed": str(failure), "numbers": failure.numbers}
        rows.append(row | {"seconds": round(time.monotonic() - began, 1)})
        files.write_json(report, {"checks": rows})
        for name, value in row["numbers"].items():
            print(f"  {name}: {value}", flush=True)
        if "failed" in row:
            raise errors.UserError(f"check {number} ({title}): {row['failed']}; the numbers are in {report}, the logs beside it")
    print(f"{report}: {len(checks.CHECKS) - args.first + 1} checks passed")


if __name__ == "__main__":
    errors.run(main)
