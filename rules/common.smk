# Validates the configuration and names the files of a study. Nothing is computed here.

import functools
import json
import math
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.resources import Resource

SCRIPTS = Path(workflow.basedir) / "scripts"
sys.path.insert(0, str(Path(workflow.basedir) / "src"))

from hardgrpo.analysis import published  # noqa: E402
from hardgrpo.planning import calibration, durations  # noqa: E402
from hardgrpo.runtime import cluster, environments, warm  # noqa: E402
from hardgrpo.runtime import code as code_files  # noqa: E402
from hardgrpo.runtime.errors import UserError  # noqa: E402
from hardgrpo.study import checks, memory, paths, settings  # noqa: E402

# `--config update_inputs=true` arrives as text.
config["update_inputs"] = {"true": True, "false": False}.get(config.get("update_inputs"), config.get("update_inputs"))

try:
    checks.check(config, ", ".join(os.path.relpath(name) for name in workflow.configfiles))
    checks.check_writable("results", "paper")
except UserError as error:
    raise WorkflowError(str(error))

for name, value in environments.ALLOCATOR.items():
    os.environ.setdefault(name, value)
if os.getenv(warm.SOCKET) != warm.OFF:
    os.environ[warm.SOCKET] = warm.place() if workflow.local_exec and workflow.is_main_process else warm.OFF

# The programs find this clone's package, whatever is installed: in a container, a conda environment, one that clones share.
source = os.path.join(workflow.basedir, "src")
if source not in os.getenv("PYTHONPATH", "").split(os.pathsep):
    os.environ.update(PYTHONPATH=os.pathsep.join(filter(None, [source, os.getenv("PYTHONPATH")])))
# Rules say `python`: the one that Snakemake itself runs with.
os.environ.update(PATH=os.pathsep.join([os.path.dirname(sys.executable), os.getenv("PATH", os.defpath)]))
if shutil.which("sacct"):
    os.environ.update(PATH=os.pathsep.join([os.path.join(workflow.basedir, "slurm/bin"), os.getenv("PATH")]))

DATA = config["data"]
RECORDED = [name for name in config["models"] if settings.is_recorded(config, name)]
WEIGHTED = [name for name in config["models"] if name not in RECORDED]
CUT = [name for name, task in config["tasks"].items() if "cut_from" in task]
SAMPLED = [name for name in config["tasks"] if name not in CUT]
PRETRAINED = [name for name in WEIGHTED if config["models"][name]["source"]["kind"] == "pretrain"]
FETCHED = [name for name in WEIGHTED if name not in PRETRAINED]
STOPPED, NOT_STOPPED = settings.stopped_early(config)
if NOT_STOPPED and workflow.is_main_process:
    logger.info(f"tasks.{config['subset']['task']}.probe.stop is not heeded, the probe is in full: {NOT_STOPPED}")
UPDATE_INPUTS = "--update-inputs" if config["update_inputs"] else ""
TEX = next((tool for tool in ("latexmk", "tectonic") if shutil.which(tool)), None)

# Tables of a summary; the ones that need training runs are empty for recorded completions.
SUMMARY = [
    "accuracy",
    "gains",
    "differences",
    "mcnemar",
    "parts",
    "decomposition",
    "decomposition_runs",
    "sentences",
    "pass_at_k",
    "learnable",
    "curves",
    "fit",
    "regressions",
    "tiers",
    "reach",
    "parity",
    "budgets",
    "subsets",
    "difficulty",
    "published",
]
PUBLISHED = [
    f"results/published/{name}.csv"
    for name in (
        "base_wrong",
        "gains",
        "learnable",
        "lengths",
        "limits",
        "out_of_distribution",
        "readings",
        "recordings",
        "yardsticks",
    )
]
JUDGED = ["claims", "compared"]  # tables made from those
# The paper's tables, and the summary tables that they are written from.
TABLES = [
    "gain",
    "learnable",
    "weaker_signal",
    "out_of_distribution",
    "transfer",
    "differences",
    "parts",
    "graders",
    "tier_parts",
    "tiers",
    "reach",
    "subsets",
    "budgets",
    "regressions",
    "single_samples",
    "compared",
    "claims",
    "deviations",
]
NUMBERED = ["gains", "differences", "learnable", "parts", "subsets", "regressions", "claims", "sentences"]
TABULATED = [
    "gains",
    "learnable",
    "compared",
    "pass_at_k",
    "tiers",
    "differences",
    "decomposition",
    "parts",
    "mcnemar",
    "reach",
    "subsets",
    "budgets",
    "regressions",
    "claims",
]


