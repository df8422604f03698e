"""Compute the signals (src/hardgrpo/selection/signals.py) of each prompt from a probe, without
reference answers.

    python scripts/probe/measure_signals.py --questions Q.jsonl --completions C.jsonl \\
        --grader choice_letter --output S.csv

Q.jsonl has one prompt per line (id, question); a line with the key `answer` is an error. C.jsonl or
C.jsonl.gz has one completion per line (id, completion; sample, tokens and log_probability if
known). The grader extracts the answers and decides which answers are equal.
"""

from hardgrpo.data import completions
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files
from hardgrpo.selection import signals

import argparse


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", required=True)
    parser.add_argument(
        "--completions", required=True, nargs="+", help="one file, or the shards of a probe"
    )
    parser.add_argument("--grader", required=True, help=", ".join(graders.GRADERS))
    parser.add_argument(
        "--samples",
        type=int,
        help="completions per prompt, without held-out ones (default: any number; the same for all prompts, except with --recorded)",
    )
    parser.add_argument(
        "--held-out",
        type=int,
        default=0,
        help="further completions per prompt, after the first SAMPLES, that are ignored (requires --samples)",
    )
    parser.add_argument(
        "--recorded",
        action="store_true",
        help="completions from elsewhere: counts per prompt may differ",
    )
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    graders.check_grader(args.grader, *args.completions)
    if args.samples is not None and args.samples < 1:
        raise errors.UserError(
            f"--samples is {args.samples}, expected at least 1; correct the command"
        )
    if args.held_out < 0 or (args.held_out and args.samples is None):
        raise errors.UserError(
            "--held-out: expected a number of at least 0, together with --samples; correct the command"
        )
    numbered = files.parse_jsonl(
        files.read_text(args.questions), args.questions, {"id": str, "question": str}
    )
    for line, row in numbered:
        if "answer" in row:
            raise errors.UserError(
                f"{args.questions}: row {line}: the row has the key 'answer', but signals must not use answers; remove the key"
            )
    questions = [row for _, row in numbered]
    by_problem = completions.read(
        args.completions, questions, args.samples and args.samples + args.held_out, args.recorded
    )
    rows = []
    for question in questions:
        samples = sorted(by_problem[question["id"]], key=lambda sample: sample.get("sample") or 0)[
            : args.samples
        ]
        rows.append(
            {"id": question["id"], "samples": len(samples)} | signals.measure(samples, args.grader)
        )
    files.write_rows(args.output, ["id", "samples", *signals.SIGNALS], rows)
    mean = sum(row["agreement"] for row in rows) / len(rows)
    print(f"{args.output}: {len(rows)} prompts, mean agreement {mean:.3f}")


if __name__ == "__main__":
    errors.run(main)
