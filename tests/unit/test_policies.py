"""Subset selection: each rule chooses from every pool what its definition says, and counts its ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies

POOLS = st.dictionaries(
    st.text("abcdefgh0123456789", min_size=1, max_size=6),
    st.integers(0, 10).map(lambda k: k / 10),
    min_size=2,
    max_size=60,
)
BUDGETS, SEEDS, TIERS = st.floats(0.01, 1.0), st.integers(0, 5), st.sampled_from([1, 2.5, 3, 4])


@st.composite
def tiered_pools(draw):
    """A pool whose problems have tiers, some of them unknown."""
    pool = draw(POOLS)
    return pool, {i: draw(st.sampled_from([None, 1.0, 2.0, 3.0, 4.0])) for i in pool}


def select(pool, rule, seed, **keys) -> policies.Subset:
    """A choice; without ids, if it is refused."""
    try:
        return policies.select(pool, rule, seed, **keys)
    except UserError:
        return policies.Subset([], 0, 0)


def distance(centre: float):
    return lambda rate: round(abs(rate - centre), 12)


# {rule with a budget: {pass rate of a candidate: its rank}, of which the lowest are chosen}
RANKS = {
    "hard": lambda rates: {rate: rate for rate in rates},
    "easy": lambda rates: {rate: -rate for rate in rates},
    "hard_solvable": lambda rates: {rate: rate for rate in rates if rate > 0},
    "nearest_half": lambda rates: {rate: distance(0.5)(rate) for rate in rates},
    "middle": lambda rates: {
        rate: distance(np.median(rates))(rate)
        for rate in rates
        if np.quantile(rates, 0.25) <= rate <= np.quantile(rates, 0.75)
    },
    "random": lambda rates: dict.fromkeys(rates, 0),
}
RANKS |= {"lowest": RANKS["hard"], "highest": RANKS["easy"]}


@given(POOLS, st.sampled_from(list(RANKS)), BUDGETS, SEEDS)
def test_a_budget_pays_for_the_prompts_of_the_lowest_ranks_and_ties_are_counted(
    pool, rule, budget, seed
):
    ranks = RANKS[rule](list(pool.values()))
    candidates = {prompt: ranks[rate] for prompt, rate in pool.items() if rate in ranks}
    size = policies.subset_size(budget, len(pool))
    assert size <= budget * len(pool) + 1e-6 < size + 1 + 1e-6, "the size is rounded down"
    subset = select(pool, rule, seed, budget=budget)
    if size == 0 or size > len(candidates):
        assert not subset.ids
        return
    assert list(map(candidates.get, subset.ids)) == sorted(candidates.values())[:size]
    assert len(set(subset.ids)) == size
    edge = max(map(candidates.get, subset.ids))
    tied = {prompt for prompt in candidates if candidates[prompt] == edge}
    tied_chosen = tied & set(subset.ids)
    if tied == tied_chosen and rule != "random":
        tied = tied_chosen = set()
    assert (subset.tied, subset.tied_chosen) == (len(tied), len(tied_chosen))


@given(POOLS, st.floats(0.01, 0.5), SEEDS)
def test_hard_and_easy_are_disjoint_up_to_half_of_the_pool(pool, budget, seed):
    hard, easy = (select(pool, rule, seed, budget=budget) for rule in ("hard", "easy"))
    assert not set(hard.ids) & set(easy.ids)


@given(POOLS, BUDGETS, SEEDS)
def test_rules_of_the_released_code_break_ties_by_the_order_of_the_dataset(pool, budget, seed):
    """HE's released code sorts the dataset with stable sorts, without a seed."""
    ids, size = list(pool), policies.subset_size(budget, len(pool))
    by_rate, start = sorted(ids, key=pool.get), (len(pool) - size) // 2
    expected = {
        "hard_by_order": by_rate[:size],
        "easy_by_order": sorted(ids, key=lambda i: -pool[i])[:size],
        "middle_by_rank": by_rate[start : start + size],
    }
    for rule, expected_ids in expected.items():
        subset = select(pool, rule, seed, budget=budget)
        assert subset.ids == expected_ids
        assert not subset.tied or subset.tied_chosen < subset.tied


