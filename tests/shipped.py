"""The project's config.yaml, parsed once for all tests of a process."""

import copy
import functools
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def config() -> dict:
    """A new copy of config.yaml, which the caller may change."""
    return copy.deepcopy(parsed())


@functools.cache
def parsed() -> dict:
    return yaml.load((ROOT / "config.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)  # eight times as fast as safe_load