def any_of(names):
    """A wildcard constraint that matches exactly these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


def as_json(value):
    """A slice of the configuration as one shell argument, in sorted order so that only content compares."""
    return json.dumps(settings.sorted_slice(value))


def code(program):
    """Checksum of a program of scripts/ and of all of this project that it imports: cheap rules have it as a parameter and so
    follow their code. Expensive rules do not."""
    return code_files.checksum(SCRIPTS / program)


def task_of(name):
    return config["tasks"][name]


def difficulty_of(task):
    """The argument for prompts without reference answers; nothing where there are answers."""
    return "--difficulty agreement" if task_of(task).get("difficulty") == "agreement" else ""


def parts_of(task, split):
    """(file that must be there, file or folder to read) of each part of a task's split."""
    source = task_of(task)["source"]
    if source["kind"] == "generated":
        return []
    if split not in source:
        missing = f"config.yaml: tasks.{task}.source.{split}"  # Snakemake names it as what is missing
        return [(missing, missing)]
    if source["kind"] == "files":
        path = os.path.join(DATA, source[split])
        return [(path, path)]
    parts = []
    for part in source[split]:
        local = os.path.join(DATA, part["local"]) if "local" in part else None
        folder = paths.dataset_folder(part)
        parts.append((local, local) if local and os.path.exists(local) else (f"{folder}/manifest.json", folder))
    return parts


SITE = [
    "slurm_account",
    "slurm_partition",
    "slurm_extra",
    "gpu_partition",
    "gpu_name",
    "constraint",
    "gpu_constraint",
    "longest_runtime",
]


def read_site():
    """What the profile's default-resources say of the cluster, as text.

    Snakemake takes them for Python expressions, and a partition may well be called `open` or `all`: made literal, they stay what
    they are, also for the Snakemake inside each job.
    """
    found = {}
    defaults = workflow.resource_settings.default_resources or {}
    for name in set(defaults) & set(SITE):
        entry = defaults[name]
        found[name] = str(entry.value if entry.raw is None else entry.raw).strip("'\"")
        defaults[name] = Resource(name, found[name], raw=repr(found[name]))
    if not re.fullmatch("[1-9][0-9]*", found.get("longest_runtime", "1")):
        raise WorkflowError(
            f"profile: default-resources: longest_runtime: '{found['longest_runtime']}' is not a number of minutes; write e.g. 1440"
        )
    return found


CLUSTER = read_site()
# The kind of GPU that walltimes and plans reckon with.
GPU = durations.gpu_kind(CLUSTER.get("gpu_name", "")) or config["plan"]["gpu"]


def capped(minutes):
    """A runtime that the cluster allows; a training that needs longer goes on in its next try."""
    return min(minutes, int(CLUSTER.get("longest_runtime", minutes)))


def for_gpus(count):
    """What jobs that need GPUs ask for: number, kind and place. `count` takes the wildcards and says how many.

    A resource that is None is not set: gpu_model without gpu would ask for no GPUs of a kind.
    """

    def on(gpu_entry, other_entry=None):
        return lambda w: (CLUSTER.get(gpu_entry) if count(w) else None) or CLUSTER.get(other_entry)

    return {
        "gpu": count,
        "gpu_model": on("gpu_name"),
        "cpus_per_task": lambda w: 4 * count(w) or None,
        "slurm_partition": on("gpu_partition", "slurm_partition"),
        "constraint": on("gpu_constraint", "constraint"),
        "place": lambda w: place(count(w)),
    }


