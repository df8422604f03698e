"""Compare choices of prompts on existing completions: the share of learnable groups, and the number
of labels to buy.

    python scripts/subsets/compare_choices.py --recording train.jsonl --grader choice_letter \\
        --output choices.csv
    python scripts/subsets/compare_choices.py --problems results/tasks/T/train.jsonl \\
        --completions results/probe/M/T/shard0.jsonl.gz --grader choice_letter \\
        --output choices.csv

A recording has one line per prompt: question, answer, and completions (a list of two or more,
equally many for all prompts). A random half of each prompt's completions is used to choose prompts,
and the other half to measure the chosen prompts. For the columns `confidently_wrong` and `overlap`,
all completions are used to choose and to measure. The program also prints the main columns. Each
recording has its own comparison.

Option --probed-by names, for each recording, a recording of another model on the same questions.
The table then has additional rows, in which all completions of the other model choose the prompts,
and half of the recording's own completions measure these prompts.

The second command reads a probe instead of a recording: the problems with answers, and the
completions of all shards.
"""

from hardgrpo.data import completions, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files
from hardgrpo.selection import choices, signals

import argparse
import collections

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    completions_options = parser.add_mutually_exclusive_group(required=True)
    completions_options.add_argument("--recording", nargs="+", default=[], help="JSON Lines")
    completions_options.add_argument(
        "--completions", nargs="+", default=[], help="all shards of a probe"
    )
    parser.add_argument("--problems", help="the pool of the probe, with answers")
    parser.add_argument(
        "--probed-by",
        nargs="+",
        help="for each recording, a recording of another model whose completions also choose prompts",
    )
    parser.add_argument("--grader", required=True, help=", ".join(graders.GRADERS))
    parser.add_argument(
        "--budget",
        type=float,
        default=0.1,
        help="share of the pool to choose (default: %(default)s)",
    )
    parser.add_argument(
        "--draws",
        type=int,
        default=400,
        help="number of random splits and of bootstrap samples (default: %(default)s)",
    )
    parser.add_argument("--output", required=True, help="CSV file")
    args = parser.parse_args()

    probers = args.probed_by or [None] * len(args.recording)
    pools = [
        (
            path,
            grade_recording(path, args.grader, recorded, problems),
            prober and grade_recording(prober, args.grader, recorded, problems),
        )
        for path, prober in zip(args.recording, probers)
        for recorded in [read_problems(path)]
        for problems in [tasks.readable_problems(recorded, args.grader, path)]
    ]
    if args.completions:
        pools = [
            (args.completions[0], grade_probe(args.problems, args.completions, args.grader), None)
        ]
    rows = []
    for path, (right, codes), other_model in pools:
        if args.budget * len(right) < 1:
            raise errors.UserError(
                f"{path}: {args.budget} x {len(right)} prompts are less than one prompt; raise --budget"
            )
        choice_rows = choices.compare(
            right, codes, args.budget, args.draws, other_model=other_model
        )
        rows += [
            {"recording": path, "pool": len(right), "samples": right.shape[1]} | row
            for row in choice_rows
        ]
        share = choices.are_confidently_wrong(right, codes).mean()
        print(
            f"{path}: {len(right)} prompts, {right.shape[1]} completions each, {share:.0%} confidently wrong"
        )
        width = max(len(row["choice"]) for row in choice_rows)
        for row in choice_rows:
            interval = f"[{row['mixed_low']:.2f}, {row['mixed_high']:.2f}]"
            correlation = (
                f", rank correlation {row['rank_correlation']:.2f}"
                if row["rank_correlation"] is not None
                else ""
            )
            print(
                f"  {row['choice']:{width}} {row['labels']:5} labels, {row['mixed']:.2f} {interval} mixed, {row['all_wrong']:.2f} all wrong,"
                f" mean pass rate {row['pass_rate']:.2f}, share among the hardest {row['overlap']:.2f}{correlation}"
            )
    files.write_rows(args.output, ["recording", "pool", "samples", *choices.COLUMNS], rows)


def read_problems(path: str) -> list[dict]:
    """The problems of a recording, in the order of its lines. Rows with the same question keep
    their own ids, by which `completions.read_recording` distinguishes them; raise a `UserError` if
    two such rows have the same id."""
    rows = completions.recorded_rows(
        path, {"question": str, "answer": (str, int, float), "completions": list}
    )
    counts = collections.Counter(row["question"] for _, row in rows)
    problems, ids = [], set()
    for line, row in rows:
        has_own_id = counts[row["question"]] > 1 and row.get("id") is not None
        problem_id = row["id"] if has_own_id else f"line {line}"
        if problem_id in ids:
            raise errors.UserError(
                f"{path}: row {line}: id '{problem_id}' occurs twice; give each row of a repeated question its own id"
            )
        ids.add(problem_id)
        problems.append(
            {"id": problem_id, "question": row["question"], "answer": str(row["answer"])}
        )
    return problems


def grade_recording(
    path: str, grader: str, recorded: list[dict], problems: list[dict]
) -> tuple[np.ndarray, np.ndarray]:
    """Grade a recording's completions of `problems`, which are a part of `recorded`, all problems
    of the recording. Return two arrays of the shape (prompts, completions): `right` is 1 for right
    completions, and two completions of a prompt have equal `codes` if their answers are equal.
    Raise a `UserError` if problems have different numbers of completions, or fewer than 2."""
    by_problem = completions.read_recording(path, recorded)
    texts = [[sample["completion"] for sample in by_problem[problem["id"]]] for problem in problems]
    for problem, problem_texts in zip(problems, texts):
        if len(problem_texts) != len(texts[0]) or len(problem_texts) < 2:
            raise errors.UserError(
                f"{path}: question '{problem['question'][:60]}': {len(problem_texts)} completions; expected at least 2, and as many as the first question has, {len(texts[0])}"
            )
    return grade_texts(problems, texts, grader, path)


def grade_probe(
    problems_path: str, completion_paths: list[str], grader: str
) -> tuple[np.ndarray, np.ndarray]:
    """(right, codes) of the completions of a probe, see `grade_recording`."""
    pool = tasks.read_problems(problems_path)
    by_problem = completions.read(completion_paths, pool)
    problems = tasks.readable_problems(pool, grader, problems_path)
    texts = [[sample["completion"] for sample in by_problem[problem["id"]]] for problem in problems]
    if len(texts[0]) < 2:
        raise errors.UserError(
            f"{completion_paths[0]}: 1 completion for each prompt, expected at least 2; probe with more samples"
        )
    return grade_texts(problems, texts, grader, completion_paths[0])


def grade_texts(
    problems: list[dict], texts: list[list[str]], grader: str, path: str
) -> tuple[np.ndarray, np.ndarray]:
    """(right, codes) of the completions of each problem, see `grade_recording`. Raise a `UserError`
    if the grader reads no answer in any completion."""
    grades = [
        [graders.grade(grader, text, problem["answer"]) for text in problem_texts]
        for problem, problem_texts in zip(problems, texts)
    ]
    if not any(grade.answered for problem_grades in grades for grade in problem_grades):
        raise errors.UserError(
            f"{path}: grader {grader} reads no answer in any completion, so that nothing can be compared; name another --grader"
        )
    right = [[grade.correct for grade in problem_grades] for problem_grades in grades]
    return np.array(right, dtype=float), np.array(
        [signals.answer_codes(problem_texts, grader) for problem_texts in texts]
    )


if __name__ == "__main__":
    errors.run(main)
