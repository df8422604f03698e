"""The committed locks in envs/. These tests resolve no requirements; only `make locks` does."""

import importlib.metadata
import re

import pytest
from packaging.requirements import Requirement

import write_locks
from conftest import ROOT
from fakes import names_in, normalized

LOCKS = sorted(path.stem for path in (ROOT / "envs").glob("*.lock"))


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_has_one_version_and_checksums(name):
    for package, entry in write_locks.read_lock(name).items():
        assert sum("==" in line.partition(" ; ")[0] for line in entry) == 1, f"{package}: {entry}"
        checksums = [
            line for line in entry if re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line)
        ]
        notes = [line for line in entry if line.startswith("    #")]
        assert checksums and len(entry) == 1 + len(checksums) + len(notes), f"{package}: {entry}"


@pytest.mark.parametrize("name", write_locks.ORDER)
def test_a_lock_has_the_pinned_packages(name):
    locked = {
        package: write_locks.pinned_version(entry)
        for package, entry in write_locks.read_lock(name).items()
    }
    pinned = {
        write_locks.normalize_name(package): version
        for package, version in write_locks.read_pins(ROOT / f"envs/{name}.txt").items()
    }
    assert pinned and pinned.items() <= locked.items(), "run make locks"


def test_locks_that_share_an_environment_agree():
    locked = {
        name: {
            package: write_locks.pinned_version(entry)
            for package, entry in write_locks.read_lock(name).items()
        }
        for name in LOCKS
    }
    assert (
        locked["build"].items()
        <= locked["figures"].items()
        <= locked["training"].items()
        <= locked["development"].items()
    )
    assert locked["training"]["torch"] == locked["vllm-cpu"]["torch"], (
        "the versions of torch differ, but both environments install cuda.lock, which fits one version"
    )


def test_the_lock_of_torch_for_cpus_has_the_version_of_the_training_lock():
    """`make locks` does not write torch-cpu.lock."""
    version = write_locks.pinned_version(write_locks.read_lock("torch-cpu")["torch"])
    assert (
        version == write_locks.pinned_version(write_locks.read_lock("training")["torch"]) + "+cpu"
    ), "correct envs/torch-cpu.lock by hand"


def test_the_locks_of_the_development_environment_contain_all_requirements_of_their_packages():
    """The test reads the requirements of the installed packages, because uv reads only one wheel of
    each release and assumes that all its wheels have the same requirements."""
    locked = names_in(ROOT / "envs/development.lock") | names_in(ROOT / "envs/cuda.lock")
    for package in locked:
        try:
            needs = importlib.metadata.requires(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        required = [Requirement(need) for need in needs]
        missing = [
            need.name
            for need in required
            if normalized(need.name) not in locked
            and (not need.marker or need.marker.evaluate({"extra": ""}))
        ]
        assert not missing, f"{package} needs {missing}: pin them in envs/, then run make locks"


# A stand-in for uv that writes the committed versions. As in the output of uv, a comment after each
# package names the packages that need this package.
