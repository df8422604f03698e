"""Remove the files of all checkpoints of a run except the last checkpoint.

The manifest.json of a pruned checkpoint is renamed to pruned.json and still lists the removed
files.
"""

from hardgrpo.runtime import errors, files, provenance

import json
import os
from pathlib import Path


def main() -> None:
    parser = errors.parser(__doc__, "--output")
    parser.add_argument("--checkpoints", required=True, type=Path, help="of one run")
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
    # Rename first, so that an evaluation can report why weights are missing.
    if not pruned_manifest.exists():
        os.replace(manifest, pruned_manifest)
    for path in folder.iterdir():
        if path.name != provenance.PRUNED:
            path.unlink()
    return sum(entry["bytes"] for entry in files.read_json(pruned_manifest)["files"].values())


if __name__ == "__main__":
    errors.run(main)
