"""Tables of a study, by hand: accuracy by tier, checkpoints that reach the end of another run; and what a study's runs are."""

import copy
import itertools
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from conftest import ROOT, path_of
from hardgrpo.analysis import evaluations, statistics, summaries
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths, settings
from hardgrpo.study.settings import Run

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())


# --- tables from evaluation files ----------------------------------------------------------------------------------

STUDY = {
    "title": "By hand",
    "models": ["m"],
    "tasks": ["t"],
    "policies": ["all", "low"],
    "recipes": ["slow", "fast"],
    "seeds": [0, 1],
    "exclude": [{"recipe": "fast", "policy": "all"}],
}
HAND = {
    "studies": {"hand": STUDY},
    "models": {"m": {"source": {"kind": "folder", "path": "m"}}},
    "tasks": {"t": {"completion_tokens": 8}},
}


def evaluation(folder, path, correct: dict[int, dict[str, list[int]]], tiers: dict[str, object]) -> None:
    """Write an evaluation file: step -> problem -> verdict of each sample."""
    rows = [
        dict.fromkeys(evaluations.COLUMNS)
        | {"step": step, "id": name, "tier": tiers.get(name), "decoding": "sampled", "sample": sample}
        | {"correct": verdict, "answered": 1, "strict": verdict, "lenient": verdict}
        for step, problems in correct.items()
        for name, verdicts in problems.items()
        for sample, verdict in enumerate(verdicts)
    ]
    files.write_rows(folder / path, evaluations.COLUMNS, rows)


def share(a, b, c, d):
    """Two samples of each of four problems: how many are right."""
    return {name: [1] * right + [0] * (2 - right) for name, right in zip("abcd", (a, b, c, d))}


TIERS = {"a": 3, "b": 10, "c": 3, "d": 10}
BASE = {0: share(0, 1, 2, 0)}
RUNS = {  # of 8 completions right: after 10, 20 and 30 updates
    "slow/all/seed0": {10: share(1, 1, 1, 0), 20: share(1, 1, 1, 1), 30: share(2, 1, 2, 1)},  # 3, 4, 6
    "slow/all/seed1": {10: share(0, 0, 1, 1), 20: share(2, 2, 2, 1), 30: share(1, 1, 1, 1)},  # 2, 7, 4
    "slow/low/seed0": {10: share(2, 1, 1, 1), 20: share(2, 0, 1, 0), 30: share(2, 2, 2, 2)},  # 5, 3, 8
    "slow/low/seed1": {10: share(1, 0, 1, 1), 20: share(1, 1, 1, 1), 30: share(1, 0, 2, 1)},  # 3, 4, 4
    "fast/low/seed0": {10: share(0, 0, 0, 0), 20: share(1, 0, 0, 0), 30: share(1, 1, 1, 0)},  # 0, 1, 3
    "fast/low/seed1": {10: share(0, 1, 0, 0), 20: share(1, 0, 0, 1), 30: share(1, 1, 1, 1)},  # 1, 2, 4
}


def cells(folder, tiers=TIERS, runs=RUNS, study=STUDY):
    evaluation(folder, "m/base/t.csv.gz", BASE, tiers)
    for path, correct in runs.items():
        evaluation(folder, f"m/t/{path}/t.csv.gz", correct, tiers)
    return summaries.load_cells(HAND | {"studies": {"hand": study}}, "hand", str(folder))


def test_runs_that_differ_in_the_seed_alone_make_a_cell_and_other_recipes_are_named(tmp_path):
    assert [(cell.policy, len(cell.runs)) for cell in cells(tmp_path)] == [("all", 2), ("low", 2), ("low, fast", 2)]


