"""Evaluate a base model, or every checkpoint of a run: samples at temperature 1 and greedy, every completion graded.

    python scripts/evaluation/evaluate.py --model results/models/tiny --checkpoints results/training/tiny/swaps/mini/hard/seed0/checkpoints \\
        --problems results/tasks/swaps/test.jsonl --prompt '{question}' --grader final_word --samples 4 --greedy \\
        --completion-tokens 64 --seed 2 --output swaps.csv.gz --completions swaps.jsonl.gz

Without --checkpoints the base model --model is evaluated, as step 0; with --base too it is evaluated beside them.
Checkpoints that are adapters share one engine with their base; checkpoints of all weights are loaded one after another.
The seeds belong to (problem, sample), so base and checkpoints of all runs are compared on the same random numbers.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

from hardgrpo.analysis import evaluations
from hardgrpo.data import tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files, provenance, warm
from hardgrpo.runtime.progress import Progress
from hardgrpo.sampling import programs


def main() -> None:
    parser = programs.parser(__doc__)
    parser.add_argument("--checkpoints", help="folder of a run's checkpoints")
    parser.add_argument("--base", action="store_true", help="with --checkpoints: the base model too")
    parser.add_argument("--grader", required=True)
    parser.add_argument("--greedy", action="store_true", help="one more at temperature 0")
    parser.add_argument("--batch", type=int, default=512, help="completions that transformers samples at once")
    parser.add_argument("--output", required=True, help="graded completions, CSV")
    parser.add_argument("--completions", required=True, help="their texts, JSON Lines")
    args = parser.parse_args()
    started = time.time()

    if args.samples < 1:
        raise errors.UserError(f"--samples is {args.samples}, expected at least 1")
    graders.check_grader(args.grader)
    engines = programs.start(args)
    problems = tasks.read_by_grader(tasks.read_problems(args.problems), args.grader, args.problems)
    folders = find_checkpoints(Path(args.checkpoints)) if args.checkpoints else {}
    if args.base or not folders:
        folders = {0: args.model} | folders
    for folder in {args.model, *folders.values()}:
        provenance.check_manifest(folder)
    kinds = [(1.0, sample) for sample in range(args.samples)] + ([(0.0, 0)] if args.greedy else [])
    keys = [(problem, temperature, sample) for problem in problems for temperature, sample in kinds]
    requests = [programs.request("evaluate", args, problem, sample, temperature) for problem, temperature, sample in keys]
    rows, texts = [], []
    with Progress(f"evaluate {args.output}", len(requests) * len(folders), "completions") as progress:
        options = {"gpus": args.gpus, "batch": args.batch, "ready": progress.ready}
        options["done"] = lambda count, _: progress.advance(count)
        for step, completions in by_step(engines, args, folders, requests, options):
            for (problem, temperature, sample), completion in zip(keys, completions):
                grade = graders.grade(args.grader, completion.text, problem["answer"])
                row = evaluations.row(step, problem, temperature, sample, grade)
                row |= {"truncated": completion.finish_reason == "length", "tokens": completion.tokens}
                rows.append(row)
                texts.append({key: row[key] for key in evaluations.KEY} | {"completion": completion.text})
    files.write_jsonl(args.completions, texts)
    if args.provenance:
        tokens = sum(row["tokens"] for row in rows)
        facts = provenance.of_sampling(started, args.engine, args.gpus, len(rows), tokens, progress.seconds)
        files.write_text(args.provenance, json.dumps(facts, indent=1) + "\n")
    evaluations.write(args.output, rows)


def by_step(engines, args: argparse.Namespace, folders: dict[int, str], requests: list, options: dict) -> Iterator[tuple]:
    """(step, completions): one engine for the base model and all its adapters, one for each checkpoint of all weights."""
    adapters = {step: folder for step, folder in folders.items() if (Path(folder) / "adapter_config.json").exists()}
    alone = {step: folder for step, folder in folders.items() if step not in adapters}
    if adapters:
        served = {step: None for step, folder in alone.items() if folder == args.model} | adapters
        alone = {step: folder for step, folder in alone.items() if step not in served}
        lists = engines.sample(
            args.engine, args.model, requests, args.completion_tokens, args.chat, list(served.values()), **options
        )
        yield from zip(served, lists)
    for step, folder in alone.items():
        (completions,) = engines.sample(args.engine, folder, requests, args.completion_tokens, args.chat, **options)
        yield step, completions


def find_checkpoints(folder: Path) -> dict[int, str]:
    found = provenance.checkpoints(folder)
    pruned = [step for step, path in found.items() if (path / provenance.PRUNED).exists()]
    if pruned:
        raise errors.UserError(
            f"{folder}: the weights after {', '.join(map(str, pruned))} updates were removed when the study was evaluated"
            " (keep_checkpoints: last), so nothing more can be tested on them; set keep_checkpoints: all, delete"
            f" {folder / 'manifest.json'} and run again to train them anew"
        )
    return {step: str(path) for step, path in found.items()}


if __name__ == "__main__":
    warm.run(main)
