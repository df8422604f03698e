"""The online trainer: the groups that it trains on, its counts of rollouts, and PRIME's token
rewards, which are compared with calculations by hand."""

from types import SimpleNamespace

import pytest
import torch
from test_trainer import Training, long, rows, same, tiny

from fake_vllm import StandIn
from hardgrpo.online import online_selectors, rollout_groups
from hardgrpo.online.online_trainer import OnlineTrainer
from hardgrpo.online.process_rewards import ProcessRewards, token_advantages
from hardgrpo.runtime.errors import UserError
from hardgrpo.training.trainer import Trainer

pytestmark = pytest.mark.slow
__all__ = ["tiny"]  # a fixture of test_trainer

PROCESS = {"weight": 1.0, "beta": 0.05, "learning_rate": 1e-2, "max_grad_norm": 1.0}


@pytest.fixture
def training(tiny, tmp_path):
    """A function that runs a short training by the online trainer, with four prompts and four
    rollouts of each in a sampling step."""

    def train(reward=long, updates=3, selector=None, process=None, micro_batch=None, **changes):
        recipe = {"updates": updates, "prompts_per_update": 4, "group_size": 4, "process": process}
        # Only the selector `targeted`, which needs embeddings, can be configured with replay.
        selector, replay, online_selector = dict(selector or {}), {}, None
        if "replay" in selector:
            replay = {key: selector.pop(key) for key in ("replay", "buffer")}
        if selector:
            recipe |= {"selector": selector}
            online_selector = online_selectors.make(recipe, online_selectors.Pool(list(rows())), 3)
            targeted = {"kind": "targeted", "reference": 4} if replay else {}
            changes["selector"] = selector | replay | targeted

        def kind(**arguments) -> OnlineTrainer:
            options = {"rows": rows(), "selector": online_selector, "recipe": recipe}
            trainer = OnlineTrainer(**arguments, **options)
            trainer.settings |= replay
            trainer.is_off_policy = bool(replay.get("replay"))
            return trainer

        return Training(kind, tiny, tmp_path, reward, micro_batch, updates, **changes)

    return train


def never(completions, **_):
    return [0.0] * len(completions)


def in_the_second_step(completions, trainer_state, **_):
    return [reward * (trainer_state.global_step == 1) for reward in long(completions)]


def total(run: Training, name: str) -> float:
    return sum(entry[name] for entry in run.log)


ADAPTER = {"rank": 4, "alpha": 8, "dropout": 0.0}


@pytest.mark.parametrize(
    "changes",
    [{}, {"adapter": ADAPTER}, {"micro_batch": 4}, {"advantage": "standardised"}],
    ids=str,
)
def test_process_rewards_with_weight_0_leave_grpo_unchanged(training, tiny, tmp_path, changes):
    with_process = training(process=PROCESS | {"weight": 0.0}, **changes)
    without = Training(Trainer, tiny, tmp_path, long, **changes)
    assert with_process.completions == without.completions
    # with micro-batches, the order of the rows may differ, which changes the rounding
    if "micro_batch" not in changes:
        assert same(with_process.weights, without.weights)
    assert all(entry["process_loss"] > 0 for entry in with_process.log)
    weighted = training(process=PROCESS, **changes)
    assert not same(weighted.weights, without.weights)


def test_the_reward_model_learns_which_completions_are_right(training):
    run = training(process=PROCESS, selector={"kind": "beta", "replay": 1, "buffer": 8}, updates=3)
    # the reward model starts as a copy of the base model, so every log-ratio is 0
    assert run.log[0]["process_loss"] == pytest.approx(0.6931, abs=1e-3)
    batch, process = run.trainer._join(run.trainer.buffer), run.trainer.process_rewards
    process.recipe = PROCESS | {"beta": 0.5}
    losses = []
    for _ in range(20):
        process.learn(batch, batch["rewards"], 4)
        losses.append(process.metrics["process_loss"])
    assert losses[-1] < losses[0] / 4 and process.metrics["process_accuracy"] == 1


def test_the_policy_has_its_own_weights_after_the_reward_model_was_trained(training, tiny):
    """With a learning rate of almost 0, the trained model's weights do not change, although its
    modules have computed with the reward model's weights."""
    from transformers import AutoModelForCausalLM

    before = AutoModelForCausalLM.from_pretrained(tiny[0], dtype=torch.float32)
    run = training(process=PROCESS, learning_rate=1e-30)
    assert all(torch.allclose(w, b, atol=1e-20) for w, b in zip(run.weights, before.parameters()))
    trained = run.trainer.process_rewards.weights
    assert any(not torch.equal(w, b) for w, b in zip(trained, before.parameters(), strict=True))


