"""What a finished training run writes: checkpoints, `updates.csv`, `timing.csv` and `provenance.json`."""

import json
import shutil
from pathlib import Path

from hardgrpo.runtime import files, provenance, states
from hardgrpo.runtime.errors import UserError
from hardgrpo.runtime.interruption import say
from hardgrpo.study import settings
from hardgrpo.study.spec import Spec
from hardgrpo.training import recipes

UPDATE_COLUMNS = {  # our name: TRL's name in its log; values that the log lacks stay empty
    "prompts": "prompts",
    "rollouts": "rollouts",
    "reward_mean": "reward",
    "learnable_share": "frac_reward_zero_std",
    "all_right_share": "all_right_share",
    "correct_share": "correct_share",
    "answered_share": "answered_share",
    "undecided_share": "undecided_share",
    "truncated_share": "completions/clipped_ratio",
    "tokens_mean": "completions/mean_length",
    "kl": "kl",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
}
ONLINE_COLUMNS = {
    name: name for name in ("kept", "replayed", "thrown_away", "labels", "trained", "process_loss", "process_accuracy")
}
LOGP_DIFFERENCE = "sampling/sampling_logp_difference/mean"  # between vLLM's and the trainer's, of a sampled token
VLLM_COLUMNS = {
    "logp_difference_mean": LOGP_DIFFERENCE,
    "logp_difference_max": "sampling/sampling_logp_difference/max",
    "importance_ratio_mean": "sampling/importance_sampling_ratio/mean",
    "masked_share": "masked_share",
}


def are_complete(output: Path, state: Path) -> bool:
    """Whether a process that trained in the folder `state` has written all outputs of its run."""
    try:
        if files.read_json(output / "provenance.json").get("state") != state.name:
            return False
        for folder in provenance.checkpoints(output / "checkpoints").values():
            provenance.check_manifest(folder)
    except UserError:
        return False
    return all((output / name).is_file() for name in ("updates.csv", "timing.csv"))


def export(spec: Spec, state: Path, output: Path, started: float, resumed_from: int, hardware: recipes.Hardware) -> None:
    """Write a finished run. A second round continues the steps, the log and the times of the first."""
    every, updates = spec.training["checkpoint_every"], spec.training["updates"]
    for step in range(every, updates + 1, every):
        provenance.check_manifest(states.checkpoint(state, step))  # before its files count as results
    history, steps = _history(state, updates), list(range(every, updates + 1, every))
    before, times = _first_round(spec) if spec.continues else ([], [])
    done = len(before)
    _export_checkpoints(state, output / "checkpoints", steps, done)
    supervised = settings.is_supervised(spec.training)
    columns = columns_of(spec.training)
    rows = [{"step": done + e["step"]} | {ours: e.get(theirs) for ours, theirs in columns.items()} for e in history]
    for row in rows:
        if row["learnable_share"] is not None:
            row["learnable_share"] = 1 - row["learnable_share"]
    rows = before + rows
    own = [{"step": done + e["step"], "seconds": e["step_time"]} for e in history]
    times += own
    files.write_rows(output / "timing.csv", ["step", "seconds"], times)
    last_state = provenance.read_manifest(states.checkpoint(state, updates) / "manifest.json", f"delete {state} and run again")
    facts = provenance.describe(
        started,
        run=spec.fields(),
        machine=vars(hardware),
        resumed_from=resumed_from,
        # Largest difference between the log-probabilities that vLLM and the trainer give a sampled token; near 0 while vLLM has the
        # current weights.
        sampling_difference=max((row["logp_difference_max"] for row in rows[done:] if "logp_difference_max" in row), default=None),
        # Of this job alone, like `seconds`: a second round does not count the first.
        update_seconds=round(sum(time["seconds"] for time in own), 3),
        completion_tokens=round(sum(r["tokens_mean"] * r["rollouts"] for r in rows[done:])),
        # The checksum of the base under the adapter after the last update, which training must not change; GiB that updates used of a GPU.
        **{name: last_state[name] for name in ("base_sha256", "gpu_gib") if name in last_state},
        state=state.name,
        # Tokens of worked solutions; GRPO trains on none.
        **({"solution_tokens": round(sum(r["tokens_mean"] * r["prompts"] for r in rows))} if supervised else {}),
    )
    files.write_json(output / "provenance.json", facts)
    files.write_rows(output / "updates.csv", ["step", *columns], rows)
    last = rows[-1]
    ended = f"last loss {last['loss']:.3f}" if supervised else f"last reward {last['reward_mean']:.3f}"
    say(f"{output}: {last['step']} updates, {ended}, checkpoints at {', '.join(str(done + step) for step in steps)}")


def columns_of(recipe: dict) -> dict[str, str]:
    """The columns of a recipe's `updates.csv` after `step`: {our name: TRL's name in its log}."""
    online, with_vllm = settings.is_online(recipe), recipe.get("generation") == "vllm"
    return UPDATE_COLUMNS | (ONLINE_COLUMNS if online else {}) | (VLLM_COLUMNS if with_vllm else {})


def _first_round(spec: Spec) -> tuple[list[dict], list[dict]]:
    """The rows of `updates.csv` and of `timing.csv` of a run's first round."""
    log = files.read_rows(f"{spec.continues}/updates.csv", {"step": int} | dict.fromkeys(columns_of(spec.training), float))
    return log, files.read_rows(f"{spec.continues}/timing.csv", {"step": int, "seconds": float})


def _export_checkpoints(state: Path, folder: Path, steps: list[int], done: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # checkpoints of an earlier recipe, whose manifest Snakemake has already removed
    with files.atomic(folder) as temporary:
        for step in steps:
            target = temporary / f"step-{done + step}"
            target.mkdir(parents=True)
            for pattern in states.MODEL_FILES:
                for path in states.checkpoint(state, step).glob(pattern):
                    files.link_or_copy(path, target / path.name)
            if (target / "adapter_config.json").exists():
                _sort_adapter_config(target / "adapter_config.json")
            provenance.write_manifest(target)
        files.write_text(temporary / "manifest.json", json.dumps({"steps": [done + step for step in steps]}) + "\n")


def _history(state: Path, updates: int) -> list[dict]:
    """TRL's log, one entry per update. The last checkpoint holds all of it, also after interruptions."""
    log = files.read_json(states.checkpoint(state, updates) / states.TRAINING_FILE)["log_history"]
    history = [entry for entry in log if "loss" in entry]  # the entry at the end of training has none
    if [entry["step"] for entry in history] != list(range(1, updates + 1)):
        raise RuntimeError(f"{state}: the log does not hold updates 1 to {updates} once each")
    return history


def _sort_adapter_config(path: Path) -> None:
    """PEFT writes sets of module names in a random order; equal runs must write equal files."""
    config = files.read_json(path)
    files.write_json(path, {key: sorted(value) if isinstance(value, list) else value for key, value in sorted(config.items())})
