"""What must hold of a study's outputs. From the summaries alone first, then against the raw files, where these are.

Started by scripts/paper/verify.py. Numbers are computed again by other code than made them: plain Python over csv rows. Raw files are
many: which of them are read is drawn by the study's name, so that it is the same every time.
"""

import csv
import gzip
import io
import json
import random
from collections import defaultdict
from math import isclose, isnan, sqrt
from pathlib import Path
from statistics import mean, variance

import pytest
from scipy import stats

from hardgrpo.analysis import claims, published, summaries
from hardgrpo.analysis.columns import COLUMNS
from hardgrpo.data import completions, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths, settings

TOLERANCE = 1e-9  # numbers are written with ten digits
CELLS, FILES, COMPLETIONS = 8, 12, 200  # how many of each are computed again

SHARES = {
    "accuracy",
    "base_accuracy",
    "answered",
    "base_answered",
    "answered_mean",
    "truncated_mean",
    "truncated",
    "base_truncated",
}
SHARES |= {"accuracy_answered", "base_accuracy_answered", "pass", "base", "learnable", "pass_rate", "mean_pass_rate", "zero_share"}
SHARES |= {"boundary_pass_rate", "r_squared", "p", "p_holm", "target", "published", "alone", "with_prompt"}
CHANGES = {"gain", "difference", "finishing", "correctness"}
COUNTS = {"problems", "samples", "seeds", "updates", "prompts", "rollouts", "completion_tokens", "cells", "k", "pool"}
MUST_BE_KNOWN = {"accuracy", "gain", "difference", "finishing", "correctness", "pass", "learnable", "pass_rate"} | COUNTS


@pytest.fixture(scope="session")
def tables(given) -> dict[str, list[dict]]:
    return summaries.read_tables(given.tables, list(COLUMNS))


@pytest.fixture(scope="session")
def runs(given) -> dict[tuple, list]:
    """The runs of each (model, task, policy), in the order of their seeds."""
    groups = defaultdict(list)
    for run in paths.runs(given.config, given.study):
        groups[run.model, run.task, settings.arm(given.config["studies"][given.study], run)].append(run)
    return dict(groups)


def check(wrong: list[str]) -> None:
    """Fail with what is wrong, a line each, without a traceback."""
    if wrong:
        more = [f"... and {len(wrong) - 5} more"] if len(wrong) > 5 else []
        pytest.fail("\n".join(wrong[:5] + more), pytrace=False)


def at(table: str, number: int, row: dict) -> str:
    """Table, row and what the row is about: 'gains.csv: row 2 (tiny swaps swaps hard)'."""
    keys = [str(row[key]) for key in ("model", "task", "eval_task", "policy", "minus", "tier", "seed", "step") if key in row]
    return f"{table}.csv: row {number + 2} ({' '.join(keys)})"


def rows_of(tables: dict, *names: str):
    """(table, place, row) of some tables, all without names."""
    for name in names or tables:
        for number, row in enumerate(tables[name]):
            yield name, at(name, number, row), row


def known(value) -> bool:
    return value is not None and not (isinstance(value, float) and isnan(value))


