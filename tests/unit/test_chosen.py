"""The difficulty of chosen prompts, compared with numbers computed by hand: with held-out
completions, without them, and for prompts without reference answers."""

import numpy as np
import pytest

from hardgrpo.analysis import pools as pool_tables
from hardgrpo.runtime import files

# id, pass rate, samples, held-out samples, right ones among these
ROWS = [("a", 0.0, 4, 4, 0), ("b", 0.5, 4, 4, 4), ("c", 1.0, 4, 4, 3), ("d", 0.0, 4, 4, 1)]
WITHOUT_HELD_OUT = [row[:3] for row in ROWS]
COLUMNS = ["id", "pass_rate", "samples", "held_out", "held_out_correct"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(path: str, columns: list[str], rows) -> str:
    files.write_rows(path, columns, [dict(zip(columns, row)) for row in rows])
    return path


def pool(base: str, rows: list[tuple]) -> str:
    return write(f"results/difficulty/{base}/swaps.csv", COLUMNS[: len(rows[0])], rows)


def subset(base: str, policy: str, ids: str, by: str = "pass_rate") -> str:
    path = f"results/subsets/{base}/swaps/{policy}/seed0"
    write(f"{path}.csv", ["id", by, "rank"], [(name, 0.5, n) for n, name in enumerate(ids, 1)])
    return f"{path}.json"


def signals(base: str, *agreement: float) -> str:
    return write(f"results/signals/{base}/swaps.csv", ["id", "agreement"], zip("abcd", agreement))


def test_rows_of_chosen_prompts_with_held_out_samples_equal_those_computed_by_hand():
    pools = [pool("tiny-seed0", ROWS), pool("tiny-seed1", [(*row[:3], 4, 4) for row in ROWS])]
    subsets = [
        subset("tiny-seed0", "lowest", "ac", by="agreement"),
        subset("tiny-seed1", "lowest", "ab"),
    ]
    measured = [signals("tiny-seed0", 0.9, 0.9, 0.4, 0.4), signals("tiny-seed1", 1, 1, 1, 1)]
    pool_row, lowest = pool_tables.chosen(subsets, pools, measured)
    names = ("policy", "prompts", "samples", "seeds", "pass_rate", "mixed")
    assert [pool_row[name] for name in names] == ["pool", 4, 4, 2, (0.5 + 1) / 2, (2 / 4 + 0) / 2]
    # only problem a is confidently wrong, and only for the first base model
    names = ("prompts", "pass_rate", "never_solved", "mixed", "confidently_wrong")
    assert [lowest[name] for name in names] == [2, (0.375 + 1) / 2, 0.25, 0.25, 0.25]


def test_prompts_without_a_pass_rate_do_not_count_as_confidently_wrong_or_right():
    subsets = [subset("tiny", "hard", "ad"), subset("tiny", "random", "d")]
    difficulty = pool("tiny", [*WITHOUT_HELD_OUT[:3], ("d", None, 4)])
    rows = pool_tables.chosen(subsets, [difficulty], [signals("tiny", *[0.9] * 4)])
    wrong = [row["confidently_wrong"] for row in rows]
    assert wrong == pytest.approx([1 / 3, 1, np.nan], nan_ok=True)