def test_token_advantages_of_a_batch_by_hand():
    """A group of two rollouts: the first has three tokens, the second two. The last token of each
    rollout has no process reward."""
    rewards = torch.tensor([[0.2, -0.1, 9.0], [0.4, 9.0, 9.0]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    # (first rollout | second rollout)
    # sums of each token's reward and the later rewards: .1, -.1 | .4
    # largest absolute value of these sums: .4
    # rewards divided by .4: .5, -.25 | 1
    # mean of each rollout: .125 | 1
    # rewards minus the mean of the other rollout: -.5, -1.25 | .875
    # expected: for each token, the sum of its value and the later values in the line above
    expected = torch.tensor([[-1.75, -1.25, 0.0], [0.875, 0.0, 0.0]])
    torch.testing.assert_close(token_advantages(rewards, mask, 2), expected, atol=1e-5, rtol=1e-5)


class TwoTokens(torch.nn.Module):
    """A model with two tokens and one weight for each token. At every position, the
    log-probabilities of the tokens are the log-softmax of the weights."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.zeros(2))


def test_token_rewards_of_a_batch_by_hand():
    """Two rollouts of two tokens: 0 0 is right, 1 1 is wrong. The reward model learns to tell them
    apart, and rewards token 0."""

    def of_tokens(model, ids, mask, tokens, batch_size):
        return torch.log_softmax(model.weights, 0)[ids[:, -tokens:]], None

    arguments = SimpleNamespace(per_device_train_batch_size=1, use_cpu=True)
    trainer = SimpleNamespace(model=TwoTokens(), args=arguments)
    trainer._get_per_token_logps_and_entropies = of_tokens
    recipe = {"weight": 0.5, "beta": 1.0, "learning_rate": 0.5, "max_grad_norm": 100.0}
    process, ones = ProcessRewards(trainer, recipe), torch.ones(2, 2, dtype=torch.long)
    batch = {"prompt_ids": ones, "prompt_mask": ones, "completion_mask": ones}
    batch |= {
        "completion_ids": torch.tensor([[0, 0], [1, 1]]),
        "advantages": torch.tensor([1.0, -1.0]),
    }
    token_rewards = process.learn(batch, torch.tensor([1.0, 0.0]), 2)
    # both scores are 0 at the start
    assert process.metrics["process_loss"] == pytest.approx(0.6931, abs=1e-4)
    # The gradient is -.5 for the weight of token 0 and .5 for that of token 1. AdamW's first step
    # has the size of the learning rate: the weights become .5 and -.5.
    weights, close = process.weights[0].detach(), torch.testing.assert_close
    close(weights, torch.tensor([0.5, -0.5]), atol=1e-5, rtol=0)
    # Token 0 is rewarded with log(2 sigmoid(1)) = .3799, token 1 with log(2 sigmoid(-1)) = -.6201.
    # Only the first token of each rollout has a process reward. Divided by .6201, the rewards are
    # .6126 and -1; minus the mean of the other rollout, 1.6126 and -1.6126. Half of these values
    # (the weight is .5) is added to the outcome's advantages, 1 and -1.
    close(token_rewards, torch.tensor([[1.8063, 1.0], [-1.8063, -1.0]]), atol=1e-4, rtol=0)
    assert torch.equal(trainer.model.weights, torch.zeros(2)), (
        "the trained model's own weights were not restored"
    )


def test_a_step_without_enough_groups_changes_no_weight(training, tiny):
    """Momentum of earlier updates does not change the weights either."""
    selector = {"kind": "dynamic", "groups": 1}
    two_steps, four_steps = (training(in_the_second_step, updates, selector) for updates in (2, 4))
    assert [entry["trained"] for entry in four_steps.log] == [0, 1, 0, 0]
    assert same(two_steps.weights, four_steps.weights)
    assert [bool(entry["grad_norm"]) for entry in four_steps.log] == [False, True, False, False]


@pytest.mark.parametrize(("kind", "groups"), [("dynamic", 3), ("dynamic", 6), ("skip", 3)])
def test_kept_and_discarded_rollouts_add_up_to_all_rollouts(training, kind, groups):
    run = training(selector={"kind": kind, "groups": groups}, updates=6)
    assert total(run, "rollouts") == 6 * 16
    assert all(entry["kept"] + entry["thrown_away"] == entry["rollouts"] for entry in run.log)
    trained, kept = total(run, "trained"), total(run, "kept")
    assert trained * groups * 4 <= kept < (trained + 1) * groups * 4
    assert 0 < trained < 6 or groups == 3
    assert total(run, "labels") <= 4


def test_an_update_takes_exactly_as_many_groups_as_the_selector_sets(training):
    run = training(selector={"kind": "dynamic", "groups": 2}, updates=4)
    assert set(run.passes) == {8}  # two groups of four in one pass
    assert len(run.passes) == total(run, "trained")


def test_a_pool_whose_groups_have_equal_rewards_gives_a_one_line_error(training):
    words = "dynamic: of 12 prompts in 3 sampling steps, only 0 groups .*an update needs 4;"
    with pytest.raises(UserError, match=words):
        training(never, 9, {"kind": "dynamic", "most_steps": 3})


def test_a_run_without_any_update_of_the_policy_is_an_error(training):
    with pytest.raises(UserError, match="2 sampling steps had groups to train on"):
        training(never, 2, {"kind": "dynamic", "most_steps": 3})


def test_the_newest_mixed_groups_are_kept_to_be_replayed(training, monkeypatch):
    mixed, replayed = [], OnlineTrainer._draw_replayed

    def listening(self, fresh, count):
        mixed.extend(group for group in fresh if group.is_mixed)
        return replayed(self, fresh, count)

    monkeypatch.setattr(OnlineTrainer, "_draw_replayed", listening)
    run = training(selector={"kind": "beta", "replay": 3, "buffer": 5}, updates=5)
    assert 5 < len(mixed) < 5 * 4, (
        "the test needs more mixed groups than the buffer holds, and groups with equal rewards"
    )
    assert [id(group) for group in run.trainer.buffer] == [id(group) for group in mixed[-5:]]


def test_replayed_groups_keep_the_probabilities_of_the_policy_that_sampled_them(training):
    """With a learning rate of almost 0, all sampling steps use the same weights, so all ratios are
    1 and no ratio is clipped."""
    selector = {"kind": "beta", "replay": 3, "buffer": 5}
    run = training(selector=selector, updates=5, learning_rate=1e-12)
    assert [entry["replayed"] for entry in run.log][0] == 0 and run.log[-1]["replayed"] == 12
    assert len(run.trainer.buffer) == 5
    assert all(entry["clip_ratio/region_mean"] == 0 for entry in run.log)
    batch = run.trainer._join(run.trainer.buffer)
    join = lambda what: torch.cat([batch[f"prompt_{what}"], batch[f"completion_{what}"]], dim=1)
    tokens = batch["completion_ids"].size(1)
    score = run.trainer._get_per_token_logps_and_entropies
    with torch.no_grad():
        log_probabilities, *_ = score(run.trainer.model, join("ids"), join("mask"), tokens)
    difference = (log_probabilities - batch["old_per_token_logps"]) * batch["completion_mask"]
    assert difference.abs().max() < 1e-4
    moved = training(selector=selector, updates=5, learning_rate=5e-2)
    assert any(entry["clip_ratio/region_mean"] > 0 for entry in moved.log)


def test_groups_are_restored_unchanged_from_a_file(training, tmp_path):
    buffer = training(selector={"kind": "beta", "replay": 3, "buffer": 5}, updates=3).trainer.buffer
    rollout_groups.save(tmp_path / "groups.state", {"buffer": buffer, "pending": []})
    loaded = rollout_groups.load(tmp_path / "groups.state")
    prompts = lambda groups: [group.prompt for group in groups]
    assert loaded["pending"] == [] and prompts(loaded["buffer"]) == prompts(buffer)
    batches = [rollout_groups.join(groups, 0, "cpu") for groups in (loaded["buffer"], buffer)]
    assert batches[0].keys() == batches[1].keys() and same(*(batch.values() for batch in batches))


def test_micro_batches_that_an_update_does_not_fill_are_refused(training):
    words = "an update has 4 rollouts, which do not divide evenly into 8 micro-batches"
    with pytest.raises(UserError, match=words):
        training(selector={"kind": "dynamic", "groups": 1}, micro_batch=2)


@pytest.mark.parametrize("replay", [0, 2])
def test_with_vllm_batches_have_old_log_probabilities_only_if_groups_are_replayed(
    training, monkeypatch, replay
):
    StandIn.install(monkeypatch)
    batches, compute = [], Trainer._compute_loss
    monkeypatch.setattr(
        Trainer,
        "_compute_loss",
        lambda trainer, model, batch: batches.append(batch) or compute(trainer, model, batch),
    )
    selector = {"kind": "beta", "replay": replay, "buffer": 8}
    run = training(selector=selector, generation="vllm")
    assert (total(run, "replayed") > 0) == bool(replay) and len(batches) == 3
    assert all(("old_per_token_logps" in batch) == bool(replay) for batch in batches)
