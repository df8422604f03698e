"""Choose the Python that runs a program (vLLM has its own environment), check the GPUs of a job, and
set the folders of compilers' caches."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

from hardgrpo.runtime import user_settings
from hardgrpo.runtime.errors import UserError
from hardgrpo.runtime.gpu_kinds import kind_of

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src"  # added to PYTHONPATH, because another Python may lack this package
GPU_ENVIRONMENT, CPU_ENVIRONMENT = ".venv-gpu", ".venv-vllm-cpu"
PYTHON_VARIABLE = "HARDGRPO_VLLM_PYTHON"
STARTED_AGAIN = "HARDGRPO_STARTED_AGAIN"
# Compute nodes have no internet, but TRL, transformers and vLLM would otherwise try to download
# files.
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
# By default glibc returns large blocks to the system after every use, and the system fills them
# with zeros again. Keeping the blocks makes sampling with a growing cache 1.6 times as fast on a
# CPU. A process reads these variables when it starts, so the workflow sets them.
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": "4294967296", "MALLOC_MMAP_THRESHOLD_": "4294967296"}
# Variables that make torch (ATen) and NumPy's OpenBLAS use kernels that every x86-64 processor with
# AVX2 can run. Both libraries read the variables when they are loaded. See `exact_products`.
EXACT = {"ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}
# With HARDGRPO_REHEARSAL=1, a job requests GPUs and checks that they were granted, but computes on
# the CPU. A rehearsal is a cheap test of a profile and a cluster; the tests also use rehearsals.
REHEARSAL = "HARDGRPO_REHEARSAL"
# {variable that names a cache of compiled kernels: subfolder of this project's cache}. The
# default caches of Triton, vLLM and FlashInfer are in the home folder, which is often small, slow
# or read-only on compute nodes.
CACHES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "VLLM_CACHE_ROOT": "vllm",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
}


def has_avx2() -> bool:
    """Whether the processor is an x86-64 with AVX2 and FMA (Linux only)."""
    try:
        with open("/proc/cpuinfo", "rb") as stream:
            flags = re.search(rb"^flags\s*:(.*)$", stream.read(2**14), re.MULTILINE)
    except OSError:
        return False
    return flags is not None and {b"avx2", b"fma"} <= set(flags[1].split())


def prepare_exact() -> None:
    """Set the variables of `EXACT` if the processor can run their kernels, before torch and NumPy
    are loaded; not in a program that `use` has restarted."""
    if STARTED_AGAIN not in os.environ and has_avx2():
        os.environ.update(EXACT)


def is_exact() -> bool:
    return all(os.environ.get(name) == value for name, value in EXACT.items())


def choose_engine(engine: str, gpus: int) -> str:
    """`engine`; for `auto` vLLM if this Python or `vllm_python(gpus)` has it, else transformers."""
    if engine != "auto":
        return engine
    is_importable = importlib.util.find_spec("vllm") and (gpus or not has_gpu_build())
    return "vllm" if is_importable or os.access(vllm_python(gpus), os.X_OK) else "transformers"


def has_gpu_build() -> bool:
    """Whether this Python has vLLM's build for GPUs, as container images do even in jobs without
    GPUs."""
    try:
        return "cpu" not in importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:  # the build for CPUs has the name vllm-cpu
        return False


def vllm_python(gpus: int) -> str:
    """The path of the Python for vLLM and bitsandbytes. There may be no file at this path."""
    return os.environ.get(PYTHON_VARIABLE) or str(
        ROOT / (GPU_ENVIRONMENT if gpus else CPU_ENVIRONMENT) / "bin/python"
    )


def use(*packages: str, gpus: int = 0) -> None:
    """Restart this program with `vllm_python(gpus)` if this Python lacks one of `packages` or, with
    `gpus`, a torch for GPUs. Call it before heavy imports. Raise a `UserError` if both lack
    them."""
    os.environ.update(OFFLINE)
    if "vllm" in packages:  # vLLM chooses its kernels itself
        for name in EXACT.keys() - {"OPENBLAS_NUM_THREADS"}:
            os.environ.pop(name, None)
    missing_packages = [
        package for package in packages if importlib.util.find_spec(package) is None
    ]
    if gpus and cuda_version() is None:
        missing_packages.append("torch for GPUs")
    if not missing_packages:
        return
    python = vllm_python(gpus)
    if os.access(python, os.X_OK) and STARTED_AGAIN not in os.environ:
        sys.stdout.flush()
        # the tools beside that Python come first on PATH
        path = os.pathsep.join([os.path.dirname(python), os.environ.get("PATH", os.defpath)])
        python_path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
        variables = {"PATH": path, "PYTHONPATH": python_path, STARTED_AGAIN: python}
        os.execve(python, [python, *sys.argv], os.environ | variables)
    tried = os.environ.get(STARTED_AGAIN) or os.environ.get(PYTHON_VARIABLE) or "this Python"
    alternative = (
        "take `gpus` out of the model in config/models.yaml"
        if missing_packages == ["torch for GPUs"]
        else "`make vllm-cpu`, or choose transformers as engine and generation, and optimiser adamw"
    )
    raise UserError(
        f"{missing_packages[0]} is not installed ({tried} lacks it); `make gpu` installs it, or {alternative}"
    )


def cuda_version() -> str | None:
    """The CUDA version of this Python's torch, without importing it; None for a build for CPUs."""
    torch_spec = importlib.util.find_spec("torch")
    if torch_spec is None or torch_spec.origin is None:
        return None
    path = Path(torch_spec.origin).with_name("version.py")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    version = re.search(r"^cuda\b[^=\n]*= *'([0-9.]+)'", text, re.MULTILINE)
    return version[1] if version else None


