"""Checks of a study's summaries that need no raw files, run by scripts/paper/verify.py.

Except for claims, the checks recompute numbers in plain Python from the rows of the tables, without
the package's statistics.
"""

from conftest import TOLERANCE, at, check, close, is_known, rows_of
from hardgrpo.analysis import (
    claims,
    published,
    random_choice,
    summaries,
    summary_tables,
)
from hardgrpo.report import registry
from hardgrpo.runtime import files

import csv
import io
from collections import defaultdict
from math import log, nan

JUDGED = {
    "claims": claims.COLUMNS,
    "against_random": random_choice.COLUMNS,
    "compared": published.COMPARED,
}
SHARES = {"accuracy", "base_accuracy", "accuracy_answered", "base_accuracy_answered"}
SHARES |= {"answered", "base_answered", "answered_mean"}
SHARES |= {"truncated", "base_truncated", "truncated_mean"}
SHARES |= {"pass", "base", "pass_rate", "mean_pass_rate", "boundary_pass_rate", "zero_share"}
SHARES |= {"learnable", "mixed", "all_right", "all_wrong", "never_solved", "target"}
SHARES |= {"r_squared", "p", "p_holm", "published", "alone", "with_prompt"}
CHANGES = {"gain", "difference", "finishing", "correctness"}
COUNTS = {"problems", "samples", "seeds", "cells", "k", "pool", "prompts", "labels"}
COUNTS |= {"updates", "rollouts", "completion_tokens"}
# Counts that may be means over seeds, and therefore need not be whole numbers: MEANS lists them for
# some tables, POOLED for all other tables.
POOLED = {"problems", "pool", "prompts"}
MEANS = {
    "spent": POOLED | {"updates", "rollouts", "labels"},
    "rollouts": POOLED | {"updates", "labels"},
}
MAY_BE_ZERO = {"labels"}  # a reward other than `correct` needs no labels for training
MUST_BE_KNOWN = COUNTS | {"accuracy", "gain", "difference", "finishing", "correctness"}
MUST_BE_KNOWN |= {"pass", "learnable", "pass_rate"}


def test_columns(arguments):
    """Every table has its columns."""
    failures = []
    tables = summary_tables.all_tables()
    expected_columns = {name: tables[name].columns for name in registry.SUMMARIES} | JUDGED
    for name, expected in expected_columns.items():
        if summaries.has_no_file(arguments.tables, name):
            continue
        header = files.read_text(arguments.tables[name]).split("\n")[0].split(",")
        if header != expected:
            failures.append(
                f"{name}.csv: row 1: columns are {', '.join(header)}; expected {', '.join(expected)}"
            )
    check(failures)


def test_cells(study, tables, runs):
    """Tables `gains` and `parts` have one row for each arm and test, over all seeds of the study."""
    failures = []
    expected = {
        (*cell, test): len(seeds)
        for cell, seeds in runs.items()
        for test in study.eval_tasks(cell[1], cell[0])
    }
    for name in ("gains", "parts"):
        rows = [row for row in tables[name] if row.get("decoding", "sampled") == "sampled"]
        seeds = {
            (row["model"], row["task"], row["policy"], row["recipe"], row["eval_task"]): row[
                "seeds"
            ]
            for row in rows
        }
        if len(seeds) < len(rows):
            failures.append(f"{name}.csv: {len(rows) - len(seeds)} cells are in the table twice")
        for cell in sorted(expected.keys() | seeds.keys()):
            if expected.get(cell) != seeds.get(cell):
                failures.append(
                    f"{name}.csv: {' '.join(cell)}: {seeds.get(cell, 0):.0f} seeds, the study has {expected.get(cell, 0)}"
                )
    check(failures)


