"""Download a file of a dataset on the Hugging Face hub, or of a GitHub repository, at a pinned
commit. Compare the file with inputs.lock.
"""

from hardgrpo.data import fetch, inputs
from hardgrpo.runtime import errors, files

import shutil
import tempfile
from pathlib import Path


def main() -> None:
    parser = errors.parser(__doc__, "--entry", "--name", "--output")
    parser.add_argument("--section", required=True, choices=["datasets", "repositories"])
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
