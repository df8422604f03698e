"""Download a file of a GitHub repository at a pinned commit, and compare the file with inputs.lock.

    python scripts/inputs/fetch_original.py --repository owner/name \\
        --commit 0123456789abcdef0123456789abcdef01234567 --name folder/file.json \\
        --output results/originals/owner--name@0123456789abcdef0123456789abcdef01234567/folder/file.json

HARDGRPO_GITHUB names another server with the paths of raw.githubusercontent.com.
"""

from hardgrpo.data import inputs
from hardgrpo.runtime import errors, files

import argparse
import os
import urllib.error
import urllib.parse
import urllib.request

SERVER = "https://raw.githubusercontent.com"
SECONDS = 60  # longest time without an answer of the server
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
        help="replace the lock's entry by the downloaded file",
    )
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    inputs.read_lock(args.lock)  # fails on a garbled lock before the download
    with files.atomic(args.output) as path:
        content, source = (
            download(args.repository, args.commit, args.name),
            {"repository": args.repository, "commit": args.commit},
        )
        state = inputs.check_original(
            args.lock, source, args.name, content, args.output, args.update_inputs
        )
        path.write_bytes(content)
    print(f"{args.output}: {args.name} of {args.repository} at {args.commit[:12]}, {state}")


def download(repository: str, commit: str, name: str) -> bytes:
    """The content of a file. Raise a `UserError` if the server does not deliver it."""
    server = os.environ.get("HARDGRPO_GITHUB", SERVER).rstrip("/")
    address = f"{server}/{repository}/{commit}/{urllib.parse.quote(name)}"
    remedy = f"{inputs.WHERE}, or copy the file of this commit into the folder that `local` names in the configuration"
    try:
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:
            content = answer.read(LARGEST + 1)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise errors.UserError(
                f"repository {repository}: has no file '{name}' at commit {commit}; correct the path or the commit in the configuration"
            ) from None
        raise errors.UserError(
            f"repository {repository}: {server} answered with status {error.code} for '{name}'; try again later"
        ) from None
    except (OSError, ValueError) as error:
        cause = getattr(error, "reason", error)
        raise errors.UserError(
            f"repository {repository}: cannot download '{name}' from {server} ({cause}); {remedy}"
        ) from None
    if len(content) > LARGEST:
        raise errors.UserError(
            f"repository {repository}: '{name}' has more than {LARGEST:,} bytes; {remedy}"
        )
    return content


if __name__ == "__main__":
    errors.run(main)
