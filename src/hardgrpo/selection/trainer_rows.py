"""Rows of chosen prompts in the form that a trainer reads: TRL, verl, or prime-rl with verifiers, and
a reward function for each that grades as this project does."""

from hardgrpo.runtime import files

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
    """A row of the trainer's file. `problem` has the keys id, question and answer; `source` names
    where the prompts come from; `measures`, such as the pass rate, become columns. What the row
    `original` of a person's file has is kept, except for the prompt and the answer.

    TRL: the rewards of the library read the column `solution`, and a reward function receives all
    other columns. verl: `extra_info` travels to a custom reward function. verifiers: `info` does.
    """
    original = original or {}
    if trainer == "trl":
        ids = {"id": problem["id"]} | original
        return ids | {"prompt": messages, "solution": problem["answer"]} | measures
    if trainer == "verl":
        extra = {"split": "train", "index": index, "id": problem["id"]}
        extra |= {"question": problem["question"]} | (original.get("extra_info") or {}) | measures
        row = {"data_source": source, "ability": "reasoning"} | original
        reward = {"style": "rule", "ground_truth": problem["answer"]}
        return row | {"prompt": messages, "reward_model": reward, "extra_info": extra}
    info = original.get("info") if isinstance(original.get("info"), dict) else {}
    row = {"task": source} | original | {"prompt": messages, "answer": problem["answer"]}
    return row | {"info": {"id": problem["id"]} | info | measures}


def without_surrogates(row: dict) -> dict:
    """The row with "?" in place of each half of a surrogate pair, as in `files.write_text`. Parquet
    cannot store such characters."""
    return {
        key: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for key, value in row.items()
    }


def write_trainer_rows(path: str, rows: list[dict]) -> None:
    """Write rows as JSON Lines, or as Parquet if the path ends in .parquet."""
    if not str(path).endswith(".parquet"):
        files.write_jsonl(path, rows)
        return
    import pyarrow
    import pyarrow.parquet

    with files.atomic(path) as temporary:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), temporary)


_HEAD = '''"""Reward function for {trainer}: 1.0 for a right answer, 0.0 otherwise, graded by hardgrpo's grader
`{grader}`, as the pass rates were. Needs the package hardgrpo, but not torch."""

from hardgrpo.grading.graders import grade


def score(text, answer):
    return float(grade("{grader}", text, str(answer)).correct)


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


def reward_program(trainer: str, grader: str) -> str:
    """The text of a Python file with the trainer's reward function."""
    return _HEAD.format(trainer=trainer, grader=grader) + _REWARDS[trainer]
