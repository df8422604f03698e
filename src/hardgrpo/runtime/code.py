"""Follow the imports of a program to find the project's files that the program uses, and compute
one checksum over these files.

Most cheap rules (docs/design.md, decision 1) have this checksum as a parameter, so Snakemake reruns
such a rule when one of the files changes. The files are not inputs of the rule, because Snakemake
compares the modification times of inputs, and a new clone has new times.
"""

import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2]  # the folder that holds the package
# A regular expression finds the imports, because parsing a hundred modules with `ast` took a
# quarter of the time that planning the workflow takes. ruff ensures that a line has only one
# import.
IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+)?import\s+(\([^)]*\)|.*)", re.MULTILINE)
NOT_A_NAME = re.compile(r"#.*|\bas\s+\w+")
FILE_NAME = re.compile(r"""(?=["']([\w./-]*\.[\w-]+)["'])""")


def checksum(*programs: Path) -> str:
    """A checksum of `files_of(*programs)`, in 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in files_of(*programs):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def files_of(*programs: Path) -> list[Path]:
    """The programs, all modules that they import, and the files that strings of these name
    (templates, styles)."""
    queue = [Path(program).resolve() for program in programs]
    paths = set(queue)
    while queue:
        path = queue.pop()
        new_paths = dependencies(path) - paths
        paths |= new_paths
        queue += [module for module in new_paths if module.suffix == ".py"]
    return sorted(paths)


@functools.cache
def dependencies(path: Path) -> frozenset[Path]:
    """The modules that a file imports, and the files beside it or in `templates` that its strings
    name."""
    text, paths = path.read_text(encoding="utf-8"), set()
    for module, names in IMPORT.findall(text):
        # a name imported from a package may be a module
        for name in re.findall(r"[\w.]+", NOT_A_NAME.sub("", names)):
            paths |= set(_modules(path, f"{module}.{name}" if module else name))
    for name in set(FILE_NAME.findall(text)):
        paths |= {
            neighbour
            for folder in (path.parent, path.parent / "templates")
            if (neighbour := folder / name).is_file()
        }
    return frozenset(paths)


def _modules(path: Path, name: str) -> Iterator[Path]:
    """The project's files that `import name` executes, including `__init__.py` of packages."""
    parts = name.split(".")
    # a program may import from its own folder
    root = SOURCE if parts[0] == "hardgrpo" else path.parent
    for end in range(1, len(parts) + 1):
        module = root.joinpath(*parts[:end])
        for candidate in (module.with_suffix(".py"), module / "__init__.py"):
            if candidate.is_file():
                yield candidate
