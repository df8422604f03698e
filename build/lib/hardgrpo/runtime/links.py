"""Refuse symbolic links that leave a folder, and copy files from folders that other accounts may
change."""

import os
import shutil
import stat
from pathlib import Path

from hardgrpo.runtime.errors import UserError


def is_outside(name: str) -> bool:
    """Whether a file name of a listing would lead out of the folder to which it is relative."""
    return Path(name).is_absolute() or ".." in Path(name).parts


def check_inside(path: Path, folder: Path) -> None:
    """Raise a `UserError` if `path`, an entry of `folder`, leads out of `folder` through a link.

    In a hub's cache, `folder` is `snapshots/COMMIT`, and links to `../../blobs` count as inside.
    """
    _check_target(path, path.resolve(), folder)


def _check_target(path: Path, target: Path, folder: Path) -> None:
    root = folder.resolve()
    places = [root, root.parents[1] / "blobs"] if root.parent.name == "snapshots" else [root]
    if not any(target.is_relative_to(place) for place in places):
        raise UserError(
            f"{path}: a link to {target}, which is outside of {folder}; put a copy of the file in its place"
        )


def copy_inside(path: Path, folder: Path, copy: Path) -> None:
    """Copy `path`, an entry of `folder`, to `copy`. A file of this account is hard-linked if
    possible.

    Raise a `UserError` if `path` is not a regular file or leads out of `folder`. On Linux, the file
    is checked and copied through one descriptor, so another account cannot exchange the file
    between check and copy.
    """
    with open(
        path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
    ) as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{path}: not a regular file; put a copy of the file in its place")
        descriptor = Path(f"/proc/self/fd/{stream.fileno()}")  # Linux
        target = Path(os.readlink(descriptor)) if descriptor.is_symlink() else path.resolve()
        _check_target(path, target, folder)
        if status.st_uid == os.geteuid():
            try:
                os.link(target, copy)
            except OSError:  # another disk, or a file system without hard links
                pass
            else:
                if os.path.samestat(copy.lstat(), status):
                    return
                copy.unlink()
        with open(copy, "xb") as target_stream:
            shutil.copyfileobj(stream, target_stream)
