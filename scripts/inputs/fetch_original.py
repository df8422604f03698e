"""Download a file of a dataset on the Hugging Face hub, or of a GitHub repository, at a pinned
commit. Compare the file with inputs.lock.

    python scripts/inputs/fetch_original.py --section repositories --entry owner/name@0123456789abcdef0123456789abcdef01234567 \\
        --name folder/file.json --output results/originals/owner--name@0123456789abcdef0123456789abcdef01234567/folder/file.json

The first download of a file writes an entry in the lock (size, checksum); every later download
must match the entry. Mirrors: see hardgrpo.data.fetch.
"""

from hardgrpo.data import fetch, inputs
from hardgrpo.runtime import errors, files

import shutil
import tempfile
from pathlib import Path


def main() -> None:
    parser = errors.parser(__doc__, "--output")
    parser.add_argument("--section", required=True, choices=["datasets", "repositories"])
    parser.add_argument("--entry", required=True, help="owner/name@commit")
    parser.add_argument("--name", required=True, help="path of the file in the repository")
    inputs.add_lock_arguments(parser)
    args = parser.parse_args()

    fetch.be_quiet()
    with files.atomic(args.output) as path, tempfile.TemporaryDirectory() as folder:
        fetch.download(args.section, args.entry, [args.name], folder, args.lock)
        copy = Path(folder, args.name)
        entry = {args.name: inputs.file_entry(copy)}
        state = inputs.check(args.lock, args.section, args.entry, entry, args.update_inputs)
        shutil.copyfile(copy, path)
    print(f"{args.output}: {args.name} of {args.entry}, {state}")


if __name__ == "__main__":
    errors.run(main)
