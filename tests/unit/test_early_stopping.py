"""Probing that stops early gives exactly the subset of full probing, from fewer samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.selection.early_stopping import STOPPABLE_RULES, Scan
from in_process import run_program

THRESHOLD_RULES = [rule for rule in STOPPABLE_RULES if policies.RULES[rule].needs == ("threshold",)]
POLICIES = st.one_of(
    st.fixed_dictionaries({"rule": st.sampled_from(["hard", "easy"]), "budget": st.floats(0.05, 1.0)}),
    st.fixed_dictionaries({"rule": st.sampled_from(THRESHOLD_RULES), "threshold": st.sampled_from([0.1, 0.2, 0.25, 0.5, 0.9, 1.0])}),
)  # fmt: skip
SEEDS, BATCHES = st.integers(0, 5), st.sampled_from([1, 3, 16, 200])


@st.composite
def pools(draw, prompts=25, samples=6):
    """Outcomes (prompts, samples): right or not. Many prompts have equal pass rates."""
    count, samples = draw(st.integers(1, prompts)), draw(st.integers(1, samples))
    rates = draw(
        st.lists(
            st.sampled_from([0.0, 0.0, 0.1, 0.5, 0.9, 1.0, 1.0]), min_size=count, max_size=count
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rng.random((count, samples)) < np.array(rates)[:, None]


def names(outcomes) -> list[str]:
    return [f"p{i}" for i in range(len(outcomes))]


def full(outcomes, policy, seed) -> list[str] | str:
    """The subset of full probing, or the message if full probing chooses no subset."""
    rates = {name: int(row.sum()) / len(row) for name, row in zip(names(outcomes), outcomes)}
    try:
        return policies.select(rates, seed=seed, **policy).ids
    except UserError as error:
        return str(error)


def stopped(outcomes, policy, seed, batch=1) -> tuple[list[str] | str, np.ndarray | None]:
    """(the subset of a probe that stops early, the number of samples drawn of each prompt)."""
    try:
        scan = Scan(names(outcomes), outcomes.shape[1], policy, seed, batch)
        while asked := scan.ask():
            tell(scan, outcomes, asked)
        return scan.subset().ids, scan.drawn
    except UserError as error:
        return str(error), None


def tell(scan, outcomes, asked) -> None:
    for prompt, sample in asked:
        assert sample == scan.drawn[prompt], "the samples of a prompt must be drawn in order"
        scan.tell(prompt, int(outcomes[prompt, : sample + 1].sum()), sample + 1)


@given(outcomes=pools(), policy=POLICIES, seed=SEEDS, batch=BATCHES)
def test_the_subset_and_its_pass_rates_are_those_of_full_probing(outcomes, policy, seed, batch):
    chosen, drawn = stopped(outcomes, policy, seed, batch)
    assert chosen == full(outcomes, policy, seed)
    if drawn is not None:
        assert all(drawn[names(outcomes).index(name)] == outcomes.shape[1] for name in chosen)


@given(outcomes=pools(), policy=POLICIES, seed=SEEDS, batch=BATCHES, stop=st.integers(0, 5))
def test_a_probe_that_continues_from_counts_asks_for_the_same_samples(
    outcomes, policy, seed, batch, stop
):
    try:
        first = Scan(names(outcomes), outcomes.shape[1], policy, seed, batch)
        for _ in range(stop):
            tell(first, outcomes, first.ask())
        second = Scan(names(outcomes), outcomes.shape[1], policy, seed, batch)
        for prompt, (correct, drawn) in enumerate(zip(right(first), first.drawn)):
            second.tell(prompt, int(correct), int(drawn))
        assert first.ask() == second.ask()
    except UserError:
        assert isinstance(full(outcomes, policy, seed), str)


def right(scan) -> np.ndarray:
    return scan.drawn - scan.counts if scan.counts_wrong else scan.counts


@given(outcomes=pools(), budget=st.floats(0.05, 1.0), seed=SEEDS)
def test_a_prompt_that_is_certainly_not_chosen_is_sampled_no_further(outcomes, budget, seed):
    """A prompt that is not chosen has at most one right sample more than each chosen prompt may
    have."""
    chosen, drawn = stopped(outcomes, {"rule": "hard", "budget": budget}, seed)
    if drawn is None:
        return
    counts = dict(zip(names(outcomes), outcomes.sum(axis=1)))
    most = max(counts[name] for name in chosen)
    for prompt, name in enumerate(counts):
        assert name in chosen or outcomes[prompt, : drawn[prompt]].sum() <= most + 1


def simulated(prompts: int, samples: int, shape: float, seed: int):
    """A pool whose pass rates follow Beta(shape, shape)."""
    rng = np.random.default_rng(seed)
    return rng.random((prompts, samples)) < rng.beta(shape, shape, prompts)[:, None]


def test_a_pool_of_the_size_of_gsm8k_is_decided_by_a_fifth_of_the_samples():
    outcomes = simulated(7473, 5, 0.187, 0)
    assert (outcomes.sum(axis=1) == 0).mean() == pytest.approx(0.36, abs=0.01)
    policy = {"rule": "hard", "budget": 0.1}
    scan, batches = Scan(names(outcomes), 5, policy, 0, 256), 0
    while asked := scan.ask():
        tell(scan, outcomes, asked)
        batches += 1
    assert scan.subset().ids == full(outcomes, policy, 0)
    assert scan.drawn.sum() <= 0.2 * outcomes.size
    assert scan.drawn.sum() >= 0.8 * 256 * batches, "the batches are less than 80 % full on average"


@pytest.mark.parametrize("rule", sorted(set(policies.RULES) - set(STOPPABLE_RULES)))
def test_a_rule_that_needs_every_pass_rate_is_refused(rule):
    with pytest.raises(UserError, match=f"policy rule {rule} needs every pass rate"):
        Scan(["a", "b"], 5, {"rule": rule, "budget": 0.5}, 0)


@pytest.mark.parametrize("budget", [0.1, 0.5])
def test_a_budget_of_less_than_one_prompt_is_refused_before_anything_is_sampled(budget):
    with pytest.raises(
        UserError, match="policy rule hard: the subset would be empty .* raise the budget"
    ):
        Scan(["a"], 5, {"rule": "hard", "budget": budget}, 0)


def test_an_invalid_policy_is_refused_before_anything_is_read():
    options = {"model": "m", "problems": "P.jsonl", "prompt": "{question}", "samples": 1, "seed": 1}
    options |= {"completion_tokens": 9, "grader": "final_word", "output": "o"}
    with pytest.raises(UserError, match="^error: --stop-for: budget: "):
        run_program("probe", stop_for='{"rule": "hard", "budget": 2, "seed": 0}', **options)
