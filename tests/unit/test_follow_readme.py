"""Tests of `make readme`. The tests do not run the commands of `make readme`, which need root,
debootstrap and the package index."""

import os
import subprocess
import sys

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


def test_a_folder_with_other_content_is_not_entered(tmp_path, monkeypatch):
    root, commands = tmp_path / "debian", []
    (root / "etc").mkdir(parents=True)
    monkeypatch.setattr(follow_readme, "run", lambda command, env=None: commands.append(command))
    with pytest.raises(UserError, match="holds no Debian"):
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
