"""Plan a study before it runs: jobs, GPU-hours, wall time, tokens, disk, cost and the critical
path. No job runs.

    python scripts/plan/plan.py                                        # remaining jobs of the profile's study (slurm/study.yaml)
    .venv/bin/snakemake --profile slurm plan                           # the same plan, made by Snakemake
    python scripts/plan/plan.py --study paper --study limits           # several studies; shared jobs count once
    python scripts/plan/plan.py --configfile what_if.yaml --study paper          # with other seeds, limits or GPUs

All other arguments, such as targets and --configfile, are those of Snakemake. The planned jobs are
the jobs of `snakemake -n` that write files; scripts/plan/calibrate.py corrects the estimates by the
times of finished jobs. The program prints a table and writes plan.txt, plan.csv, totals.csv, jobs.csv,
detectable.csv (the smallest effects that the design would detect), power.csv (the seeds needed to
detect published differences) and labels.csv (the labels that a run of each arm buys at most) to
results/plan/.
"""

from hardgrpo.analysis import published
from hardgrpo.planning import calibration, durations, label_counts, plans, power
from hardgrpo.runtime import errors, files, gpu_kinds
from hardgrpo.study import paths
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_study

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main() -> None:
    parser = errors.parser(__doc__)
    parser.allow_abbrev = False  # the other arguments are Snakemake's
    parser.add_argument(
        "--study", action="append", default=[], help="a study; may be given several times"
    )
    parser.add_argument(
        "--profile", default="slurm", help="where the study will run: slurm or laptop"
    )
    parser.add_argument("--config", nargs="+", default=[], help="as for snakemake")
    parser.add_argument(
        "--uncalibrated", action="store_true", help="ignore results/calibration.json"
    )
    parser.add_argument("--output", default="results/plan", help="folder to write")
    args, args.snakemake = parser.parse_known_args()

    job_calibration = None if args.uncalibrated else calibration.read()
    dry_run: list[dict] = []
    outputs: set[str] = set()
    names, effects, power_rows, label_rows = [], [], [], []
    published_results = published.read(ROOT / paths.PUBLISHED)
    readings = published.read_readings(ROOT / paths.PUBLISHED)
    for study in args.study or [None]:
        # the configurations of the studies differ only in `study`
        facts, jobs = plan_jobs(args, study)
        config = Configuration.of(facts["config"])
        machine = facts["setting"]
        planned_study = resolve_study(config, config.study)
        names.append(planned_study.name)
        if not planned_study.is_analysis:
            label_rows += label_counts.planned_labels(planned_study)
            effects += power.detectable_effects(planned_study)
            power_rows += power.required_seeds(
                config,
                planned_study,
                files.read_yaml(ROOT / "paper/claims.yaml"),
                published_results,
                readings,
                machine["gpu"],
                job_calibration,
            )
        for job in jobs:
            if not outputs & set(job["output"]):
                dry_run.append(job | {"study": config.study})
            outputs |= set(job["output"])
    setting, price = plans.Setting(**machine), config.plan.price
    planned_jobs = plans.plan_jobs(dry_run, config, setting, job_calibration)
    planned_studies = list(dict.fromkeys(job["study"] for job in dry_run)) or names
    plan = {
        "studies": planned_studies,
        "setting": vars(setting)
        | {"price": price, "calibrated_on_jobs": job_calibration.jobs if job_calibration else 0},
        "totals": plans.totals(planned_jobs, setting, price),
        "table": plans.table(planned_jobs, planned_studies, list(config.models)),
        "detectable": effects,
        "power": power_rows,
        "labels": label_rows,
        "critical_path": plans.critical_path(planned_jobs, setting),
        "assumptions": assumptions(
            setting,
            job_calibration,
            largest_device(planned_jobs, config),
            splits_of_unknown_size(planned_jobs, config),
        ),
    }
    text = format_plan(plan)
    write(plan, planned_jobs, text, Path(args.output))
    print(text)


