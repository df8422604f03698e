"""Download the data files of a dataset from a hub into a folder, and compare them with inputs.lock.

    python scripts/inputs/fetch_dataset.py --dataset openai/gsm8k \\
        --revision e53f048856ff4f594e959d75785d2c2d37b678ee --files 'main/*.parquet' \\
        --output results/datasets/gsm8k --lock inputs.lock

The first download of a dataset at a revision writes an entry in the lock (commit, sizes and
checksums of all downloaded files). Every later download must match the entry, so all downloads need
the same --files. The workflow downloads all data files. --update-inputs replaces the entry.

Only data files (Parquet, JSON, JSON Lines, CSV) are downloaded, and README.md and
.huggingface.yaml, which list the dataset's configurations. Programs are never downloaded.
"""

from hardgrpo.data import inputs, mirror
from hardgrpo.data.dataset_folders import CARD_FILES
from hardgrpo.runtime import errors, files, provenance

import argparse
import fnmatch
from pathlib import Path

ENDINGS = (".parquet", ".json", ".jsonl", ".csv")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", required=True, help="owner/name on the hub")
    parser.add_argument("--revision", required=True, help="commit, tag or branch")
    parser.add_argument(
        "--files",
        nargs="+",
        default=["*"],
        help="glob patterns of names, e.g. 'main/*' (default: all data files)",
    )
    parser.add_argument("--output", required=True, help="folder to write")
    parser.add_argument(
        "--lock", default="inputs.lock", help="file that pins all inputs (default: %(default)s)"
    )
    parser.add_argument(
        "--update-inputs",
        action="store_true",
        help="replace the lock's entry by an entry for the downloaded files",
    )
    args = parser.parse_args()

    inputs.be_quiet()
    inputs.read_lock(args.lock)  # fails on a garbled lock before the download
    name = f"{args.dataset}@{args.revision}"
    with files.atomic(args.output) as folder:
        commit = mirror.download(
            lambda: download(args.dataset, args.revision, args.files, folder),
            args.lock,
            "datasets",
            name,
            folder,
        )
        count = len(files.listing(folder))
        state = inputs.check_files(args.lock, "datasets", name, folder, args.update_inputs, commit)
        provenance.write_manifest(
            folder, dataset=args.dataset, revision=args.revision, commit=commit
        )
    print(f"{args.output}: {count} files of {args.dataset} at {commit[:12]}, {state}")


def download(dataset: str, revision: str, patterns: list[str], folder: Path) -> str:
    """Download the data files of a dataset that match a pattern. Return the commit."""
    commit, names = inputs.find("dataset", dataset, revision)
    inputs.download("dataset", dataset, commit, choose_files(dataset, names, patterns), folder)
    return commit


def choose_files(dataset: str, names: list[str], patterns: list[str]) -> list[str]:
    """The data files that match a pattern, and CARD_FILES. Raise a `UserError` for a pattern without
    a match.

    Other hidden files are left out: they hold settings of the hub, not data.
    """
    visible = [name for name in names if not any(part.startswith(".") for part in name.split("/"))]
    data = [name for name in visible if name.endswith(ENDINGS)]
    for pattern in patterns:
        if not fnmatch.filter(data, pattern):
            examples = ", ".join((data or names)[:10]) or "nothing"
            raise errors.UserError(
                f"dataset {dataset}: no data file ({', '.join(ENDINGS)}) matches '{pattern}'; the dataset has {examples};"
                " name other files, or a revision that has data files (hubs keep converted files under refs/convert/parquet)"
            )
    return sorted(
        {name for pattern in patterns for name in fnmatch.filter(data, pattern)}
        | (set(CARD_FILES) & set(names))
    )


if __name__ == "__main__":
    errors.run(main)