def test_ranges(tables):
    """Shares, changes and counts have possible values, and no required value is missing.

    Shares lie between 0 and 1, gains and differences between -1 and 1. Counts are positive, and
    whole unless they are means over seeds. Labels may be 0, and rollouts if no tokens were sampled.
    """
    failures = []
    for name, place, row in rows_of(tables):
        for column, value in row.items():
            if not is_known(value):
                if column in MUST_BE_KNOWN:
                    failures.append(f"{place}: {column} is empty")
            elif column in SHARES and not -TOLERANCE <= value <= 1 + TOLERANCE:
                failures.append(f"{place}: {column} is {value}, not between 0 and 1")
            elif column in CHANGES and not -1 - TOLERANCE <= value <= 1 + TOLERANCE:
                # Finishing and correctness may each leave this range; their sum, the gain, may not.
                if column in ("gain", "difference"):
                    failures.append(f"{place}: {column} is {value}, not between -1 and 1")
            elif column == "rollouts" and value == row["tokens"] == 0:
                continue  # a run on worked solutions samples nothing
            elif value == 0 and column in MAY_BE_ZERO:
                continue
            elif column in COUNTS and not (
                value > 0 and (value == int(value) or column in MEANS.get(name, POOLED))
            ):
                failures.append(f"{place}: {column} is {value}, not a positive whole number")
    check(failures)


def test_intervals(tables):
    """Every interval contains its estimate."""
    failures = []
    for _, place, row in rows_of(tables):
        for column in row:
            for end in ("", "_a", "_pooled"):
                low, high = row.get(f"{column}_low{end}"), row.get(f"{column}_high{end}")
                if all(map(is_known, (low, high))) and not (
                    is_known(row[column]) and low - TOLERANCE <= row[column] <= high + TOLERANCE
                ):
                    failures.append(
                        f"{place}: {column} is {row[column]}, outside its interval{end} [{low}, {high}]"
                    )
    check(failures)


def test_tests_and_intervals_agree(tables):
    """In table `differences`, p is below 0.05 exactly if the interval excludes zero."""
    failures = []
    for _, place, row in rows_of(tables, "differences"):
        low, high, p = (row[key] for key in ("difference_low", "difference_high", "p"))
        if (
            is_known(low)
            and is_known(p)
            and abs(p - 0.05) > 1e-6
            and (p < 0.05) != (low > 0 or high < 0)
        ):
            failures.append(f"{place}: p is {p}, but the interval is [{low}, {high}]")
    check(failures)


def test_decomposition(tables):
    """Finishing and correctness add up to the gain, and so do finishing, sharpening and new solving.

    In table `parts`, finishing is also recomputed from shares and accuracies.
    """
    failures = []
    for name, place, row in rows_of(tables, "parts", "decomposition", "decomposition_runs"):
        finishing, correctness, gain = (row[key] for key in ("finishing", "correctness", "gain"))
        if not close(finishing + correctness, gain):
            failures.append(
                f"{place}: finishing {finishing} and correctness {correctness} add up to {finishing + correctness}, but the gain is {gain}"
            )
        if not close(row["accuracy"] - row["base_accuracy"], gain):
            failures.append(
                f"{place}: accuracy {row['accuracy']} minus base_accuracy {row['base_accuracy']} is not the gain, {gain}"
            )
        s0, s1, a0, a1 = (
            row[key]
            for key in ("base_answered", "answered", "base_accuracy_answered", "accuracy_answered")
        )
        if (
            name == "parts"
            and all(map(is_known, (a0, a1)))
            and abs((s1 - s0) * (a0 + a1) / 2 - finishing) > 1e-8
        ):
            failures.append(
                f"{place}: finishing is {finishing}, but {(s1 - s0) * (a0 + a1) / 2} computed from shares and accuracies"
            )
    for _, place, row in rows_of(tables, "kinds"):
        kinds = [row[key] for key in ("finishing", "sharpening", "new_solving")]
        if not close(sum(kinds), row["gain"]):
            failures.append(
                f"{place}: finishing, sharpening and new_solving add up to {sum(kinds)}, but the gain is {row['gain']}"
            )
    check(failures)