def plan_jobs(args: argparse.Namespace, study: str | None) -> tuple[dict, list[dict]]:
    """({"config": ..., "setting": ...}, jobs) from a dry-run of Snakemake."""
    with tempfile.TemporaryDirectory() as folder:
        jobs, facts = Path(folder) / "jobs.jsonl", Path(folder) / "facts.json"
        environment = os.environ | {"HARDGRPO_PLAN": str(jobs), "HARDGRPO_PLAN_FACTS": str(facts)}
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(ROOT / "scripts/plan/plugins"), os.environ.get("PYTHONPATH")])
        )
        configuration = args.config + ([f"study={study}"] if study else [])
        command = [sys.executable, "-m", "snakemake", *args.snakemake, "--profile", args.profile]
        command += ["--config", *configuration] if configuration else []
        command += ["--logger", "plan", "-n"]
        process = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
        if process.returncode:
            lines = filter(str.strip, (process.stdout + process.stderr).splitlines())
            raise errors.UserError(
                "Snakemake cannot plan the study:", *(f"  {line}" for line in list(lines)[-8:])
            )
        lines = jobs.read_text(encoding="utf-8").splitlines()
        return files.read_json(facts), [json.loads(line) for line in lines]


def job_row(job: plans.PlannedJob) -> dict:
    return {
        "number": job.number,
        "name": job.name,
        "study": job.study,
        "stage": job.stage,
        "rule": job.rule,
        **{
            key: job.wildcards.get(key, "")
            for key in ("model", "task", "recipe", "policy", "seed", "eval_task", "shard")
        },
        "gpus": job.estimate.gpus,
        "seconds": round(job.estimate.seconds, 1),
        "gpu_hours": job.estimate.gpu_hours,
        "completions": job.estimate.completions,
        "tokens_generated": round(job.estimate.tokens_generated),
        "tokens_trained": round(job.estimate.tokens_trained),
        "kept_gb": job.estimate.kept_bytes / 1e9,
        "start_hours": job.start / 3600,
        "end_hours": job.end / 3600,
    }


def largest_device(planned_jobs: list, config: Configuration) -> str:
    """The device whose assumptions the plan states: a key of `durations.TRAINING_SHARE`."""
    if any(job.estimate.gpus for job in planned_jobs):
        return "gpu"
    names = {job.model for job in planned_jobs if job.rule in durations.STAGE_OF_RULE}
    shapes = [durations.model_shape(name, config.models[name], config.data) for name in names]
    return max(
        (durations.place(shape, 0) for shape in shapes if shape),
        key=list(durations.TRAINING_SHARE).index,
        default="cpu",
    )


def splits_of_unknown_size(
    planned_jobs: list[plans.PlannedJob], config: Configuration
) -> list[str]:
    """The splits ("train of gsm8k") that jobs sample and whose size is assumed."""
    sampling_jobs = [
        durations.Job.of(config, job.rule, job.wildcards)
        for job in planned_jobs
        if job.stage in ("probing", "evaluation")
    ]
    splits = {(job.split.task_name, job.split.name): job.split for job in sampling_jobs}
    return [
        f"{split} of {task}"
        for (task, split), content in splits.items()
        if durations.known_problems(content) is None
    ]


