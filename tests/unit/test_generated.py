"""Generated tasks are deterministic and disjoint, and worked solutions give the right answers."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import project_config
from hardgrpo.data import generated, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime.errors import UserError
from hardgrpo.study.resolved import resolve_studies

CONFIG = project_config.config()
GENERATED = {
    name: task for name, task in CONFIG["tasks"].items() if task["source"]["kind"] == "generated"
}
NO_SLIP = {"swaps": 0.0, "arithmetic": {"+": 0.0, "-": 0.0, "*": 0.0, "/": 0.0}}
# {family: key of a task's source that lists the tiers}; facts have no tier
TIERS = {"swaps": "length", "arithmetic": "length"}
ALWAYS = {"swaps": 1.0, "arithmetic": {"+": 1.0, "-": 1.0, "*": 1.0, "/": 1.0}}


def draw(family, seed, length):
    rng = random.Random(seed)
    return tasks.FAMILIES[family](rng, {"objects": [3, 4], "length": length}), rng


def test_no_question_stands_in_two_splits_or_in_two_tasks_of_a_study_and_every_split_has_its_size():
    studied = [
        {test for model, task in study.pairs for test in study.eval_tasks(task, model)}
        for study in resolve_studies(CONFIG).values()
    ]
    questions = {}
    for name, task in GENERATED.items():
        question_ids = {}
        if "cut_from" in task:  # the same problems with another completion limit
            assert task["source"] == GENERATED[task["cut_from"]]["source"]
            continue
        for other_task, other_questions in questions.items():
            if any({name, other_task} <= tasks_of_study for tasks_of_study in studied):
                question_ids |= other_questions
        for split in ("train", "test"):
            if task["source"][split]:
                problems = tasks.generate_problems(name, task["source"], split)
                assert len(problems) == task["source"][split]
                family = task["source"]["family"]
                assert {p["tier"] for p in problems} == (
                    set(task["source"][TIERS[family]]) if family in TIERS else {None}
                )
                for problem in problems:
                    question, problem_id = problem["question"], problem["id"]
                    assert question not in question_ids, (problem_id, question_ids[question])
                    question_ids[question] = problem_id
                    assert graders.accepts_reference(task["grader"], problem["answer"])
        questions[name] = question_ids


def test_out_of_distribution_chains_are_longer_than_any_that_grpo_trains_on():
    """Some demonstrations are as long as these chains, so the base model has seen such lengths."""
    tested = CONFIG["studies"]["mini_reference"]["also_tested_on"]
    assert set(tested) == set(CONFIG["studies"]["mini_reference"]["tasks"]) and all(tested.values())
    for task, test_tasks in tested.items():
        demonstrated = CONFIG["models"]["tiny"]["source"]["demonstrations"][task]["length"]
        trained = CONFIG["tasks"][task]["source"]["length"]
        for test_task in test_tasks:
            lengths = CONFIG["tasks"][test_task]["source"]["length"]
            assert max(trained) < min(lengths) <= max(demonstrated)


def test_too_many_problems_for_the_family_is_an_error_that_says_what_to_do():
    source = {"family": "swaps", "objects": [2], "length": [1], "seed": 0, "test": 1}
    with pytest.raises(UserError, match="allow more lengths or objects"):
        tasks.generate_problems("t", source | {"train": 50_000}, "train")


@given(st.sampled_from(["swaps", "arithmetic"]), st.integers(0, 10**6), st.integers(1, 6))
def test_a_worked_solution_without_slips_is_right_and_a_solution_with_slips_still_states_an_answer(
    family, seed, length
):
    chain, rng = draw(family, seed, [length])
    grader = {"swaps": "final_word", "arithmetic": "final_number"}[family]
    right, slipped = (
        graders.grade(grader, generated.DEMONSTRATE[family](chain, rng, slip[family]), chain.answer)
        for slip in (NO_SLIP, ALWAYS)
    )
    assert right.correct and slipped.answered


SLIPS = {"swaps": 0.3, "arithmetic": dict.fromkeys("+-*/", 0.3)}


@pytest.mark.parametrize("family", SLIPS)
def test_a_demonstration_without_slips_is_sound_and_a_wrong_answer_is_never_sound(family):
    outcomes = set()
    for seed in range(300):
        chain, rng = draw(family, seed, [1, 2, 3, 4, 5])
        problem = {"question": chain.question, "answer": chain.answer}
        problem["source"] = f"generated:{family}:1"
        manner = [(0.2, 0.4, 0.4)] if family == "swaps" else []
        text = generated.DEMONSTRATE[family](chain, rng, SLIPS[family], *manner)
        clean = generated.DEMONSTRATE[family](chain, rng, NO_SLIP[family], *manner)
        right = text.rpartition("#### ")[2] == chain.answer
        sound = generated.is_sound(problem, " " + text)
        assert generated.is_sound(problem, clean) is True
        assert right or not sound, "a wrong answer counts as sound"
        assert not generated.is_sound(problem, text.rpartition(" ####")[0]), "no answer, but sound"
        outcomes.add((right, sound))
    assert outcomes == {(True, True), (False, False), (True, False)}, "sound, wrong and lucky"


def test_steps_are_checked_only_in_generated_problems_with_one_worked_solution():
    assert (
        generated.is_sound({"source": "openai/gsm8k/main/train", "question": "?"}, "#### 1") is None
    )
    assert generated.is_sound({"question": "?"}, "(A)") is None