def place(count):
    """How a job's GPUs and partition are called in its message."""
    gpus = f"{count} {CLUSTER.get('gpu_name', 'GPU')}" if count else "no GPU"
    partition = CLUSTER.get("gpu_partition" if count else "slurm_partition") or CLUSTER.get("slurm_partition")
    return gpus + (f" in partition {partition}" if partition else "")


def check_cluster(jobs):
    """Stop before anything is submitted if the cluster cannot run one of the jobs."""
    if workflow.executor_plugin.name != "slurm":
        return
    asked = []
    for job in jobs:
        if job.is_local:
            continue
        wants = job.resources.get
        asked.append(
            cluster.Request(
                job.rule.name,
                wants("slurm_partition"),
                wants("gpu") or 0,
                wants("gpu_model"),
                wants("mem_mb") or 0,
                wants("cpus_per_task") or job.threads,
                wants("runtime") or 0,
                wants("constraint"),
                wants("slurm_account"),
            )
        )
    try:
        if asked:
            cluster.check(asked)
    except UserError as error:
        raise WorkflowError(str(error))


def asked_gpus(count):
    """Arguments of a program that say which GPUs its job asked for; it checks them first."""
    kind = CLUSTER.get("gpu_name")
    return f"--gpus {count}" + (f" --gpu-name {shlex.quote(kind)}" if count and kind else "")


def setting():
    """Where jobs run, as a plan reckons with it: `hardgrpo.planning.plans.Setting`."""
    resources, plan = workflow.resource_settings, config["plan"]
    cluster = resources.nodes is not None
    gpus = workflow.global_resources.get("gpu")
    return {
        "gpu": GPU,
        "gpus": plan["gpus"] if cluster or gpus is None else gpus.value,
        "slots": resources.nodes if cluster else resources.cores,
        "cluster": cluster,
    }


if facts_file := os.getenv("HARDGRPO_PLAN_FACTS"):  # set by scripts/plan/plan.py, which asks for this dry-run
    Path(facts_file).write_text(json.dumps({"config": config, "setting": setting()}))


def plan_arguments():
    """What scripts/plan/plan.py must be told to plan what this Snakemake would run, where it would run it."""
    given = workflow.config_settings
    words = ["--profile", "laptop", "--setting", json.dumps(setting())]
    for name in given.configfiles:
        words += ["--configfile", str(name)]
    if given.config_args:
        words += ["--config", *given.config_args]
    return shlex.join(words)


def minutes(rule):
    """Walltime to ask for, as a resource of a rule: what the cost model expects with room to spare, and more on each attempt."""

    def asked(w, attempt):
        job = durations.Job.of(rule, dict(w.items()))
        return capped(durations.walltime(config, job, GPU, attempt, calibrated()))

    return asked


@functools.cache
def calibrated():
    try:
        return calibration.read()
    except UserError as error:
        raise WorkflowError(str(error))


def sampling_gpus(w):
    return settings.gpus(config, w.model, "sampling")["count"]


def sampling_memory(w):
    """Main memory of a sampling job in MB."""
    return 64000 * sampling_gpus(w) or (2000 if w.model in PRETRAINED else 6000)


def sampling_params(w):
    """Arguments of what samples completions: how the model is to be spoken to, and with which engine."""
    return f"--engine {settings.engine(config, w.model)} --chat {shlex.quote(as_json(settings.chat(config, w.model)))}"


def training_entry(w):
    return settings.training_gpus(config, settings.Run(w.model, w.task, w.recipe, w.policy, int(w.seed)))


def training_gpus(w):
    return training_entry(w)["count"]


def training_gpu_memory(w):
    """GiB that a run is estimated to need on each GPU; 0 on a CPU."""
    return math.ceil(memory.of_run(config, w.model, w.recipe, w.task)["total"]) if training_gpus(w) else 0


def training_warning(w, attempt):
    """Slurm's option to send SIGTERM so early that the current update can end and its state be saved before the time limit."""
    seconds = min(600, 15 * minutes("train_grpo")(w, attempt))
    return " ".join(filter(None, [CLUSTER.get("slurm_extra"), f"--signal=TERM@{seconds}"]))


