"""Models, problems and program calls for the checks of gpu_check.py."""

from hardgrpo.data import tasks
from hardgrpo.runtime import environments, files, warm
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import load, memory, paths
from hardgrpo.study.model import Model, own_base
from hardgrpo.study.policy import Policy
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.spec import Spec
from hardgrpo.study.study import Run as StudyRun
from hardgrpo.study.task import Task
from hardgrpo.training import outputs

import contextlib
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
PROBLEMS = 64
# Settings of models that have no `gpus` in config/models.yaml.
SMALL_MODEL_GPUS = {"micro_batch": 16, "vllm_memory": 0.3, "vllm_sleep": True}
CONTEXT_GIB = 0.3  # less than the memory that a CUDA context alone takes on a GPU


class Failed(Exception):
    """A check failed. `numbers` are its measurements."""

    def __init__(self, reason: str, numbers: dict | None = None):
        super().__init__(reason)
        self.numbers = numbers or {}


@dataclass(frozen=True)
class Setting:
    """Models, task, machine and engine of the checks.

    `changes` apply to every recipe, `moving_*` to recipes that must change the model noticeably
    within a few updates. With the studies' learning rates, a few updates would change
    log-probabilities less than rounding does, and `check_sync` could not detect that vLLM never
    gets the trained weights.
    """

    small: str
    large: tuple[str, ...]
    task: str
    gpus: int
    engine: str = "vllm"
    changes: dict = field(default_factory=dict)
    moving_adapter: dict = field(
        default_factory=lambda: {"learning_rate": 1e-3, "warmup_share": 0.0}
    )
    moving_full: dict = field(default_factory=lambda: {"learning_rate": 1e-4, "warmup_share": 0.0})


REAL = Setting("qwen3-4b", ("qwen3-14b", "phi-4"), "gsm8k", gpus=1)


def one_model(name: str) -> Setting:
    """The setting with one model for all checks. A completion is rewarded if it has an answer,
    because a small model seldom solves a problem."""
    return Setting(name, (name,), REAL.task, REAL.gpus, changes={"reward": "finished"})


def stand_in() -> Setting:
    """The setting for a CPU, with model `tiny` and a task of the miniature. vLLM is used if its
    package is installed."""
    task = next(
        (task for task in ("arithmetic", "swaps") if Path(paths.problems(task, "train")).exists()),
        "arithmetic",
    )
    changes = {
        "prompts_per_update": 4,
        "group_size": 4,
        "reward": "finished",
        "learning_rate": 1e-3,
    }
    moving_changes = {"learning_rate": 3e-3, "warmup_share": 0.0}
    return Setting(
        "tiny",
        ("tiny",),
        task,
        gpus=0,
        changes=changes,
        moving_adapter=moving_changes,
        moving_full=moving_changes,
    )


