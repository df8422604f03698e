"""Keep settings of the user's account and of environment modules out of the workflow's jobs."""

import contextlib
import os
from pathlib import Path

ROOT = Path(__file__).parents[3]
KEEP_PYTHONPATH = "HARDGRPO_KEEP_PYTHONPATH"
# The user's settings of Matplotlib may name a backend of Jupyter or ask for TeX. Figures must not
# depend on these settings.
MATPLOTLIB = {"MPLBACKEND": "agg", "MATPLOTLIBRC": os.devnull}
# torch creates this folder on import. The default is in /tmp, with a name that other accounts can
# guess: if they create a file of this name, every program that imports torch fails.
INDUCTOR_VARIABLE, INDUCTOR_FOLDER = "TORCHINDUCTOR_CACHE_DIR", ROOT / ".snakemake/cache/inductor"
# Variables that change where Python finds modules or how it runs a program.
PYTHON = (
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONOPTIMIZE",
    "PYTHONPLATLIBDIR",
    "PYTHONSAFEPATH",
    "PYTHONSTARTUP",
    "PYTHONWARNINGS",
)


def ignore() -> None:
    """Set or remove these variables for child processes. PYTHONPATH keeps only folders of this
    clone, because an environment module may add other versions of packages;
    HARDGRPO_KEEP_PYTHONPATH=1 keeps it unchanged."""
    os.environ.update(MATPLOTLIB)
    for name in PYTHON:
        os.environ.pop(name, None)
    if not os.environ.get(KEEP_PYTHONPATH):
        folders = [
            os.path.abspath(folder)
            for folder in os.environ.pop("PYTHONPATH", "").split(os.pathsep)
            if folder
        ]
        if own_folders := [folder for folder in folders if Path(folder).is_relative_to(ROOT)]:
            os.environ["PYTHONPATH"] = os.pathsep.join(own_folders)
    if not has_cache():
        cache = str(ROOT / ".snakemake/cache")
        os.environ.update(XDG_CACHE_HOME=cache, TRITON_HOME=cache)
    if INDUCTOR_VARIABLE not in os.environ:
        with contextlib.suppress(OSError):  # a clone that cannot be written
            os.makedirs(INDUCTOR_FOLDER, mode=0o700, exist_ok=True)
            os.environ[INDUCTOR_VARIABLE] = str(INDUCTOR_FOLDER)


def has_cache() -> bool:
    """Whether libraries can write to the user's cache: HOME may be read-only or missing."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