def test_random_42_equals_the_datasets_library_shuffle_with_seed_42():
    datasets = pytest.importorskip("datasets")
    pool = {f"p{i}": 0.5 for i in range(125)}
    shuffled_ids = datasets.Dataset.from_dict({"id": list(pool)}).shuffle(seed=42)["id"][:12]
    assert policies.select(pool, "random_42", 3, budget=0.1).ids == list(shuffled_ids)


@pytest.mark.parametrize(("rule", "centre"), [("nearest_half", 0.5), ("middle", 0.4)])
def test_tied_prompts_are_taken_from_both_sides_of_the_centre(rule, centre):
    """The distances of .2 and .6 from .4, and of .3 and .7 from .5, differ in the last bit."""
    low, high = (round(centre + change, 1) for change in (-0.2, 0.2))
    rates = {f"low{n}": low for n in range(20)} | {f"high{n}": high for n in range(20)}
    rates |= {f"centre{n}": centre for n in range(5)}
    subsets = [policies.select(rates, rule, seed, {"prompts": 15}) for seed in range(8)]
    assert {(subset.tied, subset.tied_chosen) for subset in subsets} == {(40, 10)}
    low_counts = {sum(prompt[0] == "l" for prompt in subset.ids) for subset in subsets}
    assert 0 < min(low_counts) < max(low_counts) < 10


@given(POOLS, st.floats(0.05, 1.0), SEEDS)
def test_base_wrong_and_base_right_split_the_pool(pool, threshold, seed):
    wrong, right, matched = (
        select(pool, rule, seed, threshold=threshold).ids
        for rule in ("base_wrong", "base_right", "base_right_matched")
    )
    assert set(wrong) == {prompt for prompt in pool if pool[prompt] < threshold}
    assert set(right) == set(pool) - set(wrong) and len(wrong + right) == len(pool)
    assert set(matched) <= set(right)
    assert len(set(matched)) == (len(wrong) if len(wrong) <= len(right) else 0)


@given(POOLS, st.integers(0, 9), st.integers(1, 10), SEEDS)
def test_band_takes_every_pass_rate_between_its_bounds_and_band_matched_equally_many(
    pool, low, high, seed
):
    in_band = {i for i, rate in pool.items() if low <= round(10 * rate) <= high}
    # 0.1 * 3 is above 0.3: rounding must not exclude a rate that equals a bound
    bounds = {"low": 0.1 * low, "high": 0.1 * high}
    band, matched = (select(pool, rule, seed, **bounds) for rule in ("band", "band_matched"))
    assert set(band.ids) == in_band and len(set(matched.ids)) == len(in_band)
    assert not in_band or matched.tied == len(pool)


def test_a_budget_takes_from_the_band_the_rates_nearest_to_one_half_or_a_random_draw():
    rates = {f"p{n}": n / 20 for n in range(21)}
    choose = lambda rule, **keys: policies.select(rates, rule, 0, {"prompts": 5}, **keys)
    nearest = choose("band", low=0.45)
    assert sorted(map(rates.get, nearest.ids)) == [0.45, 0.5, 0.55, 0.6, 0.65]
    drawn = choose("band", low=0.45, order="random")
    assert len(drawn.ids) == 5 and drawn.tied == 8 and set(drawn.ids) != set(nearest.ids)
    assert all(0.45 <= rates[prompt] <= 0.8 for prompt in drawn.ids)
    assert len(choose("band_matched").ids) == 5 and choose("band_matched").tied == 21


@given(tiered_pools(), TIERS, SEEDS)
def test_low_tiers_takes_the_problems_up_to_a_tier_and_its_match_equally_many_of_all(
    tiered, highest, seed
):
    pool, tiers = tiered
    low = {i for i, tier in tiers.items() if tier is not None and tier <= highest}
    choose = lambda rule, tiers, pool=pool, seed=seed: select(
        pool, rule, seed, highest_tier=highest, tiers=tiers
    )
    other_rates = {prompt: 1 - rate for prompt, rate in pool.items()}
    for subset in (choose("low_tiers", tiers), choose("low_tiers", tiers, other_rates, seed + 1)):
        assert set(subset.ids) == low and len(subset.ids) == len(low)
        assert (subset.tied, subset.tied_chosen) == (0, 0), "low_tiers must not choose among ties"
    matched = choose("low_tiers_matched", tiers)
    assert len(set(matched.ids)) == len(low) and set(matched.ids) <= set(pool)
    assert (matched.tied, matched.tied_chosen) == ((len(pool), len(low)) if low else (0, 0))
    # `reversed_tiers` gives low tiers to other problems, but to equally many
    reversed_tiers = dict(zip(pool, reversed(list(tiers.values()))))
    assert matched == choose("low_tiers_matched", reversed_tiers, other_rates), (
        "the draw depends only on the pool's ids, the seed and the number of low tiers"
    )


