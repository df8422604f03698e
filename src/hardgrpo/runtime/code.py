"""Which files of this project a program is made of, followed through its imports, and one checksum over them.

A cheap rule takes the checksum as a parameter, so that Snakemake runs it again when any of these files changes. It is a
parameter and not a list of input files, because after a clone the times of files say nothing.
"""

import ast
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2]  # the folder that holds the package


def checksum(*programs: Path) -> str:
    """16 hexadecimal digits over the contents of `files_of(*programs)`."""
    digest = hashlib.sha256()
    for path in files_of(*programs):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def files_of(*programs: Path) -> list[Path]:
    """The programs and every file of the project that they can reach: modules that it imports, wherever in the text the import
    stands, modules that these import, and files beside a module that the module names (templates, styles)."""
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
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found |= set(_modules(path, alias.name))
        elif isinstance(node, ast.ImportFrom):
            found |= set(_modules(path, node.module or ""))
            for alias in node.names:  # what is imported may be a module itself
                found |= set(_modules(path, f"{node.module}.{alias.name}"))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value and len(node.value) < 80:
            found |= {near for folder in (path.parent, path.parent / "templates") if (near := folder / node.value).is_file()}
    return frozenset(found)


def _modules(path: Path, name: str) -> Iterator[Path]:
    """The files that `import name` in the file `path` runs: packages on the way too; none for what is not this project's."""
    parts = name.split(".")
    root = SOURCE if parts[0] == "hardgrpo" else path.parent  # a program may import from its own folder
    for end in range(1, len(parts) + 1):
        module = root.joinpath(*parts[:end])
        for candidate in (module.with_suffix(".py"), module / "__init__.py"):
            if candidate.is_file():
                yield candidate
