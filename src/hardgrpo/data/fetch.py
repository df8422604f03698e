"""Download files at a pinned commit: from the Hugging Face hub (sections `datasets` and `models` of
`inputs.lock`) or from GitHub (section `repositories`).

If the source does not deliver a file that `inputs.lock` lists, the file is read from the mirror
that HARDGRPO_MIRROR names: a folder, or the http(s) address of a folder, with a folder for each
entry of the lock:

    MIRROR/openai--gsm8k@<commit>/main/train-00000-of-00001.parquet
"""

import contextlib
import os
import shutil
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from hardgrpo.data import inputs
from hardgrpo.runtime import errors, files
from hardgrpo.runtime.errors import UserError

MIRROR = "HARDGRPO_MIRROR"
GITHUB = "https://raw.githubusercontent.com"  # HARDGRPO_GITHUB names another server
TIMEOUT_SECONDS = 60  # longest time without an answer, except for files of the hub
LARGEST = 2**30  # bytes of a file of a GitHub repository
REMEDY = (
    "check name, commit and path; accept the licence of a gated repository and set HF_TOKEN; without internet access, download on another machine"
    f" (on a cluster: the login node); if the input was removed, name a mirror ({MIRROR}, docs/reproduce.md)"
)


def list_names(section: str, entry: str, lock: str | Path) -> list[str]:
    """The names of all files of a repository of the hub; `entry` is "owner/name@commit". If the
    hub does not answer and a mirror is named, the names in the lock."""
    name, _, commit = entry.rpartition("@")
    locked = inputs.read_lock(lock).get(section, {}).get(entry, {})
    try:
        with _explain_failures(f"{section}: {entry}"):
            from huggingface_hub import HfApi

            kind = section.removesuffix("s")
            info = HfApi().repo_info(name, repo_type=kind, revision=commit, timeout=TIMEOUT_SECONDS)
            return [sibling.rfilename for sibling in info.siblings]
    except UserError:
        if not (os.environ.get(MIRROR, "").strip() and locked):
            raise
        return list(locked)


def download(
    section: str, entry: str, names: list[str], folder: str | Path, lock: str | Path
) -> None:
    """Download files of a repository, "owner/name@commit", into `folder` under the same names.
    Raise a `UserError` if a name leaves the folder, or if neither the source nor the mirror has the
    file; only files that the lock lists are taken from the mirror."""
    folder, locked = Path(folder), inputs.read_lock(lock).get(section, {}).get(entry, {})
    for name in names:
        if files.is_outside(name):
            raise UserError(f"{section}: {entry}: '{name}' would be written outside of its folder")
        try:
            with _explain_failures(f"{section}: {entry}: {name}"):
                _fetch(section, entry, name, folder)
        except UserError as error:
            mirror = os.environ.get(MIRROR, "").strip()
            if not mirror:
                raise
            if name not in locked:
                raise UserError(f"{error}; the mirror is not read: {lock} lacks {name}") from None
            _copy_from_mirror(mirror, entry, name, locked[name], folder / name)
            print(f"{error}; {name} was taken from the mirror {mirror}", file=sys.stderr)
    # records of the hub's library
    shutil.rmtree(folder / ".cache", ignore_errors=True)


@contextlib.contextmanager
def _explain_failures(place: str) -> Iterator[None]:
    """Turn a failure of a server, its library or the network into a `UserError`."""
    try:
        yield
    except Exception as error:  # libraries and servers fail in many ways
        if errors.explain(error) is not None:  # disk and permissions
            raise
        cause = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{place}: cannot be downloaded ({cause}); {REMEDY}") from None


def _fetch(section: str, entry: str, name: str, folder: Path) -> None:
    repository, _, commit = entry.rpartition("@")
    if section == "repositories":
        server = os.environ.get("HARDGRPO_GITHUB", GITHUB).rstrip("/")
        address = f"{server}/{repository}/{commit}/{urllib.parse.quote(name)}"
        _copy_address(address, folder / name, LARGEST)
        return
    from huggingface_hub import hf_hub_download

    kind = section.removesuffix("s")
    hf_hub_download(repository, name, repo_type=kind, revision=commit, local_dir=folder)


def _copy_from_mirror(mirror: str, entry: str, name: str, facts: dict, path: Path) -> None:
    place = f"{entry.replace('/', '--')}/{name}"
    try:
        if mirror.startswith(("https://", "http://")):
            address = f"{mirror.rstrip('/')}/{urllib.parse.quote(place)}"
            _copy_address(address, path, facts["bytes"])
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(mirror).expanduser() / place, path)
        if inputs.file_entry(path) != facts:
            raise ValueError("size or checksum differs from inputs.lock")
    except Exception as error:  # urllib and its parsers raise many kinds of errors
        path.unlink(missing_ok=True)
        if errors.explain(error) is not None:  # disk and permissions
            raise
        raise UserError(
            f"mirror {mirror}: '{place}' cannot be used ({errors.printable(error)}); put the file there, or correct {MIRROR}"
        ) from None


def _copy_address(address: str, path: Path, most_bytes: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer:
        content = answer.read(most_bytes + 1)
        if len(content) > most_bytes or answer.length:
            raise ValueError(f"more than {most_bytes:,} bytes, or the connection ended early")
    path.write_bytes(content)


def be_quiet() -> None:
    """Show progress bars of the hub's library, which must not be imported yet, only in a terminal."""
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("TQDM_DISABLE", "1")
