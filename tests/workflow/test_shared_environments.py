"""`make ENVIRONMENTS=FOLDER` uses no environment that another account may have made. These tests
download nothing, because their locks are empty."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can make files of another account"
)
LOCKS = ("figures", "build", "pip")


class Clone:
    """A folder with a Makefile and empty locks. `place` is the environment of the lock `figures`,
    in the folder `shared`."""

    def __init__(self, folder: Path):
        self.folder, self.shared = folder / "clone", folder / "above/shared"
        (self.folder / "envs").mkdir(parents=True)
        for name in ("Makefile", "src"):
            (self.folder / name).symlink_to(ROOT / name)
        for name in LOCKS:
            (self.folder / f"envs/{name}.lock").touch()
        self.shared.mkdir(parents=True)
        for path in (self.shared, self.shared.parent):
            path.chmod(0o755)
        self.place = self.shared / f"figures-{hashlib.sha256(b'').hexdigest()[:12]}"

    def build(self) -> None:
        """Write a finished environment, as its owner's `make` would."""
        (self.place / "bin").mkdir(parents=True)
        (self.place / "bin/snakemake").write_text("#!/bin/sh\ntouch hijacked\n")
        (self.place / "bin/snakemake").chmod(0o755)
        (self.place / "figures.ready").touch()

    def make(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        """Run only the part of `make figures` that takes the environment of the lock from `shared`,
        or makes the environment there if it is missing."""
        environment = (
            os.environ | {"MAKEFLAGS": "", "MAKELEVEL": "", "PIP_NO_INDEX": "1"} | variables
        )
        command = [
            "make",
            f"PYTHON={sys.executable}",
            f"ENVIRONMENTS={self.shared}",
            *arguments,
            ".venv-figures/figures.ready",
        ]
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def is_refused(self, done: subprocess.CompletedProcess, words: str) -> None:
        assert (
            done.returncode != 0 and words in done.stderr and "ENVIRONMENTS_OWNER" in done.stderr
        ), done.stdout + done.stderr
        assert done.stderr.count("error: ") == 1 and "Traceback" not in done.stderr
        assert (
            not (self.folder / ".venv-figures").exists()
            and not (self.folder / ".environments").exists()
        )


@pytest.fixture
def clone(tmp_path) -> Clone:
    return Clone(tmp_path)


def own(path: Path) -> None:
    """Make another account the owner of a file, or of a folder and all that it contains."""
    for entry in (path, *path.rglob("*")):
        os.chown(entry, NOBODY, NOBODY, follow_symlinks=False)


def test_an_environment_of_this_account_is_used(clone):
    clone.build()
    done = clone.make()
    assert done.returncode == 0 and (clone.folder / ".venv-figures").readlink() == clone.place, (
        done.stderr
    )
    assert (clone.folder / ".environments").read_text() == f"{clone.shared}\n"


@AS_ROOT
@pytest.mark.parametrize("part", ["", "bin", "figures.ready", ".."])
def test_an_environment_that_another_account_may_have_made_is_refused(clone, part):
    clone.build()
    clone.shared.chmod(0o1777)
    own((clone.place / part).resolve())
    clone.is_refused(clone.make(), "belongs to account")
    process = clone.make("ENVIRONMENTS_OWNER=nobody")
    assert process.returncode == 0 and (clone.folder / ".venv-figures/bin/snakemake").exists(), (
        process.stderr
    )


@pytest.mark.parametrize("part", ["", "bin", "figures.ready", "..", "../.."])
@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_an_environment_that_others_can_write_to_is_refused(clone, part, mode):
    clone.build()
    (clone.place / part).resolve().chmod(mode)
    clone.is_refused(clone.make(), "can be written by every account")


def test_an_environment_behind_a_link_is_refused(clone):
    clone.build()
    clone.place.rename(clone.shared / "elsewhere")
    clone.place.symlink_to("elsewhere")
    clone.is_refused(clone.make(), "is a link")


def test_the_lock_file_beside_an_environment_is_never_emptied(clone):
    """Two calls of `make` exclude each other by a lock file (`flock`). `make` opens this file only
    for appending: if another account replaces the file by a link after the check, the file behind
    the link is not emptied."""
    clone.build()
    precious = clone.folder / "precious"
    precious.write_text("content")
    lock = clone.place.with_name(f"{clone.place.name}.lock")
    lock.symlink_to(precious)
    clone.is_refused(clone.make(), "is a link")
    assert precious.read_text() == "content"
    lock.unlink()
    lock.write_text("content")
    lock.chmod(0o644)
    clone.make()
    assert lock.read_text() == "content" and lock.stat().st_mode & 0o077 == 0
    assert [
        line for line in (ROOT / "Makefile").read_text().splitlines() if "exec 9> " in line
    ] == []


@pytest.mark.slow
def test_environments_made_by_make_are_not_writable_by_others_under_any_umask(clone):
    before = os.umask(0)
    try:
        done = clone.make(PIP_FIND_LINKS="", PIP_EXTRA_INDEX_URL="")
    finally:
        os.umask(before)
    assert "cannot be trusted" not in done.stdout + done.stderr
    entries = [clone.place, *clone.place.rglob("*")]
    assert len(entries) > 3
    assert [path for path in entries if not path.is_symlink() and path.stat().st_mode & 0o022] == []


@pytest.mark.parametrize("place", ["variable", "file"])
@pytest.mark.parametrize(
    "text", ["/tmp/$(touch run)", "/tmp/`touch run`", "/tmp/$HOME", "/tmp/a;touch run", "/tmp/a'b"]
)
def test_no_name_of_a_folder_is_run_as_a_command(clone, text, place):
    (clone.folder / ".environments").write_text(f"{text}\n")
    arguments = [f"ENVIRONMENTS={text.replace('$', '$$')}"] if place == "variable" else []
    command = ["make", "-n", "setup", *arguments]
    environment = os.environ | {"MAKEFLAGS": "", "MAKELEVEL": ""}
    done = subprocess.run(
        command, cwd=clone.folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0 and "name a folder" in done.stderr, done.stderr
    assert not list(clone.folder.parent.rglob("run"))
