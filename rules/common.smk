# Check the configuration, prepare the environment of jobs, and define what several rule files use.

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

from hardgrpo.planning import calibration, durations  # noqa: E402
from hardgrpo.report import registry  # noqa: E402
from hardgrpo.runtime import cluster, environments, files, states, submission, warm  # noqa: E402
from hardgrpo.runtime import code as code_files  # noqa: E402
from hardgrpo.runtime.errors import UserError  # noqa: E402
from hardgrpo.selection import policies  # noqa: E402
from hardgrpo.study.spec import Spec  # noqa: E402
from hardgrpo.study import checks, claim_conditions, load, memory, paths, pool_sizes, pools, settings  # noqa: E402

# `--config update_inputs=true` arrives as text.
config["update_inputs"] = {"true": True, "false": False}.get(config.get("update_inputs"), config.get("update_inputs"))

try:
    config_paths = [Path(os.path.relpath(name)) for name in workflow.configfiles]
    checks.check(config, ", ".join(map(str, config_paths)), [*load.sources(), *config_paths])
    checks.check_writable("results", "paper")
except UserError as error:
    raise WorkflowError(str(error))


def explain_results():
    """Why results that are here cannot be used as they are, and what to do; None if Snakemake has records of how they were made."""
    recorded = any(any(Path(".snakemake", folder).glob("*")) for folder in ("metadata", "incomplete"))
    if recorded or not any(Path().glob(paths.model_folder("*/manifest.json"))):
        return None
    if links := [path for path in (Path("results"), *Path("results").iterdir()) if path.is_symlink()]:
        reason = (
            f"{links[0]} is a link to {links[0].resolve()}, and Snakemake has no record here of how the files there were made. Never run"
            " two clones on it at a time: they do not see each other's locks"
        )
    else:
        reason = (
            "Snakemake has no record of how results/ was made, because results/ was copied from elsewhere or .snakemake was removed:"
            " it may run every job again, and would not see that settings differ"
        )
    return (
        f"{reason}. To keep the runs, call .venv/bin/snakemake --touch --profile laptop --config study=NAME for each study that was run."
        " To compute them again, move the files or links out of results/"
    )


UNRECORDED = explain_results() if workflow.is_main_process else None
if UNRECORDED:
    logger.warning(UNRECORDED)

for name, value in environments.ALLOCATOR.items():
    os.environ.setdefault(name, value)
if os.getenv(warm.SOCKET) != warm.OFF:
    here = workflow.local_exec and workflow.is_main_process
    os.environ[warm.SOCKET] = os.getenv(warm.SOCKET, warm.place()) if here else warm.OFF

# Programs import the package of this clone, even if their environment (a container, one shared by clones) has another.
source = os.path.join(workflow.basedir, "src")
if source not in os.getenv("PYTHONPATH", "").split(os.pathsep):
    os.environ.update(PYTHONPATH=os.pathsep.join(filter(None, [source, os.getenv("PYTHONPATH")])))
# `python` in a rule is the Python that runs Snakemake.
os.environ.update(PATH=os.pathsep.join([os.path.dirname(sys.executable), os.getenv("PATH", os.defpath)]))
if shutil.which("sbatch"):
    os.environ.update(PATH=os.pathsep.join([os.path.join(workflow.basedir, "slurm/bin"), os.getenv("PATH")]))

DATA = config["data"]
RECORDED = [name for name in config["models"] if settings.is_recorded(config, name)]
TRAJECTORIES = {name: model["source"] for name, model in config["models"].items() if settings.is_trajectory(config, name)}
# The wildcard `model` in paths of results names a base: the model's name, or tiny-seed0 where each replicate has its own base.
WEIGHTED = [base for name in config["models"] if settings.has_weights(config, name) for base in settings.used_bases(config, name)]
CUT = [name for name, task in config["tasks"].items() if "cut_from" in task]
SAMPLED = [name for name in config["tasks"] if name not in CUT]
PRETRAINED = [name for name in WEIGHTED if settings.entry(config, name)["source"]["kind"] == "pretrain"]
FETCHED = [name for name in WEIGHTED if name not in PRETRAINED]
STOPPED, NOT_STOPPED = settings.early_stop(config)
if NOT_STOPPED and workflow.is_main_process:
    logger.info(f"tasks.{config['subset']['task']}.probe.stop is ignored, so every prompt gets all its samples: {NOT_STOPPED}")
UPDATE_INPUTS = "--update-inputs" if config["update_inputs"] else ""


def any_of(names):
    """A wildcard constraint that matches exactly these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


def as_json(value):
    """A slice of the configuration as one shell argument. Keys are sorted, because Snakemake compares parameters as text."""
    return json.dumps(settings.sorted_slice(value))


def code(program, *modules):
    """Checksum of a program of scripts/, of the library modules that it finds by name, and of all project code that these import.

    Cheap rules have it as a parameter, so that they run again when their code changes. Expensive rules do not have it.
    """
    return code_files.checksum(SCRIPTS / program, *(code_files.SOURCE / f"hardgrpo/{module}.py" for module in modules))


def task_of(name):
    return config["tasks"][name]


def parts_of(task, split):
    return paths.parts(config, task, split)


def recording(model, task):
    return config["models"][model]["source"]["recordings"][task]


def recorded_steps(pattern):
    """{step: file} of the recorded checkpoints that match a path with {step}.

    If none exists, return a missing path. Snakemake reports it only if a job needs it: committed summaries can be drawn without it.
    """
    found = glob_wildcards(os.path.join(DATA, pattern)).step
    steps = {int(step): step for step in found if step.isdigit() and int(step) > 0} or {"N": "N"}
    return {step: os.path.join(DATA, pattern.replace("{step}", steps[step])) for step in sorted(steps)}
