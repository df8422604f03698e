"""A file or folder is trusted if only trusted accounts can have made it and can change it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from hardgrpo.runtime import ownership

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can make files of another account"
)


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "above/folder"
    folder.mkdir(parents=True)
    for path in (folder.parent, folder):
        path.chmod(0o755)
    return folder


def test_paths_of_this_account_and_of_root_are_trusted_even_if_they_do_not_exist_yet(
    folder, monkeypatch
):
    (folder / "file").touch(0o644)
    (folder.parent / "link").symlink_to("folder")
    monkeypatch.chdir(folder)
    for path in (
        folder,
        folder / "file",
        folder / "new/newer",
        "file",
        "../folder/file",
        folder.parent / "link/file",
        "/",
        "/etc",
    ):
        assert ownership.problem(path) is None, path


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777, 0o707])
def test_a_path_that_every_account_can_write_to_is_refused(folder, mode):
    folder.chmod(mode)
    assert ownership.problem(folder) == f"{folder} can be written by every account"


def test_a_world_writable_parent_folder_is_safe_only_with_the_sticky_bit(folder):
    folder.parent.chmod(0o1777)
    assert ownership.problem(folder) is None
    folder.parent.chmod(0o777)
    assert ownership.problem(folder / "new") == f"{folder.parent} can be written by every account"


def test_a_group_with_other_members_may_not_write(folder, monkeypatch):
    folder.chmod(0o775)
    monkeypatch.setattr(ownership, "_is_own_group", lambda group: False)
    assert ownership.problem(folder) == f"{folder} can be written by its group"


def test_the_accounts_own_group_may_write_if_it_has_no_other_members(folder, monkeypatch):
    """Debian and Red Hat give each account its own group, which may write to the account's home
    folder."""
    folder.chmod(0o775)
    group = os.stat(folder).st_gid
    account = ownership.pwd.struct_passwd(("me", "x", os.geteuid(), group, "", "/", ""))
    monkeypatch.setattr(ownership.pwd, "getpwuid", lambda number: account)
    for name, members, is_safe in (
        ("me", [], True),
        ("me", ["me"], True),
        ("me", ["you"], False),
        ("users", [], False),
    ):
        monkeypatch.setattr(
            ownership.grp,
            "getgrgid",
            lambda number, entry=(name, "x", group, members): ownership.grp.struct_group(entry),
        )
        assert (ownership.problem(folder) is None) == is_safe, (name, members)


def test_a_link_is_refused_and_the_target_of_a_parent_folder_that_is_a_link_is_checked(folder):
    link = folder / "link"
    link.symlink_to(folder.parent)
    assert ownership.problem(link) == f"{link} is a link"
    assert ownership.problem(link / "folder") is None
    folder.parent.chmod(0o777)
    assert ownership.problem(link / "folder") == f"{folder.parent} can be written by every account"
    endless = folder.parent / "endless"
    endless.symlink_to("endless")
    folder.parent.chmod(0o755)
    assert ownership.problem(endless / "x") == f"{endless} is a link"


@AS_ROOT
def test_a_path_of_another_account_is_refused_unless_the_account_is_in_owners(folder):
    os.chown(folder, NOBODY, NOBODY)
    for path in (folder, folder / "new"):
        assert ownership.problem(path).startswith(f"{folder} belongs to account")
        assert ownership.problem(path, [NOBODY]) is None
    link = folder.parent / "link"
    link.symlink_to("/etc")
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    assert ownership.problem(link / "hosts").startswith(f"{link} belongs to account")


def test_a_private_folder_is_accessible_to_its_owner_only(folder):
    folder.chmod(0o755)
    assert ownership.problem(folder, private=True) == f"{folder} is open to other accounts"
    folder.chmod(0o700)
    assert ownership.problem(folder, private=True) is None


@AS_ROOT
def test_in_a_container_folders_above_a_path_may_belong_to_the_hosts_root(
    folder, monkeypatch, tmp_path
):
    os.chown(folder.parent, NOBODY, NOBODY)
    monkeypatch.setattr(ownership, "ID_MAP", tmp_path / "uid_map")
    (tmp_path / "uid_map").write_text("         0       1000          1\n")
    assert ownership.problem(folder) is None
    (tmp_path / "uid_map").write_text("         0          0 4294967295\n")
    assert ownership.problem(folder).startswith(f"{folder.parent} belongs to account")


@AS_ROOT
def test_in_a_container_a_folder_of_another_account_of_the_host_is_refused(
    folder, monkeypatch, tmp_path
):
    """In the container, all other accounts of the host appear as `nobody`."""
    monkeypatch.setattr(ownership, "ID_MAP", tmp_path / "uid_map")
    (tmp_path / "uid_map").write_text("         0       1000          1\n")
    os.chown(folder, NOBODY, NOBODY)
    assert (
        f"{folder} belongs to an account of the host that has no number in this container"
        in ownership.problem(folder)
    )
    # as for `make ... ENVIRONMENTS_OWNER=nobody`
    assert ownership.problem(folder, owners=[NOBODY]) is None


def test_the_program_runs_without_packages_and_prints_a_remedy(folder):
    def call(*arguments) -> subprocess.CompletedProcess:
        command = [sys.executable, "-I", ROOT / "src/hardgrpo/runtime/ownership.py", *arguments]
        return subprocess.run(command, env={}, capture_output=True, text=True, check=False)

    assert call(folder, folder / "new").returncode == 0
    folder.chmod(0o777)
    done = call("--remedy", "use a home folder", folder / "new")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith(
        f"error: {folder} can be written by every account"
    ) and done.stderr.endswith("; use a home folder\n")
    assert call("--owner", "no such account", folder).stderr.startswith(
        "error: there is no account 'no such account'"
    )
