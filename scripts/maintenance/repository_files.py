"""Copies of the repository's files, without environments, and with the committed results alone.
Programs may make and delete files in a copy."""

from hardgrpo.runtime.errors import UserError

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy_to(folder: Path) -> None:
    """Copy the files of the working tree that git tracks or does not ignore into a folder. Raise a
    `UserError` if git does not list them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        raise UserError(
            f"{ROOT}: git does not list the repository's files; clone it with git"
        ) from None
    for name in filter(None, listing.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