def training_memory(w):
    """Main memory of a training job in MB."""
    count = training_gpus(w)
    if not count:
        return 2000 if w.model in PRETRAINED else 6000
    return math.ceil(1100 * count * memory.main_memory(config["models"][w.model]["shape"], config["recipes"][w.recipe]))


def training_hardware(w):
    """Arguments for the machine: they change how a run is computed, not which run it is, so they are a resource."""
    gpus = training_entry(w)
    asked = asked_gpus(gpus["count"])
    if not gpus["count"]:
        return asked
    sleep = " --vllm-sleep" if gpus["vllm_sleep"] else ""
    return (
        f"{asked} --micro-batch {gpus['micro_batch']} --vllm-memory {gpus['vllm_memory']}{sleep} --gpu-gib {training_gpu_memory(w)}"
    )


def recording(model, task):
    return config["models"][model]["source"]["recordings"][task]


def recorded_steps(pattern):
    """{step: file} of the recorded checkpoints that match a path with {step}.

    Where there is none, a path that does not exist stands for them: Snakemake names it if it needs it, and draws from
    cached summaries if it does not.
    """
    found = glob_wildcards(os.path.join(DATA, pattern)).step
    steps = {int(step): step for step in found if step.isdigit() and int(step) > 0} or {"N": "N"}
    return {step: os.path.join(DATA, pattern.replace("{step}", steps[step])) for step in sorted(steps)}


def probe_files(w):
    if (w.model, w.task) == STOPPED:
        return f"results/probe/{w.model}/{w.task}/stopped.jsonl.gz"
    shards = 1 if w.model in RECORDED else task_of(w.task)["probe"]["shards"]
    return [f"results/probe/{w.model}/{w.task}/shard{shard}.jsonl.gz" for shard in range(shards)]


def expected_samples(w):
    if w.model in RECORDED:
        return "--recorded"
    probe = task_of(w.task)["probe"]
    return f"--samples {probe['samples']}" + (f" --stopped {probe['stop']['confidence']}" if (w.model, w.task) == STOPPED else "")


def stop_arguments(w):
    """Arguments of a probe that stops as soon as `snakemake subset` knows what to choose."""
    chosen, stop = config["subset"], task_of(w.task)["probe"]["stop"]
    policy = {key: value for key, value in config["policies"][chosen["policy"]].items() if key != "probed_on"}
    batch = f" --batch {stop['batch']}" if "batch" in stop else ""
    return f"--stop-for {shlex.quote(as_json([policy | {'seed': chosen['seed']}]))} --confidence {stop['confidence']}{batch}"


def evaluation_params(w):
    task = task_of(w.eval_task)
    greedy = " --greedy" if task["test"]["greedy"] else ""
    return (
        f"--samples {task['test']['samples']}{greedy} --seed {task['test']['seed']} --completion-tokens {task['completion_tokens']}"
    )


def run_recordings(w):
    return recorded_steps(recording(w.model, w.task)["runs"][w.policy])


def drawing_only():
    """Whether nothing but figures, tables and papers is asked for. Then no study is run, whatever lies in results/."""
    drawings = lambda name: name in ("figures", "paper") or (name.startswith("paper/") and not name.endswith("explorer.html"))
    asked = [str(name) for name in workflow.dag_settings.targets]
    return bool(asked) and all(map(drawings, asked))


def summarized(w):
    """What a study's summaries are made from. Where only drawing is asked for this names a file that cannot exist, so that
    Snakemake takes the summaries as they are and never asks for a run."""
    if drawing_only():
        return "`figures` and `paper` make no summaries: they draw finished ones"
    return study_results(w.study) + [with_prompt for _, _, with_prompt in paths.recorded_probes(config, w.study)]


