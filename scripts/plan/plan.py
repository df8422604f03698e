"""Plan a study before it runs: jobs, GPU-hours, wall time, tokens, disk, cost and the critical path. No job runs.

    python scripts/plan/plan.py                                        # what is left of the study that config.yaml names
    python scripts/plan/plan.py --study paper --study limits           # several studies; shared jobs count once
    python scripts/plan/plan.py --study paper --gpu a100 --gpus 16 --seeds 5 --completion-tokens gsm8k=1024     # what if
    .venv/bin/snakemake --profile slurm plan --config study=paper      # the same from Snakemake

The jobs are those of `snakemake -n`, without finished ones. src/hardgrpo/planning/durations.py estimates each, corrected by
finished runs if `scripts/plan/calibrate.py` was called. The program prints a table and writes plan.txt, plan.csv, jobs.csv,
detectable.csv (the smallest effects that the design would find), power.csv (the seeds that published differences take), labels.csv
(the labels that each run buys), plan.json and plan.html (with a Gantt chart) to results/plan/.
"""

from hardgrpo.analysis import claims, published
from hardgrpo.planning import calibration, durations, labels, plan_page, plans, power
from hardgrpo.runtime import errors, files
from hardgrpo.study import paths, settings

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DETECTABLE = ["study", "test", "seeds", "problems", "samples", "gain", "difference", "primary"]
LABELS = ["study", "task", "pool", "policy", "recipe", "arm", "labels"]
POWER = ["study", "claim", "model", "task", "published", "seeds", "detectable", "takes", "gpu_hours", "aims"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="files or targets to plan (default: the whole study)")
    parser.add_argument("--study", action="append", default=[], help="a study; may be given several times")
    parser.add_argument("--profile", default="slurm", help="where the study will run: slurm or laptop")
    parser.add_argument("--configfile", action="append", default=[], help="as for snakemake")
    parser.add_argument("--config", nargs="+", default=[], help="as for snakemake")
    parser.add_argument("--gpu", choices=durations.GPUS, help="what if: kind of GPU")
    parser.add_argument("--gpus", type=positive, help="what if: GPUs at once")
    parser.add_argument("--seeds", type=positive, help="what if: number of seeds of each study")
    parser.add_argument("--completion-tokens", help="what if: a limit for all tasks (1024), or by task (gsm8k=1024,math=512)")
    parser.add_argument("--price", type=float, help="price of a GPU for an hour")
    parser.add_argument("--uncalibrated", action="store_true", help="ignore results/calibration.json")
    parser.add_argument("--setting", type=files.as_object, help=argparse.SUPPRESS)  # from rule plan: where Snakemake would run
    parser.add_argument("--output", default="results/plan", help="folder to write")
    args = parser.parse_args()

    studies = args.study or [None]
    dry_run: list[dict] = []
    seen: set[str] = set()
    detectable, needed, bought = [], [], []
    printed = published.read(ROOT / paths.PUBLISHED), published.read_readings(ROOT / paths.PUBLISHED)
    for study in studies:
        facts, jobs = plan_jobs(args, study)
        named_study, gpu = facts["config"]["study"], args.gpu or facts["setting"]["gpu"]
        bought += labels.planned(facts["config"], named_study)
        detectable += power.detectable(facts["config"], named_study)
        needed += power.needed(facts["config"], named_study, claims.read(ROOT / "paper/claims.yaml"), *printed, gpu)
        for job in jobs:
            if not seen & set(job["output"]):
                dry_run.append(job | {"study": facts["config"]["study"]})
            seen |= set(job["output"])
    config, found = facts["config"], args.setting or facts["setting"]
    setting = plans.Setting(args.gpu or found["gpu"], args.gpus or found["gpus"], found["slots"], found["cluster"])
    price = config["plan"]["price"] if args.price is None else args.price
    calibrated = None if args.uncalibrated else calibration.read()
    planned = plans.planned(config["study"], dry_run, config, setting, calibrated)
    named = list(dict.fromkeys(job["study"] for job in dry_run)) or [config["study"]]
    plan = {
        "studies": named,
        "setting": vars(setting) | {"price": price, "calibrated_on_jobs": calibrated.jobs if calibrated else 0},
        "totals": plans.totals(planned, setting, price),
        "table": plans.table(planned, named, list(config["models"])),
        "detectable": detectable,
        "power": needed,
        "labels": bought,
        "critical_path": [described(job) for job in plans.critical_path(planned, setting)],
        "jobs": [described(job) for job in planned],
        "assumptions": assumptions(setting, calibrated, any(job.estimate.gpus for job in planned)),
    }
    text = as_text(plan)
    write(plan, planned, text, Path(args.output))
    print(text)


def positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def plan_jobs(args: argparse.Namespace, study: str | None) -> tuple[dict, list[dict]]:
    """(configuration and setting, planned jobs) from a dry-run of Snakemake."""
    with tempfile.TemporaryDirectory() as folder:
        jobs, facts, what_if = (Path(folder) / name for name in ("jobs.jsonl", "facts.json", "what_if.yaml"))
        environment = os.environ | {"HARDGRPO_PLAN": str(jobs), "HARDGRPO_PLAN_FACTS": str(facts)}
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(ROOT / "scripts/plan/plugins"), os.environ.get("PYTHONPATH")])
        )
        configuration = args.config + ([f"study={study}"] if study else [])
        command = [sys.executable, "-m", "snakemake", "--profile", args.profile]
        command += ["--config", *configuration] if configuration else []
        configfiles = list(args.configfile)
        if args.seeds or args.completion_tokens:
            snakemake([*command, "--list-rules"], configfiles, environment)  # for the configuration alone
            what_if.write_text(yaml.safe_dump(overrides(args, files.read_json(facts)["config"])), encoding="utf-8")
            configfiles.append(str(what_if))
        snakemake([*command, "-n", "--logger", "plan", *args.targets], configfiles, environment)
        found = files.read_json(facts)
        return found, [json.loads(line) for line in jobs.read_text(encoding="utf-8").splitlines()]


def snakemake(command: list[str], configfiles: list[str], environment: dict) -> None:
    command = command + (["--configfile", *configfiles] if configfiles else [])
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise errors.UserError("Snakemake cannot plan this:", *(f"  {line}" for line in said[-8:]))


def overrides(args: argparse.Namespace, config: dict) -> dict:
    """The changes that the what-if options make to the configuration."""
    study, changes = config["studies"][config["study"]], {}
    if args.seeds:
        changes["studies"] = {config["study"]: {"seeds": list(range(args.seeds))}}
    if args.completion_tokens:
        tested = [test for model, task in settings.pairs(config, study) for test in settings.eval_tasks(study, task, model)]
        limits = limits_of(args.completion_tokens, config, list(dict.fromkeys([*study["tasks"], *tested])))
        changes["tasks"] = {task: {"completion_tokens": limit} for task, limit in limits.items()}
    return changes


def limits_of(text: str, config: dict, tasks: list[str]) -> dict[str, int]:
    if text.isdigit() and int(text):
        return dict.fromkeys(tasks, int(text))
    limits = {}
    for part in text.split(","):
        task, _, limit = part.partition("=")
        if task not in config["tasks"] or not limit.isdigit() or not int(limit):
            raise errors.UserError(
                f"--completion-tokens {text}: expected a number, or task=number pairs with commas; tasks are {', '.join(config['tasks'])}"
            )
        limits[task] = int(limit)
    return limits


def described(job: plans.PlannedJob) -> dict:
    return {
        "number": job.number,
        "name": job.name,
        "study": job.study,
        "stage": job.stage,
        "rule": job.rule,
        **{key: job.wildcards.get(key, "") for key in ("model", "task", "recipe", "policy", "seed", "eval_task", "shard")},
        "gpus": job.estimate.gpus,
        "seconds": round(job.estimate.seconds, 1),
        "gpu_hours": job.estimate.gpu_hours,
        "completions": job.estimate.completions,
        "tokens_generated": round(job.estimate.tokens_generated),
        "tokens_trained": round(job.estimate.tokens_trained),
        "kept_gb": job.estimate.kept_bytes / 1e9,
        "start_hours": job.start / 3600,
        "end_hours": job.end / 3600,
        "needs": sorted(job.needs),
    }


def assumptions(setting: plans.Setting, calibrated, with_gpus: bool) -> list[str]:
    gpu = durations.GPUS[setting.gpu] if with_gpus else durations.CORE
    said = [
        f"One {setting.gpu if with_gpus else 'core'}: {gpu.flops / 1e12:.3g} TFLOP/s ({'bf16, dense' if with_gpus else 'fp32'}),"
        f" {gpu.bandwidth / 1e12:.3g} TB/s. Model and constants: docs/costs.md."
    ]
    if calibrated:
        said.append(f"Calibrated on {calibrated.jobs} finished jobs ({paths.CALIBRATION}).")
    else:
        sampling, training = ("vllm", "gpu") if with_gpus else ("cpu", "cpu")
        said.append(
            f"Not calibrated (scripts/plan/calibrate.py). Assumed: completions fill {durations.FILL:.0%} of their limit, sampling reaches"
            f" {durations.SAMPLING_SHARE[sampling]:.0%} of the speeds above, training {durations.TRAINING_SHARE[training]:.0%}."
        )
    said.append(
        f"Smallest effects assume that seeds spread by {100 * power.SEED_SD:g} points (standard deviation). With one seed they hold for"
        " its own runs only: docs/statistics.md."
    )
    if with_gpus:
        said.append("GPU-hours are those of the jobs. The wall time does not include waiting in the cluster's queue.")
    return said


