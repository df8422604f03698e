"""Measure by what margin models prefer the most probable result of arithmetic steps, before and
after training.

    python scripts/maintenance/measure_margins.py --study mini_rates

For each step of the right solution of each test problem, the program computes the probability of
every result from 0 to 99. The *margin* of a step is the probability of the most probable result
minus that of the second most probable result. Greedy decoding usually takes the most probable
result, so a small change of the probabilities changes the greedy result if the margin is small.

Runs whose base model is not in results/models are left out. The last checkpoint of a run is
measured if it is in results/training. The program replaces the study's rows of --output: for each
model, the base models (no policy) and the runs of each arm get one row for each operation.
"""

from hardgrpo.data import generated, tasks
from hardgrpo.runtime import errors, files, provenance
from hardgrpo.runtime.errors import UserError
from hardgrpo.sampling import engines, model_folders
from hardgrpo.study import load, paths
from hardgrpo.study.resolved import ResolvedStudy

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

TASK = "arithmetic"
SPACE = "\u2581"  # how the tokenizers write a space
COLUMNS = [
    "study",
    "model",
    "policy",
    "recipe",
    "models",
    "operation",
    "steps",
    "margin_low_quartile",
    "margin_median",
    "margin_high_quartile",
    "below_5_points",
    "right_is_first",
    "right_probability",
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--study", required=True, help="a study with runs on task arithmetic")
    parser.add_argument(
        "--output", type=Path, default=Path("docs/margins.csv"), help="table (default: %(default)s)"
    )
    args = parser.parse_args()
    engines.configure_torch()
    problems = tasks.read_problems(paths.problems(TASK, "test"))
    rows = []
    for (model, policy, recipe), folders in model_folders_by_arm(args.study).items():
        steps = [step for folder in folders for step in measure(folder, problems)]
        arm_values = [args.study, model, policy, recipe, len(folders)]
        rows += [
            dict(zip(COLUMNS, [*arm_values, operation, *values]))
            for operation, values in summarize(steps).items()
        ]
        print(f"{model} {policy} {recipe}: {len(folders)} models", flush=True)
    other_rows = []
    if args.output.exists():
        with args.output.open(encoding="utf-8", newline="") as stream:
            other_rows = [row for row in csv.DictReader(stream) if row["study"] != args.study]
    files.write_rows(args.output, COLUMNS, other_rows + rows)


def model_folders_by_arm(study: str) -> dict[tuple[str, str, str], list[str]]:
    """{(model, policy, recipe): folders of the last checkpoints of the runs}. The key (model, "",
    "") has the base models of the runs. Runs on tasks other than TASK, and runs whose base model is
    missing, are left out. Raise a `UserError` if no run remains."""
    folders: dict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
    runs = [run for run in ResolvedStudy.of(load.read(), study).runs if run.task == TASK]
    if not runs:
        raise UserError(
            f"--study {study}: the study has no runs on task '{TASK}'; name another study"
        )
    for run in runs:
        base = paths.model_folder(run.base)
        if not Path(base, "manifest.json").exists():
            continue
        folders[run.model, "", ""][base] = None
        checkpoints = Path(paths.training(run, "checkpoints"))
        if (checkpoints / "manifest.json").exists():
            by_step = provenance.checkpoints(checkpoints)
            folders[run.model, run.policy, run.recipe][str(by_step[max(by_step)])] = None
    if not folders:
        raise UserError(
            f"{paths.model_folder('')}: no base model for the runs of study '{study}' on task '{TASK}';"
            f" run the study: .venv/bin/snakemake --profile laptop --config study={study}"
        )
    return {arm: list(arm_folders) for arm, arm_folders in folders.items()}


def summarize(steps: list[tuple[str, np.ndarray, int]]) -> dict[str, list[float]]:
    """{operation: values of COLUMNS after `operation`} of the steps that `measure` returns."""
    by_operation = defaultdict(list)
    for operation, probabilities, right in steps:
        second, first = np.sort(probabilities)[-2:]
        is_first = probabilities.argmax() == right
        by_operation[operation].append((first - second, is_first, probabilities[right]))
    summaries = {}
    for operation, values in sorted(by_operation.items()):
        margins, right_is_first, right_probabilities = np.array(values, float).T
        statistics = (
            *np.quantile(margins, (0.25, 0.5, 0.75)),
            (margins < 0.05).mean(),
            right_is_first.mean(),
            right_probabilities.mean(),
        )
        summaries[operation] = [len(margins), *(round(float(value), 4) for value in statistics)]
    return summaries


@torch.inference_mode()
def measure(folder: str, problems: list[dict]) -> Iterator[tuple[str, np.ndarray, int]]:
    """Yield (operation, probabilities (100,) of the results 0 to 99, right result) for each step of
    the right solutions.

    Tokenizers of the models that are pretrained here have a token for each digit. The probability
    of a result of two digits is the product of its digits' probabilities; that of a result of one
    digit is the product of the probabilities of the digit and of the step's end.
    """
    model = engines.load(folder)
    tokenizer = model_folders.load_tokenizer(folder)
    first_digit_ids = tokenizer.convert_tokens_to_ids([f"{SPACE}{digit}" for digit in range(10)])
    second_digit_ids = tokenizer.convert_tokens_to_ids([str(digit) for digit in range(10)])
    step_end_id = tokenizer.convert_tokens_to_ids(f"{SPACE};")
    for problem in problems:
        chain = generated.read_arithmetic(problem["question"])
        messages = tasks.messages("{question}", problem["question"])
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        (value,) = chain.start
        for operation, operand in chain.steps:
            result = generated.apply((operation, operand), value)
            text += f" {value} {operation} {operand} ="
            ids = tokenizer(text)["input_ids"]
            batch = torch.tensor([[*ids, digit_id] for digit_id in first_digit_ids])
            logits = model(batch.to(model.device)).logits
            probabilities = logits[:, -2:].double().softmax(-1).cpu().numpy()
            first_digit_probabilities = probabilities[0, 0, first_digit_ids]  # (10,)
            # (first digit, second digit)
            second_digit_probabilities = probabilities[:, 1][:, second_digit_ids]
            result_probabilities = (
                first_digit_probabilities[:, None] * second_digit_probabilities
            ).ravel()
            # Replace the entries 00 to 09 by the results of one digit.
            result_probabilities[:10] = first_digit_probabilities * probabilities[:, 1, step_end_id]
            yield operation, result_probabilities, result
            text, value = f"{text} {result} ;", result


if __name__ == "__main__":
    errors.run(main)