def test_accuracy_by_tier_by_hand(tmp_path):
    rows = {(row["policy"], row["tier"]): row for row in summaries.tiers(cells(tmp_path))}
    assert list(rows) == [(policy, tier) for policy in ("all", "low", "low, fast") for tier in ("3", "10")], "3 before 10"
    assert {row["step"] for row in rows.values()} == {30}
    # Tier 3 is a and c, tier 10 is b and d; of 4 completions, by seed. The base has 2 and 1 right of each 4.
    base = {"3": 0.5, "10": 0.25}
    assert all(row["base_accuracy"] == base[row["tier"]] and row["problems"] == row["seeds"] == 2 for row in rows.values())
    by_hand = {
        ("all", "3"): (4 + 2) / 8, ("all", "10"): (2 + 2) / 8,
        ("low", "3"): (4 + 3) / 8, ("low", "10"): (4 + 1) / 8,
        ("low, fast", "3"): (2 + 2) / 8, ("low, fast", "10"): (1 + 2) / 8,
    }  # fmt: skip
    for key, accuracy in by_hand.items():
        assert rows[key]["accuracy"] == pytest.approx(accuracy)
        assert rows[key]["gain"] == pytest.approx(accuracy - base[key[1]])
        assert rows[key]["accuracy_low"] <= accuracy <= rows[key]["accuracy_high"]


def test_the_interval_of_a_tier_is_over_its_problems_only(tmp_path):
    (row,) = [r for r in summaries.tiers(cells(tmp_path)) if (r["policy"], r["tier"]) == ("low", "10")]
    # Of b and d, each seed: 1, 1 and 0, 1/2. Means 1 and 1/4 over seeds, 1/2 and 3/4 over problems; residuals 1/8.
    over_seeds, over_problems, interaction = 0.28125 / 2, 0.03125 / 2, 4 * 0.015625 / 4
    half = (12.706204736432095**2 * over_seeds + 12.706204736432095**2 * (over_problems - interaction)) ** 0.5
    assert row["accuracy_high"] - row["accuracy"] == pytest.approx(half, rel=1e-9)


def test_tiers_that_are_words_stand_behind_numbers_and_problems_without_one_are_left_out(tmp_path):
    rows = summaries.tiers(cells(tmp_path, tiers={"a": "hard", "b": 2, "c": "easy"}))
    assert [row["tier"] for row in rows if row["policy"] == "all"] == ["2", "easy", "hard"]
    assert {row["problems"] for row in rows} == {1} and all(row["accuracy_low"] != row["accuracy_low"] for row in rows), "nan"
    assert summaries.tiers(cells(tmp_path / "none", tiers={})) == []


def test_when_a_run_is_as_accurate_as_all_prompts_are_at_the_end_by_hand(tmp_path):
    rows = {row["policy"]: row for row in summaries.reach(cells(tmp_path))}
    assert {row["target"] for row in rows.values()} == {(6 + 4) / 16}
    assert {(row["steps"], row["seeds"]) for row in rows.values()} == {(30, 2)}
    reached = ("step", "step_first", "step_last", "seeds_reached")
    # Means of the two curves, of 16: all 5, 11, 10; low 8, 7, 12; low, fast 1, 3, 7. Of one seed, 5 of 8 are needed.
    assert [rows["all"][name] for name in reached] == [20, 20, 30, 2]
    assert [rows["low"][name] for name in reached] == [30, 10, 10, 1]
    assert [rows["low, fast"][name] for name in reached] == [None, None, None, 0]


def test_without_a_run_on_all_prompts_nothing_is_reached(tmp_path):
    runs = {path: correct for path, correct in RUNS.items() if "/low/" in path}
    assert summaries.reach(cells(tmp_path, runs=runs, study=STUDY | {"policies": ["low"], "exclude": []})) == []


def test_checkpoints_that_only_some_seeds_have_do_not_count(tmp_path):
    runs = copy.deepcopy(RUNS)
    del runs["slow/low/seed0"][30]
    rows = {row["policy"]: row for row in summaries.reach(cells(tmp_path, runs=runs))}
    assert (rows["low"]["steps"], rows["low"]["step"], rows["all"]["steps"]) == (20, None, 30)
    assert {row["step"] for row in summaries.tiers(cells(tmp_path, runs=runs)) if row["policy"] == "low"} == {20}


