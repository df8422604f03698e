"""`hardgrpo keys`, and the schema with which an editor explains and checks the configuration."""

import json
import re

import jsonschema
import pytest
import yaml

from conftest import ROOT
from hardgrpo import console
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import keys
from hardgrpo.study.configuration import schema

SCHEMA = json.loads((ROOT / "config/schema.json").read_text(encoding="utf-8"))
FILES = [ROOT / "config.yaml", *sorted((ROOT / "config").rglob("*.yaml"))]


def check(path, text: str) -> None:
    """Check the content of a file as an editor does: by the schema that its first line names."""
    (name,) = re.findall(r"\A# yaml-language-server: \$schema=(\S+)\n", text)
    named_schema = json.loads((path.parent / name).read_text(encoding="utf-8"))
    if list(named_schema) == ["$ref"]:  # a part of the one schema
        file, part = named_schema["$ref"].split("#")
        assert (path.parent / file).resolve() == ROOT / "config/schema.json"
        named_schema = {"$ref": f"#{part}", "$defs": SCHEMA["$defs"]}
    jsonschema.Draft202012Validator(named_schema).validate(yaml.safe_load(text))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_of_the_configuration_fits_the_schema_that_it_names(path):
    check(path, path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "name, correct, wrong",
    [
        ("config.yaml", "draw: computed", "draw: compute"),
        ("config/recipes.yaml", "updates: 20", "updates: -3"),
        ("config/tasks.yaml", "kind: generated", "kind: generate"),
        ("config/studies/mini.yaml", "models:", "model:"),
        ("config/analyses/probing.yaml", "samples: 128", "samples: many"),
    ],
)
def test_the_schema_refuses_a_mistake(name, correct, wrong):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert correct in text
    with pytest.raises(jsonschema.ValidationError):
        check(ROOT / name, text.replace(correct, wrong, 1))


def printed(capsys, *key: str) -> str:
    args = console.build_parser().parse_args(["keys", *key])
    args.run(args)
    return capsys.readouterr().out


def test_a_key_has_its_values_and_its_description(capsys):
    text = printed(capsys, "recipes.NAME.beta")
    assert text.startswith("recipes.NAME.beta: number from 0\n") and "weight of the KL" in text
    assert text == printed(capsys, "recipes.mini.beta").replace("mini", "NAME")


def test_without_a_key_the_sections_are_listed_and_a_section_lists_its_keys(capsys):
    keys_of = lambda *key: set(re.findall(r"^  (\w+):", printed(capsys, *key), re.MULTILINE))
    assert keys_of() == set(schema()["properties"])
    assert keys_of("recipes") == set(schema()["$defs"]["Recipe"]["properties"])


def test_an_object_of_several_kinds_is_explained_for_each_kind(capsys):
    kinds = re.findall(r"kind: (\w+) \(required\)", printed(capsys, "tasks.NAME.source"))
    assert kinds == ["generated", "files", "hub", "recorded"]


def test_an_unknown_key_is_an_error_with_the_similar_key():
    message = "recipes.mini: there is no key 'bta'; did you mean 'beta'?"
    with pytest.raises(UserError, match=message):
        keys.explain("recipes.mini.bta")
    with pytest.raises(UserError, match="top level: there is no key 'x'; known keys: tasks, "):
        keys.explain("x")


def test_every_key_has_a_description():
    def undescribed(path: str, part: dict):
        for kind in keys.objects_in(part):
            for name, child in kind["properties"].items():
                if "\n" not in keys.describe(name, child):
                    yield f"{path}.{name}"
                yield from undescribed(f"{path}.{name}", child)

    assert list(undescribed("", schema())) == []


def test_a_key_that_takes_one_value_or_several_says_so():
    assert "policy: text or list of text" in keys.explain("studies.NAME.arms")
