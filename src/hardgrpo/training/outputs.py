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

# column of updates.csv -> key of TRL's log; `export` writes 1 - frac_reward_zero_std
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
ONLINE_COLUMNS = {name: name for name in ("kept", "replayed", "thrown_away", "labels", "trained")}
ONLINE_COLUMNS |= {name: name for name in ("process_loss", "process_accuracy")}
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
    """Write the outputs of a finished run. Those of a second round of annotation begin with the log
    and times of the first round, and steps are counted over both rounds."""
    checkpoint_every, updates = spec.training["checkpoint_every"], spec.training["updates"]
    steps = list(range(checkpoint_every, updates + 1, checkpoint_every))
    for step in steps:
        # check before the files are exported as results
        provenance.check_manifest(states.checkpoint(state, step))
    history = _read_history(state, updates)
    first_rows, first_timing = _read_first_round(spec) if spec.continues else ([], [])
    offset = len(first_rows)  # updates of the first round
    _export_checkpoints(spec, state, output / "checkpoints", steps, offset)
    columns = update_columns(spec.training)
    rows, timing = [], []
    for entry in history:
        row = {column: entry.get(key) for column, key in columns.items()}
        if row["learnable_share"] is not None:
            row["learnable_share"] = 1 - row["learnable_share"]
        rows.append({"step": offset + entry["step"]} | row)
        timing.append({"step": offset + entry["step"], "seconds": entry["step_time"]})
    differences = [row.get("logp_difference_max") for row in rows]
    differences = [difference for difference in differences if difference is not None]
    last_state = files.read_json(states.checkpoint(state, updates) / "manifest.json")
    facts = provenance.describe(
        started,
        run=spec.fields(),
        machine=vars(hardware),
        resumed_from=resumed_from,
        # near 0 if vLLM has the current weights
        sampling_difference=max(differences, default=None),
        # of this round, including updates before an interruption
        update_seconds=round(sum(timing_row["seconds"] for timing_row in timing), 3),
        completion_tokens=round(sum(row["tokens_mean"] * row["rollouts"] for row in rows)),
        # checksum of the base weights under the adapter, and largest GPU memory in use
        **{name: last_state[name] for name in ("base_sha256", "gpu_gib") if name in last_state},
        state=state.name,
    )
    last, measure = rows[-1], "reward_mean"
    if Recipe.of(spec.training).is_supervised:
        measure = "loss"
        facts["solution_tokens"] = round(sum(row["tokens_mean"] * row["prompts"] for row in rows))
    files.write_json(output / "provenance.json", facts)
    files.write_rows(output / "timing.csv", ["step", "seconds"], first_timing + timing)
    files.write_rows(output / "updates.csv", ["step", *columns], first_rows + rows)
    checkpoints = ", ".join(str(offset + step) for step in steps)
    say(
        f"{output}: {last['step']} updates, last {measure.removesuffix('_mean')} {last[measure]:.3f}, checkpoints at {checkpoints}"
    )


def update_columns(recipe: dict) -> dict[str, str]:
    """{column: key of TRL's log} for all columns of a recipe's `updates.csv` except `step`."""
    online, with_vllm = Recipe.of(recipe).is_online, recipe.get("generation") == "vllm"
    return UPDATE_COLUMNS | (ONLINE_COLUMNS if online else {}) | (VLLM_COLUMNS if with_vllm else {})


def _read_first_round(spec: Spec) -> tuple[list[dict], list[dict]]:
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
    """TRL's log, one entry per update. The last checkpoint holds the complete log."""
    log = files.read_json(states.checkpoint(state, updates) / states.TRAINING_FILE)["log_history"]
    # the entry at the end of training has no loss
    history = [entry for entry in log if "loss" in entry]
    if [entry["step"] for entry in history] != list(range(1, updates + 1)):
        raise RuntimeError(f"{state}: the log does not hold updates 1 to {updates} once each")
    return history


def _sort_adapter_config(path: Path) -> None:
    """Sort the lists and keys of an adapter's configuration: PEFT writes sets in random order."""
    config = files.read_json(path)
    config |= {key: sorted(value) for key, value in config.items() if isinstance(value, list)}
    files.write_json(path, dict(sorted(config.items())))
