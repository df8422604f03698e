"""Checks of a study's summaries against its raw files (evaluations, completions, training logs),
run by scripts/paper/verify.py.

The checks read a random sample of the evaluations and completions, with seeds that contain the
study's name. They also read all recorded completions of each base model on the own test of each of
its tasks, and the training logs of each arm that has all its logs.
"""

from conftest import at, check, close, rows_of
from hardgrpo.data import completions, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths

import csv
import io
import json
import random
from collections import defaultdict
from functools import cache
from math import isclose, sqrt
from pathlib import Path
from statistics import mean, variance

import pytest
from scipy import stats

CELLS, FILES, COMPLETIONS = 8, 12, 200  # maximum numbers of checked cells, files and rows of a file


def sample(arguments, items: list, count: int, key: str) -> list:
    """Up to `count` random items in their order, with the study's name and `key` as seed."""
    rng = random.Random(f"{arguments.study}:{key}")
    return [items[i] for i in sorted(rng.sample(range(len(items)), min(count, len(items))))]


@cache  # because runs may share the file of a base model
def graded(path: Path) -> list[dict]:
    return list(csv.DictReader(io.StringIO(files.read_text(path), newline="")))


def rates(rows: list[dict], step: str, decoding: str, column: str = "correct") -> dict[str, float]:
    """{problem: mean of `column` over the problem's samples} at one step and decoding."""
    by_problem = defaultdict(list)
    for row in rows:
        if row["step"] == step and row["decoding"] == decoding:
            by_problem[row["id"]].append(int(row[column]))
    return {name: sum(grades) / len(grades) for name, grades in by_problem.items()}


@pytest.fixture(scope="session")
def raw(arguments, study, runs, require_local_tables) -> list[tuple]:
    """(model, task, policy, recipe, eval_task, [(rows of the base model, rows of the run)]) for each
    cell of a sample of the cells whose evaluation files all exist."""
    cells = []
    for (model, task, policy, recipe), group in runs.items():
        for test in study.eval_tasks(task, model):
            pairs = [
                [Path(paths.evaluation(path, test)) for path in (f"{run.base}/base", run.path)]
                for run in group
            ]
            if all(path.exists() for pair in pairs for path in pair):
                cells.append((model, task, policy, recipe, test, pairs))
    if not cells:
        pytest.skip("no arm has all its evaluation files (results/evaluation)")
    return [
        (*keys, [tuple(map(graded, pair)) for pair in pairs])
        for *keys, pairs in sample(arguments, cells, CELLS, "cells")
    ]


def test_gains_agree_with_the_completions(tables, raw):
    """Gains and answered shares, computed again from the graded completions."""
    failures = []
    keys = {}
    for name in ("gains", "accuracy"):
        for number, row in enumerate(tables[name]):
            key = (
                name,
                *(row[k] for k in ("model", "task", "policy", "recipe", "eval_task", "decoding")),
            )
            keys[(*key, row["step"]) if name == "accuracy" else key] = at(name, number, row), row
    for *cell, group in raw:
        for decoding in ("sampled", "greedy"):
            if ("gains", *cell, decoding) not in keys:
                continue
            place, row = keys["gains", *cell, decoding]
            last_step = str(int(row["step"]))
            before = [rates(base, "0", decoding) for base, _ in group]
            after = [rates(rows, last_step, decoding) for _, rows in group]
            if any(
                base_rates.keys() != run_rates.keys()
                for base_rates, run_rates in zip(before, after)
            ):
                failures.append(
                    f"{place}: the runs and the base model were tested on different problems"
                )
                continue
            gain = mean(mean(run_rates.values()) for run_rates in after) - mean(
                mean(base_rates.values()) for base_rates in before
            )
            if not close(gain, row["gain"]):
                failures.append(
                    f"{place}: gain is {row['gain']}, but {gain} according to the completions"
                )
            answered = mean(
                mean(rates(rows, last_step, decoding, "answered").values()) for _, rows in group
            )
            place, row = keys["accuracy", *cell, decoding, row["step"]]
            if not close(answered, row["answered_mean"]):
                failures.append(
                    f"{place}: answered_mean is {row['answered_mean']}, but {answered} according to the completions"
                )
    check(failures)


def test_intervals_agree_with_the_completions(tables, raw):
    """Intervals of gains, computed again from the graded completions, with each sum of the formula
    written out."""
    failures = []
    for *cell, group in raw:
        for number, row in enumerate(tables["gains"]):
            is_cell = [row[k] for k in ("model", "task", "policy", "recipe", "eval_task")] == cell
            if not is_cell or row["decoding"] != "sampled" or row["seeds"] < 2:
                continue
            last_step = str(int(row["step"]))
            pairs = [
                (rates(base, "0", "sampled"), rates(rows, last_step, "sampled"))
                for base, rows in group
            ]
            x = [[after[name] - before[name] for name in sorted(before)] for before, after in pairs]
            seeds, problems = len(x), len(x[0])
            seed_means = [mean(values) for values in x]
            problem_means = [mean(values) for values in zip(*x)]
            grand_mean = mean(map(mean, x))
            residual = sum(
                (x[s][i] - seed_means[s] - problem_means[i] + grand_mean) ** 2
                for s in range(seeds)
                for i in range(problems)
            )
            shared = variance(problem_means) / problems - residual / (
                (problems - 1) * (seeds - 1) * problems * seeds
            )
            t = lambda n: stats.t.ppf(0.975, n - 1)
            half = sqrt(
                t(seeds) ** 2 * variance(seed_means) / seeds + t(problems) ** 2 * max(shared, 0)
            )
            for end, value in (("gain_low", grand_mean - half), ("gain_high", grand_mean + half)):
                if not isclose(row[end], value, rel_tol=1e-6, abs_tol=1e-8):
                    failures.append(
                        f"{at('gains', number, row)}: {end} is {row[end]}, but {value} according to the completions"
                    )
    check(failures)


