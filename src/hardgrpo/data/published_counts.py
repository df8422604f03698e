"""Read published pass rates, and convert them to numbers of right answers, by a reader for each
kind of file.

A table of counts has one row per prompt, without its text: `file` (the stem of the prompt's file),
`id`, `samples`, and `correct`, the number of right answers of the base model; `correct_1`,
`correct_2`, ... after training with each seed, if published; `predicted`, the pass rate that is
predicted without samples, empty for the prompts to which the prediction was fitted.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from hardgrpo.data import row_files
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

COUNTS = {"file": str, "id": str, "samples": int, "correct": int}
SEED_COLUMN = re.compile(r"pass1_seed([0-9]+)")
REMEDY = "get the file again, or correct `samples` and `kind` of the analysis"
ROUNDING = 6e-5  # largest rounding error of a published share, which has at least four decimals


def read_adarft(path: str, samples: int) -> list[dict]:
    """Counts of a Parquet file in AdaRFT's form: the question is the text of `prompt`, and
    `extra_info.difficulty` is the share of wrong answers in per cent. If a question is repeated,
    only its first row is used."""
    counts: dict[str, dict] = {}
    table = row_files.read_parquet(path, ["prompt", "extra_info"])
    for number, row in enumerate(table.to_pylist(), start=1):
        question = "\n".join(message["content"] for message in row["prompt"])
        problem_id = hashlib.sha256(question.encode("utf-8", "replace")).hexdigest()[:16]
        share = 1 - row["extra_info"]["difficulty"] / 100
        correct = count_of(share, samples, f"{path}: row {number}: share of right answers")
        count = {"file": Path(path).stem, "id": problem_id, "samples": samples, "correct": correct}
        counts.setdefault(problem_id, count)
    return list(counts.values())


def read_unlearnable_set(path: str, samples: int) -> list[dict]:
    """Counts of a CSV file with the columns qid, initial_pass1 (pass rate of the base model) and
    pass1_seed1, pass1_seed2, ... (pass rates after training with each seed)."""
    header, _ = files.read_cells(path)
    seeds = sorted(int(match[1]) for column in header if (match := SEED_COLUMN.fullmatch(column)))
    columns = {"initial_pass1": "correct"}
    columns |= {f"pass1_seed{seed}": f"correct_{seed}" for seed in seeds or [1]}
    counts: dict[str, dict] = {}
    rows = files.read_rows(path, {"qid": str} | dict.fromkeys(columns, float))
    for number, row in enumerate(rows, start=2):
        if row["qid"] is None or row["qid"] in counts:
            raise UserError(f"{path}: row {number}: qid is empty or occurs twice; {REMEDY}")
        counts[row["qid"]] = {"file": Path(path).stem, "id": row["qid"], "samples": samples} | {
            name: count_of(row[column], samples, f"{path}: row {number}: {column}")
            for column, name in columns.items()
        }
    return list(counts.values())


def read_success_rates(path: str, samples: int) -> list[dict]:
    """Counts of a JSON file in the form of llms_know_difficulty: lists of pass rates (train_actual,
    test_actual), and of predicted pass rates (test_predictions)."""
    content = files.read_json(path, remedy=REMEDY)
    predictions = {"train": [None] * len(content["train_actual"])}
    predictions["test"] = content["test_predictions"]
    return [
        {
            "file": split,
            "id": f"{split}-{number}",
            "samples": samples,
            "correct": count_of(share, samples, f"{path}: {split}_actual, entry {number}"),
            "predicted": prediction,
        }
        for split in ("train", "test")
        for number, (share, prediction) in enumerate(
            zip(content[f"{split}_actual"], predictions[split], strict=True)
        )
    ]


def read_pass_rates(path: str, samples: int) -> list[dict]:
    return (read_success_rates if Path(path).suffix == ".json" else read_adarft)(path, samples)


READERS: dict[str, Callable[[str, int], list[dict]]] = {  # by the kind of an analysis
    "probe_sizes": read_pass_rates,
    "before_after": read_unlearnable_set,
}


def count_of(share: float | None, samples: int, place: str) -> int:
    """The number of right answers among `samples` answers, from their rounded `share`. Raise a
    `UserError` about `place` if no number fits the share."""
    count = round(share * samples)
    if not 0 <= count <= samples or abs(share - count / samples) > ROUNDING:
        raise UserError(
            f"{place} is {share:g}, expected a multiple of 1/{samples} from 0 to 1; {REMEDY}"
        )
    return count


def convert(kind: str, paths: list[str], samples: int) -> list[dict]:
    """The counts of all files of an analysis. Raise a `UserError` for a file without rows or of
    another form."""
    counts = []
    for path in paths:
        try:
            rows = READERS[kind](path, samples)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UserError(f"{path}: not the expected file ({error}); {REMEDY}") from None
        if not rows:
            raise UserError(f"{path}: the file has no rows; expected one per prompt")
        counts += rows
    return counts


def read(path: str | Path) -> list[dict]:
    """The rows of a table of counts."""
    header, _ = files.read_cells(path)
    seed_columns = {column: int for column in header if re.fullmatch("correct_[0-9]+", column)}
    predictions = {"predicted": float} if "predicted" in header else {}
    return files.read_rows(path, COUNTS | seed_columns | predictions)
