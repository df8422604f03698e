"""Store completions of early-stopped probes for later probes. Probes that would sample the same
completions use the same folder."""

import argparse
import hashlib
import json
import os
from pathlib import Path

from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError


def probe_folder(args: argparse.Namespace) -> Path:
    """A folder under --state, named by a hash of everything that determines the completion of a
    (problem, sample)."""
    fields = {
        name: getattr(args, name)
        for name in ("prompt", "completion_tokens", "seed", "engine", "precision", "chat")
    }
    fields |= {
        "problems": files.sha256(args.problems),
        "model": files.sha256(Path(args.model) / "manifest.json"),
    }
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
    model, task = Path(args.model).name, Path(args.problems).parent.name
    return Path(args.state) / f"probe-{model}-{task}-{digest[:16]}"


ROW_TYPES = {"id": str, "sample": int, "completion": str}  # required keys of a row


class Store:
    """A file with one batch of completions per line. The samples of each problem are in order,
    starting from sample 0.

    A line ends with a tab and the checksum of the batch's text. The first truncated or damaged line
    and all later lines are ignored. The next batch depends only on complete batches, so a probe
    that was killed and resumed ends with the same completions as an uninterrupted probe.
    """

    def __init__(self, path: Path):
        self.path = path

    def batches(self) -> list[list[dict]]:
        """Return all batches before the first truncated or damaged line, and remove this line and
        all later lines from the file. Raise a `UserError` if rows lack required keys or are out of
        order."""
        batches, valid_bytes = [], 0
        data = self.path.read_bytes() if self.path.exists() else b""
        for line in data.split(b"\n")[:-1]:
            text, tab, ending = line.partition(b"\t")
            if tab and ending != checksum(text):
                break
            try:
                batch = files.parse_json(text.decode(), self.path, "", numbers=True)
            except (UnicodeDecodeError, UserError):
                break
            batches.append(batch)
            valid_bytes += len(line) + 1
        if valid_bytes < len(data):
            os.truncate(self.path, valid_bytes)
        next_sample: dict[str, int] = {}
        rows = (row for batch in batches for row in (batch if isinstance(batch, list) else [batch]))
        for row in rows:
            if not isinstance(row, dict) or any(
                type(row.get(key)) is not kind for key, kind in ROW_TYPES.items()
            ):
                raise UserError(
                    f"{self.path}: expected completions with {', '.join(ROW_TYPES)}; the file was changed: remove it and run again"
                )
            if row["sample"] != next_sample.setdefault(row["id"], 0):
                raise UserError(
                    f"{self.path}: problem '{row['id']}': expected sample {next_sample[row['id']]} next, found {row['sample']}; the file was"
                    " changed: remove it and run again"
                )
            next_sample[row["id"]] += 1
        return batches

    def add(self, rows: list[dict]) -> None:
        """Append a batch and wait until the batch is on disk."""
        text = json.dumps(rows).encode()
        with open(self.path, "ab") as stream:
            stream.write(text + b"\t" + checksum(text) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())


def checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()
