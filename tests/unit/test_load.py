"""Loading of the configuration: the catalogue in config/, the user's files, and entries that extend
others. Mistakes: tests/refusals.yaml."""

from pathlib import Path

import pytest

from conftest import ROOT
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import checks, load


def write_files(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_an_entry_holds_the_values_of_the_entry_that_it_extends(tmp_path):
    recipes = "recipes:\n  b: {extends: a, deep: {y: 3}}\n  a: {x: 1, deep: {x: 1, y: 2}}\n  c: {extends: b, x: 5}\n"
    config = load.read(write_files(tmp_path, config="study: s\n", config__recipes=recipes))
    assert config["recipes"]["b"] == {"x": 1, "deep": {"x": 1, "y": 3}}
    assert config["recipes"]["c"] == {"x": 5, "deep": {"x": 1, "y": 3}}


def test_a_users_change_of_an_entry_leaves_entries_of_the_catalogue_that_extend_it_unchanged(
    tmp_path,
):
    recipes = "recipes: {a: {x: 1}, b: {extends: a, y: 2}}\n"
    config = load.read(
        write_files(
            tmp_path, config="recipes: {a: {x: 9}, own: {extends: a}}\n", config__recipes=recipes
        )
    )
    assert config["recipes"] == {"a": {"x": 9}, "b": {"x": 1, "y": 2}, "own": {"x": 9}}


def test_a_mistake_of_the_users_file_is_reported_with_the_file():
    mistakes = {"recipes": {"mini": {"learning_rte": 1.0}}, "studies": {"mini": {"seeds": []}}}
    with pytest.raises(UserError) as error:
        checks.check(load.lay_over(load.read(ROOT), mistakes), "config/", {"my.yaml": mistakes})
    places = [": ".join(line.split(": ")[:2]) for line in str(error.value).splitlines()]
    assert sorted(places) == ["my.yaml: recipes.mini", "my.yaml: studies.mini.seeds"]
