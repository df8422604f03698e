"""Everything of tests/refusals.yaml is refused with a message that names the place and the thing."""

import copy
import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import project_config
from conftest import ROOT
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import checks, load

TABLE = yaml.safe_load((ROOT / "tests/refusals.yaml").read_text(encoding="utf-8"))


def entry_at(value, path: str):
    for key in path.split("/"):
        value = value[int(key) if isinstance(value, list) else key]
    return value


def changed_configuration(changes: dict) -> dict:
    """The project's configuration with the changes {path: value} of a row."""
    config = project_config.config()
    for path, value in changes.items():
        outer, _, key = path.rpartition("/")
        parent = functools.reduce(
            lambda entry, name: entry[int(name)] if isinstance(entry, list) else entry.setdefault(name, {}),
            filter(None, outer.split("/")),
            config,
        )  # fmt: skip
        if isinstance(value, str) and value.startswith("copy of "):
            value = entry_at(config, value.removeprefix("copy of "))
        if value == "ABSENT":
            del parent[key]
        elif isinstance(parent, list):
            parent[int(key) :] = [copy.deepcopy(value)]
        else:
            parent[key] = copy.deepcopy(value)
    return config


def check_configuration(changes: dict) -> None:
    checks.check(changed_configuration(changes), "config.yaml")


def check_catalogue(text: str) -> None:
    Path("config").mkdir()
    Path("config.yaml").write_text("study: s\n")
    Path("config/recipes.yaml").write_text(text)
    load.read(Path())


# {group of the table: what refuses its cases}
CHECKS: dict[str, Callable] = {
    "configuration": check_configuration,
    "catalogue": check_catalogue,
}


def words_by_place(group: str, case, message) -> dict[str, list[str]]:
    """{start of a line of the message: words of this line}"""
    if not isinstance(message, dict):
        place = next(iter(case)).replace("/", ".") if group == "configuration" else ""
        message = {place: message}
    start = "config.yaml: " if group == "configuration" else ""
    return {
        start + place: words if isinstance(words, list) else [words]
        for place, words in message.items()
    }


@pytest.mark.parametrize(
    ("group", "case", "message"),
    [(group, *row) for group in CHECKS for row in TABLE[group]],
    ids=lambda value: str(value)[:80],
)
def test_a_message_names_the_place_and_the_thing(group, case, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        CHECKS[group](case)
    lines = str(error.value).splitlines()
    assert all(line.isprintable() for line in lines)
    if group != "configuration":
        assert len(lines) == 1
    for start, words in words_by_place(group, case, message).items():
        text = "\n".join(line for line in lines if line.startswith(start))
        assert text and all(str(word) in text for word in words), lines


@pytest.mark.parametrize("changes", TABLE["accepted"], ids=str)
def test_valid_combinations_are_accepted(changes):
    check_configuration(changes)