def test_tables_agree(tables):
    """Gains equal differences of accuracies, differences between arms equal differences of gains,
    and other tables have the same gains.

    In table `trajectories`, the shares of outcomes add up to 1, and the share of prompts that were
    never solved equals that of table `subsets`.
    """
    failures = []
    key = lambda row: (row["model"], row["task"], row["eval_task"], row["arm"])
    gains = {(*key(row), row["decoding"]): row["gain"] for row in tables["gains"]}
    accuracy = {
        (*key(row), row["decoding"], row["step"]): row["accuracy"] for row in tables["accuracy"]
    }
    for _, place, row in rows_of(tables, "gains"):
        steps = [(*key(row), row["decoding"], step) for step in (row["step"], 0)]
        if all(step in accuracy for step in steps) and not close(
            accuracy[steps[0]] - accuracy[steps[1]], row["gain"]
        ):
            failures.append(
                f"{place}: gain is {row['gain']}, but accuracy.csv has {accuracy[steps[0]]} after training and {accuracy[steps[1]]} before"
            )
    for _, place, row in rows_of(tables, "differences"):
        sides = gains[(*key(row), "sampled")], gains[(*key(row)[:3], row["minus_arm"], "sampled")]
        if not close(sides[0] - sides[1], row["difference"]):
            failures.append(
                f"{place}: difference is {row['difference']}, but the gains are {sides[0]} and {sides[1]}"
            )
    for _, place, row in rows_of(tables, "parts"):
        if not close(gains[(*key(row), "sampled")], row["gain"]):
            failures.append(
                f"{place}: gain is {row['gain']}, gains.csv has {gains[(*key(row), 'sampled')]}"
            )
    for name, place, row in rows_of(tables, "pass_at_k", "kinds"):
        is_total = row["k"] == 1 if name == "pass_at_k" else not row["tier"]
        if is_total and not close(gains[(*key(row), "sampled")], row["gain"]):
            failures.append(
                f"{place}: gain is {row['gain']}, gains.csv has {gains[(*key(row), 'sampled')]}"
            )
    zero_shares = {
        (row["model"], row["task"], row["policy"]): row["zero_share"] for row in tables["subsets"]
    }
    for _, place, row in rows_of(tables, "trajectories"):
        if not close(row["mixed"] + row["all_right"] + row["all_wrong"], 1):
            failures.append(
                f"{place}: mixed {row['mixed']}, all_right {row['all_right']} and all_wrong {row['all_wrong']} do not add up to 1"
            )
        zero = zero_shares[row["model"], row["task"], row["policy"]]
        if not close(row["never_solved"], zero):
            failures.append(
                f"{place}: never_solved is {row['never_solved']}, subsets.csv has {zero}"
            )
    check(failures)


def test_paired_differences(tables):
    """Paired differences and trends over tiers equal the differences of the tables' means."""
    failures = []
    key = lambda row: (row["model"], row["task"], row["eval_task"], row["arm"])
    rows = lambda name, *key_columns: {
        (*key(row), *(row[column] for column in key_columns)): row for row in tables[name]
    }
    accuracy, passes, tiers = (
        rows("accuracy", "decoding", "step"),
        rows("pass_at_k", "k"),
        rows("tiers", "tier"),
    )
    gains, differences = rows("gains", "decoding"), rows("differences", "minus_arm")
    for _, place, row in rows_of(tables, "paired"):
        cell, at, kind = key(row), row["at"], row["what"]
        minus_cell = (*cell[:3], row["minus_arm"])
        if kind == "checkpoint":
            means = [
                accuracy[(*side, "sampled", float(at))]["accuracy"] for side in (cell, minus_cell)
            ]
        elif kind == "pass@k":
            if any((*side, float(at)) not in passes for side in (cell, minus_cell)):
                continue  # k is larger than the base model's number of samples
            means = [passes[(*side, float(at))]["pass"] for side in (cell, minus_cell)]
        elif kind == "tier":
            means = [tiers[(*side, at)]["accuracy"] for side in (cell, minus_cell)]
        elif kind == "test":
            means = [
                differences[(*side, row["minus_arm"])]["difference"]
                for side in (cell, (*cell[:2], at, cell[3]))
            ]
        else:
            means = [gains[(*side, "sampled")]["gain"] for side in (cell, (cell[0], at, *cell[2:]))]
        if not close(means[0] - means[1], row["difference"]):
            failures.append(
                f"{place}: difference is {row['difference']}, but the other tables have {means[0]} and {means[1]}"
            )
    for _, place, row in rows_of(tables, "tier_trends"):
        easy, hard = (tiers[(*key(row), row[name])] for name in ("easiest", "hardest"))
        if not close(easy["gain"] - hard["gain"], row["points"]):
            failures.append(
                f"{place}: points is {row['points']}, but tiers.csv has gains of {easy['gain']} and {hard['gain']}"
            )
        odds = [logit(tier["accuracy"]) - logit(tier["base_accuracy"]) for tier in (easy, hard)]
        shares = [tier[name] for tier in (easy, hard) for name in ("accuracy", "base_accuracy")]
        # The table rounds shares; near 0 and 1, a small error of a share is a large error of its
        # log odds.
        slack = TOLERANCE * sum(1 / (share * (1 - share)) for share in shares if 0 < share < 1)
        if is_known(row["log_odds"]) and not abs(odds[0] - odds[1] - row["log_odds"]) <= slack:
            failures.append(
                f"{place}: log_odds is {row['log_odds']}, but {odds[0] - odds[1]} according to tiers.csv"
            )
    check(failures)


