"""Analyses of published numbers of right answers: CSV and Parquet files, values compared with an
enumeration, claims, and errors in files and configurations."""

import hashlib
import inspect
import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import in_process
import project_config
from conftest import ROOT
from hardgrpo.analysis import count_tables, statistics, summary_tables
from hardgrpo.data import published_counts
from hardgrpo.report import answers, figures, registry
from hardgrpo.runtime.errors import UserError
from published_files import write_csv, write_parquet

CONFIG = project_config.config()


def run(program: str, /, *arguments, **options):
    return in_process.run(ROOT, program, *arguments, **options)


# --- files


def test_shares_become_numbers_of_right_answers_and_a_repeated_question_counts_once(tmp_path):
    first = write_parquet(tmp_path / "first.parquet", [0, 100, 98.4375, 50], ["a", "b", "c", "a"])
    second = write_parquet(tmp_path / "second.parquet", [25, 75], ["b", "d"])
    done = run(
        "count_answers",
        kind="probe_sizes",
        samples=64,
        files=[first, second],
        output=tmp_path / "c.csv",
    )
    assert (
        done.returncode == 0 and "5 prompts with 64 samples each, 1 never solved" in done.stdout
    ), done.stderr
    rows = published_counts.read(tmp_path / "c.csv")
    assert [(row["file"], row["correct"]) for row in rows] == [
        ("first", 64),
        ("first", 0),
        ("first", 1),
        ("second", 48),
        ("second", 16),
    ]
    assert rows[1]["id"] == rows[3]["id"] == hashlib.sha256(b"b").hexdigest()[:16]
    pools = count_tables.pools(rows, 0.5)
    assert {name: [row["correct"] for row in pool] for name, pool in pools.items()} == {
        "all": [64, 0, 1, 16],
        "first": [64, 0, 1],
        "second": [48, 16],
    }
    assert "question" not in (tmp_path / "c.csv").read_text()


def test_shares_before_and_after_training_become_numbers_of_right_answers_for_each_seed(
    tmp_path,
):
    path = write_csv(
        tmp_path / "p.csv", [["7", 5 / 32, 0, 1 / 32, 1], ["x", 1, 31 / 32, 3 / 32, 0]], seeds=3
    )
    rows = published_counts.convert("before_after", [str(path)], 32)
    names = ["id", "correct", "correct_1", "correct_2", "correct_3"]
    assert [[row[name] for name in names] for row in rows] == [
        ["7", 5, 0, 1, 32],
        ["x", 32, 31, 3, 0],
    ]


def test_predicted_pass_rates_choose_the_test_problems_that_they_predict_nearest_to_one_half(
    tmp_path,
):
    published = {"train_actual": [0.5, 0], "test_actual": [1, 0.25, 0.75, 0.5]}
    path = tmp_path / "p.json"
    path.write_text(json.dumps(published | {"test_predictions": [0.5, 1.1, 0.6, -0.2]}))
    options = {"kind": "probe_sizes", "samples": 4, "files": path, "output": tmp_path / "c.csv"}
    done = run("count_answers", **options)
    assert done.returncode == 0, done.stderr
    counts = published_counts.read(tmp_path / "c.csv")
    assert [(row["file"], row["correct"], row["predicted"]) for row in counts] == [
        *(("train", 2, None), ("train", 0, None), ("test", 4, 0.5)),
        *(("test", 1, 1.1), ("test", 3, 0.6), ("test", 2, -0.2)),
    ]
    entry = analysis("probe_sizes", samples=4, probe=2, group=2, budget=0.5)
    rows = count_tables.probe_sizes(counts, entry)
    (row,) = [row for row in rows if row["rule"] == count_tables.PREDICTED]
    assert (row["file"], row["pool"], row["prompts"], row["samples"]) == ("test", 4, 2, 0)
    # of two samples of 4, the pairs of the first prompt are never mixed, those of the third in 3 of 6
    assert (row["mixed"], row["pass_rate"]) == pytest.approx(((0 + 3 / 6) / 2, (1 + 0.75) / 2))


@pytest.mark.parametrize("samples", [8, 32, 64, 128])
def test_every_number_of_right_answers_is_read_from_its_rounded_share(samples):
    for correct in range(samples + 1):
        share = round(correct / samples, 4)
        assert published_counts.count_of(share, samples, "here") == correct
    with pytest.raises(UserError, match="here is .*expected a multiple of 1/"):
        published_counts.count_of(round(1.5 / samples, 4), samples, "here")


# --- originals


# --- samples per prompt


def analysis(kind: str, **changes) -> dict:
    name = {"probe_sizes": "probing", "before_after": "before_after"}[kind]
    return CONFIG["analyses"][name] | changes


def counts_of(correct: list[int], *after: list[int], samples: int) -> list[dict]:
    rows = [
        {"file": "f", "id": f"p{n}", "samples": samples, "correct": c}
        for n, c in enumerate(correct)
    ]
    return [
        row | {f"correct_{seed}": numbers[n] for seed, numbers in enumerate(after, start=1)}
        for n, row in enumerate(rows)
    ]


