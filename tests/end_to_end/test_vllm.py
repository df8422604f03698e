"""vLLM on the CPU: the distribution of completions and the log-probabilities of tokens are the
same as with transformers, and one start of vLLM evaluates a base model and its adapters."""

import csv
import gzip
import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import yaml

from command_line import assert_refused, command, format_options, run, run_well
from conftest import ROOT, VLLM, World
from engine_scores import scores_by_transformers
from hardgrpo.data import tasks
from hardgrpo.runtime import files
from hardgrpo.sampling import engines, model_folders
from hardgrpo.sampling.requests import Request
from hardgrpo.training import base_weights
from interruptible_run import states, wait_for
from learned_model import (
    NAME,
    PROBLEMS,
    agree,
    assert_log_probabilities_of_weights,
    assert_pass_rate_of_weights,
    free_port,
    is_listening,
    one_task,
    probe_through_server,
)

pytestmark = pytest.mark.vllm
QUESTIONS = [
    "What is the capital of France?",
    "Name three colours.",
    "How many legs does a spider have?",
    "Say hello in Spanish.",
]


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> World:
    """A world with a model that was pretrained, probed and evaluated with transformers, and trained
    with an adapter."""
    world = World(tmp_path_factory.mktemp("learned") / "world")
    world.configure(one_task)
    run = "tiny/arithmetic/mini/random/seed0"
    world.run(
        "results/evaluation/tiny/base/arithmetic.csv.gz",
        f"results/evaluation/{run}/arithmetic.csv.gz",
    )
    world.training = world.folder / "results/training" / run
    return world


def share(rows: list[dict], **conditions) -> tuple[float, int]:
    matching_rows = [
        row for row in rows if all(row[key] == value for key, value in conditions.items())
    ]
    right = sum(int(row["correct"]) for row in matching_rows)
    return right / len(matching_rows), len(matching_rows)


def read(path: Path) -> list[dict]:
    return list(csv.DictReader(gzip.open(path, "rt")))


def test_pass_rates_of_the_engines_agree(learned):
    """The workflow has probed the model with transformers. The test probes the same model with
    vLLM, in two shards."""
    folder = learned.folder
    by_transformers = files.read_rows(
        folder / "results/difficulty/tiny/arithmetic.csv",
        {"id": str, "correct": int, "samples": int},
    )
    shards = [f"vllm/shard{shard}.jsonl.gz" for shard in (0, 1)]
    for shard, output in enumerate(shards):
        run_well(
            folder, "probe", model="results/models/tiny", problems=PROBLEMS, prompt="{question}",
            samples=6, completion_tokens=40, seed=1, engine="vllm", shards=2, shard=shard,
            output=output,
        )  # fmt: skip
    grading = {"problems": PROBLEMS, "grader": "final_number", "samples": 6}
    run_well(folder, "measure_difficulty", completions=shards, output="v.csv", **grading)
    by_vllm = files.read_rows(folder / "v.csv", {"id": str, "correct": int, "samples": int})
    assert [row["id"] for row in by_vllm] == [row["id"] for row in by_transformers]
    totals = [
        (sum(row["correct"] for row in rows), sum(row["samples"] for row in rows))
        for rows in (by_transformers, by_vllm)
    ]
    (transformers_correct, n), (vllm_correct, m) = totals
    assert n == m == 360 and 0.05 < transformers_correct / n < 0.95, (
        "the comparison needs a model that solves some of the problems, but not all"
    )
    assert agree((transformers_correct / n, n), (vllm_correct / m, m))
    seeds = [
        row["seed"]
        for shard in (0, 1)
        for row in files.read_jsonl(folder / f"vllm/shard{shard}.jsonl.gz", {"seed": int})
    ]
    assert len(set(seeds)) == 360
    texts = {}
    rows = files.read_jsonl(
        folder / "vllm/shard0.jsonl.gz", {"id": str, "completion": str, "log_probability": float}
    )
    for row in rows:
        texts.setdefault(row["id"], set()).add(row["completion"])
    assert max(map(len, texts.values())) > 1, "all samples of each prompt are equal"

    finished = [row for row in rows if row["finish_reason"] == "stop"][:20]
    assert_log_probabilities_of_weights(folder, finished)


