"""Write the chosen prompts as rows in their original format, to annotate them or to train on them elsewhere.

    python scripts/subsets/export_subset.py --subset results/subsets/M/T/hard/seed0.csv --problems results/tasks/T/train.jsonl \\
        --files my_prompts.csv --output results/subsets/M/T/hard/seed0.rows.csv

Rows are in the order of the subset (its rank). If the pool is one local file of the output's kind, all columns of a CSV file, or
whole lines of JSON Lines, are copied. Other problems (generated, from a hub's dataset) are written as JSON Lines.

With --to-annotate each row also gets its id, why it was chosen, and a column of that name for the answer, empty to be filled in.
"""

import argparse
import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path

from hardgrpo.data import sources, tasks
from hardgrpo.runtime import errors, files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subset", required=True, help="CSV of select_subset.py")
    parser.add_argument("--problems", required=True, help="the pool")
    parser.add_argument("--files", nargs="*", default=[], help="the local file from which the pool was made, if there is one")
    parser.add_argument("--to-annotate", metavar="COLUMN", help="add id, the reason of the choice, and this column for the answer")
    parser.add_argument("--output", required=True, help="the same kind of file")
    args = parser.parse_args()

    problems = {problem["id"]: problem for problem in tasks.read_problems(args.problems, needs_answer=False)}
    chosen = tasks.read_subset(args.subset, problems, args.problems)
    numbers = [problems[identity].get("row") for identity in chosen]
    source = Path(args.files[0]) if len(args.files) == 1 and Path(args.files[0]).is_file() and None not in numbers else None
    as_table = args.output.endswith(".csv")
    facts = files.read_json(Path(args.subset).with_suffix(".json"))
    if source is None or source.suffix == ".json" or as_table != (source.suffix == ".csv"):
        rows, lines = [problems[identity] for identity in chosen], None
    else:
        rows = sources.read_rows(source)
        for identity, number in zip(chosen, numbers):
            if number >= len(rows) or not holds(rows[number], problems[identity]["question"]):
                raise errors.UserError(f"{source}: '{identity}' of {args.problems} is not where it was; prepare the task again")
        rows = [rows[number] for number in numbers]
        lines = None if as_table else [line for line in files.read_text(source).split("\n") if line.strip()]
    if args.to_annotate:
        rows, lines = (
            [with_reason(row, args.to_annotate, facts, *more) for row, *more in zip(rows, chosen, measures(args.subset))],
            None,
        )
    if as_table:
        files.write_text(args.output, as_csv(rows))
    elif lines is None:
        files.write_jsonl(args.output, rows)
    else:
        files.write_text(args.output, "".join(lines[number] + "\n" for number in numbers))

    by, mean = measure_of(facts)
    print(
        f"{facts['prompts']} of {facts['pool']} prompts by {json.dumps(facts['policy'])}, mean {by}"
        f" {'unknown, samples are missing' if mean is None else f'{mean:.3f}'}\n"
        f"  ids and {by}  {args.subset}\n"
        + (f"  to annotate, column '{args.to_annotate}'  {args.output}" if args.to_annotate else f"  the rows  {args.output}")
    )


def measure_of(facts: dict) -> tuple[str, float | None]:
    """By what a subset was chosen, and its mean over the chosen prompts; None if an early-stopped probe left samples out."""
    by = facts["policy"].get("by", "pass_rate")
    return by.replace("_", " "), facts.get("mean_pass_rate", facts.get("mean"))


def measures(path: str) -> list[tuple[str, str]]:
    """(measure, its value) of each row of a subset, in its order."""
    with open(path, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [next(((name, value) for name, value in row.items() if name not in ("id", "rank")), ("", "")) for row in rows]


def with_reason(row: dict, column: str, facts: dict, identity: str, measured: tuple[str, str]) -> dict:
    """The row with an empty answer, its id, and why it was chosen."""
    name, value = measured
    reason = f"{facts['policy']['rule']}: {name.replace('_', ' ')} {float(value):.3g}" if value else facts["policy"]["rule"]
    return row | {column: row.get(column) or "", "id": identity, "chosen_because": reason}


def holds(row: dict, question: str) -> bool:
    """Whether a cell of the row is the question. Files hold "?" for half a surrogate pair, see files.write_text."""
    return any(str(value).encode("utf-8", "replace").decode() == question for value in row.values())


def as_csv(rows: Iterable[dict]) -> str:
    rows = list(rows)
    # The writer does not quote a lone carriage return, but readers take it as the end of a row.
    bare = any("\r" in cell for row in rows for cell in [*row, *row.values()])
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n", quoting=csv.QUOTE_ALL if bare else csv.QUOTE_MINIMAL)
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


if __name__ == "__main__":
    errors.run(main)