def logit(share: float) -> float:
    return log(share / (1 - share)) if 0 < share < 1 else nan


def test_parity(study, tables, runs):
    """Each column in the study's `held_constant` has one value in all runs of a model and task, and
    table `parity` has every run that the study trains."""
    failures, first_values = [], {}
    for _, place, row in rows_of(tables, "parity"):
        for column in study.entry.get("held_constant", []):
            constant = first_values.setdefault(
                (row["model"], row["task"], column), (row[column], place)
            )
            if constant[0] != row[column]:
                failures.append(
                    f"{place}: {column} is {row[column]}, but {constant[0]} in {constant[1]}"
                )
    table_runs = sorted(
        (row["model"], row["task"], row["policy"], row["recipe"], row["seed"])
        for row in tables["parity"]
    )
    expected = sorted(
        (*cell, run.seed)
        for cell, group in runs.items()
        for run in group
        if run.recipe != "recorded"
    )
    if table_runs != expected:
        differing = sorted(set(table_runs) ^ set(expected))[:1] or ["a run is in the table twice"]
        failures.append(
            f"parity.csv: {len(table_runs)} runs, the study has {len(expected)}; first that differs: {differing[0]}"
        )
    check(failures)


def test_contamination(tables, record_property):
    """The numbers of test questions that equal or resemble a question of the pool are reported, and
    do not exceed the number of questions."""
    failures, sentences = [], []
    for _, place, row in rows_of(tables, "contamination"):
        if not row["equal"] + row["near"] <= row["problems"] or row["near_in_pool"] > row["pool"]:
            failures.append(f"{place}: more equal and near questions than questions in total")
        sentences.append(
            f"test of {row['eval_task']} after training on {row['task']}: of {row['problems']:.0f} questions {row['equal']:.0f} are in the pool,"
            f" {row['near']:.0f} are near a question of the pool; {row['repeated']:.0f} questions of the pool are repeated"
        )
    record_property("details", "; ".join(sentences) or "the study compares no pool with a test")
    check(failures)


def test_difficulty(tables):
    """The histograms of pools and subsets contain all problems of the pools and subsets."""
    failures, sums = [], defaultdict(float)
    for row in tables["difficulty"]:
        sums[row["model"], row["task"], row["group"]] += row["problems"]
    for _, place, row in rows_of(tables, "subsets"):
        pool, subset_size = (
            sums.get((row["model"], row["task"], group)) for group in ("pool", row["policy"])
        )
        if is_known(pool) and not close(pool, row["pool"]):
            failures.append(f"{place}: pool is {row['pool']}, difficulty.csv has {pool}")
        if is_known(subset_size) and abs(subset_size - row["prompts"]) > 1e-6:
            failures.append(
                f"{place}: prompts is {row['prompts']}, difficulty.csv has {subset_size}"
            )
    check(failures)


def test_claims(arguments, tables):
    """Claims and comparisons, judged again from the summaries, give the same rows."""
    study = claims.Study(tables, **arguments.conditions)
    printed = published.read(arguments.published), published.read_readings(arguments.published)
    judged_again = {
        "claims": claims.judge(claims.read(arguments.claims), study),
        "compared": published.compare(tables, *printed),
    }
    failures = []
    for name, expected in judged_again.items():
        table_rows = list(csv.DictReader(io.StringIO(files.read_text(arguments.tables[name]))))
        if len(table_rows) != len(expected):
            failures.append(f"{name}.csv: {len(table_rows)} rows, judged again {len(expected)}")
        for number, (row, expected_row) in enumerate(zip(table_rows, files.round_floats(expected))):
            for column in JUDGED[name]:
                if row[column] != _text(expected_row[column]):
                    failures.append(
                        f"{at(name, number, row)}: {column} is '{row[column]}', judged again '{_text(expected_row[column])}'"
                    )
    check(failures)


def _text(value) -> str:
    value = int(value) if isinstance(value, bool) else value
    return str(value) if is_known(value) else ""
