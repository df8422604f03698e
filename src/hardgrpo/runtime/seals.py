"""Checksums of the files that the workflow makes, to find what was damaged later: a disk that forgets, a hand that slips.

The seal of results/x/y.csv is results/x/.seals/y.csv. A file is checked when it is read. A file without a seal was not written by this
project's programs, and is not checked. Folders of weights have manifests instead.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from hardgrpo.runtime.errors import UserError

SEALED = ("results", "paper")  # what the workflow makes, in folders that it names relative to the project's


def of(path: str | Path) -> Path:
    """Where the seal of a file is."""
    path = Path(path)
    return path.parent / ".seals" / path.name


@contextlib.contextmanager
def renewed(new: Path, path: Path) -> Iterator[None]:
    """Seal the file `new` under the name `path`, which the block gives it. A kill leaves it without a seal, never with an old one."""
    seal = of(path)
    seal.unlink(missing_ok=True)
    in_folder = any(part.endswith(".tmp") for part in path.parts)  # being made as a whole
    checksum = _checksum(new) if new.is_file() and path.parts[0] in SEALED and not in_folder else None
    yield
    if checksum:
        seal.parent.mkdir(exist_ok=True)
        temporary = seal.with_name(f".{seal.name}.tmp")
        temporary.write_text(checksum + "\n", encoding="ascii")
        os.replace(temporary, seal)


def check(path: str | Path, content: bytes | None = None) -> None:
    """Raise a `UserError` if a file is not what was written. `content`: its bytes, if they have been read."""
    try:
        expected = of(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return
    if expected != (_checksum(path) if content is None else hashlib.sha256(content).hexdigest()):
        raise UserError(
            f"{path}: the content is not what was written (checksum differs); delete it and run again, or delete {of(path)} if you changed"
            " it yourself"
        )


def check_below(folder: str | Path) -> None:
    """Check every sealed file below a folder. One that is gone is left to the workflow, which makes it again."""
    for seal in sorted(Path(folder).rglob(".seals/*")):
        path = seal.parent.parent / seal.name
        if path.is_dir():
            raise UserError(f"{path}: expected a file, found a folder; delete it and run again")
        if path.exists():
            check(path)


def _checksum(path: str | Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