class Workbench:
    """Runs the programs of the checks. `folder` holds their logs and outputs, which later checks
    read."""

    def __init__(self, setting: Setting, folder: Path):
        self.setting, self.folder = setting, folder
        self.config = load.read()
        self.gpus, self.task = setting.gpus, self.config["tasks"][setting.task]
        for name in (setting.small, *setting.large):
            if name not in self.config["models"]:
                raise UserError(
                    f"--model is '{name}', which is not in config/models.yaml; expected one of: {', '.join(self.config['models'])}"
                )
        folder.mkdir(parents=True, exist_ok=True)

    # --- models and problems

    def base(self, name: str) -> str:
        """The name of a model's weights: the model's name or, if only the weights of its replicates
        exist, the name of the first replicate."""
        replicate_name = own_base(name, 0)
        return (
            replicate_name
            if not Path(paths.model_folder(name)).exists()
            and Path(paths.model_folder(replicate_name)).exists()
            else name
        )

    def model(self, name: str) -> str:
        """The folder of a model."""
        return paths.model_folder(self.base(name))

    def problems(self, split: str) -> Path:
        """Write the first problems of a split and, for `train`, two subsets: all of these problems,
        and only the problem with the longest question. Return the path of the problems."""
        rows = files.read_jsonl(
            paths.problems(self.setting.task, split), {"id": str, "question": str}
        )[:PROBLEMS]
        path = self.folder / f"{split}.jsonl"
        files.write_jsonl(path, rows)
        subsets = (
            {"subset": rows, "one": [max(rows, key=lambda row: len(row["question"]))]}
            if split == "train"
            else {}
        )
        for name, subset_rows in subsets.items():
            ranked = [
                {"id": row["id"], "pass_rate": None, "rank": rank}
                for rank, row in enumerate(subset_rows, start=1)
            ]
            files.write_rows(self.folder / f"{name}.csv", ["id", "pass_rate", "rank"], ranked)
        return path

    def check_inputs(self) -> None:
        """Write the problems of the checks. Raise a `UserError` if a model or the problems are
        missing."""
        paths_needed = [
            f"{self.model(name)}/manifest.json"
            for name in dict.fromkeys((self.setting.small, *self.setting.large))
        ]
        for path in paths_needed + [
            paths.problems(self.setting.task, split) for split in ("train", "test")
        ]:
            if not Path(path).exists():
                raise UserError(
                    f"{path} is missing; make it on a machine with internet: .venv/bin/snakemake --profile laptop {path}"
                    " (with --stand-in: run study mini_reference)"
                )
        for split in ("train", "test"):
            tasks.read_problems(self.problems(split))

    @property
    def has_vllm(self) -> bool:
        if self.setting.engine != "vllm":
            return False
        return self.gpus > 0 or environments.choose_engine("auto", 0) == "vllm"

    @property
    def engine(self) -> str:
        """The engine that samples."""
        return "vllm" if self.has_vllm else "transformers"

    def recipe(self, name: str, **changes) -> dict:
        """A recipe of the configuration with the changes for these checks."""
        recipe = {"adapter": None} | self.config["recipes"][name] | self.setting.changes | changes
        if not self.has_vllm and recipe["generation"] == "vllm":
            recipe["generation"] = "transformers"
        return recipe

    # --- programs

    def run(self, name: str, program: Path | str, *arguments, **env: str) -> str:
        """The output of a program, which also goes to NAME.log. Raise `Failed` if the program
        fails."""
        with self.start(name, program, *arguments, **env) as process:
            status = process.wait()
        output = self.log(name)
        if status:
            lines = output.strip().splitlines() or [f"exit status {status}"]
            # The last line may be a warning of NCCL, which follows the error.
            error_lines = [line for line in lines if line.startswith("error:")] or lines
            raise Failed(f"{self.folder / name}.log says: {error_lines[-1]}")
        return output

    @contextlib.contextmanager
    def start(
        self, name: str, program: Path | str, *arguments, **env: str
    ) -> Iterator[subprocess.Popen]:
        """Run a program, with its output in NAME.log. The program and its child processes are
        killed at the end of the block."""
        path = program if isinstance(program, Path) else next(ROOT.glob(f"scripts/*/{program}.py"))
        environment = (
            os.environ
            | {"VLLM_LOGGING_LEVEL": "INFO"}
            | environments.ALLOCATOR
            | ({warm.SOCKET: warm.OFF} if self.gpus else {})
        )
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(environments.SOURCE), os.environ.get("PYTHONPATH")])
        )
        command = [sys.executable, str(path), *map(str, arguments)]
        with open(self.folder / f"{name}.log", "w") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment | env
            )
        try:
            yield process
        finally:
            self.kill(process)

    def kill(self, process: subprocess.Popen) -> None:
        """Kill a program and all its child processes."""
        import psutil  # comes with accelerate

        with contextlib.suppress(psutil.NoSuchProcess):
            processes = [
                *psutil.Process(process.pid).children(recursive=True),
                psutil.Process(process.pid),
            ]
            for member in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
            # The processes hold the run's lock until they have ended.
            psutil.wait_procs(processes, timeout=60)
        process.wait()

    def log(self, name: str) -> str:
        """The log of a program."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def probe(
        self, name: str, model: str, gpus: int | None = None, **env: str
    ) -> tuple[list[dict], dict]:
        """(completions with their log-probabilities, provenance) of a probe."""
        output = self.folder / f"{name}.jsonl.gz"
        arguments = [
            *self.sampling(model, "train", gpus),
            "--samples",
            5,
            "--provenance",
            self.folder / f"{name}.json",
        ]
        self.run(name, "probe", *arguments, "--output", output, **env)
        rows = files.read_jsonl(
            output,
            {"id": str, "sample": int, "completion": str, "tokens": int, "log_probability": float},
        )
        return rows, files.read_json(self.folder / f"{name}.json")

    def evaluate(self, name: str, model: str, checkpoints: Path, *arguments) -> list[dict]:
        """The graded completions of an evaluation."""
        output = self.folder / f"{name}.csv.gz"
        options = [
            "--checkpoints",
            checkpoints,
            "--grader",
            self.task["grader"],
            "--samples",
            1,
            "--greedy",
            *arguments,
        ]
        options += ["--output", output, "--completions", self.folder / f"{name}.jsonl.gz"]
        self.run(name, "evaluate", *self.sampling(model, "test"), *options)
        return files.read_rows(
            output, {"step": int, "decoding": str, "answered": int, "correct": int, "tokens": int}
        )

    def sampling(self, model: str, split: str, gpus: int | None = None) -> list:
        """Arguments that probe and evaluation have in common."""
        chat = json.dumps(self.config["models"][model].get("chat", {}))
        arguments = [
            "--model",
            self.model(model),
            "--problems",
            self.folder / f"{split}.jsonl",
            "--prompt",
            self.task["prompt"],
        ]
        arguments += [
            "--completion-tokens",
            self.task["completion_tokens"],
            "--engine",
            self.engine,
            "--chat",
            chat,
            "--seed",
            1,
        ]
        return [*arguments, "--gpus", self.gpus if gpus is None else gpus]

    # --- trainings

    def training(
        self,
        name: str,
        model: str,
        recipe: dict,
        seed: int = 0,
        subset: str = "subset",
        gpus: int | None = None,
    ) -> list:
        """Write the specification of a training, and return the arguments of its program."""
        run = StudyRun(model, self.setting.task, "gpu_check", "random", seed, self.base(model))
        spec = Spec.of_run(
            run,
            model=Model.of(self.config["models"][model]),
            task=Task.of(self.config["tasks"][run.task]),
            recipe=Recipe.of(recipe),
            policy=Policy.of(self.config["policies"]["random"]),
        )
        inputs = {
            "problems": str(self.folder / "train.jsonl"),
            "subset": str(self.folder / f"{subset}.csv"),
        }
        files.write_text(
            self.folder / f"{name}.yaml",
            yaml.safe_dump(spec.fields() | inputs),
        )
        arguments = ["--spec", self.folder / f"{name}.yaml", "--output", self.folder / name]
        arguments += ["--state", self.folder / f"{name}.state"]
        count = self.gpus if gpus is None else gpus
        if not self.gpus:
            return arguments + ["--processes", max(1, count), "--micro-batch", 4]
        entry = self.gpu_settings(model, recipe, count)
        gib = self.expected_gib(model, recipe, count)["total"]
        arguments += [
            "--gpus",
            count,
            "--micro-batch",
            entry["micro_batch"],
            "--vllm-memory",
            entry["vllm_memory"],
        ]
        return arguments + ["--gpu-gib", math.ceil(gib)] + ["--vllm-sleep"] * entry["vllm_sleep"]

    def gpu_settings(self, model: str, recipe: dict, gpus: int) -> dict:
        """The settings of a model's training on a number of GPUs."""
        recipe_name = "as_written" if recipe["adapter"] else "as_written_full"
        own_settings = Model.of(self.config["models"][model]).training_gpus(
            Recipe.of(self.config["recipes"][recipe_name])
        )
        return SMALL_MODEL_GPUS | own_settings | {"count": gpus}

    def expected_gib(self, model: str, recipe: dict, gpus: int) -> dict[str, float]:
        """The estimated memory in GiB on each GPU of this node, by part and in total."""
        sizes = gpu_memory("total")
        if not sizes:
            raise UserError(
                "nvidia-smi does not show the memory of the job's GPUs; run nvidia-smi on this node to see why"
            )
        return memory.training_memory(
            self.config["models"][model]["shape"],
            Recipe.of(recipe),
            self.task["completion_tokens"],
            self.gpu_settings(model, recipe, gpus),
            gpu_gib=min(sizes),
        )

    def train(self, name: str, model: str, recipe: dict, fresh: bool = True, **options) -> "Run":
        """Train a run from the start or, with `fresh` False, from its state."""
        if fresh:
            self.clear(name)
        with PeakMemory(self.gpus) as peak:
            self.run(name, "train_grpo", *self.training(name, model, recipe, **options))
        return self.read_run(name, peak.gib, peak.gpus_used)

    def clear(self, name: str) -> None:
        """Remove the output and the state of a run."""
        for path in (self.folder / name, self.folder / f"{name}.state"):
            shutil.rmtree(path, ignore_errors=True)

    def read_run(self, name: str, peak_gib: float | None = None, gpus_used: int = 0) -> "Run":
        """A finished run. Raise a `UserError` if the run does not exist."""
        folder = self.folder / name
        if not (folder / "provenance.json").exists():
            raise UserError(f"{folder} is missing; start with the check that makes it: --from 3")
        record = files.read_json(folder / "provenance.json")
        columns = dict.fromkeys(["step", *outputs.update_columns(record["run"]["training"])], float)
        updates = files.read_rows(folder / "updates.csv", columns)
        return Run(folder, updates, record, peak_gib, gpus_used)

    def wait_until(
        self, process: subprocess.Popen, condition: Callable[[], bool], event: str
    ) -> None:
        """Wait until a condition holds; `event` names the condition in the message. Raise `Failed`
        if the process ends earlier."""
        while not condition():
            if process.poll() is not None:
                raise Failed(f"the training ended before {event}")
            time.sleep(0.01)

    def saved_updates(self, name: str) -> int:
        """The number of updates in the newest complete checkpoint of a run's state."""
        manifests = (self.folder / f"{name}.state").glob("*/checkpoint-*/manifest.json")
        return max((int(path.parent.name.split("-")[1]) for path in manifests), default=0)


