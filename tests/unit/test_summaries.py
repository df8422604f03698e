"""Summary tables of graded completions, compared with values computed by hand."""

import copy
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardgrpo.analysis import completions, explanations, statistics
from hardgrpo.analysis.cells import Cell
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from made_up_cells import cell, evaluation

TIERS = {"a": "3", "b": "10", "c": "3", "d": "10"}


def right(*counts: int) -> dict[str, list[int]]:
    """Two samples for each of the problems a, b, c and d: `counts` of them are right."""
    return {name: [1] * count + [0] * (2 - count) for name, count in zip("abcd", counts)}


BASE = {0: right(0, 1, 2, 0)}
RUNS = {  # after 10, 20 and 30 updates; comment: how many of 8 completions are right
    ("all", "slow"): [
        {10: right(1, 1, 1, 0), 20: right(1, 1, 1, 1), 30: right(2, 1, 2, 1)},  # 3, 4, 6
        {10: right(0, 0, 1, 1), 20: right(2, 2, 2, 1), 30: right(1, 1, 1, 1)},  # 2, 7, 4
    ],
    ("low", "slow"): [
        {10: right(2, 1, 1, 1), 20: right(2, 0, 1, 0), 30: right(2, 2, 2, 2)},  # 5, 3, 8
        {10: right(1, 0, 1, 1), 20: right(1, 1, 1, 1), 30: right(1, 0, 2, 1)},  # 3, 4, 4
    ],
    ("low", "fast"): [
        {10: right(0, 0, 0, 0), 20: right(1, 0, 0, 0), 30: right(1, 1, 1, 0)},  # 0, 1, 3
        {10: right(0, 1, 0, 0), 20: right(1, 0, 0, 1), 30: right(1, 1, 1, 1)},  # 1, 2, 4
    ],
}


def cells(runs: dict = RUNS, base: dict = BASE, tiers: dict = TIERS) -> list[Cell]:
    return [
        cell(
            [evaluation(base, tiers)],
            [evaluation(run, tiers) for run in replicates],
            *arm,
            is_first_recipe=arm[1] == "slow",
        )
        for arm, replicates in runs.items()
    ]


def by_arm(rows: list[dict], *names: str) -> dict[tuple, dict]:
    """The rows by arm and by the columns `names`."""
    keyed = {tuple(row[name] for name in ("policy", "recipe", *names)): row for row in rows}
    assert len(keyed) == len(rows)
    return keyed


def interval_of(row: dict, name: str) -> list[float]:
    return [row[name], row[f"{name}_low"], row[f"{name}_high"], row["problems"], row["seeds"]]


def expected_interval(values: np.ndarray):
    mean = statistics.mean_interval(values)
    return pytest.approx([mean.estimate, mean.low, mean.high, *values.shape[::-1]], nan_ok=True)


# --- accuracy


def test_accuracy_by_tier_by_hand():
    rows = by_arm(completions.tiers(cells()), "tier")
    # Problems a and c have tier 3, b and d tier 10. 2 of 4 completions of the base model are right
    # in tier 3, and 1 of 4 in tier 10.
    base = {"3": 0.5, "10": 0.25}
    by_hand = {
        ("all", "slow", "3"): (4 + 2) / 8, ("all", "slow", "10"): (2 + 2) / 8,
        ("low", "slow", "3"): (4 + 3) / 8, ("low", "slow", "10"): (4 + 1) / 8,
        ("low", "fast", "3"): (2 + 2) / 8, ("low", "fast", "10"): (1 + 2) / 8,
    }  # fmt: skip
    assert list(rows) == list(by_hand), "tier 3 must come before tier 10"
    for key, accuracy in by_hand.items():
        row = rows[key]
        assert (row["accuracy"], row["base_accuracy"]) == pytest.approx((accuracy, base[key[2]]))
        assert row["gain"] == pytest.approx(accuracy - base[key[2]])
        assert (row["step"], row["problems"], row["seeds"]) == (30, 2, 2)
    in_tier = cells()[1].rates(30)[:, [1, 3]]
    assert interval_of(rows["low", "slow", "10"], "accuracy") == expected_interval(in_tier)


def test_steps_until_an_arm_reaches_the_final_accuracy_of_policy_all_by_hand():
    rows = by_arm(completions.catches_up(cells()))
    assert {(row["target"], row["steps"], row["seeds"]) for row in rows.values()} == {
        (10 / 16, 30, 2)
    }
    reached = ("step", "step_first", "step_last", "seeds_reached")
    # Right completions of 16 over both seeds, after 10, 20 and 30 updates: (all, slow) 5, 11, 10;
    # (low, slow) 8, 7, 12; (low, fast) 1, 3, 7. The target is 10 of 16, or 5 of 8 for one seed.
    assert [rows["all", "slow"][name] for name in reached] == [20, 20, 30, 2]
    assert [rows["low", "slow"][name] for name in reached] == [30, 10, 10, 1]
    assert [rows["low", "fast"][name] for name in reached] == [None, None, None, 0]
    assert completions.catches_up(cells()[1:]) == [], "without policy all, there is no target"
    solved = cells(base={0: right(2, 2, 2, 2)})
    assert completions.catches_up(solved) == [], "the target is not above the base model"


