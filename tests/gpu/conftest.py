"""Checks of a node with GPUs, in order. Models with random weights in the shapes of real models sample
and train, so the checks need no download.

    make gpu-check                       # MODEL=phi-4: one model of config/models.yaml for all checks
    make gpu-check LAST=1                # only the checks that failed last, and those that did not run
    make gpu-check GPU_CHECK=cpu         # models of 2 layers, on the CPU (GPU_CHECK_ENGINE=transformers: without vLLM)

Each check reads what earlier checks left in results/gpu-check. numbers.csv in this folder has the
measured numbers beside the plan's. Tolerances are those of arithmetic in bf16: logits between 16
and 32 are rounded to multiples of 1/8, an error with a standard deviation of .036; between two
implementations, a token's log-probability then differs by .041 on average.
"""

import contextlib
import copy
import csv
import json
import math
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from hardgrpo.planning import durations
from hardgrpo.runtime import environments, files, gpu_kinds, warm
from hardgrpo.study import load, memory
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.model import Model, Shape, TrainingGpus
from hardgrpo.study.recipe import Recipe
from hardgrpo.training import outputs

ROOT = Path(__file__).parents[2]
FOLDER = Path("results/gpu-check").resolve()
COLUMNS = ["check", "number", "measured", "planned", "device", "date", "versions"]
ON_CPU = os.environ.get("GPU_CHECK") == "cpu"
TINY = {"hidden_size": 64, "intermediate_size": 128, "layers": 2, "heads": 4, "key_value_heads": 2}
TINY |= {"head_size": 16, "vocabulary": 512}
# With the studies' learning rates, a few updates would change log-probabilities less than rounding
# does, so it could not be seen whether vLLM gets the trained weights.
MOVING = {"warmup_share": 0.0, "reward": "finished"}
SMALL_MODEL_GPUS = TrainingGpus(count=1, micro_batch=16, vllm_memory=0.3, vllm_sleep=True)
PROBLEMS, SAMPLES = 64, 5
CONTEXT_GIB = 0.3  # less than the memory that a CUDA context alone takes on a GPU


def nvidia_smi(quantity: str) -> list[str]:
    """A quantity of each GPU, of those in CUDA_VISIBLE_DEVICES if it is not empty; [] without
    nvidia-smi."""
    command = ["nvidia-smi", f"--query-gpu={quantity}", "--format=csv,noheader,nounits"]
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        command.append(f"--id={visible}")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return done.stdout.splitlines()


def gpu_memory(quantity: str) -> list[float]:
    """GiB `used` or `total` on each GPU; empty if nvidia-smi reports no number."""
    cells = nvidia_smi(f"memory.{quantity}")
    return [float(mib) / 1024 for mib in cells if mib.replace(".", "").isdigit()]


def device() -> str:
    return "CPU" if ON_CPU else next(iter(nvidia_smi("name")), "CPU")


class Peak:
    """The largest memory of each GPU during the block, in GiB."""

    def __enter__(self) -> "Peak":
        self.first = self.gibs = gpu_memory("used")
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while self.gibs and not self.ended.wait(0.2):
            self.gibs = list(map(max, zip(self.gibs, gpu_memory("used"))))

    def __exit__(self, *_) -> None:
        self.ended.set()
        self.thread.join()

    @property
    def gpus_used(self) -> int:
        return sum(last - first > CONTEXT_GIB for first, last in zip(self.first, self.gibs))