def assumptions(
    setting: plans.Setting, job_calibration, device: str, unknown_splits: list[str]
) -> list[str]:
    """The assumptions of the plan about a device and splits of unknown size, in sentences."""
    with_gpus = device == "gpu"
    gpu = gpu_kinds.GPUS[setting.gpu] if with_gpus else durations.CORE
    sentences = [
        f"One {setting.gpu if with_gpus else 'core'}: {gpu.flops / 1e12:.3g} TFLOP/s ({'bf16, dense' if with_gpus else 'fp32'}),"
        f" {gpu.bandwidth / 1e12:.3g} TB/s. Formulas and constants: src/hardgrpo/planning/durations.py."
    ]
    if job_calibration:
        sentences += [f"Calibrated on {job_calibration.jobs} finished jobs ({paths.CALIBRATION})."]
    else:
        sampling = "vllm" if with_gpus else device
        sentences.append(
            f"Not calibrated (scripts/plan/calibrate.py). Assumed: completions fill {durations.FILL:.0%} of their limit, sampling reaches"
            f" {durations.SAMPLING_SHARE[sampling]:.0%} of the speeds above, training {durations.TRAINING_SHARE[device]:.0%}."
        )
    sentences.append(
        f"Smallest effects assume that the accuracy has a standard deviation of {100 * power.SEED_SD:g} points over seeds;"
        " with one seed, they do not hold for new runs (docs/statistics.md)."
    )
    if unknown_splits:
        sentences.append(
            f"Assumed to have {durations.UNKNOWN_PROBLEMS} problems until they are prepared: {', '.join(unknown_splits)}."
        )
    if with_gpus:
        sentences.append(
            "GPU-hours count the time in which jobs hold GPUs; the wall time has no long waits in a queue."
        )
    return sentences


def format_plan(plan: dict) -> str:
    setting, totals = plan["setting"], plan["totals"]
    if not totals["jobs"]:
        return f"Nothing is left to do for {', '.join(plan['studies'])}."
    rows = [
        (
            row["study"], row["stage"], row["model"], row["jobs"], f"{row['gpu_hours']:.2f}", f"{row['job_hours']:.2f}",
            format_millions(row["tokens_generated"]), format_millions(row["tokens_trained"]), f"{row['kept_gb']:.1f}",
        )
        for row in [*plan["table"], totals | {"study": "total", "stage": "", "model": ""}]
    ]  # fmt: skip
    head = "study stage model jobs GPU-hours job-hours generated trained_on kept_GB"
    lines = format_table(head, rows, text_columns=3)
    lines.insert(1, "-" * len(lines[0]))
    lines.insert(-1, "-" * len(lines[0]))
    slots = "jobs" if setting["cluster"] else "cores"
    if totals["gpu_hours"]:
        place, unlimited = f"{setting['gpus']} GPUs ({setting['gpu']})", "GPUs"
    else:
        place, unlimited = f"{setting['slots']} {slots} at a time", slots
    lines += [
        "",
        f"Wall time on {place}: {format_duration(totals['wall_hours'])}; with unlimited {unlimited}"
        f" {format_duration(totals['critical_path_hours'])} (the critical path)",
    ]
    if totals["gpu_hours"]:
        lines.append(f"Cost at {setting['price']:g} a GPU-hour: {totals['cost']:,.0f}")
    lines += [
        f"Disk: at most {totals['peak_disk_gb']:,.1f} GB more than now",
        "",
        "Critical path:",
    ]
    lines += [
        f"  {format_duration(job.estimate.seconds / 3600):>9}  {job.name}"
        for job in plan["critical_path"]
    ]
    lines += format_effects(plan["detectable"]) + format_power(plan["power"])
    lines += label_counts.format_lines(plan["labels"]) + ["", *plan["assumptions"]]
    if totals["unknown"]:
        lines.append(
            f"The model's size is unknown for {totals['unknown']} jobs (the model's entry has no `shape`, and there is no local copy of the model); the plan assumes 2 hours for each."
        )
    return "\n".join([*format_question(plan["power"], setting["price"]), *lines])


def format_table(head: str, rows: list[tuple], text_columns: int) -> list[str]:
    """Lines of aligned columns, the first `text_columns` to the left; _ in the head is a space."""
    cells = [tuple(name.replace("_", " ") for name in head.split())]
    cells += [tuple(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    alignments = "<" * text_columns + ">" * (len(widths) - text_columns)
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, alignments, widths))
        for row in cells
    ]


