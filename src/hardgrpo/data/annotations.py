"""Read the answers of annotators from a file that lists the rows to annotate. The file may have
been edited in a spreadsheet."""

from dataclasses import dataclass, field
from pathlib import Path

from hardgrpo.data import sources, spreadsheets
from hardgrpo.grading import graders
from hardgrpo.runtime.errors import RowError, UserError, first_entries, printable, refuse_rows

# graders for which a date or a number with a comma may be an answer
TEXTUAL = ("final_word", "boxed_text")


@dataclass
class Annotations:
    """Answers by problem id, ids of rows without an answer, and notes for the annotator about
    corrected ids and doubtful answers."""

    answers: dict[str, str] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read(
    path: str, column: str, problems: list[dict], grader: str, pool: str | Path
) -> Annotations:
    """The answers in `column` of a file, matched by id to `problems`, the problems of the file
    `pool`.

    Raise a `UserError` that names the rows with a repeated id, without a matching problem, or with
    an answer that the grader cannot read or that a spreadsheet has changed. Raise a `UserError`
    also if no row has an answer.
    """
    content = sources.read(path)
    is_table = content.form is not None
    rows = [_cells(row, is_table) for row in content.rows]
    matching = Matching(problems, [row["id"] for row in rows if "id" in row], is_table, pool)
    annotations, row_errors, doubtful_texts = Annotations(), [], []
    for row, place in zip(rows, content.places):
        try:
            _check_columns(path, place, row, column, is_table)
            problem_id, answer = matching.id_of(path, place, row), row[column].strip()
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
        except RowError as error:
            if not (is_table and spreadsheets.is_blank(row.values())):
                row_errors.append(error)
    refuse_rows(row_errors)
    if not annotations.answers:
        raise UserError(f"{path}: no row has an answer in column '{column}'; fill in some answers")
    if matching.changed:
        annotations.notes.append(
            f"a spreadsheet changed {len(matching.changed)} of the ids; these ids are matched by their numeric value: {_first_texts(matching.changed)}"
        )
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


class Matching:
    """Matches rows to problems. A spreadsheet may have changed ids that look like numbers: 0007
    becomes 7. If a row still has an id that a spreadsheet would have changed, or if the file is not
    a table, all ids are matched exactly."""

    def __init__(self, problems: list[dict], ids: list[str], is_table: bool, pool: str | Path):
        self.questions = {
            problem["id"]: _normalize_spaces(problem["question"]) for problem in problems
        }
        intact = not is_table or any(
            problem_id in self.questions and spreadsheets.WOULD_CHANGE.fullmatch(problem_id)
            for problem_id in ids
        )
        self.ids = None if intact else spreadsheets.Ids(self.questions)
        self.is_table, self.pool = is_table, pool
        self.changed: list[str] = []

    def id_of(self, path: str, place: str, row: dict[str, str]) -> str:
        """The id of a row's problem. Raise a `RowError` if no problem or several problems match."""
        text = row["id"]
        candidates = self.ids.shown_as(text) if self.ids else []
        if len(candidates) > 1:  # prefer ids whose question is still in the row
            cells = set(map(_normalize_spaces, row.values()))
            candidates = [
                problem_id for problem_id in candidates if self.questions[problem_id] in cells
            ] or candidates
        if len(candidates) > 1:
            problem = f"id '{text}' may be {' or '.join(map(repr, candidates[:3]))}"
            remedy = f"a spreadsheet drops leading zeros and rounds long numbers: format the column as text and write all ids as in {self.pool}"
            raise RowError(path, place, problem, remedy)
        if not candidates and text in self.questions:
            return text
        if not candidates:
            problem = f"id '{text}' is not in the pool ({self.pool})"
            remedy = "do not change the ids of the rows to annotate"
            if self.is_table and any(map(str.isdigit, text)):
                remedy += ". A spreadsheet drops leading zeros, rounds long numbers and converts ids like 1-2 to dates: format the column as text and write the ids again"
            raise RowError(path, place, problem, remedy)
        if candidates != [text]:
            self.changed.append(f"'{text}' is '{candidates[0]}'")
        return candidates[0]


def _normalize_spaces(text: str) -> str:
    return " ".join(text.split())


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
