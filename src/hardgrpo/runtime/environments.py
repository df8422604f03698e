"""Which Python runs a program: vLLM lives in an environment of its own, and several GPUs need a launcher."""

import importlib.metadata
import importlib.util
import os
import re
import sys
from pathlib import Path

from hardgrpo.runtime.errors import UserError

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src"  # where this package is, for a Python that it is not installed in
FOR_GPUS, FOR_CPU = ".venv-gpu", ".venv-vllm-cpu"
NAMED = "HARDGRPO_VLLM_PYTHON"
STARTED_AGAIN = "HARDGRPO_STARTED_AGAIN"
# What computes downloads nothing: compute nodes have no internet, and TRL, transformers and vLLM would each try.
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
# glibc gives large blocks back to the system after every use and has them zeroed again: keeping them makes sampling with a
# growing cache 1.6 times as fast on a CPU. Other allocators ignore it. Read at a program's start: the workflow sets it.
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": "4294967296", "MALLOC_MMAP_THRESHOLD_": "4294967296"}
# Set to 1: GPUs are asked for and the grant is checked, and the CPU does the work. For trying a profile and a cluster before
# hours of GPUs are spent, and for tests.
REHEARSAL = "HARDGRPO_REHEARSAL"
# What a GPU's name in a scheduler says of its kind. Other names (`gpu`, `big`, a site's own) are not compared.
FAMILIES = ["gb200", "gh200", "b200", "b100", "h200", "h100", "h800", "a100", "a800", "l40", "l4", "a40", "a30", "a10", "v100"]
FAMILIES += ["p100", "t4", "mi300", "mi250", "mi210", "rtx"]


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
        found = {"PATH": path, "PYTHONPATH": os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))}
        os.execve(python, [python, *sys.argv], os.environ | found | {STARTED_AGAIN: python})
    if STARTED_AGAIN in os.environ:
        where = f"{os.environ[STARTED_AGAIN]} does not have it either"
    else:
        where = f"{python} ({NAMED}) cannot be run" if NAMED in os.environ else "this Python does not have it"
    raise UserError(
        f"{missing[0]} is not installed ({where}); install it with `make gpu` (NVIDIA GPUs) or `make vllm-cpu`, or do without:"
        " engine: transformers for a model, generation: transformers and base: bf16 for a recipe"
    )


def add_gpu_arguments(parser) -> None:
    parser.add_argument("--gpus", type=int, default=0, help="GPUs that must be there; 0 computes on the CPU")
    parser.add_argument("--gpu-name", help="kind of GPU that was asked for, as the scheduler calls it")
    parser.add_argument("--gpu-gib", type=float, default=0.0, help="memory in GiB that is needed on each GPU")


def granted_gpus(asked: int) -> int:
    """How many GPUs to compute on: those asked for, none in a rehearsal. A `UserError` where the scheduler granted fewer.

    Call it before anything heavy is imported: in a rehearsal it hides the GPUs.
    """
    rehearsal = os.environ.get(REHEARSAL, "")
    if not asked or rehearsal == "checked":  # by the process that started this one
        return 0 if rehearsal else asked
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    granted = None if shown is None else len([entry for entry in shown.split(",") if entry.strip()])
    if granted is None and rehearsal:
        raise UserError(
            f"GPUs asked for: {asked}, granted: unknown, CUDA_VISIBLE_DEVICES is not set ({REHEARSAL}={rehearsal}); run it in a job"
            " that was given GPUs"
        )
    if granted is not None and granted < asked:
        raise UserError(
            f"GPUs asked for: {asked}, granted: {granted} (CUDA_VISIBLE_DEVICES is '{shown}'); check partition and GPUs of the job"
            " (slurm/config.yaml), or set CUDA_VISIBLE_DEVICES to as many"
        )
    if not rehearsal:
        return asked
    os.environ.update({REHEARSAL: "checked", "CUDA_VISIBLE_DEVICES": ""})
    print(f"rehearsal: {granted} GPUs granted, the CPU does the work", file=sys.stderr, flush=True)
    return 0


def family(name: str) -> str | None:
    """The kind of GPU in a name: h100 in `nvidia_h100_80gb_hbm3` and in `NVIDIA H100 80GB HBM3`; None where it says none."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return next(
        (kind for kind in FAMILIES if any(re.fullmatch(rf"{kind}[a-z]*" if kind != "rtx" else "rtx.*", word) for word in words)),
        None,
    )


def check_gpus(count: int, name: str | None = None, gib: float = 0.0) -> None:
    """A `UserError` where fewer GPUs are visible than were asked for (a 4B model on a CPU would run for weeks in silence), others
    than those asked for, or too small ones."""
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
    for index in range(count if name or gib else 0):
        device = torch.cuda.get_device_properties(index)
        asked, found = family(name or ""), family(device.name)
        if asked and found and asked != found:
            raise UserError(
                f"GPU {index} is a {device.name}, asked for: {name}; correct gpu_name or gpu_partition in slurm/config.yaml, or ask the"
                " cluster's administrators"
            )
        if device.total_memory / 2**30 < gib:
            raise UserError(
                f"GPU {index} ({device.name}) has {device.total_memory / 2**30:.0f} GiB, the run needs about {gib:.0f}; ask for larger"
                " GPUs (gpu_name or gpu_constraint in slurm/config.yaml), or lower micro_batch or vllm_memory of the model"
            )
