"""The tables of the finished small study agree with each other, and follow from its completions and
training logs."""

import gzip
import json

import pandas as pd
import pytest

import invariants
from hardgrpo.data import tasks
from hardgrpo.grading import graders

KEY = ["step", "id", "decoding", "sample"]
GRADERS = {"swaps": "final_word", "swaps_hard": "final_word"}


def evaluations(world) -> list:
    return sorted((world.folder / "results/evaluation").rglob("*.csv.gz"))


def test_the_tables_agree(finished_world):
    assert invariants.faults(finished_world.folder / "results/summaries/mini") == []


def test_completions_graded_again_get_their_grades(finished_world):
    rows = 0
    for path in evaluations(finished_world):
        test = path.name.removesuffix(".csv.gz")
        texts = path.with_name(f"{test}.jsonl.gz")
        if not texts.exists():
            continue
        problems = finished_world.folder / f"results/tasks/{test}/test.jsonl"
        answers = {row["id"]: row["answer"] for row in tasks.read_problems(problems)}
        graded = pd.read_csv(path, dtype={"id": str}).set_index(KEY)
        for line in gzip.decompress(texts.read_bytes()).decode().splitlines():
            row = json.loads(line)
            grade = graders.grade(GRADERS[test], row["completion"], answers[row["id"]])
            saved = graded.loc[tuple(row[key] for key in KEY)]
            for column in ("correct", "answered", "strict", "lenient"):
                assert saved[column] == getattr(grade, column), (path, row)
            rows += 1
    assert rows > 500


def test_gains_and_learnable_shares_follow_from_the_files_of_the_runs(finished_world):
    folder = finished_world.folder / "results"
    accuracy = {  # of sampled completions by file and step
        path: rows[rows.decoding == "sampled"].groupby("step").correct.mean()
        for path in evaluations(finished_world)
        for rows in [pd.read_csv(path)]
    }
    gains = pd.read_csv(folder / "summaries/mini/gains.csv").query("decoding == 'sampled'")
    for row in gains.itertuples():
        run = f"{row.model}/{row.task}/{row.recipe}/{row.policy}/seed0/{row.eval_task}.csv.gz"
        base = accuracy[folder / f"evaluation/{row.model}/base/{row.eval_task}.csv.gz"][0]
        after = accuracy[folder / "evaluation" / run][row.step]
        assert after - base == pytest.approx(row.gain)
    for row in pd.read_csv(folder / "summaries/mini/learnable.csv").itertuples():
        run = f"training/{row.model}/{row.task}/{row.recipe}/{row.policy}/seed0/updates.csv"
        assert pd.read_csv(folder / run).learnable_share.mean() == pytest.approx(row.learnable)
