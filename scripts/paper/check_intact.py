"""Compare every finished file with the checksum that was kept when it was written; print the files that differ.

    python scripts/paper/check_intact.py results paper

A rule checks the files that it reads. This program checks all of them, also those of a study with nothing left to do.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

from hardgrpo.runtime import errors, files, provenance, seals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    args = parser.parse_args()
    count, damaged = 0, []
    for check, path in (found for folder in args.folders for found in checks(Path(folder))):
        count += 1
        try:
            check(path)
        except errors.UserError as error:
            damaged.append(error)
    if damaged:
        raise errors.UserError(f"{len(damaged)} of {count} checks failed:", *damaged)
    print(f"{count} files and folders of weights are as they were written")


def checks(folder: Path) -> Iterator[tuple[Callable, Path]]:
    """(what checks it, path) of what a folder keeps checksums of."""
    for kept in sorted(folder.rglob(".seals")):
        yield from ((seals.check, path) for path in seals.sealed(kept.parent))
    for sums in sorted(folder.rglob(seals.SUMS)):
        yield from ((seals.check, path) for path in sorted(sums.parent.glob("*.csv")))
    for manifest in sorted(folder.rglob("manifest.json")):
        if '"files"' in files.read_text(manifest, errors="replace"):  # not a run's list of checkpoints
            yield provenance.check_manifest, manifest.parent


if __name__ == "__main__":
    errors.run(main)