@given(
    tiered_pools(),
    st.sampled_from([*RANKS, "band", "low_tiers", "low_tiers_matched"]),
    st.floats(0.1, 0.5),
    SEEDS,
)
def test_a_subset_does_not_depend_on_the_order_of_the_pool(tiered, rule, budget, seed):
    pool, tiers = tiered
    keys = {"budget": budget, "highest_tier": 2, "tiers": tiers}
    backwards = dict(reversed(pool.items()))
    assert select(pool, rule, seed, **keys) == select(backwards, rule, seed, **keys)


@pytest.mark.parametrize(
    ("rule", "keys"),
    [
        ("hard", {"budget": 0.1}),
        ("band", {"budget": 0.1, "order": "random"}),
        ("band_matched", {"budget": 0.1}),
        ("low_tiers_matched", {"highest_tier": 1, "tiers": {f"p{i}": i % 5 for i in range(100)}}),
    ],
)
def test_different_seeds_choose_differently_and_equal_seeds_equally(rule, keys):
    pool = {f"p{i}": 0.5 for i in range(100)}
    ids, repeated_ids, reseeded_ids = (
        policies.select(pool, rule, seed, **keys).ids for seed in (0, 0, 1)
    )
    assert ids == repeated_ids
    assert set(ids) != set(reseeded_ids)


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(["hard", "easy", "random", "lowest", "nearest_half"]),
)
def test_budgets_in_shares_prompts_and_money_choose_the_same_subset_if_they_pay_for_equally_many(
    pool, size, rule
):
    size = min(size, pool)
    rates = {str(i): (i * 7 % 11) / 11 for i in range(pool)}
    budgets = [size / pool, {"prompts": size}, {"money": 0.3 * size, "label_price": 0.3}]
    subsets = [policies.select(rates, rule, 0, budget=budget) for budget in budgets]
    assert subsets[0] == subsets[1] == subsets[2] and len(subsets[0].ids) == size


@pytest.mark.parametrize(
    "rule",
    [
        name
        for name, rule in policies.RULES.items()
        if rule.needs in (("budget",), ("budget", "by"))
    ],
)
def test_prompts_without_a_measure_count_in_the_pool_and_are_never_chosen(rule):
    rates = {f"p{i}": 0.5 if i < 3 else None for i in range(10)}
    with pytest.raises(UserError, match="5 prompts are to be chosen, but only 3 qualify"):
        policies.select(rates, rule, 0, budget=0.5)
    assert set(policies.select(rates, rule, 0, budget=0.3).ids) == {"p0", "p1", "p2"}


def test_half_of_a_budget_pays_for_half_of_the_prompts_but_at_least_one():
    money = {"money": 5, "label_price": 2}
    assert policies.halve_budget(0.1) == 0.05
    halves = [policies.halve_budget({"prompts": number})["prompts"] for number in (1, 2, 5, 8)]
    assert halves == [1, 1, 2, 4]
    assert policies.halve_budget(money) == {"money": 2.5, "label_price": 2}


@pytest.mark.parametrize(
    "policy, labels",
    [
        ({"rule": "hard", "budget": 0.1}, "pool"),
        ({"rule": "nearest_half", "budget": 0.1}, "pool"),
        ({"rule": "base_wrong", "threshold": 0.25}, "pool"),
        ({"rule": "lowest", "by": "agreement", "budget": 0.1}, "none"),
        ({"rule": "nearest_half", "by": "predicted", "calibrated_on": 0.02}, "sample"),
        ({"rule": "random", "budget": 0.1}, "none"),
        ({"rule": "low_tiers", "highest_tier": 2}, "none"),
        ({"rule": "all"}, "none"),
    ],
)
def test_a_policy_needs_the_answers_of_the_pool_or_of_a_sample_or_none(policy, labels):
    assert policies.labels_before(policy) == labels
