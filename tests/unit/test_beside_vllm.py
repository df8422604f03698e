"""Training with a stand-in for vLLM: the weights that the engine receives, the state of the
trainer, and the random numbers of engine and trainer."""

import json
import math
import shutil
import sys
from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from test_recipes import SPEC
from test_trainer import long, rows, tiny  # noqa: F401 (a fixture)
from transformers import AutoModelForCausalLM, TrainerCallback

from fake_vllm import StandIn
from hardgrpo import sampling
from hardgrpo.online import rollout_groups
from hardgrpo.sampling import engines
from hardgrpo.study.spec import Spec
from hardgrpo.training import loop, outputs, recipes
from hardgrpo.training.loop import Watch
from hardgrpo.training.trainer import Trainer

pytestmark = pytest.mark.slow
ADAPTER = {"rank": 4, "alpha": 8, "dropout": 0.0}


def train(
    tiny, folder, seed=0, watch=None, save_strategy="no", resume_from=None, micro_batch=None,
    **changes,
) -> Trainer:  # fmt: skip
    """A trainer after a few updates of an adapter (with `adapter=None`: of all weights). Prompts
    and their order are the same for every seed."""
    from trl import GRPOConfig

    recipe = SPEC.training | {
        "updates": 4, "checkpoint_every": 4, "prompts_per_update": 4, "group_size": 4,
        "learning_rate": 3e-2, "warmup_share": 0.0, "generation": "vllm", "base": "bf16",
        "precision": "bf16", "adapter": ADAPTER,
    } | changes  # fmt: skip
    spec = Spec(**{**vars(SPEC), "training": recipe, "completion_tokens": 12, "seed": seed})
    hardware = recipes.Hardware(0, 1, micro_batch)
    arguments = recipes.trainer_arguments(spec, str(folder), hardware, 64)
    prompts = [rows()[f"q{k % 4}"] for k in range(4 * recipe["updates"])]
    trainer = Trainer(
        model=AutoModelForCausalLM.from_pretrained(tiny[0], **recipes.model_arguments(recipe)),
        processing_class=tiny[1],
        reward_funcs=long,
        args=GRPOConfig(**arguments | {"save_strategy": save_strategy}),
        train_dataset=Dataset.from_list(prompts),
        peft_config=recipes.adapter_configuration(recipe),
        applies_correction=bool(recipe.get("importance_correction")),
        callbacks=[watch] if watch else [],
    )
    trainer.train(resume_from_checkpoint=resume_from and str(resume_from))
    return trainer


def base_of(model) -> dict[str, torch.Tensor]:
    """The frozen weights, by their names in a model without an adapter."""
    return {
        name.removeprefix("base_model.model.").replace(".base_layer", ""): weights.detach().clone()
        for name, weights in model.named_parameters()
        if not weights.requires_grad
    }


@pytest.mark.parametrize("base", ["bf16", "fp32"])
def test_the_base_stays_unchanged_and_the_engine_gets_the_base_with_the_adapter_merged(
    tiny, tmp_path, monkeypatch, base
):
    """For each sync, TRL would add the adapter to the weights of the base model and then subtract
    the adapter again. In bf16, rounding would change the base model."""
    StandIn.install(monkeypatch)
    trainer = train(tiny, tmp_path, base=base, updates=12)
    dtype = recipes.model_arguments({"base": base})["dtype"]
    untouched = dict(AutoModelForCausalLM.from_pretrained(tiny[0], dtype=dtype).named_parameters())
    base_weights = base_of(trainer.model)
    assert base_weights.keys() == untouched.keys()
    changed = [name for name in untouched if not torch.equal(base_weights[name], untouched[name])]
    assert changed == []
    trainer.vllm_generation.sync_weights()
    sent = trainer.vllm_generation.llm.sent
    assert sent.keys() == untouched.keys()
    moved = 0
    for name, layer in trainer.model.named_modules():
        if hasattr(layer, "get_delta_weight") and hasattr(layer, "lora_A"):
            plain = name.removeprefix("base_model.model.") + ".weight"
            delta = 2 * (layer.lora_B["default"].weight @ layer.lora_A["default"].weight).double()
            expected = (untouched[plain].double() + delta).to(dtype)
            tolerance = 2**-8 if base == "bf16" else 1e-6
            torch.testing.assert_close(sent[plain], expected, rtol=tolerance, atol=1e-8)
            moved += not torch.equal(sent[plain], untouched[plain])
    assert moved == 14, "some adapted layers are sent without their adapter"
    trained = [weights for weights in trainer.model.parameters() if weights.requires_grad]
    assert {weights.dtype for weights in trained} == {torch.float32}