def test_checkpoints_that_only_some_seeds_have_do_not_count():
    runs = copy.deepcopy(RUNS)
    del runs["low", "slow"][0][30]
    row = by_arm(completions.catches_up(cells(runs)))["low", "slow"]
    assert (row["steps"], row["step"]) == (20, None)
    assert {row["step"] for row in completions.tiers(cells(runs)[1:2])} == {20}


def test_a_run_that_is_evaluated_on_fewer_problems_than_the_base_model_is_refused():
    runs = copy.deepcopy(RUNS)
    del runs["low", "slow"][1][30]["d"]
    words = (
        r"m/t/slow/low on t: the problems at step 30 \(3\) are not those of the base model \(4\)"
    )
    with pytest.raises(UserError, match=words):
        completions.tiers(cells(runs))


# --- gains and differences


def test_gains_and_differences_by_hand():
    all_cells = cells()
    gains = by_arm(completions.gains(all_cells))
    assert gains["all", "slow"]["gain"] == pytest.approx(10 / 16 - 3 / 8)
    assert len({row["mdd"] for row in gains.values()}) == 1, (
        "the smallest detectable difference must be the same for all policies"
    )
    rows = by_arm(completions.differences(all_cells), "minus", "minus_recipe")
    assert list(rows) == [("all", "slow", "low", "slow"), ("low", "slow", "low", "fast")], (
        "a difference of arms that differ in both policy and recipe answers no question"
    )
    values = all_cells[0].rates(30) - all_cells[1].rates(30)
    row = rows["all", "slow", "low", "slow"]
    assert interval_of(row, "difference") == expected_interval(values)
    assert row["p"] == pytest.approx(float(statistics.p_value(statistics.components(values))))


# --- further differences, paired by problem and seed


def random_cell(policy: str, task="t", test="t", problems="pppqqq", **more) -> Cell:
    """Four samples for each of six problems in tiers 1, 2 and 10, drawn at random. Replicates have
    base models of their own, the same for every policy and task."""
    names = [f"{letter}{n}" for n, letter in enumerate(problems)]
    tiers = dict(zip(names, ["1", "1", "2", "2", "10", "10"]))

    def draw(*seed) -> dict[str, list[int]]:
        counts = np.random.default_rng([*seed]).integers(0, 4, 6)
        return {name: [1] * n + [0] * (4 - n) for name, n in zip(names, counts)}

    letters = list(map(ord, f"{policy} {task} {test}"))
    bases = [evaluation({0: draw(7, seed)}, tiers) for seed in range(3)]
    runs = [
        evaluation({step: draw(step, seed, *letters) for step in (15, 30)}, tiers)
        for seed in range(3)
    ]
    return cell(bases, runs, policy, task=task, test=test, **more)


def paired_rows(*compared: Cell) -> dict[tuple, dict]:
    return by_arm(completions.paired(list(compared)), "minus", "task", "eval_task", "what", "at")


def test_leads_on_two_tests_are_compared_only_if_the_tests_have_the_same_problems():
    tested = [random_cell(policy, "t", test) for test in ("t", "ample") for policy in ("hard", "easy")]  # fmt: skip
    other = [random_cell(policy, "t", "other", problems="qqqqqq") for policy in ("hard", "easy")]
    rows = {key: row for key, row in paired_rows(*tested, *other).items() if key[5] == "test"}
    assert list(rows) == [("hard", "slow", "easy", "t", "t", "test", "ample")]
    hard, easy, hard_ample, easy_ample = (one.rates(30) for one in tested)
    (row,) = rows.values()
    lost = (hard - easy) - (hard_ample - easy_ample)
    assert interval_of(row, "difference") == expected_interval(lost)


def test_the_same_policy_trained_on_two_tasks_is_paired_on_a_test():
    of_t, of_u = random_cell("all", "t", "far"), random_cell("all", "u", "far")
    ((key, row),) = paired_rows(of_t, of_u, random_cell("hard", "u", "near")).items()
    assert key == ("all", "slow", "all", "t", "far", "trained on", "u")
    assert interval_of(row, "difference") == expected_interval(of_t.rates(30) - of_u.rates(30))


# --- kinds of gain, with a base model for each replicate


