r"""Remove the files of all checkpoints of a run except the last checkpoint.

    python scripts/evaluation/prune_checkpoints.py --output pruned.json \
        --checkpoints results/training/steady-seed0/arithmetic/mini/hard/seed0/checkpoints

With keep_checkpoints: last, the workflow calls this program after every study that contains the run
has evaluated it; the program does not check this. The manifest.json of a pruned checkpoint is
renamed to pruned.json and still lists the removed files.
"""

from hardgrpo.runtime import errors, files, provenance

import json
import os
import shutil
from pathlib import Path


def main() -> None:
    parser = errors.parser(__doc__)
    parser.add_argument(
        "--checkpoints", required=True, type=Path, help="folder of a run's checkpoints"
    )
    parser.add_argument(
        "--output",
        required=True,
        help="JSON file with the pruned steps and the size of their files in bytes",
    )
    args = parser.parse_args()

    *earlier, (_, last_checkpoint) = sorted(provenance.checkpoints(args.checkpoints).items())
    provenance.check_manifest(last_checkpoint, part_of=args.checkpoints)
    freed_bytes = sum(prune(folder) for _, folder in earlier)
    steps = [step for step, _ in earlier]
    files.write_text(args.output, json.dumps({"steps": steps, "bytes": freed_bytes}) + "\n")
    print(
        f"{args.checkpoints}: kept {last_checkpoint.name}, freed {freed_bytes / 2**20:.1f} MiB of {len(steps)} other checkpoints"
    )


def prune(folder: Path) -> int:
    """Remove all files of a checkpoint except its manifest, which is renamed, also after an
    interrupted call. Return the size in bytes of all files that the manifest lists."""
    manifest, pruned_manifest = folder / "manifest.json", folder / provenance.PRUNED
    if not pruned_manifest.exists() and not manifest.exists():
        raise errors.UserError(
            f"{folder}: no manifest.json, so this is not a finished checkpoint; no file of this checkpoint was removed"
        )
    present_manifest = pruned_manifest if pruned_manifest.exists() else manifest
    file_entries = files.read_json(present_manifest)["files"]
    if not pruned_manifest.exists():
        # Rename first, so that an evaluation can report why weights are missing.
        os.replace(manifest, pruned_manifest)
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != provenance.PRUNED:
            path.unlink()
    return sum(entry["bytes"] for entry in file_entries.values())


if __name__ == "__main__":
    errors.run(main)