def test_evaluations_of_other_problems_than_the_base_model_has_are_refused(tmp_path):
    runs = copy.deepcopy(RUNS)
    del runs["slow/low/seed1"][30]["d"]
    with pytest.raises(UserError, match="m/t/low on t: 3 problems at step 30, but 4 for the base model"):
        summaries.tiers(cells(tmp_path, runs=runs))


# --- tests, decomposition, budgets -----------------------------------------------------------------------------------


def test_gains_and_differences_by_hand(tmp_path):
    """Two seeds and four problems: both targets, pooled, the tests and what could be detected are columns of each row."""
    found = cells(tmp_path)
    gains = {row["policy"]: row for row in summaries.gains(found)}
    assert list(gains) == ["all", "low", "low, fast"]
    assert gains["all"]["gain"] == pytest.approx(10 / 16 - 3 / 8)
    for row in gains.values():
        for ends in (("gain_low", "gain_high"), ("gain_low_a", "gain_high_a"), ("gain_low_pooled", "gain_high_pooled")):
            assert row[ends[0]] <= row["gain"] <= row[ends[1]]
    assert len({row["mdd"] for row in gains.values()}) == 1, "what a design can detect is the same for all policies"
    rows = summaries.differences(found)
    assert [(row["policy"], row["minus"]) for row in rows] == [("all", "low"), ("all", "low, fast"), ("low", "low, fast")]
    values = found[0].rates(30) - found[1].rates(30)
    assert rows[0]["p"] == pytest.approx(float(statistics.p_value(statistics.components(values))))
    assert [row["p_holm"] for row in rows] == pytest.approx(list(statistics.holm([row["p"] for row in rows])))
    shared = statistics.shared_noise(found[0].verdicts(30) - found[1].verdicts(30))
    half = (12.706204736432095**2 * statistics.components(values).over_seeds + statistics.Z**2 * shared) ** 0.5
    assert rows[0]["difference_high_a"] - rows[0]["difference"] == pytest.approx(float(half))


def test_one_seed_has_neither_the_other_target_nor_a_pooled_variance(tmp_path):
    runs = {path: correct for path, correct in RUNS.items() if path.endswith("seed0")}
    found = cells(tmp_path, runs=runs, study=STUDY | {"seeds": [0]})
    for row in (*summaries.gains(found), *summaries.differences(found)):
        name = "gain" if "gain" in row else "difference"
        assert row[f"{name}_low"] < row[name] < row[f"{name}_high"] and row["mdd"] > 0, "over problems"
        assert np.isnan([row[f"{name}_{end}"] for end in ("low_a", "high_a", "low_pooled", "high_pooled")]).all()
    assert summaries.mcnemar(found) == [], "two samples a problem are no single verdict"


def test_mcnemar_is_of_single_verdicts_of_the_same_seed(tmp_path):
    single = {path: {30: {name: verdicts[:1] for name, verdicts in steps[30].items()}} for path, steps in RUNS.items()}
    base = {0: {name: verdicts[:1] for name, verdicts in BASE[0].items()}}
    evaluation(tmp_path, "m/base/t.csv.gz", base, TIERS)
    for path, correct in single.items():
        evaluation(tmp_path, f"m/t/{path}/t.csv.gz", correct, TIERS)
    rows = summaries.mcnemar(summaries.load_cells(HAND | {"studies": {"hand": STUDY}}, "hand", str(tmp_path)))
    assert [(row["seed"], row["policy"], row["minus"]) for row in rows if row["seed"] == 0] == [
        (0, "all", "base"), (0, "low", "base"), (0, "low, fast", "base"),
        (0, "all", "low"), (0, "all", "low, fast"), (0, "low", "low, fast"),
    ]  # fmt: skip
    # First samples: base 0 1 1 0, all/seed0 1 1 1 1, so two are right in the run alone.
    first = rows[0]
    assert (first["only_this"], first["only_other"], first["difference"], first["p"]) == (2, 0, 0.5, pytest.approx(0.5))
    assert first["p_holm"] == pytest.approx(1.0) and first["problems"] == 4