def prepare_compilation() -> None:
    """Set the folders of compilers' caches: vLLM and TRL compile kernels with Triton. Refuse a node
    without a C compiler, on which Triton would fail only in the first update."""
    compilers = [os.environ["CC"]] if os.environ.get("CC") else ["gcc", "clang"]
    if not any(map(shutil.which, compilers)):
        raise UserError(
            f"kernels are compiled on this node, and {' or '.join(compilers)} is not installed; load a compiler in every job (precommand:"
            " module load gcc in slurm/config.yaml), or run jobs in containers (--sdm apptainer)"
        )
    base = Path(os.environ.get("SLURM_TMPDIR") or os.environ.get("TMPDIR") or "/tmp")
    default_folder = base / f"hardgrpo-kernels-{os.getuid()}"
    # INDUCTOR_FOLDER is the project's default for CPU programs, not a setting of the user
    defaults = (None, "", str(user_settings.INDUCTOR_FOLDER))
    for variable, part in CACHES.items():
        if os.environ.get(variable) in defaults:
            default_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = default_folder.lstat()
            if status.st_uid != os.getuid() or status.st_mode & 0o022:
                raise UserError(
                    f"{default_folder} can be written by other users, and programs run what is compiled there; delete it"
                )
            os.environ[variable] = str(default_folder / part)
        os.makedirs(os.environ[variable], exist_ok=True)


def add_gpu_arguments(parser) -> None:
    parser.add_argument(
        "--gpus", type=int, default=0, help="GPUs that the program needs; 0: compute on the CPU"
    )
    parser.add_argument(
        "--gpu-name", help="kind of GPU that the job requested, as the scheduler names it"
    )
    parser.add_argument(
        "--gpu-gib",
        type=float,
        default=0.0,
        help="memory in GiB that the program needs on each GPU",
    )


def granted_gpus(requested: int) -> int:
    """The number of GPUs to compute on: as requested, or 0 in a rehearsal, after a check that they
    were granted. Call it before CUDA starts: it hides all GPUs if the CPU does the work."""
    if requested < 0:
        raise UserError(f"--gpus is {requested}, expected at least 0; correct the command")
    rehearsal = os.environ.get(REHEARSAL)
    if requested and not rehearsal:
        return requested
    if requested and rehearsal != "checked":  # the parent process has checked the GPUs
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        granted = len(re.findall(r"(?:^|,)\s*(?:\d+|GPU-|MIG-)", visible))
        if granted < requested:
            raise UserError(
                f"GPUs requested: {requested}, granted: {granted} (CUDA_VISIBLE_DEVICES is '{visible}'); check slurm/config.yaml"
            )
        os.environ[REHEARSAL] = "checked"
        print(
            f"rehearsal: {granted} GPUs granted, the CPU does the work", file=sys.stderr, flush=True
        )
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    return 0


def check_gpus(count: int, name: str | None = None, gib: float = 0.0) -> None:
    """Refuse fewer GPUs than `count`, or a GPU of less than `gib` GiB or of another known kind than
    `name`. Without this check, a 4B model would silently run on the CPU for weeks."""
    if not count:
        return
    import torch

    visible = torch.cuda.device_count()
    if visible < count:
        raise UserError(
            f"GPUs requested: {count}, visible: {visible} (CUDA_VISIBLE_DEVICES is"
            f" {os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}); run on a machine that has them, or take `gpus` out of the model in"
            " config/models.yaml"
        )
    for index in range(count if name or gib else 0):
        device = torch.cuda.get_device_properties(index)
        requested_kind, device_kind = kind_of(name or ""), kind_of(device.name)
        if requested_kind and device_kind and requested_kind != device_kind:
            raise UserError(
                f"GPU {index} is a {device.name}, requested: {name}; correct gpu_name or gpu_partition in slurm/config.yaml"
            )
        if device.total_memory / 2**30 < gib:
            raise UserError(
                f"GPU {index} ({device.name}) has {device.total_memory / 2**30:.0f} GiB, the run needs about {gib:.0f}; ask for larger"
                " GPUs (slurm/config.yaml), or lower micro_batch or vllm_memory of the model"
            )