class Bench:
    """Makes models and runs the project's programs. `folder` holds their logs and outputs."""

    folder = FOLDER
    gpus = 0 if ON_CPU else 1
    # on a CPU, two processes take the part of GPUs
    several = ON_CPU or len(gpu_memory("total")) > 1
    tokens = 8 if ON_CPU else 250

    def __init__(self):
        self.config = load.read(ROOT)
        self.small = os.environ.get("MODEL") or "qwen3-4b"
        self.fused = os.environ.get("MODEL") or "phi-4"
        wanted = os.environ.get("GPU_CHECK_ENGINE", "vllm" if self.gpus else "auto")
        self.engine = environments.choose_engine(wanted, self.gpus)
        self.has_vllm = self.engine == "vllm"
        self.folder.mkdir(parents=True, exist_ok=True)
        rng = random.Random(0)
        words = [chr(97 + i) + chr(97 + j) for i in range(8) for j in range(8)]
        rows = [
            {"id": f"p{i}", "question": " ".join(rng.choices(words, k=90 + i)), "answer": str(i)}
            for i in range(PROBLEMS)
        ]
        files.write_jsonl(self.folder / "problems.jsonl", rows)
        ranked = [{"id": row["id"], "pass_rate": None, "rank": i} for i, row in enumerate(rows, 1)]
        files.write_rows(self.folder / "subset.csv", ["id", "pass_rate", "rank"], ranked)

    def shape(self, name: str) -> dict:
        shape = self.config["models"][name]["shape"]
        return shape | (TINY if ON_CPU else {})

    def model(self, name: str) -> Path:
        folder = self.folder / f"models/{name}"
        if not (folder / "manifest.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{name}.shape.json"
            files.write_json(path, self.shape(name) | {"tokens": self.tokens})
            self.part("make_model", folder, path)
        return folder

    def recipe(self, name: str, **changes) -> dict:
        learning_rate = 3e-3 if ON_CPU else 1e-3 if name == "as_written" else 1e-4
        recipe = {"adapter": None} | self.config["recipes"][name] | MOVING
        recipe |= {"learning_rate": learning_rate} | changes
        if ON_CPU:
            recipe |= {"prompts_per_update": 4, "group_size": 4}
        if not self.has_vllm:
            recipe["generation"] = "transformers"
        return recipe

    # --- programs

    @contextlib.contextmanager
    def start(self, name: str, program: str, *arguments, **env: str):
        """Run a program, with its output in NAME.log; kill it and its children at the end."""
        folders = [*ROOT.glob("scripts/*"), ROOT / "tests", ROOT / "tests/gpu"]
        (path,) = [path for folder in folders if (path := folder / f"{program}.py").exists()]
        python_path = os.pathsep.join([str(environments.SOURCE), os.environ.get("PYTHONPATH", "")])
        variables = {"VLLM_LOGGING_LEVEL": "INFO", "GPU_CHECK_GPUS": str(self.gpus)}
        variables |= environments.ALLOCATOR | {warm.SOCKET: warm.OFF, "PYTHONPATH": python_path}
        command = [sys.executable, *map(str, (path, *arguments))]
        with open(self.folder / f"{name}.log", "w") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=os.environ | variables | env
            )
        try:
            yield process
        finally:
            import psutil

            with contextlib.suppress(psutil.NoSuchProcess):
                parent = psutil.Process(process.pid)
                members = [*parent.children(recursive=True), parent]
                for member in members:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        member.kill()
                psutil.wait_procs(members, timeout=60)  # they hold the run's lock until they end
            process.wait()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def run(self, name: str, program: str, *arguments, **env: str):
        """Run a program to its end; the result is the last line of its output."""
        with self.start(name, program, *arguments, **env) as process:
            status = process.wait()
        lines = self.log(name).strip().splitlines() or [""]
        # NCCL prints a warning at the end of every process that has used vLLM, after the error.
        errors = [line for line in lines if line.startswith("error:")] or lines
        assert status == 0, f"{self.folder / name}.log says: {errors[-1]}"
        return lines[-1]

    def part(self, *arguments, program: str = "parts"):
        """The result of a function of parts.py or another program."""
        return json.loads(self.run(arguments[0], program, *arguments))

    def sampling(self, model: str, gpus: int | None) -> list:
        return [
            "--model", self.model(model), "--problems", self.folder / "problems.jsonl", "--prompt", "{question}",
            "--completion-tokens", self.tokens, "--engine", self.engine, "--seed", 1,
            "--gpus", self.gpus if gpus is None else gpus,
        ]  # fmt: skip

    def probe(self, name: str, model: str, gpus: int | None = None) -> tuple:
        """(completions with their log-probabilities, provenance) of a probe."""
        output, record = self.folder / f"{name}.jsonl.gz", self.folder / f"{name}.json"
        options = ["--samples", SAMPLES, "--provenance", record, "--output", output]
        self.run(name, "probe", *self.sampling(model, gpus), *options)
        kinds = {"id": str, "sample": int, "completion": str, "log_probability": float}
        return files.read_jsonl(output, kinds), files.read_json(record)

    def evaluate(self, name: str, model: str, checkpoints: Path, *options) -> list[dict]:
        """The graded completions of an evaluation."""
        output = self.folder / f"{name}.csv.gz"
        options += ("--checkpoints", checkpoints, "--grader", "final_number", "--samples", 1)
        options += ("--output", output, "--completions", self.folder / f"{name}.jsonl.gz")
        self.run(name, "evaluate", *self.sampling(model, None), "--greedy", *options)
        return files.read_rows(output, {"step": int, "answered": int})

    # --- trainings

    def training(self, name: str, model: str, recipe: dict, gpus: int = 1) -> list:
        """Write the specification of a training, and return the arguments of its program."""
        spec = {
            "model": model, "task": "gsm8k", "policy": "random", "recipe": "gpu_check", "seed": 0,
            "model_folder": str(self.model(model)), "problems": str(self.folder / "problems.jsonl"),
            "subset": str(self.folder / "subset.csv"), "prompt": "{question}", "chat": {}, "grader": "final_number",
            "completion_tokens": self.tokens, "training": recipe,
        }  # fmt: skip
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(spec))
        arguments = ["--spec", self.folder / f"{name}.yaml", "--output", self.folder / name]
        arguments += ["--state", self.folder / f"{name}.state"]
        if ON_CPU:
            return [*arguments, "--processes", gpus, "--micro-batch", 4]
        settings = self.gpu_settings(model, recipe, gpus)
        arguments += ["--gpus", gpus, "--micro-batch", settings.micro_batch]
        arguments += ["--vllm-memory", settings.vllm_memory]
        arguments += ["--vllm-sleep"] * settings.vllm_sleep
        return [*arguments, "--gpu-gib", math.ceil(self.planned_gib(model, recipe, gpus)["total"])]

    def gpu_settings(self, model: str, recipe: dict, gpus: int) -> TrainingGpus:
        entry = Model.of(self.config["models"][model])
        settings = entry.training_gpus(Recipe.of(recipe)) if entry.gpus else SMALL_MODEL_GPUS
        return settings.model_copy(update={"count": gpus})

    def planned_gib(self, model: str, recipe: dict, gpus: int) -> dict[str, float]:
        settings, card = self.gpu_settings(model, recipe, gpus), min(gpu_memory("total"), default=80.0)  # fmt: skip
        shape = Shape.of(self.shape(model))
        return memory.training_memory(shape, Recipe.of(recipe), self.tokens, settings, card)

    def planned_update_seconds(self, model: str, recipe: dict) -> float:
        config = copy.deepcopy(self.config)
        config["models"][model]["shape"] = self.shape(model)
        config["recipes"]["gpu_check"] = recipe
        config["tasks"]["gsm8k"]["completion_tokens"] = self.tokens
        if ON_CPU:
            del config["models"][model]["gpus"]
        checked = Configuration.of(config)
        job = durations.Job(checked, "train_grpo", model, "gsm8k", "gpu_check", "random")
        planned = durations.estimate(job, gpu_kinds.kind_of(device()) or "h100")
        return (planned.seconds - planned.start_seconds) / recipe["updates"]

    def clear(self, name: str) -> None:
        for path in (self.folder / name, self.folder / f"{name}.state"):
            shutil.rmtree(path, ignore_errors=True)

    def train(self, name: str, model: str, recipe: dict, fresh: bool = True, gpus: int = 1) -> dict:
        """A run, trained from the start or, with `fresh` False, from its state: {updates, record,
        gib, gpus_used}."""
        if fresh:
            self.clear(name)
        with Peak() as peak:
            self.run(name, "train_grpo", *self.training(name, model, recipe, gpus))
        return self.read_run(name) | {"gib": max(peak.gibs, default=0), "gpus_used": peak.gpus_used}

    def read_run(self, name: str) -> dict:
        record = files.read_json(self.folder / name / "provenance.json")
        columns = ["step", *outputs.update_columns(record["run"]["training"])]
        rows = files.read_rows(self.folder / name / "updates.csv", dict.fromkeys(columns, float))
        return {"updates": rows, "record": record}

    def saved_updates(self, name: str) -> int:
        manifests = (self.folder / f"{name}.state").glob("*/checkpoint-*/manifest.json")
        return max((int(path.parent.name.split("-")[1]) for path in manifests), default=0)

    def wait_for_updates(self, name: str, process: subprocess.Popen, count: int) -> None:
        while self.saved_updates(name) < count:
            assert process.poll() is None, f"the training ended before {count} updates were saved"
            time.sleep(0.01)


