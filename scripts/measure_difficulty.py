"""Grade recorded or probed completions: the base model's pass rate p-hat for every problem.

    python scripts/measure_difficulty.py --problems P.jsonl --completions C.jsonl --grader choice_letter --output D.csv

P.jsonl has a problem a line (id, answer; tier if there is one), C.jsonl or C.jsonl.gz a completion a line (id, sample,
completion; tokens and finish_reason if they are known). With --grade-prompt-too the prompt is graded together with the
completion, as the first paper's released code did: each line must then carry its `prompt`, and the problems whose pass
rate this changes are listed.
"""

import argparse
from collections import defaultdict

from hardgrpo import completions, errors, files, grading, tasks

COLUMNS = ["id", "tier", "samples", "correct", "answered", "truncated", "tokens", "pass_rate"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", required=True)
    parser.add_argument("--completions", required=True, nargs="+", help="one file, or the shards of a probe")
    parser.add_argument("--grader", required=True, help=", ".join(grading.GRADERS))
    parser.add_argument("--samples", type=int, help="expected completions a problem; without it, as many for one as for another")
    parser.add_argument(
        "--recorded", action="store_true", help="completions made elsewhere: numbers of them may differ, prompts may be missing"
    )
    parser.add_argument("--grade-prompt-too", action="store_true", help="grade prompt + completion, as released")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    grading.check_grader(args.grader)
    problems = tasks.read_problems(args.problems)
    tasks.check_readable(problems, args.grader, args.problems)
    by_problem = completions.read(
        args.completions, problems, args.samples, args.recorded, args.grade_prompt_too and not args.recorded
    )
    rows = [measure(problem, by_problem[problem["id"]], args.grader) for problem in problems]
    alone = rows
    if args.grade_prompt_too:
        rows = [measure(problem, by_problem[problem["id"]], args.grader, with_prompt=True) for problem in problems]
    files.write_rows(args.output, COLUMNS, rows)

    if rows[0]["pass_rate"] is None:
        print(f"{args.output}: the completions carry no prompts, so nothing is graded with them")
        return
    total = sum(row["samples"] for row in rows)
    right, unsolved = sum(row["correct"] for row in rows), sum(row["correct"] == 0 for row in rows)
    print(f"{args.output}: {len(rows)} problems, {total} completions, mean pass rate {right / total:.3f}, {unsolved} never solved")
    if args.grade_prompt_too:
        changed = [(row, other) for row, other in zip(rows, alone) if row["correct"] != other["correct"]]
        print(f"the prompt changes the pass rate of {len(changed)} problems:")
        for row, other in changed:
            print(f"  {row['id']}: {row['pass_rate']:.6g} with the prompt, {other['pass_rate']:.6g} alone")


def measure(problem: dict, samples: list[dict], grader: str, with_prompt: bool = False) -> dict:
    """A row of the table; without figures where the prompt should be graded too but was not recorded."""
    if with_prompt and not all("prompt" in sample for sample in samples):
        return dict.fromkeys(COLUMNS) | {"id": problem["id"], "tier": problem.get("tier"), "samples": len(samples)}
    verdicts = [
        grading.grade(grader, (s["prompt"] + "\n" if with_prompt else "") + s["completion"], problem["answer"]) for s in samples
    ]
    tally = defaultdict(int)
    for verdict, sample in zip(verdicts, samples):
        tally["correct"] += verdict.correct
        tally["answered"] += verdict.answered
        tally["truncated"] += sample.get("finish_reason") == "length"
    known = [s["tokens"] for s in samples if s.get("tokens") is not None]
    return {
        "id": problem["id"],
        "tier": problem.get("tier"),
        "samples": len(samples),
        "correct": tally["correct"],
        "answered": tally["answered"],
        "truncated": tally["truncated"] if all(s.get("finish_reason") for s in samples) else None,
        "tokens": sum(known) if len(known) == len(samples) else None,
        "pass_rate": tally["correct"] / len(samples),
    }


if __name__ == "__main__":
    errors.run(main)
