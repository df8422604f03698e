"""Write the chosen prompts (--subset and --facts, the files of select_subset.py) as rows in their
original format, to annotate them or to train on them elsewhere.

Rows are sorted by rank. If the pool's local files have the format of the output, the program copies
all columns of a table (with the delimiter of the first file) or complete lines of JSON Lines.
Otherwise it writes the rows of --problems.
"""

from hardgrpo.data import row_files, spreadsheets, tasks
from hardgrpo.data.question_ids import question_id
from hardgrpo.runtime import errors, files

import argparse
import json


def main() -> None:
    parser = errors.parser(__doc__, "--subset", "--facts", "--problems", "--output")
    parser.add_argument("--files", nargs="*", default=[], help="the pool's local files, in order")
    parser.add_argument(
        "--to-annotate",
        metavar="COLUMN",
        help="add prompt_id (from the question), chosen_because, and COLUMN, which keeps its answers",
    )
    args = parser.parse_args()

    chosen = tasks.read_subset(args.subset, args.problems, needs_answer=False)
    description = files.read_json(args.facts)
    contents = [row_files.read_file(path) for path in args.files] if in_format(args) else []
    if any("row" not in problem or ("part" not in problem and contents[1:]) for problem in chosen):
        contents = []
    rows = original_rows(chosen, args.files, contents, args.problems) if contents else chosen
    if args.to_annotate:
        reasons = read_reasons(args.subset, description["policy"]["rule"])
        rows = [
            row
            | {args.to_annotate: "" if (answer := row.get(args.to_annotate)) is None else answer}
            | {"prompt_id": question_id(problem["question"]), "chosen_because": reason}
            for row, problem, reason in zip(rows, chosen, reasons)
        ]
    if spreadsheets.is_table(args.output):
        form = contents[0].table_form if contents else spreadsheets.Form()
        text = spreadsheets.rows_text(rows, form, for_people=bool(args.to_annotate))
        files.write_text(args.output, text)
    elif contents and not args.to_annotate:
        files.write_text(args.output, "".join(original_lines(chosen, args.files)))
    else:
        files.write_jsonl(args.output, rows)

    measure = description["policy"].get("by", "pass_rate").replace("_", " ")
    mean = description.get("mean_pass_rate", description.get("mean"))
    content = f"to annotate, column '{errors.printable(args.to_annotate)}'"
    print(
        f"{description['prompts']} of {description['pool']} prompts by {json.dumps(description['policy'])}, mean {measure}"
        f" {'unknown, because samples or answers are missing' if mean is None else f'{mean:.3f}'}\n"
        f"  the subset  {args.subset}\n  {content if args.to_annotate else 'the rows'}  {args.output}"
    )


def in_format(args: argparse.Namespace) -> bool:
    """Whether the pool was made from files in the format of the output."""
    if spreadsheets.is_table(args.output):
        return all(spreadsheets.is_table(path) for path in args.files)
    return all(path.lower().endswith((".jsonl", ".jsonl.gz")) for path in args.files)


def original_rows(
    chosen: list[dict], paths: list[str], contents: list[row_files.Rows], pool: str
) -> list[dict]:
    """The rows of the chosen problems in the pool's files, which must not have changed."""
    rows = []
    for problem in chosen:
        part, index = problem.get("part", 0), problem["row"]
        row = contents[part].rows[index] if index < len(contents[part].rows) else {}
        if not has_question(row, problem["question"]):
            raise errors.UserError(
                f"{paths[part]}: the question of '{problem['id']}' in {pool} is no longer at its row; prepare the task again"
            )
        rows.append(row)
    return rows


def original_lines(chosen: list[dict], paths: list[str]) -> list[str]:
    """The complete lines of the chosen problems in files of JSON Lines."""
    lines = [
        [line for line in files.read_user_text(path).split("\n") if line.strip()] for path in paths
    ]
    return [lines[problem.get("part", 0)][problem["row"]] + "\n" for problem in chosen]


def read_reasons(path: str, rule: str) -> list[str]:
    header, cells = files.read_cells(path)
    column = next((name for name in header if name not in ("id", "rank")), None)
    if column is None:
        return [rule] * len(cells)
    values = [row[column] for row in files.read_rows(path, {column: float})]
    name = column.replace("_", " ")
    return [rule if value is None else f"{rule}: {name} {value:.3g}" for value in values]


def has_question(row: dict, question: str) -> bool:
    """Whether a cell of the row equals the question. Before the comparison, half a surrogate pair
    in a cell is replaced by "?", as in files.write_text."""
    return any(str(value).encode("utf-8", "replace").decode() == question for value in row.values())


if __name__ == "__main__":
    errors.run(main)
