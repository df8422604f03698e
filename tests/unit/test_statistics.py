"""Intervals, the split of a gain, pass@k, tests, detectable differences and regressions."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from statsmodels.stats import multitest

from hardgrpo.analysis import statistics

SHARES = st.floats(0, 1)


@given(SHARES, SHARES, SHARES, SHARES)
def test_finishing_and_correctness_add_up_to_the_gain(s0, a0, s1, a1):
    finishing, correctness = statistics.decompose(s0, s0 * a0, s1, s1 * a1)
    assert finishing + correctness == pytest.approx(s1 * a1 - s0 * a0, abs=1e-12)


@given(st.integers(1, 4), st.integers(2, 20), st.randoms(use_true_random=False))
def test_the_parts_of_each_problem_add_up_to_its_gain_and_average_to_the_parts_of_the_gain(
    seeds, problems, random
):
    rng = np.random.default_rng(random.randrange(2**32))
    base_answered, answered = rng.random(problems), rng.random((seeds, problems))
    base_correct, correct = (
        base_answered * rng.random(problems),
        answered * rng.random((seeds, problems)),
    )
    finishing, correctness = statistics.decompose_by_problem(
        base_answered, base_correct, answered, correct
    )
    expected = statistics.decompose(
        base_answered.mean(), base_correct.mean(), answered.mean(), correct.mean()
    )
    assert finishing.mean() == pytest.approx(expected[0], abs=1e-10)
    assert correctness.mean() == pytest.approx(expected[1], abs=1e-10)
    assert finishing + correctness == pytest.approx(correct - base_correct, abs=1e-10)


def test_the_split_of_a_gain_by_hand():
    # Qwen3-14B on hard GSM8K, strict grading: 68.5 % of the gain is finishing
    finishing, correctness = statistics.decompose(69 / 396, 26 / 396, 377 / 396, 274 / 396)
    assert finishing / (finishing + correctness) == pytest.approx(0.685, abs=5e-4)
    assert statistics.decompose(0.5, 0.4, 1.0, 0.8) == pytest.approx((0.4, 0.0))
    assert statistics.decompose(0.8, 0.4, 0.8, 0.6) == pytest.approx((0.0, 0.2))
    assert statistics.decompose(0.0, 0.0, 0.9, 0.6) == pytest.approx((0.6, 0.0))


def simulate_rates(rng, seeds: int, problems: int, samples: int = 4) -> list[np.ndarray]:
    """The four rates of `decompose_by_problem`, of new problems and new seeds. Training changes the
    shares answered and the accuracies of answered completions, so that every term of the parts
    contributes to their intervals. Each seed multiplies both by its own factor."""
    by_seed = lambda shares: shares * rng.uniform(*SEED_FACTOR, (seeds, 1))
    answered_before = rng.binomial(samples, rng.beta(2, 3, problems))
    answered = rng.binomial(samples, by_seed(rng.beta(6, 2, problems)))
    correct_before = rng.binomial(answered_before, rng.beta(3, 4, problems))
    correct = rng.binomial(answered, by_seed(rng.beta(3, 2, problems)))
    return [counts / samples for counts in (answered_before, correct_before, answered, correct)]


SEED_FACTOR = (0.9, 1.0)


def test_the_intervals_of_the_parts_have_the_width_of_a_bootstrap_over_problems():
    rng = np.random.default_rng(3)
    rates = [np.atleast_2d(rate) for rate in simulate_rates(rng, seeds=1, problems=400)]
    samples = rng.integers(0, 400, (2000, 400))
    means = np.transpose([rate[0][samples].mean(axis=1) for rate in rates])
    bootstrapped = np.array([statistics.decompose(*row) for row in means])
    for number, part in enumerate(statistics.decompose_by_problem(*rates)):
        interval = statistics.mean_interval(part)
        expected = stats.t.ppf(0.975, 399) * bootstrapped[:, number].std(ddof=1)
        assert (interval.high - interval.low) / 2 == pytest.approx(expected, rel=0.06)


def test_pass_at_k_is_the_share_of_draws_with_a_right_sample():
    for n in range(1, 7):
        for c in range(n + 1):
            for k in range(1, n + 1):
                draws = list(itertools.combinations([1] * c + [0] * (n - c), k))
                assert statistics.pass_at_k(n, c, k) == pytest.approx(
                    sum(map(any, draws)) / len(draws)
                )


@given(arrays(float, st.tuples(st.integers(1, 5), st.integers(2, 30)), elements=st.floats(-1, 1)))
def test_an_interval_contains_its_estimate_and_is_mirrored_if_all_values_change_sign(values):
    interval, negated = statistics.mean_interval(values), statistics.mean_interval(-values)
    assert interval.low <= interval.estimate + 1e-12 and interval.estimate <= interval.high + 1e-12
    assert (interval.low, interval.high) == pytest.approx((-negated.high, -negated.low), abs=1e-9)


def test_the_interval_by_hand():
    values = np.array([[0.0, 0.2, 0.4], [0.2, 0.4, 0.6], [0.1, 0.6, 0.5]])
    seed_means, problem_means = values.mean(axis=1), values.mean(axis=0)
    residuals = values - problem_means - seed_means[:, None] + values.mean()
    over_seeds = seed_means.var(ddof=1) / 3
    over_problems = problem_means.var(ddof=1) / 3
    interaction = (residuals**2).sum() / (2 * 2) / 9
    half = np.sqrt(
        4.302652729911275**2 * over_seeds + 4.302652729911275**2 * (over_problems - interaction)
    )
    interval = statistics.mean_interval(values)
    assert (interval.high - interval.low) / 2 == pytest.approx(half, rel=1e-9)


@pytest.mark.parametrize("seeds", [3, 10])
def test_intervals_cover_and_tests_keep_their_level_in_simulated_studies(seeds):
    """1,000 simulated studies of four policies with the same true mean, 60 problems and 4 samples.
    A value is the sum of random effects of seed and problem, of noise that all seeds share, and of
    noise of its own."""
    rng = np.random.default_rng(seeds)
    studies, policies, problems, samples = 1000, 4, 60, 4
    values = (
        rng.normal(0, 0.1, (studies, policies, 1, problems, 1))
        + rng.normal(0, 0.03, (studies, policies, seeds, 1, 1))
        + rng.normal(0, 0.3, (studies, policies, 1, problems, samples))
        + rng.normal(0, 0.3, (studies, policies, seeds, problems, samples))
    )
    gain = statistics.components(values[:, 0].mean(axis=-1))
    assert 0.93 <= np.mean(abs(gain.estimate) <= statistics.half_width(gain)) <= 0.98

    pairs = list(itertools.combinations(range(policies), 2))
    leads = np.stack([values[:, one] - values[:, other] for one, other in pairs], axis=1)
    p = statistics.p_value(statistics.components(leads.mean(axis=-1)))
    corrected = np.array([statistics.holm(study) for study in p])
    # 5 %, with a tolerance for the sampling noise of a share of 1,000 studies
    within = 0.05 + 2.58 * np.sqrt(0.05 * 0.95 / studies)
    assert np.mean(p[:, 0] < 0.05) <= within
    assert np.mean(corrected.min(axis=1) < 0.05) <= within < np.mean(p.min(axis=1) < 0.05)


@given(
    arrays(
        float,
        st.tuples(st.integers(1, 5), st.integers(2, 30)),
        elements=st.integers(-4, 4).map(lambda x: x / 4),
    )
)
def test_p_is_below_5_per_cent_if_and_only_if_the_interval_excludes_zero(values):
    components, interval = statistics.components(values), statistics.mean_interval(values)
    p = statistics.p_value(components)
    assert 0 <= p <= 1
    if abs(abs(interval.estimate) - (interval.high - interval.estimate)) > 1e-9:
        assert (p < 0.05) == (not interval.low <= 0 <= interval.high)


def test_p_values_equal_those_of_t_tests():
    # only seeds vary: p is that of a t test over seed means
    values = np.array([[0.1, 0.1], [0.2, 0.2], [0.6, 0.6]])
    assert statistics.p_value(statistics.components(values)) == pytest.approx(
        stats.ttest_1samp([0.1, 0.2, 0.6], 0).pvalue
    )
    # with one seed, p is that of a t test over problems
    one_seed = np.array([[0.1, 0.3, 0.8, 0.2]])
    assert statistics.p_value(statistics.components(one_seed)) == pytest.approx(
        stats.ttest_1samp(one_seed[0], 0).pvalue
    )
    assert statistics.p_value(statistics.components(np.zeros((3, 4)))) == 1
    assert statistics.p_value(statistics.components(np.full((3, 4), 0.5))) == 0
    assert np.isnan(statistics.p_value(statistics.components(np.ones((3, 1)))))


def test_the_components_of_many_studies_equal_those_of_each_study():
    values = np.random.default_rng(3).random((4, 2, 3, 7))
    many = statistics.components(values)
    for i, j in itertools.product(range(4), range(2)):
        components = statistics.components(values[i, j])
        assert (many.over_seeds[i, j], many.over_problems[i, j]) == pytest.approx(
            (components.over_seeds, components.over_problems)
        )
    assert statistics.p_value(many)[1, 1] == pytest.approx(
        statistics.p_value(statistics.components(values[1, 1]))
    )


def test_holm_and_mcnemar_by_hand():
    assert statistics.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert statistics.holm([0.02, np.nan, 0.6])[[0, 2]] == pytest.approx([0.04, 0.6]) and np.isnan(
        statistics.holm([np.nan])[0]
    )
    grades, other_grades = np.array([1, 1, 1, 1, 0, 1, 0]), np.array([0, 0, 0, 0, 1, 1, 0])
    assert statistics.mcnemar(grades, other_grades) == (4, 1, pytest.approx(2 * 6 / 32)), (
        "p is twice the probability that at most 1 of 5 coin tosses is heads, (1 + 5)/32"
    )
    assert statistics.mcnemar(grades, grades) == (0, 0, 1.0)


@pytest.mark.slow  # statsmodels takes 0.2 s a call
@settings(max_examples=10)
@given(
    arrays(
        float, st.integers(0, 12), elements=st.floats(0, 1) | st.sampled_from([0.01, 0.5, np.nan])
    )
)
def test_holm_p_values_equal_those_of_statsmodels(p_values):
    has_p = ~np.isnan(p_values)
    expected = multitest.multipletests(p_values[has_p], method="holm")[1] if has_p.any() else []
    corrected = statistics.holm(p_values)
    assert corrected[has_p].tolist() == list(expected) and np.isnan(corrected[~has_p]).all()


def test_pooled_variance_over_seeds_by_hand():
    # two policies, two seeds
    values = np.array([[0.1, 0.3], [0.2, 0.6]])[..., None].repeat(5, axis=-1)
    assert statistics.pooled_over_seeds(values, differences=False) == (
        pytest.approx((0.02 + 0.08) / 2 / 2),
        2,
    )
    over_seeds, df = statistics.pooled_over_seeds(values, differences=True)
    assert (over_seeds, df) == (
        pytest.approx(statistics.components(values[0] - values[1]).over_seeds),
        1,
    ), "with two policies, the pooled variance is that of their difference"


def test_the_smallest_detectable_difference_is_detected_in_four_of_five_studies():
    """The factors are those of the non-central t distribution. The power is 80 % both if only seeds
    vary and if only problems vary."""
    assert [round(statistics.detectable_factor(seeds), 2) for seeds in (3, 5, 10)] == [
        5.65,
        3.76,
        3.15,
    ]
    rng = np.random.default_rng(9)
    effect = statistics.smallest_detectable(0.04**2 / 3, 0.0, 3)
    differences = rng.normal(effect, 0.04, (20_000, 3, 1)) + np.zeros(5)
    assert (statistics.p_value(statistics.components(differences)) < 0.05).mean() == pytest.approx(
        0.8, abs=0.015
    )
    effect = statistics.smallest_detectable(0.0, 0.3**2 / 200, 3)
    differences = rng.normal(effect, 0.3, (3000, 1, 200)).repeat(3, axis=1)
    assert (statistics.p_value(statistics.components(differences)) < 0.05).mean() == pytest.approx(
        0.8, abs=0.03
    )
    assert statistics.smallest_detectable(np.nan, 0.01, 1) == pytest.approx(0.28, abs=0.001), (
        "with one seed, only the variance over problems counts"
    )


def test_detectable_factors_for_several_comparisons():
    """The factors are compared with SciPy's non-central t distribution for arguments at which SciPy
    is accurate."""
    for seeds, comparisons in ((5, 2), (10, 2), (10, 6), (30, 6)):
        factor, level = statistics.detectable_factor(seeds, comparisons), 0.05 / comparisons
        reach = stats.t.isf(level / 2, seeds - 1)
        assert stats.nct.sf(reach, seeds - 1, factor) + stats.nct.cdf(
            -reach, seeds - 1, factor
        ) == pytest.approx(0.8, abs=1e-3)
    assert np.isfinite(statistics.detectable_factor(2, 36))


def test_intervals_of_contrasts_of_two_groups_of_problems_have_about_their_nominal_coverage():
    """1,000 simulated studies of 4 seeds. Two tiers, of 40 and of 25 problems, have the same random
    effects of seeds and no problem in common."""
    rng = np.random.default_rng(11)
    luck, covered, narrow = rng.normal(0, 0.05, (1000, 4, 1)), 0, 0
    for seeds in luck:
        easy, hard = (
            mean + seeds + rng.normal(0, 0.2, (1, n)) + rng.normal(0, 0.1, (4, n))
            for mean, n in ((0.1, 40), (0.3, 25))
        )
        interval = statistics.contrast_interval(easy, hard)
        covered += interval.low <= -0.2 <= interval.high
        narrow += interval.high - interval.low < np.hypot(
            *(i.high - i.low for i in map(statistics.mean_interval, (easy, hard)))
        )
    assert 0.93 <= covered / 1000 <= 0.985 and narrow > 950
    one_seed = statistics.contrast_interval(easy[:1], hard[:1])
    halves = [(i.high - i.low) / 2 for i in map(statistics.mean_interval, (easy[:1], hard[:1]))]
    assert (one_seed.high - one_seed.low) / 2 == pytest.approx(np.hypot(*halves))
    assert np.isnan(statistics.contrast_interval(easy, hard[:, :1]).low), (
        "a tier with one problem must give no interval for new problems"
    )


def test_regression_on_two_predictors_by_hand():
    x = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 1], [1, 3.0]])
    noise = np.array([0.1, -0.1, 0.05, 0.0, -0.1, 0.05])
    y = 1 + 2 * x[:, 0] - 3 * x[:, 1] + noise
    by_hand = np.linalg.lstsq(np.column_stack([np.ones(6), x]), y, rcond=None)[0]
    slopes = [slope for slope, _ in statistics.coefficients(x, y)]
    assert [s.estimate for s in slopes] == pytest.approx(by_hand[1:])
    assert all(s.low < s.estimate < s.high for s in slopes)
    joint = statistics.joint_r_squared(x, y)
    alone = statistics.r_squared(x[:, 1], y).estimate
    partial = statistics.partial_r_squared(y, x[:, 0], x[:, 1])
    assert 1 - joint == pytest.approx((1 - alone) * (1 - partial)), (
        "the joint R^2 is that of x[:, 1] plus the part of the remainder that x[:, 0] explains"
    )
    flat = statistics.coefficients(np.ones((6, 2)), y)
    assert all(np.isnan(slope.estimate) for slope, _ in flat) and np.isnan(
        statistics.joint_r_squared(x[:3], y[:3])
    )


def test_one_seed_gives_no_interval_for_new_seeds():
    assert np.isnan(statistics.seeds_interval(np.array([0.4])).low)


def test_r_squared():
    x = np.arange(8.0)
    assert statistics.r_squared(x, 3 - 2 * x).estimate == pytest.approx(1)
    noisy = statistics.r_squared(x, np.array([0, 3, 1, 2, 5, 3, 7, 5.0]))
    assert 0 < noisy.low < noisy.estimate < noisy.high < 1
    assert np.isnan(statistics.r_squared(x, np.ones(8)).estimate)
