"""Checksums of the files that the workflow makes, to find what was damaged later: a disk that forgets, a hand that slips.

The seal of results/x/y.csv is results/x/.seals/y.csv. A file is checked when it is read. A file without a seal was not written by this
project's programs, and is not checked. Of a folder of weights the manifest alone is sealed; committed results have git.
"""

import contextlib
import hashlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from hardgrpo.runtime.errors import UserError

SEALED = ("results", "paper")  # what the workflow makes, in folders that it names relative to the project's
COMMITTED = (("results", "reference"), ("results", "published"))


def of(path: str | Path) -> Path:
    """Where the seal of a file is."""
    path = Path(path)
    return path.parent / ".seals" / path.name


def is_seal(path: Path) -> bool:
    return path.parent.name == ".seals"


@contextlib.contextmanager
def renewed(new: Path, path: Path) -> Iterator[None]:
    """Seal the file `new` under the name `path`, which the block gives it. A kill leaves it without a seal, never with an old one."""
    seal, checksum = of(path), sha256(new) if new.is_file() and _is_sealed(path) else None
    before = seal.with_name(f".{seal.name}.before")
    with contextlib.suppress(OSError):  # there is none
        os.replace(seal, before)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            os.replace(before, seal)
        raise
    with contextlib.suppress(OSError):
        before.unlink()
    if checksum:
        _write(seal, checksum)


def add(path: Path) -> None:
    """Seal a file that stands in its place."""
    with renewed(path, path):
        pass


def check(path: str | Path, content: bytes | None = None) -> None:
    """Raise a `UserError` if a file is not what was written. `content`: its bytes, if they have been read."""
    path = Path(path)
    expected = None if any(pair in COMMITTED for pair in itertools.pairwise(path.parts)) else _read(of(path))
    if expected in (None, sha256(path) if content is None else hashlib.sha256(content).hexdigest()):
        return
    for folder in (path.parent, of(path).parent):  # a network file system then looks anew
        with contextlib.suppress(OSError):
            os.listdir(folder)
    if path.is_file() and _read(of(path)) in (None, sha256(path)):
        return  # another process has written both, or is about to write the seal
    raise UserError(
        f"{path}: the content is not what was written (checksum differs); delete it and run again, or delete {of(path)} if you changed it"
        " yourself"
    )


def check_below(folder: str | Path) -> None:
    """Check every sealed file below a folder. One that is gone is left to the workflow, which makes it again."""
    for seal in sorted(Path(folder).rglob(".seals/[!.]*")):
        path = seal.parent.parent / seal.name
        if path.is_dir():
            raise UserError(f"{path}: expected a file, found a folder; delete it and run again")
        if path.exists():
            check(path)


def _is_sealed(path: Path) -> bool:
    building = any(part.startswith(".") and part.endswith(".tmp") for part in path.parts)  # a folder that is made as a whole
    return path.parts[0] in SEALED and path.parts[:2] not in COMMITTED and not building


def _read(seal: Path) -> str | None:
    try:
        return seal.read_text(encoding="ascii", errors="replace").strip() or None  # a power cut may leave it empty
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UserError(f"{seal}: cannot be read ({error.strerror}); delete it and run again") from None


def _write(seal: Path, checksum: str) -> None:
    seal.parent.mkdir(exist_ok=True)
    temporary = seal.with_name(f".{seal.name}.tmp")
    temporary.write_text(checksum + "\n", encoding="ascii")
    os.replace(temporary, seal)


def sha256(path: str | Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