@pytest.fixture
def vllm_server(learned):
    """The address of a vLLM server that serves the learned model under the name `learned`."""
    port = free_port()
    arguments = format_options(
        model="results/models/tiny", served_model_name=NAME, host="127.0.0.1", port=port
    )
    arguments += ["--dtype", "float32", "--enforce-eager", "--max-model-len", "192"]
    # Without these two options, a request with a seed stops vLLM 0.30 on a CPU.
    arguments += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192"]
    variables = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    with open(learned.folder / "server.log", "w") as log:
        process = subprocess.Popen(
            [VLLM, "-m", "vllm.entrypoints.openai.api_server", *arguments], cwd=learned.folder, stdout=log, stderr=log,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(lambda: is_listening(int(port)), process)
        assert process.poll() is None, (learned.folder / "server.log").read_text()[-3000:]
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_pass_rates_and_log_probabilities_from_a_server_equal_those_computed_from_the_weights(
    learned, vllm_server
):
    facts, rows = probe_through_server(learned.folder, vllm_server)
    assert facts["not_supported"] == []
    assert_pass_rate_of_weights(learned.folder)
    finished = [row for row in rows if row["finish_reason"] == "stop"][:20]
    assert_log_probabilities_of_weights(learned.folder, finished)


def test_an_engine_that_starts_once_evaluates_the_base_model_and_every_adapter(learned):
    for engine in ("transformers", "vllm"):
        output = run_well(
            learned.folder, "evaluate", model="results/models/tiny",
            checkpoints=learned.training / "checkpoints", base=True,
            problems="results/tasks/arithmetic/test.jsonl", prompt="{question}",
            grader="final_number", samples=4, greedy=True, completion_tokens=40, seed=2,
            engine=engine, output=f"{engine}.csv.gz", completions=f"{engine}.jsonl.gz",
        )  # fmt: skip
        assert output.count(f"engine {engine} starts") == 1
        assert "3 models, 200 completions of each" in output
    transformers_rows, vllm_rows = (
        read(learned.folder / f"{engine}.csv.gz") for engine in ("transformers", "vllm")
    )
    assert {row["step"] for row in vllm_rows} == {"0", "2", "4"}
    for step in ("0", "2", "4"):
        assert agree(
            share(transformers_rows, step=step, decoding="sampled"),
            share(vllm_rows, step=step, decoding="sampled"),
        )
    greedy = [
        [
            (row["step"], row["id"], row["correct"], row["tokens"])
            for row in rows
            if row["decoding"] == "greedy"
        ]
        for rows in (transformers_rows, vllm_rows)
    ]
    equal_count = sum(completion == vllm_completion for completion, vllm_completion in zip(*greedy))
    assert equal_count >= 0.97 * len(greedy[0]), (
        "too many greedy completions differ; ties between two tokens explain only a few differences"
    )


def complete_with_vllm(
    folder: Path, model: Path, adapters: list, questions: list[str], tokens: int
) -> tuple[list, list]:
    """(token ids of the prompts, vLLM's greedy completions with each token's log-probability)."""
    requests = [
        Request(tuple(tasks.messages("{question}", question)), 1, 0.0) for question in questions
    ]
    prompts = engines.tokenize(engines.load_tokenizer(model), requests, {})
    job = {"model": str(model), "adapters": adapters, "prompts": prompts, "tokens": tokens}
    (folder / "job.json").write_text(json.dumps(job))
    command = [VLLM, str(ROOT / "tests/engine_scores.py"), "vllm", "job.json", "answer.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return prompts, json.loads((folder / "answer.json").read_text())


def assert_equal_scores(
    log_probabilities: list, completions_by_adapter: list, tolerance: float
) -> None:
    for rows, completions in zip(log_probabilities, completions_by_adapter):
        for row, (_, vllm_values) in zip(rows, completions):
            assert row == pytest.approx(vllm_values, abs=tolerance)


def test_log_probabilities_agree_for_base_and_adapter(learned, tmp_path):
    questions = [
        p["question"]
        for p in tasks.read_problems(learned.folder / "results/tasks/arithmetic/test.jsonl")[:8]
    ]
    model, adapter = (
        learned.folder / "results/models/tiny",
        str(learned.training / "checkpoints/step-4"),
    )
    prompts, completions = complete_with_vllm(tmp_path, model, [None, adapter], questions, 40)
    assert_equal_scores(
        scores_by_transformers(model, [None, adapter], prompts, completions), completions, 1e-3
    )
    swapped = scores_by_transformers(model, [adapter, None], prompts, completions)
    # the adapter must change the probabilities, otherwise the comparison would not test the adapter
    with pytest.raises(AssertionError):
        assert_equal_scores(swapped, completions, 1e-3)


def test_a_real_model_gives_the_same_completions_in_both_engines(smollm2, tmp_path):
    """SmolLM2-135M-Instruct, with its own tokenizer and chat template, is probed and graded."""
    problems = [
        {"id": f"q{i}", "question": question, "answer": "x"} for i, question in enumerate(QUESTIONS)
    ]
    files.write_jsonl(tmp_path / "problems.jsonl", problems)
    options = {"model": smollm2, "problems": "problems.jsonl", "prompt": "{question}", "seed": 3}
    options["completion_tokens"] = 24
    paris, stops, greedy = {}, {}, {}
    for engine in ("transformers", "vllm"):
        probe = f"{engine}.jsonl.gz"
        run_well(tmp_path, "probe", samples=16, engine=engine, output=probe, **options)
        rows = files.read_jsonl(tmp_path / probe, {"completion": str, "tokens": int})
        assert len(rows) == 64 and all(1 <= row["tokens"] <= 24 for row in rows)
        france = [row for row in rows if row["id"] == "q0"]
        paris[engine] = (sum("Paris" in row["completion"] for row in france) / 16, 16)
        stops[engine] = (sum(row["finish_reason"] == "stop" for row in rows) / 64, 64)
        table, texts = f"{engine}.csv.gz", f"{engine}.texts.jsonl.gz"
        run_well(
            tmp_path, "evaluate", grader="final_word", samples=1, greedy=True, engine=engine,
            output=table, completions=texts, **options,
        )  # fmt: skip
        rows = files.read_jsonl(tmp_path / texts, {"decoding": str, "completion": str})
        assert len(rows) == 4 * 2 == len(read(tmp_path / table))
        greedy[engine] = [row["completion"] for row in rows if row["decoding"] == "greedy"]
    assert paris["transformers"][0] > 0.1, "Paris is named too rarely for a comparison"
    for share in (paris, stops):
        assert share["transformers"] == share["vllm"] or agree(share["transformers"], share["vllm"])
    assert len(greedy["vllm"]) == 4
    equal_count = sum(a == b for a, b in zip(greedy["transformers"], greedy["vllm"]))
    assert equal_count >= 3, "ties between two tokens explain only a few differences"


def test_log_probabilities_of_a_real_model_agree(smollm2, tmp_path):
    """SmolLM2-135M-Instruct has its own tokenizer and chat template."""
    prompts, completions = complete_with_vllm(tmp_path, smollm2, [None], QUESTIONS, 24)
    (answers,) = completions
    assert "Paris" in engines.load_tokenizer(smollm2).decode(answers[0][0])
    assert_equal_scores(
        scores_by_transformers(smollm2, [None], prompts, completions), completions, 5e-3
    )


def write_spec(
    learned: World, folder: Path, name: str, subset: str | None = None, seed: int = 0, **changes
) -> list[str]:
    """Write the specification of a training whose recipe differs from the recipe of `learned` in
    `changes`. Return the arguments of this training."""
    spec = yaml.safe_load((learned.training / "spec.yaml").read_text())
    spec["training"] |= changes
    for key in ("model_folder", "problems", "subset"):
        spec[key] = str(learned.folder / spec[key])
    (folder / f"{name}.yaml").write_text(
        yaml.safe_dump(spec | {"seed": seed} | ({"subset": subset} if subset else {}))
    )
    return ["--spec", f"{name}.yaml", "--output", name, "--state", f"{name}.state"]


def train(learned: World, folder: Path, name: str, **changes) -> list[dict]:
    """The log of a training with the arguments of `write_spec`."""
    run_well(folder, "train_grpo", *write_spec(learned, folder, name, **changes))
    return list(csv.DictReader((folder / name / "updates.csv").read_text().splitlines()))


def test_vllm_samples_rollouts_with_the_weights_that_it_receives_after_every_update(
    learned, tmp_path
):
    # The learning rate is so large that outdated weights in vLLM would be noticed.
    rows = train(learned, tmp_path, "out", generation="vllm", learning_rate=2e-2)
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4] and {
        float(row["rollouts"]) for row in rows
    } == {16.0}
    assert any(float(row["grad_norm"]) > 0 for row in rows)
    difference = json.loads((tmp_path / "out/provenance.json").read_text())["sampling_difference"]
    assert difference < 0.5, (
        "vLLM must sample with the weights that are trained; with outdated weights, the difference was 6"
    )


def test_an_adapter_leaves_bf16_weights_unchanged_and_rollouts_depend_on_the_seed(
    learned, tmp_path
):
    """All runs train on one prompt, so the order of prompts cannot depend on the seed. Two of them
    start together on one machine, as jobs of a cluster do; each needs its own port for vLLM."""
    first = tasks.read_problems(learned.folder / PROBLEMS)[0]["id"]
    row = {"id": first, "pass_rate": None, "rank": 1}
    files.write_rows(tmp_path / "one.csv", [*row], [row])
    changes = {"generation": "vllm", "base": "bf16", "precision": "bf16"}
    changes |= {"learning_rate": 2e-2, "subset": "one.csv"}
    with ThreadPoolExecutor() as threads:
        log, repeated_log = threads.map(
            lambda name: train(learned, tmp_path, name, seed=1, **changes), ("first", "again")
        )
    reseeded_log = train(learned, tmp_path, "second", seed=2, **changes)
    assert log == repeated_log and log[0]["tokens_mean"] != reseeded_log[0]["tokens_mean"], (
        "the rollouts must be equal for equal seeds and differ for different seeds"
    )
    base = model_folders.load_model(learned.folder / "results/models/tiny", dtype=torch.bfloat16)
    written = [
        json.loads((tmp_path / name / "provenance.json").read_text())["base_sha256"]
        for name in ("first", "second")
    ]
    assert written == [base_weights.checksum(base)] * 2


def interrupt(learned: World, folder: Path, **changes) -> Path:
    """Kill a training after its first checkpoint, start it again and let it end. Return its
    folder."""
    training = command("train_grpo", *write_spec(learned, folder, "killed", **changes))
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            ["nice", "-n", "19", *training],
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        wait_for(
            lambda: any((path / "manifest.json").exists() for path in states(folder, "killed")),
            process,
        )
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, (folder / "log").read_text()[-3000:]
    train(learned, folder, "killed", **changes)
    run_folder = folder / "killed"
    assert json.loads((run_folder / "provenance.json").read_text())["resumed_from"] >= 2
    return run_folder


def test_an_interrupted_training_with_vllm_ends_with_all_updates_and_checkpoints(learned, tmp_path):
    """vLLM draws other random numbers after a restart, so the files are not compared with those of
    another run."""
    killed = interrupt(learned, tmp_path, generation="vllm", updates=6)
    with (killed / "updates.csv").open() as stream:
        assert [int(row["step"]) for row in csv.DictReader(stream)] == list(range(1, 7))
    checkpoints = {path.name for path in (killed / "checkpoints").glob("step-*")}
    assert checkpoints == {"step-2", "step-4", "step-6"}


def test_rollouts_on_gpus_are_sampled_in_bf16_also_from_a_model_stored_in_fp16():
    """A stand-in prints the precision with which TRL starts vLLM."""
    code = """
from types import SimpleNamespace
from trl.generation import vllm_generation
from hardgrpo.sampling import vllm_engine
vllm_engine.current_platform = SimpleNamespace(is_cpu=lambda: False)
vllm_engine.LLM = lambda model, dtype: print(model, dtype)
vllm_engine.prepare_for_training()
vllm_generation.LLM(model="stored-in-fp16")
"""
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([VLLM, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.splitlines()[-1] == "stored-in-fp16 bfloat16"


def test_a_closed_engine_leaves_no_worker_process(learned):
    """A worker would keep a GPU's memory, which the engine of the next checkpoint needs."""
    command = [VLLM, ROOT / "tests/vllm_engines.py", learned.folder / "results/models/tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    reports = [line for line in done.stdout.splitlines() if line.endswith("workers left")]
    assert [line.rpartition(", ")[2] for line in reports] == ["0 workers left"] * 2, (
        done.stdout[-2000:] + done.stderr[-2000:]
    )


def test_vllm_that_cannot_be_run_is_an_error(learned, tmp_path):
    done = run(
        tmp_path, "probe", env={"HARDGRPO_VLLM_PYTHON": "/nowhere/python"},
        model=learned.folder / "results/models/tiny",
        problems=learned.folder / "results/tasks/arithmetic/test.jsonl", prompt="{question}",
        samples=1, seed=1, completion_tokens=9, engine="vllm", output="out.jsonl.gz",
    )  # fmt: skip
    assert_refused(done, "vllm is not installed (/nowhere/python", "make vllm-cpu")
    assert not (tmp_path / "out.jsonl.gz").exists()