@given(st.lists(st.lists(st.integers(0, 2), min_size=24, max_size=24), min_size=2, max_size=2))
@settings_of_hypothesis(max_examples=20)
def test_every_split_adds_up_to_its_gain(tmp_path_factory, outcomes):
    """Strict and lenient, all problems and each tier, mean and every run: finishing + correctness = gain to 1e-12."""
    folder = tmp_path_factory.mktemp("split")

    def write(path, step, draws):  # 0: not answered, 1: answered, 2: right; every other right one only leniently
        rows = [
            dict.fromkeys(evaluations.COLUMNS)
            | {"step": step, "id": f"p{i // 2}", "tier": i // 8, "decoding": "sampled", "sample": i % 2, "tokens": 10 + i}
            | {"answered": int(draw > 0), "lenient": int(draw == 2), "strict": int(draw == 2 and i % 2)}
            | {"correct": int(draw == 2), "truncated": int(draw == 0)}
            for i, draw in enumerate(draws)
        ]
        files.write_rows(folder / path, evaluations.COLUMNS, rows)

    study = STUDY | {"policies": ["all"], "recipes": ["slow"], "exclude": []}
    write("m/base/t.csv.gz", 0, outcomes[0])
    write("m/t/slow/all/seed0/t.csv.gz", 5, outcomes[1])
    write("m/t/slow/all/seed1/t.csv.gz", 5, outcomes[0][::-1])
    found = summaries.load_cells(HAND | {"studies": {"hand": study}}, "hand", str(folder))
    by_group = summaries.decomposition(found)
    assert {(row["tier"], row["grading"]) for row in by_group} == set(
        itertools.product([None, "0", "1", "2"], ["task", "strict", "lenient"])
    )
    for row in [*by_group, *summaries.decomposition_runs(found)]:
        assert abs(row["finishing"] + row["correctness"] - row["gain"]) < 1e-12
        assert row["truncated"] == pytest.approx(1 - row["answered"]) and row["tokens"] >= 10
    (sentence,) = summaries.sentences(by_group)
    assert sentence["sentence"].startswith("In m trained on t, 'all' changes accuracy, by ") and sentence["sentence"].endswith(".")


def updates_of(*lengths):
    """Logs of runs of one task that made as many updates as `lengths` says, of two policies in turn."""
    frames = {}
    for n, length in enumerate(lengths):
        run = Run("m", "t", "slow", ("all", "low")[n % 2], n // 2)
        row = {"prompts": 8.0, "rollouts": 64.0, "tokens_mean": 10.0 + n, "learnable_share": 0.5, "truncated_share": 0.0}
        frames[run] = pd.DataFrame([row | {"step": step + 1} for step in range(length)])
    return frames


def spent(monkeypatch, updates, held_constant):
    monkeypatch.setattr(summaries.recipes, "read_spec", lambda path: SimpleNamespace(completion_tokens=48))
    return summaries.parity(updates, STUDY | {"recipes": ["slow"], "held_constant": held_constant})


def test_budgets_are_told_by_policy(monkeypatch):
    updates = updates_of(3, 3, 3, 3)
    rows = spent(monkeypatch, updates, ["updates", "prompts", "rollouts", "completion_tokens"])
    assert [(row["policy"], row["seed"], row["updates"], row["prompts"], row["rollouts"]) for row in rows] == [
        ("all", 0, 3, 24, 192), ("low", 0, 3, 24, 192), ("all", 1, 3, 24, 192), ("low", 1, 3, 24, 192),
    ]  # fmt: skip
    seconds = {("m", "t", row["policy"], row["seed"]): 10.0 + row["seed"] for row in rows}
    every, low = summaries.budgets(rows, seconds)
    assert (every["policy"], every["tokens"], every["tokens_least"], every["tokens_most"]) == ("all", 192 * 11, 192 * 10, 192 * 12)
    assert (low["seconds"], low["seconds_least"], low["seconds_most"], low["seeds"]) == (10.5, 10.0, 11.0, 2)
    assert summaries.budgets([], {}) == []


def test_what_is_held_constant_and_differs_stops_the_summary_with_both_numbers(monkeypatch):
    with pytest.raises(UserError) as stopped:
        spent(monkeypatch, updates_of(3, 3, 3, 2), ["prompts"])
    assert str(stopped.value) == (
        "m/t: the study holds prompts constant, but all/seed0 has 24 and low/seed1 has 16;"
        " train the runs with one recipe or take it out of held_constant"
    )
    assert len(spent(monkeypatch, updates_of(3, 3, 3, 2), ["completion_tokens"])) == 4, "what is not held constant may differ"


def test_wall_time_is_read_from_beside_the_updates_and_may_be_gone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    updates = updates_of(2, 2)
    one, other = updates
    files.write_rows(
        f"results/training/{one.path}/timing.csv", ["step", "seconds"], [{"step": 1, "seconds": 1.5}, {"step": 2, "seconds": 2}]
    )
    seconds = summaries.read_seconds(updates, STUDY)
    assert seconds["m", "t", "all", 0] == 3.5 and np.isnan(seconds["m", "t", "low", 0])


def test_gain_against_learnable_share_length_and_both(tmp_path):
    policies = ["a", "b", "c", "d", "e", "f"]
    learned, tokens = [0.1, 0.3, 0.2, 0.6, 0.5, 0.4], [50.0, 45, 48, 30, 41, 33]
    key = lambda policy, test="t": {"model": "m", "task": "t", "eval_task": test, "policy": policy}
    gains = [key(p) | {"decoding": "sampled", "step": 30, "gain": 0.5 - 0.01 * n} for p, n in zip(policies, tokens)]
    gains += [
        key("a", "other") | {"decoding": "sampled", "step": 30, "gain": 9.0},
        key("a") | {"decoding": "greedy", "step": 30, "gain": 9.0},
    ]
    shares = [{"model": "m", "task": "t", "policy": p, "learnable": share} for p, share in zip(policies, learned)]
    lengths = [key(p) | {"decoding": "sampled", "step": 30, "tokens_mean": n} for p, n in zip(policies, tokens)]
    rows = {(row["task"], row["predictor"], row["adjusted_for"]): row for row in summaries.regressions(gains, shares, lengths)}
    assert len(rows) == 2 * 5 and {row["cells"] for row in rows.values()} == {6}
    assert rows["all", "tokens", None]["r_squared"] == pytest.approx(1)
    assert rows["t", "tokens", "learnable"]["slope"] == pytest.approx(-0.01)
    assert rows["t", "learnable", "tokens"]["slope"] == pytest.approx(0, abs=1e-9), "length explains all of it"
    assert rows["t", "learnable", None]["r_squared"] == pytest.approx(summaries.fit(gains, shares)[0]["r_squared"])
    unknown = [row | {"tokens_mean": np.nan} for row in lengths]
    assert summaries.regressions(gains, shares, unknown) == []


# --- which runs a study has ----------------------------------------------------------------------------------------


def study_of(name, **changes):
    return copy.deepcopy(CONFIG["studies"][name]) | changes


def test_runs_are_all_combinations_without_those_excluded():
    study = study_of("truncation")
    runs = settings.runs(CONFIG, study)
    combinations = {
        Run("qwen3-4b", task, recipe, policy, seed)
        for task in study["tasks"]
        for recipe in study["recipes"]
        for policy in study["policies"]
        for seed in study["seeds"]
        if recipe == "as_written" or task == "gsm8k"
    }
    assert len(runs) == 36 and set(runs) == combinations


def test_a_pair_that_is_excluded_has_no_runs_no_subsets_and_is_not_tested():
    runs = settings.runs(CONFIG, study_of("paper"))
    assert not [run for run in runs if (run.model, run.task) == ("llama-3.1-8b-instruct", "shuffled_objects")]
    assert len(runs) == 7 * 4 * 3
    files_of = paths.subsets(CONFIG, "paper") + paths.evaluations(CONFIG, "paper") + paths.difficulties(CONFIG, "paper")
    assert not [path for path in files_of if "llama-3.1-8b-instruct/shuffled_objects" in path]


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        ({"policy": "easy"}, {("one", "hard"), ("two", "hard")}),
        ({"recipe": "two"}, {("one", "hard"), ("one", "easy")}),
        ({"recipe": "two", "policy": ["easy", "random"]}, {("one", "hard"), ("one", "easy"), ("two", "hard")}),
        ({"recipe": "two", "task": "arithmetic"}, {("one", "hard"), ("one", "easy"), ("two", "hard"), ("two", "easy")}),
        ({"tested_on": "swaps_hard"}, {("one", "hard"), ("one", "easy"), ("two", "hard"), ("two", "easy")}),
        ({"model": ["tiny"]}, set()),
    ],
)
def test_an_entry_of_exclude_takes_out_what_matches_all_of_it(entry, left):
    study = study_of("mini", tasks=["swaps"], policies=["hard", "easy"], recipes=["one", "two"], seeds=[0], exclude=[entry])
    assert {(run.recipe, run.policy) for run in settings.runs(CONFIG, study)} == left


