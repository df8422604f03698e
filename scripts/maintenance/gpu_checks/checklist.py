"""The checks of gpu_check.py, in order. A check returns its numbers, or raises `Failed` with the
reason.

Tolerances are those of arithmetic in bf16. Logits between 16 and 32 are rounded to multiples of
1/8, an error with a standard deviation of .036. Between two implementations, a token's
log-probability then differs by .041 on average, and the KL is .0013. Measured with SmolLM2-135M on
an H100: .043 and .0011. The checks also report numbers without a tolerance, such as speeds
(docs/gpus.md).
"""

from hardgrpo.data import tasks
from hardgrpo.runtime import environments, files, provenance, warm

import json
import platform
import shutil
import signal
import statistics
import time
from pathlib import Path

from workbench import ROOT, Failed, PeakMemory, Run, Workbench

# Largest difference between two probes in the mean log-probability of a token.
PROBE_DIFFERENCE = 0.03
# Largest mean difference of a token's log-probability between vLLM and the trainer, before any
# update.
TOKEN_DIFFERENCE = 0.06
LATER_DIFFERENCE = 0.1  # the same for the last update
# The mean difference of the last update must be below GROWTH times that of the first update, plus
# ROUNDING.
GROWTH, ROUNDING = 1.5, 0.005
# `check_sync` needs a KL above this value in the last update. With a smaller KL, the mean
# difference may stay below the limit of GROWTH although vLLM has not received the trained weights.
LEAST_KL = 0.005
# Largest mean difference of a token's log-probability between vLLM and transformers, with and
# without an adapter.
SCORE_DIFFERENCE = 0.06
# Largest KL before training; not exactly 0, because policy and reference compute in batches of
# different shapes.
FIRST_KL = 2e-3
# Largest differences of the loss kernel, see loss_kernel.py
KERNEL_DIFFERENCES = {
    "logp_to_torch": 1e-3,
    "gradient_to_torch": 1e-2,
    "logp_to_float64": 0.03,
    "gradient_to_float64": 2e-2,
}
SCORING = ROOT / "scripts/maintenance/gpu_checks/scoring.py"
LOSS_KERNEL = ROOT / "scripts/maintenance/gpu_checks/loss_kernel.py"
# Environment of the training runs that a check kills or stops. The signal goes to the process that
# the check starts, so this process itself must train. With the server of hardgrpo.runtime.warm, a
# fork of the server would train.
WITHOUT_WARM = {warm.SOCKET: warm.OFF}
KERNEL = """
import torch, triton, triton.language as tl
@triton.jit
def double(x, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(x + at, 2 * tl.load(x + at))
x = torch.ones(16, device="cuda")
double[(1,)](x, 16)
assert x.tolist() == [2.0] * 16
"""


def expect(holds: bool, reason: str, numbers: dict) -> None:
    """Raise `Failed` unless a condition holds."""
    if not holds:
        raise Failed(reason, numbers)


def check_node(bench: Workbench) -> dict:
    """The node: driver, libraries, compiler, caches, and a kernel that is compiled"""
    numbers = {
        "python": platform.python_version(),
        "glibc": platform.libc_ver()[1],
        "cuda": environments.cuda_version(),
    }
    numbers |= {
        "free_gib": round(shutil.disk_usage(bench.folder).free / 2**30),
        "nvcc": shutil.which("nvcc"),
    }
    environments.prepare_compilation()
    modules = ["torch", "transformers", "trl", "peft"]
    if bench.gpus:
        environments.check_gpus(bench.gpus)
        modules += ["vllm", "bitsandbytes", "torchaudio", "torchvision"] * bench.has_vllm
        numbers["gpus"] = provenance.describe(time.time())["gpus"]
        files.write_text(bench.folder / "kernel.py", KERNEL)
        bench.run("kernel", bench.folder / "kernel.py")
    files.write_text(bench.folder / "imports.py", f"import {', '.join(modules)}\n")
    bench.run("imports", bench.folder / "imports.py")
    return numbers


def check_loss_kernel(bench: Workbench) -> dict:
    """The kernel of TRL's loss: log-probabilities and gradients"""
    if not bench.gpus:
        return {"left_out": "the kernel needs a GPU"}
    numbers = json.loads(bench.run("loss_kernel", LOSS_KERNEL).splitlines()[-1])
    check_kernel_differences(numbers)
    return numbers


def check_kernel_differences(numbers: dict) -> None:
    """Raise `Failed` if the loss kernel differs too much from torch or from float64."""
    for name, limit in KERNEL_DIFFERENCES.items():
        reason = f"the loss kernel computes something else: {name} is {numbers[name]:.2g}, expected below {limit}"
        expect(numbers[name] < limit, reason, numbers)


