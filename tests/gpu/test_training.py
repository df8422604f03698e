"""Training: memory and time beside the plan's, the base, vLLM's weights, interruption, fused layers,
evaluation, and two GPUs. Later checks read the run of `test_training`."""

import itertools
import json
import shutil
import signal
import statistics
import time

import pytest

from hardgrpo.runtime import files

# Largest mean difference of a token's log-probability between vLLM and the trainer in the first and
# in the last update
TOKEN_DIFFERENCE, LATER_DIFFERENCE = 0.06, 0.1
# The mean difference of the last update must be below GROWTH times that of the first update, plus
# ROUNDING. With a KL below LEAST_KL it may stay below although vLLM never got the trained weights.
GROWTH, ROUNDING, LEAST_KL = 1.5, 0.005, 0.005
# Largest KL before training; not exactly 0, because policy and reference compute in batches of
# different shapes
FIRST_KL = 2e-3
SCORE_DIFFERENCE = 0.06  # between vLLM and transformers, with and without an adapter


def check_sync(updates: list[dict]) -> None:
    """Check that vLLM sampled the rollouts with the trainer's weights, in every update."""
    first, last = updates[0], updates[-1]
    if "logp_difference_mean" not in last:  # without vLLM
        return
    differences = first["logp_difference_mean"], last["logp_difference_mean"]
    assert differences[0] < TOKEN_DIFFERENCE and differences[1] < LATER_DIFFERENCE
    assert differences[1] < GROWTH * differences[0] + ROUNDING, "vLLM does not get the weights"
    assert last["kl"] > LEAST_KL, (
        "the policy moved too little to tell whether vLLM gets the weights"
    )


def check_run(bench, note, run: dict, model: str, recipe: dict, gpus: int = 1) -> None:
    """Note the numbers of a run beside the plan's, and check its memory and its reference."""
    record, updates = run["record"], run["updates"]
    note.packages = record["packages"]
    seconds = record["update_seconds"] / (len(updates) - (record["resumed_from"] or 0))
    note("seconds of an update", seconds, bench.planned_update_seconds(model, recipe))
    for name in ("kl", "logp_difference_mean"):
        if name in updates[-1]:
            note(f"first {name}", updates[0][name])
            note(f"last {name}", updates[-1][name])
    if bench.gpus:
        planned = bench.planned_gib(model, recipe, gpus)
        parts = (planned[name] for name in planned if name not in ("vllm", "rollouts", "total"))
        note("GiB in use", run["gib"], planned["total"])
        note("GiB of the trainer", record.get("gpu_gib"), sum(parts))
        assert run["gpus_used"] == gpus
        assert run["gib"] < planned["total"] + 2, "more memory is used than planned"
    assert updates[0]["kl"] < FIRST_KL, "the reference is not the base"


def kill_and_resume(bench, name: str, model: str, recipe: dict, updates: int, gpus: int = 1):
    """A run that was killed after some saved updates and then resumed."""
    bench.clear(name)
    arguments = bench.training(name, model, recipe, gpus)
    with bench.start(name, "train_grpo", *arguments) as process:
        bench.wait_for_updates(name, process, updates)
    run = bench.train(name, model, recipe, fresh=False, gpus=gpus)
    assert run["record"]["resumed_from"] >= updates, "the run did not continue from its state"
    return run


def test_training(bench, note):
    """The base under the adapter does not change, and vLLM gets the trained weights."""
    recipe = bench.recipe("as_written", updates=6, checkpoint_every=2)
    run = bench.train("trained", bench.small, recipe)
    check_run(bench, note, run, bench.small, recipe)
    before = bench.part("checksum", bench.model(bench.small), recipe["base"])
    assert run["record"]["base_sha256"] == before, "the base under the adapter has changed"
    check_sync(run["updates"])


def test_kill(bench):
    """A killed run continues from its state."""
    whole = bench.read_run("trained")
    run = kill_and_resume(bench, "killed", bench.small, whole["record"]["run"]["training"], 4)
    assert run["record"]["base_sha256"] == whole["record"]["base_sha256"]
    check_sync(run["updates"])


