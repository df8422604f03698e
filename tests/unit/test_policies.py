"""Subset selection: properties that hold for every pool, examples, and errors."""

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
BUDGETS = st.floats(0.01, 1.0)
SEEDS = st.integers(0, 5)


def select(pool, rule, seed, **kwargs):
    try:
        return policies.select(pool, rule, seed, **kwargs)
    except UserError:
        return None


@given(POOLS, st.sampled_from(["hard", "easy", "random"]), BUDGETS, SEEDS)
def test_a_subset_has_the_size_of_the_budget_rounded_down_and_no_duplicates(
    pool, rule, budget, seed
):
    subset = select(pool, rule, seed, budget=budget)
    size = policies.subset_size(budget, len(pool))
    assert size <= budget * len(pool) + 1e-6 < size + 1 + 1e-6
    if size == 0:
        assert subset is None
    else:
        assert len(subset.ids) == len(set(subset.ids)) == size
        assert set(subset.ids) <= set(pool)


@given(POOLS, st.floats(0.01, 0.5), SEEDS)
def test_hard_and_easy_are_disjoint_up_to_half_of_the_pool(pool, budget, seed):
    hard, easy = (select(pool, rule, seed, budget=budget) for rule in ("hard", "easy"))
    assert (hard is None) == (easy is None) == (policies.subset_size(budget, len(pool)) == 0)
    if hard:
        assert not set(hard.ids) & set(easy.ids)


@given(POOLS, BUDGETS, SEEDS)
def test_hard_takes_the_lowest_and_easy_the_highest_pass_rates(pool, budget, seed):
    for rule, sign in (("hard", 1), ("easy", -1)):
        subset = select(pool, rule, seed, budget=budget)
        left_out = [sign * pool[i] for i in pool if subset and i not in subset.ids]
        if left_out:
            assert max(sign * pool[i] for i in subset.ids) <= min(left_out)


@given(POOLS, st.floats(0.01, 0.5), SEEDS)
def test_middle_lies_within_the_quartiles_and_nearest_to_the_median(pool, budget, seed):
    subset, size = (
        select(pool, "middle", seed, budget=budget),
        policies.subset_size(budget, len(pool)),
    )
    centre, low, high = policies._quartiles(list(pool.values()))
    if subset is None:
        assert size == 0 or sum(low <= rate <= high for rate in pool.values()) < size
        return
    assert all(low <= pool[i] <= high for i in subset.ids)
    left_out = [
        abs(pool[i] - centre) for i in pool if i not in subset.ids and low <= pool[i] <= high
    ]
    if left_out:
        assert max(abs(pool[i] - centre) for i in subset.ids) <= min(left_out) + 1e-12


@given(POOLS, BUDGETS, SEEDS)
def test_rules_of_the_released_code_break_ties_by_the_order_of_the_dataset(pool, budget, seed):
    """HE's released code sorts the dataset with stable sorts, without a seed."""
    ids, size = list(pool), policies.subset_size(budget, len(pool))
    by_rate = sorted(ids, key=pool.get)
    start = (len(ids) - size) // 2
    expected = {
        "hard_by_order": by_rate[:size],
        "easy_by_order": sorted(ids, key=lambda i: -pool[i])[:size],
        "middle_by_rank": by_rate[start : start + size],
    }
    for rule, expected_ids in expected.items():
        subset = select(pool, rule, seed, budget=budget)
        assert (subset.ids if subset else []) == expected_ids
        if subset and subset.tied:
            assert subset.tied_chosen < subset.tied, (
                "ties count only if some of the tied prompts were not chosen"
            )


def test_random_42_equals_the_datasets_library_shuffle_with_seed_42():
    datasets = pytest.importorskip("datasets")
    pool = {f"p{i}": 0.5 for i in range(125)}
    shuffled_ids = datasets.Dataset.from_dict({"id": list(pool)}).shuffle(seed=42)["id"][:12]
    assert policies.select(pool, "random_42", 3, budget=0.1).ids == list(shuffled_ids)


@given(POOLS, BUDGETS, SEEDS)
def test_nearest_half_takes_the_pass_rates_nearest_to_one_half(pool, budget, seed):
    subset, distance = (
        select(pool, "nearest_half", seed, budget=budget),
        lambda i: abs(pool[i] - 0.5),
    )
    assert (subset is None) == (policies.subset_size(budget, len(pool)) == 0)
    left_out = [distance(i) for i in pool if subset and i not in subset.ids]
    if left_out:
        assert max(map(distance, subset.ids)) <= min(left_out) + 1e-12


