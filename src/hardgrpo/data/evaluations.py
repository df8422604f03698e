"""Evaluation files, `evaluation/.../{eval_task}.csv.gz`: a row is a graded completion."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from hardgrpo.data import steps
from hardgrpo.grading.graders import Grade
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

if TYPE_CHECKING:  # programs that only write evaluations do not need them
    import numpy as np
    import pandas as pd

KEY = ["step", "id", "decoding", "sample"]  # identifies a completion, here and in the file of texts
OPTIONAL = ("sound", "truncated", "tokens")  # empty where they are not known
GRADES = ("correct", "answered", "strict", "lenient", "undecided")
COLUMNS = ["step", "id", "tier", "decoding", "sample", *GRADES, *OPTIONAL, "answer"]


def row(
    step: int,
    problem: dict,
    decoding: str,
    sample: int,
    grade: Grade,
    completion: str,
    tokens: int | None = None,
    finish_reason: str | None = None,
) -> dict:
    """A graded completion. `truncated` and `tokens` are empty if a recording lacks them, `sound` if steps cannot be checked."""
    named = {"step": step, "id": problem["id"], "tier": problem.get("tier"), "decoding": decoding, "sample": sample}
    length = {"truncated": finish_reason == "length" if finish_reason else None, "tokens": tokens}
    graded = {name: getattr(grade, name) for name in GRADES} | {"sound": steps.sound(problem, completion)}
    return named | graded | length | {"answer": grade.extracted}


def text(row: dict, completion: str) -> dict:
    """The line of a completion in the file of texts beside the evaluation."""
    return {key: row[key] for key in KEY} | {"completion": completion}


def write(path: str, rows: list[dict]) -> None:
    files.write_rows(path, COLUMNS, rows)
    for step in sorted({r["step"] for r in rows}):
        for decoding in ("sampled", "greedy"):
            kept = [r for r in rows if r["step"] == step and r["decoding"] == decoding]
            if kept:
                accuracy, answered = (sum(r[key] for r in kept) / len(kept) for key in ("correct", "answered"))
                print(f"{path}: step {step}, {decoding}: accuracy {accuracy:.3f}, answered {answered:.3f}, n {len(kept)}")


def read(path: str) -> pd.DataFrame:
    """An evaluation; unknown `sound`, `truncated` and `tokens` are nan. Raise a `UserError` for wrong columns or values."""
    import pandas as pd

    kinds = {"step": int, "id": str, "tier": str, "decoding": str, "sample": int}
    kinds |= dict.fromkeys(GRADES, int) | dict.fromkeys(OPTIONAL, float) | {"answer": str}
    # Also rejects short rows and repeated columns, which pandas accepts.
    files.check_numbers(path, [name for name, kind in kinds.items() if kind is not str])
    text = files.read_text(path).removeprefix("\ufeff")
    try:
        # Only an empty cell counts as missing: a problem may be called "NA".
        empty = {column: [""] for column in ("tier", *OPTIONAL, "answer")}
        frame = pd.read_csv(io.StringIO(text), dtype=kinds, usecols=list(kinds), keep_default_na=False, na_values=empty)
    except (ValueError, OverflowError):
        files.read_rows(path, kinds)  # raises an error with row and column
        raise UserError(f"{path}: not an evaluation file; delete it and run again") from None
    if frame.empty:
        raise UserError(f"{path}: the file has no rows; delete it and run again")
    twice = frame.duplicated(KEY)
    if twice.any():
        raise UserError(f"{path}: row {int(twice.idxmax()) + 2}: a completion stands in the file twice; delete it and run again")
    for column in ("step", "sample", "tokens"):
        bad = frame[column] < 0
        if bad.any():
            raise UserError(f"{path}: row {int(bad.idxmax()) + 2}: column '{column}' is below 0; delete the file and run again")
    for column in (*GRADES, "sound", "truncated"):
        bad = ~frame[column].isin((0, 1)) & frame[column].notna()
        if bad.any():
            row = int(bad.idxmax()) + 2
            raise UserError(
                f"{path}: row {row}: column '{column}' is {frame[column][row - 2]}, expected 0 or 1; delete the file and run again"
            )
    return frame


def by_problem(frame: pd.DataFrame, step: int, column: str, decoding: str = "sampled") -> pd.Series:
    """Mean of a column over the samples of each problem at one step, indexed by problem id in sorted order."""
    kept = frame[(frame.step == step) & (frame.decoding == decoding)]
    return kept.groupby("id", sort=True)[column].mean()


def counts(frame: pd.DataFrame, step: int, column: str = "correct") -> tuple[np.ndarray, np.ndarray]:
    """(N,) samples and (N,) samples with `column` 1, by problem in sorted order, at one step, without greedy ones; nan where the
    column is empty."""
    groups = frame[(frame.step == step) & (frame.decoding == "sampled")].groupby("id", sort=True)[column]
    return groups.size().to_numpy(), groups.sum(min_count=1).to_numpy()


def by_sample(frame: pd.DataFrame, step: int, decoding: str = "sampled") -> np.ndarray | None:
    """Whether each completion at one step is correct, (N, m): problems in sorted order, samples by number.

    None where problems differ in their samples, as in some recordings.
    """
    kept = frame[(frame.step == step) & (frame.decoding == decoding)].sort_values(["id", "sample"])
    problems = kept.id.nunique()
    if not problems or len(kept) % problems:
        return None
    numbers = kept["sample"].to_numpy().reshape(problems, -1)
    names = kept.id.to_numpy(object).reshape(problems, -1)
    same = (numbers == numbers[0]).all() and (names == names[:, :1]).all()
    return kept.correct.to_numpy(float).reshape(problems, -1) if same else None