@pytest.mark.parametrize("gpus", [1, 2])
def test_stop(bench, note, gpus):
    """SIGTERM saves the state. Slurm would kill the run 30 s later (KillWait)."""
    if gpus > 1 and not bench.several:
        pytest.skip("needs two GPUs")
    recipe, name = bench.read_run("trained")["record"]["run"]["training"], f"stopped_{gpus}"
    bench.clear(name)
    arguments = bench.training(name, bench.small, recipe, gpus=gpus)
    with bench.start(name, "train_grpo", *arguments) as process:
        bench.wait_for_updates(name, process, 2)
        saved, began = bench.saved_updates(name), time.monotonic()
        process.send_signal(signal.SIGTERM)
        status = process.wait()
    note("seconds to stop", time.monotonic() - began)
    is_saved = status == 1 and bench.saved_updates(name) >= saved
    assert is_saved or (bench.folder / name / "provenance.json").exists()


def test_fused_layers(bench, note):
    """A model with fused layers trains; with an adapter, vLLM and transformers agree on it."""
    recipe = bench.recipe("as_written", updates=2, checkpoint_every=2)
    run = bench.train("fused", bench.fused, recipe)
    check_run(bench, note, run, bench.fused, recipe)
    if not bench.has_vllm:
        return
    assert run["updates"][-1]["logp_difference_mean"] < LATER_DIFFERENCE
    adapter = str(bench.folder / "fused_adapter")
    shutil.rmtree(adapter, ignore_errors=True)
    bench.part("add_noise", bench.folder / "fused/checkpoints/step-2", adapter)
    prompts = [[10 + 7 * i + j for j in range(100)] for i in range(8)]
    job = {"model": str(bench.model(bench.fused)), "prompts": prompts, "tokens": 40}
    paths = [bench.folder / f"fused_{name}.json" for name in ("job", "swapped", "completions")]
    for path, adapters in zip(paths, ([None, adapter], [adapter, None])):
        files.write_json(path, job | {"adapters": adapters, "gpus": bench.gpus})
    bench.run("vllm", "engine_scores", "vllm", paths[0], paths[2])
    by_vllm = [[scores for _, scores in rows] for rows in json.loads(paths[2].read_text())]
    by_transformers, swapped = (
        bench.part("transformers", path, paths[2], program="engine_scores") for path in paths[:2]
    )
    scores_differ = max(map(mean_difference, by_vllm, by_transformers))
    adapter_changes = mean_difference(by_transformers[0], swapped[0])
    note("scores_differ", scores_differ)
    note("adapter_changes", adapter_changes)
    assert scores_differ < SCORE_DIFFERENCE
    assert adapter_changes > 3 * scores_differ, "vLLM may ignore the adapter"


def mean_difference(first: list[list[float]], second: list[list[float]]) -> float:
    """The mean absolute difference of the log-probabilities of the same tokens."""
    pairs = zip(itertools.chain(*first), itertools.chain(*second), strict=True)
    return statistics.fmean(abs(a - b) for a, b in pairs)


def test_evaluation(bench):
    """The engine starts once for the base and its adapters, and once for each full checkpoint."""
    checkpoints = bench.folder / "trained/checkpoints"
    rows = bench.evaluate("adapters", bench.small, checkpoints, "--base")
    assert {row["step"] for row in rows} == {0, 2, 4, 6}
    assert bench.log("adapters").count(f"engine {bench.engine} starts") == 1
    folder = bench.folder / "whole"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for step in (1, 2):
        (folder / f"step-{step}").symlink_to(bench.model(bench.small).resolve())
    files.write_json(folder / "manifest.json", {"steps": [1, 2]})
    bench.evaluate("whole_checkpoints", bench.small, folder)
    assert bench.log("whole_checkpoints").count(f"engine {bench.engine} starts") == 2


def test_two_gpus(bench, note):
    """A run uses both GPUs, and vLLM gets the trained weights."""
    if not bench.several:
        pytest.skip("needs two GPUs")
    recipe = bench.recipe("as_written", updates=6, checkpoint_every=2)
    run = bench.train("two", bench.small, recipe, gpus=2)
    check_run(bench, note, run, bench.small, recipe, gpus=2)
    check_sync(run["updates"])


def test_sharded_weights(bench, note):
    """All weights, sharded over two GPUs: reference, memory, resuming, testing the checkpoints."""
    if not bench.several:
        pytest.skip("needs two GPUs")
    recipe = bench.recipe("as_written_full", updates=4, checkpoint_every=2)
    run = kill_and_resume(bench, "sharded", bench.small, recipe, 2, gpus=2)
    check_run(bench, note, run, bench.small, recipe, gpus=2)
    check_sync(run["updates"])
    assert not bench.gpus or "sharded over them" in bench.log("sharded")
    assert bench.evaluate("sharded_tested", bench.small, bench.folder / "sharded/checkpoints")
