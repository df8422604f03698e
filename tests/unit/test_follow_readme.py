"""What `make readme` would run; the run itself needs root, debootstrap and the package index."""

import os
import subprocess
import sys

import follow_readme
from conftest import ROOT, path_of

README = (ROOT / "README.md").read_text()


def test_readmes_commands_are_followed_in_their_order():
    dry_runs = ["snakemake -n --profile laptop", "snakemake -n --profile laptop --config study=mini"]
    assert follow_readme.commands(README, quick=False) == ["make demo", "make test", *dry_runs]
    assert follow_readme.commands(README, quick=True) == ["make setup", *dry_runs]


def test_without_debootstrap_one_line_says_what_to_install(tmp_path):
    command = [sys.executable, path_of("follow_readme"), "--root", tmp_path / "debian"]
    env = os.environ | {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "apt-get install debootstrap" in done.stderr
    assert not (tmp_path / "debian").exists()