def close(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


# --- from the summaries alone --------------------------------------------------------------------------------------


def test_columns(given):
    """Every table has its columns."""
    wrong = []
    columns = COLUMNS | {"claims": claims.COLUMNS, "compared": published.COMPARED}
    for name, expected in columns.items():
        found = files.read_text(given.tables[name]).split("\n")[0].split(",")
        if found != expected:
            wrong.append(f"{name}.csv: row 1: columns are {', '.join(found)}; expected {', '.join(expected)}")
    check(wrong)


def test_cells(given, tables, runs):
    """Every run of the study counts once: a row for each policy and test, with all seeds."""
    wrong = []
    expected = {
        (*cell, test): len(found)
        for cell, found in runs.items()
        for test in paths.eval_tasks(given.config, given.study, cell[1], cell[0])
    }
    for name in ("gains", "parts"):
        rows = [row for row in tables[name] if row.get("decoding", "sampled") == "sampled"]
        found = {(row["model"], row["task"], row["policy"], row["eval_task"]): row["seeds"] for row in rows}
        if len(found) < len(rows):
            wrong.append(f"{name}.csv: {len(rows) - len(found)} cells stand there twice")
        for cell in sorted(expected.keys() | found.keys()):
            if expected.get(cell) != found.get(cell):
                wrong.append(f"{name}.csv: {' '.join(cell)}: {found.get(cell, 0):.0f} seeds, the study has {expected.get(cell, 0)}")
    check(wrong)


def test_ranges(tables):
    """Shares lie between 0 and 1, changes between -1 and 1, counts are whole and positive; nothing that must be known is missing."""
    wrong = []
    for _, place, row in rows_of(tables):
        for column, value in row.items():
            if not known(value):
                if column in MUST_BE_KNOWN:
                    wrong.append(f"{place}: {column} is empty")
            elif column in SHARES and not -TOLERANCE <= value <= 1 + TOLERANCE:
                wrong.append(f"{place}: {column} is {value}, not between 0 and 1")
            elif column in CHANGES and not -1 - TOLERANCE <= value <= 1 + TOLERANCE:
                # Finishing and correctness can leave this range together, but not their sum.
                if column in ("gain", "difference"):
                    wrong.append(f"{place}: {column} is {value}, not between -1 and 1")
            elif column in COUNTS and not (value > 0 and (value == int(value) or column in ("problems", "pool", "prompts"))):
                wrong.append(f"{place}: {column} is {value}, not a positive whole number")
    check(wrong)


def test_intervals(tables):
    """Every interval contains its estimate."""
    wrong = []
    for _, place, row in rows_of(tables):
        for column in row:
            for end in ("", "_a", "_pooled"):
                low, high = row.get(f"{column}_low{end}"), row.get(f"{column}_high{end}")
                if all(map(known, (low, high))) and not (known(row[column]) and low - TOLERANCE <= row[column] <= high + TOLERANCE):
                    wrong.append(f"{place}: {column} is {row[column]}, outside its interval{end} [{low}, {high}]")
    check(wrong)


def test_tests_and_intervals_agree(tables):
    """p is below 0.05 where the interval leaves zero out, and Holm's p is never the smaller one."""
    wrong = []
    for _, place, row in rows_of(tables, "differences"):
        low, high, p, p_holm = (row[key] for key in ("difference_low", "difference_high", "p", "p_holm"))
        if known(low) and known(p) and abs(p - 0.05) > 1e-6 and (p < 0.05) != (low > 0 or high < 0):
            wrong.append(f"{place}: p is {p}, but the interval is [{low}, {high}]")
        if known(p_holm) and p_holm < p - TOLERANCE:
            wrong.append(f"{place}: p_holm is {p_holm}, smaller than p, {p}")
    check(wrong)


def test_decomposition(tables):
    """Finishing and correctness add up to the gain, and are what shares and accuracies make them."""
    wrong = []
    for name, place, row in rows_of(tables, "parts", "decomposition", "decomposition_runs"):
        finishing, correctness, gain = (row[key] for key in ("finishing", "correctness", "gain"))
        if not close(finishing + correctness, gain):
            wrong.append(
                f"{place}: finishing {finishing} and correctness {correctness} make {finishing + correctness}, the gain is {gain}"
            )
        if not close(row["accuracy"] - row["base_accuracy"], gain):
            wrong.append(f"{place}: accuracy {row['accuracy']} less {row['base_accuracy']} is not the gain, {gain}")
        s0, s1, a0, a1 = (row[key] for key in ("base_answered", "answered", "base_accuracy_answered", "accuracy_answered"))
        if name == "parts" and all(map(known, (a0, a1))) and abs((s1 - s0) * (a0 + a1) / 2 - finishing) > 1e-8:
            wrong.append(f"{place}: finishing is {finishing}, from shares and accuracies {(s1 - s0) * (a0 + a1) / 2}")
    check(wrong)


def test_tables_agree(tables):
    """Gains are accuracies less the base's, differences are gains less gains, and all tables say the same of a cell."""
    wrong = []
    key = lambda row: (row["model"], row["task"], row["eval_task"], row["policy"])
    gains = {(*key(row), row["decoding"]): row["gain"] for row in tables["gains"]}
    accuracy = {(*key(row), row["decoding"], row["step"]): row["accuracy"] for row in tables["accuracy"]}
    for _, place, row in rows_of(tables, "gains"):
        steps = [(*key(row), row["decoding"], step) for step in (row["step"], 0)]
        if all(step in accuracy for step in steps) and not close(accuracy[steps[0]] - accuracy[steps[1]], row["gain"]):
            wrong.append(
                f"{place}: gain is {row['gain']}, accuracy.csv has {accuracy[steps[0]]} after and {accuracy[steps[1]]} before"
            )
    for _, place, row in rows_of(tables, "differences"):
        sides = gains[(*key(row), "sampled")], gains[(*key(row)[:3], row["minus"], "sampled")]
        if not close(sides[0] - sides[1], row["difference"]):
            wrong.append(f"{place}: difference is {row['difference']}, the gains are {sides[0]} and {sides[1]}")
    for _, place, row in rows_of(tables, "parts"):
        if not close(gains[(*key(row), "sampled")], row["gain"]):
            wrong.append(f"{place}: gain is {row['gain']}, gains.csv has {gains[(*key(row), 'sampled')]}")
    for _, place, row in rows_of(tables, "pass_at_k"):
        if row["k"] == 1 and not close(gains[(*key(row), "sampled")], row["gain"]):
            wrong.append(f"{place}: gain is {row['gain']}, gains.csv has {gains[(*key(row), 'sampled')]}")
    check(wrong)


def test_parity(given, tables, runs):
    """What the study holds constant is constant within each task, in every run."""
    wrong, plan, first = [], given.config["studies"][given.study], {}
    for _, place, row in rows_of(tables, "parity"):
        for column in plan.get("held_constant", []):
            held = first.setdefault((row["model"], row["task"], column), (row[column], place))
            if held[0] != row[column]:
                wrong.append(f"{place}: {column} is {row[column]}, but {held[0]} in {held[1]}")
    found = sorted((row["model"], row["task"], row["policy"], row["seed"]) for row in tables["parity"])
    expected = sorted((*cell, run.seed) for cell, group in runs.items() for run in group if run.recipe != "recorded")
    if found != expected:
        odd = sorted(set(found) ^ set(expected))[:1] or ["one stands there twice"]
        wrong.append(f"parity.csv: {len(found)} runs, the study has {len(expected)}; first that differs: {odd[0]}")
    check(wrong)


def test_difficulty(tables):
    """The histograms of pool and subsets hold as many problems as the subsets were chosen from and hold."""
    wrong, sums = [], defaultdict(float)
    for row in tables["difficulty"]:
        sums[row["model"], row["task"], row["group"]] += row["problems"]
    for _, place, row in rows_of(tables, "subsets"):
        pool, chosen = (sums.get((row["model"], row["task"], group)) for group in ("pool", row["policy"]))
        if known(pool) and not close(pool, row["pool"]):
            wrong.append(f"{place}: pool is {row['pool']}, difficulty.csv has {pool}")
        if known(chosen) and abs(chosen - row["prompts"]) > 1e-6:
            wrong.append(f"{place}: prompts is {row['prompts']}, difficulty.csv has {chosen}")
    check(wrong)


def test_claims(given, tables):
    """Claims and comparisons are what the summaries give when they are judged again."""
    study = claims.Study(tables, given.conditions["tasks"], given.conditions["weaker"])
    again = {
        "claims": (claims.COLUMNS, claims.judge(claims.read("paper/claims.yaml"), study)),
        "compared": (
            published.COMPARED,
            published.compare(tables, published.read("results/published"), published.read_readings("results/published")),
        ),
    }
    wrong = []
    for name, (columns, expected) in again.items():
        found = list(csv.DictReader(io.StringIO(files.read_text(given.tables[name]))))
        if len(found) != len(expected):
            wrong.append(f"{name}.csv: {len(found)} rows, judged again {len(expected)}")
        for number, (row, right) in enumerate(zip(found, files.rounded(expected))):
            for column in columns:
                if row[column] != _text(right[column]):
                    wrong.append(f"{at(name, number, row)}: {column} is '{row[column]}', judged again '{_text(right[column])}'")
    check(wrong)


def _text(value) -> str:
    value = int(value) if isinstance(value, bool) else value
    return str(value) if known(value) else ""


# --- against the raw files -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def made_here(given) -> None:
    """Skips where the tables are the committed reference: the raw files here, if any, are of another machine's run."""
    if given.reference:
        pytest.skip("the tables are the committed reference, its raw files are not here")


def sample(given, items: list, count: int, what: str) -> list:
    """Up to `count` items in their order, drawn by the study's name."""
    return [items[i] for i in sorted(random.Random(f"{given.study}:{what}").sample(range(len(items)), min(count, len(items))))]


def graded(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def rates(rows: list[dict], step: str, decoding: str, column: str = "correct") -> dict[str, float]:
    """Mean over the samples of each problem at one step."""
    by_problem = defaultdict(list)
    for row in rows:
        if row["step"] == step and row["decoding"] == decoding:
            by_problem[row["id"]].append(int(row[column]))
    return {name: sum(found) / len(found) for name, found in by_problem.items()}


@pytest.fixture(scope="session")
def raw(given, runs, made_here) -> list[tuple]:
    """(model, task, policy, eval_task, base's rows, each run's rows) of a sample of the cells whose evaluation files are here."""
    cells = []
    for (model, task, policy), group in runs.items():
        for test in paths.eval_tasks(given.config, given.study, task, model):
            base = Path(f"results/evaluation/{model}/base/{test}.csv.gz")
            trained = [Path(f"results/evaluation/{run.path}/{test}.csv.gz") for run in group]
            if all(path.exists() for path in (base, *trained)):
                cells.append((model, task, policy, test, base, trained))
    if not cells:
        pytest.skip("no evaluation files are here (results/evaluation)")
    return [
        (*keys, graded(base), [graded(path) for path in trained]) for *keys, base, trained in sample(given, cells, CELLS, "cells")
    ]


def test_gains_again(tables, raw):
    """Gains and answered shares, computed again from the graded completions."""
    wrong = []
    keys = {}
    for name in ("gains", "accuracy"):
        for number, row in enumerate(tables[name]):
            key = (name, *(row[k] for k in ("model", "task", "policy", "eval_task", "decoding")))
            keys[(*key, row["step"]) if name == "accuracy" else key] = at(name, number, row), row
    for *cell, base, group in raw:
        for decoding in ("sampled", "greedy"):
            if ("gains", *cell, decoding) not in keys:
                continue
            place, row = keys["gains", *cell, decoding]
            last, before = str(int(row["step"])), rates(base, "0", decoding)
            after = [rates(rows, last, decoding) for rows in group]
            if any(one.keys() != before.keys() for one in after):
                wrong.append(f"{place}: the runs were tested on other problems than the base model")
                continue
            gain = mean(mean(one.values()) for one in after) - mean(before.values())
            if not close(gain, row["gain"]):
                wrong.append(f"{place}: gain is {row['gain']}, from the completions {gain}")
            answered = mean(mean(rates(rows, last, decoding, "answered").values()) for rows in group)
            place, row = keys["accuracy", *cell, decoding, row["step"]]
            if not close(answered, row["answered_mean"]):
                wrong.append(f"{place}: answered_mean is {row['answered_mean']}, from the completions {answered}")
    check(wrong)


def test_intervals_again(tables, raw):
    """Intervals of gains, computed again from the graded completions by the formula, sum by sum."""
    wrong = []
    for *cell, base, group in raw:
        for number, row in enumerate(tables["gains"]):
            if (
                [row[k] for k in ("model", "task", "policy", "eval_task")] != cell
                or row["decoding"] != "sampled"
                or row["seeds"] < 2
            ):
                continue
            before = rates(base, "0", "sampled")
            x = [
                [one[name] - before[name] for name in before] for one in (rates(r, str(int(row["step"])), "sampled") for r in group)
            ]
            seeds, problems = len(x), len(before)
            of_seeds, of_problems, all_ = [mean(one) for one in x], [mean(one) for one in zip(*x)], mean(map(mean, x))
            residual = sum((x[s][i] - of_seeds[s] - of_problems[i] + all_) ** 2 for s in range(seeds) for i in range(problems))
            shared = variance(of_problems) / problems - residual / ((problems - 1) * (seeds - 1) * problems * seeds)
            t = lambda n: stats.t.ppf(0.975, n - 1)
            half = sqrt(t(seeds) ** 2 * variance(of_seeds) / seeds + t(problems) ** 2 * max(shared, 0))
            for end, value in (("gain_low", all_ - half), ("gain_high", all_ + half)):
                if not isclose(row[end], value, rel_tol=1e-6, abs_tol=1e-8):
                    wrong.append(f"{at('gains', number, row)}: {end} is {row[end]}, from the completions {value}")
    check(wrong)


def test_grades_again(given, runs, made_here):
    """Completions of a sample of problems, graded again, have the verdicts that the evaluation files say."""
    found = []
    for path in paths.evaluations(given.config, given.study):
        texts = Path(path.removesuffix(".csv.gz") + ".jsonl.gz")
        if Path(path).exists() and texts.exists():
            found.append((Path(path), texts))
    if not found:
        pytest.skip("no completions are here (results/evaluation/**/*.jsonl.gz)")
    wrong = []
    for path, texts in sample(given, found, FILES, "files"):
        task = path.name.removesuffix(".csv.gz")
        grader = given.graders[task]
        try:
            graders.check_grader(grader)
        except UserError as error:
            pytest.skip(str(error))
        answers = {problem["id"]: problem["answer"] for problem in tasks.read_problems(f"results/tasks/{task}/test.jsonl")}
        key = lambda row: tuple(str(row[name]) for name in ("step", "id", "decoding", "sample"))
        rows = {key(row): (number, row) for number, row in enumerate(graded(path), start=2)}
        written = [json.loads(line) for line in files.read_text(texts).split("\n") if line]
        if rows.keys() != {key(row) for row in written}:
            wrong.append(f"{path}: its rows are not those of {texts}")
            continue
        for text in sample(given, written, COMPLETIONS, str(path)):
            verdict, (number, row) = graders.grade(grader, text["completion"], answers[text["id"]]), rows[key(text)]
            for column in ("correct", "answered", "strict", "lenient"):
                if int(row[column]) != int(getattr(verdict, column)):
                    wrong.append(
                        f"{path}: row {number} ({row['id']}, step {row['step']}, sample {row['sample']}): {column} is {row[column]},"
                        f" graded again {int(getattr(verdict, column))}"
                    )
    check(wrong)


def test_recordings_again(given, runs, made_here):
    """Recorded completions, graded again, give the accuracies of the evaluation files."""
    recorded = {
        model: part["source"]["recordings"] for model, part in given.config["models"].items() if "recordings" in part["source"]
    }
    found = []
    for model, task in dict.fromkeys(cell[:2] for cell in runs if cell[0] in recorded):
        of = recorded[model][task]
        path, recording = Path(f"results/evaluation/{model}/base/{task}.csv.gz"), Path(given.data) / of["base"]
        if path.exists() and recording.exists() and Path(f"results/tasks/{task}/test.jsonl").exists():
            found.append((path, recording, task))
    if not recorded:
        pytest.skip("the study has no recordings")
    if not found:
        pytest.skip("no recordings are here")
    wrong = []
    for path, recording, task in found:
        problems = tasks.read_problems(f"results/tasks/{task}/test.jsonl")
        by_problem = completions.read_recording(str(recording), problems)
        rows = {(row["id"], row["sample"]): row for row in graded(path)}
        for problem in problems:
            for one in by_problem[problem["id"]]:
                row = rows.get((problem["id"], str(one["sample"])))
                verdict = graders.grade(given.graders[task], one["completion"], problem["answer"])
                if row is None or int(row["correct"]) != verdict.correct:
                    said = row["correct"] if row else "missing"
                    wrong.append(
                        f"{path}: {problem['id']}, sample {one['sample']}: correct is {said}, graded again {int(verdict.correct)}"
                    )
    check(wrong)


def test_training_again(tables, runs, made_here):
    """Learnable share and budgets, computed again from the training logs."""
    logs = {}
    for cell, group in runs.items():
        paths = [Path(f"results/training/{run.path}/updates.csv") for run in group]
        if all(path.exists() for path in paths):
            logs[cell] = [list(csv.DictReader(io.StringIO(files.read_text(path)))) for path in paths]
    if not logs:
        pytest.skip("no training logs are here (results/training)")
    wrong = []
    for _, place, row in rows_of(tables, "learnable"):
        if updates := logs.get((row["model"], row["task"], row["policy"])):
            share = mean(mean(float(update["learnable_share"]) for update in log) for log in updates)
            if not close(share, row["learnable"]):
                wrong.append(f"{place}: learnable is {row['learnable']}, from the training logs {share}")
    for _, place, row in rows_of(tables, "parity"):
        cell = row["model"], row["task"], row["policy"]
        if cell in logs:
            log = logs[cell][[run.seed for run in runs[cell]].index(row["seed"])]
            rollouts = sum(float(update["rollouts"]) for update in log)
            if rollouts != row["rollouts"] or len(log) != row["updates"]:
                wrong.append(
                    f"{place}: {row['rollouts']} rollouts in {row['updates']} updates, from the training log {rollouts} in {len(log)}"
                )
    check(wrong)
