"""Tables `paired` and `tier_trends` equal values that the tests compute from evaluations: paired
differences by checkpoint, k, tier, test and trained task, and the gain of the easiest tier minus
the gain of the hardest tier."""

import numpy as np
import pandas as pd
import pytest

from hardgrpo.analysis import completions, statistics, summary_tables
from hardgrpo.analysis.cells import Cell

SEEDS, TIERS, STEPS = [0, 1, 2], ["1", "1", "2", "2", "10", "10"], (15, 30)


def make_evaluation(rates: dict[int, list[float]], id_prefix: str = "p") -> pd.DataFrame:
    """An evaluation with four samples per problem. `rates`: {step: share of correct samples of each
    problem}."""
    rows = [
        {
            "step": step,
            "id": f"{id_prefix}{n}",
            "tier": TIERS[n],
            "decoding": "sampled",
            "sample": sample,
            "correct": int(sample < 4 * rate),
        }
        for step, shares in rates.items()
        for n, rate in enumerate(shares)
        for sample in range(4)
    ]
    return pd.DataFrame(rows)


def make_cell(policy, task="t", test="t", seeds=SEEDS, random_seed=1, id_prefix="p") -> Cell:
    """A cell of random evaluations. Each seed has its own base model, the same for every policy and
    task."""
    draw = lambda rng: rng.integers(1, 4, len(TIERS)) / 4
    bases = [
        make_evaluation({0: draw(np.random.default_rng([7, seed]))}, id_prefix) for seed in seeds
    ]
    rng = np.random.default_rng([random_seed, *map(ord, f"{policy} {task} {test}")])
    return Cell(
        "m",
        task,
        test,
        policy,
        "r",
        bases,
        [make_evaluation({step: draw(rng) for step in STEPS}, id_prefix) for _ in seeds],
        seeds,
    )


def paired_rows(*cells: Cell) -> dict[tuple, dict]:
    rows = completions.paired(list(cells))
    assert all(row.keys() == set(summary_tables.all_tables()["paired"].columns) for row in rows)
    by_key = {
        tuple(row[name] for name in ("task", "eval_task", "policy", "minus", "what", "at")): row
        for row in rows
    }
    assert len(by_key) == len(rows)
    return by_key


def has_interval_of(row: dict, values: np.ndarray) -> bool:
    expected = statistics.mean_interval(values)
    row_values = [
        row["difference"],
        row["difference_low"],
        row["difference_high"],
        row["problems"],
        row["seeds"],
    ]
    return row_values == pytest.approx(
        [expected.estimate, expected.low, expected.high, values.shape[1], values.shape[0]],
        nan_ok=True,
    )


def test_policies_are_paired_by_problem_and_seed_at_checkpoints_by_k_and_by_tier():
    hard, easy = make_cell("hard"), make_cell("easy")
    rows = paired_rows(hard, easy)
    key = lambda what, at: ("t", "t", "hard", "easy", what, at)
    assert list(rows) == [
        key("checkpoint", "15"), key("pass@k", "4"), key("tier", "1"), key("tier", "2"), key("tier", "10"),
    ]  # fmt: skip
    assert has_interval_of(rows[key("checkpoint", "15")], hard.rates(15) - easy.rates(15))
    tier_differences = (hard.rates(30) - easy.rates(30))[:, 4:]
    assert has_interval_of(rows[key("tier", "10")], tier_differences)
    any_right = lambda trained_cell: (trained_cell.rates(30) > 0).astype(float)
    assert has_interval_of(rows[key("pass@k", "4")], any_right(hard) - any_right(easy)), (
        "expected the differences of pass@4"
    )
    assert paired_rows(hard, make_cell("easy", seeds=[0, 1, 3])) == {}, (
        "expected no pairs of cells with different seeds"
    )


def test_leads_on_two_tests_are_compared_only_if_the_tests_have_the_same_problems():
    cells = [make_cell(policy, "t", test) for test in ("t", "ample") for policy in ("hard", "easy")]
    other_cells = [make_cell(policy, "t", "other", id_prefix="q") for policy in ("hard", "easy")]
    rows = {key: row for key, row in paired_rows(*cells, *other_cells).items() if key[4] == "test"}
    assert list(rows) == [("t", "t", "hard", "easy", "test", "ample")]
    hard, easy, hard_ample, easy_ample = (test_cell.rates(30) for test_cell in cells)
    assert has_interval_of(*rows.values(), (hard - easy) - (hard_ample - easy_ample))


def test_the_same_policy_trained_on_two_tasks_is_paired_on_a_test():
    trained_on_t, trained_on_u = make_cell("all", "t", "far"), make_cell("all", "u", "far")
    rows = paired_rows(trained_on_t, trained_on_u, make_cell("hard", "u", "near"))
    assert list(rows) == [("t", "far", "all", "all", "trained on", "u")]
    assert has_interval_of(*rows.values(), trained_on_t.rates(30) - trained_on_u.rates(30))


