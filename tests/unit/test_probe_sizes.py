"""The effect of the probe size on the chosen prompts, compared with an enumeration and with the
policies."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardgrpo.selection import policies, probe_sizes


def enumerate_probes(
    correct: int, total: int, samples: int, group: int
) -> dict[int, tuple[float, float, float]]:
    """{c: (probability, share of mixed groups, pass rate of the held-out completions)} of one
    prompt, by enumerating all probes and groups. c is the number of right completions in the
    probe."""
    outcomes = [1] * correct + [0] * (total - correct)
    by_c: dict[int, list[tuple[float, float]]] = {}
    for probe in itertools.combinations(range(total), samples):
        held_out = [outcomes[i] for i in range(total) if i not in probe]
        groups = [sum(chosen) for chosen in itertools.combinations(held_out, group)]
        mixed = np.mean([0 < count < group for count in groups])
        by_c.setdefault(sum(outcomes[i] for i in probe), []).append((mixed, np.mean(held_out)))
    number = sum(map(len, by_c.values()))
    return {c: (len(rows) / number, *np.mean(rows, axis=0)) for c, rows in by_c.items()}


@pytest.mark.parametrize(
    ("correct", "total", "samples", "group"),
    [(0, 6, 2, 2), (2, 7, 3, 2), (5, 8, 3, 4), (8, 8, 4, 3)],
)
def test_shares_of_mixed_groups_equal_an_enumeration_of_probes_and_groups(
    correct, total, samples, group
):
    behaviour = probe_sizes.by_correct(np.array([correct]), np.array([total]), samples, group)
    expected = enumerate_probes(correct, total, samples, group)
    for c in range(samples + 1):
        if c not in expected:
            assert behaviour["share"][c] == pytest.approx(0, abs=1e-12)
            continue
        values = [behaviour[name][c] for name in ("share", "mixed", "pass_rate")]
        assert values == pytest.approx(expected[c])
        assert behaviour["never_solved"][c] == (correct == 0)


POOLS = st.lists(st.tuples(st.integers(0, 12), st.integers(12, 16)), min_size=1, max_size=30)


@given(POOLS, st.integers(0, 8), st.integers(2, 4))
@settings(max_examples=60)
def test_means_over_the_classes_equal_the_means_of_the_pool_for_every_probe_size(
    pool, samples, group
):
    correct, totals = np.array(pool).T
    behaviour = probe_sizes.by_correct(correct, totals, samples, group)
    unprobed = probe_sizes.by_correct(correct, totals, 0, group)
    assert behaviour["share"].sum() == pytest.approx(1)
    for name in ("mixed", "pass_rate", "never_solved"):
        assert np.nansum(behaviour["share"] * behaviour[name]) == pytest.approx(
            unprobed[name][0]
        ), "the mean over c, the number of right completions, must equal the mean of the pool"


COUNTS = [40, 10, 20, 10, 20]  # numbers of prompts with 0, 1, 2, 3 and 4 right completions of 4
MIDDLES = [COUNTS, [5, 45, 20, 10, 20], [10, 10, 60, 10, 10], [48, 4, 0, 0, 48]]


@pytest.mark.parametrize(
    ("rule", "counts"),
    [(rule, COUNTS) for rule in ("hard", "hard_solvable", "nearest_half", "easy")]
    + [("middle", counts) for counts in MIDDLES],
)
def test_rules_choose_the_same_number_of_each_rank_as_the_policies(rule, counts):
    pass_rates = {f"p{c}-{i}": c / 4 for c, count in enumerate(counts) for i in range(count)}
    class_shares = np.array(counts) / 100
    ranks = probe_sizes.class_ranks(rule, 4, class_shares)
    for budget in (0.1, 0.25, 0.4 if rule == "middle" else 0.5):
        chosen = np.zeros(5)
        for prompt in policies.select(pass_rates, rule, 0, budget=budget).ids:
            chosen[int(prompt[1])] += 1
        shares = probe_sizes.choose_shares(class_shares, ranks, budget)
        for rank in np.unique(ranks[~np.isnan(ranks)]):
            assert 100 * shares[ranks == rank].sum() == pytest.approx(chosen[ranks == rank].sum())


def test_the_sufficient_probe_is_the_smallest_at_most_one_point_below_every_larger_probe():
    rows = [
        {"rule": "hard", "samples": k, "mixed": mixed}
        for k, mixed in ((1, 0.5), (2, 0.58), (4, 0.585), (8, 0.5))
    ]
    assert probe_sizes.sufficient_sizes(rows) == {"hard": 2}
    falling = [row | {"mixed": 0.5 / row["samples"]} for row in rows]
    assert probe_sizes.sufficient_sizes(falling) == {}, "more samples make this rule worse"
    assert probe_sizes.sufficient_sizes([*rows, {"rule": "hard", "samples": 16, "mixed": 0.6}]) == {
        "hard": 16
    }
