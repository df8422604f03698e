"""Compare files with the checksums that were recorded when the files were written or committed, and
print the files that differ or cannot be read.

    python scripts/paper/check_intact.py results paper

A rule of the workflow checks only the files that it reads; this program checks all files that have
a checksum. A missing file is reported only if the manifest of its folder lists it. The program
skips results/state, because a run checks its own unfinished state.
"""

from hardgrpo.runtime import errors, provenance, seals
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths

import argparse
import contextlib
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+")
    args = parser.parse_args()
    if not any(Path(folder).exists() for folder in args.folders):
        raise UserError(f"{', '.join(args.folders)}: no such folder; correct the command")
    count, damaged = 0, []
    for check, path in itertools.chain.from_iterable(
        checks(Path(folder)) for folder in args.folders
    ):
        count += 1
        try:
            check(path)
        except UserError as error:
            damaged.append(error)
        except OSError as error:
            damaged.append(f"{error.filename or path}: cannot be read: {error.strerror}")
    if damaged:
        raise UserError(f"{len(damaged)} of {count} checks failed:", *damaged)
    print(f"{count} files and folders agree with their checksums")


def checks(folder: Path) -> Iterator[tuple[Callable, Path]]:
    """Yield (function that checks the path, path) for everything below `folder` that has a
    checksum."""
    for seal_folder in find_below(folder, ".seals"):
        yield from ((seals.check, path) for path in seals.sealed_files(seal_folder.parent))
    for sums in find_below(folder, seals.CHECKSUM_FILE):
        yield from ((seals.check, path) for path in sorted(sums.parent.glob("*.csv")))
    for manifest in find_below(folder, "manifest.json"):
        if not lists_checkpoints(manifest):
            yield provenance.check_manifest, manifest.parent


def find_below(folder: Path, name: str) -> list[Path]:
    """All paths below `folder` with the file name `name`, except in folders that a job may be
    changing: results/state and *.tmp."""
    matches = []
    for parent, folders, names in os.walk(folder, onerror=raise_unless_missing):
        folders[:] = [
            child
            for child in folders
            if Path(parent, child).resolve() != Path(paths.STATES).resolve()
            and not child.endswith(".tmp")
        ]
        matches += [Path(parent, name)] if name in [*folders, *names] else []
    return sorted(path for path in matches if not seals.is_seal(path))


def raise_unless_missing(error: OSError) -> None:
    # the folder may not exist yet, or a job may have just removed it
    if not isinstance(error, FileNotFoundError):
        raise UserError(
            f"{error.filename}: cannot be listed: {error.strerror}; its files were not compared"
        )


def lists_checkpoints(manifest: Path) -> bool:
    """Whether a manifest lists the checkpoints of a run. Such a manifest contains no checksums of
    files and is checked by its seal. Any other manifest contains checksums of its folder's
    files."""
    with contextlib.suppress(OSError, ValueError):
        content = json.loads(manifest.read_bytes())
        return isinstance(content, dict) and "steps" in content
    return False


if __name__ == "__main__":
    errors.run(main)
