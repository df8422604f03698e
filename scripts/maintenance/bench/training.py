"""A training step compared with TRL's script (`trl grpo`, trl/scripts/grpo.py) on the same model,
prompts, lengths and optimiser.

scripts/training/train_grpo.py and TRL's script each retrain a run of the finished miniature for a
few updates, in alternating pairs. A step's seconds are TRL's `step_time` in both programs
(sampling, reward, forward and backward pass, without the optimiser). The first step does not count.
Both programs have the workflow's environment variables. In three cases both programs have the same
settings: without a KL term, with a KL term, and in micro-batches instead of all completions at
once. In a fourth case, only TRL's script uses gradient checkpointing, which is its default.
"""

import benchmarks
from benchmarks import ROOT, compare, from_demo, program
from hardgrpo.data import tasks
from hardgrpo.runtime import environments, files
from hardgrpo.study.spec import Spec
from hardgrpo.training import recipes

import functools
import json
import statistics
import sys
import tempfile
from pathlib import Path

UPDATES = 10
ENVIRONMENT = {"OMP_NUM_THREADS": "1"} | environments.ALLOCATOR
REWARD = """from hardgrpo.grading import graders
def correct(completions, answer, **_):
    return [float(graders.grade({grader!r}, messages[0]["content"], a).correct) for messages, a in zip(completions, answer)]
"""
# (beta, micro-batch, whether TRL's script uses gradient checkpointing)
CASES = [(0.0, None, False), (0.0, None, True), (0.04, None, False), (0.0, 8, False)]


def run(options) -> list[dict]:
    demo_spec, _ = from_demo(
        "results/training/*/*/mini/hard/seed*/spec.yaml", f"{options.model}/manifest.json"
    )
    rows = []
    with benchmarks.scratch() as temporary:
        for beta, micro_batch, checkpointing in CASES:
            spec = benchmarks.write_spec(
                demo_spec, Path(temporary) / "spec.yaml", UPDATES, {"beta": beta}
            )
            trl = functools.partial(trl_step_seconds, spec, micro_batch, checkpointing)
            name = f"step, beta {beta:g}" + (
                f", micro-batches of {micro_batch}" if micro_batch else ""
            )
            setting = "with its gradient checkpointing" if checkpointing else "the same settings"
            name, repeats = f"{name}; TRL's script, {setting}", max(1, options.repeats // 2)
            rows.append(
                compare(
                    name,
                    "s",
                    functools.partial(step_seconds, spec, micro_batch),
                    trl,
                    repeats,
                    "ratio <= 1",
                )
            )
    return rows


def step_seconds(spec: Path, micro_batch: int | None = None) -> float:
    """Mean seconds of a sampling step by this project's program, without the first step."""
    with tempfile.TemporaryDirectory(dir=spec.parent) as folder:
        command = program(
            "train_grpo", "--spec", spec, "--output", f"{folder}/run", "--state", f"{folder}/state"
        )
        benchmarks.run(
            command + (["--micro-batch", str(micro_batch)] if micro_batch else []), **ENVIRONMENT
        )
        steps = files.read_rows(f"{folder}/run/timing.csv", {"step": int, "seconds": float})
    return statistics.mean(step["seconds"] for step in steps[1:])


def trl_step_seconds(spec: Path, micro_batch: int | None, checkpointing: bool) -> float:
    """Mean seconds of a step by TRL's script, without the first step. The arguments of the script
    are the settings of the recipe."""
    content = Spec.read(str(spec))
    problems = {problem["id"]: problem for problem in tasks.read_problems(ROOT / content.problems)}
    subset = tasks.read_subset(ROOT / content.subset, problems, content.problems)
    order = recipes.schedule(subset, UPDATES, content.training["prompts_per_update"], content.seed)
    prompts = (
        {
            "prompt": tasks.messages(content.prompt, problems[i]["question"]),
            "answer": problems[i]["answer"],
        }
        for i in order
    )
    arguments = recipes.trainer_arguments(
        content, "unused", recipes.Hardware(micro_batch=micro_batch)
    )
    names = [
        "seed",
        "num_generations",
        "temperature",
        "top_p",
        "top_k",
        "max_completion_length",
        "scale_rewards",
        "loss_type",
    ]
    names += [
        "beta",
        "epsilon",
        "max_steps",
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "learning_rate",
    ]
    names += [
        "lr_scheduler_type",
        "weight_decay",
        "max_grad_norm",
        "optim",
        "bf16",
        "use_cpu",
        "shuffle_dataset",
    ]
    names += ["save_strategy", "save_steps", "logging_steps", "report_to", "disable_tqdm"]
    with tempfile.TemporaryDirectory(dir=spec.parent) as folder:
        (Path(folder) / "data").mkdir()
        files.write_jsonl(f"{folder}/data/train.jsonl", prompts)
        (Path(folder) / "reward.py").write_text(REWARD.format(grader=content.grader))
        command = [
            sys.executable,
            "-m",
            "trl.scripts.grpo",
            "--model_name_or_path",
            str(ROOT / content.model_folder),
        ]
        command += [
            "--dtype",
            "float32",
            "--dataset_name",
            "data",
            "--reward_funcs",
            "reward.correct",
            "--output_dir",
            "out",
        ]
        command += ["--gradient_checkpointing", str(checkpointing)]
        for name in names:
            command += [f"--{name}", str(arguments[name])]
        caches = {
            "HF_DATASETS_CACHE": f"{folder}/cache",
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": str(ROOT / "src"),
        }
        benchmarks.run(command, Path(folder), **ENVIRONMENT, **caches)
        state = json.loads(
            (Path(folder) / f"out/checkpoint-{UPDATES}/trainer_state.json").read_text(
                encoding="utf-8"
            )
        )
    return statistics.mean(
        entry["step_time"] for entry in state["log_history"][1:] if "step_time" in entry
    )
