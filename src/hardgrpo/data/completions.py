"""Read completions of problems, from a probe's files or from recordings made elsewhere, and cut them to a smaller limit."""

from hardgrpo.runtime import files
from hardgrpo.runtime.errors import RowError, UserError, refuse_rows


def read(
    paths: list[str],
    problems: list[dict],
    samples: int | None = None,
    ragged: bool = False,
    needs_prompt: bool = False,
    stopped: bool = False,
) -> dict[str, list[dict]]:
    """Completions by problem id. Raise a `UserError` if a problem has a row_errors number of completions.

    Each problem must have `samples` completions (None: as many as the problem with the most), if `ragged` at least one, and after a
    probe that was `stopped` early the first few of `samples`, or none. With `needs_prompt` each row must also have the prompt.
    """
    by_problem: dict[str, list[dict]] = {problem["id"]: [] for problem in problems}
    keys = {"id": (str, int), "completion": str} | ({"sample": int} if stopped else {}) | ({"prompt": str} if needs_prompt else {})
    optional = {"sample": int, "tokens": int, "finish_reason": str, "log_probability": (int, float), "prompt": str}
    for path in paths:
        seen, row_errors = set(), []
        for line, row in files.parse_jsonl(files.read_user_text(path), path, keys, optional):
            identity, sample = str(row["id"]), row.get("sample")
            problem = None
            if (row.get("tokens") or 0) < 0 or (sample or 0) < 0:
                problem = "sample and tokens are numbers from 0", "correct them"
            elif identity not in by_problem:
                problem = f"no problem has the id '{identity}'", "give the problem file that was probed"
            elif sample is not None and (identity, sample) in seen:
                problem = f"sample {sample} of '{identity}' stands in the file twice", "remove one"
            if problem:
                row_errors.append(RowError(path, f"row {line}", *problem))
                continue
            seen.add((identity, sample))
            by_problem[identity].append(row)
        refuse_rows(row_errors)
    if stopped:
        for identity, rows in by_problem.items():
            rows.sort(key=lambda row: row["sample"])
            if [row["sample"] for row in rows] != list(range(len(rows))) or len(rows) > samples:
                raise UserError(
                    f"{', '.join(map(str, paths))}: the samples of problem '{identity}' are not the first of {samples}; probe again"
                )
        return by_problem
    counts = {identity: len(rows) for identity, rows in by_problem.items()}
    expected = samples or max(counts.values())
    short = {identity: count for identity, count in counts.items() if (count == 0 if ragged else count != expected)}
    if short:
        identity, count = next(iter(short.items()))
        raise UserError(
            f"{', '.join(map(str, paths))}: problem '{identity}' has {count} of {expected} completions"
            f" ({len(short)} such problems); the file is truncated or belongs to other problems; make it again"
        )
    return by_problem


def read_recording(path: str, problems: list[dict]) -> dict[str, list[dict]]:
    """Completions by problem id, from a recording: JSON Lines with question and completions (a list), matched by question.

    A row may also have `prompt` (as the model saw it), `tokens` and `finish_reasons` (lists), and `published_pass_rate`.
    """
    by_question, row_errors = {}, []
    for line, row in recorded_rows(path, {"question": str, "completions": list}):
        problem = ("the question stands in the file twice", "remove one") if row["question"] in by_question else _not_recorded(row)
        if problem:
            row_errors.append(RowError(path, f"row {line}", *problem))
        by_question[row["question"]] = row
    refuse_rows(row_errors)
    found = {}
    for problem in problems:
        row = by_question.pop(problem["question"], None)
        if row is None:
            raise UserError(f"{path}: no completions for problem '{problem['id']}'; record them or take it out of the task")
        found[problem["id"]] = [
            {"id": problem["id"], "sample": sample, "seed": None, "completion": text}
            | {
                "tokens": row["tokens"][sample],
                "finish_reason": row["finish_reasons"][sample],
            }
            | {key: row[key] for key in ("prompt", "published_pass_rate") if row.get(key) is not None}
            for sample, text in enumerate(row["completions"])
        ]
    if by_question:
        question = next(iter(by_question))
        raise UserError(
            f"{path}: {len(by_question)} recorded questions are not in the task, first '{question[:60]}...';"
            " add them to the task's split or take them out"
        )
    return found


def recorded_rows(path: str, keys: files.Kinds) -> list[tuple[int, dict]]:
    """[(line, row)] of a recording that has `keys`."""
    return files.parse_jsonl(files.read_user_text(path), path, keys)


def _not_recorded(row: dict) -> tuple[str] | None:
    """(what is wrong with a recording's row,); None if nothing. Fills in the optional lists."""
    if not row["completions"] or not all(isinstance(text, str) for text in row["completions"]):
        return ("'completions' must be a list of at least one text",)
    for key, kind in (("tokens", int), ("finish_reasons", str)):
        row[key] = row.get(key) or [None] * len(row["completions"])
        if not isinstance(row[key], list) or len(row[key]) != len(row["completions"]):
            return (f"'{key}' must be a list, one for each of {len(row['completions'])} completions",)
        if not all(value is None or type(value) is kind and (kind is str or value >= 0) for value in row[key]):
            return (f"'{key}' must hold {'numbers from 0' if kind is int else 'texts'} or null",)
    return None


def cut(tokenizer, text: str, tokens: int, finish_reason: str, limit: int) -> tuple[str, int, str]:
    """(text, tokens, finish reason) that a completion would have had under a smaller limit.

    A model samples token by token, so under the smaller limit it would have written the first `limit` tokens. `tokens` includes the
    end token, as in probe and evaluation files. The text is tokenized again, see `retokenized`.
    """
    if tokens <= limit:
        return text, tokens, finish_reason
    return tokenizer.decode(_ids(tokenizer, text)[:limit], skip_special_tokens=True), limit, "length"


def retokenized(tokenizer, text: str, tokens: int, finish_reason: str) -> bool:
    """Whether tokenizing the text again gives as many tokens as were sampled. If not (a model can write a word in other pieces than
    its tokenizer would), a cut may be some tokens early or late."""
    return len(_ids(tokenizer, text)) == tokens - (finish_reason == "stop")


def _ids(tokenizer, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]
