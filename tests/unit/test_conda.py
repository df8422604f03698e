import pytest
import yaml

import write_conda
from conftest import ROOT
from hardgrpo.runtime import images


@pytest.mark.parametrize("name", images.PINS)
def test_conda_environments_have_the_pins_of_all_others(name):
    text = (ROOT / f"envs/{name}.yaml").read_text()
    pins = (ROOT / images.PINS[name]).read_text()
    assert text == write_conda.environment(pins), "run scripts/maintenance/write_conda.py"
    *_, packages = yaml.safe_load(text)["dependencies"]
    assert packages["pip"] == [line.split("#")[0].strip() for line in pins.splitlines() if "==" in line.split("#")[0]]
