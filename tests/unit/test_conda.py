import re

import pytest
import yaml

import write_conda
from conftest import ROOT
from hardgrpo.runtime import images


@pytest.mark.parametrize("name", images.LOCKS)
def test_conda_environments_have_the_packages_and_checksums_of_all_others(name):
    text = (ROOT / f"envs/{name}.yaml").read_text()
    lock = (ROOT / images.LOCKS[name]).read_text()
    assert text == write_conda.environment(lock), "run scripts/maintenance/write_conda.py"
    *_, packages = yaml.safe_load(text)["dependencies"]
    requirements = [line.removesuffix(" \\") for line in lock.splitlines() if re.match(r"[\w.-]+==", line)]
    assert [line.partition(" --hash=")[0] for line in packages["pip"]] == requirements
    assert re.findall("sha256:[0-9a-f]{64}", text) == re.findall("sha256:[0-9a-f]{64}", lock)
