"""Find the files of this project that a program uses, by following its imports, and compute one checksum over them.

A cheap rule has this checksum as a parameter, so Snakemake runs the rule again when any of the files changes. The files are not
inputs of the rule, because Snakemake compares inputs by modification time, and a clone sets all times anew.
"""

import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2]  # the folder that holds the package
# Not `ast`: parsing a hundred modules took a quarter of the time of a plan. ruff makes sure that each import starts its line.
IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+)?import\s+(\([^)]*\)|.*)", re.MULTILINE)
NOT_A_NAME = re.compile(r"#.*|\bas\s+\w+")
FILE_NAME = re.compile(r"""(?=["']([\w./-]*\.[\w-]+)["'])""")


def checksum(*programs: Path) -> str:
    """16 hexadecimal digits over the contents of `files_of(*programs)`."""
    digest = hashlib.sha256()
    for path in files_of(*programs):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def files_of(*programs: Path) -> list[Path]:
    """The programs, the modules that they import anywhere in their text, the modules that these import, and so on; and the files beside
    a module that the module names in a string (templates, styles)."""
    waiting = [Path(program).resolve() for program in programs]
    found = set(waiting)
    while waiting:
        path = waiting.pop()
        new = needed_by(path) - found
        found |= new
        waiting += [other for other in new if other.suffix == ".py"]
    return sorted(found)


@functools.cache
def needed_by(path: Path) -> frozenset[Path]:
    """The project's files that one file names: modules that it imports, and files beside it that it reads."""
    text, found = path.read_text(encoding="utf-8"), set()
    for module, names in IMPORT.findall(text):
        for name in re.findall(r"[\w.]+", NOT_A_NAME.sub("", names)):  # a name imported from a package may be a module
            found |= set(_modules(path, f"{module}.{name}" if module else name))
    for name in set(FILE_NAME.findall(text)):
        found |= {near for folder in (path.parent, path.parent / "templates") if (near := folder / name).is_file()}
    return frozenset(found)


def _modules(path: Path, name: str) -> Iterator[Path]:
    """The files that `import name` in the file `path` runs, `__init__.py` of packages included; none outside this project."""
    parts = name.split(".")
    root = SOURCE if parts[0] == "hardgrpo" else path.parent  # a program may import from its own folder
    for end in range(1, len(parts) + 1):
        module = root.joinpath(*parts[:end])
        for candidate in (module.with_suffix(".py"), module / "__init__.py"):
            if candidate.is_file():
                yield candidate
