"""The folder of results. A file that a person may have edited is never overwritten."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError


class ResultFolder:
    """The folder of one input's results. Its file `record` names the input and holds the checksums
    of all results that were ever written, so that a result that a person has edited is recognised,
    also after a kill."""

    def __init__(self, folder: Path, inputs: list[str], record: str):
        self.folder, self.inputs, self.record = folder, inputs, record
        self.checksums: dict[str, list[str]] = {}
        self.read_record()

    def read_record(self) -> None:
        """Read the checksums. Raise a `UserError` if the folder holds results of another input."""
        path = self.folder / self.record
        if self.folder.exists() and not self.folder.is_dir():
            raise UserError(f"{self.folder}: a file; name a folder with --output")
        if not path.is_file():
            return
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            recorded_inputs, self.checksums = facts["inputs"], dict(facts["files"])
        except (ValueError, KeyError, TypeError, OSError):
            raise UserError(
                f"{path}: not a record of this command; move it away, or name another folder with --output"
            ) from None
        if recorded_inputs != self.inputs:
            raise UserError(
                f"{self.folder}: the folder holds results of {', '.join(map(str, recorded_inputs))}; name another folder with --output"
            )

    def check(self, names: Iterable[str]) -> None:
        """Raise a `UserError` if a result exists and was changed since this command wrote it."""
        for name in names:
            path = self.folder / name
            if path.exists() and checksum(path) not in self.checksums.get(name, []):
                raise UserError(
                    f"{path}: the file was edited or is not a result of this command, and is kept as it is; move it to another place, or name another folder with --output"
                )

    def write(self, names: Iterable[str], write: Callable[[str, Path], None], facts: dict) -> None:
        """Write each result by `write(name, path)`, then the record with `facts`, and put the results
        in place. Raise a `UserError` if a result was edited in the meantime."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.folder, os.O_RDONLY)
        staging = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
        try:
            for name in names:
                write(name, staging / name)
            fcntl.flock(lock, fcntl.LOCK_EX)  # another command may write results here
            self.read_record()
            self.check(names)
            for name in names:
                known_checksums = self.checksums.setdefault(name, [])
                known_checksums += {checksum(staging / name)} - set(known_checksums)
            record = {"inputs": self.inputs} | facts | {"files": self.checksums}
            files.write_json(self.folder / self.record, record)
            for name in names:
                if (self.folder / name).is_dir():
                    shutil.rmtree(self.folder / name)
                (staging / name).replace(self.folder / name)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            os.close(lock)


def checksum(path: Path) -> str:
    """The SHA-256 of a file, or of the names and contents of a folder's files."""
    if path.is_dir():
        return hashlib.sha256(json.dumps(files.listing(path)).encode()).hexdigest()
    return files.sha256(path)