@functools.cache
def drawn_from(study):
    """Folder of the summary tables that a study's figures and paper are drawn from.

    A run draws what it has computed. `figures` and `paper` alone draw what `draw` in the configuration says; where that is not
    there, the path says what to do and Snakemake reports it as missing.
    """
    computed, reference = paths.computed(study), paths.reference(study)
    if not drawing_only():
        return computed
    there = {folder: paths.has_tables(folder, SUMMARY) for folder in (computed, reference)}
    wanted = {"computed": [computed], "reference": [reference], "auto": [computed, reference]}[config["draw"]]
    found = next((folder for folder in wanted if there[folder]), None)
    if found is None:
        return f"{' and '.join(wanted)}: no complete summaries of study {study}; run it: snakemake all --profile laptop --config study={study}"
    other = reference if found == computed else computed
    more = f"; `--config draw={'reference' if found == computed else 'computed'}` draws {other}" if there[other] else ""
    if workflow.is_main_process:
        logger.info(f"Study {study} is drawn from {found}{more}.")
    return found


def drawn(*names):
    """The summary tables that something is drawn from, as an input of its rule."""

    return lambda w: tables_of(drawn_from(w.study), names)


def tables_of(folder, names):
    return [folder] if ":" in folder else [f"{folder}/{name}.csv" for name in names]  # with a colon it says what is missing


def summaries_to_draw(w):
    """The tables that the configured study is drawn from: `figures` and `paper` ask for them themselves, because Snakemake does
    not report a missing input of figures that are there already."""
    return tables_of(drawn_from(config["study"]), SUMMARY)


def judged(name):
    return f"paper/{{study}}/{name}.csv"


def chosen_rows(subset):
    """The rows of the subset that `snakemake subset` chooses, in the form of the file that they come from."""
    source = task_of(subset["task"])["source"]
    kind = "csv" if source["kind"] == "files" and source.get("train", "").endswith(".csv") else "jsonl"
    return f"results/subsets/{subset['model']}/{subset['task']}/{subset['policy']}/seed{subset['seed']}.rows.{kind}"


def study_results(study):
    """The runs of a study and all that they were judged by."""
    return [
        name for files in (paths.evaluations, paths.subsets, paths.difficulties, paths.updates) for name in files(config, study)
    ]


def study_texts(study):
    """Evaluations, the completions that were graded in them, and the problems."""
    graded = paths.evaluations(config, study)
    texts = [name.replace(".csv.gz", ".jsonl.gz") for name in graded]
    return graded + texts + [f"results/tasks/{test}/test.jsonl" for test in paths.of_study(config, study)["tasks"]]


def study_prunings(study):
    """The runs of a study whose checkpoints may be thinned out; those that another study has yet to evaluate stay whole."""
    if config["keep_checkpoints"] == "all":
        return []
    here = set(paths.evaluations(config, study))
    needed = {
        run
        for other in config["studies"]
        for run in paths.runs(config, other)
        for name in paths.evaluations_of_run(config, other, run)
        if name not in here and not os.path.exists(name)
    }
    return [
        f"results/training/{run.path}/pruned.json"
        for run in paths.runs(config, study)
        if run.recipe != "recorded" and run not in needed
    ]


@functools.cache
def configured_runs():
    """The runs of the configured study: a set, because every job that prunes looks its run up."""
    return frozenset(paths.runs(config, config["study"]))


def run_evaluations(w):
    """What the configured study asks of a run: pruning waits for it."""
    run = settings.Run(w.model, w.task, w.recipe, w.policy, int(w.seed))
    if run not in configured_runs():
        return [f"config.yaml: studies.{config['study']} has no run {run.path}"]  # Snakemake names it as what is missing
    return paths.evaluations_of_run(config, config["study"], run)


# Summary tables that a figure is drawn from, the section of the report that it stands in, and what it is called there.
FIGURES = {
    "pipeline": (["subsets", "parity", "accuracy"], "Design", "From the pool to the results"),
    "difficulty": (["difficulty"], "Design", "Difficulty of the pool and of the subsets"),
    "accuracy": (["accuracy"], "Results", "Accuracy by checkpoint"),
    "parts": (["parts"], "What the gains are made of", "Finishing and correctness"),
    "truncation": (["parts"], "What the gains are made of", "Tight limit and room"),
    "lengths": (["curves"], "What the gains are made of", "Completion length over training"),
    "learnable": (
        ["gains", "learnable", "accuracy", "regressions"],
        "What explains the gains",
        "Learnable share and completion length",
    ),
    "tiers": (["tiers"], "Results", "Gain by difficulty tier"),
    "transfer": (["gains"], "Results", "Trained on one task, tested on another"),
    "budget": (["gains", "subsets"], "Results", "Gain by share of the pool"),
    "compared": (["compared"], "Published numbers", "Published against measured here"),
}


