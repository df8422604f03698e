"""Kinds of gain: finishing, sharpening and new solving add up to the gain, also for replicates with
their own base models. Further tests: sound answers and leads."""

import contextlib
import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import project_config
from hardgrpo.analysis import completions, hard_leads
from hardgrpo.analysis.cells import load_cells
from hardgrpo.data import evaluations, generated, steps, tasks
from hardgrpo.runtime import files

CONFIG = {
    "studies": {
        "hand": {
            "models": ["m"],
            "tasks": ["t"],
            "arms": [{"policy": ["hard", "easy"], "recipe": ["r"]}],
            "seeds": [0, 1],
        }
    },
    "models": {"m": project_config.config()["models"]["tiny"]},
    "tasks": {"t": {"completion_tokens": 8, "test": {"reach": {"samples": 3, "seed": 1}}}},
}


def load(folder, config: dict):
    """The cells of study `hand`, whose results are in a folder."""
    with contextlib.chdir(folder):
        return load_cells(project_config.study(config, "hand"))


def write(
    folder, path, answers_by_step: dict[int, dict[str, list]], sound=None, tiers=None
) -> None:
    """Write an evaluation from {step: {problem: answer of each sample}}. Answer 'right' is correct,
    None is a missing answer. Correct answers to the problems in `sound` are sound."""
    rows = [
        dict.fromkeys(evaluations.COLUMNS)
        | {
            "step": step,
            "id": name,
            "tier": (tiers or {}).get(name),
            "decoding": "sampled",
            "sample": sample,
            "answer": answer,
        }
        | dict.fromkeys(("correct", "strict", "lenient"), int(answer == "right"))
        | {
            "undecided": 0,
            "answered": int(answer is not None),
            "sound": None if sound is None else int(answer == "right" and name in sound),
        }
        for step, problems in answers_by_step.items()
        for name, answers in problems.items()
        for sample, answer in enumerate(answers)
    ]
    files.write_rows(folder / "results/evaluation" / path, evaluations.COLUMNS, rows)


def world(folder, sound=None, tiers=None):
    """The cells of two replicates with different base models: base model 0 never solves problem b,
    base model 1 never solves problem a."""
    say = lambda sure, text: {
        "a": [text] * 2 if sure == "a" else ["wrong"] * 2,
        "b": [text] * 2 if sure == "b" else ["wrong"] * 2,
    }
    write(folder, "m-seed0/base/t.csv.gz", {0: say("a", "right")}, sound, tiers)
    write(folder, "m-seed1/base/t.csv.gz", {0: say("b", "right")}, sound, tiers)
    write(
        folder,
        "m-seed0/reach/t.csv.gz",
        {0: {"a": ["right", "wrong", "right"], "b": ["wrong"] * 3}},
        sound,
    )
    write(
        folder,
        "m-seed1/reach/t.csv.gz",
        {0: {"a": ["wrong"] * 3, "b": ["wrong", "right", "wrong"]}},
        sound,
    )
    trained = {
        "hard": (
            {"a": ["right"] * 2, "b": ["right", "wrong"]},
            {"a": ["right"] * 2, "b": ["right"] * 2},
        )
    }
    trained["easy"] = (
        {"a": ["right"] * 2, "b": ["wrong"] * 2},
        {"a": ["wrong"] * 2, "b": ["wrong", "right"]},
    )
    for policy, runs in trained.items():
        for seed, answers in enumerate(runs):
            write(
                folder, f"m-seed{seed}/t/r/{policy}/seed{seed}/t.csv.gz", {5: answers}, sound, tiers
            )
    return load(folder, CONFIG)


def test_each_replicate_is_compared_with_its_own_base(tmp_path):
    cells = world(tmp_path)
    assert cells[0].base_rates().tolist() == [[1, 0], [0, 1]]
    rows = {row["policy"]: row for row in completions.gains(cells)}
    assert rows["hard"]["gain"] == pytest.approx(np.mean([0, 0.5, 1, 0])) and rows["easy"][
        "gain"
    ] == pytest.approx(-0.5 / 4)
    # Both replicates count as seeds. With policy hard they gain .25 and .5, each over its own base
    # model.
    assert cells[0].seeds == [0, 1] and rows["hard"]["seeds"] == 2
    (base,) = [
        row for row in completions.accuracy(cells) if row["policy"] == "hard" and row["step"] == 0
    ]
    assert base["accuracy"] == 0.5 and base["seeds"] == 2