def replicates(sound: str | None = None, tiers: dict | None = None) -> list[Cell]:
    """Base model 0 never solves problem b, base model 1 never solves problem a. Right answers to
    the problems in `sound` are sound."""

    def evaluated(outcomes: dict, step: int):
        frame = evaluation({step: outcomes}, tiers)
        return (
            frame if sound is None else frame.assign(sound=frame.correct * frame.id.isin([*sound]))
        )

    bases = [evaluated({"a": [1, 1], "b": [0, 0]}, 0), evaluated({"a": [0, 0], "b": [1, 1]}, 0)]
    reach = [{"a": [1, 0, 1], "b": [0, 0, 0]}, {"a": [0, 0, 0], "b": [0, 1, 0]}]
    runs = {
        "hard": [{"a": [1, 1], "b": [1, 0]}, {"a": [1, 1], "b": [1, 1]}],
        "easy": [{"a": [1, 1], "b": [0, 0]}, {"a": [0, 0], "b": [0, 1]}],
    }  # fmt: skip
    return [
        cell(bases, [evaluated(run, 5) for run in of_policy], policy,
             reach=[evaluated(samples, 0) for samples in reach])
        for policy, of_policy in runs.items()
    ]  # fmt: skip


def test_new_solving_is_the_gain_on_problems_that_the_replicates_own_base_never_solved():
    rows = by_arm(completions.kinds(replicates()), "tier")
    hard, easy = rows["hard", "slow", None], rows["easy", "slow", None]
    assert (hard["out_of_reach"], hard["reach_samples"]) == (0.5, 3)
    # problem b for replicate 0, problem a for replicate 1; all completions have an answer
    parts = ("finishing", "sharpening", "new_solving")
    assert [hard[name] for name in parts] == pytest.approx([0, 0, (0.5 + 1) / 4])
    assert [easy[name] for name in parts] == pytest.approx([0, -0.5 / 4, 0])


def test_where_steps_are_checked_a_lucky_answer_puts_no_problem_within_reach():
    with_sound = replicates(sound="b")  # every right answer to problem a is lucky
    assert with_sound[0].out_of_reach().tolist() == [[True, True], [True, False]]
    row, _ = completions.reasons(with_sound)
    assert row["base_sound_share"] == 0.5 and row["sound"] == pytest.approx(1.5 / 4)
    assert row["sound_share"] == pytest.approx(1.5 / 3.5)
    assert row["sound_gain"] + row["lucky_gain"] == pytest.approx(1.5 / 4)
    assert completions.reasons(replicates()) == []


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9))
def test_the_three_kinds_add_up_to_the_gain(seed, seeds, problems):
    rng = np.random.default_rng(seed)
    answered, base_answered = rng.integers(0, 5, (2, seeds, problems)) / 4
    right_answers, base_right = (
        rates * rng.integers(0, 2, rates.shape) for rates in (answered, base_answered)
    )
    out_of_reach = rng.random(answered.shape) < rng.random()
    rates = (base_answered, base_right, answered, right_answers)
    parts = completions.split(*rates, out_of_reach)
    assert np.abs(sum(parts) - (right_answers - base_right)).max() < 1e-12
    *_, new_solving = completions.split(*rates, np.zeros_like(out_of_reach))
    assert not new_solving.any(), "solving a problem within reach counts as new solving"


@settings(max_examples=20)
@given(st.lists(st.lists(st.integers(0, 1), min_size=6, max_size=6), min_size=1, max_size=3))
def test_pass_at_k_of_the_base_is_the_mean_over_all_choices_of_k_samples(samples):
    base = evaluation({0: {f"p{n}": grades for n, grades in enumerate(samples)}})
    rows = completions.base_pass_at_k([cell([base], [base], reach=[base])])
    assert [row["k"] for row in rows] == [1, 2, 4, 6]
    for row in rows:
        solved = [
            np.mean([any(drawn) for drawn in itertools.combinations(grades, row["k"])])
            for grades in samples
        ]
        assert row["pass"] == pytest.approx(np.mean(solved), abs=1e-12)


# --- what explains leads and gains


def test_leads_by_replicate_and_their_regression_equal_values_by_hand(tmp_path):
    difficulty = []
    for seed, rates in enumerate(([0, 0, 0.5, 1], [0.5, 0.5, 1, 1])):
        difficulty.append(str(tmp_path / f"difficulty/m-seed{seed}/t.csv"))
        rows = [{"id": str(n), "pass_rate": rate} for n, rate in enumerate(rates)]
        files.write_rows(difficulty[-1], ["id", "pass_rate"], rows)
    rows = explanations.leads(replicates(), difficulty)
    names = ("minus", "seed", "lead", "zero_share", "mixed_share", "base_accuracy")
    assert [[row[name] for name in names] for row in rows] == [
        ["easy", 0, 0.25, 0.5, 0.25, 0.5],
        ["easy", 1, 0.75, 0, 0.5, 0.5],
    ]
    assert explanations.lead_regressions(rows) == [], "two points are too few for a regression"
    many = [
        rows[0] | {"seed": n, "lead": 0.1 + 0.5 * x, "zero_share": x}
        for n, x in enumerate((0.0, 0.1, 0.3, 0.6, 0.7))
    ]
    (line,) = [
        row for row in explanations.lead_regressions(many) if row["predictor"] == "zero_share"
    ]
    assert (line["slope"], line["points"], line["model"]) == (pytest.approx(0.5), 5, "m")