def test_several_entries_of_exclude_each_take_something_out():
    study = {"exclude": [{"model": "a", "task": ["s", "t"]}, {"policy": "easy"}]}
    assert settings.is_excluded(study, model="a", task="t") and settings.is_excluded(study, model="b", task="t", policy="easy")
    assert not settings.is_excluded(study, model="b", task="t") and not settings.is_excluded(study, model="a", task="u")
    assert not settings.is_excluded(study, "t", model="a", task="t"), "what says nothing of tests leaves tests alone"
    assert not settings.is_excluded({}, model="a")


def test_tests_are_the_task_itself_and_others_that_are_not_excluded():
    study = study_of("paper")
    assert settings.eval_tasks(study, "gsm8k", "qwen3-4b") == ["gsm8k", "aime2025"]
    for model in ("qwen3-14b", "phi-4", "llama-3.1-8b-instruct"):
        assert settings.eval_tasks(study, "gsm8k", model) == ["gsm8k"]
    assert settings.eval_tasks(study, "shuffled_objects", "qwen3-4b") == ["shuffled_objects"]
    tested = [path for path in paths.evaluations(CONFIG, "paper") if path.endswith("/aime2025.csv.gz")]
    assert len(tested) == 1 + 4 * 3 and all(path.startswith("results/evaluation/qwen3-4b/") for path in tested)
    assert settings.eval_tasks(study_of("limits"), "math", "qwen2.5-3b-instruct") == ["math", "gsm8k_1024", "math_numeric"]


