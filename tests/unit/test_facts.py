"""Tasks of facts: facts need no reasoning, every fact is demonstrated, and the probability with
which a base model knows a fact is drawn for each model and fact. Tasks of facts do not change other
models and tasks."""

import copy
import hashlib
import itertools
import json
import random
import re
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


def spread(answers) -> float:
    """Chi-square of the animals' counts against equal shares, divided by its degrees of freedom:
    about 1 for random counts."""
    animal_counts = Counter(answers)
    counts = np.array([animal_counts[animal] for animal in generated.ANIMALS])
    return ((counts - counts.mean()) ** 2 / counts.mean()).sum() / (len(counts) - 1)


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


def test_the_answer_does_not_follow_from_the_words_of_the_question():
    rows = problems()
    # the 99th percentile of chi-square with 9 degrees of freedom is 21.7, and 21.7 / 9 is 2.4
    assert spread(row["answer"] for row in rows) < 2.4
    spreads = []
    for place in (1, 2):  # names of the keeper and the town
        by_word = {}
        for row in rows:
            words = re.search(r"does (\w+) of (\w+) keep", row["question"])
            by_word.setdefault(words[place], []).append(row["answer"])
        spreads.append(np.mean([spread(answers) for answers in by_word.values()]))
        assert 0.75 < spreads[-1] < 1.25, f"words at place {place} predict the answer"
    assert spread([row["answer"] for row in rows if row["answer"] in ("goat", "hen")]) > 10, (
        "`spread` does not detect unequal counts"
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
    for belief, row in zip(by_base[0], rows):
        assert sum(belief.values()) == pytest.approx(1) and set(belief) == set(generated.ANIMALS)
        wrong = sorted(
            (share for answer, share in belief.items() if answer != row["answer"]), reverse=True
        )
        any_wrong = (1 - belief[row["answer"]]) * (1 - MISCONCEPTION) / len(wrong)
        assert wrong[1:] == pytest.approx([any_wrong] * (len(wrong) - 1)), (
            "all wrong answers except the most probable wrong answer must be equally probable"
        )
        assert wrong[0] - any_wrong == pytest.approx((1 - belief[row["answer"]]) * MISCONCEPTION)


def test_demonstrations_are_right_as_often_as_the_fact_is_known():
    rng = random.Random(0)
    for row in problems()[:20]:
        belief = generated.belief(chain(row), 3, KNOWN, MISCONCEPTION)[row["answer"]]
        texts = [
            generated.demonstrate_fact(chain(row), rng, 3, KNOWN, MISCONCEPTION)
            for _ in range(1500)
        ]
        grades = [graders.grade("final_word", text, row["answer"]) for text in texts]
        assert all(grade.answered for grade in grades)
        assert np.mean([grade.correct for grade in grades]) == pytest.approx(belief, abs=0.05)


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


def test_words_of_facts_have_tokens_only_if_the_model_learns_facts():
    from hardgrpo.training.pretraining import build_tokenizer

    knowing, other_tokenizer = build_tokenizer({"facts"}), build_tokenizer({"swaps", "arithmetic"})
    for row in problems()[::20]:
        text = f"{row['question']} Answer: #### {row['answer']}"
        ids = knowing(text)["input_ids"]
        assert knowing.unk_token_id not in ids and knowing.decode(ids) == text
        answer = knowing(f" #### {row['answer']}")["input_ids"]
        assert len(answer) + 1 <= CONFIG["tasks"]["facts"]["completion_tokens"]
        assert other_tokenizer.unk_token_id in other_tokenizer(text)["input_ids"]


def test_facts_change_neither_the_tokens_nor_the_demonstrations_of_other_models():
    """The checksums were computed before the tasks of facts were added. Committed results depend on
    the tokens and demonstrations with these checksums."""
    from hardgrpo.training import pretraining as trained

    tokenizer = trained.build_tokenizer({"swaps", "arithmetic"})
    words = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    assert checksum(words) == "5226007f5ef67a76"
    for model, expected in (("tiny", "5148a8eab349e92a"), ("wordy", "32e5f3e7f66667f2")):
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
    ],
)
def test_generated_problems_of_existing_tasks_are_unchanged(task, expected):
    source = CONFIG["tasks"][task]["source"]
    splits = [split for split in tasks.SPLITS if source[split]]
    problems = [tasks.generate_problems(task, source, split) for split in splits]
    assert checksum(problems) == expected


def test_a_fact_has_no_steps_that_could_be_sound():
    row = problems()[0]
    assert generated.is_sound(row, f" #### {row['answer']}") is None
