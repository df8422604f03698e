"""Files of pass rates in the forms that analyses of published numbers read."""

from pathlib import Path

import pyarrow
import pyarrow.parquet


def write_parquet(path: Path, difficulties: list, questions: list[str] | None = None) -> Path:
    """Write a Parquet file in the form of AdaRFT's data."""
    questions = questions or [
        f"{path.stem}: question {number}?" for number in range(len(difficulties))
    ]
    rows = [
        {
            "prompt": [{"role": "user", "content": question}],
            "extra_info": {"difficulty": difficulty, "index": number},
        }
        for number, (question, difficulty) in enumerate(zip(questions, difficulties))
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def write_csv(path: Path, rows: list[list], seeds: int = 2) -> Path:
    """Write a CSV file in the form of the data of `unlearnable-set-measurement`. Shares have four
    decimals."""
    header = [
        "qid",
        "initial_pass1",
        "class",
        *(f"pass1_seed{seed}" for seed in range(1, seeds + 1)),
    ]
    lines = [
        [name, f"{share:.4f}", "boundary", *(f"{value:.4f}" for value in after)]
        for name, share, *after in rows
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(",".join(map(str, line)) for line in [header, *lines]) + "\n")
    return path