def check_sampling(bench: Workbench) -> dict:
    """Sampling: speed, and whether repeated probes and vLLM's two model runners agree"""
    numbers, rows_by_key = {}, {}
    environments_by_name = {"first": {}, "again": {}} | (
        {"v1_runner": {"VLLM_USE_V2_MODEL_RUNNER": "0"}} if bench.gpus and bench.has_vllm else {}
    )
    for name, env in environments_by_name.items():
        rows, record = bench.probe(f"probe_{name}", bench.setting.small, **env)
        rows_by_key[name] = {(row["id"], row["sample"]): row for row in rows}
        numbers[f"{name}_tokens_per_second"] = round(
            record["completion_tokens"] / record["work_seconds"], 1
        )
        numbers[f"{name}_start_seconds"] = round(record["seconds"] - record["work_seconds"], 1)
        numbers[f"{name}_log_probability"] = statistics.fmean(
            row["log_probability"] for row in rows
        )
    first = rows_by_key["first"]
    for name in list(environments_by_name)[1:]:
        same_share = sum(
            first[key]["completion"] == row["completion"] for key, row in rows_by_key[name].items()
        ) / len(first)
        numbers[f"{name}_same_texts"] = round(same_share, 3)
        difference = abs(numbers["first_log_probability"] - numbers[f"{name}_log_probability"])
        expect(
            difference < PROBE_DIFFERENCE,
            f"probe '{name}': the mean log-probability of a token differs by {difference:.3f} nats from that of the first probe",
            numbers,
        )
    return numbers


def check_training(bench: Workbench) -> dict:
    """Training by `as_written`: the base does not change, and vLLM gets the trained weights"""
    recipe = bench.recipe(
        "as_written", updates=6, checkpoint_every=2, **bench.setting.moving_adapter
    )
    run = bench.train("trained", bench.setting.small, recipe)
    numbers = run_numbers(run) | {
        "base_before": checksum(bench, bench.setting.small, recipe["base"])
    }
    numbers["base_after"] = run.record["base_sha256"]
    expect(
        numbers["base_before"] == numbers["base_after"],
        "the base under the adapter has changed",
        numbers,
    )
    expect(
        run.updates[0]["kl"] < FIRST_KL,
        "the KL of the first update is too large: the reference is not the base",
        numbers,
    )
    check_differences(run, numbers)
    check_sync(run, numbers)
    if bench.gpus:
        need = bench.expected_gib(bench.setting.small, recipe, 1)
        numbers |= {"estimated_gib": round(need["total"], 1)}
        numbers["estimated_update_gib"] = round(
            sum(need[name] for name in need if name not in ("vllm", "rollouts", "total")), 1
        )
        expect(
            numbers["peak_gib"] < need["total"] + 2, "more memory is used than estimated", numbers
        )
    return numbers


def check_seeds(bench: Workbench) -> dict:
    """Seeds: another seed samples other rollouts of the same prompt"""
    recipe = bench.recipe("as_written", updates=1, checkpoint_every=1, group_size=8)
    runs = [
        bench.train(f"seed{seed}", bench.setting.small, recipe, seed=seed, subset="one")
        for seed in (0, 1)
    ]
    columns = ("tokens_mean", "reward_mean", "correct_share", "truncated_share", "learnable_share")
    first_numbers, second_numbers = (
        {name: run.updates[0][name] for name in columns} for run in runs
    )
    numbers = {
        f"seed{seed}_{name}": value
        for seed, row in enumerate((first_numbers, second_numbers))
        for name, value in row.items()
    }
    expect(first_numbers != second_numbers, "two seeds sampled the same rollouts", numbers)
    return numbers


def check_interruption(bench: Workbench) -> dict:
    """Interruption: a killed run continues from its state; how long a run takes to stop"""
    uninterrupted = bench.read_run("trained")
    run, numbers = kill_and_resume(
        bench,
        "killed",
        bench.setting.small,
        uninterrupted.record["run"]["training"],
        least_updates=4,
    )
    numbers |= {
        "next_loss": run.updates[4]["loss"],
        "next_loss_of_the_uninterrupted_run": uninterrupted.updates[4]["loss"],
    }
    expect(
        run.record["base_sha256"] == uninterrupted.record["base_sha256"],
        "the resumed run has another base model",
        numbers,
    )
    return numbers | stop_run(
        bench, "stopped", bench.setting.small, uninterrupted.record["run"]["training"]
    )


