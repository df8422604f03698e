"""Read published pass rates, and convert them to numbers of right answers. Each kind of published
file has its own reader.

A table of counts has one row per prompt: `file` (the name, without its extension, of the file that
the prompt is from), `id`, `samples`, and `correct`, the number of right answers of the base model.
If results after training are published, `correct_1`, `correct_2`, ... are the numbers of right
answers after training with each seed. If pass rates are predicted without samples, `predicted` is the
predicted pass rate, empty for the prompts to which the prediction was fitted. The table does not
contain the texts of prompts.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from hardgrpo.data import sources
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import RowError, UserError, refuse_rows

COUNTS = {"file": str, "id": str, "samples": int, "correct": int}
SEED_COLUMN = re.compile(r"pass1_seed([0-9]+)")
ROUNDING = 6e-5  # largest rounding error of a published share, which has at least four decimals


def read_adarft(path: str, samples: int) -> list[dict]:
    """Counts of a Parquet file in AdaRFT's form: the question is the text of `prompt`, and
    `extra_info.difficulty` is the share of wrong answers in per cent. If a question is repeated,
    only its first row is used."""
    counts, row_errors = {}, []
    for number, row in enumerate(sources.read_parquet(path, ["prompt", "extra_info"]), start=1):
        try:
            question = "\n".join(message["content"] for message in row["prompt"])
            share = 1 - row["extra_info"]["difficulty"] / 100
        except (TypeError, KeyError):
            problem = "expected `prompt`, a list of messages with `content`, and `extra_info` with a number `difficulty`"
            row_errors.append(RowError(path, f"row {number}", problem))
            continue
        correct = count_of(share, samples)
        if correct is None:
            problem = f"difficulty is {row['extra_info']['difficulty']:g}"
            remedy = f"expected a percentage that is a multiple of 100/{samples}"
            row_errors.append(RowError(path, f"row {number}", problem, remedy))
            continue
        problem_id = hashlib.sha256(question.encode("utf-8", "replace")).hexdigest()[:16]
        count = {"file": Path(path).stem, "id": problem_id, "samples": samples, "correct": correct}
        counts.setdefault(problem_id, count)
    refuse_rows(row_errors)
    return list(counts.values())


def read_unlearnable_set(path: str, samples: int) -> list[dict]:
    """Counts of a CSV file with the columns qid, initial_pass1 (pass rate of the base model) and
    pass1_seed1, pass1_seed2, ... (pass rates after training with each seed)."""
    header, _ = files.read_cells(path)
    seeds = sorted(int(match[1]) for column in header if (match := SEED_COLUMN.fullmatch(column)))
    if not seeds:
        raise UserError(
            f"{path}: no column pass1_seed1; expected qid, initial_pass1, pass1_seed1, pass1_seed2, ..."
        )
    columns = {"initial_pass1": "correct"} | {
        f"pass1_seed{seed}": f"correct_{seed}" for seed in seeds
    }
    counts, row_errors, places = [], [], {}
    rows = files.read_rows(path, {"qid": str} | dict.fromkeys(columns, float))
    for number, row in enumerate(rows, start=2):
        count = {"file": Path(path).stem, "id": row["qid"], "samples": samples}
        count |= {name: count_of(row[column], samples) for column, name in columns.items()}
        wrong_column = next(
            (column for column, name in columns.items() if count[name] is None), None
        )
        if not row["qid"]:
            row_errors.append(
                RowError(path, f"row {number}", "column 'qid' is empty", "fill it in")
            )
        elif row["qid"] in places:
            problem = f"prompt '{row['qid']}' is listed twice, first in row {places[row['qid']]}"
            row_errors.append(RowError(path, f"row {number}", problem, "remove one of the rows"))
        elif wrong_column:
            value = "empty" if row[wrong_column] is None else f"{row[wrong_column]:g}"
            problem = f"column '{wrong_column}' is {value}"
            remedy = f"expected a share that is a multiple of 1/{samples}"
            row_errors.append(RowError(path, f"row {number}", problem, remedy))
        places.setdefault(row["qid"], number)
        counts.append(count)
    refuse_rows(row_errors)
    return counts


def read_success_rates(path: str, samples: int) -> list[dict]:
    """Counts of a JSON file in the form of llms_know_difficulty: lists of pass rates (train_actual,
    test_actual), and pass rates of the test problems that a regression on the model's hidden
    states, fitted to the training problems, predicts (test_predictions)."""
    remedy = "get the file again"
    content = files.read_json(path, remedy=remedy)
    names = ("train_actual", "test_actual", "test_predictions")
    train, test, predicted = lists = [content.get(name) for name in names]
    if not all(isinstance(values, list) for values in lists) or len(test) != len(predicted):
        problem = f"expected the lists {', '.join(names)}, the last two of equal length"
        raise UserError(f"{path}: {problem}; {remedy}")
    counts, row_errors = [], []
    for file, shares, predictions in (
        ("train", train, [None] * len(train)),
        ("test", test, predicted),
    ):
        for number, (share, prediction) in enumerate(zip(shares, predictions)):
            correct = count_of(share, samples) if isinstance(share, int | float) else None
            if correct is None:
                place, problem = f"{file}_actual, entry {number} (counted from 0)", f"is {share!r}"
                remedy = f"expected a share that is a multiple of 1/{samples}"
                row_errors.append(RowError(path, place, problem, remedy))
            count = {"file": file, "id": f"{file}-{number}", "samples": samples}
            counts.append(count | {"correct": correct, "predicted": prediction})
    refuse_rows(row_errors)
    return counts


def read_pass_rates(path: str, samples: int) -> list[dict]:
    return (read_success_rates if Path(path).suffix == ".json" else read_adarft)(path, samples)


READERS: dict[str, Callable[[str, int], list[dict]]] = {  # by the kind of an analysis
    "probe_sizes": read_pass_rates,
    "before_after": read_unlearnable_set,
}


def count_of(share: float | None, samples: int) -> int | None:
    """The number of right answers among `samples` answers, from their rounded `share`; None if no
    number fits the share."""
    if share is None or not -ROUNDING <= share <= 1 + ROUNDING:
        return None
    count = round(share * samples)
    return count if abs(share - count / samples) <= ROUNDING else None


def convert(kind: str, paths: list[str], samples: int) -> list[dict]:
    """The counts of all files of an analysis. Raise a `UserError` for a file without rows."""
    counts = []
    for path in paths:
        rows = READERS[kind](path, samples)
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
