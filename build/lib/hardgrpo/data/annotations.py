"""Read the answers of annotators from a file that lists the rows to annotate. The file may have
been edited in a spreadsheet."""

from dataclasses import dataclass, field
from pathlib import Path

from hardgrpo.data import sources, spreadsheets
from hardgrpo.data.question_ids import question_id
from hardgrpo.grading import graders
from hardgrpo.runtime.errors import RowError, UserError, first_entries, printable, refuse_rows

# graders for which a date or a number with a comma may be an answer
TEXTUAL = ("final_word", "boxed_text")


@dataclass
class Annotations:
    """Answers by problem id, ids of rows without an answer, and notes for the annotator about
    rows that are left out and doubtful answers."""

    answers: dict[str, str] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read(
    path: str,
    column: str,
    question_column: str,
    problems: list[dict],
    grader: str,
    pool: str | Path,
) -> Annotations:
    """The answers in `column` of a file, matched by question and id to `problems`, the problems of
    the file `pool`.

    Rows with another question than the pool are left out. Raise a `UserError` if these are more
    than half of the rows with an answer. Raise a `UserError` that names the rows with a repeated
    id, with an unknown id and no question, or with an answer that the grader cannot read or that a
    spreadsheet has changed. Raise a `UserError` also if no row has an answer.
    """
    content = sources.read(path)
    is_table = content.form is not None
    ids = {problem["id"] for problem in problems}
    ids_by_question = {question_id(problem["question"]): problem["id"] for problem in problems}
    annotations, row_errors, doubtful_texts = Annotations(), [], []
    left_out: dict[str, list[str]] = {}  # {reason: places}
    for row, place in zip(content.rows, content.places):
        row = _cells(row, is_table)
        try:
            _check_columns(path, place, row, column, is_table)
            answer = row[column].strip()
            # export_subset.py writes `question` if it cannot copy the rows of the pool's file
            question = row.get(question_column) or row.get("question", "")
            problem_id = _id_of(row["id"], question, ids, ids_by_question)
            if problem_id not in ids:
                unknown = f"id '{problem_id}' is not in the pool ({pool})"
                remedy = "do not change the ids of the rows to annotate, or keep their questions. A spreadsheet drops leading zeros, rounds long numbers and converts ids like 1-2 to dates"
                raise RowError(path, place, unknown, remedy)
            if problem_id in annotations.answers or problem_id in annotations.unanswered:
                raise RowError(
                    path, place, f"id '{problem_id}' occurs twice", "keep one of its rows"
                )
            if not answer:
                annotations.unanswered.append(problem_id)
                continue
            if problem := _answer_problem(answer, grader, content.form):
                raise RowError(path, place, *problem)
            if is_table and _is_doubtful(answer, content.form):
                doubtful_texts.append(f"'{answer[:30]}' ({place})")
            annotations.answers[problem_id] = answer
        except LeftOut as reason:
            if answer:
                left_out.setdefault(str(reason), []).append(place)
        except RowError as error:
            if not (is_table and spreadsheets.is_blank(row.values())):
                row_errors.append(error)
    refuse_rows(row_errors)
    count = sum(map(len, left_out.values()))
    if count > len(annotations.answers):
        raise UserError(
            f"{path}: {count} of {count + len(annotations.answers)} answers are to questions that are not in the pool ({pool}); the file belongs to other prompts: name the file that was written for these prompts"
        )
    if not annotations.answers:
        raise UserError(f"{path}: no row has an answer in column '{column}'; fill in some answers")
    annotations.notes += [
        f"{', '.join(places)}: {reason}, so its answer is left out; restore the row as it was written, or annotate the new prompt"
        for reason, places in left_out.items()
    ]
    if doubtful_texts:
        annotations.notes.append(
            f"a spreadsheet may have changed {len(doubtful_texts)} of the answers: {_first_texts(doubtful_texts)}; if so, format the column as text and write these answers again"
        )
    return annotations


def _cells(row: dict, is_table: bool) -> dict[str, str]:
    cells = {name: "" if value is None else str(value) for name, value in row.items()}
    if not is_table:
        return cells
    return {name: spreadsheets.unescape_formulas(cell) for name, cell in cells.items()}


def _check_columns(path: str, place: str, row: dict, column: str, is_table: bool) -> None:
    """Raise an error if a needed column is missing: a `UserError` for a table, in which all rows
    share a header, else a `RowError`, which concerns only this row."""
    missing_column = next((name for name in ("id", column) if name not in row), None)
    if missing_column is None:
        return
    problem = f"no column '{missing_column}'"
    remedy = f"found {', '.join(row)}. Keep the columns of the rows to annotate"
    if is_table:
        raise UserError(f"{path}: {place}: {problem}; {remedy}")
    raise RowError(path, place, problem, remedy)


class LeftOut(Exception):
    """The reason why the answer of a row is left out."""


def _id_of(row_id: str, question: str, ids: set[str], ids_by_question: dict[str, str]) -> str:
    """The id of the problem of a row. The question decides: a spreadsheet changes ids that look
    like numbers. Raise `LeftOut` for a question that is not in the pool or has another id."""
    if not question.strip():
        return row_id
    problem_id = ids_by_question.get(question_id(question))
    if problem_id is None:
        raise LeftOut("the question has changed or was removed")
    if row_id in ids and row_id != problem_id:
        raise LeftOut("the id is that of another question")
    return problem_id


def _answer_problem(
    answer: str, grader: str, form: spreadsheets.Form | None
) -> tuple[str, str] | None:
    """(problem, remedy) if an answer cannot be used, else None."""
    change = spreadsheets.change_of(answer) if form else None
    if change and (grader not in TEXTUAL or spreadsheets.ERROR_VALUE.fullmatch(answer)):
        return (
            f"the answer '{answer[:30]}' is {change}",
            "format the column as text and write the answer again",
        )
    if graders.accepts_reference(grader, answer):
        return None
    has_comma = spreadsheets.DECIMAL_COMMA.fullmatch(answer)
    comma = ", with a decimal point instead of the comma" if has_comma else ""
    return (
        f"grader '{grader}' cannot read the answer '{answer[:30]}'",
        f"correct the answer{comma}, or leave its cell empty to leave the row out",
    )


def _is_doubtful(answer: str, form: spreadsheets.Form) -> bool:
    """Whether a spreadsheet may have changed an answer that the grader can read."""
    by_comma = form.delimiter != "," and spreadsheets.DECIMAL_COMMA.fullmatch(answer)
    return bool(by_comma or spreadsheets.change_of(answer))


def spreadsheet_warnings(problems: list[dict], paths: list[str], grader: str) -> list[str]:
    """Warnings about reference answers that a spreadsheet may have changed. `paths` are the files
    of the problems. There are no warnings if none of these files is a table, or if the grader is
    one of TEXTUAL."""
    forms = [spreadsheets.read(path).form for path in paths if spreadsheets.is_table(path)]
    form = next((form for form in forms if form.delimiter != ","), forms[0] if forms else None)
    if form is None or grader in TEXTUAL:
        return []
    doubtful_texts = [
        f"'{problem['answer'][:30]}' ('{problem['id']}')"
        for problem in problems
        if problem["answer"] is not None and _is_doubtful(problem["answer"].strip(), form)
    ]
    if not doubtful_texts:
        return []
    return [
        f"{', '.join(paths)}: a spreadsheet may have changed {len(doubtful_texts)} of the reference answers: {_first_texts(doubtful_texts)}"
    ]


def _first_texts(texts: list[str]) -> str:
    return printable(first_entries(texts))