def figure_names(study):
    """Figures that the study has something for, by the configuration alone: recordings may lack trained runs, or the pool's probe."""
    plan, runs, trained = config["studies"][study], paths.runs(config, study), paths.updates(config, study)
    tests = {(run.task, test) for run in runs for test in paths.eval_tasks(config, study, run.task, run.model)}
    budgets = [
        (p["rule"], p["budget"]) for p in map(config["policies"].get, plan["policies"]) if "budget" in p and "probed_on" not in p
    ]
    wanted = {
        "pipeline": True,
        "difficulty": paths.probed(config, study),
        "accuracy": runs,
        "parts": runs,
        "truncation": cut_tests(study),
        "learnable": trained,
        "lengths": trained,
        "tiers": any(has_tiers(test) for _, test in tests),
        "transfer": any(task != test for task, test in tests),
        "budget": trained and len(set(budgets)) > len({rule for rule, _ in budgets}),
        "compared": runs and is_published(study, frozenset(runs)),
    }
    return [name for name, something in wanted.items() if something]


def has_tiers(task):
    """Whether problems of a task have a difficulty of their own; of a user's rows that is known only when they are read."""
    return task_of(task)["source"]["kind"] == "generated" or task_of(task)["source"].get("format") in ("gsm8k", "choices", "math")


def cut_tests(study):
    """{test: completion limit} of tests that judge the same completions, cut and whole, where runs are tested on both."""
    limits = {}
    for model, task in {(run.model, run.task) for run in paths.runs(config, study)}:
        tests = paths.eval_tasks(config, study, task, model)
        limits |= {
            name: task_of(name)["completion_tokens"]
            for cut in tests
            if task_of(cut).get("cut_from") in tests
            for name in (cut, task_of(cut)["cut_from"])
        }
    return limits


@functools.cache
def is_published(study, runs):
    """Whether a paper printed a number of a cell of the study: only then is there something to compare."""
    cells = {
        (run.model, run.task, test, policy)
        for run in runs
        for test in paths.eval_tasks(config, study, run.task, run.model)
        for policy in (settings.arm(config["studies"][study], run), "base")
    }
    try:
        return published.overlap(cells, "results/published")
    except UserError as error:
        raise WorkflowError(str(error))


def figure_design(figure):
    """The arguments of a figure's program that come from the configuration, as a parameter of its rule."""
    arguments = {
        "pipeline": lambda w: f"--study {shlex.quote(as_json(settings.described(config, w.study)))}",
        "truncation": lambda w: f"--limits {shlex.quote(as_json(cut_tests(w.study)))}",
    }
    return arguments.get(figure, "")


def study_figures(study):
    return expand("paper/{study}/figures/{figure}.{kind}", study=study, figure=figure_names(study), kind=["pdf", "png", "csv"])


def study_tables(study):
    return expand("paper/{study}/tables/{table}.{kind}", study=study, table=TABLES, kind=["tex", "csv", "html"]) + [
        f"paper/{study}/numbers.tex"
    ]


def study_paper(study):
    """All that is drawn, the report of what was verified, and the PDF where a TeX is installed."""
    return (
        study_figures(study) + study_tables(study) + [f"paper/{study}/verified.txt"] + ([f"paper/{study}/paper.pdf"] if TEX else [])
    )


def study_agreement(study):
    """The comparison with the committed reference of the same study, where there is one."""
    return [paths.agreement(study)] if paths.has_tables(paths.reference(study), ["decomposition_runs"]) else []


def show_results_command():
    study = config["study"]
    tables = f"{drawn_from(study)}/*.csv"
    agreement = "" if drawing_only() else " ".join(["", "--agreement", *study_agreement(study)]) * bool(study_agreement(study))
    return f"python scripts/paper/show_results.py --study {study} --tables {tables}{agreement}" + ("" if TEX else " --no-tex")
