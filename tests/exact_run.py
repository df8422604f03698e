"""Run, in a few seconds, a tiny example of the stages whose files must be equal on every x86-64
processor with AVX2, and print the checksums of these files.

    python tests/exact_run.py --output FOLDER
    qemu-x86_64 -cpu Haswell .venv/bin/python tests/exact_run.py --output FOLDER

The program pretrains a model, probes it, trains it by GRPO and evaluates it, all in one process,
because an emulated processor takes minutes to load torch. tests/end_to_end/exact_run.sha256 holds
the expected lines.
"""

import argparse
import json
import os
from pathlib import Path

from hardgrpo.runtime import checksums, environments, errors, files
from in_process import run_program

QUESTIONS, SAMPLES, TOKENS = 4, 2, 6
# Facts, because their demonstrations are short: the answer alone, without steps.
TASK = {"kind": "generated", "family": "facts", "seed": 17, "train": QUESTIONS, "test": QUESTIONS}
MODEL = {
    "seed": 0, "hidden_size": 32, "intermediate_size": 48, "layers": 2, "heads": 1, "key_value_heads": 1,
    "head_size": 32, "rotary_base": 100.0, "context_tokens": 64, "steps": 12, "batch_size": 8,
    "learning_rate": 3.0e-3, "matrix_learning_rate": 2.0e-2,
    "demonstrations": {
        "facts": {
            "known": [0.5, 0.5], "misconception": 0.7, "share": {"first": 1.0, "last": 1.0},
            "source": TASK, "prompt": "{question}",
        }
    },
}  # fmt: skip
# Readable answers are rewarded, because a model after 12 steps is never right.
RECIPE = {
    "objective": "grpo", "updates": 2, "prompts_per_update": 2, "group_size": 4, "temperature": 1.0,
    "reward": "finished", "advantage": "centred", "loss": "dapo", "beta": 0.0, "epsilon": 0.2,
    "optimiser": "adamw", "learning_rate": 2.0e-3, "schedule": "constant", "warmup_share": 0.0,
    "weight_decay": 0.0, "max_grad_norm": 1.0, "base": "fp32", "precision": "fp32",
    "generation": "transformers", "checkpoint_every": 2, "adapter": None,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output", required=True, type=Path, help="folder to write; must not exist"
    )
    args = parser.parse_args()
    folder = args.output.absolute()
    if folder.exists():
        raise errors.UserError(f"{args.output} exists; name a folder that does not exist")
    environments.prepare_exact()
    if not environments.is_exact():
        raise errors.UserError(
            "this processor has no AVX2, or this system is not Linux; use Linux on an x86-64 processor with AVX2"
        )
    results = folder / "results"
    results.mkdir(parents=True)
    os.chdir(results)
    run_stages()
    print(checksums.lines(folder), end="")


def run_stages() -> None:
    """Write the files of all stages into the working folder."""
    task, model, train = json.dumps(TASK), "models/tiny", "tasks/facts/train.jsonl"
    for split in ("train", "test"):
        output = f"tasks/facts/{split}.jsonl"
        run_program("prepare_task", task="facts", split=split, source=task, output=output)
    run_program("pretrain_model", model="tiny", settings=json.dumps(MODEL), output=model)
    conditions = {"model": model, "prompt": "{question}", "samples": SAMPLES}
    conditions["completion_tokens"] = TOKENS
    output = "probe/tiny/facts/shard0.jsonl.gz"
    run_program("probe", **conditions, problems=train, seed=1, output=output)
    problems = files.read_jsonl(train, {"id": str})
    rows = [{"id": row["id"], "rank": rank} for rank, row in enumerate(problems, start=1)]
    files.write_rows("subset.csv", ["id", "rank"], rows)
    spec = {
        "model": "tiny", "task": "facts", "policy": "all", "recipe": "exact", "seed": 0, "model_folder": model,
        "problems": train, "subset": "subset.csv", "prompt": "{question}", "chat": {}, "grader": "final_word",
        "completion_tokens": TOKENS, "training": RECIPE,
    }  # fmt: skip
    files.write_json("spec.yaml", spec)  # JSON is YAML
    run_program("train_grpo", spec="spec.yaml", output="training/run")
    run_program(
        "evaluate", **conditions, checkpoints="training/run/checkpoints", base=True, greedy=True,
        grader="final_word", problems="tasks/facts/test.jsonl", seed=2,
        output="evaluation/facts.csv.gz", completions="evaluation/facts.jsonl.gz",
    )  # fmt: skip


if __name__ == "__main__":
    os.environ["HARDGRPO_WARM"] = "off"
    errors.run(main)
