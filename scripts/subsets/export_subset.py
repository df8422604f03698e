"""Write the chosen prompts as rows in their original format, to annotate them or to train on them elsewhere.

    python scripts/subsets/export_subset.py --subset results/subsets/M/T/hard/seed0.csv --facts results/subsets/M/T/hard/seed0.json \\
        --problems results/tasks/T/train.jsonl --files my_prompts.csv --output results/subsets/M/T/hard/seed0.rows.csv

Rows are in the order of the subset (its rank). If the pool's local files are of the output's kind, all columns of a table, or whole
lines of JSON Lines, are copied; a table keeps its delimiter. Other problems (generated, from a hub's dataset) are written as JSON Lines.

With --to-annotate each row also gets its id, the reason why it was chosen, and an empty column of the given name for the answer.
"""

from hardgrpo.data import sources, spreadsheets, tasks
from hardgrpo.runtime import errors, files

import argparse
import json
from dataclasses import dataclass
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subset", required=True, help="CSV file written by select_subset.py")
    parser.add_argument("--facts", required=True, help="JSON file that select_subset.py wrote beside it")
    parser.add_argument("--problems", required=True, help="the pool")
    parser.add_argument(
        "--files", nargs="*", default=[], help="the local files from which the pool was made, in order, if there are any"
    )
    parser.add_argument("--to-annotate", metavar="COLUMN", help="add id, the reason of the choice, and this column for the answer")
    parser.add_argument("--output", required=True, help="a table if the name ends in .csv or .tsv, else JSON Lines")
    args = parser.parse_args()

    problems = {problem["id"]: problem for problem in tasks.read_problems(args.problems, needs_answer=False)}
    chosen = tasks.read_subset(args.subset, problems, args.problems)
    as_table = spreadsheets.is_table(args.output)
    facts = read_facts(args.facts)
    contents = read_pool([problems[identity] for identity in chosen], args.files, as_table)
    rows, lines = [problems[identity] for identity in chosen], None
    if contents:
        rows, lines = original_rows(rows, contents, args.problems)
    if args.to_annotate:
        rows, lines = (
            [with_reason(row, args.to_annotate, facts, *more) for row, *more in zip(rows, chosen, measures(args.subset))],
            None,
        )
    if as_table:
        form = contents[0].form if contents else spreadsheets.Form()
        files.write_text(args.output, as_csv(rows, form, for_people=bool(args.to_annotate)))
    elif lines is None:
        files.write_jsonl(args.output, rows)
    else:
        files.write_text(args.output, "".join(line + "\n" for line in lines))

    by, mean = measure_of(facts)
    column = errors.printable(args.to_annotate)
    print(
        f"{facts['prompts']} of {facts['pool']} prompts by {json.dumps(facts['policy'])}, mean {by}"
        f" {'unknown, samples are missing' if mean is None else f'{mean:.3f}'}\n"
        f"  ids and {by}  {args.subset}\n"
        + (f"  to annotate, column '{column}'  {args.output}" if args.to_annotate else f"  the rows  {args.output}")
    )


@dataclass
class Content:
    """A file of the pool: its rows, its lines where it is JSON Lines, the form of a table."""

    path: str
    rows: list[dict]
    lines: list[str] | None
    form: spreadsheets.Form | None


def read_pool(chosen: list[dict], paths: list[str], as_table: bool) -> list[Content]:
    """The pool's files, if all are of the output's kind and every chosen problem has its place in them; else none."""
    placed = all("row" in problem and (len(paths) == 1 or "part" in problem) for problem in chosen)
    kind = spreadsheets.is_table if as_table else lambda path: path.lower().endswith((".jsonl", ".jsonl.gz"))
    if not placed or not all(Path(path).is_file() and kind(path) for path in paths):
        return []
    contents = []
    for path in paths:
        content = sources.read(path)
        lines = None if as_table else [line for line in files.read_user_text(path).split("\n") if line.strip()]
        contents.append(Content(path, content.rows, lines, content.form))
    return contents


def original_rows(chosen: list[dict], contents: list[Content], pool: str) -> tuple[list[dict], list[str] | None]:
    """(rows, lines of JSON Lines) of the chosen problems, as they stand in the pool's files."""
    rows, lines = [], []
    for problem in chosen:
        number, part = problem["row"], problem.get("part", 0)
        content = contents[part] if type(part) is int and 0 <= part < len(contents) else None
        in_place = content and type(number) is int and 0 <= number < len(content.rows)
        if not in_place or not holds(content.rows[number], problem["question"]):
            file = content.path if content else ", ".join(each.path for each in contents)
            raise errors.UserError(f"{file}: '{problem['id']}' of {pool} is not where it was; prepare the task again")
        rows.append(content.rows[number])
        lines += [content.lines[number]] if content.lines else []
    return rows, lines or None


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


def as_csv(rows: list[dict], form: spreadsheets.Form, for_people: bool) -> str:
    """The rows as a table of this form. With `for_people`, no cell is a formula to a spreadsheet."""
    keep = spreadsheets.escape_formulas if for_people else str
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[keep("" if row.get(name) is None else row[name]) for name in columns] for row in rows]
    return form.text([*map(keep, columns)], cells, for_people)


if __name__ == "__main__":
    errors.run(main)
