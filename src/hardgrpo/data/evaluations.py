"""Read and write evaluation files, `evaluation/.../{eval_task}.csv.gz`. Each row is a graded
completion."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from hardgrpo.data import generated
from hardgrpo.grading import graders
from hardgrpo.runtime import files

if TYPE_CHECKING:  # not needed by programs that only write evaluations
    import numpy as np
    import pandas as pd

KEY_COLUMNS = ["step", "id", "decoding", "sample"]  # of a completion, also in the file of texts
OPTIONAL = ("sound", "truncated", "tokens")  # empty where unknown
GRADES = ("correct", "answered", "strict", "lenient", "undecided")
COLUMNS = ["step", "id", "tier", "decoding", "sample", *GRADES, *OPTIONAL, "answer"]


def grade(
    grader: str,
    problem: dict,
    step: int,
    decoding: str,
    sample: int,
    completion: str,
    tokens: int | None = None,
    finish_reason: str | None = None,
) -> dict:
    """The row of a completion, graded. `truncated` and `tokens` are None if a recording lacks them;
    `sound` is None if the problem's steps cannot be checked."""
    result = graders.grade(grader, completion, problem["answer"])
    return {
        "step": step,
        "id": problem["id"],
        "tier": problem.get("tier"),
        "decoding": decoding,
        "sample": sample,
        **{name: getattr(result, name) for name in GRADES},
        "sound": generated.is_sound(problem, completion),
        "truncated": finish_reason == "length" if finish_reason else None,
        "tokens": tokens,
        "answer": result.extracted,
    }


def text(row: dict, completion: str) -> dict:
    return {key: row[key] for key in KEY_COLUMNS} | {"completion": completion}


def write(path: str, rows: list[dict]) -> None:
    """Write an evaluation, and print its accuracy by step and decoding."""
    files.write_rows(path, COLUMNS, rows)
    for step in sorted({row["step"] for row in rows}):
        for decoding in ("sampled", "greedy"):
            group = [row for row in rows if (row["step"], row["decoding"]) == (step, decoding)]
            if group:
                accuracy = sum(row["correct"] for row in group) / len(group)
                answered_share = sum(row["answered"] for row in group) / len(group)
                print(
                    f"{path}: step {step}, {decoding}: accuracy {accuracy:.3f}, answered {answered_share:.3f}, n {len(group)}"
                )


def read(path: str) -> pd.DataFrame:
    """An evaluation; unknown `sound`, `truncated` and `tokens` are nan."""
    import pandas as pd

    kinds = {"step": int, "id": str, "tier": str, "decoding": str, "sample": int}
    kinds |= dict.fromkeys(GRADES, int) | dict.fromkeys(OPTIONAL, float) | {"answer": str}
    # Only an empty cell counts as missing, because "NA" may be the id of a problem.
    empty = {column: [""] for column in ("tier", *OPTIONAL, "answer")}
    return pd.read_csv(
        io.StringIO(files.read_text(path)),
        dtype=kinds,
        usecols=list(kinds),
        keep_default_na=False,
        na_values=empty,
    )


def by_problem(frame: pd.DataFrame, step: int, column: str, decoding: str = "sampled") -> pd.Series:
    """The mean of a column over the samples of each problem at one step, indexed by problem id in
    sorted order."""
    rows = frame[(frame.step == step) & (frame.decoding == decoding)]
    return rows.groupby("id", sort=True)[column].mean()


def counts(
    frame: pd.DataFrame, step: int, column: str = "correct"
) -> tuple[np.ndarray, np.ndarray]:
    """(numbers of sampled completions of `step`, numbers of those whose value in `column` is 1) of
    the problems, sorted by id; nan for a problem whose values are empty."""
    groups = frame[(frame.step == step) & (frame.decoding == "sampled")].groupby("id", sort=True)[
        column
    ]
    return groups.size().to_numpy(), groups.sum(min_count=1).to_numpy()


def by_sample(frame: pd.DataFrame, step: int, decoding: str = "sampled") -> np.ndarray | None:
    """Array (problems, samples) of the grades at one step, 1.0 if correct: problems sorted by id,
    samples by number; None if the sample numbers differ between problems, as in some recordings."""
    rows = frame[(frame.step == step) & (frame.decoding == decoding)]
    grades = rows.pivot(index="id", columns="sample", values="correct")
    is_complete = len(grades) and grades.notna().all(axis=None)
    return grades.to_numpy(float) if is_complete else None