def test_nearest_half_breaks_ties_between_rates_below_and_above_one_half_by_the_seed():
    pool = {f"{side}{i}": side for side in (0.4, 0.6) for i in range(20)} | {"far": 0.0}
    subsets = [policies.select(pool, "nearest_half", seed, budget=0.5) for seed in (0, 1)]
    assert all(0 < sum(pool[i] == 0.4 for i in subset.ids) < 20 for subset in subsets)
    assert set(subsets[0].ids) != set(subsets[1].ids) and (
        subsets[0].tied,
        subsets[0].tied_chosen,
    ) == (40, 20)


@given(POOLS, BUDGETS, SEEDS)
def test_hard_solvable_takes_the_lowest_pass_rates_above_zero(pool, budget, seed):
    subset, size = (
        select(pool, "hard_solvable", seed, budget=budget),
        policies.subset_size(budget, len(pool)),
    )
    if subset is None:
        assert size == 0 or sum(rate > 0 for rate in pool.values()) < size
    else:
        assert all(pool[i] > 0 for i in subset.ids)
        left_out = [pool[i] for i in pool if i not in subset.ids and pool[i] > 0]
        assert not left_out or max(pool[i] for i in subset.ids) <= min(left_out)


@given(POOLS, st.floats(0.05, 1.0), SEEDS)
def test_base_wrong_and_base_right_split_the_pool(pool, threshold, seed):
    wrong, right, matched = (
        select(pool, rule, seed, threshold=threshold)
        for rule in ("base_wrong", "base_right", "base_right_matched")
    )
    ids = [set(s.ids) if s else set() for s in (wrong, right)]
    assert ids[0] | ids[1] == set(pool) and not ids[0] & ids[1]
    assert all(pool[i] < threshold for i in ids[0])
    if matched:
        assert len(matched.ids) == len(wrong.ids) and set(matched.ids) <= ids[1]
    else:
        assert not ids[0] or len(ids[0]) > len(ids[1])


@given(POOLS, st.integers(0, 9), st.integers(1, 10), SEEDS)
def test_band_takes_every_pass_rate_between_its_bounds_and_band_matched_equally_many(
    pool, low, high, seed
):
    in_band = {i for i, rate in pool.items() if low <= round(10 * rate) <= high}
    # 0.1 * 3 is above 0.3: rounding must not exclude a rate that equals a bound
    bounds = {"low": 0.1 * low, "high": 0.1 * high}
    band, matched = (select(pool, rule, seed, **bounds) for rule in ("band", "band_matched"))
    assert (set(band.ids) if band else set()) == in_band
    if matched or in_band:
        assert len(set(matched.ids)) == len(in_band) and matched.tied == len(pool)


def test_a_budget_takes_from_the_band_the_rates_nearest_to_one_half_or_a_random_draw():
    rates = {f"p{n}": n / 20 for n in range(21)}
    choose = lambda rule, **keys: policies.select(rates, rule, 0, {"prompts": 5}, **keys)
    nearest = choose("band", low=0.45)
    assert sorted(map(rates.get, nearest.ids)) == [0.45, 0.5, 0.55, 0.6, 0.65]
    drawn = choose("band", low=0.45, order="random")
    assert len(drawn.ids) == 5 and drawn.tied == 8 and set(drawn.ids) != set(nearest.ids)
    assert all(0.45 <= rates[prompt] <= 0.8 for prompt in drawn.ids)
    assert len(choose("band_matched").ids) == 5 and choose("band_matched").tied == 21


@st.composite
def tiered_pools(draw):
    """A pool whose problems have tiers, some of them unknown."""
    pool = draw(POOLS)
    return pool, {i: draw(st.sampled_from([None, 1.0, 2.0, 3.0, 4.0])) for i in pool}


@given(tiered_pools(), st.sampled_from([1, 2.5, 3, 4]), SEEDS)
def test_low_tiers_takes_the_problems_up_to_a_tier_and_no_others(tiered, highest, seed):
    pool, tiers = tiered
    low = {i for i, tier in tiers.items() if tier is not None and tier <= highest}
    subset = select(pool, "low_tiers", seed, highest_tier=highest, tiers=tiers)
    if not low:
        assert subset is None
        return
    assert set(subset.ids) == low and len(subset.ids) == len(low)
    assert (subset.tied, subset.tied_chosen) == (0, 0), "low_tiers must not choose among ties"
    reseeded = policies.select(
        dict.fromkeys(pool, 0.5), "low_tiers", seed + 1, highest_tier=highest, tiers=tiers
    )
    assert set(reseeded.ids) == low, "the subset must depend on neither pass rates nor the seed"


