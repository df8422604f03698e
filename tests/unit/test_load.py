"""The catalogue, files of the user over it, entries that extend others, and the place of a mistake in a file."""

import shutil
from pathlib import Path

import pytest
import yaml

from conftest import ROOT
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import load


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_an_entry_holds_the_values_of_the_entry_that_it_extends(tmp_path):
    recipes = "recipes:\n  b: {extends: a, deep: {y: 3}}\n  a: {x: 1, deep: {x: 1, y: 2}}\n  c: {extends: b, x: 5}\n"
    config = load.read(written(tmp_path, config="study: s\n", config__recipes=recipes))
    assert config["recipes"]["b"] == {"x": 1, "deep": {"x": 1, "y": 3}}
    assert config["recipes"]["c"] == {"x": 5, "deep": {"x": 1, "y": 3}}


def test_a_change_of_an_entry_changes_no_entry_that_extends_it(tmp_path):
    recipes = "recipes: {a: {x: 1}, b: {extends: a, y: 2}}\n"
    config = load.read(written(tmp_path, config="recipes: {a: {x: 9}, own: {extends: a}}\n", config__recipes=recipes))
    assert config["recipes"] == {"a": {"x": 9}, "b": {"x": 1, "y": 2}, "own": {"x": 9}}


@pytest.mark.parametrize(
    ("recipes", "words"),
    [
        ("recipes: {alpha: {x: 1}, b: {extends: alpah}}", ["config: recipes.b.extends", "'alpah'", "did you mean 'alpha'"]),
        ("recipes: {a: {extends: b}, b: {extends: a}}", ["recipes.a.extends", "circle"]),
        ("recipes: {a: {extends: [b]}}", ["recipes.a.extends"]),
        *(
            (
                "recipes:\n  r0: {x: 1}\n  r2000: {x: 1}\n"
                + "".join(f"  r{n}: {{extends: r{n + step}}}\n" for n in range(1, 2000)),
                ["recipes.r", "a chain of more than"],
            )
            for step in (1, -1)
        ),
        ("tasks: {}", ["recipes.yaml", "one key, `recipes`"]),
        ("recipes: [1]", ["recipes.yaml", "one key, `recipes`"]),
        ("recipes: {", ["recipes.yaml"]),
    ],
)
def test_a_mistake_in_the_catalogue_is_named(tmp_path, recipes, words):
    with pytest.raises(UserError) as refused:
        load.read(written(tmp_path, config="study: s\n", config__recipes=recipes))
    assert all(word in str(refused.value) for word in words), refused.value


@pytest.mark.parametrize(
    ("place", "file", "text"),
    [
        ("studies.paper.arms[1].tasks", "config/studies/paper.yaml", "llama-3.1-8b-instruct, tasks: gsm8k"),
        ("studies.paper.arms.1.modles", "config/studies/paper.yaml", "llama-3.1-8b-instruct, tasks: gsm8k"),
        ("models.qwen2.5-3b-instruct.source", "config/models.yaml", "revision: aa8e72537993ba99e69dfaafa59ed015b17504d1"),
        ("recipes.dapo.loss", "config/recipes.yaml", "dapo: {"),
        ("tasks.gsm8k.source.train.0.revision", "config/tasks.yaml", "split: train, local: gsm8k/train.jsonl"),
        ("subset.policy", "config.yaml", "subset: {"),
        ("recipes.own.loss", "my.yaml", "own:"),
        ("recipes.dapo.beta", "my.yaml", "beta: 0.1"),
    ],
)
def test_a_place_has_a_file_and_a_line(tmp_path, monkeypatch, place, file, text):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    shutil.copy(ROOT / "config.yaml", tmp_path)
    (tmp_path / "my.yaml").write_text("recipes:\n  own: {extends: dapo}\n  dapo:\n    beta: 0.1\n")
    monkeypatch.chdir(tmp_path)
    name, _, line = load.locate(place, [*load.sources(), Path("config.yaml"), Path("my.yaml")]).rpartition(":")
    assert name == file and text in Path(file).read_text().splitlines()[int(line) - 1]


def test_a_place_that_no_file_has_is_none(tmp_path):
    (tmp_path / "my.yaml").write_text(yaml.safe_dump({"tasks": {"mine": {}}}))
    assert load.locate("models.x.source", [tmp_path / "my.yaml"]) is None


def test_a_mistake_in_a_text_that_only_the_first_reader_takes_is_named_without_a_place(tmp_path):
    (tmp_path / "my.yaml").write_text('tasks: {mine: {prompt: "\\ud800{question}"}}\n')
    assert load.locate("tasks.mine.prompt", [tmp_path / "my.yaml"]) is None