def test_a_file_that_is_too_small_for_the_budget_is_reported():
    with pytest.raises(
        UserError, match="f: 0.1 x 3 prompts are less than one prompt; raise the budget"
    ):
        count_tables.probe_sizes(
            counts_of([1, 2, 3], samples=8), analysis("probe_sizes", samples=8, probe=2, group=2)
        )


def test_every_table_of_an_analysis_has_the_columns_of_its_rows():
    generator = np.random.default_rng(0)
    correct, *after = (generator.integers(0, 33, 40).tolist() for _ in range(4))
    for kind, tables in registry.COUNT_TABLES.items():
        entry = analysis(kind, samples=32, probe=4)
        for name in tables:
            table = summary_tables.all_tables()[name]
            rows = table.make(counts_of(correct, *after, samples=32), entry)
            assert table.kind == kind
            assert rows and all(list(row.keys() ^ set(table.columns)) == [] for row in rows), name
        for figure in registry.COUNT_FIGURES[kind]:
            assert set(inspect.signature(figures.ALL[figure]).parameters) <= set(tables)


# --- before and after


def enumerate_probes(
    correct: int, after: int, samples: int, probe: int, group: int
) -> dict[int, list]:
    """{c: [(probability, values)]} of one prompt, by enumerating all probes, all sets of
    `samples - probe` samples after training, and all groups. c is the number of right answers in
    the probe."""
    outcomes, outcomes_after = (
        [1] * number + [0] * (samples - number) for number in (correct, after)
    )
    mean_mixed = lambda pool: np.mean(
        [0 < sum(members) < group for members in itertools.combinations(pool, group)]
    )
    remaining_samples = samples - probe
    solved = np.mean(
        [any(members) for members in itertools.combinations(outcomes_after, remaining_samples)]
    )
    by_c: dict[int, list] = {}
    probes = list(itertools.combinations(range(samples), probe))
    for chosen in probes:
        held_out = [outcomes[i] for i in range(samples) if i not in chosen]
        values = {
            "before": np.mean(held_out),
            "gain": after / samples - np.mean(held_out),
            "mixed_before": mean_mixed(held_out),
            "mixed": mean_mixed(outcomes_after),
            "solved_before": float(any(held_out)),
            "solved": solved,
        }
        by_c.setdefault(sum(outcomes[i] for i in chosen), []).append((1 / len(probes), values))
    return by_c


def test_values_of_each_difficulty_class_equal_an_enumeration():
    correct, after = [0, 1, 3, 4, 6], [[1, 0, 5, 6, 6], [0, 2, 3, 5, 6]]
    entry = analysis("before_after", samples=6, probe=3, group=2, budget=0.2)
    rows = {
        row["correct"]: row
        for row in count_tables.difficulty_classes(counts_of(correct, *after, samples=6), entry)
    }
    assert set(rows) == {0, 1, 2, 3}
    for c, row in rows.items():
        cases = [
            case
            for seed in after
            for base, trained in zip(correct, seed)
            for case in enumerate_probes(base, trained, 6, 3, 2).get(c, [])
        ]
        weights = np.array([weight for weight, _ in cases])
        assert row["prompts"] == pytest.approx(weights.sum() / 2)
        for name in cases[0][1]:
            assert row[name] == pytest.approx(
                np.average([values[name] for _, values in cases], weights=weights)
            ), (c, name)


def test_intervals_over_all_prompts_equal_those_of_mean_interval():
    generator = np.random.default_rng(3)
    correct = generator.integers(0, 33, 60)
    after = [np.clip(correct + generator.integers(-3, 12, 60), 0, 32) for _ in range(4)]
    counts = counts_of(correct.tolist(), *(numbers.tolist() for numbers in after), samples=32)
    entry = analysis("before_after")
    data = count_tables.BeforeAfter(counts, entry)
    overall = statistics.mean_interval(data.parts(data.gain, np.ones(17)))
    expected = statistics.mean_interval((np.stack(after) - correct) / 32)
    assert (overall.estimate, overall.low, overall.high) == pytest.approx(
        (expected.estimate, expected.low, expected.high)
    )
    (random,) = [
        row for row in count_tables.choices_after(counts, entry) if row["rule"] == "random"
    ]
    assert (random["gain"], random["gain_low"]) == pytest.approx((expected.estimate, expected.low))
    (pass_at_1, *_, pass_at_32) = [
        row for row in count_tables.pass_at_each_k(counts, entry) if row["seed"] is None
    ]
    assert (pass_at_1["gain"], pass_at_1["gain_high"]) == pytest.approx(
        (expected.estimate, expected.high)
    )
    solved = (np.stack(after) > 0).mean() - (correct > 0).mean()
    assert pass_at_32["k"] == 32 and pass_at_32["gain"] == pytest.approx(solved)
    numbers = count_tables.solved_counts(counts, entry)
    assert np.mean(
        [row["only_after"] - row["only_before"] for row in numbers]
    ) / 60 == pytest.approx(solved)
    assert all(
        row["both"] + row["only_before"] + row["only_after"] + row["never"] == 60 for row in numbers
    )


