"""Write envs/training.post-deploy.sh and envs/figures.post-deploy.sh, which install a lock in the conda environments of `--sdm conda`.

    python scripts/maintenance/write_conda.py

envs/*.yaml could list the packages themselves. But Snakemake stores a copy of that file for every output, and with all checksums
it would take half a megabyte.
"""

from hardgrpo.runtime import errors, files, images

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """#!/bin/sh
# Made by scripts/maintenance/write_conda.py from the locks; a test compares. Snakemake runs it in the environment of {name}.yaml, in the
# clone's folder, and makes the environment again where this text is another. SHA-256 of the locks:
{checksums}
set -eu
for lock in {locks}; do
    python -I src/hardgrpo/runtime/pip_settings.py install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps --no-build-isolation -r "$lock"
done
"""


def script(name: str, root: Path = ROOT) -> str:
    """The text of the script for an environment, by its name."""
    locks = [*images.FIRST, images.LOCKS[name]]
    checksums = "\n".join(f"# {hashlib.sha256((root / lock).read_bytes()).hexdigest()} {lock}" for lock in locks)
    return SCRIPT.format(name=name, checksums=checksums, locks=" ".join(locks))


def main() -> None:
    for name in images.LOCKS:
        path = ROOT / f"envs/{name}.post-deploy.sh"
        files.write_text(path, script(name))
        print(path)


if __name__ == "__main__":
    errors.run(main)
