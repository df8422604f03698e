"""Evaluate a base model, or every checkpoint of a run: samples at temperature 1 and greedy, every completion graded.

    python scripts/evaluate.py --checkpoints results/training/tiny/swaps/mini/hard/seed0/checkpoints \\
        --problems results/tasks/swaps/test.jsonl --prompt '{question}' --grader final_word --samples 4 --greedy \\
        --completion-tokens 64 --seed 2 --output swaps.csv.gz --completions swaps.jsonl.gz

With --model FOLDER in place of --checkpoints the base model is evaluated, as step 0. The seeds belong to (problem,
sample), so base and checkpoints of all runs are compared on the same random numbers.
"""

import argparse
import json
from pathlib import Path

from hardgrpo import engines, errors, evaluations, files, grading, provenance, tasks
from hardgrpo.progress import Progress


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", help="folder of the base model")
    source.add_argument("--checkpoints", help="folder of a run's checkpoints")
    parser.add_argument("--problems", required=True)
    parser.add_argument("--prompt", required=True, help="template with {question}")
    parser.add_argument("--grader", required=True)
    parser.add_argument("--samples", type=int, required=True, help="completions a problem at temperature 1")
    parser.add_argument("--greedy", action="store_true", help="one more at temperature 0")
    parser.add_argument("--completion-tokens", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--batch", type=int, default=512, help="completions sampled at once")
    parser.add_argument("--output", required=True, help="graded completions, CSV")
    parser.add_argument("--completions", required=True, help="their texts, JSON Lines")
    args = parser.parse_args()

    if args.samples < 1:
        raise errors.UserError(f"--samples is {args.samples}, expected at least 1")
    engines.fix_threads()
    grading.check_grader(args.grader)
    problems = tasks.read_problems(args.problems)
    tasks.check_readable(problems, args.grader, args.problems)
    folders = {0: args.model} if args.model else find_checkpoints(Path(args.checkpoints))
    for folder in folders.values():
        provenance.check_manifest(folder)
    kinds = [(1.0, sample) for sample in range(args.samples)] + ([(0.0, 0)] if args.greedy else [])
    keys = [(problem, temperature, sample) for problem in problems for temperature, sample in kinds]
    requests = [
        engines.Request(
            tuple(tasks.messages(args.prompt, problem["question"])),
            engines.sample_seed("evaluate", args.seed, problem["id"], sample),
            temperature,
        )
        for problem, temperature, sample in keys
    ]
    rows, texts = [], []
    with Progress(f"evaluate {args.output}", len(requests) * len(folders), "completions") as progress:
        for step, folder in folders.items():
            model, tokenizer = engines.load(folder)
            completions = engines.generate(
                model, tokenizer, requests, args.completion_tokens, args.batch, lambda count, _: progress.advance(count)
            )
            for (problem, temperature, sample), completion in zip(keys, completions):
                verdict = grading.grade(args.grader, completion.text, problem["answer"])
                row = evaluations.row(step, problem, temperature, sample, verdict)
                row |= {"truncated": completion.finish_reason == "length", "tokens": completion.tokens}
                rows.append(row)
                texts.append({key: row[key] for key in ("step", "id", "decoding", "sample")} | {"completion": completion.text})
    files.write_jsonl(args.completions, texts)
    evaluations.write(args.output, rows)


def find_checkpoints(folder: Path) -> dict[int, str]:
    path = folder / "manifest.json"
    try:
        steps = json.loads(files.read_text(path))["steps"]
    except (json.JSONDecodeError, KeyError):
        raise errors.UserError(f"{path}: not a list of checkpoints; delete {folder.parent} and run again") from None
    return {step: str(folder / f"step-{step}") for step in steps}


if __name__ == "__main__":
    errors.run(main)
