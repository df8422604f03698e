"""Before libraries are loaded, check that a node can work with its GPUs, and set the folders of
compilers' caches.

vLLM and the loss of TRL's trainers compile kernels on the node with Triton, which needs a C
compiler and Python's header files.
"""

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from hardgrpo.runtime import user_settings
from hardgrpo.runtime.errors import UserError

# {variable that names a cache of compiled kernels: subfolder of this project's cache}. The
# default caches of Triton, vLLM and FlashInfer are in the home folder, which is often small, slow
# or read-only on compute nodes.
CACHES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "VLLM_CACHE_ROOT": "vllm",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
}
DRIVERS = {"12": "525", "13": "580"}  # {major version of CUDA: the oldest driver that supports it}
DRIVER = Path("/proc/driver/nvidia/version")
# includes the headers that Triton needs
PROGRAM = "#include <Python.h>\n#include <stdlib.h>\nint answer(void) { return 42; }\n"
# `environments.check_gpus` reports that no GPU is visible
ALLOCATE = "import torch; torch.cuda.device_count() and torch.zeros(1, device='cuda')"


def check(compiles: bool) -> None:
    """Raise a `UserError` if this node's C library, caches or compiler cannot serve GPU programs.
    `check_driver` checks the driver.

    `compiles`: whether the program compiles kernels, which needs the caches and the compiler.
    """
    _check_glibc()
    if compiles:
        _set_caches()
        _check_compiler(Path(os.environ["TRITON_CACHE_DIR"]))


def cuda_version() -> str | None:
    """The version of CUDA that this Python's torch is built for, without importing torch; None for
    a build for CPUs."""
    torch_spec = importlib.util.find_spec("torch")
    if torch_spec is None or torch_spec.origin is None:
        return None
    path = Path(torch_spec.origin).with_name("version.py")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    version = re.search(r"^cuda\b[^=\n]*= *'([0-9.]+)'", text, re.MULTILINE)
    return version[1] if version else None


def _check_glibc() -> None:
    """Raise a `UserError` if this system's C library is older than the version in the wheel tag of
    an installed package."""
    name, version = platform.libc_ver()
    if name != "glibc":
        return
    for package in ("vllm", "torch", "bitsandbytes"):
        try:
            wheel = importlib.metadata.distribution(package).read_text("WHEEL") or ""
        except importlib.metadata.PackageNotFoundError:
            continue
        needed_version = min(
            ((int(a), int(b)) for a, b in re.findall(r"manylinux_(\d+)_(\d+)", wheel)),
            default=(0, 0),
        )
        if tuple(map(int, version.split(".")[:2])) < needed_version:
            raise UserError(
                f"glibc is {version} on this node, and {package} needs {needed_version[0]}.{needed_version[1]}: choose nodes with a newer system, or run jobs in"
                " containers (--sdm apptainer, docs/containers.md)"
            )