@pytest.mark.parametrize("generation", ["transformers", "vllm"])
def test_rollouts_end_where_completions_of_probe_and_evaluation_end(
    tiny, tmp_path, monkeypatch, generation
):
    """Some models name an end token only in config.json, where neither TRL nor vLLM looks for end
    tokens."""
    StandIn.install(monkeypatch)
    vllm_engine = SimpleNamespace(prepare_for_training=lambda: None)
    monkeypatch.setitem(sys.modules, "hardgrpo.sampling.vllm_engine", vllm_engine)
    monkeypatch.setattr(sampling, "vllm_engine", vllm_engine, raising=False)
    folder, tokenizer = tmp_path / "model", tiny[1]
    shutil.copytree(tiny[0], folder)
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": [*range(30, 60)]}))
    ends = engines.end_tokens(str(folder), tokenizer)
    assert {tokenizer.eos_token_id, 25, 45} < set(ends), (
        "an end token of the tokenizer, generation_config.json or config.json is missing"
    )
    recipe = SPEC.training | {"updates": 1, "checkpoint_every": 1, "generation": generation}
    fields = {"model_folder": str(folder), "training": recipe, "completion_tokens": 12}
    problems = {
        name: {"question": row["prompt"][0]["content"], "answer": "red"}
        for name, row in rows().items()
    }
    spec = Spec(**{**vars(SPEC), **fields})
    run = recipes.Run(spec, problems, [*problems], tmp_path / "state", recipes.Hardware(0, 1))
    trainer = loop.build_grpo_trainer(run, tokenizer)
    prompts = [
        tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True)["input_ids"]
        for row in rows().values()
    ]
    completions, _ = trainer._generate_single_turn(prompts * 4, None, {}, 1)
    assert any(tokens[-1] in range(30, 60) for tokens in completions)
    for tokens in completions:
        assert not set(tokens[:-1]) & set(ends) and (tokens[-1] in ends or len(tokens) == 12)


def test_rollouts_differ_between_seeds_and_are_equal_for_the_same_seed(tiny, tmp_path, monkeypatch):
    """At its start, vLLM seeds all random generators with the rank, after TRL has seeded them with
    the seed of the run."""
    StandIn.install(monkeypatch)
    rollouts, repeated_rollouts, reseeded_rollouts = (
        train(tiny, tmp_path, seed).vllm_generation.llm.rollouts[:16] for seed in (1, 1, 2)
    )
    assert rollouts == repeated_rollouts and rollouts != reseeded_rollouts


@pytest.mark.parametrize("base", ["bf16", "fp32"])
def test_adapters_are_trained_in_float32_also_after_a_resume(tiny, tmp_path, base):
    types = []

    class Watch(TrainerCallback):
        def on_step_end(self, *arguments, model, **_) -> None:
            types.append({weights.dtype for weights in model.parameters() if weights.requires_grad})

    changes = {"base": base, "generation": "transformers", "updates": 4, "checkpoint_every": 2}
    uninterrupted, resumed = tmp_path / "whole", tmp_path / "resumed"
    train(tiny, uninterrupted, watch=Watch(), save_strategy="steps", **changes)
    shutil.copytree(uninterrupted / "checkpoint-2", resumed / "checkpoint-2")
    checkpoint = resumed / "checkpoint-2"
    train(tiny, resumed, watch=Watch(), save_strategy="steps", resume_from=checkpoint, **changes)
    assert types == [{torch.float32}] * 6
    name = "checkpoint-4/adapter_model.safetensors"
    assert (uninterrupted / name).read_bytes() == (resumed / name).read_bytes()


