"""Ask Slurm before the first submission whether it would accept all jobs.

`workflow` is Snakemake's object of this name in a Snakefile.
"""

import os
import shlex
import shutil
import subprocess

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake_executor_plugin_slurm.job_status_query import get_min_job_age
from snakemake_executor_plugin_slurm.submit_string import get_submit_command
from snakemake_executor_plugin_slurm.utils import set_gres_string
from snakemake_executor_plugin_slurm.validation import validate_slurm_extra

from hardgrpo.runtime.errors import UserError

# The exit status of `slurm/bin/sbatch --test-only` for a job that Slurm refuses only at present.
REFUSED_FOR_NOW = 75
# The resources of a job that become options of sbatch.
OPTIONS = (
    "slurm_account", "slurm_partition", "constraint", "qos", "gpu", "gpu_model", "mem_mb", "cpus_per_task",
    "runtime", "slurm_extra",
)  # fmt: skip
# The longest interval between two status checks of Snakemake's plugin, with a margin.
STATUS_INTERVAL_SECONDS = 200


def check(jobs: list, workflow) -> None:
    """Raise a `UserError` if jobs of an earlier start still run in this folder, or if Slurm refuses
    one of `jobs`. Otherwise choose the command that reports the states of jobs."""
    if shutil.which("sbatch") is None:
        raise UserError(
            "profile slurm: Slurm is not on this machine (no sbatch); run on a login node of the cluster, or use --profile laptop"
        )
    if earlier_jobs := _earlier_jobs():
        raise UserError(
            f"nothing was submitted, because jobs of an earlier start in this folder still run: {', '.join(earlier_jobs)}; wait for them, or"
            f" stop them: scancel {' '.join(earlier_jobs)}"
        )
    if refusals := _refusals(jobs, workflow):
        raise UserError(
            "nothing was submitted, because Slurm refuses these jobs:",
            *refusals,
            "change slurm/config.yaml, the model's gpus in config/models.yaml, or a rule's resource (--set-resources RULE:NAME=VALUE)",
        )
    _choose_status_command(workflow.executor_settings)


def _earlier_jobs() -> list[str]:
    answer = _ask("squeue --me --noheader '--format=%i|%k|%Z'")
    if answer.returncode:
        raise UserError(f"{answer.stderr.strip()}; start again when Slurm answers")
    rows = [line.split("|", 2) for line in answer.stdout.splitlines()]
    return [
        job
        for job, comment, folder in rows
        # the plugin's comments begin with the name of the rule
        if comment.startswith("rule_") and os.path.realpath(folder) == os.path.realpath(".")
    ]


def _refusals(jobs: list, workflow) -> list[str]:
    """One line for each rule and reason. Slurm is asked once for each distinct request."""
    distinct_jobs = {(job.rule.name, str(job.resources)): job for job in jobs}
    answers, refused_jobs = {}, {}
    for job in distinct_jobs.values():
        try:
            command = _submit_command(job, workflow)
        except WorkflowError as error:  # the plugin itself refuses the job
            refused_jobs.setdefault((job.rule.name, " ".join(str(error).split())), job)
            continue
        if command not in answers:
            answers[command] = _ask(command)
        lines = answers[command].stderr.strip().splitlines()
        words = "; ".join(line.removeprefix("sbatch: error: ") for line in lines)
        if answers[command].returncode == REFUSED_FOR_NOW:
            logger.warning(f"Slurm takes no job of rule {job.rule.name} at present: {words}")
        elif answers[command].returncode:
            refused_jobs.setdefault((job.rule.name, words), job)
    return [
        f"rule {rule}: {words} (requested: {_request(job)})"
        for (rule, words), job in refused_jobs.items()
    ]


def _submit_command(job, workflow) -> str:
    """The plugin's command to submit a job, with the option to only test it."""
    validate_slurm_extra(job)
    executor = workflow.scheduler._executor
    parameters = {
        "run_uuid": executor.run_uuid,
        "slurm_logfile": os.devnull,
        "comment_str": "test",
        "account": next(executor.get_account_arg(job)),
        "partition": executor.get_partition_arg(job),
        "workdir": workflow.workdir_init,
    }
    command = get_submit_command(job, parameters, settings=workflow.executor_settings)
    return f"{command}{set_gres_string(job)} --test-only --wrap true"


def _request(job) -> str:
    options = {name: job.resources.get(name) for name in OPTIONS}
    return ", ".join(f"{name}={value}" for name, value in options.items() if value)


def _choose_status_command(settings) -> None:
    """Let the plugin ask squeue if the cluster has no accounting. Raise a `UserError` if squeue
    forgets jobs before the plugin asks."""
    if _ask("sacct -X -n --clusters all --name hardgrpo").returncode == 0:
        return
    known_seconds = get_min_job_age() or 0
    needed_seconds = max(STATUS_INTERVAL_SECONDS, 3 * settings.init_seconds_before_status_checks)
    if known_seconds < needed_seconds:
        raise UserError(
            f"this cluster has no accounting (sacct), and squeue forgets a job {known_seconds} s after its end, so Snakemake might wait for ever;"
            f" ask the administrators for MinJobAge={needed_seconds} or accounting"
        )
    logger.info("The states of jobs come from squeue, because this cluster has no accounting.")
    settings.status_command = "squeue"


def _ask(command: str) -> subprocess.CompletedProcess:
    return subprocess.run(shlex.split(command), capture_output=True, text=True)
