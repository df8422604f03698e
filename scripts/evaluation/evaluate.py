r"""Evaluate a base model, or every checkpoint of a run: sample at temperature 1 and, with --greedy,
at temperature 0, and grade every completion.

    python scripts/evaluation/evaluate.py --model results/models/steady-seed0 \
        --checkpoints results/training/steady-seed0/arithmetic/mini/hard/seed0/checkpoints \
        --problems results/tasks/arithmetic/test.jsonl --prompt '{question}' \
        --grader final_number --samples 4 --greedy --completion-tokens 48 --seed 2 \
        --output arithmetic.csv.gz --completions arithmetic.jsonl.gz

Without --checkpoints, or with --base, the base model --model is evaluated, as step 0. A
completion's seed depends only on --seed, the problem and the sample number.
"""

from hardgrpo.data import evaluations, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files, provenance, warm
from hardgrpo.runtime.progress import Progress
from hardgrpo.sampling import programs
from hardgrpo.study.spec import check_run_of_checkpoints

import argparse
from collections.abc import Iterator
from pathlib import Path


def main() -> None:
    parser = programs.build_parser(__doc__)
    parser.add_argument("--checkpoints", help="folder of a run's checkpoints")
    parser.add_argument("--base", action="store_true", help="also evaluate the base model")
    parser.add_argument("--grader", required=True)
    parser.add_argument("--greedy", action="store_true", help="also sample at temperature 0")
    parser.add_argument("--batch", type=programs.count, default=512, help="completions at once")
    parser.add_argument("--output", required=True, help="graded completions, CSV")
    parser.add_argument("--completions", required=True, help="texts of the completions, JSON Lines")
    args = parser.parse_args()

    graders.check_grader(args.grader)
    programs.start(args)
    problems = tasks.readable_problems(
        tasks.read_problems(args.problems), args.grader, args.problems
    )
    folders = find_checkpoints(Path(args.checkpoints)) if args.checkpoints else {}
    for folder in folders.values():
        provenance.check_manifest(folder, part_of=args.checkpoints)
    if args.checkpoints:
        check_run_of_checkpoints(Path(args.checkpoints))
    if args.base or not folders:
        folders = {0: args.model} | folders
    decodings = [("sampled", sample) for sample in range(args.samples)]
    decodings += [("greedy", 0)] * args.greedy
    keys = [(problem, decoding, sample) for problem in problems for decoding, sample in decodings]
    requests = [
        programs.make_request(
            "evaluate", args, problem, sample, temperature=1.0 if decoding == "sampled" else 0.0
        )
        for problem, decoding, sample in keys
    ]
    rows, texts = [], []
    with Progress(
        f"evaluate {args.output}", len(requests) * len(folders), "completions"
    ) as progress:
        for step, completions in sample_by_step(args, folders, requests, progress):
            for (problem, decoding, sample), completion in zip(keys, completions):
                graded = (completion.text, completion.tokens, completion.finish_reason)
                rows.append(
                    evaluations.grade(args.grader, problem, step, decoding, sample, *graded)
                )
                texts.append(evaluations.text(rows[-1], completion.text))
    files.write_jsonl(args.completions, texts)
    programs.write_provenance(args, progress, len(rows), sum(row["tokens"] for row in rows))
    evaluations.write(args.output, rows)


def sample_by_step(
    args: argparse.Namespace, folders: dict[int, str], requests: list, progress: Progress
) -> Iterator[tuple]:
    """Yield (step, completions). One engine serves the base model and all its adapters; each
    checkpoint that is a complete model has its own engine."""
    adapters = [
        folder if (Path(folder) / "adapter_config.json").exists() else None
        for folder in folders.values()
    ]
    if any(adapters):  # None is the base model
        yield from zip(
            folders, programs.sample(args, args.model, requests, progress, args.batch, adapters)
        )
        return
    for step, folder in folders.items():
        (completions,) = programs.sample(args, folder, requests, progress, args.batch)
        yield step, completions


def find_checkpoints(folder: Path) -> dict[int, str]:
    checkpoints = provenance.checkpoints(folder)
    pruned = [step for step, path in checkpoints.items() if (path / provenance.PRUNED).exists()]
    if pruned:
        raise errors.UserError(
            f"{folder}: the weights after {', '.join(map(str, pruned))} updates were removed (keep_checkpoints: last); to train the run again, set"
            f" keep_checkpoints: all and delete {folder / 'manifest.json'}"
        )
    return {step: str(path) for step, path in checkpoints.items()}


if __name__ == "__main__":
    warm.run(main)
