"""Each selector draws prompts as its docstring in `online_selectors.py` describes. The prompts are
simulated: their pass rates are known. The seeds are fixed."""

import json
import random
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from hardgrpo.online import online_selectors
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import selector as selectors

GROUP, ROOM = 8, 8


def recipe(kind: str, steps: int = 40, **keys) -> dict:
    selector = {"kind": kind} | keys
    return {"updates": steps, "prompts_per_update": ROOM, "group_size": GROUP, "selector": selector}


def pool(rates: list[float], **facts) -> online_selectors.Pool:
    return online_selectors.Pool([f"p{i:04d}" for i in range(len(rates))], **facts)


def sample_share(rate: float, rng: random.Random) -> float:
    return sum(rng.random() < rate for _ in range(GROUP)) / GROUP


def simulate(
    selector, rates=None, steps=40, rng=None, first=1
) -> list[online_selectors.PromptBatch]:
    """The batches that a selector draws in `steps` steps. Prompt number i of the pool has pass rate
    `rates[i]`. The selector's `calls` are those of `replay`."""
    rates, rng, batches = rates or SPREAD, rng or random.Random(0), []
    selector.calls = getattr(selector, "calls", [])
    for step in range(first, first + steps):
        room = ROOM
        while room:
            batch = selector.ask(step, room)
            assert 0 < len(batch.ids) <= room
            shares = [sample_share(rates[int(i[1:])], rng) for i in batch.ids]
            selector.tell(step, batch, shares)
            selector.calls.append((step, room, shares))
            batches.append(batch)
            room -= len(batch.ids)
    return batches


def rates_of(batches: list[online_selectors.PromptBatch], rates: list[float]) -> np.ndarray:
    return np.array([rates[int(i[1:])] for call in batches for i in call.ids if call.trains])


SPREAD = [i / 199 for i in range(200)]


def make_embeddings(rates: list[float]) -> np.ndarray:
    """Embeddings in which four columns depend on the difficulty, and equally many are noise."""
    noise = np.random.Generator(np.random.PCG64(5)).normal(size=(len(rates), 4))
    signals = [np.array(rates) ** power for power in (0.5, 1, 2, 3)]
    return online_selectors.standardise(np.column_stack([*signals, noise]))


def make_selector(kind: str, rates=SPREAD, seed: int = 0, steps: int = 40, **keys):
    facts = {}
    if kind == "targeted":
        facts["embeddings"] = make_embeddings(rates)
        keys = {"reference": 12, "every": 6, "sharpness": 0.05} | keys
    if kind == "curriculum":
        facts["measures"] = dict(zip(pool(rates).ids, rates))
        keys = {"by": "pass_rate"} | keys
    return online_selectors.make(recipe(kind, steps, **keys), pool(rates, **facts), seed)


@pytest.mark.parametrize("kind", online_selectors.KINDS)
def test_a_restored_selector_continues_like_an_uninterrupted_selector(kind):
    restored, undisturbed = make_selector(kind), make_selector(kind)
    rng, step = random.Random(1), 1
    for steps in (3, 5, 7, 15):
        simulate(restored, steps=steps, rng=rng, first=step)
        # the calls pass through JSON, as in a checkpoint
        calls, step, restored = (
            json.loads(json.dumps(restored.calls)),
            step + steps,
            make_selector(kind),
        )
        online_selectors.replay(restored, calls)
        restored.calls = calls
    simulate(undisturbed, steps=30, rng=random.Random(1))
    assert restored.ask(31, ROOM) == undisturbed.ask(31, ROOM)


@pytest.mark.parametrize("kind", online_selectors.KINDS)
def test_the_seed_decides_what_is_drawn(kind):
    batches, repeated_batches, reseeded_batches = (
        simulate(make_selector(kind, seed=seed), steps=5) for seed in (1, 1, 2)
    )
    assert batches == repeated_batches
    # a curriculum sorts by pass rates, which have no ties here
    assert batches != reseeded_batches or kind == "curriculum"