@pytest.fixture(scope="session")
def bench() -> Bench:
    if not (ON_CPU or gpu_memory("total")):
        pytest.skip("nvidia-smi shows no GPU")
    return Bench()


@pytest.fixture(scope="session")
def rows():
    """All measured numbers {(check, number): row}, those of earlier calls too."""
    path = FOLDER / "numbers.csv"
    earlier = csv.DictReader(path.open(encoding="utf-8")) if path.exists() else []
    rows = {(row["check"], row["number"]): row for row in earlier}
    yield rows
    files.write_rows(path, COLUMNS, list(rows.values()))


@pytest.fixture
def note(request, rows):
    """A function that notes a measured number and, if there is one, the plan's."""

    def note(number: str, measured, planned=None) -> None:
        versions = " ".join(f"{name} {version}" for name, version in note.packages.items())
        row = [
            request.node.name,
            number,
            measured,
            planned,
            device(),
            time.strftime("%F"),
            versions,
        ]
        row = [round(value, 4) if isinstance(value, float) else value for value in row]
        rows[request.node.name, number] = dict(zip(COLUMNS, row))

    note.packages = {}
    return note


def pytest_terminal_summary(terminalreporter) -> None:
    """Print the numbers of all checks beside the plan's."""
    path = FOLDER / "numbers.csv"
    rows = list(csv.reader(path.open(encoding="utf-8"))) if path.exists() else []
    for check, number, measured, planned, *machine in rows:
        terminalreporter.write_line(
            f"{check:<28} {number:<36} {measured:>10} {planned:>10}  {' '.join(machine)}"
        )
