"""The folder of results. A file that a person may have edited is never overwritten."""

import hashlib
import json
import shutil
from collections.abc import Iterable
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
        self.staged: list[str] = []
        path = folder / record
        if not path.is_file():
            return
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            inputs_before, self.checksums = facts["inputs"], dict(facts["files"])
        except (ValueError, KeyError, TypeError, OSError):
            raise UserError(
                f"{path}: not a record of this command; move it away, or name another folder with --output"
            ) from None
        if inputs_before != inputs:
            raise UserError(
                f"{folder}: the folder holds results of {', '.join(map(str, inputs_before))}; name another folder with --output"
            )

    def check(self, names: Iterable[str]) -> None:
        """Raise a `UserError` if a result exists and was changed since this command wrote it."""
        for name in names:
            path = self.folder / name
            if path.exists() and checksum(path) not in self.checksums.get(name, []):
                raise UserError(
                    f"{path}: the file was edited or is not a result of this command, and is kept as it is; move it to another place, or name another folder with --output"
                )

    def stage(self, name: str) -> Path:
        """The path to which the result `name` is to be written before `commit`."""
        self.staged.append(name)
        return self.folder / ".new" / name

    def commit(self, facts: dict) -> None:
        """Write the record with `facts`, then put the staged results in place."""
        staging = self.folder / ".new"
        for name in self.staged:
            known = self.checksums.setdefault(name, [])
            if (digest := checksum(staging / name)) not in known:
                known.append(digest)
        record = {"inputs": self.inputs} | facts | {"files": self.checksums}
        files.write_json(self.folder / self.record, record)
        for name in self.staged:
            if (self.folder / name).is_dir():
                shutil.rmtree(self.folder / name)
            (staging / name).replace(self.folder / name)
        shutil.rmtree(staging)


def checksum(path: Path) -> str:
    """The SHA-256 of a file, or of the names and contents of a folder's files."""
    if path.is_dir():
        return hashlib.sha256(json.dumps(files.listing(path)).encode()).hexdigest()
    return files.sha256(path)
