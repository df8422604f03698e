"""Read the answers of annotators from a file that lists the rows to annotate. The file may have
been edited in a spreadsheet."""

from dataclasses import dataclass, field
from pathlib import Path

from hardgrpo.data import row_files, sources, spreadsheets
from hardgrpo.data.question_ids import question_id
from hardgrpo.grading import graders
from hardgrpo.runtime.errors import RowError, UserError, refuse_rows


@dataclass
class Annotations:
    """Answers by problem id, ids of rows without an answer, and places of rows with an answer whose
    prompt is not in the pool."""

    answers: dict[str, str] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def read(
    path: str, column: str, problems: list[dict], grader: str, pool: str | Path
) -> Annotations:
    """The answers in `column` of a file, matched by the column `prompt_id` to the problems of the
    file `pool`. Raise a `UserError` that names the rows with a repeated prompt, or with an answer
    that the grader cannot read or that a spreadsheet has changed; also if no row has an answer, or
    if more answers belong to other prompts than to the pool's."""
    content = row_files.read_file(path)
    form = content.table_form
    ids = {question_id(problem["question"]): problem["id"] for problem in problems}
    unescape = spreadsheets.unescape_formulas if form else str
    annotations, row_errors = Annotations(), []
    prompts = set()
    for row, place in zip(content.rows, content.places):
        try:
            missing = next((name for name in ("prompt_id", column) if name not in row), None)
            if missing is not None:
                remedy = "Keep the columns of the rows to annotate"
                raise sources.no_column(row, f"'{missing}'", remedy, path, place)
            answer, prompt = (
                unescape("" if row[name] is None else str(row[name])).strip()
                for name in (column, "prompt_id")
            )
            if prompt not in ids:
                annotations.left_out += [place] if answer else []
                continue
            if prompt in prompts:
                raise RowError(path, place, f"prompt '{prompt}' occurs twice", "keep one row")
            prompts.add(prompt)
            if not answer:
                annotations.unanswered.append(ids[prompt])
                continue
            if problem := _answer_problem(answer, grader, form):
                raise RowError(path, place, *problem)
            annotations.answers[ids[prompt]] = answer
        except RowError as error:
            row_errors.append(error)
    refuse_rows(row_errors)
    count = len(annotations.left_out)
    if count > len(annotations.answers):
        raise UserError(
            f"{path}: {count} of {count + len(annotations.answers)} answers are to prompts that are not in the pool ({pool}); the file belongs to other prompts: name the file that was written for these prompts"
        )
    if not annotations.answers:
        raise UserError(f"{path}: no row has an answer in column '{column}'; fill in some answers")
    return annotations


def _answer_problem(
    answer: str, grader: str, form: spreadsheets.Form | None
) -> tuple[str, str] | None:
    """(problem, remedy) if an answer cannot be used, else None."""
    change = spreadsheets.change_of(answer) if form else None
    may_be_date = graders.GRADERS[grader].reads_words
    if change and (not may_be_date or spreadsheets.ERROR_VALUE.fullmatch(answer)):
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
