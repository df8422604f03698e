"""Seals: checksums of the files that the workflow makes, to detect later damage by a bad disk or an accidental edit.

The seal of results/x/y.csv is results/x/.seals/y.csv. A file is checked when it is read. A file without a seal was not written by this
project's programs, and is not checked. In a folder of weights only manifest.json is sealed, which lists the other files' checksums.
The checksums of committed results stand in SHA256SUMS, a committed file in the same folder (`sha256sum -c` reads it).
"""

import contextlib
import hashlib
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from hardgrpo.runtime.errors import Unreadable, UserError

SEALED = ("results", "paper")  # folders of the workflow's outputs, relative to the current folder
TWICE = range(2)  # attempts: another process may replace the file between the reads of file and seal
COMMITTED = (("results", "reference"), ("results", "published"))
SUMS = "SHA256SUMS"


def of(path: str | Path) -> Path:
    """Where the seal of a file is."""
    path = Path(path)
    return path.parent / ".seals" / path.name


def is_seal(path: Path) -> bool:
    return path.parent.name == ".seals"


@contextlib.contextmanager
def renewed(new: Path, path: Path) -> Iterator[None]:
    """Seal a file that the block renames from `new` to `path`. A kill may leave it without a seal, but not with an outdated one."""
    seal, checksum = of(path), sha256(new) if new.is_file() and _is_sealed(path) else None
    before = seal.with_name(f".{seal.name}.before")
    with contextlib.suppress(FileNotFoundError):  # left by a killed process; the file may have changed since
        before.unlink()
    with contextlib.suppress(FileNotFoundError):  # no seal yet; any other error leaves file and seal unchanged
        os.replace(seal, before)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            if new.exists():  # else Ctrl-C came after the rename, and the old seal is outdated
                os.replace(before, seal)
        raise
    finally:
        with contextlib.suppress(OSError):
            before.unlink()
    if checksum:
        _write(seal, checksum)


def add(path: Path) -> None:
    """Seal a file that has its final name already."""
    with renewed(path, path):
        pass


def check(path: str | Path) -> None:
    """Raise a `UserError` if a file is not what was written."""
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path}: expected a file, found a folder; delete it and run again")
    if not any(_is_expected(path, sha256(path)) for _ in TWICE):
        raise _damaged(path)


def read(path: str | Path) -> bytes:
    """The content of a file. Raise a `UserError` if it is not what was written."""
    path = Path(path)
    for _ in TWICE:
        content = path.read_bytes()
        if _is_expected(path, hashlib.sha256(content).hexdigest()):
            return content
    raise _damaged(path)


def _is_expected(path: Path, checksum: str) -> bool:
    """Whether a file's checksum equals its seal, or the file has no seal."""
    if _expected(path) in (None, checksum):
        return True
    for folder in (path.parent, of(path).parent):  # makes a network file system refresh its cache
        with contextlib.suppress(OSError):
            os.listdir(folder)
    return False


def _damaged(path: Path) -> UserError:
    if _is_committed(path):
        return UserError(
            f"{path}: the content is not what was committed (checksum differs from {SUMS}); get it back with: git checkout -- {path}"
            f" {path.parent / SUMS}"
            " (if you changed it yourself: scripts/maintenance/write_pages.py)"
        )
    return UserError(
        f"{path}: the content is not what was written (checksum differs); delete it and run again, or delete {of(path)} if you changed it"
        " yourself, or an older version of this project did"
    )


def sealed(folder: Path) -> list[Path]:
    """The sealed files of a folder that exist. The workflow makes missing ones again."""
    found = [folder / seal.name for seal in sorted((folder / ".seals").glob("[!.]*"))]
    return [path for path in found if path.exists()]


def check_in(folder: Path) -> None:
    """Check every sealed file of a folder."""
    for path in sealed(folder):
        check(path)


def _is_sealed(path: Path) -> bool:
    building = any(part.startswith(".") and part.endswith(".tmp") for part in path.parts)  # in a folder that is being written
    return path.parts[0] in SEALED and path.parts[:2] not in COMMITTED and not building


def _expected(path: Path) -> str | None:
    """The checksum that a file was written or committed with; None without a seal."""
    if _is_committed(path):
        return _sums(path.parent).get(path.name)
    seal = of(path)
    try:
        found = seal.read_text(encoding="ascii", errors="replace").strip("\0\n ")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreadable(f"{seal}: cannot be read ({error.strerror}); run again when the disk answers, or delete it") from None
    if found and not re.fullmatch("[0-9a-f]{64}", found):  # a power cut may leave it empty, or full of zeros
        raise UserError(f"{seal}: not the checksum of {path.name}: the seal is damaged; delete it and run again")
    return found or None


def _is_committed(path: Path) -> bool:
    return any(pair in COMMITTED for pair in itertools.pairwise(path.parts))


def _sums(folder: Path) -> dict[str, str]:
    """{name: checksum} of a folder's committed files."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}


def sums(folder: Path) -> str:
    """The text of a folder's SHA256SUMS."""
    return "".join(f"{sha256(path)}  {path.name}\n" for path in sorted(folder.glob("*.csv")))


def _write(seal: Path, checksum: str) -> None:
    seal.parent.mkdir(exist_ok=True)
    temporary = seal.with_name(f".{seal.name}.tmp")
    try:
        temporary.write_text(checksum + "\n", encoding="ascii")
        os.replace(temporary, seal)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def sha256(path: str | Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
