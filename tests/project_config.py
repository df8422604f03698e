"""The project's configuration (config.yaml and config/), parsed once for all tests of a process."""

import copy
import functools
from pathlib import Path

from hardgrpo.study import load
from hardgrpo.study.resolved import resolve_study
from hardgrpo.study.study import Study

ROOT = Path(__file__).parents[1]


def config() -> dict:
    """A new copy of the configuration, which the caller may change."""
    return copy.deepcopy(parse())


@functools.cache
def parse() -> dict:
    return load.read(ROOT)


# The keys that handwritten entries need, but that a test does not state.
TASK = {
    "source": {"kind": "files", "train": "t.csv", "test": "t.csv"},
    "prompt": "{question}",
    "grader": "final_word",
    "completion_tokens": 8,
    "probe": {"samples": 1, "shards": 1, "seed": 0},
    "test": {"samples": 1, "greedy": False, "seed": 0},
}
STUDY = {"title": "", "models": ["m"], "tasks": [], "arms": [{"policy": "p"}], "seeds": [0]}


def study(config: dict, name: str) -> Study:
    """The study of a handwritten configuration, whose missing keys have any value."""
    tasks = {key: load.lay_over(TASK, entry) for key, entry in config.get("tasks", {}).items()}
    studies = {key: STUDY | entry for key, entry in config["studies"].items()}
    return resolve_study(config | {"tasks": tasks, "studies": studies}, name)