def test_the_interval_of_a_difficulty_class_is_the_interval_of_a_ratio():
    """Before training, the answers to a prompt are all wrong or all right, so every probe puts the
    prompt into the same class, and the mean of a class is the mean over its prompts."""
    generator = np.random.default_rng(5)
    correct = [0] * 40 + [8] * 60
    after = [[*generator.integers(0, 9, 40).tolist(), *[8] * 60]]
    entry = analysis("before_after", samples=8, probe=4, group=2)
    (row, _) = count_tables.difficulty_classes(counts_of(correct, *after, samples=8), entry)
    gains = np.array(after[0][:40]) / 8
    assert row["gain"] == pytest.approx(gains.mean()) and row["prompts"] == pytest.approx(40)
    half = stats.t.ppf(0.975, 99) * np.sqrt(gains.var() / 40 * 100 / 99)
    assert row["gain_high"] - row["gain"] == pytest.approx(half)


@pytest.mark.parametrize(
    ("after", "seeds", "verdicts"),
    [
        # after training, the hardest prompts are still unsolved and the medium prompts still mixed
        ([0, 12, 32], 5, ["supported", "contradicted"]),
        # after training, the hardest prompts are mixed, and all other prompts are solved
        ([16, 32, 32], 5, ["contradicted", "supported"]),
        ([16, 32, 32], 3, ["undecided: 3 of 5 replicates"] * 2),
    ],
)
def test_claims_are_judged_by_their_tests_and_replicates(after, seeds, verdicts):
    correct = [0] * 40 + [12] * 40 + [32] * 40
    generator = np.random.default_rng(1)
    trained = [
        [
            int(np.clip(n + generator.integers(-1, 2) * (0 < n < 32), 0, 32))
            for n in np.repeat(after, 40)
        ]
        for _ in range(seeds)
    ]
    entry, counts = analysis("before_after"), counts_of(correct, *trained, samples=32)
    tables = {
        name: pd.DataFrame(table.make(counts, entry), columns=table.columns)
        for name, table in summary_tables.all_tables().items()
        if table.kind == "before_after"
    }
    rows = answers.judge(entry, tables)
    assert [row["paper"] for row in rows] == ["LDS", "HE"] and [
        row["verdict"] for row in rows
    ] == verdicts
    assert "| LDS |" in answers.text(entry, tables)


# --- the configuration


# --- the real files


@pytest.mark.recordings
def test_gains_of_a_real_model_equal_an_independent_computation(recordings_folder):
    """The expected values come from an independent computation. They are listed by the number of
    right answers, 0 to 8, among 8 of the 32 samples."""
    path = recordings_folder / "original/unlearnable_set/per_example.csv"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    counts = published_counts.convert("before_after", [str(path)], 32)
    rows = count_tables.difficulty_classes(counts, analysis("before_after", probe=8))
    assert [row["gain"] for row in rows] == pytest.approx(
        [0.092, 0.236, 0.320, 0.354, 0.355, 0.332, 0.287, 0.243, 0.199], abs=5e-4
    )
    assert [row["mixed"] for row in rows] == pytest.approx(
        [0.395, 0.693, 0.700, 0.607, 0.486, 0.367, 0.256, 0.169, 0.106], abs=5e-4
    )


@pytest.mark.recordings
@pytest.mark.parametrize(
    ("model", "expected", "predicted"),
    [
        ("Qwen2.5-Math-7B", {2: 0.937, 4: 0.954, 8: 0.967, 16: 0.977, 0: 0.844}, (0.883, 0.781)),
        ("Qwen2.5-7B", {4: 0.956, 0: 0.762}, (0.957, 0.695)),
        ("Qwen2.5-Math-1.5B-Instruct", {4: 0.810, 0: 0.298}, (0.607, 0.355)),
    ],
)
def test_mixed_groups_of_an_unselected_pool_equal_an_independent_computation(
    recordings_folder, model, expected, predicted
):
    """The expected values come from an independent computation: by the number of samples on the
    training problems (0: a random choice), and by prediction and at random on the test problems."""
    path = recordings_folder / f"original/llms_know_difficulty/{model}.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    counts = published_counts.convert("probe_sizes", [str(path)], 50)
    rows = count_tables.probe_sizes(counts, analysis("probe_sizes", samples=50, probe=16))
    mixed = {(row["file"], row["rule"], row["samples"]): row["mixed"] for row in rows}
    for size, value in expected.items():
        rule = "nearest_half" if size else "random"
        assert mixed["train", rule, size] == pytest.approx(value, abs=5e-4)
    rules = (count_tables.PREDICTED, "random")
    assert [mixed["test", rule, 0] for rule in rules] == pytest.approx(predicted, abs=5e-4)


@pytest.fixture
def recordings_folder():
    import os

    return Path(os.environ["HARDGRPO_DATA"])
