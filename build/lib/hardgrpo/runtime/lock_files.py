"""Open lock files that no other account can redirect or empty; new files cannot be locked by other
accounts either."""

import errno
import os
import stat
from pathlib import Path
from typing import TextIO

from hardgrpo.runtime.errors import UserError


def open_lock(path: str | Path) -> TextIO:
    """Open a lock file for reading and appending; create it if it is missing. A new file gives
    other accounts no permission to read, because an account that can read a file can lock the file.

    Raise a `UserError` for a symbolic link, a file with several hard links, and a file of another
    account; an `OSError` if the file cannot be opened for another reason, such as its permissions.
    """
    remedy = "delete it and run again"
    try:
        descriptor = os.open(
            path,
            os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK,
            0o600,
        )
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise UserError(
            f"{path}: a link, folder or socket is in the place of a lock file; {remedy}"
        ) from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_uid != os.geteuid():
        os.close(descriptor)
        raise UserError(
            f"{path}: not a lock file that this account has created (another owner, a second hard link, or no regular file); {remedy}"
        )
    return open(descriptor, "a+", encoding="utf-8", errors="replace")


def is_current(stream: TextIO, path: str | Path) -> bool:
    """Whether an open lock file is still the file at `path`: the previous holder of the lock may
    have removed that file."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
