"""Tell symbolic links that leave a folder from those that stay in it."""

from pathlib import Path

from hardgrpo.runtime.errors import UserError


def check_inside(path: Path, folder: Path) -> None:
    """Raise a `UserError` if `path`, an entry of `folder`, leads out of `folder` through a link.

    In a hub's cache, `folder` is `snapshots/COMMIT`, and its links lead to `../../blobs`: these are inside.
    """
    target, root = path.resolve(), folder.resolve()
    places = [root, root.parents[1] / "blobs"] if root.parent.name == "snapshots" else [root]
    if not any(target.is_relative_to(place) for place in places):
        raise UserError(f"{path}: a link to {target}, which is outside of {folder}; put a copy of the file in its place")
