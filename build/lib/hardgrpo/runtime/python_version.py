"""Check that the locks support this version of Python; if not, name a Python that can make the
environments:

    python3 -I src/hardgrpo/runtime/python_version.py

Any Python from 3.6 can run this program.
"""

import subprocess
import sys

OLDEST, NEWEST = (3, 11), (3, 13)


def problem(version):
    """What is wrong with a version of Python, and what to do; None if the locks support this
    version."""
    if OLDEST <= tuple(version[:2]) <= NEWEST:
        return None
    names = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    usable = [name for name in names if can_make_environments(name)]
    remedy = (
        f"this machine has {', '.join(usable)}: make PYTHON={usable[0]} ..."
        if usable
        else "this machine has no such Python with venv; install one from your system's packages or with uv, for example: uv python install 3.13"
        " && make PYTHON=$(uv python find 3.13) ..."
    )
    version_text = ".".join(str(part) for part in version[:3])
    reason = (
        " (envs/*.lock hold no packages for a newer Python; to use one, raise the pins in envs/*.txt and NEWEST in"
        " src/hardgrpo/runtime/python_version.py, then run make locks)"
        if tuple(version[:2]) > NEWEST
        else ""
    )
    return f"error: Python 3.{OLDEST[1]} to 3.{NEWEST[1]} is needed, this is {version_text}; {remedy}{reason}"


def can_make_environments(name):
    """Whether a Python of this name is on PATH and has the modules that make environments."""
    try:
        command = [name, "-I", "-c", "import venv, ensurepip"]
        return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(problem(sys.version_info))
