"""Write the chosen prompts as rows in their original format, to annotate them or to train on them
elsewhere.

    python scripts/subsets/export_subset.py --subset results/subsets/M/T/hard/seed0.csv \\
        --facts results/subsets/M/T/hard/seed0.json --problems results/tasks/T/train.jsonl \\
        --files my_prompts.csv --output results/subsets/M/T/hard/seed0.rows.csv

Rows are sorted by rank in the subset. If the pool's local files have the format of the output, the
program copies all columns of a table, or complete lines of JSON Lines; a table has the delimiter of
the first file. Otherwise (generated problems, the folder of a dataset, or files of another format)
the program writes the rows of --problems in the format of the output.

With --to-annotate, each row also has the prompt's id (`id`), the reason why the prompt was chosen
(`chosen_because`), and a column COLUMN for the answer. If the original row has a value in this
column, the value is kept; otherwise the column is empty.
"""

from hardgrpo.data import sources, spreadsheets, tasks
from hardgrpo.runtime import errors, files

import argparse
import json
from dataclasses import dataclass
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subset", required=True, help="CSV file written by select_subset.py")
    parser.add_argument("--facts", required=True, help="JSON file written by select_subset.py")
    parser.add_argument("--problems", required=True, help="the pool")
    parser.add_argument(
        "--files",
        nargs="*",
        default=[],
        help="the local files from which the pool was made, in order, if any",
    )
    parser.add_argument(
        "--to-annotate",
        metavar="COLUMN",
        help="add the id, the reason of the choice, and COLUMN for the answer",
    )
    parser.add_argument(
        "--output", required=True, help="a table if the name ends in .csv or .tsv, else JSON Lines"
    )
    args = parser.parse_args()

    problems = {
        problem["id"]: problem for problem in tasks.read_problems(args.problems, needs_answer=False)
    }
    chosen = tasks.read_subset(args.subset, problems, args.problems)
    is_table = spreadsheets.is_table(args.output)
    description = read_description(args.facts)
    contents = read_pool([problems[prompt] for prompt in chosen], args.files, is_table)
    rows, lines = [problems[prompt] for prompt in chosen], None
    if contents:
        rows, lines = original_rows(rows, contents, args.problems)
    if args.to_annotate:
        rows, lines = (
            [
                add_reason(row, args.to_annotate, description, *reason_fields)
                for row, *reason_fields in zip(rows, chosen, read_measures(args.subset))
            ],
            None,
        )
    if is_table:
        form = contents[0].form if contents else spreadsheets.Form()
        files.write_text(
            args.output, spreadsheets.rows_text(rows, form, for_people=bool(args.to_annotate))
        )
    elif lines is None:
        files.write_jsonl(args.output, rows)
    else:
        files.write_text(args.output, "".join(line + "\n" for line in lines))

    measure, mean = chosen_measure(description)
    column = errors.printable(args.to_annotate)
    print(
        f"{description['prompts']} of {description['pool']} prompts by {json.dumps(description['policy'])}, mean {measure}"
        f" {'unknown, because samples or answers are missing' if mean is None else f'{mean:.3f}'}\n"
        f"  the subset  {args.subset}\n"
        + (
            f"  to annotate, column '{column}'  {args.output}"
            if args.to_annotate
            else f"  the rows  {args.output}"
        )
    )


@dataclass
class Content:
    """A file of the pool: `rows`, `lines` (only for JSON Lines), and `form`, the format (only for a
    table)."""

    path: str
    rows: list[dict]
    lines: list[str] | None
    form: spreadsheets.Form | None