def test_arms_are_named_after_policies_and_after_recipes_that_are_not_the_first():
    study = {"recipes": ["as_written", "finish_only"]}
    named = {recipe: settings.arm(study, Run("m", "t", recipe, "hard", 0)) for recipe in ("as_written", "finish_only", "recorded")}
    assert named == {"as_written": "hard", "finish_only": "hard, finish_only", "recorded": "hard"}
    assert settings.arm({}, Run("m", "t", "recorded", "all", 0)) == "all", "recordings name no recipes"
    for name, plan in CONFIG["studies"].items():
        runs = settings.runs(CONFIG, plan)
        assert len({(run.model, run.task, settings.arm(plan, run), run.seed) for run in runs}) == len(runs), name


def test_a_recorded_model_has_the_runs_that_were_recorded():
    study = CONFIG["studies"]["recordings"]
    assert settings.runs(CONFIG, study) == [
        Run("qwen3-4b-recorded", "shuffled_objects_seven", "recorded", "all", 0),
        Run("qwen3-4b-recorded", "shuffled_objects_seven", "recorded", "hard30", 0),
        Run("qwen3-14b-recorded", "gsm8k_hard_test", "recorded", "unknown_subset", 0),
        Run("qwen3-14b-recorded", "gsm8k_hard_test_strict", "recorded", "unknown_subset", 0),
    ]


# --- subsets by tier, by program -----------------------------------------------------------------------------------


