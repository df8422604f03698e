"""Read completions that somebody has already sampled, in a form that the keys of the first row
show:

- rows of one's own (any form that `row_files` reads): a prompt with one completion or a list of them;
  datasets such as OpenR1-Math-220k also state which `generations` are correct
- sample logs of lm-evaluation-harness (`lm_eval --log_samples`)
- logs of inspect_ai, .json or .eval (https://inspect.aisi.org.uk/eval-logs.html)
- outputs of OpenAI's batch API and of vLLM's run_batch
"""

import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hardgrpo.choice import prompts
from hardgrpo.choice.prompts import find_column, value_of
from hardgrpo.data import row_files
from hardgrpo.data.question_ids import normalize_spaces
from hardgrpo.data.reference_answers import reference_of
from hardgrpo.runtime.errors import RowError, UserError, refuse_rows

IDS = ("id", "question_id", "prompt_id", "problem_id", "task_id", "uuid", "uid", "index", "idx")
COMPLETIONS = ("completions", "completion", "responses", "response", "outputs", "output")
COMPLETIONS += ("generations", "generation", "generated_text", "predictions", "prediction")
FINISH_REASONS = ("finish_reasons", "finish_reason", "stop_reasons", "stop_reason")
TOKENS = ("tokens", "completion_tokens", "output_tokens")
MODELS = ("model", "model_name", "response.body.model", "output.model")
# the same finish reason in the words of servers and of inspect_ai
TRUNCATED = ("length", "max_tokens", "model_length", "max_output_tokens")


@dataclass
class Columns:
    """Names of columns that a person gave. A file without the column `answer` has no answers.
    `has_options`: whether the command has the options that name columns."""

    id: str | None = None
    question: str | None = None
    answer: str | None = None
    completion: str | None = None
    has_options: bool = True

    def remedy(self, options: str, usual_names: str) -> str:
        return f"name it with {options}" if self.has_options else f"rename it to {usual_names}"


@dataclass
class Recorded:
    """A prompt and its completions, each with a finish reason ("" if unknown) and a number of
    tokens; `correct` holds the verdicts of the file, if it states any."""

    id: str | None
    question: str | None
    answer: str | None
    completions: list[str]
    finish_reasons: list[str]
    tokens: list[int | None]
    correct: list[bool] | None
    place: str


@dataclass
class Recording:
    """The prompts of a file, and in `notes` what was left out."""

    path: str
    form: str
    prompts: list[Recorded]
    notes: list[str]
    models: frozenset[str]


class RequestFailure(str):
    """A row without a completion: its place or id, and the reason."""


def read(path: str, columns: Columns | None = None) -> Recording:
    """The completions of a file. Raise a `UserError` that names the row and the remedy if the file
    cannot be read, or has no completions."""
    return from_rows(*_read_rows(path), path, columns)


def from_rows(
    file_rows: list[dict],
    places: list[str],
    path: str,
    columns: Columns | None = None,
    by_row: bool = False,
) -> Recording:
    """The completions in rows of the file `path`. With `by_row`, the rows of a prompt are not
    joined, and need neither id nor question."""
    form, keys, read_form = next(entry for entry in FORMS if entry[1] <= file_rows[0].keys())
    wrong_rows = [
        RowError(path, place, f"no {' and '.join(sorted(keys - row.keys()))}", f"expected: {form}")
        for row, place in zip(file_rows, places)
        if not keys <= row.keys()
    ]
    refuse_rows(wrong_rows)
    failures, row_errors, parts = [], [], []
    for part in read_form(file_rows, places, path, columns or Columns(has_options=False)):
        if isinstance(part, Recorded) and not (by_row or part.id or part.question):
            remedy = "fill one of them in, or take the row out"
            part = RowError(path, part.place, "the id and the question are empty", remedy)
        target = {RequestFailure: failures, RowError: row_errors}.get(type(part), parts)
        target.append(part)
    refuse_rows(row_errors)
    notes = []
    if failures:
        note = f"{len(failures)} of {len(file_rows)} rows have no completion; the first is {failures[0]}"
        if not parts:
            raise UserError(f"{path}: {note}; sample the completions again")
        notes.append(note)
    models = (value_of(row, name) for row in file_rows for name in MODELS)
    names = frozenset(model for model in models if isinstance(model, str))
    return Recording(path, form, parts if by_row else _by_prompt(parts, path), notes, names)