def check_large(bench: Workbench) -> dict:
    """Large models: memory, vLLM's cache, and an adapter on fused layers in both engines"""
    numbers = {}
    for model in bench.setting.large:
        run = bench.train(
            f"large_{model}", model, bench.recipe("as_written", updates=2, checkpoint_every=2)
        )
        log = bench.log(f"large_{model}")
        cache = [
            line.split("KV cache size:")[1].split()[0]
            for line in log.splitlines()
            if "KV cache size:" in line
        ]
        numbers |= {f"{model}_{name}": value for name, value in run_numbers(run).items()}
        numbers[f"{model}_cache_tokens"] = cache[-1] if cache else None
        check_differences(run, numbers)
    if not bench.has_vllm:
        return numbers | {"adapter_scores": "left out: it compares with vLLM"}
    numbers |= score_adapter(bench, bench.setting.large[-1], run.checkpoint(2))
    expect(
        numbers["scores_differ"] < SCORE_DIFFERENCE,
        "with an adapter, vLLM and transformers compute different log-probabilities",
        numbers,
    )
    expect(
        numbers["adapter_changes"] > 3 * numbers["scores_differ"],
        "the adapter changes log-probabilities too little to tell whether vLLM uses the adapter",
        numbers,
    )
    return numbers


def check_evaluation(bench: Workbench) -> dict:
    """Evaluation: one engine start for all adapters, one for each full-weight checkpoint"""
    run = bench.read_run("trained")
    rows = bench.evaluate("adapters", bench.setting.small, run.folder / "checkpoints", "--base")
    numbers = {
        "starts": bench.log("adapters").count(f"engine {bench.engine} starts"),
        "completions": len(rows),
    }
    expect(
        numbers["starts"] == 1,
        "the engine started more than once for the base and its adapters",
        numbers,
    )
    folder = bench.folder / "whole"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for step in (1, 2):
        (folder / f"step-{step}").symlink_to(Path(bench.model(bench.setting.small)).resolve())
    files.write_json(folder / "manifest.json", {"steps": [1, 2]})
    rows = bench.evaluate("whole_checkpoints", bench.setting.small, folder)
    numbers |= {
        f"whole_{step}": sum(row["answered"] for row in rows if row["step"] == step)
        for step in (1, 2)
    }
    numbers["whole_starts"] = bench.log("whole_checkpoints").count(f"engine {bench.engine} starts")
    expect(
        numbers["whole_starts"] == 2,
        "the engine did not start once for each full-weight checkpoint",
        numbers,
    )
    return numbers


def check_two_gpus(bench: Workbench) -> dict:
    """Two GPUs: an engine on both, a run on both, and a run on one while both are visible"""
    if too_few := lacks_two_gpus(bench):
        return too_few
    recipe = bench.recipe(
        "as_written", updates=6, checkpoint_every=2, **bench.setting.moving_adapter
    )
    numbers = {}
    if bench.gpus:
        numbers |= compare_engines(bench)
        # The run must use one GPU even if CUDA_VISIBLE_DEVICES is not set.
        visible = bench.train("visible", bench.setting.small, recipe)
        check_gpus_used("the run on one GPU", visible.gpus_used, 1, numbers)
    run = bench.train("two", bench.setting.small, recipe, gpus=2)
    if bench.gpus:
        check_gpus_used("the run on two GPUs", run.gpus_used, 2, numbers)
    check_differences(run, numbers | run_numbers(run))
    check_sync(run, numbers | run_numbers(run))
    return (
        numbers
        | run_numbers(run)
        | stop_run(bench, "two_stopped", bench.setting.small, recipe, gpus=2)
    )


def check_sharded(bench: Workbench) -> dict:
    """All weights on two GPUs: reference, memory, saving, resuming, and testing the checkpoints"""
    if too_few := lacks_two_gpus(bench):
        return too_few
    recipe = bench.recipe(
        "as_written_full", updates=4, checkpoint_every=2, **bench.setting.moving_full
    )
    run, numbers = kill_and_resume(
        bench, "sharded", bench.setting.small, recipe, least_updates=2, gpus=2
    )
    numbers |= run_numbers(run)
    expect(
        run.updates[0]["kl"] < FIRST_KL,
        "the KL of the first update is too large: the reference is not the base",
        numbers,
    )
    check_differences(run, numbers)
    check_sync(run, numbers)
    if bench.gpus:
        expect("sharded over them" in bench.log("sharded"), "the weights are not sharded", numbers)
        numbers["estimated_gib"] = round(
            bench.expected_gib(bench.setting.small, recipe, 2)["total"], 1
        )
        expect(
            numbers["peak_gib"] < numbers["estimated_gib"] + 2,
            "more memory is used than estimated",
            numbers,
        )
    rows = bench.evaluate("sharded_tested", bench.setting.small, run.folder / "checkpoints")
    return numbers | {"answered": sum(row["answered"] for row in rows), "tested": len(rows)}


