"""Train one run with TRL's GRPOTrainer: the model on the chosen prompts, as `spec.yaml` says.

    python scripts/train_grpo.py --spec results/training/tiny/swaps/mini/hard/seed0/spec.yaml --output some/folder

Writes checkpoints/step-N/ (Hugging Face folders), updates.csv (one row an update), timing.csv and provenance.json.
While it runs, its state (optimiser, random numbers, log) is kept under --state in a folder named by a hash of the
specification and its inputs. Started again after whatever stopped it, it goes on from the last whole checkpoint there
and ends with the files that an uninterrupted run gives, bit for bit. A finished run removes its state.
"""

import argparse
import fcntl
import json
import os
import shutil
import time
from pathlib import Path

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from hardgrpo import engines, errors, files, grading, provenance, recipes, tasks
from hardgrpo.progress import Progress

UPDATE_COLUMNS = {  # our name: TRL's name in its log
    "prompts": "prompts",
    "rollouts": "rollouts",
    "reward_mean": "reward",
    "learnable_share": "frac_reward_zero_std",
    "answered_share": "answered_share",
    "truncated_share": "completions/clipped_ratio",
    "tokens_mean": "completions/mean_length",
    "kl": "kl",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
}
MODEL_FILES = (
    "*.safetensors",
    "*.safetensors.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "chat_template.jinja",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spec", required=True)
    parser.add_argument("--output", required=True, help="folder to write")
    parser.add_argument("--state", default="results/state", help="folder of the states of unfinished runs")
    args = parser.parse_args()

    started = time.time()
    engines.fix_threads()
    spec = recipes.read_spec(args.spec)
    provenance.check_manifest(spec.model_folder)
    problems = {problem["id"]: problem for problem in tasks.read_problems(spec.problems)}
    chosen = [row["id"] for row in files.read_rows(spec.subset, {"id": str})]
    unknown = [i for i in chosen if i not in problems]
    if unknown or not chosen:
        what = f"id '{unknown[0]}' is not in {spec.problems}" if unknown else "the subset is empty"
        raise errors.UserError(f"{spec.subset}: {what}; choose the subset again")

    inputs = [files.sha256(path) for path in (f"{spec.model_folder}/manifest.json", spec.problems, spec.subset)]
    versions = [provenance.version(package) for package in ("torch", "transformers", "trl")]
    state = Path(args.state) / spec.digest(*inputs, *versions)
    shutil.rmtree(state.with_suffix(".finished"), ignore_errors=True)
    state.mkdir(parents=True, exist_ok=True)
    with lock(state):
        resumed_from = last_whole_checkpoint(state, spec.training["checkpoint_every"])
        if resumed_from < spec.training["updates"]:
            train(spec, problems, chosen, state, resumed_from)
        history = read_history(state, spec.training["updates"])
        export(spec, state, Path(args.output), history, started, resumed_from)
    finished = state.with_suffix(".finished")
    state.rename(finished)  # at once, so that a kill while it is removed leaves nothing that looks like a state
    shutil.rmtree(finished)


def lock(state: Path):
    """An open file that holds the lock on a state folder; the system lets go of it when the process ends, however."""
    stream = open(state / "lock", "a+")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.seek(0)
        raise errors.UserError(
            f"{state}: {stream.read().strip() or 'another process'} is training this run; wait for it, or stop it"
        ) from None
    stream.truncate(0)
    stream.write(f"process {os.getpid()} on {os.uname().nodename}")
    stream.flush()
    return stream


def last_whole_checkpoint(state: Path, every: int) -> int:
    """Updates done in the last checkpoint up to which all were written in full (0: none); what comes after is removed."""
    done, whole = 0, True
    for step in sorted(int(folder.name.removeprefix("checkpoint-")) for folder in state.glob("checkpoint-*")):
        folder = state / f"checkpoint-{step}"
        try:
            whole = whole and step == done + every and bool(provenance.check_manifest(folder))
        except errors.UserError:
            whole = False
        if whole:
            done = step
        else:
            shutil.rmtree(folder)
    return done


