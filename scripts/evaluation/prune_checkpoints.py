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
    """Remove a checkpoint and return its bytes, even if it was removed before."""
    manifest, kept = folder / "manifest.json", folder / provenance.PRUNED
    if not kept.exists() and not manifest.exists():
        raise errors.UserError(f"{folder}: no manifest.json, so this is not a finished checkpoint; nothing of it was removed")
    listed = provenance.read_manifest(kept if kept.exists() else manifest, remedy=f"delete {folder.parent} and run again")["files"]
    if not kept.exists():
        os.replace(manifest, kept)  # first: an evaluation then reports why weights are missing
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != provenance.PRUNED:
            path.unlink()
    return sum(entry["bytes"] for entry in listed.values())


if __name__ == "__main__":
    errors.run(main)
