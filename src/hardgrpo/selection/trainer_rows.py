"""Rows of chosen prompts in the form that a trainer reads: TRL, verl, or prime-rl with verifiers, and
a reward function for each that grades as this project does."""

from hardgrpo.runtime import files

FILES = {"trl": "jsonl", "verl": "parquet", "prime-rl": "jsonl"}  # ending of a trainer's file


def trainer_row(
    trainer: str, source: str, index: int, problem: dict, messages: list[dict], measures: dict
) -> dict:
    """A row of the trainer's file. `problem` has the keys id, question and answer; `source` names
    where the prompts come from; `measures`, such as the pass rate, become columns.

    TRL: the rewards of the library read the column `solution`, and a reward function receives all
    other columns. verl: `extra_info` travels to a custom reward function. verifiers: `info` does.
    """
    if trainer == "trl":
        return {"prompt": messages, "solution": problem["answer"], "id": problem["id"]} | measures
    if trainer == "verl":
        extra = {"split": "train", "index": index, "id": problem["id"]}
        extra |= {"question": problem["question"]} | measures
        return {
            "data_source": source,
            "prompt": messages,
            "ability": "reasoning",
            "reward_model": {"style": "rule", "ground_truth": problem["answer"]},
            "extra_info": extra,
        }
    return {
        "prompt": messages,
        "answer": problem["answer"],
        "task": source,
        "info": {"id": problem["id"]} | measures,
    }


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
    "trl": '''def reward(completions, solution, **kwargs):
    texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
    return [score(text, answer) for text, answer in zip(texts, solution)]
''',
    "verl": '''def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return score(solution_str, ground_truth)
''',
    "prime-rl": '''def reward(completion, answer, **kwargs):
    return score(completion if isinstance(completion, str) else completion[-1]["content"], answer)
''',
}


def reward_program(trainer: str, grader: str) -> str:
    """The text of a Python file with the trainer's reward function."""
    return _HEAD.format(trainer=trainer, grader=grader) + _REWARDS[trainer]