def select(folder, tiers, policy, table=None):
    rows = [{"id": f"p{n}", "tier": tier, "pass_rate": n / 10} for n, tier in enumerate(tiers)]
    files.write_rows(folder / "D.csv", ["id", "tier", "pass_rate"], rows)
    if table is not None:
        (folder / "D.csv").write_text(table)
    command = [sys.executable, path_of("select_subset"), "--difficulty", "D.csv", "--policy", json.dumps(policy)]
    return subprocess.run([*command, "--seed", "0", "--output", "S.csv"], cwd=folder, capture_output=True, text=True, check=False)


def test_low_tiers_are_chosen_by_number(tmp_path):
    done = select(tmp_path, [1, 2.0, "10", None, 3], {"rule": "low_tiers", "highest_tier": 3})
    assert done.returncode == 0, done.stderr
    rows = files.read_rows(tmp_path / "S.csv", {"id": str, "pass_rate": float, "rank": int})
    assert [(row["id"], row["pass_rate"], row["rank"]) for row in rows] == [("p0", 0.0, 1), ("p1", 0.1, 2), ("p4", 0.4, 3)]
    facts = files.read_json(tmp_path / "S.json")
    assert (facts["pool"], facts["prompts"], facts["tied"], facts["measured_by"]) == (5, 3, 0, "reference")


@pytest.mark.parametrize(
    ("tiers", "policy", "words"),
    [
        ([1, "easy", 3], {"rule": "low_tiers", "highest_tier": 3}, "D.csv: row 3: column 'tier' is 'easy', expected float"),
        ([None, None], {"rule": "low_tiers_matched", "highest_tier": 3}, "D.csv: policy rule low_tiers_matched: the problems have no tiers"),
        ([4, 5], {"rule": "low_tiers", "highest_tier": 3}, "D.csv: policy rule low_tiers: the subset would be empty (no tier is 3 or lower)"),
        ([1, 2], {"rule": "low_tiers"}, "D.csv: policy rule low_tiers: highest_tier is missing"),
        ([1, 2], {"rule": "low_tiers", "highest": 3}, "--policy: expected rule, and budget, threshold or highest_tier; found rule, highest"),
        ([1, 2], {"rule": "low_teirs"}, "--policy: unknown rule 'low_teirs'; expected one of hard,"),
        ([1, 2], "low_tiers", "--policy: expected rule, and budget"),
    ],
)  # fmt: skip
def test_a_choice_by_tier_that_cannot_be_made_is_one_line(tmp_path, tiers, policy, words):
    done = select(tmp_path, tiers, policy)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"error: {words}")
    assert not (tmp_path / "S.csv").exists() and not (tmp_path / "S.json").exists()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("id,pass_rate\na,0.1\nb,0.2\na,0.3\n", "D.csv: row 4: id 'a' is empty or stands there twice"),
        ("id,pass_rate\na,0.1\n,0.2\n", "D.csv: row 3: id '' is empty or stands there twice"),
        ("id,pass_rate\na,0.1\nb,1.2\n", "D.csv: row 3: pass_rate is 1.2, expected a share in 0..1"),
        ("id,pass_rate\na,0.1\nb,\n", "D.csv: row 3: pass_rate is None, expected a share in 0..1"),
        ("id,rate\na,0.1\n", "D.csv: column 'pass_rate' is missing"),
    ],
)
def test_a_table_of_difficulties_that_is_wrong_is_named_with_its_row(tmp_path, table, words):
    done = select(tmp_path, [], {"rule": "random", "budget": 1}, table)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"error: {words}") and not (tmp_path / "S.csv").exists()


def test_tiers_that_are_words_do_not_disturb_a_choice_by_pass_rate(tmp_path):
    done = select(tmp_path, ["easy", "hard", None, "?"], {"rule": "hard", "budget": 0.5})
    assert done.returncode == 0, done.stderr
    assert [row["id"] for row in files.read_rows(tmp_path / "S.csv", {"id": str})] == ["p0", "p1"]