CHECKS = [
    check_node, check_loss_kernel, check_sampling, check_training, check_seeds, check_interruption, check_large, check_evaluation,
    check_two_gpus, check_sharded,
]  # fmt: skip


def lacks_two_gpus(bench: Workbench) -> dict | None:
    """The result of a check that is skipped because fewer than two GPUs are visible; None if there
    are enough."""
    if not bench.gpus:
        return None  # on a CPU, the check runs two processes
    import torch

    visible = torch.cuda.device_count()
    return {"left_out": f"needs two GPUs, and only {visible} is visible"} if visible < 2 else None


def compare_engines(bench: Workbench) -> dict:
    """The speed of an engine on two GPUs. Raise `Failed` if the mean log-probability of a token
    differs too much from the mean of an engine on one GPU."""
    heads = bench.config["models"][bench.setting.small]["shape"]["heads"]
    if heads % 2:  # vLLM refuses such a model
        return {"engine_on_two": f"left out: {heads} attention heads cannot be halved"}
    with PeakMemory(2) as peak:
        rows, record = bench.probe("probe_two", bench.setting.small, gpus=2)
    speed = round(record["completion_tokens"] / record["work_seconds"], 1)
    numbers = {"two_tokens_per_second": speed}
    check_gpus_used("the engine on two GPUs", peak.gpus_used, 2, numbers)
    single_rows, _ = bench.probe("probe_one", bench.setting.small)
    difference = abs(
        statistics.fmean(row["log_probability"] for row in rows)
        - statistics.fmean(row["log_probability"] for row in single_rows)
    )
    expect(
        difference < PROBE_DIFFERENCE,
        f"mean log-probabilities on one and on two GPUs differ by {difference:.3f} nats a token",
        numbers,
    )
    return numbers


def check_gpus_used(program: str, number: int, expected: int, numbers: dict) -> None:
    """Raise `Failed` if a program used another number of GPUs than expected."""
    reason = f"{program}: the memory of {number} GPUs rose, expected {expected}"
    expect(number == expected, reason, numbers)


def run_numbers(run: Run) -> dict:
    """Numbers of a run: memory, times, and the differences between vLLM and the trainer."""
    first_update, last_update = run.updates[0], run.updates[-1]
    numbers = {
        "peak_gib": run.peak_gib,
        "update_gib": run.record.get("gpu_gib"),
        "seconds": run.record["seconds"],
    }
    numbers |= {"update_seconds": run.record["update_seconds"], "first_kl": first_update["kl"]}
    for name in ("logp_difference_mean", "importance_ratio_mean", "masked_share"):
        if name in first_update:
            numbers |= {f"first_{name}": first_update[name], f"last_{name}": last_update[name]}
    return numbers


def check_differences(run: Run, numbers: dict) -> None:
    """Raise `Failed` if the log-probabilities of vLLM and the trainer differ too much in the first or
    the last update."""
    for row, limit in ((run.updates[0], TOKEN_DIFFERENCE), (run.updates[-1], LATER_DIFFERENCE)):
        difference = row.get("logp_difference_mean") or 0.0
        reason = f"update {row['step']:.0f}: log-probabilities of vLLM and the trainer differ by {difference:.3f}, expected below {limit}"
        expect(difference < limit, reason, numbers)


def check_sync(run: Run, numbers: dict) -> None:
    """Raise `Failed` if the log-probabilities of vLLM and the trainer differ much more in the last
    update than in the first, or if the KL of the last update is too small for this check."""
    first_update, last_update = run.updates[0], run.updates[-1]
    if "logp_difference_mean" not in last_update:  # without vLLM
        return
    first_difference = first_update["logp_difference_mean"]
    last_difference, kl = last_update["logp_difference_mean"], last_update["kl"]
    reason = f"log-probabilities of vLLM and the trainer differ by {first_difference:.3f} at first and by {last_difference:.3f} at the end: vLLM does not get the weights"
    expect(last_difference < GROWTH * first_difference + ROUNDING, reason, numbers)
    expect(
        kl > LEAST_KL,
        f"the last update's KL is {kl:.4f}: the policy has moved too little to tell whether vLLM gets the weights",
        numbers,
    )