@given(tiered_pools(), st.sampled_from([1, 2.5, 3, 4]), SEEDS)
def test_low_tiers_matched_depends_only_on_the_seed_and_on_the_size_of_low_tiers(
    tiered, highest, seed
):
    pool, tiers = tiered
    low, matched = (
        select(pool, rule, seed, highest_tier=highest, tiers=tiers)
        for rule in ("low_tiers", "low_tiers_matched")
    )
    assert (low is None) == (matched is None)
    if low is None:
        return
    assert len(matched.ids) == len(set(matched.ids)) == len(low.ids) and set(matched.ids) <= set(
        pool
    )
    assert (matched.tied, matched.tied_chosen) == (len(pool), len(low.ids)), (
        "the subset must be drawn from the whole pool"
    )
    assert matched == policies.select(
        pool, "low_tiers_matched", seed, highest_tier=highest, tiers=tiers
    )
    # `reversed_tiers` gives low tiers to other problems, but to equally many. The draw is the same:
    # for a given pool, it depends only on the seed and on the number of problems with low tiers.
    reversed_tiers = dict(zip(pool, reversed(list(tiers.values()))))
    swapped = policies.select(
        {i: 1 - rate for i, rate in pool.items()},
        "low_tiers_matched",
        seed,
        highest_tier=highest,
        tiers=reversed_tiers,
    )
    assert set(swapped.ids) == set(matched.ids)


@given(
    tiered_pools(),
    st.sampled_from(["hard", "easy", "random", "middle", "band", "low_tiers", "low_tiers_matched"]),
    st.floats(0.1, 0.5),
    SEEDS,
)
def test_a_subset_does_not_depend_on_the_order_of_the_pool(tiered, rule, budget, seed):
    pool, tiers = tiered
    keys = {"budget": budget, "highest_tier": 2, "tiers": tiers}
    backwards = dict(reversed(pool.items()))
    assert select(pool, rule, seed, **keys) == select(backwards, rule, seed, **keys)


@given(POOLS, BUDGETS, SEEDS)
def test_ties_at_the_boundary_are_counted(pool, budget, seed):
    subset = select(pool, "hard", seed, budget=budget)
    if subset is None:
        assert policies.subset_size(budget, len(pool)) == 0
        return
    edge = pool[subset.ids[-1]]
    at_edge = {i for i in pool if pool[i] == edge}
    if at_edge <= set(subset.ids):
        assert (subset.tied, subset.tied_chosen) == (0, 0)
    else:
        assert (subset.tied, subset.tied_chosen) == (len(at_edge), len(at_edge & set(subset.ids)))


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


def test_easy_and_middle_choose_the_expected_prompts_of_a_small_pool():
    pool = {"a": 0.0, "b": 0.0, "c": 0.2, "d": 0.5, "e": 0.8, "f": 1.0, "g": 1.0, "h": 1.0}
    easy = policies.select(pool, "easy", 0, budget=0.25)
    assert set(easy.ids) < {"f", "g", "h"} and (easy.tied, easy.tied_chosen) == (3, 2)
    # The median is 0.65, the quartiles are 0.15 and 1.0. d and e are 0.15 from the median; f, g
    # and h are 0.35 from the median.
    assert set(policies.select(pool, "middle", 0, budget=0.25).ids) == {"d", "e"}


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
    "rule", [name for name, rule in policies.RULES.items() if rule.needs == ("budget",)]
)
def test_rules_with_a_budget_refuse_too_few_measured_prompts(rule):
    """Prompts without a measure count towards the size of the pool, so a budget can exceed the
    number of prompts with a measure."""
    rates = {f"p{i}": 0.5 if i < 3 else None for i in range(10)}
    with pytest.raises(UserError, match="asks for 5 prompts, but only 3 qualify"):
        policies.select(rates, rule, 0, budget=0.5)
    assert len(policies.select(rates, rule, 0, budget=0.3).ids) == 3


def test_the_middle_takes_tied_prompts_from_both_sides_of_the_median():
    """The distances of 0.2 and 0.6 from the median 0.4 differ in the last bit."""
    rates = {f"low{n}": 0.2 for n in range(20)} | {f"high{n}": 0.6 for n in range(20)}
    rates |= {f"median{n}": 0.4 for n in range(5)}
    low_counts = []
    for seed in range(8):
        subset = policies.select(rates, "middle", seed, {"prompts": 15})
        assert (subset.tied, subset.tied_chosen) == (40, 10)
        low_counts.append(sum(prompt.startswith("low") for prompt in subset.ids))
    assert min(low_counts) > 0 and max(low_counts) < 10


def test_half_of_a_budget_pays_for_half_of_the_prompts_but_at_least_one():
    money = {"money": 5, "label_price": 2}
    assert policies.halve_budget(0.1) == 0.05
    halves = [policies.halve_budget({"prompts": number})["prompts"] for number in (1, 2, 5, 8)]
    assert halves == [1, 1, 2, 4]
    assert policies.halve_budget(money) == {"money": 2.5, "label_price": 2}
