"""Completions of early-stopped probes, kept for later ones. Probes that would sample the same completions share a folder."""

import argparse
import hashlib
import json
import os
from pathlib import Path

from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError


def folder_of(args: argparse.Namespace) -> Path:
    """A folder under --state, named by a hash of everything that determines the completion of a (problem, sample)."""
    facts = {name: getattr(args, name) for name in ("prompt", "completion_tokens", "seed", "engine", "chat")}
    facts |= {"problems": files.sha256(args.problems), "model": files.sha256(Path(args.model) / "manifest.json")}
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return Path(args.state) / f"probe-{Path(args.model).name}-{Path(args.problems).parent.name}-{key[:16]}"


KEYS = {"id": str, "sample": int, "completion": str}  # required keys of a completion


class Store:
    """A file with one batch of completions per line; of each problem it holds the first few samples, in order.

    A line ends with a tab and its checksum. The first truncated or damaged line is ignored, and so are all lines after it. The
    samples of the next batch depend on complete batches alone, so a killed probe ends with the same completions as any other.
    """

    def __init__(self, path: Path):
        self.path = path

    def batches(self) -> list[list[dict]]:
        """All batches before the first truncated or damaged line; that line and all after it are removed from the file."""
        found, size = [], 0
        data = self.path.read_bytes() if self.path.exists() else b""
        for line in data.split(b"\n")[:-1]:
            text, tab, checksum = line.partition(b"\t")
            if tab and checksum != _checksum(text):
                break
            try:
                found.append(files.parse_json(text.decode(), str(self.path), "remove it and run again", numbers=True))
            except (UnicodeDecodeError, UserError):
                break
            size += len(line) + 1
        if size < len(data):
            os.truncate(self.path, size)
        counts: dict[str, int] = {}
        for row in (row for rows in found for row in (rows if isinstance(rows, list) else [rows])):
            if not isinstance(row, dict) or any(type(row.get(key)) is not kind for key, kind in KEYS.items()):
                raise UserError(
                    f"{self.path}: expected completions with {', '.join(KEYS)}; the file was changed: remove it and run again"
                )
            if row["sample"] != counts.setdefault(row["id"], 0):
                raise UserError(
                    f"{self.path}: problem '{row['id']}': expected sample {counts[row['id']]} next, found {row['sample']}; the file was"
                    " changed: remove it and run again"
                )
            counts[row["id"]] += 1
        return found

    def add(self, rows: list[dict]) -> None:
        text = json.dumps(rows).encode()
        with open(self.path, "ab") as stream:
            stream.write(text + b"\t" + _checksum(text) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()