def as_text(plan: dict) -> str:
    setting, totals = plan["setting"], plan["totals"]
    if not plan["jobs"]:
        return f"Nothing is left to do for {', '.join(plan['studies'])}."
    head = ("study", "stage", "model", "jobs", "GPU-hours", "job-hours", "generated", "trained on", "kept GB")
    rows = [
        (
            row["study"], row["stage"], row["model"], str(row["jobs"]), f"{row['gpu_hours']:.2f}", f"{row['job_hours']:.2f}",
            millions(row["tokens_generated"]), millions(row["tokens_trained"]), f"{row['kept_gb']:.1f}",
        )
        for row in [*plan["table"], totals | {"study": "total", "stage": "", "model": ""}]
    ]  # fmt: skip
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) if i < 3 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))
        for row in (head, *rows)
    ]
    lines.insert(1, "-" * len(lines[0]))
    lines.insert(-1, "-" * len(lines[0]))
    place = (
        f"{setting['gpus']} GPUs ({setting['gpu']})"
        if totals["gpu_hours"]
        else f"{setting['slots']} {'jobs' if setting['cluster'] else 'cores'}"
    )
    lines += [
        "",
        f"Wall time on {place}: {plan_page.span(totals['wall_hours'])}; on any number at least {plan_page.span(totals['critical_path_hours'])} (the critical path)",
        *([f"Cost at {setting['price']:g} a GPU-hour: {totals['cost']:,.0f}"] if totals["gpu_hours"] else []),
        f"Disk: at most {totals['peak_disk_gb']:,.1f} GB more than now",
        "",
        "Critical path:",
        *(f"  {plan_page.span(job['seconds'] / 3600):>9}  {job['name']}" for job in plan["critical_path"]),
        "",
        "Smallest effects that would be found with power 80 %, in points: a gain; the difference of any two policies, corrected for all",
        "pairs; a primary claim about two policies, corrected for the tasks:",
        f"  {'study':<14} {'tested on':<24} {'seeds':>5} {'problems':>8} {'samples':>7} {'gain':>6} {'difference':>10} {'primary':>8}",
        *(
            f"  {row['study']:<14} {row['test']:<24} {row['seeds']:>5} {row['problems']:>8} {row['samples']:>7}"
            f" {100 * row['gain']:>6.1f} {100 * row['difference']:>10.1f} {100 * row['primary']:>8.1f}"
            for row in plan["detectable"]
        ),
        *power_lines(plan["power"]),
        *labels.lines(plan["labels"]),
        "",
        *plan["assumptions"],
    ]
    if totals["unknown"]:
        lines.append(
            f"The model's size is unknown for {totals['unknown']} jobs (no `shape` in config/models.yaml, not downloaded): 2 hours each."
        )
    return "\n".join(lines)


def power_lines(rows: list[dict]) -> list[str]:
    """The seeds that it takes to find the differences that a paper printed, as text; [] without rows."""
    if not rows:
        return []
    lines = [
        "",
        "Seeds that it takes to find a published difference with power 80 %, and the GPU-hours of their runs; * the study aims at it:",
        f"  {'claim':<28} {'model':<22} {'task':<22} {'published':>9} {'found with its seeds':>21} {'takes':>6} {'GPU-hours':>10}",
    ]
    for row in rows:
        found = f"{100 * row['detectable']:.1f} with {row['seeds']}"
        takes = f"{row['takes']}" if row["takes"] else f">{power.MOST_SEEDS}"
        hours = f"{row['gpu_hours']:,.0f}" if row["takes"] else "-"
        lines.append(
            f"{'*' if row['aims'] else ' '} {row['claim']:<28} {row['model']:<22} {row['task']:<22} {100 * row['published']:>+9.1f}"
            f" {found:>21} {takes:>6} {hours:>10}"
        )
    return lines


def millions(tokens: float) -> str:
    return f"{tokens / 1e6:,.2f} M" if tokens else "-"


def write(plan: dict, planned: list[plans.PlannedJob], text: str, folder: Path) -> None:
    columns = ["study", "stage", "model", *plans.sums([])]
    files.write_text(folder / "plan.txt", text + "\n")
    files.write_rows(folder / "plan.csv", columns, plan["table"])
    files.write_rows(folder / "detectable.csv", DETECTABLE, plan["detectable"])
    files.write_rows(folder / "power.csv", POWER, plan["power"])
    files.write_rows(folder / "labels.csv", LABELS, plan["labels"])
    of_jobs = [column for column in described(planned[0]) if column != "needs"] if planned else ["number"]
    files.write_rows(folder / "jobs.csv", of_jobs, [{column: job[column] for column in of_jobs} for job in plan["jobs"]])
    files.write_text(folder / "plan.json", json.dumps(plan, indent=1) + "\n")
    files.write_text(folder / "plan.html", plan_page.page(plan, [job.lanes for job in planned]))


if __name__ == "__main__":
    errors.run(main)
