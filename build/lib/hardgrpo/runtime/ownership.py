"""Decide whether a file or folder can be trusted: only trusted accounts may own it and write to it.

    python -I src/hardgrpo/runtime/ownership.py [--owner ACCOUNT] PATH...

prints the first problem and ends with exit status 1; without a problem, the exit status is 0.

Makefile runs this program before any environment exists, so it imports only the standard library.
"""

import argparse
import contextlib
import grp
import os
import pwd
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

MOST_LINKS = 40  # symbolic links in one path, as in Linux
ID_MAP = Path("/proc/self/uid_map")


def problem(path: str | Path, owners: Iterable[int] = (), private: bool = False) -> str | None:
    """The reason why `path` cannot be trusted, with the name of the file or folder at fault; None
    if it can be trusted.

    The path and each folder above it must belong to this account, to root or to one of `owners`
    (account numbers), and no other account may write to them. Exceptions for folders above the
    path: other accounts may write to a folder with the sticky bit, such as /tmp; and in a
    container, a folder may belong to an account of the host that the container does not map
    (`_is_of_the_host`). The path itself must not be a
    link. Links above it are followed, and the path to the target is checked. A path that does not
    exist has no problem; check the path again after creating it.

    With `private`, the path itself must belong to this account, and no other account may read it.
    """
    trusted = {0, os.geteuid(), *owners}
    place, parts, links = Path("/"), _parts(Path.cwd() / path), 0
    if reason := _problem_of(place, place.lstat(), trusted, not parts):
        return reason
    while parts:
        part = parts.pop()
        if part == "..":
            place = place.parent
            continue
        entry = place / part
        try:
            status = entry.lstat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"{entry} cannot be examined ({error.strerror})"
        if reason := _problem_of(entry, status, trusted, not parts):
            return reason
        if not stat.S_ISLNK(status.st_mode):
            place = entry
            continue
        links += 1
        if not parts or links > MOST_LINKS:
            return f"{entry} is a link"
        target = Path(os.readlink(entry))
        place = Path("/") if target.is_absolute() else place
        parts += _parts(target)
    if private and (place.lstat().st_uid != os.geteuid() or place.lstat().st_mode & 0o077):
        return f"{place} is open to other accounts"
    return None


def _parts(path: Path) -> list[str]:
    """The parts of a path below the root, in reverse order."""
    return [part for part in reversed(path.parts) if part != "/"]


def _problem_of(
    entry: Path, status: os.stat_result, trusted: set[int], is_last: bool
) -> str | None:
    if status.st_uid not in trusted:
        if not _is_of_the_host(status.st_uid):
            return f"{entry} belongs to {_account(status.st_uid)}"
        if is_last:
            return f"{entry} belongs to an account of the host that has no number in this container, which shows {_account(status.st_uid)} instead"
    if stat.S_ISLNK(status.st_mode) or not is_last and status.st_mode & stat.S_ISVTX:
        return None
    if status.st_mode & stat.S_IWOTH:
        return f"{entry} can be written by every account"
    if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid):
        return f"{entry} can be written by its group"
    return None


def _is_own_group(group: int) -> bool:
    """Whether a group is the private group of this account: its primary group, with the account's
    name and without other members."""
    try:
        account, entry = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (
        group == account.pw_gid
        and entry.gr_name == account.pw_name
        and set(entry.gr_mem) <= {account.pw_name}
    )


def _is_of_the_host(account: int) -> bool:
    """Whether an account number is outside the numbers that this container maps (`ID_MAP`).

    In a container, files of all unmapped accounts of the host appear to belong to `nobody`. One of the accounts may be
    the host's root, who owns a /tmp that is mounted from the host. `problem` therefore accepts this
    owner for folders above a path, but not for the path itself.
    """
    try:
        ranges = [tuple(map(int, line.split())) for line in ID_MAP.read_text().splitlines()]
    except OSError:
        return False
    return bool(ranges) and not any(first <= account < first + count for first, _, count in ranges)


def _account(number: int) -> str:
    with contextlib.suppress(KeyError):
        return f"account '{pwd.getpwuid(number).pw_name}'"
    return f"account {number}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--owner", default="", help="account to trust besides root and the current account"
    )
    parser.add_argument(
        "--remedy",
        default="choose a path that only you can write to",
        help="remedy in the error message",
    )
    parser.add_argument("paths", nargs="+")
    args = parser.parse_args()
    try:
        owners = [pwd.getpwnam(args.owner).pw_uid] if args.owner else []
    except KeyError:
        sys.exit(f"error: there is no account '{args.owner}'; name an account of this machine")
    for path in args.paths:
        if reason := problem(path, owners):
            sys.exit(f"error: {reason}, so {path} cannot be trusted; {args.remedy}")


if __name__ == "__main__":
    main()
