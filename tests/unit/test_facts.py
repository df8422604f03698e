"""Tasks of facts: facts need no reasoning, every fact is demonstrated, and the probability with
which a base model knows a fact is drawn for each model and fact. Tasks of facts do not change other
models and tasks."""

import copy
import hashlib
import itertools
import json
from collections import Counter

import numpy as np
import pytest

import project_config
from hardgrpo.data import generated, tasks
from hardgrpo.grading import graders
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_studies, withheld_splits

CONFIG = project_config.config()
SOURCE = CONFIG["tasks"]["facts"]["source"]
DEMONSTRATIONS = CONFIG["models"]["knowing"]["source"]["demonstrations"]["facts"]
KNOWN, MISCONCEPTION = DEMONSTRATIONS["known"], DEMONSTRATIONS["misconception"]


def problems(**changes):
    return [
        problem
        for split in tasks.SPLITS
        for problem in tasks.generate_problems("facts", SOURCE | changes, split)
    ]


def chain(problem):
    return generated.Chain(problem["question"], problem["answer"], None, (), (), "")


def checksum(value) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def pretraining(model: str, **changes) -> dict:
    entry = copy.deepcopy(CONFIG["models"][model])
    entry["source"].update(seed=0, **changes)
    source, tasks = entry["source"], CONFIG["tasks"]
    demonstrations = {
        task: values | {"source": tasks[task]["source"], "prompt": tasks[task]["prompt"]}
        for task, values in source["demonstrations"].items()
    }
    return source | {"demonstrations": demonstrations}


def test_all_facts_of_the_family_are_generated_once_each_and_reproducibly():
    rows = problems()
    size = SOURCE["train"] + SOURCE["test"]
    assert len(rows) == len({row["question"] for row in rows}) == size == generated.FACTS
    assert rows == problems() and {row["tier"] for row in rows} == {None}
    assert all(
        graders.accepts_reference(CONFIG["tasks"]["facts"]["grader"], row["answer"]) for row in rows
    )
    other_answers = {row["question"]: row["answer"] for row in problems(seed=99)}
    equal_share = np.mean([other_answers[row["question"]] == row["answer"] for row in rows])
    assert 0.05 < equal_share < 0.15, (
        "with another seed, about one answer of ten must be the same, by chance"
    )


def test_a_base_model_knows_each_fact_with_its_own_probability():
    rows = problems()
    by_base = [
        [generated.belief(chain(row), base, KNOWN, MISCONCEPTION) for row in rows]
        for base in (0, 1)
    ]
    right = np.array(
        [[belief[row["answer"]] for belief, row in zip(beliefs, rows)] for beliefs in by_base]
    )
    a, b = KNOWN
    assert np.abs(right.mean(axis=1) - a / (a + b)).max() < 0.05
    assert np.abs(right.var(axis=1) - a * b / ((a + b) ** 2 * (a + b + 1))).max() < 0.03
    assert abs(np.corrcoef(right)[0, 1]) < 0.15, "two base models know the same facts"
    assert all(sum(belief.values()) == pytest.approx(1) for belief in by_base[0])


def test_every_fact_of_both_splits_is_demonstrated_in_pretraining():
    from hardgrpo.training import pretraining as trained

    studies = resolve_studies(CONFIG).values()
    assert withheld_splits(Configuration.of(CONFIG), "knowing-seed0", studies) == [], (
        "some facts are withheld from the demonstrations"
    )
    settings = pretraining("knowing")
    tokenizer = trained.build_tokenizer({"facts"})
    rows = problems()
    batches = itertools.islice(trained.draw_batches(settings, set(), tokenizer), 160)
    prompt_counts = Counter(tokenizer.decode(prompt) for batch in batches for prompt, _ in batch)
    assert set(prompt_counts) == {f"{row['question']} Answer:" for row in rows}
    assert settings["steps"] >= 320, (
        "pretraining has fewer than twice the batches that this test draws"
    )


@pytest.mark.parametrize(
    ("families", "words", "demonstrations"),
    [
        (
            {"swaps", "arithmetic"},
            "5226007f5ef67a76",
            {"tiny": "5148a8eab349e92a", "wordy": "32e5f3e7f66667f2"},
        ),
        ({"facts"}, "447a1b40f59b5a0e", {"knowing": "f1516c81822a89f3"}),
    ],
)
def test_tokens_and_demonstrations_are_those_of_the_committed_results(
    families, words, demonstrations
):
    """The checksums of the tasks `swaps` and `arithmetic` were computed before there were facts."""
    from hardgrpo.training import pretraining as trained

    tokenizer = trained.build_tokenizer(families)
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    assert checksum(vocabulary) == words
    for model, expected in demonstrations.items():
        batches = trained.draw_batches(pretraining(model), set(), tokenizer)
        assert checksum(list(itertools.islice(batches, 16))) == expected, model


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("swaps", "145ea3de5ba63504"),
        ("swaps_hard", "73c2dda11edd97a5"),
        ("arithmetic", "0a6b088a0ff30e0c"),
        ("arithmetic_hard", "3a7cb43eb6afd7fd"),
        ("swaps_ample", "22243ea467eae634"),
        ("facts", "6cd4345f5e273018"),
    ],
)
def test_generated_problems_are_those_of_the_committed_results(task, expected):
    source = CONFIG["tasks"][task]["source"]
    splits = [split for split in tasks.SPLITS if source[split]]
    problems = [tasks.generate_problems(task, source, split) for split in splits]
    assert checksum(problems) == expected


def test_the_share_of_a_task_changes_during_the_second_quarter():
    from hardgrpo.training import pretraining as trained

    places = (0, 0.25, 0.375, 0.5, 1)
    shares = [trained.share_at({"first": 0.2, "last": 1.0}, place) for place in places]
    assert shares == pytest.approx([0.2, 0.2, 0.6, 1.0, 1.0])