def read_prompts(path: str, columns: Columns) -> list[Recorded]:
    """The prompts of a file with ids, questions and answers, without completions. The columns that
    a person named for ids and questions may be missing here."""
    file_rows, places = _read_rows(path)
    names = prompts.column_names(file_rows)
    named = (name if name in names else None for name in (columns.id, columns.question))
    return _by_prompt(_describe(file_rows, places, path, Columns(*named, columns.answer)), path)


def _by_prompt(parts: list[Recorded], path: str) -> list[Recorded]:
    """Prompts, from parts with the same id (without ids: the same question). Raise a `UserError` if
    parts of a prompt have different questions or answers."""
    recorded: dict[str, Recorded] = {}
    row_errors = []
    for part in parts:
        key = part.id or normalize_spaces(part.question or "")
        prompt = recorded.setdefault(key, part)
        if prompt is part:
            continue
        for name in ("question", "answer"):
            value, earlier = getattr(part, name), getattr(prompt, name)
            if value and earlier and normalize_spaces(value) != normalize_spaces(earlier):
                problem = f"the {name} of prompt '{key[:60]}' differs from that of {prompt.place}"
                remedy = "correct the ids"
                row_errors.append(RowError(path, part.place, problem, remedy))
            setattr(prompt, name, earlier or value)
        prompt.completions += part.completions
        prompt.finish_reasons += part.finish_reasons
        prompt.tokens += part.tokens
        prompt.correct = prompt.correct + part.correct if prompt.correct and part.correct else None
    refuse_rows(row_errors)
    return list(recorded.values())


# --- rows of a file


def _read_rows(path: str) -> tuple[list[dict], list[str]]:
    """(rows, places) of a file; of a log of inspect_ai, the samples."""
    samples = None
    if path.lower().endswith(".eval"):
        samples = _read_archive(path)
    elif path.lower().endswith(".json") and Path(path).is_file():
        try:
            log = json.loads(row_files.read_text(Path(path)))
        except (ValueError, RecursionError):
            log = None  # `row_files.read` reports the place
        if isinstance(log, dict) and "eval" in log:
            samples = log.get("samples")
    if samples is None:
        content = row_files.read(path)
        return content.rows, content.places
    if not samples or not all(isinstance(row, dict) and "output" in row for row in samples):
        raise UserError(f"{path}: a log of inspect_ai without samples; expected completed samples")
    return samples, [f"sample {row.get('id')}, epoch {row.get('epoch')}" for row in samples]


