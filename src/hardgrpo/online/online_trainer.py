"""TRL's GRPOTrainer with a selector that chooses the prompts of each sampling step, or with process
rewards. Imports torch and TRL.

In a sampling step (a step of TRL's trainer), the trainer calls the selector until it has sampled as
many rollouts as an update without a selector has. It updates the model if there are enough groups;
otherwise the step changes neither the weights nor the optimiser's state.
"""

import operator
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from typing_extensions import override  # comes with torch

from hardgrpo.online import online_selectors, rollout_groups
from hardgrpo.online.process_rewards import ProcessRewards
from hardgrpo.runtime import errors, files, replacements
from hardgrpo.runtime.errors import UserError
from hardgrpo.sampling import decoding, model_folders
from hardgrpo.study import selector as selectors
from hardgrpo.study.spec import Spec
from hardgrpo.training import loop, recipes
from hardgrpo.training.trainer import Trainer

STATE, GROUPS, PROCESS = "selector.json", "groups.state", "process.state"  # files of a checkpoint
EMBEDDED_TOGETHER = 64  # prompts in a forward pass


@replacements.check_overrides
class OnlineTrainer(Trainer):
    """`rows`: the chosen prompts as rows of TRL's dataset, by id. `selector`: an
    `online_selectors.Selector` or None."""

    def __init__(self, *args, rows: dict[str, dict], selector, recipe: dict, **kwargs):
        super().__init__(*args, **kwargs)
        self.rows, self.selector, self.recipe = rows, selector, recipe
        self.settings = selectors.with_defaults(recipe) if selector else {}
        self.is_off_policy = bool(self.settings.get("replay"))
        self.selector_calls: list[tuple[int, int, list[float]]] = []  # as in `replay`
        # groups that wait until there are enough for an update
        self.pending: list[rollout_groups.Group] = []
        self.buffer: list[rollout_groups.Group] = []  # groups for replay, the newest last
        self.labelled_prompts: set[str] = set()  # all prompts sampled so far
        self.steps_since_update = 0
        self.is_idle = False  # whether the current step leaves the model unchanged
        self.process_rewards = (
            ProcessRewards(self, recipe["process"]) if recipe.get("process") else None
        )

    # --- a sampling step

    @override
    def _generate_and_score_completions(self, inputs):
        step, size, calls = self.state.global_step + 1, self.num_generations, []
        missing = len(inputs) // size  # groups
        while missing:
            if self.selector:
                prompts = self.selector.ask(step, missing)
            else:
                prompts = online_selectors.PromptBatch([row["id"] for row in inputs[::size]])
            batch = super()._generate_and_score_completions(
                [self.rows[prompt] for prompt in prompts.ids for _ in range(size)]
            )
            self.rewards = self.rewards.to(batch["advantages"].device)
            if self.selector:
                sums = self.rewards.view(-1, size).sum(dim=1).tolist()
                shares = [total / size for total in sums]
                self.selector.tell(step, prompts, shares)
                self.selector_calls.append((step, missing, shares))
            calls.append((prompts, batch, self.rewards))
            missing -= len(prompts.ids)
        batch, counts = self._training_batch(calls)
        labels = len(self.labelled_prompts)
        self.labelled_prompts.update(prompt for prompts, _, _ in calls for prompt in prompts.ids)
        self.is_idle = batch is None
        counts |= {"labels": len(self.labelled_prompts) - labels, "trained": int(not self.is_idle)}
        self._log_step([len(prompts.ids) for prompts, _, _ in calls], counts)
        # Without an update, `_compute_loss` ignores the batch, but TRL needs the usual number of
        # rows.
        if self.is_idle:
            _, batch, _ = calls[-1]
            rows = [row % len(batch["advantages"]) for row in range(len(inputs))]
            return {name: value[rows] if value.ndim else value for name, value in batch.items()}
        rewards = batch.pop("rewards")
        if len(rewards) % self.args.steps_per_generation:
            raise UserError(
                f"recipe: an update has {len(rewards)} rollouts, which do not divide evenly into {self.args.steps_per_generation} micro-batches; change"
                " micro_batch of the model, selector.groups or selector.reference"
            )
        if self.process_rewards:
            batch["advantages"] = self.process_rewards.learn(batch, rewards, size)
            for name, value in self.process_rewards.metrics.items():
                self._metrics["train"][name] = [value]
        return batch

    @override
    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        by_function = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self.rewards = by_function[:, 0].clone()
        return by_function

    def _training_batch(self, calls: list) -> tuple[dict | None, dict]:
        """(batch of this step's update, if any, with its `rewards`; counts for the log)."""
        size = self.num_generations
        rollouts = sum(len(rewards) for _, _, rewards in calls)
        fills_updates = self.settings.get("kind") in selectors.KINDS_WITH_MIXED_GROUPS_ONLY
        replay = self.settings.get("replay", 0)
        if not fills_updates and not replay and len(calls) == 1 and calls[0][0].trains:
            _, batch, rewards = calls[0]
            return batch | {"rewards": rewards}, self._rollout_counts(rollouts, rollouts // size)
        groups = [
            group
            for prompts, batch, rewards in calls
            if prompts.trains
            for group in rollout_groups.split(batch, prompts.ids, rewards, size)
        ]
        if fills_updates:
            return self._fill_update(groups, rollouts)
        replayed = self._draw_replayed(groups, replay)
        counts = self._rollout_counts(rollouts, len(groups), len(replayed))
        return self._join(groups + replayed) if groups else None, counts

    def _fill_update(
        self, new_groups: list[rollout_groups.Group], rollouts: int
    ) -> tuple[dict | None, dict]:
        """Like `_training_batch`, but without groups whose rewards are equal. The batch is None
        until enough mixed groups are pending. Raise a `UserError` after `most_steps` steps without
        an update."""
        mixed = [group for group in new_groups if group.is_mixed]
        self.pending += mixed
        self.steps_since_update += 1
        update_groups = self.settings["groups"]
        if len(self.pending) < update_groups:
            if self.steps_since_update >= self.settings["most_steps"]:
                prompts = self.steps_since_update * self.recipe["prompts_per_update"]
                raise UserError(
                    f"recipe: selector {self.settings['kind']}: of {prompts} prompts in {self.steps_since_update} sampling steps, only"
                    f" {len(self.pending)} groups were neither all right nor all wrong, but an update needs {update_groups}; choose prompts that"
                    " the model solves sometimes, or raise group_size or selector.most_steps"
                )
            return None, self._rollout_counts(rollouts, len(mixed))
        surplus = len(self.pending) - update_groups
        update, self.pending, self.steps_since_update = self.pending[:update_groups], [], 0
        return self._join(update), self._rollout_counts(rollouts, len(mixed) - surplus)

    def _rollout_counts(self, rollouts: int, new_groups: int, replayed_groups: int = 0) -> dict:
        size = self.num_generations
        kept, replayed = new_groups * size, replayed_groups * size
        return {"kept": kept, "replayed": replayed, "thrown_away": rollouts - kept}

    def _draw_replayed(
        self, new_groups: list[rollout_groups.Group], most_groups: int
    ) -> list[rollout_groups.Group]:
        """Up to `most_groups` groups of earlier steps, so that all rollouts divide evenly into the
        micro-batches. This step's mixed groups join the buffer."""
        if not most_groups:
            return []
        seed = online_selectors.derive_seed(self.args.seed, "replay", self.state.global_step + 1)
        rng = np.random.Generator(np.random.PCG64(seed))
        count = min(most_groups, len(self.buffer)) if new_groups else 0
        size, micro_batches = self.num_generations, self.args.steps_per_generation
        while count and (len(new_groups) + count) * size % micro_batches:
            count -= 1
        indices = sorted(rng.choice(len(self.buffer), count, replace=False)) if count else []
        replayed = [self.buffer[index] for index in indices]
        self.buffer += [group for group in new_groups if group.is_mixed]
        self.buffer = self.buffer[-self.settings["buffer"] :]
        return replayed

    def _join(self, groups: list[rollout_groups.Group]) -> dict:
        batch = rollout_groups.join(groups, self._tokenizer.pad_token_id, self.accelerator.device)
        if not self.use_vllm:
            logps = batch.pop("sampling_per_token_logps", None)
            # the importance ratio needs the probabilities under the model that sampled the group
            if self.settings.get("replay"):
                batch["old_per_token_logps"] = logps
        rewards = torch.cat([group.rewards for group in groups])
        return batch | {"rewards": rewards.to(self.accelerator.device)}

    # --- sampling, loss and log

    @override
    def _sampler(self, rows: int):
        max_tokens = self.max_completion_length if self.settings.get("replay") else 0
        return decoding.GlobalSampling(rows, self.temperature, max_tokens, self.accelerator.device)

    @override
    def _compute_loss(self, model, inputs):
        # leave the gradients None: with zero gradients the optimiser would still apply its momentum
        if self.is_idle:
            return torch.zeros((), device=self.accelerator.device, requires_grad=True)
        return super()._compute_loss(model, inputs)

    def _log_step(self, call_sizes: list[int], counts: dict) -> None:
        """Reduce a metric's values in the calls of a step, of `call_sizes` prompts, to one: the
        maximum or minimum if the metric's name says so, else the mean over rollouts. Add `counts`."""
        metrics, prompts = self._metrics["train"], sum(call_sizes)
        mean = lambda values: sum(map(operator.mul, values, call_sizes)) / prompts
        for name, values in metrics.items():
            if len(call_sizes) > 1 and len(values) == len(call_sizes):
                # TRL's names: completions/max_length, .../max
                reduction = name.rpartition("/")[2].partition("_")[0]
                metrics[name] = [{"max": max, "min": min}.get(reduction, mean)(values)]
        counts |= {"prompts": prompts, "rollouts": prompts * self.num_generations}
        for name, value in counts.items():
            metrics[name] = [value]

    # --- checkpoints

    @override
    def train(self, *args, **kwargs):
        """Like TRL's `train`, but raise a `UserError` if no step updated the model."""
        output = super().train(*args, **kwargs)
        update_counts = [entry["trained"] for entry in self.state.log_history if "trained" in entry]
        is_finished = self.state.global_step == self.state.max_steps
        if is_finished and update_counts and not any(update_counts):
            raise UserError(
                f"recipe: none of the {len(update_counts)} sampling steps had groups to train on; choose prompts that the model solves sometimes, raise"
                " updates, or lower selector.groups or selector.reference"
            )
        return output

    @override
    def _save_checkpoint(self, model, trial):
        super()._save_checkpoint(model, trial)
        folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
        state = {
            "selector_calls": self.selector_calls,
            "waited": self.steps_since_update,
            "known": sorted(self.labelled_prompts),
        }
        files.write_json(folder / STATE, state)
        rollout_groups.save(folder / GROUPS, {"pending": self.pending, "buffer": self.buffer})
        if self.process_rewards:
            self.process_rewards.save(folder / PROCESS)

    @override
    def _load_optimizer_and_scheduler(self, checkpoint):
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        folder = Path(checkpoint)
        state = files.read_json(folder / STATE)
        groups_by_name = rollout_groups.load(folder / GROUPS)
        self.selector_calls = state["selector_calls"]
        if self.selector:
            online_selectors.replay(self.selector, self.selector_calls)
        self.steps_since_update, self.labelled_prompts = state["waited"], set(state["known"])
        self.pending, self.buffer = groups_by_name["pending"], groups_by_name["buffer"]
        if self.process_rewards:
            self.process_rewards.load(folder / PROCESS)


def build_trainer(run: recipes.Run, tokenizer) -> OnlineTrainer:
    """The trainer of a recipe with a selector or process rewards."""
    arguments, rows, schedule = loop.grpo_arguments(run, tokenizer)
    # a selector uses only the number of the dataset's rows
    dataset = Dataset.from_list([{"id": prompt} | rows[prompt] for prompt in schedule])
    recipe, selector = run.spec.training, None
    if recipe.get("selector"):
        selector = make_selector(run, rows, arguments["model"], tokenizer)
    return OnlineTrainer(
        **arguments, train_dataset=dataset, rows=rows, selector=selector, recipe=recipe
    )


def make_selector(
    run: recipes.Run, rows: dict[str, dict], model, tokenizer
) -> online_selectors.Selector:
    """The selector of a run. `rows` are rows of TRL's dataset by prompt id. Raise a `UserError` if
    the selector lacks prompts or their measures."""
    spec, recipe, prompts = run.spec, run.spec.training, list(rows)
    settings = selectors.with_defaults(recipe)
    measures = embeddings = None
    if settings["kind"] == "curriculum":
        measures = curriculum_measures(spec, run.problems, prompts, settings["by"])
    if settings["kind"] == "targeted":
        if run.hardware.gpus:
            model.to("cuda")
        with errors.while_loading(spec.model_folder):
            embeddings = embed_prompts(model, tokenizer, rows, spec.chat)
    return online_selectors.make(
        recipe, online_selectors.Pool(prompts, measures, embeddings), spec.seed
    )


def curriculum_measures(
    spec: Spec, problems: dict, prompts: list[str], measure: str
) -> dict[str, float]:
    """{prompt id: its tier, or its pass rate in the subset's file}, as numbers. Raise a `UserError`
    if the value of a prompt is missing or not a number."""
    if measure == "tier":
        source, values = spec.problems, {name: problems[name].get("tier") for name in prompts}
    else:
        rows = files.read_rows(spec.subset, {"id": str, "pass_rate": float})
        source, values = spec.subset, {row["id"]: row["pass_rate"] for row in rows}
    measures = {}
    for prompt in prompts:
        try:
            measures[prompt] = float(values[prompt])
        except (TypeError, ValueError):
            raise UserError(
                f"{source}: prompt '{prompt}' has the {measure} {values[prompt]!r}, and the recipe's curriculum sorts numbers; choose another selector.by"
            ) from None
    return measures


def embed_prompts(model, tokenizer, prompts: dict[str, dict], chat: dict) -> np.ndarray:
    """Embeddings (prompts, width): means of the last hidden states over a prompt's tokens,
    standardised."""
    token_ids = model_folders.token_ids(
        tokenizer, [row["prompt"] for row in prompts.values()], chat
    )
    embeddings = np.zeros((len(token_ids), model.config.hidden_size))
    decoder = model.get_decoder()
    order = sorted(range(len(token_ids)), key=lambda index: len(token_ids[index]))
    with torch.no_grad():
        for start in range(0, len(token_ids), EMBEDDED_TOGETHER):
            batch = order[start : start + EMBEDDED_TOGETHER]
            rows = {"input_ids": [token_ids[index] for index in batch]}
            inputs = tokenizer.pad(rows, padding_side="right", return_tensors="pt")
            inputs = inputs.to(model.device)
            mask = inputs["attention_mask"]
            hidden = decoder(**inputs).last_hidden_state.float()
            sums = (hidden * mask[..., None]).sum(dim=1)
            embeddings[batch] = (sums / mask.sum(dim=1, keepdim=True)).double().cpu().numpy()
    return online_selectors.standardise(embeddings)
