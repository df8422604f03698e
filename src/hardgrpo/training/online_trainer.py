"""TRL's GRPOTrainer with a selector that chooses the prompts of each sampling step (`hardgrpo.selection.online_selectors`). Imports torch and TRL.

A sampling step is a step of TRL's trainer. It samples as many rollouts as an update of plain GRPO, in one or more calls of the selector,
and then updates the model if enough groups are kept. Otherwise neither the weights nor the optimiser's state change.
"""

from pathlib import Path

import numpy as np
import torch
from typing_extensions import override  # comes with torch

from hardgrpo.runtime import errors, files, replacements
from hardgrpo.runtime.errors import UserError
from hardgrpo.sampling import decoding, model_folders
from hardgrpo.selection import online_selectors, selector_settings
from hardgrpo.study.spec import Spec
from hardgrpo.training import recipes, rollout_groups
from hardgrpo.training.process_rewards import ProcessRewards
from hardgrpo.training.trainer import Trainer

STATE, GROUPS, PROCESS = "selector.json", "groups.state", "process.state"  # files of a checkpoint


@replacements.checked
class OnlineTrainer(Trainer):
    """`rows` are the pool's prompts as rows of TRL's dataset, by id; `selector` is one of `online_selectors.KINDS` or None, `recipe` the recipe."""

    def __init__(self, *args, rows: dict[str, dict], selector, recipe: dict, **kwargs):
        super().__init__(*args, **kwargs)
        self.rows, self.selector, self.recipe = rows, selector, recipe
        self.chosen = selector_settings.with_defaults(recipe) if selector else {}
        self.is_off_policy = bool(self.chosen.get("replay"))
        self.pending: list[rollout_groups.Group] = []  # kept until an update is full
        self.buffer: list[rollout_groups.Group] = []  # to be replayed, the newest last
        self.known: set[str] = set()  # prompts sampled so far: each needs a label, unless the reward needs none
        self.waited = 0  # sampling steps since the last update
        self.idle = False  # whether this step updates nothing
        self.process = ProcessRewards(self, recipe["process"]) if recipe.get("process") else None
        self._check_micro_batches()

    # --- a sampling step -----------------------------------------------------------------------------------------------

    @override
    def _generate_and_score_completions(self, inputs):
        step, size, calls = self.state.global_step + 1, self.num_generations, []
        room = len(inputs) // size
        while room:
            asked = (
                self.selector.ask(step, room) if self.selector else online_selectors.Asked([row["id"] for row in inputs[::size]])
            )
            if not 1 <= len(asked.ids) <= room:
                raise ValueError(
                    f"selector {type(self.selector).__name__} asked for {len(asked.ids)} prompts where 1 to {room} have room"
                )
            batch = super()._generate_and_score_completions([self.rows[prompt] for prompt in asked.ids for _ in range(size)])
            self.rewards = self.rewards.to(batch["advantages"].device)
            if self.selector:
                self.selector.told(step, asked, [right / size for right in self.rewards.view(-1, size).sum(dim=1).tolist()])
            calls.append((asked, batch, self.rewards))
            room -= len(asked.ids)
        sampled = [prompt for asked, _, _ in calls for prompt in asked.ids]
        batch, counts = self._to_train_on(calls)
        new = set(sampled) - self.known
        self.known |= new
        self.idle = batch is None
        self._log_step([len(asked.ids) for asked, _, _ in calls], counts | {"labels": len(new), "trained": int(not self.idle)})
        if self.idle:  # `_compute_loss` ignores the batch; TRL needs its usual number of rows
            _, batch, _ = calls[-1]
            places = torch.arange(len(inputs), device=self.accelerator.device) % len(batch["advantages"])
            return {name: value[places] if value.ndim else value for name, value in batch.items()}
        rewards = batch.pop("rewards")
        if self.process:
            batch["advantages"] = self.process.learn(batch, rewards, size)
            for name, value in self.process.log.items():
                self._metrics["train"][name] = [value]
        return batch

    @override
    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        by_function = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self.rewards = by_function[:, 0].clone()
        return by_function

    def _to_train_on(self, calls: list) -> tuple[dict | None, dict]:
        """(the batch of this step's update with its `rewards`, or None; how many rollouts were kept, replayed and thrown away)."""
        size = self.num_generations
        sampled = sum(len(rewards) for _, _, rewards in calls)
        fills, replay = self.chosen.get("kind") in selector_settings.FILLS, self.chosen.get("replay", 0)
        if not fills and not replay and len(calls) == 1 and calls[0][0].trains:
            _, batch, rewards = calls[0]
            return batch | {"rewards": rewards}, self._counts(sampled, sampled // size)
        fresh = [
            group for asked, *call in calls if asked.trains for group in rollout_groups.split(call[0], asked.ids, call[1], size)
        ]
        if fills:
            return self._filled(fresh, sampled)
        again = self._replayed(fresh, replay)
        return self._joined(fresh + again) if fresh else None, self._counts(sampled, len(fresh), len(again))

    def _filled(self, fresh: list[rollout_groups.Group], sampled: int) -> tuple[dict | None, dict]:
        """Drop groups without a learning signal; update once enough others are there."""
        mixed = [group for group in fresh if group.is_mixed]
        self.pending += mixed
        self.waited += 1
        full = self.chosen["groups"]
        if len(self.pending) < full:
            if self.waited >= self.chosen["most_steps"]:
                tried = self.waited * self.recipe["prompts_per_update"]
                raise UserError(
                    f"recipe: selector {self.chosen['kind']}: {tried} prompts were tried in {self.waited} sampling steps, and only"
                    f" {len(self.pending)} of the {full} groups of an update are neither all right nor all wrong; choose prompts that"
                    " the model solves now and then (policy), raise group_size, or raise selector.most_steps"
                )
            return None, self._counts(sampled, len(mixed))
        left_over = len(self.pending) - full
        trained, self.pending, self.waited = self.pending[:full], [], 0
        return self._joined(trained), self._counts(sampled, len(mixed) - left_over)

    def _counts(self, sampled: int, kept: int, replayed: int = 0) -> dict[str, int]:
        """Numbers of rollouts for the log: `sampled` counts rollouts, `kept` and `replayed` count groups."""
        size = self.num_generations
        return {"kept": kept * size, "replayed": replayed * size, "thrown_away": sampled - kept * size}

    def _replayed(self, fresh: list[rollout_groups.Group], wanted: int) -> list[rollout_groups.Group]:
        """Draw up to `wanted` groups of earlier steps from the buffer, so that they and this step's groups fill whole
        micro-batches; then add this step's mixed groups to the buffer."""
        if not wanted:
            return []
        rng = np.random.Generator(np.random.PCG64(online_selectors.number(self.args.seed, "replay", self.state.global_step + 1)))
        count = min(wanted, len(self.buffer)) if fresh else 0
        while (len(fresh) + count) * self.num_generations % self.args.steps_per_generation:
            count -= 1
        again = [self.buffer[i] for i in sorted(rng.choice(len(self.buffer), count, replace=False))] if count else []
        self.buffer = (self.buffer + [group for group in fresh if group.is_mixed])[-self.chosen["buffer"] :]
        return again

    def _joined(self, found: list[rollout_groups.Group]) -> dict:
        batch = rollout_groups.join(found, self._tokenizer.pad_token_id, self.accelerator.device)
        if not self.use_vllm:
            logps = batch.pop("sampling_per_token_logps", None)
            if self.chosen.get("replay"):  # of the model that sampled the group; the ratio corrects for later updates
                batch["old_per_token_logps"] = logps
        return batch | {"rewards": torch.cat([group.rewards for group in found]).to(self.accelerator.device)}

    def _check_micro_batches(self) -> None:
        """Raise a `UserError` if an update's new groups do not fill whole micro-batches. TRL splits every update into the same
        number of micro-batches, whatever its size."""
        parts, kind = self.args.steps_per_generation, self.chosen.get("kind")
        updates = (
            [self.chosen["groups"]]
            if kind in selector_settings.FILLS
            else selector_settings.fresh_groups(self.recipe)
            if kind == "targeted"
            else []
        )
        for groups_of_update in updates:
            rows = groups_of_update * self.num_generations
            if rows % parts:
                raise UserError(
                    f"recipe: an update has {rows} new rollouts, which cannot be shared out over {parts} micro-batches; give the model"
                    f" another gpus.*.micro_batch (a program: --micro-batch), or change selector.{'groups' if kind in selector_settings.FILLS else 'reference'}"
                )

    # --- sampling, loss and log ----------------------------------------------------------------------------------------

    @override
    def _sampling(self, rows: int):
        kept = self.max_completion_length if self.chosen.get("replay") else 0
        return decoding.GlobalSampling(rows, self.temperature, kept, self.accelerator.device)

    @override
    def _compute_loss(self, model, inputs):
        if self.idle:  # no gradient at all: with a gradient of zero the optimiser would apply its momentum
            return torch.zeros((), device=self.accelerator.device, requires_grad=True)
        return super()._compute_loss(model, inputs)

    def _log_step(self, sizes: list[int], counts: dict) -> None:
        """Reduce the metrics of a step's calls to maximum, minimum or the mean over all rollouts, by their names; add `counts`."""
        metrics, size = self._metrics["train"], self.num_generations
        for name, values in metrics.items():
            if len(sizes) > 1 and len(values) == len(sizes):
                kind = name.rpartition("/")[2].partition("_")[0]  # TRL's names: completions/max_length, .../max
                mean = sum(value * part for value, part in zip(values, sizes)) / sum(sizes)
                metrics[name] = [max(values) if kind == "max" else min(values) if kind == "min" else mean]
        metrics["prompts"], metrics["rollouts"] = [sum(sizes)], [sum(sizes) * size]
        for name, value in counts.items():
            metrics[name] = [value]

    # --- checkpoints ---------------------------------------------------------------------------------------------------

    @override
    def train(self, *args, **kwargs):
        """Raise a `UserError` at the end of a run that never updated the model: its checkpoints would be the base model."""
        done = super().train(*args, **kwargs)
        logged = [entry["trained"] for entry in self.state.log_history if "trained" in entry]
        if self.state.global_step == self.state.max_steps and logged and not any(logged):
            raise UserError(
                f"recipe: in all {len(logged)} sampling steps of the run nothing was left to train on, so that no weight was updated; choose prompts that"
                " the model solves now and then (policy), raise updates, or ask the selector for less (selector.groups, selector.reference)"
            )
        return done

    @override
    def _save_checkpoint(self, model, trial):
        super()._save_checkpoint(model, trial)
        folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
        state = {
            "selector": self.selector.state() if self.selector else None,
            "waited": self.waited,
            "known": sorted(self.known),
        }
        files.write_json(folder / STATE, state)
        rollout_groups.save(folder / GROUPS, {"pending": self.pending, "buffer": self.buffer})
        if self.process:
            self.process.save(folder / PROCESS)

    @override
    def _load_optimizer_and_scheduler(self, checkpoint):
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        folder = Path(checkpoint)
        state, kept = files.read_json(folder / STATE), rollout_groups.load(folder / GROUPS)
        if self.selector:
            self.selector.restore(state["selector"])
        self.waited, self.known = state["waited"], set(state["known"])
        self.pending, self.buffer = kept["pending"], kept["buffer"]
        if self.process:
            self.process.load(folder / PROCESS)


def trainer(spec: Spec, problems: dict, rows: dict[str, dict], hardware: recipes.Hardware, arguments: dict) -> OnlineTrainer:
    """The trainer of a recipe with a selector or with process rewards. `rows` are the prompts by id, `arguments` those of TRL's trainer."""
    recipe, selector = spec.training, None
    if recipe.get("selector"):
        chosen, ids, measures, found = selector_settings.with_defaults(recipe), list(rows), None, None
        if chosen["kind"] == "curriculum":
            measures = of_curriculum(spec, problems, ids, chosen["by"])
        check_memory(recipe, max(len(str(row["prompt"])) for row in rows.values()), spec.completion_tokens, chosen)
        if chosen["kind"] == "targeted":
            online_selectors.check_reference(chosen, len(ids))  # before the pool is embedded
            if hardware.gpus:
                arguments["model"].to("cuda")
            with errors.while_loading(spec.model_folder):
                found = embeddings(arguments["model"], arguments["processing_class"], rows, spec.chat)
        selector = online_selectors.make(recipe, online_selectors.Pool(ids, measures, found), spec.seed)
    return OnlineTrainer(**arguments, rows=rows, selector=selector, recipe=recipe)


def of_curriculum(spec: Spec, problems: dict, ids: list[str], by: str) -> dict[str, float]:
    """The measure that a curriculum sorts by, of each prompt: the problem's tier, or its pass rate in the subset's file."""
    if by == "tier":
        found, where = {i: _number(problems[i].get("tier"), spec.problems, i) for i in ids}, spec.problems
    else:
        rows = files.read_rows(spec.subset, {"id": str, "pass_rate": float})
        found, where = {row["id"]: row["pass_rate"] for row in rows}, spec.subset
    without = [i for i in ids if found[i] is None]
    if without:
        raise UserError(
            f"{where}: prompt '{without[0]}' has no {by}, by which the recipe's curriculum sorts; choose another selector.by, or a policy"
            " and a task that have it"
        )
    return found


def _number(tier, path: str, prompt: str) -> float | None:
    """A tier as a number: the cells of a CSV file are strings."""
    try:
        return None if tier in (None, "") else float(tier)
    except (TypeError, ValueError):
        raise UserError(
            f"{path}: prompt '{prompt}' has the tier {tier!r}, and a curriculum by tier sorts numbers; choose another selector.by"
        ) from None


def check_memory(recipe: dict, prompt_tokens: int, completion_tokens: int, chosen: dict) -> None:
    """Raise a `UserError` if a full buffer would not fit into half of this machine's free memory. `prompt_tokens` is an
    upper bound, such as the characters of the longest prompt."""
    import psutil  # comes with accelerate

    if not chosen.get("replay"):
        return
    wanted = rollout_groups.bytes_of(chosen["buffer"], recipe["group_size"], prompt_tokens, completion_tokens)
    free = psutil.virtual_memory().available
    if wanted > free / 2:
        raise UserError(
            f"recipe: selector.buffer: {chosen['buffer']} groups of {recipe['group_size']} completions of {completion_tokens} tokens take"
            f" {wanted / 2**30:.1f} GiB, more than half of the {free / 2**30:.1f} GiB of memory that are free; lower it"
        )


def embeddings(model, tokenizer, rows: dict[str, dict], chat: dict, batch_size: int = 64) -> np.ndarray:
    """The mean over a prompt's tokens of the model's last hidden states, standardised over the prompts: (prompts, width)."""
    texts = model_folders.token_ids(tokenizer, [row["prompt"] for row in rows.values()], chat)
    found, body = np.zeros((len(texts), model.config.hidden_size)), model.get_decoder()
    by_length = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    with torch.no_grad():
        for start in range(0, len(texts), batch_size):
            places = by_length[start : start + batch_size]
            width = max(len(texts[i]) for i in places)
            mask = torch.tensor([[1] * len(texts[i]) + [0] * (width - len(texts[i])) for i in places], device=model.device)
            padding = tokenizer.pad_token_id
            ids = torch.tensor([texts[i] + [padding] * (width - len(texts[i])) for i in places], device=model.device)
            hidden = body(input_ids=ids, attention_mask=mask).last_hidden_state.float() * mask[..., None]
            found[places] = (hidden.sum(dim=1) / mask.sum(dim=1, keepdim=True)).double().cpu().numpy()
    return online_selectors.standardised(found)
