"""A stand-in for Apptainer that records its calls, a stand-in for latexmk, and environments in
which programs have no TeX, have no network, or record their connections."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from packaging.utils import canonicalize_name

from hardgrpo.runtime import user_settings

# Answers the calls that Snakemake and spython make to apptainer. Commands in a container run on
# this machine, without the modules that the image would lack.
APPTAINER = """#!{python}
import json, os, sys
arguments = sys.argv[1:]
if arguments == ["--version"]:
    sys.exit(print("apptainer version 1.4.5"))
binds = {{name: os.environ.get(name) for name in ("APPTAINER_BIND", "SINGULARITY_BIND")}}
with open({log!r}, "a") as stream:
    stream.write(json.dumps({{"name": os.path.basename(sys.argv[0]), "arguments": arguments, "folder": os.getcwd()}} | binds) + "\\n")
if arguments[0] == "build":
    if os.path.exists({fails!r}):
        sys.exit("FATAL: While performing build: no space")
    with open(arguments[-2], "w") as stream:
        stream.write("image of " + arguments[-1])
    sys.exit()
image = next(number for number, argument in enumerate(arguments) if argument.endswith(".sif"))
hidden = os.path.join({folder!r}, os.path.basename(arguments[image]).removesuffix(".sif") + ".hidden")
python_path = os.pathsep.join([{folder!r}, os.environ["APPTAINERENV_PYTHONPATH"]])
os.execvpe(arguments[image + 1], arguments[image + 1 :], os.environ | {{"PYTHONPATH": python_path, "HIDDEN_MODULES": hidden, "HARDGRPO_KEEP_PYTHONPATH": "1"}})
"""

HIDE = """
import os, sys
from importlib.machinery import PathFinder
class Visible(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in hidden else super().find_spec(name, path, target)
hidden = set(open(os.environ["HIDDEN_MODULES"]).read().split())
sys.meta_path[sys.meta_path.index(PathFinder)] = Visible
"""

# Records every connection and name lookup that Python attempts, successful or not.
RECORD = """
import os, sys
def record(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        where = arguments[1] if event == "socket.connect" else arguments[0]
        if isinstance(where, tuple) or event != "socket.connect":  # the address of a local socket is a string
            with open(os.environ["RECORDED_CALLS"], "a") as stream:
                stream.write(f"{os.path.basename(sys.argv[0])} {event} {where}\\n")
sys.addaudithook(record)
"""


def names_in(lock: Path) -> set[str]:
    """Normalized names of the packages in a lock."""
    names = re.findall(r"^([\w.-]+)==", lock.read_text(encoding="utf-8"), re.MULTILINE)
    return set(map(canonicalize_name, names))


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def apptainer(folder: Path, locks: dict[str, Path]) -> "Apptainer":
    """Write the stand-in to a new folder, which `Apptainer.env` puts on PATH. For commands in an
    image, the stand-in hides the modules of packages that the image's lock does not name.
    `locks` is {image: lock}."""
    folder.mkdir()
    stand_in = Apptainer(folder)
    places = {"log": str(stand_in.log), "fails": str(stand_in.fails), "folder": str(folder)}
    write_program(folder / "apptainer", APPTAINER.format(python=sys.executable, **places))
    if not (shutil.which("latexmk") or shutil.which("tectonic")):  # the real image has TeX
        write_program(folder / "latexmk", LATEXMK)
    (folder / "sitecustomize.py").write_text(HIDE)
    modules = importlib.metadata.packages_distributions()
    for image, path in locks.items():
        locked_names = names_in(path) | {"pip", "hardgrpo"}
        hidden = [
            module
            for module, packages in modules.items()
            if locked_names.isdisjoint(map(canonicalize_name, packages))
        ]
        (folder / f"{image}.hidden").write_text("\n".join(hidden))
    return stand_in


class Apptainer:
    def __init__(self, folder: Path):
        self.folder, self.log, self.fails = folder, folder / "calls.jsonl", folder / "fails"
        self.env = {"PATH": os.pathsep.join([str(folder), os.environ["PATH"]])}

    def calls(self) -> list[dict]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return list(map(json.loads, lines))


# Answers the calls that compile_paper.py makes to latexmk: writes a PDF without pages to the output
# folder.
LATEXMK = """#!/bin/sh
for argument; do case $argument in -outdir=*) printf '%%PDF-1.5 made by a stand-in' > "${argument#-outdir=}/paper.pdf";; esac; done
"""


def without_tex(folder: Path) -> str:
    """A value of PATH: a folder with links to all programs of this machine except latexmk and
    tectonic."""
    folder.mkdir()
    for part in filter(Path.is_dir, map(Path, os.get_exec_path())):
        for program in part.iterdir():
            link = folder / program.name
            if program.name not in ("latexmk", "tectonic") and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


def without_network() -> list[str]:
    """The start of a command that runs in a network namespace without interfaces; empty if this
    machine does not allow namespaces."""
    for start in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        try:
            if subprocess.run([*start, "true"], capture_output=True, check=False).returncode == 0:
                return start
        except FileNotFoundError:
            break
    return []


def record_connections(folder: Path) -> tuple[dict, Path]:
    """(environment, file): programs in this environment append their connections and name lookups
    to the file. In this environment, the proxies and the Hugging Face hub cannot be reached."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(RECORD)
    env = {"PYTHONPATH": str(folder), user_settings.KEEP_PYTHONPATH: "1"}
    env |= {"RECORDED_CALLS": str(folder / "calls"), "HF_ENDPOINT": "https://hub.invalid"}
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    return env | dict.fromkeys(proxies, "http://127.0.0.1:9"), folder / "calls"