@pytest.fixture
def first_update(tiny, tmp_path, monkeypatch):
    """A function that returns the log of one update and the lengths of the update's completions.
    The stand-in for vLLM reports each token's log-probability too low by `difference`."""

    def update(difference: float, correction: dict | None) -> tuple[dict, list[int]]:
        StandIn.install(monkeypatch, offset=-difference)
        changes = {"base": "fp32", "precision": "fp32", "loss": "grpo"}
        changes |= {"updates": 1, "checkpoint_every": 1}
        trainer = train(tiny, tmp_path, importance_correction=correction, **changes)
        lengths = [len(tokens) for tokens in trainer.vllm_generation.llm.rollouts]
        return trainer.state.log_history[0], lengths

    return update


def test_without_a_correction_the_difference_to_vllm_is_logged_and_changes_no_gradient(
    first_update,
):
    (exact, _), (differing, _) = first_update(0.0, None), first_update(0.2, None)
    for key in ("loss", "grad_norm"):
        assert differing[key] == exact[key]
    assert exact["grad_norm"] > 0
    logged = [
        {column: log[log_key] for column, log_key in outputs.VLLM_COLUMNS.items()}
        for log in (exact, differing)
    ]
    keys = ("logp_difference_mean", "logp_difference_max", "importance_ratio_mean", "masked_share")
    assert logged[0] == pytest.approx(dict(zip(keys, (0, 0, 1, 0))), abs=1e-4)
    expected = dict(zip(keys, (0.2, 0.2, math.exp(0.2), 0)))
    assert logged[1] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("micro_batch", [None, 4])
def test_the_difference_to_vllm_needs_no_pass_of_its_own(tiny, tmp_path, monkeypatch, micro_batch):
    """TRL's pass before the update, which a correction needs, gives the same values. With a limit
    of infinity, the correction masks nothing."""
    passes = []
    score = Trainer._get_per_token_logps_and_entropies

    def count(trainer, *arguments, **keywords):
        passes.append(len(trainer.state.log_history))
        return score(trainer, *arguments, **keywords)

    monkeypatch.setattr(Trainer, "_get_per_token_logps_and_entropies", count)
    logs, counts = [], []
    for correction in (None, {"mode": "token_truncate", "limit": 1e30}):
        StandIn.install(monkeypatch, offset=-0.2)
        passes.clear()
        trainer = train(
            tiny, tmp_path, micro_batch=micro_batch, importance_correction=correction, base="fp32",
            precision="fp32", beta=0.1, loss="grpo", learning_rate=1e-9,
        )  # fmt: skip
        logs.append(trainer.state.log_history[:-1])
        counts.append(len(passes))
    columns = outputs.VLLM_COLUMNS.values()
    for plain, corrected in zip(*logs, strict=True):
        assert [plain[column] for column in columns] == pytest.approx(
            [corrected[column] for column in columns], abs=1e-4
        )
    # each update scores the rollouts once by the policy and once by the reference
    micro_batches = 16 // (micro_batch or 16)
    assert counts == [4 * (micro_batches + 1), 4 * (micro_batches + 2)]


