"""Compare every finished file with the checksum that was kept when it was written; print the files that differ.

    python scripts/paper/check_intact.py results paper

A rule checks the files that it reads. This program checks all of them, also those of a study with nothing left to do. It
skips results/state: a run checks its own unfinished state.
"""

from hardgrpo.runtime import errors, provenance, seals
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths

import argparse
import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    args = parser.parse_args()
    count, damaged = 0, []
    for check, path in (found for folder in args.folders for found in checks(Path(folder))):
        count += 1
        try:
            check(path)
        except UserError as error:
            damaged.append(error)
        except OSError as error:
            damaged.append(f"{error.filename or path}: cannot be read: {error.strerror}")
    if damaged:
        raise UserError(f"{len(damaged)} of {count} checks failed:", *damaged)
    print(f"{count} files and folders of weights are as they were written")


def checks(folder: Path) -> Iterator[tuple[Callable, Path]]:
    """(function that checks it, path) of all below `folder` that has a checksum."""
    for kept in below(folder, ".seals"):
        yield from ((seals.check, path) for path in seals.sealed_files(kept.parent))
    for sums in below(folder, seals.CHECKSUM_FILE):
        yield from ((seals.check, path) for path in sorted(sums.parent.glob("*.csv")))
    for manifest in below(folder, "manifest.json"):
        if not lists_checkpoints(manifest):
            yield provenance.check_manifest, manifest.parent


def below(folder: Path, name: str) -> list[Path]:
    """All paths below `folder` with this file name, except those that a job may be changing: results/state and *.tmp."""
    found = []
    for place, folders, names in os.walk(folder, onerror=unlisted):
        folders[:] = [inner for inner in folders if Path(place, inner) != Path(paths.STATES) and not inner.endswith(".tmp")]
        found += [Path(place, name)] if name in [*folders, *names] else []
    return sorted(path for path in found if not seals.is_seal(path))


def unlisted(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # no paper/ yet, or another job has just removed the folder
        raise UserError(f"{error.filename}: cannot be listed: {error.strerror}; its files were not compared")


def lists_checkpoints(manifest: Path) -> bool:
    """Whether it is the manifest of a run, which has a seal. That of a folder of weights lists the checksums of its files."""
    with contextlib.suppress(OSError, ValueError):
        content = json.loads(manifest.read_bytes())
        return isinstance(content, dict) and "steps" in content
    return False


if __name__ == "__main__":
    errors.run(main)
