"""Prepare the workflow before its first job: complete and check the configuration, set the
environment of jobs, and refuse jobs that would fail later.

`workflow` is Snakemake's object of this name in a Snakefile. Snakemake processes that run a single
job (on a cluster) also read the rules; in these processes `workflow.is_main_process` is False.
"""

import gc
import json
import os
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

from snakemake.logging import logger
from snakemake_interface_executor_plugins.settings import DeploymentMethod

from hardgrpo.runtime import environments, files, gpu_kinds, images, warm
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import checks, load, paths, pool_sizes
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import ModelFolder
from hardgrpo.workflow import slurm
from hardgrpo.workflow.failures import WorkflowError, raises_workflow_error
from hardgrpo.workflow.names import Names

# --- the configuration ---


@raises_workflow_error
def read_config_files(workflow) -> None:
    """Refuse files with duplicate keys, of which Snakemake would use the last."""
    if workflow.is_main_process:
        for name in [*workflow.configfiles, "config.yaml"]:
            files.read_yaml(name)


@raises_workflow_error
def complete(config: dict, workflow, cluster: dict[str, str]) -> Configuration:
    """Add the catalogue in config/ to Snakemake's configuration and check it. `cluster`: see
    `resources.read_cluster`."""
    _check_study_is_named(workflow)
    config.update(load.complete(config))
    # `--config update_inputs=true` arrives as text
    if config.get("update_inputs") in ("true", "false"):
        config["update_inputs"] = config["update_inputs"] == "true"
    _name_gpu(config, workflow, cluster)
    names = list(map(os.path.relpath, workflow.configfiles))
    overlays = {name: files.read_yaml(name) for name in names if Path(name).name != "config.yaml"}
    checked = checks.check(config, ", ".join(["config/", *names]), overlays)
    # Snakemake writes .snakemake even in a dry-run.
    folders = () if workflow.output_settings.dryrun else ("results", "paper")
    checks.check_writable(".snakemake", *folders)
    return checked


def _name_gpu(config: dict, workflow, cluster: dict[str, str]) -> None:
    """Set `plan.gpu` to the kind of GPU that a cluster's entries name."""
    if not isinstance(config.get("plan"), dict):
        return  # `checks.check` reports the mistake
    keys = [key for key in ("gpu_name", "gpu_constraint", "gpu_partition") if key in cluster]
    if kind := next(filter(None, (gpu_kinds.kind_of(cluster[key]) for key in keys)), None):
        config["plan"]["gpu"] = kind
    elif set(keys) - {"gpu_partition"} and workflow.is_main_process:
        logger.info(
            f"profile: {keys[0]}: '{cluster[keys[0]]}' is none of {', '.join(gpu_kinds.GPUS)}: time and memory are estimated for"
            f" plan.gpu: {config['plan']['gpu']}"
        )


def _check_study_is_named(workflow) -> None:
    """On a cluster, files of the user that name no study would replace slurm/study.yaml, and the
    study of config.yaml would run."""
    settings = workflow.config_settings
    is_on_cluster = workflow.resource_settings.nodes is not None
    if is_on_cluster and settings.configfiles and "study" not in settings.overwrite_config:
        names = ", ".join(os.path.relpath(path) for path in settings.configfiles)
        raise UserError(
            f"{names}: names no study, and replaces the file slurm/study.yaml of the profile; add a line such as `study: paper` to the file,"
            " or add --config study=NAME to the command"
        )


def report_ignored_stop(names: Names, workflow) -> None:
    if names.stop_obstacle and workflow.is_main_process:
        logger.info(names.stop_obstacle)


def results_obstacle(workflow) -> str | None:
    """Why existing results cannot be used unchanged, with a remedy; also logged."""
    obstacle = _missing_records() if workflow.is_main_process else None
    if obstacle:
        logger.warning(obstacle)
    return obstacle


def _missing_records() -> str | None:
    """Why Snakemake has no records of the jobs that made the models in results/models."""
    is_recorded = any(
        any(Path(".snakemake", folder).glob("*")) for folder in ("metadata", "incomplete")
    )
    if is_recorded or not any(Path().glob(paths.model_folder("*/manifest.json"))):
        return None
    folders = (Path("results"), *Path("results").iterdir())
    reason = (
        "results/ was copied here, or .snakemake is gone: Snakemake has no record of how its files were made,"
        " and cannot tell with which settings"
    )
    if link := next((path for path in folders if path.is_symlink()), None):
        reason = (
            f"{link} is a link to {link.resolve()}, and this clone's .snakemake has no record of how its files were made."
            " Never run two clones on one folder at a time"
        )
    return (
        f"{reason}. To keep the runs, call .venv/bin/snakemake --touch --profile laptop --config study=NAME for each study that was run;"
        " to compute them again, move them out of results/"
    )


# --- the environment of jobs ---


