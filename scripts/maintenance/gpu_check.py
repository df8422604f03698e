"""Check a node with GPUs in ten steps, from its driver to weights that are sharded over two GPUs.

    python scripts/maintenance/gpu_check.py                       # all checks (`make gpu-check`)
    python scripts/maintenance/gpu_check.py --from 3              # resume at the third check
    python scripts/maintenance/gpu_check.py --model smollm2-135m  # one small model for all checks
    python scripts/maintenance/gpu_check.py --engine transformers # without vLLM
    python scripts/maintenance/gpu_check.py --stand-in            # model `tiny`, on a CPU

With a small model, the checks do not cover the memory of models of real size. --stand-in needs a
finished study with model `tiny`, such as `mini_reference`. The numbers of each check go to
results/gpu-check/numbers.json. The program ends at the first check that fails. It downloads
nothing: fetch models and problems on a machine with internet first (`snakemake inputs --config
study=paper`). Checks 9 and 10 need two GPUs and are skipped with fewer; with --stand-in, they run
two processes on the CPU. Tolerances are those of bf16
(scripts/maintenance/gpu_checks/checklist.py).
"""

from hardgrpo.runtime import environments, errors, files
from hardgrpo.study import paths

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

CHECK_FOLDER = Path(__file__).parent / "gpu_checks"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--from", dest="first", type=int, default=1, help="number of the first check (default: 1)"
    )
    parser.add_argument(
        "--model", help="one model of config/models.yaml instead of Qwen3-4B, Qwen3-14B and Phi-4"
    )
    parser.add_argument(
        "--engine",
        default="vllm",
        choices=["vllm", "transformers"],
        help="transformers: leave out vLLM (default: %(default)s)",
    )
    parser.add_argument("--stand-in", action="store_true", help="check on the CPU, with model tiny")
    parser.add_argument(
        "--output", default=paths.GPU_CHECK, help="folder to write (default: %(default)s)"
    )
    args = parser.parse_args()
    if args.stand_in and args.model:
        raise errors.UserError("--stand-in checks model tiny; leave out --model")

    sys.path.insert(0, str(CHECK_FOLDER))
    import checklist
    from workbench import REAL, Workbench, one_model, stand_in

    setting = stand_in() if args.stand_in else one_model(args.model) if args.model else REAL
    setting = replace(setting, engine=args.engine)
    if not 1 <= args.first <= len(checklist.CHECKS):
        raise errors.UserError(
            f"--from is {args.first}, expected a number from 1 to {len(checklist.CHECKS)}"
        )
    needs_vllm = args.engine == "vllm" and not args.stand_in
    environments.use(*["vllm"] * needs_vllm, gpus=setting.gpus)
    bench = Workbench(setting, Path(args.output))
    bench.check_inputs()
    report = bench.folder / "numbers.json"
    earlier_rows = files.read_json(report).get("checks", []) if report.exists() else []
    rows = [row for row in earlier_rows if row["check"] < args.first]
    for number, check in list(enumerate(checklist.CHECKS, start=1))[args.first - 1 :]:
        title = check.__doc__.splitlines()[0]
        print(f"check {number} of {len(checklist.CHECKS)}: {title}", flush=True)
        row, began = {"check": number, "title": title}, time.monotonic()
        try:
            row |= {"numbers": check(bench)}
        except checklist.Failed as failure:
            row |= {"failed": str(failure), "numbers": failure.numbers}
        rows.append(row | {"seconds": round(time.monotonic() - began, 1)})
        files.write_json(report, {"checks": rows})
        for name, value in row["numbers"].items():
            print(f"  {name}: {value}", flush=True)
        if "failed" in row:
            raise errors.UserError(
                f"check {number} ({title}): {row['failed']}; the numbers are in {report}, the logs in the same folder"
            )
    print(f"{report}: none of the checks {args.first} to {len(checklist.CHECKS)} failed")


if __name__ == "__main__":
    errors.run(main)