def test_a_paired_interval_is_narrower_than_an_unpaired_interval_if_problems_differ_in_difficulty():
    """At step 15, both policies solve each problem equally often, so the paired interval has width
    0. The unpaired intervals are wide, because the problems differ in difficulty."""
    base = np.array([0.25, 0.25, 0.5, 0.5, 1.0, 1.0])
    make_steady_cell = lambda policy, drop: Cell(
        "m",
        "t",
        "t",
        policy,
        "r",
        [make_evaluation({0: base})],
        [make_evaluation({15: base, 30: base - drop}) for _ in SEEDS],
        SEEDS,
    )
    hard, easy = make_steady_cell("hard", 0.0), make_steady_cell("easy", 0.25)
    row = paired_rows(hard, easy)["t", "t", "hard", "easy", "checkpoint", "15"]
    unpaired_width = np.hypot(
        *(
            np.ptp([e.low, e.high])
            for e in (statistics.mean_interval(c.rates(15)) for c in (hard, easy))
        )
    )
    assert row["difference_high"] - row["difference_low"] == 0 and unpaired_width > 0.5


def test_tier_trends_compare_the_easiest_and_the_hardest_tier_in_points_and_in_log_odds():
    (row,) = completions.tier_trends([random_cell := make_cell("random")])
    assert row.keys() == set(summary_tables.all_tables()["tier_trends"].columns)
    assert (row["easiest"], row["hardest"], row["problems"], row["seeds"]) == ("1", "10", 2, 3)
    base, trained = random_cell.base_rates(), random_cell.rates(30)
    easy, hard = slice(0, 2), slice(4, 6)
    expected = statistics.contrast_interval((trained - base)[:, easy], (trained - base)[:, hard])
    assert [row["points"], row["points_low"]] == pytest.approx([expected.estimate, expected.low])
    logit = lambda p: np.log(p / (1 - p))
    easy_gain, hard_gain = (
        logit(trained[:, tier].mean()) - logit(base[:, tier].mean()) for tier in (easy, hard)
    )
    assert (
        row["log_odds"] == pytest.approx(easy_gain - hard_gain)
        and row["log_odds_low"] < row["log_odds"] < row["log_odds_high"]
    )


def test_tiers_that_are_words_have_no_trend():
    cell = make_cell("random")
    words = {"1": "easy", "2": "medium", "10": "hard"}
    for base in cell.bases:
        base["tier"] = base.tier.astype(str).map(lambda tier: words.get(tier, tier))
    assert len(cell.tier_masks()) > 1 and completions.tier_trends([cell]) == []


def test_near_a_ceiling_points_and_log_odds_give_opposite_trends_over_tiers():
    # {tier: correct answers of 500 (before, after training)}: tier 1 from 88.8 to 94.4 %, tier 2
    # from 61.0 to 75.6 %
    correct_counts = {"1": (444, 472), "2": (305, 378)}
    rows = lambda is_trained: [
        {
            "step": 30 * is_trained,
            "id": f"{tier}-{i}",
            "tier": tier,
            "decoding": "sampled",
            "sample": 0,
            "correct": int(i < counts[is_trained]),
        }
        for tier, counts in correct_counts.items()
        for i in range(500)
    ]
    ceiling_cell = Cell(
        "m",
        "t",
        "t",
        "random",
        "r",
        [pd.DataFrame(rows(False))],
        [pd.DataFrame(rows(True)) for _ in SEEDS],
        SEEDS,
    )
    (row,) = completions.tier_trends([ceiling_cell])
    assert row["points"] < 0 < row["log_odds"], (
        "expected the hardest tier to gain more points and the easiest more log odds"
    )


def test_a_tier_that_is_always_solved_has_no_log_odds_and_a_test_of_one_tier_has_no_row():
    base_evaluation = make_evaluation({0: [1, 1, 0.5, 0.5, 0.5, 0.5]})
    solved_cell = Cell(
        "m",
        "t",
        "t",
        "random",
        "r",
        [base_evaluation],
        [make_evaluation({15: [1] * 6, 30: [1, 1, 0.5, 0.5, 0.75, 0.5]}) for _ in SEEDS],
        SEEDS,
    )
    (row,) = completions.tier_trends([solved_cell])
    assert np.isnan([row["log_odds"], row["log_odds_low"], row["log_odds_high"]]).all() and row[
        "points"
    ] == pytest.approx(-0.125)
    one_tier_cell = Cell(
        "m",
        "t",
        "t",
        "random",
        "r",
        *(
            [table.assign(tier="1") for table in tables]
            for tables in (solved_cell.bases, solved_cell.runs)
        ),
        SEEDS,
    )
    assert completions.tier_trends([one_tier_cell]) == [] and completions.tier_trends(
        []
    ) == [] == completions.paired([])