def test_dynamic_sampling_goes_through_the_pool_in_shuffled_epochs():
    ids = [i for call in simulate(make_selector("dynamic"), steps=75) for i in call.ids]
    epochs = [ids[start : start + 200] for start in range(0, 600, 200)]
    assert all(sorted(epoch) == pool(SPREAD).ids for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_beta_draws_prompts_near_one_half_after_it_has_seen_the_pool():
    drawn = simulate(make_selector("beta"), steps=150)
    first_rates, last_rates = rates_of(drawn[:20], SPREAD), rates_of(drawn[-50:], SPREAD)
    spread = np.abs(np.array(SPREAD) - 0.5).mean()  # 0.25, the mean distance of a random draw
    assert abs(np.abs(first_rates - 0.5).mean() - spread) < 0.05
    assert np.abs(last_rates - 0.5).mean() < 0.6 * spread


def test_beta_keeps_the_posterior_of_its_paper():
    """The posterior starts at Beta(1, 1). Before each of two groups, with 6 and 2 right rollouts of
    8, it moves half of the way back: .5 + .5 + 6 = 7, .5 * 7 + .5 + 2 = 6; likewise 3 and 8."""
    selector = make_selector("beta")
    for share in (6 / 8, 2 / 8):
        selector.tell(1, online_selectors.PromptBatch(["p0003"]), [share])
    assert (selector.a[3], selector.b[3]) == (6.0, 8.0)


def test_skip_takes_every_prompt_that_it_has_not_seen():
    selector = make_selector("skip", explore=0.01, least=0.01)
    batch = selector.ask(1, len(SPREAD))
    assert sorted(batch.ids) == sorted(pool(SPREAD).ids)


def test_skip_samples_with_the_probability_of_its_paper():
    """A prompt whose last z groups had only right rollouts is sampled with probability
    max(p^z, least), where p starts at `explore`."""
    selector = make_selector("skip", [1.0] * 4000, explore=0.5, step=0.0, least=0.01)
    ids = pool([1.0] * 4000).ids
    for times, expected in ((1, 0.5), (2, 0.25), (9, 0.01)):
        selector.streaks = {i: ["right", times] for i in ids}
        before = selector.epochs.position
        count = sum(len(selector.ask(step, ROOM).ids) for step in range(1, 41))
        share = count / (selector.epochs.position - before)
        assert abs(share - expected) < 4 * (expected * (1 - expected) / (count / expected)) ** 0.5


def test_skip_adapts_its_probabilities_to_the_shares_of_groups_with_equal_rewards():
    selector = make_selector("skip", step=0.05)
    ids = pool(SPREAD).ids[:ROOM]
    selector.epochs.position = len(SPREAD)
    selector.tell(1, online_selectors.PromptBatch(ids), [1.0] * 4 + [0.5] * 4)
    assert selector.explore == {"right": 0.5, "wrong": 0.5}, (
        "the probabilities must not change in the first epoch, in which no prompt is skipped"
    )
    selector.streaks, selector.epochs.position = {}, len(SPREAD) + 1
    # half of the groups have only right rollouts, no group has only wrong rollouts
    selector.tell(1, online_selectors.PromptBatch(ids), [1.0] * 4 + [0.5] * 4)
    assert selector.explore == pytest.approx({"right": 0.45, "wrong": 0.55})
    assert selector.streaks == {i: ["right", 1] for i in ids[:4]}
    # a group with only wrong rollouts after groups with only right rollouts starts a new count,
    # and a mixed group ends the count
    selector.tell(2, online_selectors.PromptBatch(ids[:2]), [0.0, 0.5])
    assert selector.streaks == {ids[0]: ["wrong", 1]} | {i: ["right", 1] for i in ids[2:4]}


def test_skip_moves_its_probabilities_within_the_limits_of_the_released_code():
    rates = [1.0] * 8 + [0.0] * 8
    selector = make_selector("skip", rates)
    simulate(selector, rates, 100)
    assert selector.explore == {"right": 0.05, "wrong": 0.05}
    for step in range(200):
        selector.tell(step, online_selectors.PromptBatch(["p0000"] * ROOM), [0.5] * ROOM)
    assert selector.explore == {"right": 0.95, "wrong": 0.95}


def test_targeted_measures_anchor_prompts_first_and_then_draws_near_one_half():
    drawn = simulate(make_selector("targeted"), steps=60)
    anchor_batches = [call for call in drawn if not call.trains]
    # 60 steps, with 12 anchor prompts every 6 steps
    assert sum(len(call.ids) for call in anchor_batches) == 10 * 12
    # a random draw would have a mean distance of 0.25 from 1/2
    assert np.abs(rates_of(drawn, SPREAD) - 0.5).mean() < 0.7 * 0.25


def test_targeted_draws_with_the_weights_of_its_paper():
    """The weights are exp(-|predicted - 1/2| / sharpness). The first prompt of each draw follows
    the weights exactly."""
    selector = make_selector("targeted", [0.0, 0.25, 0.5], reference=2, sharpness=0.25)
    selector.anchor_prompts, selector.shares = [0, 1], [0.0, 0.25]
    selector.predicted = np.array([0.0, 0.25, 0.5])
    count = np.zeros(3)
    for step in range(2, 3002):
        count[int(selector.ask(step, 1).ids[0][1:])] += 1
    expected = np.exp(-np.abs(selector.predicted - 0.5) / 0.25)
    assert np.allclose(
        count / count.sum(), expected / expected.sum(), atol=4 * (0.25 / 3000) ** 0.5
    )


def test_attention_is_the_softmax_of_scaled_products():
    embeddings = np.random.Generator(np.random.PCG64(2)).normal(size=(6, 16))
    shares, scores = np.array([0.0, 0.5, 1.0]), embeddings @ embeddings[:3].T / 16**0.5
    assert online_selectors.attend(scores, shares) == pytest.approx(
        softmax(scores, axis=1) @ shares
    )


def test_standardised_embeddings_have_the_paper_s_scores_as_products():
    raw = np.random.Generator(np.random.PCG64(3)).normal(3, 7, size=(50, 16))
    scaled = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    standardised = online_selectors.standardise(raw)
    assert np.allclose(standardised @ standardised.T, scaled @ scaled.T / 16**0.5)
    # a constant column must not cause a division by zero
    assert np.isfinite(online_selectors.standardise(np.ones((5, 3)))).all()


@given(
    st.lists(st.sampled_from([i / 8 for i in range(9)]), min_size=2, max_size=20), st.integers(0, 5)
)
def test_predictions_are_between_0_and_1_for_all_pass_rates_of_the_anchor_prompts(shares, seed):
    rng = np.random.Generator(np.random.PCG64(seed))
    predictions = online_selectors.predict_pass_rates(
        online_selectors.standardise(rng.normal(size=(30, 4))),
        np.arange(len(shares)),
        np.array(shares),
    )
    assert ((predictions >= 0) & (predictions <= 1)).all()
    if len(set(shares)) == 1:
        assert np.allclose(predictions, shares[0])


def test_uninformative_embeddings_do_not_reverse_predictions():
    """With uninformative embeddings, the prediction of an anchor prompt from the others is their mean
    pass rate. The higher the prompt's own pass rate, the lower this mean, so a fit to these means
    would reverse the predictions."""
    shares = np.array([0.0, 0.25, 0.5, 0.75, 1.0, 0.25, 0.75, 0.5])
    of_others = (shares.sum() - shares) / (len(shares) - 1)
    predictions = np.array([0.3, 0.5, 0.7])
    assert online_selectors.calibrate(predictions, of_others, shares) == pytest.approx([0.5] * 3)
    assert (np.diff(online_selectors.calibrate(predictions, shares, shares)) > 0).all()


@pytest.mark.parametrize(
    "chosen",
    [
        {"reference": 12, "every": 2, "replay": 4},
        {"reference": 16, "every": 6},
        {"reference": 3, "every": 2},
    ],
)
def test_the_trained_share_equals_the_share_of_groups_in_updates(chosen):
    keys = chosen | {"kind": "targeted", "buffer": 8}
    selector = make_selector("targeted", steps=60, **chosen)
    drawn = simulate(selector, steps=60)
    trains = sum(len(call.ids) for call in drawn if call.trains)
    new_groups = selectors.new_groups_per_step(recipe(**keys))
    updates = sum(groups > 0 for groups in new_groups) * 60 // chosen["every"]
    share = (trains + updates * chosen.get("replay", 0)) / (60 * ROOM)
    assert selectors.trained_share(recipe(**keys)) == pytest.approx(share)


@pytest.mark.parametrize("size", [8, 20, 50, 100, 400, 500])
def test_a_curriculum_samples_both_ends_of_the_pool_equally_often(size):
    rates = [i / size for i in range(size)]
    batches = simulate(make_selector("curriculum", rates, steps=50), rates, 50)
    drawn = [prompt for batch in batches for prompt in batch.ids]
    times = [drawn.count(i) for i in pool(rates).ids]
    assert abs(times[0] - times[-1]) <= max(1, round(50 * ROOM / size) / 4)
    assert min(times) >= (1 if size <= 400 else 0)


@pytest.mark.parametrize(("order", "sign"), [("easy_first", -1), ("hard_first", 1)])
def test_a_curriculum_goes_once_through_the_sorted_pool(order, sign):
    drawn = simulate(make_selector("curriculum", order=order))
    means = [np.mean(rates_of([call], SPREAD)) for call in drawn]
    assert all(sign * (later - earlier) >= 0 for earlier, later in zip(means, means[1:]))
    assert sorted({means[0], means[-1]}) == pytest.approx(
        [np.mean(SPREAD[:8]), np.mean(SPREAD[-8:])], abs=0.02
    )
    assert len({i for call in drawn for i in call.ids}) > 190


def test_a_curriculum_by_tier_takes_low_tiers_as_easy():
    ids = [f"p{i:04d}" for i in range(100)]
    tiers = {i: int(i[1:]) % 4 + 1 for i in ids}
    selector = online_selectors.make(recipe("curriculum", 10), online_selectors.Pool(ids, tiers), 0)
    mean_tiers = [np.mean([tiers[i] for i in selector.ask(step, ROOM).ids]) for step in (1, 5, 10)]
    assert mean_tiers[0] == 1 and 1 < mean_tiers[1] < 4 and mean_tiers[2] == 4


@pytest.mark.parametrize("kind", [kind for kind in online_selectors.KINDS if kind != "targeted"])
def test_a_pool_smaller_than_a_step_is_repeated(kind):
    drawn = simulate(make_selector(kind, [0.2, 0.5, 0.8]), [0.2, 0.5, 0.8], 4)
    assert sum(len(call.ids) for call in drawn) == 4 * ROOM


def test_more_anchor_prompts_than_prompts_are_refused_in_one_line():
    with pytest.raises(
        UserError, match=r"selector\.reference is 12, but the pool has 5 prompts; lower reference"
    ):
        make_selector("targeted", [0.5] * 5)


def test_defaults_equal_those_of_the_papers():
    dynamic = {"kind": "dynamic", "groups": ROOM, "most_steps": 10}
    assert selectors.with_defaults(recipe("dynamic")) == dynamic
    assert selectors.with_defaults(recipe("targeted"))["reference"] == 256
    assert selectors.with_defaults(recipe("skip", groups=5))["groups"] == 5


def test_a_curriculum_sorts_tiers_of_a_table_as_numbers():
    """Cells of a table are texts, and the text "10" sorts before "9"."""
    from hardgrpo.online.online_trainer import curriculum_measures

    spec, ids = SimpleNamespace(problems="P.jsonl"), ["a", "b", "c"]
    problems = {name: {"tier": tier} for name, tier in zip(ids, ("9", "10", 2))}
    assert curriculum_measures(spec, problems, ids, "tier") == {"a": 9.0, "b": 10.0, "c": 2.0}
    for tier in ("easy", [1], "", None):
        with pytest.raises(UserError, match=r"P\.jsonl: prompt 'b' has the tier .* sorts numbers"):
            curriculum_measures(spec, problems | {"b": {"tier": tier}}, ids, "tier")
