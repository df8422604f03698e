"""Download a file of a GitHub repository at a pinned commit, and compare the file with inputs.lock.

    python scripts/inputs/fetch_original.py --repository owner/name \\
        --commit 0123456789abcdef0123456789abcdef01234567 --name folder/file.json \\
        --output results/originals/owner--name@0123456789abcdef0123456789abcdef01234567/folder/file.json

The first download of a file writes an entry in the lock (size, checksum); every later download
must match the entry. If the lock has files of the repository, but none at this commit, the program
fails. With --update-inputs it accepts the commit.

HARDGRPO_GITHUB names another server, with the same paths as raw.githubusercontent.com. Files of the
lock that the server does not deliver are read from the mirror that HARDGRPO_MIRROR names
(hardgrpo.data.mirror).
"""

from hardgrpo.data import inputs, mirror
from hardgrpo.data.inputs import DownloadError
from hardgrpo.runtime import errors, files

import argparse
import os
import tempfile
import urllib.parse
from pathlib import Path

SERVER = "https://raw.githubusercontent.com"
LARGEST = 2**30  # bytes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repository", required=True, help="owner/name on GitHub")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--name", required=True, help="path of the file in the repository")
    parser.add_argument(
        "--lock", default="inputs.lock", help="file that pins all inputs (default: %(default)s)"
    )
    parser.add_argument(
        "--update-inputs",
        action="store_true",
        help="replace the file's entry in the lock by an entry for the downloaded file",
    )
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    if files.is_outside(args.name):
        raise errors.UserError(f"--name {args.name}: expected a path inside of the repository")

    inputs.read_lock(args.lock)  # fails on a garbled lock before the download
    source = {"repository": args.repository, "commit": args.commit}
    with files.atomic(args.output) as path, tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "original") / args.name
        mirror.download(
            lambda: download(args.repository, args.commit, args.name, copy),
            args.lock,
            "repositories",
            inputs.repository_entry(source),
            Path(folder, "original"),
            [args.name],
        )
        content = copy.read_bytes()
        state = inputs.check_original(
            args.lock, source, args.name, content, args.output, args.update_inputs
        )
        path.write_bytes(content)
    print(f"{args.output}: {args.name} of {args.repository} at {args.commit[:12]}, {state}")


def download(repository: str, commit: str, name: str, path: Path) -> None:
    """Download a file into `path`. Raise a `DownloadError` if the server does not deliver the
    file."""
    server = os.environ.get("HARDGRPO_GITHUB", SERVER).rstrip("/")
    address = f"{server}/{repository}/{commit}/{urllib.parse.quote(name)}"
    remedy = f"{inputs.WHERE_TO_DOWNLOAD}, or copy the file of this commit into the folder that `local` names in the configuration (docs/reproduce.md#published-data)"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        mirror.download_address(address, path, LARGEST)
    except mirror.AddressError as error:
        if error.status == 404:
            raise DownloadError(
                f"repository {repository}: has no file '{name}' at commit {commit}; correct the repository, the path or the commit in the"
                f" configuration; {inputs.MIRRORS}"
            ) from None
        if error.status is not None:
            raise DownloadError(
                f"repository {repository}: {server} answered with {error} for '{name}'; try again later"
            ) from None
        raise DownloadError(
            f"repository {repository}: cannot download '{name}' from {server} ({error}); {remedy}"
        ) from None


if __name__ == "__main__":
    errors.run(main)