def train(spec: recipes.Spec, problems: dict, chosen: list[str], state: Path, resume_from: int) -> None:
    recipe = spec.training
    order = recipes.schedule(chosen, recipe["updates"], recipe["prompts_per_update"], spec.seed)
    dataset = Dataset.from_list(
        [{"prompt": tasks.messages(spec.prompt, problems[i]["question"]), "answer": problems[i]["answer"]} for i in order]
    )
    on_gpu = torch.cuda.is_available()
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(
            spec.model_folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
        ),
        processing_class=AutoTokenizer.from_pretrained(spec.model_folder, local_files_only=True),
        reward_funcs=reward_function(spec.grader, recipe["group_size"]),
        args=GRPOConfig(**recipes.trainer_arguments(spec, str(state), on_gpu)),
        train_dataset=dataset,
    )
    trainer.remove_callback(PrinterCallback)
    title = f"train {spec.model}/{spec.task}/{spec.policy}/seed{spec.seed}"
    with Progress(title, recipe["updates"], "updates", start=resume_from) as progress:
        trainer.add_callback(Watch(progress))
        trainer.train(resume_from_checkpoint=str(state / f"checkpoint-{resume_from}") if resume_from else None)


def reward_function(grader: str, group_size: int):
    """1 for a correct completion, 0 for any other, by the grader that probe and evaluation use."""

    def correct(completions, answer, log_metric, **_) -> list[float]:
        verdicts = [grading.grade(grader, messages[0]["content"], a) for messages, a in zip(completions, answer)]
        log_metric("prompts", len(completions) / group_size)
        log_metric("rollouts", len(completions))
        log_metric("answered_share", sum(v.answered for v in verdicts) / len(verdicts))
        return [float(v.correct) for v in verdicts]

    return correct


class Watch(TrainerCallback):
    """Shows progress, and marks a checkpoint as whole once everything of it is written."""

    def __init__(self, progress: Progress):
        self.progress = progress

    def on_log(self, args, state, control, logs=None, **_) -> None:
        if "reward" in logs:
            self.progress.advance(1, f"reward {logs['reward']:.2f}, learnable {1 - logs['frac_reward_zero_std']:.2f}")

    def on_save(self, args, state, control, **_) -> None:
        provenance.write_manifest(Path(args.output_dir) / f"checkpoint-{state.global_step}")


def read_history(state: Path, updates: int) -> list[dict]:
    """TRL's log, an entry an update, as the last checkpoint holds it (whole also after interruptions)."""
    text = files.read_text(state / f"checkpoint-{updates}" / "trainer_state.json")
    history = [entry for entry in json.loads(text)["log_history"] if "reward" in entry]
    if [entry["step"] for entry in history] != list(range(1, updates + 1)):
        raise RuntimeError(f"{state}: the log does not hold updates 1 to {updates} once each")
    return history


def export(spec: recipes.Spec, state: Path, output: Path, history: list[dict], started: float, resumed_from: int) -> None:
    steps = range(spec.training["checkpoint_every"], spec.training["updates"] + 1, spec.training["checkpoint_every"])
    shutil.rmtree(output / "checkpoints", ignore_errors=True)  # of an earlier recipe: Snakemake has voided its manifest
    with files.atomic(output / "checkpoints") as folder:
        for step in steps:
            target = folder / f"step-{step}"
            target.mkdir(parents=True)
            for pattern in MODEL_FILES:
                for path in (state / f"checkpoint-{step}").glob(pattern):
                    shutil.copyfile(path, target / path.name)
            provenance.write_manifest(target)
        files.write_text(folder / "manifest.json", json.dumps({"steps": list(steps)}) + "\n")
    rows = [{"step": e["step"]} | {ours: e.get(theirs) for ours, theirs in UPDATE_COLUMNS.items()} for e in history]
    for row in rows:
        row["learnable_share"] = 1 - row["learnable_share"]
    files.write_rows(output / "timing.csv", ["step", "seconds"], ({"step": e["step"], "seconds": e["step_time"]} for e in history))
    facts = provenance.describe(
        started,
        run=vars(spec),
        resumed_from=resumed_from,
        update_seconds=round(sum(e["step_time"] for e in history), 3),
        completion_tokens=round(sum(r["tokens_mean"] * r["rollouts"] for r in rows)),
        state=state.name,
    )
    files.write_text(output / "provenance.json", json.dumps(facts, indent=1) + "\n")
    files.write_rows(output / "updates.csv", ["step", *UPDATE_COLUMNS], rows)
    last = rows[-1]
    print(f"{output}: {last['step']} updates, last reward {last['reward_mean']:.3f}, checkpoints at {', '.join(map(str, steps))}")


if __name__ == "__main__":
    errors.run(main)
