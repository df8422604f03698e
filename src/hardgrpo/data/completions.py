"""Read completions from a probe's files or from external recordings, and truncate them to a smaller
limit."""

from hardgrpo.grading import graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import RowError, UserError, refuse_rows


def read(paths: list[str], problems: list[dict]) -> dict[str, list[dict]]:
    """Completions of a probe by problem id, in the order of the files."""
    by_problem: dict[str, list[dict]] = {problem["id"]: [] for problem in problems}
    for path in paths:
        for row in files.read_jsonl(path, {"id": str, "completion": str}):
            by_problem[row["id"]].append(row)
    return by_problem


def add_probe_arguments(parser) -> None:
    """Add to a program's `parser` the arguments that describe a probe and the use of its samples."""
    parser.add_argument("--completions", required=True, nargs="+", help="shards of a probe")
    parser.add_argument("--grader", required=True, help=", ".join(graders.GRADERS))
    parser.add_argument("--samples", type=int, help="per prompt, not held out (default: all)")
    parser.add_argument("--held-out", type=int, default=0, help="later samples, counted apart")


def read_recording(path: str, problems: list[dict]) -> dict[str, list[dict]]:
    """Completions by problem id from a recording: JSON Lines with `question` and `completions` (a
    list), matched by question.

    A row may also have `prompt` (the model's input), `tokens` and `finish_reasons` (lists), and
    `published_pass_rate`. Rows with the same question need different `id`s, and are matched by id,
    too.
    """
    by_question: dict[str, dict[str | None, dict]] = {}
    row_errors = []
    keys: files.Kinds = {"question": str, "completions": list}
    rows = files.parse_jsonl(files.read_user_text(path), path, keys, {"id": (str, int, float)})
    for line, row in rows:
        # as the ids of problems are
        row_id = None if row.get("id") is None else str(row["id"])
        rows_by_id = by_question.setdefault(row["question"], {})
        fault = _row_fault(row)
        if rows_by_id and (row_id in rows_by_id or None in {row_id, *rows_by_id}):
            fault = ("the question occurs twice in the file", "remove one of its rows")
        if fault:
            row_errors.append(RowError(path, f"row {line}", *fault))
        rows_by_id[row_id] = row
    refuse_rows(row_errors)
    by_problem, unused = {}, {id(row): row for _, row in rows}
    for problem in problems:
        rows_by_id = by_question.get(problem["question"], {})
        is_only = len(rows_by_id) == 1
        row = next(iter(rows_by_id.values())) if is_only else rows_by_id.get(problem["id"])
        if unused.pop(id(row), None) is None:
            raise UserError(
                f"{path}: no completions for problem '{problem['id']}'; record completions, or take the problem out of the task"
            )
        facts = {name: row.get(name) for name in ("prompt", "published_pass_rate")}
        facts = {name: value for name, value in facts.items() if value is not None}
        by_problem[problem["id"]] = [
            {"id": problem["id"], "sample": sample, "seed": None, "completion": text}
            | {"tokens": row["tokens"][sample], "finish_reason": row["finish_reasons"][sample]}
            | facts
            for sample, text in enumerate(row["completions"])
        ]
    if unused:
        question = next(iter(unused.values()))["question"]
        raise UserError(
            f"{path}: {len(unused)} recorded questions are not in the task, first '{question[:60]}...';"
            " add them to the task's split, or remove them from the recording"
        )
    return by_problem


def _row_fault(row: dict) -> tuple[str] | None:
    """(fault of a row of a recording,), or None. Missing optional lists are added to the row."""
    if not row["completions"] or not all(isinstance(text, str) for text in row["completions"]):
        return ("'completions' must be a list of at least one text",)
    for key, kind in (("tokens", int), ("finish_reasons", str)):
        row[key] = row.get(key) or [None] * len(row["completions"])
        if not isinstance(row[key], list) or len(row[key]) != len(row["completions"]):
            return (
                f"'{key}' must be a list with a value for each of the {len(row['completions'])} completions",
            )
        if not all(
            value is None or type(value) is kind and (kind is str or value >= 0)
            for value in row[key]
        ):
            return (
                f"each value of '{key}' must be {'a number from 0' if kind is int else 'a text'}, or null",
            )
    return None


def truncate(
    tokenizer, text: str, tokens: int, finish_reason: str, limit: int
) -> tuple[str, int, str]:
    """(text, tokens, finish reason) of a completion truncated to `limit` tokens, the first tokens
    that the model would have sampled with this limit. `tokens` includes the end token. The text is
    tokenized again, see `keeps_token_count`."""
    if tokens <= limit:
        return text, tokens, finish_reason
    ids = _ids(tokenizer, text)[:limit]
    return tokenizer.decode(ids, skip_special_tokens=True), limit, "length"


def keeps_token_count(tokenizer, text: str, tokens: int, finish_reason: str) -> bool:
    """Whether tokenizing the text again gives the number of sampled tokens. A model can write a
    word with other tokens; `truncate` then cuts a few tokens before or after the limit."""
    return len(_ids(tokenizer, text)) == tokens - (finish_reason == "stop")


def _ids(tokenizer, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]