def test_an_update_directly_after_its_sampling_clips_no_completion(tiny, tmp_path, monkeypatch):
    """Before the update, TRL computes the probabilities of vLLM's rollouts in batches of other
    shapes than in the update. In bf16, the ratio of the two probabilities would not be exactly 1,
    so limits as narrow as those of GSPO would clip completions by chance. The trainer therefore
    does not use TRL's probabilities."""
    StandIn.install(monkeypatch)
    changes = {"loss": "grpo", "ratio": "sequence", "epsilon": 1e-9, "epsilon_high": 1e-9}
    changes["importance_correction"] = None
    trainer = train(tiny, tmp_path, micro_batch=4, base="fp32", adapter=None, **changes)
    updates = trainer.state.log_history[:-1]
    assert [update["clip_ratio/region_mean"] for update in updates] == [0.0] * 4
    assert all(update["grad_norm"] for update in updates)
    assert all(update[outputs.LOGP_DIFFERENCE] > 0 for update in updates), (
        "an update reports no difference between the log-probabilities of vLLM and of the trainer"
    )


@pytest.mark.parametrize(
    ("mode", "limit"),
    [("token_truncate", 1.1), ("token_truncate", 2.0), ("token_mask", 1.1), ("token_mask", 2.0)],
)
def test_a_correction_of_tokens_gives_each_token_its_own_weight(first_update, mode, limit):
    plain, _ = first_update(0.2, None)
    weighted, _ = first_update(0.2, {"mode": mode, "limit": limit})
    ratio = math.exp(0.2)
    weight = ratio if ratio <= limit else limit if mode == "token_truncate" else 0.0
    assert weighted["grad_norm"] == pytest.approx(weight * plain["grad_norm"], rel=1e-3)
    assert weighted["masked_share"] == float(weight == 0) and plain["masked_share"] == 0


def test_a_correction_of_completions_masks_long_completions_or_limits_their_weights(first_update):
    log, lengths = first_update(0.2, {"mode": "sequence_mask", "limit": 3.0})
    masked = [math.exp(0.2 * length) > 3 for length in lengths]
    assert log["masked_share"] == pytest.approx(sum(masked) / 16) and 0 < sum(masked) < 16
    ratios = [
        0.0 if is_masked else math.exp(0.2 * length) for length, is_masked in zip(lengths, masked)
    ]
    mean = sum(ratios) / 16
    assert log["sampling/importance_sampling_ratio/mean"] == pytest.approx(mean, rel=1e-3)
    truncated, _ = first_update(0.2, {"mode": "sequence_truncate", "limit": 3.0})
    assert truncated["masked_share"] == 0
    assert truncated["sampling/importance_sampling_ratio/max"] == 3


@pytest.mark.parametrize("shape", ["tokens", "completions"])
def test_groups_that_wait_for_an_update_keep_their_importance_weights(shape, tmp_path):
    ratios = torch.rand(4, 3) if shape == "tokens" else torch.rand(4, 1)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 0]])
    batch = {"prompt_ids": torch.ones(4, 2).long(), "prompt_mask": torch.ones(4, 2).long()}
    batch |= {"completion_mask": mask, "completion_ids": mask * 7, "advantages": torch.rand(4)}
    batch["importance_sampling_ratio"] = ratios
    split = rollout_groups.split(batch, ["a", "b"], torch.tensor([1.0, 0.0, 1.0, 0.0]), 2)
    rollout_groups.save(tmp_path / "groups.state", {"pending": split})
    pending = rollout_groups.load(tmp_path / "groups.state")["pending"]
    joined = rollout_groups.join(pending[::-1], 0, "cpu")["importance_sampling_ratio"]
    assert torch.equal(joined, (ratios.expand(4, 3) * mask)[[2, 3, 0, 1]])


def test_a_run_warns_once_if_vllm_does_not_have_the_trained_weights(capsys):
    watch = Watch(SimpleNamespace(advance=lambda *_: None), SimpleNamespace(is_first=True), 1)
    for update, difference in enumerate((0.02, 0.81, 0.9), start=1):
        logs = {"reward": 0.5, "frac_reward_zero_std": 0.0, "grad_norm": 1.0}
        logs[outputs.LOGP_DIFFERENCE] = difference
        watch.on_log(None, SimpleNamespace(global_step=update), None, logs=logs)
    (warning,) = capsys.readouterr().out.splitlines()
    assert warning.startswith("warning: update 2: ") and "differ by 0.81 on average" in warning
