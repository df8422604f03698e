"""Tests of `make readme`. The tests do not run the commands of `make readme`, which need root,
debootstrap and the package index."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import follow_readme
from conftest import ROOT, path_of
from hardgrpo.runtime.errors import UserError

README = (ROOT / "README.md").read_text()


def test_commands_are_read_from_the_readme_in_their_order():
    dry_runs = [".venv/bin/snakemake -n --profile laptop"]
    assert follow_readme.read_commands(README, quick=False) == ["make demo", "make test", *dry_runs]
    assert follow_readme.read_commands(README, quick=True) == ["make setup", *dry_runs]


def test_without_debootstrap_one_line_says_what_to_install(tmp_path):
    command = [sys.executable, path_of("follow_readme"), "--root", tmp_path / "debian"]
    env = os.environ | {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (
        done.returncode == 1
        and done.stderr.count("\n") == 1
        and "apt-get install debootstrap" in done.stderr
    )
    assert not (tmp_path / "debian").exists()


NOBODY = 65534
AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can make files of another account"
)


def of_another_account(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)


def linked(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


def below_a_world_writable_folder(folder: Path) -> None:
    folder.parent.chmod(0o777)


def below_a_link_of_another_account(folder: Path) -> None:
    folder.parent.rename(folder.parent.with_name("elsewhere"))
    folder.parent.symlink_to("elsewhere")
    os.chown(folder.parent, NOBODY, NOBODY, follow_symlinks=False)


def with_a_clone_elsewhere(folder: Path) -> None:
    (folder / "root/clone").symlink_to("/nowhere")


def written_by_others(folder: Path) -> None:
    folder.chmod(0o757)


def without_mark(folder: Path) -> None:
    (folder / follow_readme.COMPLETE).unlink()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(of_another_account, "belongs to account", marks=AS_ROOT),
        pytest.param(below_a_link_of_another_account, "belongs to account", marks=AS_ROOT),
        (linked, "is a link"),
        (with_a_clone_elsewhere, "is a link"),
        (below_a_world_writable_folder, "can be written by every account"),
        (written_by_others, "can be written by every account"),
        (without_mark, "holds no Debian"),
    ],
)
def test_a_folder_that_another_account_may_have_made_is_not_entered(
    tmp_path, monkeypatch, change, words
):
    root, commands = tmp_path / "above/debian", []
    (root / "root").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / follow_readme.COMPLETE).touch()
    change(root)
    monkeypatch.setattr(follow_readme, "run", lambda command, env=None: commands.append(command))
    with pytest.raises(UserError, match=words):
        follow_readme.make_debian(root, "bookworm")
    assert commands == [] and not (root / "etc/hosts").exists()


def test_the_makefile_uses_no_path_in_tmp_that_others_can_guess():
    makefile = (ROOT / "Makefile").read_text()
    assert "/tmp" not in makefile


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this copy of the project is no git clone")
def test_the_commands_of_the_readme_are_followed_to_the_end(tmp_path, monkeypatch, capsys):
    """A stand-in for function `run` records the calls of debootstrap and chroot."""
    root, commands = tmp_path / "debian", []

    def run(command: list, env: dict | None = None) -> None:
        commands.append([*map(str, command)])
        (root / "root").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(follow_readme, "run", run)
    monkeypatch.setattr(follow_readme.os, "geteuid", lambda: 0)
    monkeypatch.setattr(follow_readme.shutil, "which", lambda name: name)
    monkeypatch.setattr(sys, "argv", ["follow_readme.py", "--root", str(root), "--quick"])
    follow_readme.main()
    first_command, *followed = commands
    assert first_command[0] == "debootstrap" and first_command[-1] == str(root)
    readme_commands = follow_readme.read_commands(README, quick=True)
    assert [
        command[-1].endswith(f"; {words}")
        for command, words in zip(followed, readme_commands, strict=True)
    ] == [True] * len(readme_commands)
    clone = root / "root/clone"
    assert (clone / "README.md").read_text() == README and (clone / ".git/HEAD").is_file()
    assert capsys.readouterr().out.endswith("README.md was followed to its end\n")
    # a second call starts without the results of the first
    (clone / "results/training").mkdir()
    (root / follow_readme.COMPLETE).touch()
    follow_readme.main()
    assert (clone / "README.md").is_file() and not (clone / "results/training").exists()
