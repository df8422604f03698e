"""Write the outputs of a finished training run: checkpoints, `updates.csv`, `timing.csv` and
`provenance.json`."""

import json
import shutil
from pathlib import Path

from hardgrpo.runtime import files, provenance, states
from hardgrpo.runtime.interruption import say
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.spec import Spec
from hardgrpo.training import recipes

# column of updates.csv -> key of TRL's log; a key that is missing from the log gives an empty cell.
# `export` writes 1 - frac_reward_zero_std as learnable_share.
UPDATE_COLUMNS = {
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
    "kept": "kept",
    "replayed": "replayed",
    "thrown_away": "thrown_away",
    "labels": "labels",
    "trained": "trained",
    "process_loss": "process_loss",
    "process_accuracy": "process_accuracy",
}
# difference between vLLM's and the trainer's log-probability of a sampled token
LOGP_DIFFERENCE = "sampling/sampling_logp_difference/mean"
VLLM_COLUMNS = {
    "logp_difference_mean": LOGP_DIFFERENCE,
    "logp_difference_max": "sampling/sampling_logp_difference/max",
    "importance_ratio_mean": "sampling/importance_sampling_ratio/mean",
    "masked_share": "masked_share",
}


def export(
    spec: Spec,
    state: Path,
    output: Path,
    started: float,
    resumed_from: int,
    hardware: recipes.Hardware,
) -> None:
    """Write the outputs of a finished run. After a second round of annotation, the outputs begin
    with the log and times of the first round, and steps are counted over both rounds."""
    checkpoint_every, updates = spec.training["checkpoint_every"], spec.training["updates"]
    steps = list(range(checkpoint_every, updates + 1, checkpoint_every))
    for step in steps:
        # check before the files are exported as results
        provenance.check_manifest(states.checkpoint(state, step))
    history = _read_history(state, updates)
    first_round_rows, timing = _read_first_round(spec) if spec.continues else ([], [])
    offset = len(first_round_rows)  # updates of the first round
    _export_checkpoints(spec, state, output / "checkpoints", steps, offset)
    supervised = Recipe.of(spec.training).is_supervised
    columns = update_columns(spec.training)
    rows = [
        {"step": offset + entry["step"]}
        | {column: entry.get(key) for column, key in columns.items()}
        for entry in history
    ]
    for row in rows:
        if row["learnable_share"] is not None:
            row["learnable_share"] = 1 - row["learnable_share"]
    rows = first_round_rows + rows
    own_timing = [
        {"step": offset + entry["step"], "seconds": entry["step_time"]} for entry in history
    ]
    timing += own_timing
    files.write_rows(output / "timing.csv", ["step", "seconds"], timing)
    differences = [row.get("logp_difference_max") for row in rows[offset:]]
    differences = [difference for difference in differences if difference is not None]
    last_state = files.read_json(states.checkpoint(state, updates) / "manifest.json")
    facts = provenance.describe(
        started,
        run=spec.fields(),
        machine=vars(hardware),
        resumed_from=resumed_from,
        # Largest difference between the log-probabilities of a sampled token under vLLM and under
        # the trainer: near 0 if vLLM has the current weights.
        sampling_difference=max(differences, default=None),
        # Seconds and tokens of the updates of this round, including updates before an interruption.
        update_seconds=round(sum(timing_row["seconds"] for timing_row in own_timing), 3),
        completion_tokens=round(sum(row["tokens_mean"] * row["rollouts"] for row in rows[offset:])),
        # Checksum of the base weights under the adapter (training must not change these weights),
        # and the largest GPU memory in use in an update, in GiB.
        **{name: last_state[name] for name in ("base_sha256", "gpu_gib") if name in last_state},
        state=state.name,
        **(
            {"solution_tokens": round(sum(row["tokens_mean"] * row["prompts"] for row in rows))}
            if supervised
            else {}
        ),
    )
    files.write_json(output / "provenance.json", facts)
    files.write_rows(output / "updates.csv", ["step", *columns], rows)
    last = rows[-1]
    summary = (
        f"last loss {last['loss']:.3f}" if supervised else f"last reward {last['reward_mean']:.3f}"
    )
    say(
        f"{output}: {last['step']} updates, {summary}, checkpoints at {', '.join(str(offset + step) for step in steps)}"
    )


def update_columns(recipe: dict) -> dict[str, str]:
    """{column: key of TRL's log} for all columns of a recipe's `updates.csv` except `step`."""
    online, with_vllm = Recipe.of(recipe).is_online, recipe.get("generation") == "vllm"
    return UPDATE_COLUMNS | (ONLINE_COLUMNS if online else {}) | (VLLM_COLUMNS if with_vllm else {})


def _read_first_round(spec: Spec) -> tuple[list[dict], list[dict]]:
    """The rows of `updates.csv` and of `timing.csv` of a run's first round."""
    log = files.read_rows(
        f"{spec.continues}/updates.csv",
        {"step": int} | dict.fromkeys(update_columns(spec.training), float),
    )
    return log, files.read_rows(f"{spec.continues}/timing.csv", {"step": int, "seconds": float})


def _export_checkpoints(
    spec: Spec, state: Path, folder: Path, steps: list[int], offset: int
) -> None:
    # Remove the checkpoints of an earlier recipe. Snakemake removes only their manifest.
    shutil.rmtree(folder, ignore_errors=True)
    with files.atomic(folder) as temporary:
        for step in steps:
            target = temporary / f"step-{offset + step}"
            target.mkdir(parents=True)
            for pattern in states.MODEL_FILES:
                for path in states.checkpoint(state, step).glob(pattern):
                    files.link_or_copy(path, target / path.name)
            if (target / "adapter_config.json").exists():
                _sort_adapter_config(target / "adapter_config.json")
            provenance.write_manifest(target, spec=spec.digest())
        facts = {"spec": spec.digest(), "steps": [offset + step for step in steps]}
        files.write_text(temporary / "manifest.json", json.dumps(facts) + "\n")


def _read_history(state: Path, updates: int) -> list[dict]:
    """TRL's log, one entry per update. The last checkpoint holds the complete log, also after
    interruptions."""
    log = files.read_json(states.checkpoint(state, updates) / states.TRAINING_FILE)["log_history"]
    # the entry at the end of training has no loss
    history = [entry for entry in log if "loss" in entry]
    if [entry["step"] for entry in history] != list(range(1, updates + 1)):
        raise RuntimeError(f"{state}: the log does not hold updates 1 to {updates} once each")
    return history


def _sort_adapter_config(path: Path) -> None:
    """Sort the lists and keys of an adapter's configuration. PEFT writes sets in random order, but
    equal runs need equal files."""
    config = files.read_json(path)
    config |= {key: sorted(value) for key, value in config.items() if isinstance(value, list)}
    files.write_json(path, dict(sorted(config.items())))
