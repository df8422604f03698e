"""Remove the weights of all checkpoints of an evaluated run except the last (keep_checkpoints: last).

    python scripts/evaluation/prune_checkpoints.py --checkpoints results/training/tiny/swaps/mini/hard/seed0/checkpoints --output pruned.json

The manifest of a removed checkpoint becomes its pruned.json and still lists its files. The run's own manifest does not change.
"""

from hardgrpo.runtime import errors, files, provenance

import argparse
import json
import os
import shutil
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", required=True, type=Path, help="folder of a run's checkpoints")
    parser.add_argument("--output", required=True, help="JSON: steps removed, bytes freed")
    args = parser.parse_args()

    *others, (_, last) = sorted(provenance.checkpoints(args.checkpoints).items())
    provenance.check_manifest(last, part_of=args.checkpoints)
    freed = sum(prune(folder) for _, folder in others)
    steps = [step for step, _ in others]
    files.write_text(args.output, json.dumps({"steps": steps, "bytes": freed}) + "\n")
    print(f"{args.checkpoints}: kept {last.name}, freed {freed / 2**20:.1f} MiB of {len(steps)} others")


def prune(folder: Path) -> int:
    """Remove a checkpoint and return its bytes, also if it was removed before."""
    if not (folder / provenance.PRUNED).exists():
        if not (folder / "manifest.json").exists():
            raise errors.UserError(f"{folder}: no manifest.json, so this is not a finished checkpoint; nothing of it was removed")
        os.replace(
            folder / "manifest.json", folder / provenance.PRUNED
        )  # first: an evaluation then reports why weights are missing
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != provenance.PRUNED:
            path.unlink()
    return sum(entry["bytes"] for entry in files.read_json(folder / provenance.PRUNED)["files"].values())


if __name__ == "__main__":
    errors.run(main)
