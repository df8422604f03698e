"""What must hold in the summary tables of every study, computed again with pandas alone."""

from pathlib import Path

import numpy as np
import pandas as pd

CELL = ["model", "task", "eval_task", "policy", "recipe"]
MINUS = {"minus": "policy", "minus_recipe": "recipe"}
SHARES = {"accuracy", "base_accuracy", "answered", "base_answered", "pass", "pass_rate", "p"}
SHARES |= {"learnable", "mixed", "all_right", "all_wrong", "never_solved", "zero_share", "p_holm"}


def read_tables(folder: Path) -> dict[str, pd.DataFrame]:
    """The tables of a folder that have rows, by name."""
    kinds = dict.fromkeys([*CELL, *MINUS, "tier", "at"], str)
    frames = {
        path.stem: pd.read_csv(path, dtype=kinds, keep_default_na=False, na_values=[""])
        for path in sorted(folder.glob("*.csv"))
    }
    return {
        name: frame.fillna(dict.fromkeys(frame.columns.intersection(list(kinds)), ""))
        for name, frame in frames.items()
        if len(frame)
    }


def faults(folder: Path) -> list[str]:
    """The tables of a folder that contradict themselves or each other, a line each."""
    lines, tables = [], read_tables(folder)

    def expect_equal(name: str, value: pd.Series, expected: pd.Series) -> None:
        differs = ~np.isclose(value.astype(float), expected.astype(float), rtol=1e-8, atol=1e-8)
        lines.extend(
            f"{folder}/{name}.csv: {value.name} is {value[row]}, expected {expected[row]} (row {row})"
            for row in value.index[differs][:3]
        )

    def expect_difference(frame: pd.DataFrame, table: pd.DataFrame, column: str, keys: list):
        """Expect `difference` to be the arm's value of another table minus the other arm's."""
        values = table.set_index(keys)[column]
        other = frame.drop(columns=list(MINUS.values())).rename(columns=MINUS)
        sides = [
            pd.Series(values.reindex(pd.MultiIndex.from_frame(side[keys])).array, frame.index)
            for side in (frame, other)
        ]
        known = sides[0].notna() & sides[1].notna()
        expect_equal("differences or paired", frame.difference[known], (sides[0] - sides[1])[known])

    for name, frame in tables.items():
        lines += [
            f"{folder}/{name}.csv: {column} is not between 0 and 1"
            for column in frame.columns.intersection(list(SHARES))
            if not frame[column].dropna().between(-1e-9, 1 + 1e-9).all()
        ]
        for column in frame:
            if {f"{column}_low", f"{column}_high"} <= set(frame):
                low, high = frame[f"{column}_low"], frame[f"{column}_high"]
                inside = frame[column].between(low - 1e-9, high + 1e-9) | low.isna() | high.isna()
                if not inside.all():
                    lines.append(f"{folder}/{name}.csv: {column} is outside its interval")
    if "trajectories" in tables:
        frame = tables["trajectories"]
        outcomes = frame.mixed + frame.all_right + frame.all_wrong
        expect_equal("trajectories", outcomes.rename("sum of outcomes"), 0 * outcomes + 1)
    if "gains" not in tables:
        return lines
    gains = tables["gains"]
    sampled = gains[gains.decoding == "sampled"]
    for name in ("parts", "decomposition", "decomposition_runs", "kinds"):
        if name not in tables:
            continue
        frame = tables[name]
        parts = ["sharpening", "new_solving"] if name == "kinds" else ["correctness"]
        expect_equal(name, frame.gain, frame[["finishing", *parts]].sum(axis=1))
        if name != "kinds":
            expect_equal(name, frame.gain, frame.accuracy - frame.base_accuracy)
    if "parts" in tables:
        frame = tables["parts"].dropna(subset=["accuracy_answered", "base_accuracy_answered"])
        mean_accuracy = (frame.accuracy_answered + frame.base_accuracy_answered) / 2
        expect_equal(
            "parts", frame.finishing, (frame.answered - frame.base_answered) * mean_accuracy
        )
    for name, rows in (("parts", None), ("kinds", ("tier", "")), ("pass_at_k", ("k", 1))):
        if name in tables:
            frame = tables[name]
            frame = frame if rows is None else frame[frame[rows[0]] == rows[1]]
            both = frame.merge(sampled, on=CELL, suffixes=("", "_of_gains"))
            expect_equal(name, both.gain, both.gain_of_gains)
    keys = [*CELL, "decoding", "step"]
    after = gains.merge(tables["accuracy"], on=keys, suffixes=("", "_of_accuracy"))
    expect_equal("gains", after.gain, after.accuracy - after.base_accuracy)
    if "differences" in tables:
        frame = tables["differences"]
        expect_difference(frame, sampled, "gain", CELL)
        low, high = frame.difference_low, frame.difference_high
        wrong = (frame.p < 0.05) != ((low > 0) | (high < 0))
        if (wrong & low.notna() & frame.p.notna() & ((frame.p - 0.05).abs() > 1e-6)).any():
            lines.append(f"{folder}/differences.csv: p and the interval disagree")
    for what, name, column, key in (
        ("checkpoint", "accuracy", "accuracy", "step"),
        ("pass@k", "pass_at_k", "pass", "k"),
        ("tier", "tiers", "accuracy", "tier"),
    ):
        if "paired" in tables and name in tables:
            frame, table = tables["paired"], tables[name]
            frame = frame[frame.what == what].rename(columns={"at": key})
            table = table[table.decoding == "sampled"] if "decoding" in table else table
            frame = frame.assign(**{key: frame[key].astype(table[key].dtype)})
            expect_difference(frame, table, column, [*CELL, key])
    if "difficulty" in tables and "subsets" in tables:
        sums = tables["difficulty"].groupby(["model", "task", "group"]).problems.sum()
        subsets = tables["subsets"]
        for column, groups in (("pool", ["pool"] * len(subsets)), ("prompts", subsets.policy)):
            index = pd.MultiIndex.from_arrays([subsets.model, subsets.task, groups])
            counts = pd.Series(sums.reindex(index).array, subsets.index)
            expect_equal("subsets", subsets[column][counts.notna()], counts[counts.notna()])
    return lines
