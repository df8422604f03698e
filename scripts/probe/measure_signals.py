"""Compute the signals (src/hardgrpo/selection/signals.py) of each prompt from a probe, without
reference answers.

A prompt is a line (id, question) of --questions, a completion a line (id, completion; sample,
tokens and log_probability if known) of --completions. The grader compares the answers.
"""

from hardgrpo.data import completions
from hardgrpo.runtime import errors, files
from hardgrpo.selection import signals


def main() -> None:
    parser = errors.parser(__doc__, "--questions", "--output")
    completions.add_probe_arguments(parser)
    args = parser.parse_args()

    # The file of questions has no answers: a signal never depends on one.
    questions = files.read_jsonl(args.questions, {"id": str, "question": str})
    by_problem = completions.read(args.completions, questions)
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
