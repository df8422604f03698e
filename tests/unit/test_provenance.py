"""The commit of a result, and whether the code differed from the commit: values from git, or null
if git cannot tell."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"]
REFUSES = "#!/bin/sh\necho 'fatal: detected dubious ownership in repository' >&2\nexit 128\n"


def git(folder: Path, *arguments: str) -> None:
    subprocess.run([*GIT, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def clone(tmp_path) -> Path:
    """A repository that contains, of the package, only `__init__.py` and the subpackage
    `runtime`."""
    folder = tmp_path / "outer/clone"
    ignored = shutil.ignore_patterns("__pycache__")
    package, copy = ROOT / "src/hardgrpo", folder / "src/hardgrpo"
    shutil.copytree(package / "runtime", copy / "runtime", ignore=ignored)
    shutil.copy2(package / "__init__.py", copy)
    git(folder, "init", "--quiet")
    git(folder, "add", "src")
    git(folder, "commit", "--quiet", "--message=all")
    return folder


def record_version(folder: Path, **variables: str) -> tuple:
    """(whether the commit is known, whether the code differs from it)"""
    code = "import json; from hardgrpo.runtime import provenance; print(json.dumps(provenance.version_of_code()))"
    environment = os.environ | {"PYTHONPATH": str(folder / "src")} | variables
    output = subprocess.check_output([sys.executable, "-c", code], cwd="/", env=environment)
    record = json.loads(output)
    return record["commit"] is not None, record["uncommitted_changes"]


UNKNOWN = (False, None)


def test_only_changes_of_tracked_files_count_as_uncommitted_changes(clone, tmp_path):
    assert record_version(clone) == (True, False)
    (clone / "untracked").write_text("")
    # git sets these variables for a hook
    of_a_hook = {"GIT_DIR": str(tmp_path / "elsewhere"), "GIT_WORK_TREE": "/"}
    assert record_version(clone, **of_a_hook) == (True, False)
    (clone / "src/hardgrpo/runtime/files.py").write_text("")
    assert record_version(clone) == (True, True)


def test_the_version_is_unknown_if_git_fails(clone, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    assert record_version(clone, PATH=str(tools)) == UNKNOWN, "without git"
    (tools / "git").write_text(REFUSES)
    (tools / "git").chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    assert record_version(clone, PATH=path) == UNKNOWN, "in the folder of another user"
    shutil.rmtree(clone / ".git")
    git(clone.parent, "init", "--quiet")
    git(clone.parent, "commit", "--quiet", "--allow-empty", "--message=none")
    assert record_version(clone) == UNKNOWN, "in a copy within another repository"
