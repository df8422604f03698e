"""Analyses of published numbers of right answers: CSV, JSON and Parquet files, values compared with
an enumeration, and claims."""

import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import in_process
import project_config
from conftest import ROOT
from hardgrpo.analysis import count_tables, summary_tables
from hardgrpo.data import published_counts
from hardgrpo.report import answers
from hardgrpo.runtime.errors import UserError
from published_files import write_csv, write_parquet

CONFIG = project_config.config()

# --- files


def count_answers(folder: Path, samples: int, *paths: Path) -> tuple[str, list[dict]]:
    """(what the program prints, the rows that it writes)."""
    output = folder / "c.csv"
    options = {"kind": "probe_sizes", "samples": samples, "files": list(paths), "output": output}
    done = in_process.run(ROOT, "count_answers", **options)
    assert done.returncode == 0, done.stderr
    return done.stdout, published_counts.read(output)


def test_shares_become_numbers_of_right_answers_and_a_repeated_question_counts_once(tmp_path):
    first = write_parquet(tmp_path / "first.parquet", [0, 100, 98.4375, 50], ["a", "b", "c", "a"])
    second = write_parquet(tmp_path / "second.parquet", [25, 75], ["b", "d"])
    printed, rows = count_answers(tmp_path, 64, first, second)
    assert "5 prompts with 64 samples each, 1 never solved" in printed
    counts = [("first", 64), ("first", 0), ("first", 1), ("second", 48), ("second", 16)]
    assert [(row["file"], row["correct"]) for row in rows] == counts
    assert rows[1]["id"] == rows[3]["id"] == hashlib.sha256(b"b").hexdigest()[:16]
    pools = count_tables.pools(rows, 0.5)
    assert {name: [row["correct"] for row in pool] for name, pool in pools.items()} == {
        "all": [64, 0, 1, 16],
        "first": [64, 0, 1],
        "second": [48, 16],
    }
    assert "question" not in (tmp_path / "c.csv").read_text()


def test_shares_before_and_after_training_become_numbers_of_right_answers_for_each_seed(tmp_path):
    shares = [["7", 5 / 32, 0, 1 / 32, 1], ["x", 1, 31 / 32, 3 / 32, 0]]
    path = write_csv(tmp_path / "p.csv", shares, seeds=3)
    rows = published_counts.convert("before_after", [str(path)], 32)
    names = ["id", "correct", "correct_1", "correct_2", "correct_3"]
    counts = [["7", 5, 0, 1, 32], ["x", 32, 31, 3, 0]]
    assert [[row[name] for name in names] for row in rows] == counts


def test_predicted_pass_rates_choose_the_problems_that_they_predict_nearest_to_one_half(tmp_path):
    published = {"train_actual": [0.5, 0], "test_actual": [1, 0.25, 0.75, 0.5]}
    published["test_predictions"] = [0.5, 1.1, 0.6, -0.2]
    (tmp_path / "p.json").write_text(json.dumps(published))
    _, counts = count_answers(tmp_path, 4, tmp_path / "p.json")
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


@pytest.mark.parametrize("samples", [8, 128])
def test_every_number_of_right_answers_is_read_from_its_rounded_share(samples):
    for correct in range(samples + 1):
        share = round(correct / samples, 4)
        assert published_counts.count_of(share, samples, "here") == correct
    with pytest.raises(UserError, match="here is .*expected a multiple of 1/"):
        published_counts.count_of(round(1.5 / samples, 4), samples, "here")


# --- tables


def analysis(kind: str, **changes) -> dict:
    name = {"probe_sizes": "probing", "before_after": "before_after"}[kind]
    return CONFIG["analyses"][name] | changes


def counts_of(correct, *after, samples: int) -> list[dict]:
    columns = {"correct": correct} | {f"correct_{seed}": n for seed, n in enumerate(after, 1)}
    frame = pd.DataFrame(columns).assign(file="f", samples=samples)
    return frame.assign(id=[f"p{n}" for n in frame.index]).to_dict("records")


def test_a_file_that_is_too_small_for_the_budget_is_reported():
    words = "f: 0.1 x 3 prompts are less than one prompt; raise the budget"
    entry = analysis("probe_sizes", samples=8, probe=2, group=2)
    with pytest.raises(UserError, match=words):
        count_tables.probe_sizes(counts_of([1, 2, 3], samples=8), entry)


def enumerate_probes(
    correct: int, after: int, samples: int, probe: int, group: int
) -> dict[int, list]:
    """{c: [(probability, values)]} of one prompt, by enumerating all probes, all sets of
    `samples - probe` samples after training, and all groups. c is the number of right answers in
    the probe."""
    outcomes, outcomes_after = ([1] * n + [0] * (samples - n) for n in (correct, after))
    mixed = lambda pool: np.mean(
        [0 < sum(members) < group for members in itertools.combinations(pool, group)]
    )
    solved = np.mean(list(map(any, itertools.combinations(outcomes_after, samples - probe))))
    by_c: dict[int, list] = {}
    probes = list(itertools.combinations(range(samples), probe))
    for chosen in probes:
        held_out = [outcomes[i] for i in range(samples) if i not in chosen]
        values = {"before": np.mean(held_out), "gain": after / samples - np.mean(held_out)}
        values |= {"mixed_before": mixed(held_out), "mixed": mixed(outcomes_after)}
        values |= {"solved_before": float(any(held_out)), "solved": solved}
        by_c.setdefault(sum(outcomes[i] for i in chosen), []).append((1 / len(probes), values))
    return by_c


def test_values_of_each_difficulty_class_equal_an_enumeration():
    correct, after = [0, 1, 3, 4, 6], [[1, 0, 5, 6, 6], [0, 2, 3, 5, 6]]
    entry = analysis("before_after", samples=6, probe=3, group=2, budget=0.2)
    rows = count_tables.difficulty_classes(counts_of(correct, *after, samples=6), entry)
    assert [row["correct"] for row in rows] == [0, 1, 2, 3]
    for c, row in enumerate(rows):
        cases = [
            case
            for seed in after
            for before, trained in zip(correct, seed)
            for case in enumerate_probes(before, trained, 6, 3, 2).get(c, [])
        ]
        weights, values = zip(*cases)
        assert row["prompts"] == pytest.approx(sum(weights) / 2)
        expected = {n: np.average([v[n] for v in values], weights=weights) for n in values[0]}
        assert {name: row[name] for name in expected} == pytest.approx(expected)


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
    means = np.repeat(after, 40)
    noise = np.random.default_rng(1).integers(-1, 2, (seeds, 120))
    trained = np.clip(means + noise * ((means > 0) & (means < 32)), 0, 32)
    entry = analysis("before_after")
    counts = counts_of(np.repeat([0, 12, 32], 40), *trained, samples=32)
    tables = {
        name: pd.DataFrame(table.make(counts, entry), columns=table.columns)
        for name, table in summary_tables.all_tables().items()
        if table.kind == "before_after"
    }
    rows = [(row["paper"], row["verdict"]) for row in answers.judge(entry, tables)]
    assert rows == list(zip(("LDS", "HE"), verdicts))
    assert "| LDS |" in answers.text(entry, tables)
