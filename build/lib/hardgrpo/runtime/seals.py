"""Seals: checksums of the files that the workflow writes, to detect damage by a bad disk or an
accidental edit.

The seal of results/x/y.csv is results/x/.seals/y.csv. A file is verified when it is read. Files
without a seal, such as those of other programs, are not verified. In a folder of weights only
manifest.json is sealed; it lists the other files' checksums. The checksums of the CSV files of
committed results are in SHA256SUMS, a committed file in the same folder (`sha256sum -c` reads it).
"""

import contextlib
import hashlib
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from hardgrpo.runtime.errors import Unreadable, UserError

# folders of the workflow's outputs, relative to the current folder
SEALED_FOLDERS = ("results", "paper")
# a second attempt, because another process may replace the file between the reads of file and seal
ATTEMPTS = range(2)
COMMITTED_FOLDERS = (("results", "reference"), ("results", "published"))
CHECKSUM_FILE = "SHA256SUMS"


def seal_path(path: str | Path) -> Path:
    """The path of a file's seal."""
    path = Path(path)
    return path.parent / ".seals" / path.name


def is_seal(path: Path) -> bool:
    """Whether a path is the path of a seal."""
    return path.parent.name == ".seals"


@contextlib.contextmanager
def reseal(new: Path, path: Path) -> Iterator[None]:
    """Seal a file that the block renames from `new` to `path`. If the process is killed, the file
    may lack a seal, but never has an outdated seal."""
    seal = seal_path(path)
    checksum = sha256(new) if new.is_file() and _is_sealed(path) else None
    backup = seal.with_name(f".{seal.name}.before")
    # Remove the backup that a killed process left; the sealed file may have changed since then.
    with contextlib.suppress(FileNotFoundError):
        backup.unlink()
    # The file may have no seal yet. Any other error leaves file and seal unchanged.
    with contextlib.suppress(FileNotFoundError):
        os.replace(seal, backup)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            # If `new` is gone, Ctrl-C came after the rename, and the old seal is outdated.
            if new.exists():
                os.replace(backup, seal)
        raise
    finally:
        with contextlib.suppress(OSError):
            backup.unlink()
    if checksum:
        _write(seal, checksum)


def add(path: Path) -> None:
    """Seal a file that already has its final name."""
    with reseal(path, path):
        pass


def check(path: str | Path) -> None:
    """Raise a `UserError` if a file differs from its seal."""
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path}: expected a file, found a folder; delete it and run again")
    if not any(_is_expected(path, sha256(path)) for _ in ATTEMPTS):
        raise _damaged(path)


def read(path: str | Path) -> bytes:
    """The content of a file. Raise a `UserError` if the content differs from the seal."""
    path = Path(path)
    for _ in ATTEMPTS:
        content = path.read_bytes()
        if _is_expected(path, hashlib.sha256(content).hexdigest()):
            return content
    raise _damaged(path)


def _is_expected(path: Path, checksum: str) -> bool:
    """Whether a file's checksum equals its seal, or the file has no seal."""
    if _expected_checksum(path) in (None, checksum):
        return True
    # refresh the cache of a network file system before the next attempt
    for folder in (path.parent, seal_path(path).parent):
        with contextlib.suppress(OSError):
            os.listdir(folder)
    return False


def _damaged(path: Path) -> UserError:
    if _is_committed(path):
        return UserError(
            f"{path}: the content is not what was committed (checksum differs from {CHECKSUM_FILE}); get it back with: git checkout -- {path}"
            f" {path.parent / CHECKSUM_FILE}"
            " (if you changed it yourself, run scripts/maintenance/write_pages.py)"
        )
    return UserError(
        f"{path}: the content is not what was written (checksum differs); delete it and run again; if you or an older version of this"
        f" project changed it, delete {seal_path(path)} instead"
    )


def sealed_files(folder: Path) -> list[Path]:
    """The files of a folder that have a seal. Missing files are left out, because the workflow
    makes them again."""
    paths = [folder / seal.name for seal in sorted((folder / ".seals").glob("[!.]*"))]
    return [path for path in paths if path.exists()]


def check_folder(folder: Path) -> None:
    """Check every sealed file of a folder, see `check`."""
    for path in sealed_files(folder):
        check(path)


def _is_sealed(path: Path) -> bool:
    # The files of a temporary folder are still being written.
    is_temporary = any(part.startswith(".") and part.endswith(".tmp") for part in path.parts)
    return (
        path.parts[0] in SEALED_FOLDERS
        and path.parts[:2] not in COMMITTED_FOLDERS
        and not is_temporary
    )


def _expected_checksum(path: Path) -> str | None:
    """The checksum of a file when it was written or committed; None without a seal."""
    if _is_committed(path):
        return _committed_checksums(path.parent).get(path.name)
    seal = seal_path(path)
    try:
        checksum = seal.read_text(encoding="ascii", errors="replace").strip("\0\n ")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreadable(
            f"{seal}: cannot be read ({error.strerror}); run again when the disk answers, or delete it"
        ) from None
    # An empty seal counts as no seal: a power cut may leave an empty file or only zero bytes.
    if checksum and not re.fullmatch("[0-9a-f]{64}", checksum):
        raise UserError(
            f"{seal}: not the checksum of {path.name}: the seal is damaged; delete it and run again"
        )
    return checksum or None


def _is_committed(path: Path) -> bool:
    return any(pair in COMMITTED_FOLDERS for pair in itertools.pairwise(path.parts))


def _committed_checksums(folder: Path) -> dict[str, str]:
    """{name: checksum} of a folder's committed files."""
    try:
        lines = (folder / CHECKSUM_FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}


def checksum_lines(folder: Path) -> str:
    """The text of a folder's SHA256SUMS: a line for each CSV file."""
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
    """The SHA-256 checksum of a file, in hexadecimal digits."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