@dataclass(frozen=True)
class Run:
    """A finished run: its log of updates, its provenance, the peak memory of a GPU in GiB, and the
    number of GPUs that it used."""

    folder: Path
    updates: list[dict[str, float]]
    record: dict
    peak_gib: float | None
    gpus_used: int

    def checkpoint(self, step: int) -> Path:
        """The folder of a checkpoint."""
        return self.folder / f"checkpoints/step-{step}"


def gpu_memory(quantity: str) -> list[float]:
    """The memory of each GPU in GiB. `quantity` is `used` or `total`. If CUDA_VISIBLE_DEVICES is not
    empty, only the GPUs that it lists count, because other jobs may use the remaining GPUs. Empty
    if nvidia-smi is missing or reports no number."""
    command = ["nvidia-smi", f"--query-gpu=memory.{quantity}", "--format=csv,noheader,nounits"]
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        command.append(f"--id={visible}")
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return [
        round(float(mib) / 1024, 2)
        for mib in process.stdout.split()
        if mib.replace(".", "").isdigit()
    ]


class PeakMemory:
    """The peak memory of each GPU during the block. A thread calls nvidia-smi, and waits 0.2
    seconds after each call."""

    def __init__(self, gpus: int):
        self.has_gpus, self.ended = gpus > 0, threading.Event()
        self.first_gibs = gpu_memory("used") if gpus else []
        self.peak_gibs = self.first_gibs
        self.thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def gib(self) -> float | None:
        """The peak memory in GiB of the GPU that uses most memory; None without GPUs."""
        return max(self.peak_gibs, default=0.0) if self.has_gpus else None

    @property
    def gpus_used(self) -> int:
        """The number of GPUs whose memory rose by more than CONTEXT_GIB, as it does when a process
        computes on the GPU."""
        rises = [peak - first for peak, first in zip(self.peak_gibs, self.first_gibs)]
        return sum(rise > CONTEXT_GIB for rise in rises)

    def _watch(self) -> None:
        while not self.ended.wait(0.2):
            pairs = itertools.zip_longest(self.peak_gibs, gpu_memory("used"), fillvalue=0.0)
            self.peak_gibs = [max(pair) for pair in pairs]

    def __enter__(self) -> "PeakMemory":
        if self.has_gpus:
            self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.ended.set()
        if self.has_gpus:
            self.thread.join()
