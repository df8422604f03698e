"""The conda environments have the packages and checksums of the images."""

import os
import shutil
import subprocess

import pytest

import write_conda
from conftest import ROOT
from hardgrpo.runtime import images

PYTHON = """#!/bin/sh
echo "$@" >> said
test ! -e fails
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with the locks, and a `python` that says what it was asked for."""
    shutil.copytree(ROOT / "envs", tmp_path / "envs")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").write_text(PYTHON)
    (tmp_path / "bin/python").chmod(0o755)
    return tmp_path


def deploy(folder, name) -> int:
    """As Snakemake does: in the clone's folder, with the environment's Python first."""
    env = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(["/bin/sh", folder / f"envs/{name}.post-deploy.sh"], cwd=folder, env=env, check=False).returncode


@pytest.mark.parametrize("name", images.LOCKS)
def test_an_environment_gets_the_packages_of_the_image_with_their_checksums(name, folder):
    assert (ROOT / f"envs/{name}.post-deploy.sh").read_text() == write_conda.script(name), "run scripts/maintenance/write_conda.py"
    assert deploy(folder, name) == 0
    asked = (folder / "said").read_text().replace("-I src/hardgrpo/runtime/pip_settings.py", "-m pip").splitlines()
    image = (ROOT / f"envs/{name}.def").read_text()
    installed = [
        line.replace("/opt/hardgrpo/", "envs/").split(maxsplit=1)[1] for line in image.splitlines() if " pip install" in line
    ]
    assert asked == installed and len(asked) == 3 and all("--require-hashes" in line for line in asked)
    (folder / "fails").touch()
    assert deploy(folder, name) != 0


def test_an_environment_is_made_again_where_its_lock_changes(folder):
    before = write_conda.script("figures", folder)
    with (folder / "envs/figures.lock").open("a") as lock:
        lock.write("# changed\n")
    assert write_conda.script("figures", folder) != before
    assert write_conda.script("training", folder) == write_conda.script("training")