def require_graders(arguments, task_names: list[str]) -> None:
    """Skip the check if the grader of a task needs a package that is not installed."""
    for name in dict.fromkeys(task_names):
        try:
            graders.check_grader(arguments.graders[name])
        except UserError as error:
            pytest.skip(str(error))


def test_grades_agree_with_the_completions(arguments, study, require_local_tables):
    """A sample of completions, graded again, gets the grades of the evaluation files."""
    pairs = []
    for path in paths.evaluations(study):
        texts = Path(paths.completions(path))
        if Path(path).exists() and texts.exists():
            pairs.append((Path(path), texts))
    if not pairs:
        pytest.skip("there are no files of completions (results/evaluation/**/*.jsonl.gz)")
    sampled_pairs = sample(arguments, pairs, FILES, "files")
    require_graders(arguments, [path.name.removesuffix(".csv.gz") for path, _ in sampled_pairs])
    failures = []
    for path, texts in sampled_pairs:
        task = path.name.removesuffix(".csv.gz")
        grader = arguments.graders[task]
        answers = {
            problem["id"]: problem["answer"]
            for problem in tasks.read_problems(paths.problems(task, "test"))
        }
        key = lambda row: tuple(str(row[name]) for name in ("step", "id", "decoding", "sample"))
        rows = {key(row): (number, row) for number, row in enumerate(graded(path), start=2)}
        text_rows = [json.loads(line) for line in files.read_text(texts).split("\n") if line]
        if rows.keys() != {key(row) for row in text_rows}:
            failures.append(f"{path}: the rows and {texts} are about different completions")
            continue
        for text in sample(arguments, text_rows, COMPLETIONS, str(path)):
            grade = graders.grade(grader, text["completion"], answers[text["id"]])
            number, row = rows[key(text)]
            for column in ("correct", "answered", "strict", "lenient"):
                if int(row[column]) != int(getattr(grade, column)):
                    failures.append(
                        f"{path}: row {number} ({row['id']}, step {row['step']}, sample {row['sample']}): {column} is {row[column]},"
                        f" but {int(getattr(grade, column))} when graded again"
                    )
    check(failures)


def test_grades_agree_with_the_recordings(arguments, study, runs, require_local_tables):
    """Recorded completions of the base models, graded again, are right exactly where the evaluation
    files say so."""
    recorded = {
        model: part["source"]["recordings"]
        for model, part in study.models.items()
        if "recordings" in part["source"]
    }
    recordings = []
    for model, task in dict.fromkeys(cell[:2] for cell in runs if cell[0] in recorded):
        path = Path(paths.evaluation(f"{model}/base", task))
        recording = Path(arguments.data) / recorded[model][task]["base"]
        if "repository" in study.models[model]["source"]:
            recording = Path(paths.recording(model, task, "base"))
        if path.exists() and recording.exists() and Path(paths.problems(task, "test")).exists():
            recordings.append((path, recording, task))
    if not recorded:
        pytest.skip("the study has no recordings")
    if not recordings:
        pytest.skip(
            "no recording of a base model has its file, its evaluation and its test problems"
        )
    require_graders(arguments, [task for *_, task in recordings])
    failures = []
    for path, recording, task in recordings:
        problems = tasks.read_problems(paths.problems(task, "test"))
        by_problem = completions.read_recording(str(recording), problems)
        rows = {(row["id"], row["sample"]): row for row in graded(path)}
        for problem in problems:
            for completion in by_problem[problem["id"]]:
                row = rows.get((problem["id"], str(completion["sample"])))
                grade = graders.grade(
                    arguments.graders[task], completion["completion"], problem["answer"]
                )
                if row is None or int(row["correct"]) != grade.correct:
                    value = row["correct"] if row else "missing"
                    failures.append(
                        f"{path}: {problem['id']}, sample {completion['sample']}: correct is {value}, but {int(grade.correct)} when graded again"
                    )
    check(failures)


def test_summaries_agree_with_the_training_logs(tables, runs, require_local_tables):
    """Learnable share, rollouts and updates, computed again from the training logs."""
    logs = {}
    for cell, group in runs.items():
        log_paths = [Path(paths.training(run, "updates.csv")) for run in group]
        if all(path.exists() for path in log_paths):
            logs[cell] = [
                list(csv.DictReader(io.StringIO(files.read_text(path)))) for path in log_paths
            ]
    if not logs:
        pytest.skip("no arm has all its training logs (results/training)")
    failures = []
    for _, place, row in rows_of(tables, "learnable"):
        if updates := logs.get((row["model"], row["task"], row["policy"], row["recipe"])):
            share = mean(
                mean(float(update["learnable_share"]) for update in log) for log in updates
            )
            if not close(share, row["learnable"]):
                failures.append(
                    f"{place}: learnable is {row['learnable']}, but {share} according to the training logs"
                )
    for _, place, row in rows_of(tables, "parity"):
        cell = row["model"], row["task"], row["policy"], row["recipe"]
        if cell in logs:
            log = logs[cell][[run.seed for run in runs[cell]].index(row["seed"])]
            rollouts = sum(float(update["rollouts"]) for update in log)
            update_count = sum(float(update.get("trained") or 1) for update in log)
            if rollouts != row["rollouts"] or update_count != row["updates"]:
                failures.append(
                    f"{place}: {row['rollouts']} rollouts in {row['updates']} updates, but {rollouts} in {update_count} according to the training log"
                )
    check(failures)
