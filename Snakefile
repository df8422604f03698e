# From problems to the paper: tasks -> probe -> difficulty -> subsets -> GRPO -> evaluation -> summaries -> figures, tables, paper.

import signal

# While Snakemake reads this file, it has started nothing and holds no lock: let Ctrl-C end it without a traceback.
RAISES = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if RAISES:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import gc  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from snakemake.exceptions import WorkflowError  # noqa: E402
from snakemake.utils import min_version  # noqa: E402

min_version("9.20")

# Exempt everything loaded so far from garbage collection, which otherwise takes an eighth of the time of a large plan.
gc.freeze()

sys.path.insert(0, str(Path(workflow.basedir) / "src"))

from hardgrpo.runtime import files, user_settings  # noqa: E402
from hardgrpo.runtime.errors import UserError  # noqa: E402
from hardgrpo.study import load  # noqa: E402

user_settings.ignore()

try:
    for name in [*workflow.configfiles, "config.yaml"] if workflow.is_main_process else []:
        files.read_yaml(name)  # refuses duplicate keys; Snakemake takes the last one
except UserError as error:
    raise WorkflowError(str(error))


configfile: "config.yaml"


try:
    config.update(load.complete(config))
except UserError as error:
    raise WorkflowError(str(error))


report: "rules/report/workflow.rst"


include: "rules/common.smk"
include: "rules/resources.smk"
include: "rules/arguments.smk"
include: "rules/planning.smk"
include: "rules/drawing.smk"
include: "rules/software.smk"


wildcard_constraints:
    model="[^/]+",
    task="[^/]+",
    eval_task="[^/]+",
    policy="[^/]+",
    recipe="[^/]+",
    study="[^/]+",
    seed=r"\d+",
    shard=r"\d+",
    split="train|test",


rule all:
    default_target: True
    input:
        paths.results(config, config["study"]),
        paths.prunings(config, config["study"]),
        study_paper(config["study"]),
        [] if without_pdf(config["study"]) else study_pdf(config["study"]),
        study_agreement(config["study"]),
        study_explorer(config["study"]),
    message:
        f"Study {config['study']} is complete"


rule figures:
    input:
        summaries_to_draw,
        study_figures(config["study"]),
        study_tables(config["study"]),
    message:
        f"Figures and tables of study {config['study']} are drawn"


rule paper:
    input:
        summaries_to_draw,
        study_paper(config["study"]),
        study_pdf(config["study"]),
    message:
        f"The paper of study {config['study']} is made"


rule crate:
    input:
        f"paper/{config['study']}/crate.zip",
    message:
        f"The crate of study {config['study']} is packed"


rule explorer:
    input:
        study_explorer(config["study"])
        or f"config.yaml: studies.{config['study']} has no completions, so there is nothing to explore",
    message:
        f"The explorer of study {config['study']} is made"


rule subset:
    input:
        paths.chosen_rows(config),
        paths.pool_comparison(settings.sampled_task(config["tasks"], config["subset"]["task"])),
        pools.own_comparison(config["tasks"], config["subset"]["task"]),
    message:
        "The subset of {config[subset][task]} is chosen"


rule inputs:
    input:
        paths.inputs(config, config["study"]),
    message:
        f"Everything that study {config['study']} needs from the internet is here"


rule images:
    input:
        IMAGE.values(),
    message:
        "The container images are built"


include: "rules/inputs.smk"
include: "rules/probe.smk"
include: "rules/subsets.smk"
include: "rules/training.smk"
include: "rules/rounds.smk"
include: "rules/evaluation.smk"
include: "rules/summaries.smk"
include: "rules/figures.smk"
include: "rules/paper.smk"
include: "rules/explorer.smk"
include: "rules/plan.smk"


if RAISES:
    signal.signal(signal.SIGINT, signal.default_int_handler)


onstart:
    # Remove Snakemake's default limit of 100 job starts a second. It starts a timer after each finished job, and each timer starts
    # another one a second later (9.27, scheduling/job_scheduler.py): after 365 jobs the timers took a third of a core. The option
    # --max-jobs-per-timespan, also in a profile, cannot say "no limit": with a limit of any size, timers run and delay the exit.
    limit = workflow.scheduling_settings.max_jobs_per_timespan
    if limit and (limit.max_jobs, limit.timespan) == (100, 1):  # the default; a limit that the user sets stays
        workflow.scheduler.job_rate_limiter = None
    if UNRECORDED and workflow.executor_plugin.name != "touch":
        raise WorkflowError(UNRECORDED)
    if CONTAINERS and any(job.container_img_url for job in workflow.dag.needrun_jobs()):
        try:
            images.check()
        except UserError as error:
            raise WorkflowError(str(error))
    check_cluster(workflow.dag.needrun_jobs())
    check_pools(workflow.dag.needrun_jobs())


onsuccess:
    ended = [job.output.provenance for job in workflow.dag.jobs if job.rule.name in TRAINING]
    states.forget(ended, Path(paths.STATES))
    note_missing_pdf(config["study"])
    if not {"subset", "inputs", "images", "plan", "intact"} & set(workflow.dag_settings.targets):
        shell(show_results_command())