def _read_archive(path: str) -> list:
    """The samples of a log of inspect_ai: a zip file with a JSON file for each sample and epoch."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in sorted(archive.namelist()) if name.startswith("samples/")]
            return [json.loads(archive.read(name)) for name in names if name.endswith(".json")]
    except NotImplementedError:
        raise UserError(
            f"{path}: compressed with Zstandard, which Python cannot unpack; type `inspect log convert {path} --to json --output-dir json`, and name the file in the folder json"
        ) from None
    except (zipfile.BadZipFile, zlib.error, RuntimeError, OSError, EOFError, ValueError) as error:
        problem = f"not a readable log of inspect_ai ({error})"
        raise UserError(f"{path}: {problem}; copy it again") from None


# --- rows of one's own


def _read_own(file_rows: list[dict], places: list[str], path: str, columns: Columns) -> Iterator:
    names = prompts.column_names(file_rows)
    column = find_column(path, names, COMPLETIONS, "--completion", columns.completion)
    if column is None:
        remedy = columns.remedy("--completion", "completions")
        raise prompts.no_column(path, "completions", remedy, names)
    cells = _parse_lists([value_of(row, column) for row in file_rows], f"{path}: '{column}'")
    others = [{name: cell for name, cell in row.items() if name != column} for row in file_rows]
    reasons = find_column(path, names, FINISH_REASONS, "")
    tokens = find_column(path, names, TOKENS, "")
    verdicts = [name for name in names if name.startswith("correctness_")]
    for part, row, cell in zip(_describe(others, places, path, columns), others, cells):
        choices = _choices(cell)
        if cell is None:
            yield RequestFailure(part.place)
            continue
        if not choices or None in choices:
            problem = f"'{column}' is {json.dumps(cell, default=str)[:60]}, expected text or texts"
            yield RowError(path, part.place, problem, "correct the row or take it out")
            continue
        number = len(choices)
        part.completions = [text for text, _ in choices]
        part.finish_reasons = [
            reason or _finish_reason(stated) or ("length" if is_complete is False else "")
            for (_, reason), stated, is_complete in zip(
                choices,
                _entries(row, reasons, number),
                _entries(row, "is_reasoning_complete", number),
            )
        ]
        part.tokens = [
            int(entry) if str(entry).isdecimal() else None
            for entry in _entries(row, tokens, number)
        ]
        stated = list(zip(*(_entries(row, name, number) for name in verdicts)))
        is_judged = any(verdict is not None for each in stated for verdict in each)
        part.correct = [True in each for each in stated] if is_judged else None
        yield part


def _describe(
    file_rows: list[dict], places: list[str], path: str, columns: Columns
) -> list[Recorded]:
    """The prompts of rows, without completions: ids, questions and answers."""
    names = prompts.column_names(file_rows)
    answer = columns.answer if columns.answer in names else None
    if find_column(path, names, prompts.QUESTIONS, "--question", columns.question):
        content = row_files.Rows(path, "", "", file_rows, places, None)
        pool_columns = prompts.find_columns(content, columns.question, answer)
    else:
        answer = find_column(path, names, prompts.ANSWERS, "--answer", answer)
        pool_columns = prompts.Columns(None, "", answer)
    id_column = find_column(path, names, IDS, "--id", columns.id)
    if not (id_column or pool_columns.question):
        remedy = columns.remedy("--id (or --question)", "id (or question)")
        raise prompts.no_column(path, "ids (or the questions)", remedy, names)
    questions = [_question(value_of(row, pool_columns.question)) for row in file_rows]
    if columns.answer and columns.answer not in names:
        answers = [None] * len(file_rows)
    elif pool_columns.options and pool_columns.answer:
        answers, _ = prompts.letters_of_answers(file_rows, pool_columns)
    else:
        answers = [reference_of(value_of(row, pool_columns.answer)) for row in file_rows]
    cells = [value_of(row, id_column) for row in file_rows]
    ids = [None if cell is None else str(cell).strip() for cell in cells]
    if len(set(questions)) == 1 < len(set(ids)):
        questions = [None] * len(ids)  # the column names a task, not the prompts
    if all(questions) and len(set(ids)) == len(ids) >= 2 * len(set(questions)):
        ids = [None] * len(ids)  # the column numbers the completions, not the prompts
    return [
        Recorded(key, question, answer, [], [], [], None, place)
        for key, question, answer, place in zip(ids, questions, answers, places)
    ]


def _parse_lists(cells: list, name: str) -> list:
    """The cells. Lists that a table holds as JSON texts are parsed."""
    filled_cells = [cell for cell in cells if cell not in (None, "")]
    if not all(isinstance(cell, str) and re.match(r"\[['\"]", cell) for cell in filled_cells):
        return cells
    lists = [prompts.parse_text(cell) if cell else None for cell in cells]
    if sum(entry is not None for entry in lists) < len(filled_cells):
        raise UserError(f"{name} holds lists that are not JSON; save the file as JSON Lines")
    return lists


def _entries(row: dict, name: str | None, number: int) -> list:
    """A cell's entry for each completion; None for each if the numbers differ."""
    cell = value_of(row, name)
    if isinstance(cell, str) and cell.startswith("["):
        cell = prompts.parse_text(cell)
    values = cell if isinstance(cell, list) else [cell]
    return values if len(values) == number else [None] * number


def _question(cell: object) -> str | None:
    """The text of a question, or of a chat without the instructions of the system."""
    try:
        return prompts.question_of(prompts.read_messages(cell, "", "")[0])
    except RowError:
        return None


# --- completions as servers return them


def _choices(value: object) -> list[tuple[str, str] | None]:
    """[(completion, finish reason)] of a text, a message, a chat, or a list of these; None for an
    entry that is none of these."""
    return list(map(_choice, value if isinstance(value, list) and not _is_chat(value) else [value]))


def _is_chat(value: object) -> bool:
    """Whether `value` is a list of messages. Several messages that are all the assistant's are
    several completions."""
    if not (isinstance(value, list) and all(isinstance(e, dict) and "role" in e for e in value)):
        return False
    return len(value) < 2 or any(message["role"] != "assistant" for message in value)


def _choice(entry: object) -> tuple[str, str] | None:
    if isinstance(entry, str):
        return entry, ""
    if entry and _is_chat(entry):
        entry = entry[-1]
    message = entry.get("message", entry) if isinstance(entry, dict) else None
    if not isinstance(message, dict) or not {"content", "text"} & message.keys():
        return None
    content = message.get("content", message.get("text"))
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    if isinstance(content, list):  # parts; inspect_ai has parts of the type reasoning
        parts = [part for part in content if isinstance(part, dict)]
        reasoning = reasoning or "".join(str(part.get("reasoning", "")) for part in parts)
        content = "".join(str(part.get("text")) for part in parts if part.get("type") == "text")
    text = str(content or "")
    if reasoning and not text.strip():
        text = f"<think>{reasoning}"  # the completion ends in its reasoning
    return text, _finish_reason(entry.get("finish_reason") or entry.get("stop_reason"))


