"""Intervals, the split of a gain, pass@k."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardgrpo import statistics

SHARES = st.floats(0, 1)


@given(SHARES, SHARES, SHARES, SHARES)
def test_finishing_and_correctness_add_up_to_the_gain(s0, a0, s1, a1):
    finishing, correctness = statistics.decompose(s0, s0 * a0, s1, s1 * a1)
    assert finishing + correctness == pytest.approx(s1 * a1 - s0 * a0, abs=1e-12)


@given(st.integers(1, 4), st.integers(2, 20), st.randoms(use_true_random=False))
def test_the_parts_by_problem_have_the_parts_as_means_and_add_up_to_the_gains(seeds, problems, random):
    rng = np.random.default_rng(random.randrange(2**32))
    base_answered, answered = rng.random(problems), rng.random((seeds, problems))
    base_correct, correct = base_answered * rng.random(problems), answered * rng.random((seeds, problems))
    finishing, correctness = statistics.decompose_by_problem(base_answered, base_correct, answered, correct)
    expected = statistics.decompose(base_answered.mean(), base_correct.mean(), answered.mean(), correct.mean())
    assert finishing.mean() == pytest.approx(expected[0], abs=1e-10)
    assert correctness.mean() == pytest.approx(expected[1], abs=1e-10)
    assert finishing + correctness == pytest.approx(correct - base_correct, abs=1e-10)


def test_the_split_of_a_recorded_gain():
    """Qwen3-14B on hard GSM8K, strict: 17.4 % answered and 6.6 % right before, 95.2 % and 69.2 % after: 68.5 % finishing."""
    finishing, correctness = statistics.decompose(69 / 396, 26 / 396, 377 / 396, 274 / 396)
    assert finishing / (finishing + correctness) == pytest.approx(0.685, abs=5e-4)


def test_pure_finishing_and_pure_correctness_are_told_apart():
    assert statistics.decompose(0.5, 0.4, 1.0, 0.8) == pytest.approx((0.4, 0.0))
    assert statistics.decompose(0.8, 0.4, 0.8, 0.6) == pytest.approx((0.0, 0.2))
    assert statistics.decompose(0.0, 0.0, 0.9, 0.6) == pytest.approx((0.6, 0.0))


def test_pass_at_k_is_the_share_of_draws_that_hold_a_right_one():
    for n in range(1, 7):
        for c in range(n + 1):
            for k in range(1, n + 1):
                draws = list(itertools.combinations([1] * c + [0] * (n - c), k))
                assert statistics.pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))


@given(st.integers(1, 40), st.data())
def test_pass_at_k_is_bounded_and_grows_with_k(n, data):
    c = data.draw(st.integers(0, n))
    values = [statistics.pass_at_k(n, c, k) for k in range(1, n + 1)]
    assert all(0 <= value <= 1 for value in values)
    assert all(a <= b + 1e-12 for a, b in zip(values, values[1:]))
    assert values[0] == pytest.approx(c / n)


@given(arrays(float, st.tuples(st.integers(1, 5), st.integers(2, 30)), elements=st.floats(-1, 1)))
def test_an_interval_holds_its_estimate_and_turns_with_the_sign(values):
    one, other = statistics.mean_interval(values), statistics.mean_interval(-values)
    assert one.low <= one.estimate + 1e-12 and one.estimate <= one.high + 1e-12
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-9)


def test_the_interval_by_hand():
    values = np.array([[0.0, 0.2, 0.4], [0.2, 0.4, 0.6], [0.1, 0.6, 0.5]])
    seed_means, problem_means = values.mean(axis=1), values.mean(axis=0)
    residuals = values - problem_means - seed_means[:, None] + values.mean()
    over_seeds = seed_means.var(ddof=1) / 3
    over_problems = problem_means.var(ddof=1) / 3
    interaction = (residuals**2).sum() / (2 * 2) / 9
    half = np.sqrt(4.302652729911275**2 * over_seeds + statistics.Z**2 * (over_problems - interaction))
    got = statistics.mean_interval(values)
    assert (got.high - got.low) / 2 == pytest.approx(half, rel=1e-9)


@pytest.mark.parametrize("seeds", [3, 5])
def test_intervals_of_gains_cover_with_few_seeds(seeds):
    """1,000 simulated studies: 120 problems of mixed difficulty, 4 samples, gains that vary by seed and problem."""
    rng = np.random.default_rng(7)
    problems, samples, replications, covered = 120, 4, 1000, 0
    for _ in range(replications):
        b = rng.beta(1.5, 1.0, problems)
        lift = rng.normal(0.05, 0.10, problems)
        base = rng.binomial(samples, b, problems) / samples
        p = np.clip(b + lift + rng.normal(0, 0.02, (seeds, 1)), 0, 1)
        values = rng.binomial(samples, p) / samples - base
        got = statistics.mean_interval(values)
        covered += got.low <= TRUE_GAIN <= got.high
    assert 0.93 <= covered / replications <= 0.995


def true_gain() -> float:
    rng = np.random.default_rng(1)
    b = rng.beta(1.5, 1.0, 1_000_000)
    return float((np.clip(b + rng.normal(0.05, 0.10, b.shape) + rng.normal(0, 0.02, b.shape), 0, 1) - b).mean())


TRUE_GAIN = true_gain()


def test_one_seed_gives_no_interval_for_new_seeds():
    values = np.random.default_rng(0).random((1, 50))
    got = statistics.mean_interval(values)
    assert (got.high - got.low) / 2 == pytest.approx(statistics.Z * values.std(ddof=1) / np.sqrt(50)), "over problems only"
    assert np.isnan(statistics.seeds_interval(np.array([0.4])).low)


def test_r_squared():
    x = np.arange(8.0)
    assert statistics.r_squared(x, 3 - 2 * x).estimate == pytest.approx(1)
    noisy = statistics.r_squared(x, np.array([0, 3, 1, 2, 5, 3, 7, 5.0]))
    assert 0 < noisy.low < noisy.estimate < noisy.high < 1
    assert np.isnan(statistics.r_squared(x, np.ones(8)).estimate)