def checksum(bench: Workbench, model: str, base: str) -> str:
    """The checksum of a model's weights in precision `base`, see scoring.py."""
    return (
        bench.run("checksum", SCORING, "checksum", bench.model(model), base)
        .strip()
        .splitlines()[-1]
    )


def kill_and_resume(
    bench: Workbench, name: str, model: str, recipe: dict, least_updates: int, **options
) -> tuple[Run, dict]:
    """(run, numbers) of a run that was killed after at least `least_updates` saved updates and then
    resumed. The numbers hold the update from which the run resumed."""
    bench.clear(name)
    with bench.start(
        name, "train_grpo", *bench.training(name, model, recipe, **options), **WITHOUT_WARM
    ) as process:
        bench.wait_until(
            process,
            lambda: bench.saved_updates(name) >= least_updates,
            f"{least_updates} updates were saved",
        )
    run = bench.train(name, model, recipe, fresh=False, **options)
    numbers = {"resumed_from": run.record["resumed_from"]}
    expect(
        run.record["resumed_from"] >= least_updates,
        "the killed run did not continue from its state",
        numbers,
    )
    return run, numbers


def stop_run(bench: Workbench, name: str, model: str, recipe: dict, **options) -> dict:
    """Stop a run by SIGTERM, and return the seconds until the run ends and the number of saved
    updates. Raise `Failed` if the run has neither saved its state nor finished. Slurm would kill
    the run 30 s after SIGTERM (KillWait)."""
    bench.clear(name)
    with bench.start(
        name, "train_grpo", *bench.training(name, model, recipe, **options), **WITHOUT_WARM
    ) as process:
        bench.wait_until(process, lambda: bench.saved_updates(name) >= 2, "two updates were saved")
        saved_updates, began = bench.saved_updates(name), time.monotonic()
        process.send_signal(signal.SIGTERM)
        status = process.wait()
    numbers = {
        "seconds_to_stop": round(time.monotonic() - began, 1),
        "updates_saved_at_the_end": bench.saved_updates(name),
    }
    is_saved = status == 1 and bench.saved_updates(name) >= saved_updates
    expect(
        is_saved or (bench.folder / name / "provenance.json").exists(),
        "the state was not saved after SIGTERM",
        numbers,
    )
    return numbers


def score_adapter(bench: Workbench, model: str, folder: Path) -> dict:
    """Mean differences of a token's log-probability. `scores_differ`: between vLLM and
    transformers, the larger of the means without and with the adapter. `adapter_changes`: in
    transformers, between the model without the adapter and the model with the adapter."""
    adapter = bench.folder / "adapter"
    shutil.rmtree(adapter, ignore_errors=True)
    bench.run("adapter", SCORING, "adapter", folder, adapter)
    tokenized = bench.folder / "tokenized.json"
    questions = [
        problem["question"] for problem in tasks.read_problems(bench.folder / "test.jsonl")[:8]
    ]
    from hardgrpo.sampling import engines
    from hardgrpo.sampling.requests import Request

    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(bench.model(model), local_files_only=True)
    requests = [
        Request(tuple(tasks.messages(bench.task["prompt"], question)), 1, 0.0)
        for question in questions
    ]
    prompts = engines.tokenize(tokenizer, requests, bench.config["models"][model].get("chat", {}))
    job = {
        "model": bench.model(model),
        "adapter": str(adapter),
        "prompts": prompts,
        "tokens": 40,
        "gpus": bench.gpus,
    }
    files.write_json(tokenized, job)
    sampled = bench.folder / "sampled.json"
    bench.run("sample", SCORING, "sample", tokenized, sampled)
    bench.run("score", SCORING, "score", tokenized, sampled)
    completions = files.read_json(sampled)["completions"]
    scores = files.read_json(f"{sampled}.scores")
    by_vllm = {
        name: [row for _, row in rows] for name, rows in zip(("base", "adapter"), completions)
    }
    gaps = [mean_difference(by_vllm[name], scores[name]) for name in by_vllm]
    return {
        "scores_differ": max(gaps),
        "adapter_changes": mean_difference(scores["base"], scores["base_under_adapter"]),
    }


def mean_difference(first_rows: list[list[float]], second_rows: list[list[float]]) -> float:
    """The mean absolute difference of the numbers in two lists of lists of equal shapes."""
    return statistics.fmean(
        abs(first - second)
        for first_row, second_row in zip(first_rows, second_rows)
        for first, second in zip(first_row, second_row)
    )