def _finish_reason(value: object) -> str:
    return "length" if value in TRUNCATED else str(value or "")


def _failure(row: dict, name: str, reason: str) -> RequestFailure:
    messages = (value_of(row, f"{column}.message") for column in ("error", "response.body.error"))
    reason = next(filter(None, (*messages, row.get("error"))), reason)
    return RequestFailure(f"{name}: {str(reason)[:200]}")


def _of_choices(key, question, answer, choices, tokens, place) -> Recorded:
    texts, reasons = map(list, zip(*choices))
    counts = [tokens] if len(texts) == 1 and isinstance(tokens, int) else [None] * len(texts)
    key = None if key is None else str(key)
    return Recorded(key, question, answer, texts, reasons, counts, None, place)


# --- forms of other projects


def _read_batch(file_rows: list[dict], places: list[str], path: str, _) -> Iterator:
    ids = [str(row.get("custom_id")) for row in file_rows]
    # `q1#3` is a sample of q1, unless all requests would then be samples of one prompt
    names = [re.sub(r"(?<=.)#\d+$", "", key) for key in ids]
    names = names if len(set(names)) > 1 else ids
    seen = set()
    for row, place, key, name in zip(file_rows, places, ids, names):
        if key in seen:
            yield RequestFailure(f"{key}: the output has this request twice")
            continue
        choices = _choices(value_of(row, "response.body.choices") or [])
        status = value_of(row, "response.status_code")
        if row.get("error") or status not in (None, 200) or not choices or None in choices:
            yield _failure(row, key, f"status {status}")
            continue
        tokens = value_of(row, "response.body.usage.completion_tokens")
        seen.add(key)
        yield _of_choices(name, None, None, choices, tokens, place)


def _read_lm_eval(file_rows: list[dict], places: list[str], path: str, _) -> Iterator:
    for row, place in zip(file_rows, places):
        if row.get("filter") != file_rows[0].get("filter"):
            continue  # every filter of answers repeats the completions
        requests = row["resps"] if isinstance(row["resps"], list) else [row["resps"]]
        choices = [choice for request in requests for choice in _choices(request)]
        if not choices or None in choices:  # for example log-likelihoods
            remedy = "run a task whose output_type is generate_until"
            yield RowError(path, place, "'resps' holds no completions", remedy)
            continue
        doc = row.get("doc") if isinstance(row.get("doc"), dict) else {}
        cells = {str(name).lower(): cell for name, cell in doc.items()}
        names = (name.removeprefix("doc.") for name in prompts.QUESTIONS)
        questions = (_question(cells.get(name)) for name in names)
        question = next(filter(None, questions), None)
        # the number of a document in a task is no id of a person's file
        yield _of_choices(f"doc {row['doc_id']}", question, _target(row), choices, None, place)


def _target(row: dict) -> str | None:
    """The reference answer of a row of lm-evaluation-harness. The index of one of the task's choices
    stands for a letter."""
    target = reference_of(row.get("target"))
    options = value_of(row, "doc.choices.text") or value_of(row, "doc.choices")
    if isinstance(options, list) and target in map(str, range(min(26, len(options)))):
        return chr(ord("A") + int(target))
    return target


def _read_inspect(file_rows: list[dict], places: list[str], path: str, _) -> Iterator:
    for row, place in zip(file_rows, places):
        choices = _choices(value_of(row, "output.choices") or [])
        if row.get("error") or not choices or None in choices:
            yield _failure(row, place, "no choices")
            continue
        question, answer = _question(row["input"]), reference_of(row.get("target"))
        tokens = value_of(row, "output.usage.output_tokens")
        part = _of_choices(row.get("id"), question, answer, choices, tokens, place)
        scores = row.get("scores") if isinstance(row.get("scores"), dict) else {}
        values = [value_of({"score": score}, "score.value") for score in scores.values()]
        if len(values) == len(choices) == 1 and values[0] in ("C", "I", 0, 1):
            part.correct = [values[0] in ("C", 1)]
        yield part


FORMS = (
    ("output of a batch of requests", {"custom_id", "response"}, _read_batch),
    ("sample log of lm-evaluation-harness", {"doc_id", "resps"}, _read_lm_eval),
    ("log of inspect_ai", {"epoch", "input", "output"}, _read_inspect),
    ("prompts with completions", set(), _read_own),
)
