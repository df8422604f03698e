"""Get a file of a repository on GitHub, from a local copy or by download, and compare it with inputs.lock.

    python scripts/inputs/get_original.py --repository limenlp/verl --commit fe9979ac --path verl/data/deepscaler_skew_easy_train.parquet \\
        --local data/original/adarft/deepscaler_skew_easy_train.parquet --output skew_easy.parquet --lock inputs.lock

The local copy is read if it exists. The first file writes an entry in the lock (commit, size, checksum); every later file of the same name must
match the entry.
"""

from hardgrpo.data import inputs
from hardgrpo.runtime import errors, files

import argparse
import http.client
import urllib.error
import urllib.request
from pathlib import Path

SERVER = "https://github.com"
LARGEST = 2**30  # bytes of a download


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", required=True, help="owner/name on GitHub")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--path", required=True, help="path of the file in the repository")
    parser.add_argument("--local", required=True, type=Path, help="file to read instead, if it exists")
    parser.add_argument("--output", required=True, type=Path, help="file to write")
    parser.add_argument("--lock", default="inputs.lock", help="file that pins all inputs (default: %(default)s)")
    parser.add_argument("--update-inputs", action="store_true", help="replace the lock's entry by the file")
    parser.add_argument("--server", default=SERVER, help=argparse.SUPPRESS)  # for tests
    args = parser.parse_args()

    inputs.read_lock(args.lock)  # fails on a garbled lock before the download
    is_local = args.local.is_file()
    with files.atomic(args.output) as temporary:
        if is_local:
            temporary.write_bytes(files.read_bytes(args.local))
        else:
            temporary.write_bytes(download(f"{args.server}/{args.repository}/raw/{args.commit}/{args.path}", args.local))
        try:
            state = inputs.check_repository_file(args.lock, args.repository, args.commit, args.path, temporary, args.update_inputs)
        except errors.UserError as error:
            raise errors.UserError(f"{args.local}: {error}" if is_local else error) from None
    print(
        f"{args.output}: {args.path} of {args.repository} at {args.commit[:12]}, {'a local copy' if is_local else 'downloaded'}, {state}"
    )


def download(address: str, local: Path) -> bytes:
    """The content of a file of the internet. Raise a `UserError` if the server cannot be reached or does not have the file."""
    remedy = f"{inputs.WHERE}; or put the file at {local}"
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            content = answer.read(LARGEST + 1)
    except urllib.error.HTTPError as error:
        raise errors.UserError(
            f"{address}: the server answers with status {error.code}; correct repository, commit or file, or put the file at {local}"
        ) from None
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise errors.UserError(f"{address}: cannot be downloaded ({str(reason).splitlines()[0]}); {remedy}") from None
    if len(content) > LARGEST:
        raise errors.UserError(f"{address}: more than {LARGEST:,} bytes; {remedy}")
    return content


if __name__ == "__main__":
    errors.run(main)
