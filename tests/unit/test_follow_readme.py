"""What `make readme` would run; the run itself needs root, debootstrap and the package index."""

import os
import subprocess
import sys

import pytest

import follow_readme
from conftest import ROOT, path_of

README = (ROOT / "README.md").read_text()


def test_readmes_commands_are_followed_in_their_order():
    dry_runs = [f".venv/bin/snakemake -n --profile laptop{options}" for options in ("", " --config study=mini")]
    assert follow_readme.commands(README, quick=False) == ["make demo", "make test", *dry_runs]
    assert follow_readme.commands(README, quick=True) == ["make setup", *dry_runs]


def test_without_debootstrap_one_line_says_what_to_install(tmp_path):
    command = [sys.executable, path_of("follow_readme"), "--root", tmp_path / "debian"]
    env = os.environ | {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "apt-get install debootstrap" in done.stderr
    assert not (tmp_path / "debian").exists()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this copy of the project is no git clone")
def test_it_is_followed_to_its_end(tmp_path, monkeypatch, capsys):
    """debootstrap and the chroot stand in: what they would be asked is written down."""
    root, asked = tmp_path / "debian", []

    def run(command: list, env: dict | None = None) -> None:
        asked.append([*map(str, command)])
        (root / "root").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(follow_readme, "run", run)
    monkeypatch.setattr(follow_readme.os, "geteuid", lambda: 0)
    monkeypatch.setattr(follow_readme.shutil, "which", lambda name: name)
    monkeypatch.setattr(sys, "argv", ["follow_readme.py", "--root", str(root), "--quick"])
    follow_readme.main()
    made, *followed = asked
    assert made[0] == "debootstrap" and made[-1] == str(root)
    wanted = follow_readme.commands(README, quick=True)
    assert [command[-1].endswith(f"; {words}") for command, words in zip(followed, wanted, strict=True)] == [True] * len(wanted)
    assert (root / "root/clone/README.md").read_text() == README and (root / "root/clone/.git/HEAD").is_file()
    assert capsys.readouterr().out.endswith("README.md was followed to its end\n")
