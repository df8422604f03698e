"""Rows of chosen prompts in the form that a trainer reads: TRL, verl, or prime-rl with verifiers, and
a reward function for each that grades as this project does."""

import contextlib
import json

from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

FILES = {"trl": "jsonl", "verl": "parquet", "prime-rl": "jsonl"}  # ending of a trainer's file


def trainer_row(
    trainer: str,
    source: str,
    index: int,
    problem: dict,
    messages: list[dict],
    measures: dict,
    original: dict | None = None,
) -> dict:
    """A row of the trainer's file. `problem` has id, question and answer; `source` names where the
    prompts come from; `measures`, such as the pass rate, become columns. What a person's row
    `original` has is kept, except for the prompt and the answer. A reward function receives all
    columns (TRL), `extra_info` (verl) or `info` (verifiers)."""
    original = original or {}
    measures = {name: value for name, value in measures.items() if value is not None}
    if trainer == "trl":
        row = {"id": problem["id"]} | original
        return row | {"prompt": messages, "solution": problem["answer"]} | measures
    if trainer == "verl":
        extra = {"split": "train", "index": index, "id": problem["id"]}
        extra |= {"question": problem["question"]} | _fields(original, "extra_info") | measures
        reward = {"style": "rule", "ground_truth": problem["answer"]}
        row = {"data_source": source, "ability": "reasoning"} | original
        return row | {"prompt": messages, "reward_model": reward, "extra_info": extra}
    info = {"id": problem["id"]} | _fields(original, "info") | measures
    row = {"task": source} | original | {"prompt": messages, "answer": problem["answer"]}
    return row | {"info": info}


def _fields(row: dict, name: str) -> dict:
    """The object in a cell, which may be JSON text."""
    value = row.get(name)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    return value if isinstance(value, dict) else {}


def without_surrogates(value: object) -> object:
    """A value with "?" in place of each half of a surrogate pair, as in `files.write_text`. Parquet
    cannot store such characters."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {key: without_surrogates(entry) for key, entry in value.items()}
    return [without_surrogates(entry) for entry in value] if isinstance(value, list) else value


def write_trainer_rows(path: str, rows: list[dict]) -> None:
    """Write rows as JSON Lines, or as Parquet if the path ends in .parquet. Raise a `UserError` if
    a column holds values of different types, which Parquet cannot store."""
    rows = [without_surrogates(row) for row in rows]
    if not str(path).endswith(".parquet"):
        lines = (json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
        files.write_text(path, "".join(lines))
        return
    import pyarrow
    import pyarrow.parquet

    columns = dict.fromkeys(name for row in rows for name in row)
    try:
        table = pyarrow.table({name: [row.get(name) for row in rows] for name in columns})
        with files.atomic(path) as temporary:
            pyarrow.parquet.write_table(table, temporary)
    except (pyarrow.ArrowException, TypeError) as error:
        raise UserError(
            f"{path}: the rows cannot be stored as Parquet ({str(error)[:200]}); give the columns of the prompts' file one type each, or choose another format"
        ) from None


# This module does not import it: runtime/code.py takes lines that begin with `from` for imports.
_IMPORTS = "from hardgrpo.grading import rewards"
_HEAD = '''"""Reward function for {trainer}: 1.0 for a right answer, 0.0 otherwise, graded by hardgrpo's grader
`{grader}`, as the pass rates were. Needs the package hardgrpo, but not torch."""

import functools

{imports}

score = functools.partial(rewards.score, "{grader}", in_reasoning={in_reasoning})


'''
_REWARDS = {
    "trl": """def reward(completions, solution, **kwargs):
    texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
    return [score(text, answer) for text, answer in zip(texts, solution)]
""",
    "verl": """def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return score(solution_str, ground_truth)
""",
    "prime-rl": """def reward(completion, answer, **kwargs):
    return score(completion if isinstance(completion, str) else completion[-1]["content"], answer)
""",
}


def reward_program(trainer: str, grader: str, in_reasoning: bool) -> str:
    """The text of a Python file with the trainer's reward function; see `rewards.score`."""
    head = _HEAD.format(trainer=trainer, grader=grader, in_reasoning=in_reasoning, imports=_IMPORTS)
    return head + _REWARDS[trainer]
