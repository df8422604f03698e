"""Choose rows of a dataset, and turn rows of each supported format into problems."""

import random
import re
from collections.abc import Callable
from pathlib import Path

from hardgrpo.data import spreadsheets
from hardgrpo.data.reference_answers import boxed_answer
from hardgrpo.runtime.errors import RowError, UserError

COLUMNS = {"question": "question", "answer": "answer", "tier": "tier", "id": "id"}


def choose_rows(
    rows: list[dict], selection: dict | None, path: str | Path
) -> list[tuple[int, dict]]:
    """[(row number from 0, row)] of the rows that the task's `rows` (`only`, `except`, `every`,
    `first`, `draw`) select. Raise a `UserError` for a number beyond the last row, or a `draw` that
    is too large."""
    selection = selection or {}
    indices = [*selection.get("only", []), *selection.get("except", [])]
    if indices and max(indices) >= len(rows):
        raise UserError(
            f"{path}: `rows` of the task names row {max(indices)}, but the {len(rows)} rows are numbered from 0; correct `rows`"
        )
    included = set(selection.get("only", range(len(rows)))) - set(selection.get("except", []))
    interval, first = selection.get("every", 1), selection.get("first", 0)
    numbers = [number for number in range(first, len(rows), interval) if number in included]
    if "draw" in selection:
        if selection["draw"] > len(numbers):
            raise UserError(
                f"{path}: {selection['draw']} rows are to be drawn, but there are only {len(numbers)}; lower `draw` in the task's `rows`"
            )
        numbers = sorted(
            random.Random(f"rows:{selection['seed']}").sample(numbers, selection["draw"])
        )
    return [(number, rows[number]) for number in numbers]


# --- formats of rows


def _gsm8k(row: dict) -> dict:
    """The answer follows `####`. The tier is the number of solution steps: the number of calculator
    annotations <<...>>."""
    solution, mark, answer = row["answer"].rpartition("####")
    return {
        "question": row["question"],
        "answer": answer.strip() if mark else None,
        "tier": solution.count("<<"),
    }


def _choices(row: dict) -> dict:
    """BIG-Bench-Hard: the input ends with the options, the target is '(A)'. The tier is the number
    of options."""
    if row["input"] is None:
        raise KeyError("input")
    question = str(row["input"])
    tier = len(re.findall(r"^\([A-Z]\) ", question, re.MULTILINE))
    return {"question": question, "answer": row["target"], "tier": tier}


def _math(row: dict) -> dict:
    """MATH and MATH-500: the answer is the column `answer` or else the solution's last box. The
    tier is the level, 1 to 5."""
    level = re.search(r"\d", str(row["level"]))
    answer = row["answer"] if row.get("answer") is not None else boxed_answer(row["solution"])
    return {
        "question": row["problem"],
        "answer": answer,
        "tier": int(level.group()) if level else None,
    }


def _gsm8k_solution(row: dict, statement: str) -> str:
    """The solution without calculator annotations <<48/2=24>>, followed by `statement`."""
    steps, _, _ = row["answer"].rpartition("####")
    return f"{re.sub(r'<<[^<>]*>>', '', steps).strip()}\n{statement}"


def _math_solution(row: dict, statement: str) -> str | None:
    return row.get("solution")


# {format: function (row, statement) -> worked solution}. `statement` states the reference answer in
# the form that the grader reads.
SOLUTIONS: dict[str, Callable[[dict, str], str | None]] = {
    "gsm8k": _gsm8k_solution,
    "math": _math_solution,
}


def solution(row: dict, format: str, columns: dict, statement: str, location: str) -> str:
    """The worked solution of a row. Raise a `RowError` if there is none.

    `location` is "FILE: PLACE", see `tasks.problems_with_rows`; the other arguments are as in
    `SOLUTIONS` and `as_problem`.
    """
    if format in SOLUTIONS:
        text = SOLUTIONS[format](row, statement)
    else:
        text = row.get(columns.get("solution"))
    if not isinstance(text, str) or not text.strip():
        name, (path, _, place) = columns.get("solution", "solution"), location.rpartition(": ")
        remedy = "add the solution, take the row out, or (in a source without `format`) name another column"
        raise RowError(path, place, f"no worked solution in column '{name}'", remedy)
    return text.strip()


FORMATS: dict[str, Callable[[dict], dict]] = {"gsm8k": _gsm8k, "choices": _choices, "math": _math}


def as_problem(
    row: dict, format: str, columns: dict, needs_answer: bool, path: str | Path, place: str
) -> dict:
    """The problem in a row: question, answer (None if missing and not needed), tier, and id (if
    any). Raise a `RowError` for an unusable row. `place` is the row's place in the file."""
    row_error = lambda problem, remedy: RowError(path, place, problem, remedy)
    if format in FORMATS:
        try:
            problem = FORMATS[format](row)
        except (KeyError, TypeError, AttributeError) as error:
            fault = f"not a row of format '{format}' ({error} is wrong or missing)"
            raise row_error(fault, f"found {', '.join(row)}") from None
    else:
        names = COLUMNS | columns
        for key in dict.fromkeys(["question", "answer", *columns]):
            if key == "answer" and not needs_answer:
                continue  # may be annotated later
            if names[key] not in row:
                column = f"'{names[key]}' for the {key}"
                remedy = f"Name the column in the task's source, e.g. columns: {{{key}: NAME}}"
                raise no_column(row, column, remedy, path, place)
        problem = {key: row.get(name) for key, name in names.items()}
    for key in ("question", "answer"):
        if isinstance(problem[key], (list, dict)):
            fault = f"the {key} is a {type(problem[key]).__name__}, expected text"
            raise row_error(fault, "name a column that holds text")
    if not str(problem["question"] or "").strip():
        raise row_error("the question is empty", "correct the row or take it out")
    if needs_answer and (problem["answer"] is None or not str(problem["answer"]).strip()):
        raise row_error(
            "the answer is missing",
            "add the answer, take the row out, or set the task's `labelled` to false (for a train split: `.venv/bin/snakemake subset` chooses the prompts"
            " to annotate)",
        )
    return problem


def no_column(row: dict, column: str, remedy: str, path: str | Path, place: str) -> UserError:
    """A `UserError` for a table, whose rows have one header, else a `RowError`."""
    problem, remedy = f"no column {column}", f"found {', '.join(map(str, row))}. {remedy}"
    if spreadsheets.is_table(path):
        return UserError(f"{path}: {place}: {problem}; {remedy}")
    return RowError(path, place, problem, remedy)