def test_new_solving_is_the_gain_on_problems_that_the_replicates_own_base_never_solved(tmp_path):
    rows = {row["policy"]: row for row in completions.kinds(world(tmp_path)) if row["tier"] is None}
    assert rows["hard"]["out_of_reach"] == 0.5 and rows["hard"]["reach_samples"] == 3
    assert rows["hard"]["new_solving"] == pytest.approx((0.5 + 1) / 4), (
        "expected new solving of problem b by replicate 0 and of problem a by replicate 1"
    )
    assert rows["hard"]["sharpening"] == pytest.approx(0) and rows["hard"][
        "finishing"
    ] == pytest.approx(0), (
        "every completion of the base models states an answer, so nothing is gained by finishing"
    )
    assert rows["easy"]["new_solving"] == pytest.approx(0) and rows["easy"][
        "sharpening"
    ] == pytest.approx(-0.5 / 4)
    assert rows["hard"]["accuracy_out_of_reach"] == pytest.approx(0.75)


def test_where_steps_are_checked_a_lucky_answer_puts_no_problem_within_reach(tmp_path):
    cells = world(tmp_path, sound=("b",))  # every correct answer to problem a is lucky
    assert cells[0].out_of_reach().tolist() == [[True, True], [True, False]]
    row = next(row for row in completions.reasons(cells) if row["policy"] == "hard")
    assert row["base_sound"] == 0.25 and row["base_sound_share"] == 0.5
    assert row["sound"] == pytest.approx(1.5 / 4) and row["sound_share"] == pytest.approx(1.5 / 3.5)
    assert row["sound_gain"] + row["lucky_gain"] == pytest.approx(1.5 / 4)
    assert completions.reasons(world(tmp_path / "unknown")) == []


def test_kinds_are_also_computed_for_each_tier(tmp_path):
    rows = {
        row["tier"]: row
        for row in completions.kinds(world(tmp_path, tiers={"a": 1, "b": 2}))
        if row["policy"] == "hard"
    }
    assert list(rows) == [None, "1", "2"]
    assert rows["1"]["new_solving"] == pytest.approx(0.5) and rows["2"][
        "new_solving"
    ] == pytest.approx(0.25)
    for part in ("gain", "new_solving", "sharpening"):
        assert rows[None][part] == pytest.approx((rows["1"][part] + rows["2"][part]) / 2)


def test_without_reach_samples_there_are_no_kinds(tmp_path):
    world(tmp_path)
    plain = CONFIG | {"tasks": {"t": {"completion_tokens": 8, "test": {}}}}
    cells = load(tmp_path, plain)
    assert (
        cells[0].reach is None
        and completions.kinds(cells) == completions.base_pass_at_k(cells) == []
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9))
def test_the_three_kinds_add_up_to_the_gain(seed, replicates, problems):
    rng = np.random.default_rng(seed)
    answered, base_answered = rng.integers(0, 5, (2, replicates, problems)) / 4
    correct, base_correct = (
        answered * rng.integers(0, 2, answered.shape),
        base_answered * rng.integers(0, 2, answered.shape),
    )
    out_of_reach = rng.random(answered.shape) < rng.random()
    parts = completions.split(base_answered, base_correct, answered, correct, out_of_reach)
    assert np.abs(sum(parts) - (correct - base_correct)).max() < 1e-12
    parts_within_reach = completions.split(
        base_answered, base_correct, answered, correct, np.zeros_like(out_of_reach)
    )
    assert not parts_within_reach[2].any(), "solving a problem within reach counts as new solving"


