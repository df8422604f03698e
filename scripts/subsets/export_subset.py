"""Write the chosen prompts as rows in their original format, to annotate them or to train on them elsewhere.

    python scripts/subsets/export_subset.py --subset results/subsets/M/T/hard/seed0.csv --facts results/subsets/M/T/hard/seed0.json \\
        --problems results/tasks/T/train.jsonl --files my_prompts.csv --output results/subsets/M/T/hard/seed0.rows.csv

Rows are in the order of the subset (its rank). If the pool is one local file of the output's kind, all columns of a CSV file, or
whole lines of JSON Lines, are copied. Other problems (generated, from a hub's dataset) are written as JSON Lines.

With --to-annotate each row also gets its id, the reason why it was chosen, and an empty column of the given name for the answer.
"""

from hardgrpo.data import sources, tasks
from hardgrpo.runtime import errors, files

import argparse
import json
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subset", required=True, help="CSV file written by select_subset.py")
    parser.add_argument("--facts", required=True, help="JSON file that select_subset.py wrote beside it")
    parser.add_argument("--problems", required=True, help="the pool")
    parser.add_argument("--files", nargs="*", default=[], help="the local file from which the pool was made, if there is one")
    parser.add_argument("--to-annotate", metavar="COLUMN", help="add id, the reason of the choice, and this column for the answer")
    parser.add_argument("--output", required=True, help="a CSV file if the name ends in .csv, else JSON Lines")
    args = parser.parse_args()

    problems = {problem["id"]: problem for problem in tasks.read_problems(args.problems, needs_answer=False)}
    chosen = tasks.read_subset(args.subset, problems, args.problems)
    numbers = [problems[identity].get("row") for identity in chosen]
    source = Path(args.files[0]) if len(args.files) == 1 and Path(args.files[0]).is_file() and None not in numbers else None
    as_table = args.output.endswith(".csv")
    facts = read_facts(args.facts)
    if source is None or source.suffix == ".json" or as_table != (source.suffix == ".csv"):
        rows, lines = [problems[identity] for identity in chosen], None
    else:
        rows = sources.read_rows(source)
        for identity, number in zip(chosen, numbers):
            if type(number) is not int or not 0 <= number < len(rows) or not holds(rows[number], problems[identity]["question"]):
                raise errors.UserError(f"{source}: '{identity}' of {args.problems} is not where it was; prepare the task again")
        rows = [rows[number] for number in numbers]
        lines = None if as_table else [line for line in files.read_text(source).split("\n") if line.strip()]
    if args.to_annotate:
        rows, lines = (
            [with_reason(row, args.to_annotate, facts, *more) for row, *more in zip(rows, chosen, measures(args.subset))],
            None,
        )
    if as_table:
        files.write_text(args.output, as_csv(rows, for_people=bool(args.to_annotate)))
    elif lines is None:
        files.write_jsonl(args.output, rows)
    else:
        files.write_text(args.output, "".join(lines[number] + "\n" for number in numbers))

    by, mean = measure_of(facts)
    column = errors.shown(args.to_annotate)
    print(
        f"{facts['prompts']} of {facts['pool']} prompts by {json.dumps(facts['policy'])}, mean {by}"
        f" {'unknown, samples are missing' if mean is None else f'{mean:.3f}'}\n"
        f"  ids and {by}  {args.subset}\n"
        + (f"  to annotate, column '{column}'  {args.output}" if args.to_annotate else f"  the rows  {args.output}")
    )


def read_facts(path: str) -> dict:
    """The JSON file that select_subset.py wrote about its choice. Raise a `UserError` for any other content."""
    facts = files.read_json(path)
    policy, numbers = facts.get("policy"), [facts.get(key) for key in ("pool", "prompts")]
    means = [facts[key] for key in ("mean_pass_rate", "mean") if facts.get(key) is not None]
    known = isinstance(policy, dict) and isinstance(policy.get("rule"), str) and isinstance(policy.get("by", ""), str)
    if not known or not all(type(number) is int for number in numbers) or not all(isinstance(mean, (int, float)) for mean in means):
        raise errors.UserError(f"{path}: not the facts of a subset; choose the subset again")
    return facts


def measure_of(facts: dict) -> tuple[str, float | None]:
    """(the measure that chose, its mean over the chosen prompts). The mean is None if an early-stopped probe left samples out."""
    by = facts["policy"].get("by", "pass_rate")
    return by.replace("_", " "), facts.get("mean_pass_rate", facts.get("mean"))


def measures(path: str) -> list[tuple[str, float | None]]:
    """(measure, its value) of each row of a subset, in its order."""
    header, rows = files.read_cells(path)
    column = next((name for name in header if name not in ("id", "rank")), None)
    if column is None:
        return [("", "")] * len(rows)
    return [(column, row[column]) for row in files.read_rows(path, {column: float})]


def with_reason(row: dict, column: str, facts: dict, identity: str, measured: tuple[str, float | None]) -> dict:
    """The row with an empty answer, its id, and why it was chosen."""
    name, value = measured
    reason = (
        f"{facts['policy']['rule']}: {name.replace('_', ' ')} {value:.3g}" if value not in (None, "") else facts["policy"]["rule"]
    )
    return row | {column: row.get(column) or "", "id": identity, "chosen_because": reason}


def holds(row: dict, question: str) -> bool:
    """Whether a cell of the row is the question. Files hold "?" for half a surrogate pair, see files.write_text."""
    return any(str(value).encode("utf-8", "replace").decode() == question for value in row.values())


def as_csv(rows: list[dict], for_people: bool) -> str:
    """The rows as a table. With `for_people`, no cell is a formula to a spreadsheet."""
    keep = sources.inert if for_people else str
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return files.csv_text(
        [*map(keep, columns)], [[keep("" if row.get(name) is None else row[name]) for name in columns] for row in rows]
    )


if __name__ == "__main__":
    errors.run(main)
