"""The project's configuration (config.yaml and config/), parsed once for all tests of a process."""

import copy
import functools
from pathlib import Path

from hardgrpo.study import load

ROOT = Path(__file__).parents[1]


def config() -> dict:
    """A new copy of the configuration, which the caller may change."""
    return copy.deepcopy(parse())


@functools.cache
def parse() -> dict:
    return load.read(ROOT)