def check_driver() -> None:
    """Raise a `UserError` if no memory can be allocated on a GPU. The number of visible GPUs would
    not show that the driver is too old.

    The allocation runs in a separate process, so that no memory stays in use. Call this function
    before this process uses a GPU: in the compute mode "exclusive process", a second process cannot
    allocate.
    """
    try:
        process = subprocess.run(
            [sys.executable, "-c", ALLOCATE],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        lines = process.stderr.strip().splitlines() or [f"exit status {process.returncode}"]
    except subprocess.TimeoutExpired:
        process, lines = None, ["no answer within ten minutes"]
    if process is None or process.returncode:
        if re.search("out of memory|busy or unavailable", lines[-1]):
            raise UserError(
                f"a GPU is visible, but no memory can be allocated on it ({lines[-1]}); another process uses it (nvidia-smi shows which): choose another GPU or node"
            )
        driver = re.search(r"\b\d{3}\.[0-9.]+\b", DRIVER.read_text() if DRIVER.exists() else "")
        build = cuda_version() or ""
        oldest = DRIVERS.get(build.split(".")[0])
        requirement = f", and CUDA {build} needs {oldest} or later" if oldest else ""
        raise UserError(
            f"a GPU is visible, but no memory can be allocated on it ({lines[-1]}); the NVIDIA driver is {driver[0] if driver else 'not known'}"
            f"{requirement}: choose nodes with a newer driver (srun nvidia-smi shows it), or ask for the package cuda-compat on data-centre GPUs; a"
            " container does not help, because the driver is the node's"
        )


def _set_caches() -> None:
    """Choose a folder of this node for each variable of CACHES that the user has not set. Raise a
    `UserError` for a folder that this program cannot write to, and for a default folder that other
    accounts may change."""
    base = Path(os.environ.get("SLURM_TMPDIR") or os.environ.get("TMPDIR") or "/tmp")
    default_folder = base / f"hardgrpo-kernels-{os.getuid()}"
    for variable, part in CACHES.items():
        user_folder = os.environ.get(variable)
        # INDUCTOR_FOLDER is the project's default for CPU programs, not a setting of the user
        user_folder = None if user_folder == str(user_settings.INDUCTOR_FOLDER) else user_folder
        folder = Path(user_folder) if user_folder else default_folder / part
        cache = f"{variable}={folder}" if user_folder else f"{folder} (the folder for {variable})"
        try:
            if not user_folder:
                default_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                status = default_folder.lstat()
                if status.st_uid != os.getuid() or status.st_mode & 0o022:
                    raise UserError(
                        f"{default_folder} can be written by other users, and programs run what is compiled there; delete it, or set TMPDIR (SLURM_TMPDIR, if set, takes precedence)"
                    )
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"x")
        except OSError as error:
            raise UserError(
                f"{cache} cannot be written: {error.strerror}; kernels are compiled there: set {variable if user_folder else 'TMPDIR (SLURM_TMPDIR, if set, takes precedence)'} to a writable"
                " folder, if possible on a local disk of the node"
            ) from None
        os.environ[variable] = str(folder)


def _check_compiler(folder: Path) -> None:
    """Raise a `UserError` if a C file cannot be compiled against Python's headers and loaded from
    `folder`, as Triton does."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    if not compiler or not shutil.which(compiler):
        problem = (
            f"CC is {compiler}, which does not exist"
            if compiler
            else "neither gcc nor clang is installed"
        )
        raise UserError(
            f"a C compiler is needed on this node to compile kernels ({problem}): load a compiler in every job (precommand: module load gcc in"
            " slurm/config.yaml), or run jobs in containers (--sdm apptainer, docs/containers.md)"
        )
    headers = sysconfig.get_paths("posix_prefix")["include"]
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        source, library = Path(temporary) / "probe.c", Path(temporary) / "probe.so"
        source.write_text(PROGRAM)
        process = subprocess.run(
            [compiler, source, "-shared", "-fPIC", f"-I{headers}", "-o", library],
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode and "Python.h" in process.stderr:
            raise UserError(
                f"{headers}/Python.h is missing, which Triton needs to compile kernels: install the headers of this Python (Debian: python3-dev,"
                " Red Hat: python3-devel), make the environments with a Python that has them (make PYTHON=...), or run jobs in containers"
            )
        if process.returncode:
            raise UserError(
                f"{compiler} cannot compile a C file: {(process.stderr.strip().splitlines() or ['no reason'])[0]}; load a compiler that works"
                " (precommand: module load gcc in slurm/config.yaml), or run jobs in containers (--sdm apptainer, docs/containers.md)"
            )
        try:
            ctypes.CDLL(str(library))
        except OSError as error:
            raise UserError(
                f"{folder}: a library that was compiled there cannot be loaded ({error}); set TRITON_CACHE_DIR to a folder on a file system that is not"
                " mounted noexec"
            ) from None