def format_question(rows: list[dict], price: float) -> list[str]:
    """Whether the study can tell if the hardest tenth is better than a random tenth, for the first
    model and task for which HE printed both gains."""
    rows = [row for row in rows if row["claim"] == "hard_over_random"]
    if not rows:
        return []
    row = rows[0]
    can_detect = row["detectable"] <= abs(row["published"])
    can_decide = row["seeds"] >= row["replicates"]
    lines = [
        f"Is the hardest tenth better than a random tenth? Study {row['study']} {'can' if can_detect and can_decide else 'cannot'} tell, for {row['model']} on {row['task']}:",
        f"its {row['seeds']} seeds detect a lead of {100 * row['detectable']:.1f} points (power 80 %); the paper HE printed {100 * row['published']:+.1f} points.",
        f"To detect the printed lead, {row['takes']} seeds are needed: {row['gpu_hours']:,.0f} GPU-hours, {row['gpu_hours'] * price:,.0f} at {price:g} a GPU-hour."
        if row["takes"]
        else "No number of seeds detects the printed lead with these test problems.",
    ]
    if not can_decide:
        lines.append(
            f"The claim gets a verdict with {row['replicates']} seeds; with fewer, it is undecided."
        )
    return [*lines, ""]


def format_effects(rows: list[dict]) -> list[str]:
    if not rows:
        return []
    effects = [
        (
            *[row[key] for key in ("study", "test", "seeds", "problems", "samples")],
            *[f"{100 * row[key]:.1f}" for key in ("gain", "difference", "primary")],
        )
        for row in rows
    ]
    head = "study tested_on seeds problems samples gain difference primary"
    return [
        "",
        "Smallest effects, in points, that the study detects with power 80 %. gain: the gain of an arm; difference: the difference of two arms,",
        "corrected for the number of compared pairs of arms; primary: the difference of the two arms of a primary claim, corrected for the number",
        "of tasks (both by Bonferroni's method). A primary claim is written down before the study is run.",
        *format_table(head, effects, text_columns=2),
    ]


def format_power(rows: list[dict]) -> list[str]:
    if not rows:
        return []
    claims_of_study = [
        (
            f"{'*' if row['aims'] else ' '} {row['claim']}",
            row["model"],
            row["task"],
            f"{100 * row['published']:+.1f}",
            f"{100 * row['detectable']:.1f} with {row['seeds']}",
            row["takes"] or f">{power.MOST_SEEDS}",
            f"{row['gpu_hours']:,.0f}" if row["takes"] else "-",
        )
        for row in rows
    ]
    head = "claim model task published detectable,_with_seeds seeds_needed GPU-hours"
    return [
        "",
        "Seeds needed to detect a published difference with power 80 %, and the GPU-hours of the two arms' runs with so many seeds (*: a claim that the study aims at):",
        *format_table(head, claims_of_study, text_columns=3),
    ]


def format_duration(hours: float) -> str:
    if hours == 0:
        return "0"
    if hours < 1 / 60:
        return f"{hours * 3600:.2g} s"
    if hours < 1:
        return f"{hours * 60:.3g} min"
    return f"{hours:.3g} h" if hours < 48 else f"{hours / 24:.3g} d"


def format_millions(tokens: float) -> str:
    return f"{tokens / 1e6:,.2f} M" if tokens else "-"


def write(plan: dict, planned_jobs: list[plans.PlannedJob], text: str, folder: Path) -> None:
    totals = plan["setting"] | plan["totals"]
    files.write_text(folder / "plan.txt", text + "\n")
    for name, rows in (
        ("plan", plan["table"]),
        ("detectable", plan["detectable"]),
        ("power", plan["power"]),
        ("labels", plan["labels"]),
        ("totals", [totals]),
        ("jobs", [job_row(job) for job in planned_jobs]),
    ):
        files.write_rows(folder / f"{name}.csv", list(rows[0]) if rows else ["study"], rows)


if __name__ == "__main__":
    errors.run(main)