def read_pool(chosen: list[dict], paths: list[str], is_table: bool) -> list[Content]:
    """The pool's files, if all have the output's format and every chosen problem has a position in
    them; otherwise an empty list."""
    have_positions = all(
        "row" in problem and (len(paths) == 1 or "part" in problem) for problem in chosen
    )
    is_output_kind = (
        spreadsheets.is_table
        if is_table
        else lambda path: path.lower().endswith((".jsonl", ".jsonl.gz"))
    )
    if not have_positions or not all(
        Path(path).is_file() and is_output_kind(path) for path in paths
    ):
        return []
    contents = []
    for path in paths:
        content = sources.read(path)
        lines = (
            None
            if is_table
            else [line for line in files.read_user_text(path).split("\n") if line.strip()]
        )
        contents.append(Content(path, content.rows, lines, content.form))
    return contents


def original_rows(
    chosen: list[dict], contents: list[Content], pool: str
) -> tuple[list[dict], list[str] | None]:
    """(rows, lines of JSON Lines) of the chosen problems in the pool's files. The lines are None if
    the files are tables. Raise a `UserError` if a file has changed."""
    rows, lines = [], []
    for problem in chosen:
        index, part = problem["row"], problem.get("part", 0)
        content = contents[part] if type(part) is int and 0 <= part < len(contents) else None
        is_in_file = content and type(index) is int and 0 <= index < len(content.rows)
        if not is_in_file or not has_question(content.rows[index], problem["question"]):
            file = content.path if content else ", ".join(pool_file.path for pool_file in contents)
            raise errors.UserError(
                f"{file}: the question of '{problem['id']}' in {pool} is no longer at its row; prepare the task again"
            )
        rows.append(content.rows[index])
        lines += [content.lines[index]] if content.lines else []
    return rows, lines or None


def read_description(path: str) -> dict:
    """The JSON file that select_subset.py wrote about its choice. Raise a `UserError` for other
    content."""
    description = files.read_json(path)
    policy, numbers = (
        description.get("policy"),
        [description.get(key) for key in ("pool", "prompts")],
    )
    means = [
        description[key] for key in ("mean_pass_rate", "mean") if description.get(key) is not None
    ]
    is_valid_policy = (
        isinstance(policy, dict)
        and isinstance(policy.get("rule"), str)
        and isinstance(policy.get("by", ""), str)
    )
    if (
        not is_valid_policy
        or not all(type(number) is int for number in numbers)
        or not all(isinstance(mean, (int, float)) for mean in means)
    ):
        raise errors.UserError(
            f"{path}: expected the JSON file that select_subset.py writes; choose the subset again"
        )
    return description


def chosen_measure(description: dict) -> tuple[str, float | None]:
    """(name of the policy's measure, mean of the measure over the chosen prompts). The mean is None
    if a probe that stopped early lacks samples of these prompts, or if the pool has no answers and
    the policy chose without a measure."""
    measure = description["policy"].get("by", "pass_rate")
    return measure.replace("_", " "), description.get("mean_pass_rate", description.get("mean"))


def read_measures(path: str) -> list[tuple[str, float | None]]:
    """(measure, value) of each row of a subset, in order. Both are empty strings if the subset has
    no measure."""
    header, rows = files.read_cells(path)
    column = next((name for name in header if name not in ("id", "rank")), None)
    if column is None:
        return [("", "")] * len(rows)
    return [(column, row[column]) for row in files.read_rows(path, {column: float})]


def add_reason(
    row: dict, column: str, description: dict, prompt: str, measure: tuple[str, float | None]
) -> dict:
    """The row with the prompt's id, the reason for the choice, and `column` for the answer (empty
    if the row has no answer)."""
    name, value = measure
    reason = (
        f"{description['policy']['rule']}: {name.replace('_', ' ')} {value:.3g}"
        if value not in (None, "")
        else description["policy"]["rule"]
    )
    answer = "" if row.get(column) is None else row[column]
    return row | {column: answer, "id": prompt, "chosen_because": reason}


def has_question(row: dict, question: str) -> bool:
    """Whether a cell of the row equals the question. Before the comparison, half a surrogate pair
    in a cell is replaced by "?", as in files.write_text."""
    return any(str(value).encode("utf-8", "replace").decode() == question for value in row.values())


if __name__ == "__main__":
    errors.run(main)