def has_containers(workflow) -> bool:
    return DeploymentMethod.APPTAINER in getattr(
        workflow.deployment_settings, "deployment_method", ()
    )


def has_tex(workflow) -> bool:
    """Whether jobs can compile the paper. The image for figures has TeX."""
    return has_containers(workflow) or any(map(shutil.which, ("latexmk", "tectonic")))


def prepare_environment(workflow, bound_folders: Collection[str] = ()) -> None:
    """Set the environment variables of jobs. `bound_folders`: folders that containers need besides
    the current folder."""
    # A plan of thousands of jobs keeps nearly all of its objects. A collection after every 700 new
    # objects (the default of Python 3.11 and 3.12) would free few of them and take a tenth of the
    # planning time.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    for name, value in environments.ALLOCATOR.items():
        os.environ.setdefault(name, value)
    if has_containers(workflow) or not (workflow.local_exec and workflow.is_main_process):
        os.environ[warm.SOCKET] = warm.OFF  # jobs run on other nodes or in containers
    # Programs import the package of this clone, even if the package of another clone is installed
    # in their container or virtual environment.
    source = os.path.join(workflow.basedir, "src")
    if source not in os.getenv("PYTHONPATH", "").split(os.pathsep):
        _prepend("PYTHONPATH", source)
    # `python` in a rule is the Python that runs Snakemake
    _prepend("PATH", os.path.dirname(sys.executable))
    if shutil.which("sbatch"):
        _prepend("PATH", os.path.join(workflow.basedir, "slurm/bin"))
    if has_containers(workflow):
        # Containers import this clone's package even if --cleanenv removes PYTHONPATH.
        os.environ.update(APPTAINERENV_PYTHONPATH=source, SINGULARITYENV_PYTHONPATH=source)
        # Add the folders to the user's list, under the variable's new and old name. Processes
        # of Snakemake on other nodes also run this code.
        for name in ("APPTAINER_BIND", "SINGULARITY_BIND"):
            os.environ[name] = ",".join(filter(None, [os.getenv(name), *bound_folders]))


def folders_to_bind(config: Configuration) -> list[str]:
    """Existing folders outside the current folder that jobs read or write."""
    folders = ["results", "paper", config.data]
    folders += [
        os.path.join(config.data, os.path.expanduser(model.source.path))
        for model in config.models.values()
        if isinstance(model.source, ModelFolder)
    ]
    # a folder may be a symbolic link, whose target must be bound, too
    paths = {path for name in folders for path in (Path(name).absolute(), Path(name).resolve())}
    return sorted(
        str(path) for path in paths if path.exists() and not path.is_relative_to(Path.cwd())
    )


def _prepend(variable: str, folder: str) -> None:
    default = os.defpath if variable == "PATH" else ""
    os.environ[variable] = os.pathsep.join(filter(None, [folder, os.getenv(variable, default)]))


# --- plans ---


def write_plan_facts(config: dict, setting: dict) -> None:
    """Write configuration and machine for scripts/plan/plan.py, if it started this dry-run."""
    if facts_file := os.getenv("HARDGRPO_PLAN_FACTS"):
        Path(facts_file).write_text(json.dumps({"config": config, "setting": setting}))


# --- before the first job ---


@raises_workflow_error
def check_jobs(config: Configuration, workflow, obstacle: str | None) -> None:
    """Refuse jobs that cannot succeed, and start the server that forks programs. `obstacle`: see
    `results_obstacle`."""
    if obstacle and workflow.executor_plugin.name != "touch":
        raise WorkflowError(obstacle)
    jobs = list(workflow.dag.needrun_jobs())
    if has_containers(workflow) and any(job.container_img_url for job in jobs):
        _check_images()
    remote_jobs = [job for job in jobs if not job.is_local]
    if remote_jobs and workflow.executor_plugin.name == "slurm":
        slurm.check(remote_jobs, workflow)
    _check_pools(config, jobs)
    if workflow.executor_plugin.name == "local" and warm.SOCKET not in os.environ:
        warm.start()


def _check_images() -> None:
    for path in images.PATHS.values():
        if not Path(path).exists():
            raise UserError(
                f"{path}: no such image; make it (`snakemake --profile laptop images`, with internet) or copy it here"
            )


def _check_pools(config: Configuration, jobs: list) -> None:
    """Refuse a prepared pool that is too small for a subset of this call."""
    tasks_to_prepare = {job.wildcards.task for job in jobs if job.rule.name == "prepare_task"}
    subsets = [
        job.wildcards
        for job in jobs
        if job.rule.name == "select_subset" and job.wildcards.task in config.tasks
    ]
    subsets_of_prepared_pools = [
        (wildcards.policy, wildcards.task)
        for wildcards in subsets
        if wildcards.task not in tasks_to_prepare
    ]
    pool_sizes.check_prepared(config, subsets_of_prepared_pools)