@pytest.mark.parametrize("seed", range(4))
def test_pass_at_k_of_the_base_is_the_mean_over_all_choices_of_k_samples(tmp_path, seed):
    samples = np.random.default_rng(seed).integers(0, 2, (3, 6)).tolist()
    folder = tmp_path
    answers = {
        f"p{i}": ["right" if right else "wrong" for right in grades]
        for i, grades in enumerate(samples)
    }
    for seed in (0, 1):
        for what in ("base", "reach"):
            write(folder, f"m-seed{seed}/{what}/t.csv.gz", {0: answers})
        for policy in ("hard", "easy"):
            write(folder, f"m-seed{seed}/t/r/{policy}/seed{seed}/t.csv.gz", {5: answers})
    rows = {row["k"]: row for row in completions.base_pass_at_k(load(folder, CONFIG))}
    assert list(rows) == [1, 2, 4, 6]
    for k in rows:
        by_hand = np.mean(
            [
                np.mean([any(drawn) for drawn in itertools.combinations(grades, k)])
                for grades in samples
            ]
        )
        assert rows[k]["pass"] == pytest.approx(by_hand, abs=1e-12)


# --- the steps of a solution

SOURCES = {
    "swaps": {"objects": [3, 4, 5], "length": [1, 2, 3, 4, 5]},
    "arithmetic": {"length": [1, 2, 3, 4, 5]},
}
NO_SLIPS = {"swaps": 0.0, "arithmetic": dict.fromkeys("+-*/", 0.0)}
SLIPS = {"swaps": 0.3, "arithmetic": dict.fromkeys("+-*/", 0.3)}


@pytest.mark.parametrize("family", SOURCES)
def test_a_demonstration_without_slips_is_sound_and_a_wrong_answer_is_never_sound(family):
    rng, outcomes = random.Random(1), set()
    for _ in range(300):
        chain = tasks.FAMILIES[family](rng, SOURCES[family])
        problem = {
            "source": f"generated:{family}:1",
            "question": chain.question,
            "answer": chain.answer,
        }
        manner = [(0.2, 0.4, 0.4)] if family == "swaps" else []
        text = generated.DEMONSTRATE[family](chain, rng, SLIPS[family], *manner)
        clean = generated.DEMONSTRATE[family](chain, rng, NO_SLIPS[family], *manner)
        right = text.rpartition("#### ")[2] == chain.answer
        sound = steps.is_sound(problem, " " + text)
        assert steps.is_sound(problem, clean) is True
        assert right or not sound, "a wrong answer counts as sound"
        assert not steps.is_sound(problem, text.rpartition(" ####")[0]), (
            "a text that states no answer counts as sound"
        )
        outcomes.add((right, sound))
    assert {(True, True), (False, False), (True, False)} <= outcomes, (
        "the demonstrations lack sound, wrong or lucky answers"
    )


def test_steps_are_checked_only_in_generated_problems_with_one_worked_solution():
    assert steps.is_sound({"source": "openai/gsm8k/main/train", "question": "?"}, "#### 1") is None
    assert steps.is_sound({"question": "?"}, "(A)") is None


# --- leads by replicate


def test_leads_by_replicate_and_their_regression_equal_values_by_hand(tmp_path):
    difficulty = []
    for seed, rates in enumerate(([0, 0, 0.5, 1], [0.5, 0.5, 1, 1])):
        difficulty.append(tmp_path / f"difficulty/m-seed{seed}/t.csv")
        files.write_rows(
            difficulty[-1],
            ["id", "pass_rate"],
            [{"id": str(i), "pass_rate": rate} for i, rate in enumerate(rates)],
        )
    rows = hard_leads.leads(world(tmp_path), [str(path) for path in difficulty])
    assert [(row["minus"], row["seed"], row["lead"]) for row in rows] == [
        ("easy", 0, 0.25),
        ("easy", 1, 0.75),
    ]
    assert [(row["zero_share"], row["mixed_share"], row["base_accuracy"]) for row in rows] == [
        (0.5, 0.25, 0.5),
        (0, 0.5, 0.5),
    ]
    assert hard_leads.lead_regressions(rows) == [], "two points are too few for a regression"
    many = [
        rows[0] | {"seed": i, "lead": 0.1 + 0.5 * x, "zero_share": x}
        for i, x in enumerate((0.0, 0.1, 0.3, 0.6, 0.7))
    ]
    (line,) = [row for row in hard_leads.lead_regressions(many) if row["predictor"] == "zero_share"]
    assert line["slope"] == pytest.approx(0.5) and line["points"] == 5 and line["model"] == "m"
