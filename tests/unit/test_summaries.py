"""Summary tables compared with values computed by hand: accuracy, gains, the split of gains, costs,
and predictors of gains."""

import contextlib
import copy
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

import project_config
from hardgrpo.analysis import completions, regressions, statistics, training
from hardgrpo.analysis.cells import load_cells
from hardgrpo.data import evaluations
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study.study import Run, Study

# --- tables from evaluation files

STUDY = {
    "title": "By hand",
    "models": ["m"],
    "tasks": ["t"],
    "arms": [{"policy": ["all", "low"], "recipe": "slow"}, {"policy": "low", "recipe": "fast"}],
    "seeds": [0, 1],
}
HAND = {
    "studies": {"hand": STUDY},
    "models": {"m": {"source": {"kind": "folder", "path": "m"}}},
    "tasks": {"t": {"completion_tokens": 8, "test": {}}},
}


def load(folder, config: dict):
    """The cells of study `hand`, whose results are in `folder`."""
    with contextlib.chdir(folder):
        return load_cells(project_config.study(config, "hand"))


def evaluation(
    folder, path, correct: dict[int, dict[str, list[int]]], tiers: dict[str, object]
) -> None:
    """Write an evaluation file. `correct` is {step: {problem: grade of each sample}}."""
    rows = [
        dict.fromkeys(evaluations.COLUMNS)
        | {
            "step": step,
            "id": name,
            "tier": tiers.get(name),
            "decoding": "sampled",
            "sample": sample,
        }
        | {"correct": grade, "answered": 1, "strict": grade, "lenient": grade, "undecided": 0}
        for step, problems in correct.items()
        for name, grades in problems.items()
        for sample, grade in enumerate(grades)
    ]
    files.write_rows(folder / "results/evaluation" / path, evaluations.COLUMNS, rows)


def share(a, b, c, d):
    """The grades of two samples for each of four problems. `a` to `d` are the numbers of correct
    samples."""
    return {name: [1] * right + [0] * (2 - right) for name, right in zip("abcd", (a, b, c, d))}


TIERS = {"a": 3, "b": 10, "c": 3, "d": 10}
BASE = {0: share(0, 1, 2, 0)}
RUNS = {  # Each comment: how many of 8 completions are correct after 10, 20 and 30 updates.
    # 3, 4, 6
    "slow/all/seed0": {10: share(1, 1, 1, 0), 20: share(1, 1, 1, 1), 30: share(2, 1, 2, 1)},
    # 2, 7, 4
    "slow/all/seed1": {10: share(0, 0, 1, 1), 20: share(2, 2, 2, 1), 30: share(1, 1, 1, 1)},
    # 5, 3, 8
    "slow/low/seed0": {10: share(2, 1, 1, 1), 20: share(2, 0, 1, 0), 30: share(2, 2, 2, 2)},
    # 3, 4, 4
    "slow/low/seed1": {10: share(1, 0, 1, 1), 20: share(1, 1, 1, 1), 30: share(1, 0, 2, 1)},
    # 0, 1, 3
    "fast/low/seed0": {10: share(0, 0, 0, 0), 20: share(1, 0, 0, 0), 30: share(1, 1, 1, 0)},
    # 1, 2, 4
    "fast/low/seed1": {10: share(0, 1, 0, 0), 20: share(1, 0, 0, 1), 30: share(1, 1, 1, 1)},
}


def cells(folder, tiers=TIERS, runs=RUNS, study=STUDY):
    evaluation(folder, "m/base/t.csv.gz", BASE, tiers)
    for path, correct in runs.items():
        evaluation(folder, f"m/t/{path}/t.csv.gz", correct, tiers)
    return load(folder, HAND | {"studies": {"hand": study}})


def test_runs_that_differ_only_in_the_seed_make_a_cell_and_each_recipe_makes_its_own(tmp_path):
    assert [(*cell.arm, len(cell.runs)) for cell in cells(tmp_path)] == [
        ("all", "slow", 2),
        ("low", "slow", 2),
        ("low", "fast", 2),
    ]


def test_accuracy_by_tier_by_hand(tmp_path):
    rows = {
        (row["policy"], row["recipe"], row["tier"]): row
        for row in completions.tiers(cells(tmp_path))
    }
    assert list(rows) == [
        (*arm, tier)
        for arm in (("all", "slow"), ("low", "slow"), ("low", "fast"))
        for tier in ("3", "10")
    ], "tier 3 must come before tier 10"
    assert {row["step"] for row in rows.values()} == {30}
    # Problems a and c have tier 3, problems b and d tier 10. The base model has 4 completions in
    # each tier; 2 are correct in tier 3, and 1 in tier 10.
    base = {"3": 0.5, "10": 0.25}
    assert all(
        row["base_accuracy"] == base[row["tier"]] and row["problems"] == row["seeds"] == 2
        for row in rows.values()
    )
    by_hand = {
        ("all", "slow", "3"): (4 + 2) / 8, ("all", "slow", "10"): (2 + 2) / 8,
        ("low", "slow", "3"): (4 + 3) / 8, ("low", "slow", "10"): (4 + 1) / 8,
        ("low", "fast", "3"): (2 + 2) / 8, ("low", "fast", "10"): (1 + 2) / 8,
    }  # fmt: skip
    for key, by in by_hand.items():
        assert rows[key]["accuracy"] == pytest.approx(by)
        assert rows[key]["gain"] == pytest.approx(by - base[key[2]])
        assert rows[key]["accuracy_low"] <= by <= rows[key]["accuracy_high"]


def test_the_interval_of_a_tier_uses_only_problems_of_this_tier(tmp_path):
    (row,) = [
        r
        for r in completions.tiers(cells(tmp_path))
        if (r["policy"], r["recipe"], r["tier"]) == ("low", "slow", "10")
    ]
    # The accuracies on b and d are 1 and 1 for one seed, 0 and 1/2 for the other. The means of the
    # seeds are 1 and 1/4, those of the problems 1/2 and 3/4. Each residual is
    # 1/8 or -1/8.
    over_seeds, over_problems, interaction = 0.28125 / 2, 0.03125 / 2, 4 * 0.015625 / 4
    half = (
        12.706204736432095**2 * over_seeds + 12.706204736432095**2 * (over_problems - interaction)
    ) ** 0.5
    assert row["accuracy_high"] - row["accuracy"] == pytest.approx(half, rel=1e-9)


def test_tiers_that_are_words_follow_numbers_and_problems_without_a_tier_are_left_out(tmp_path):
    rows = completions.tiers(cells(tmp_path, tiers={"a": "hard", "b": 2, "c": "easy"}))
    assert [row["tier"] for row in rows if row["policy"] == "all"] == ["2", "easy", "hard"]
    assert {row["problems"] for row in rows} == {1} and all(
        row["accuracy_low"] != row["accuracy_low"] for row in rows
    ), "a single problem must give an interval of nan"
    assert completions.tiers(cells(tmp_path / "none", tiers={})) == []


def test_steps_until_an_arm_reaches_the_final_accuracy_of_policy_all_by_hand(tmp_path):
    rows = {(row["policy"], row["recipe"]): row for row in completions.catches_up(cells(tmp_path))}
    assert {row["target"] for row in rows.values()} == {(6 + 4) / 16}
    assert {(row["steps"], row["seeds"]) for row in rows.values()} == {(30, 2)}
    reached = ("step", "step_first", "step_last", "seeds_reached")
    # Correct completions of 16 over both seeds, after 10, 20 and 30 updates: (all, slow) 5, 11, 10;
    # (low, slow) 8, 7, 12; (low, fast) 1, 3, 7. The target is 10 of 16, or 5 of 8 for a single
    # seed.
    assert [rows["all", "slow"][name] for name in reached] == [20, 20, 30, 2]
    assert [rows["low", "slow"][name] for name in reached] == [30, 10, 10, 1]
    assert [rows["low", "fast"][name] for name in reached] == [None, None, None, 0]


def test_without_a_run_on_all_prompts_the_table_of_steps_is_empty(tmp_path):
    runs = {path: correct for path, correct in RUNS.items() if "/low/" in path}
    assert (
        completions.catches_up(
            cells(
                tmp_path,
                runs=runs,
                study=STUDY | {"arms": [{"policy": "low", "recipe": ["slow", "fast"]}]},
            )
        )
        == []
    )


def test_a_target_that_is_not_above_the_base_model_is_not_reached(tmp_path):
    """All arms lose accuracy."""
    losing = {path: dict.fromkeys(steps, share(0, 0, 0, 0)) for path, steps in RUNS.items()}
    assert completions.catches_up(cells(tmp_path, runs=losing)) == []


def test_checkpoints_that_only_some_seeds_have_do_not_count(tmp_path):
    runs = copy.deepcopy(RUNS)
    del runs["slow/low/seed0"][30]
    rows = {
        (row["policy"], row["recipe"]): row
        for row in completions.catches_up(cells(tmp_path, runs=runs))
    }
    low, every = rows["low", "slow"], rows["all", "slow"]
    assert (low["steps"], low["step"], every["steps"]) == (20, None, 30)
    assert {
        row["step"]
        for row in completions.tiers(cells(tmp_path, runs=runs))
        if (row["policy"], row["recipe"]) == ("low", "slow")
    } == {20}


def test_a_run_that_is_evaluated_on_fewer_problems_than_the_base_model_is_refused(tmp_path):
    runs = copy.deepcopy(RUNS)
    del runs["slow/low/seed1"][30]["d"]
    with pytest.raises(
        UserError,
        match=r"m/t/slow/low on t: the problems at step 30 \(3\) are not those of the base model \(4\)",
    ):
        completions.tiers(cells(tmp_path, runs=runs))


# --- tests, decomposition, what was spent


def test_gains_and_differences_by_hand(tmp_path):
    """Two seeds and four problems. Each row has columns for the intervals of targets A and B, for
    the interval from the pooled variance and for the detectable difference. A row of a difference
    also has p-values."""
    loaded_cells = cells(tmp_path)
    gained = {(row["policy"], row["recipe"]): row for row in completions.gains(loaded_cells)}
    assert list(gained) == [("all", "slow"), ("low", "slow"), ("low", "fast")]
    assert gained["all", "slow"]["gain"] == pytest.approx(10 / 16 - 3 / 8)
    for row in gained.values():
        for ends in (
            ("gain_low", "gain_high"),
            ("gain_low_a", "gain_high_a"),
            ("gain_low_pooled", "gain_high_pooled"),
        ):
            assert row[ends[0]] <= row["gain"] <= row[ends[1]]
    assert len({row["mdd"] for row in gained.values()}) == 1, (
        "the smallest detectable difference must be the same for all policies"
    )
    rows = completions.differences(loaded_cells)
    # The arms (all, slow) and (low, fast) differ in both policy and recipe, so their difference
    # would answer no question.
    assert [(row["policy"], row["recipe"], row["minus"], row["minus_recipe"]) for row in rows] == [
        ("all", "slow", "low", "slow"), ("low", "slow", "low", "fast")
    ]  # fmt: skip
    values = loaded_cells[0].rates(30) - loaded_cells[1].rates(30)
    assert rows[0]["p"] == pytest.approx(float(statistics.p_value(statistics.components(values))))
    shared = statistics.shared_noise(loaded_cells[0].grades(30) - loaded_cells[1].grades(30))
    half = (
        12.706204736432095**2 * statistics.components(values).over_seeds + statistics.Z**2 * shared
    ) ** 0.5
    assert rows[0]["difference_high_a"] - rows[0]["difference"] == pytest.approx(float(half))


def test_one_seed_gives_no_interval_for_target_a_and_none_from_a_pooled_variance(tmp_path):
    runs = {path: correct for path, correct in RUNS.items() if path.endswith("seed0")}
    loaded_cells = cells(tmp_path, runs=runs, study=STUDY | {"seeds": [0]})
    for row in (
        *completions.gains(loaded_cells),
        *completions.differences(loaded_cells),
    ):
        name = "gain" if "gain" in row else "difference"
        assert row[f"{name}_low"] < row[name] < row[f"{name}_high"] and row["mdd"] > 0, (
            "one seed must give an interval over problems"
        )
        assert np.isnan(
            [row[f"{name}_{end}"] for end in ("low_a", "high_a", "low_pooled", "high_pooled")]
        ).all()
    assert completions.mcnemar(loaded_cells) == [], (
        "McNemar's test needs one sample per problem, and these runs have two"
    )


def test_mcnemar_compares_single_grades_of_the_same_seed(tmp_path):
    single = {
        path: {30: {name: grades[:1] for name, grades in steps[30].items()}}
        for path, steps in RUNS.items()
    }
    base = {0: {name: grades[:1] for name, grades in BASE[0].items()}}
    evaluation(tmp_path, "m/base/t.csv.gz", base, TIERS)
    for path, correct in single.items():
        evaluation(tmp_path, f"m/t/{path}/t.csv.gz", correct, TIERS)
    rows = completions.mcnemar(load(tmp_path, HAND | {"studies": {"hand": STUDY}}))
    assert [(row["policy"], row["recipe"], row["minus"], row["minus_recipe"]) for row in rows if row["seed"] == 0] == [
        ("all", "slow", "base", ""), ("low", "slow", "base", ""), ("low", "fast", "base", ""),
        ("all", "slow", "low", "slow"), ("low", "slow", "low", "fast"),
    ]  # fmt: skip
    # Grades of the first samples are 0 1 1 0 for the base model and 1 1 1 1 for all/seed0, so two
    # problems are correct only after the run.
    first_row = rows[0]
    assert (
        first_row["only_this"],
        first_row["only_other"],
        first_row["difference"],
        first_row["p"],
    ) == (
        2,
        0,
        0.5,
        pytest.approx(0.5),
    )
    assert first_row["p_holm"] == pytest.approx(1.0) and first_row["problems"] == 4


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(0, 2), min_size=24, max_size=24), min_size=2, max_size=2))
@settings_of_hypothesis(max_examples=20)
def test_every_split_adds_up_to_its_gain(tmp_path_factory, outcomes):
    """finishing + correctness = gain to 1e-12: under each grading (the task's, strict, lenient),
    for all problems and for each tier, for the mean over runs and for each run."""
    folder = tmp_path_factory.mktemp("split")

    # `draws` of two samples per problem: 0 is not answered, 1 is answered, 2 is correct. Strict
    # grading counts the first sample of a problem as wrong.
    def write(path, step, draws):
        rows = [
            dict.fromkeys(evaluations.COLUMNS)
            | {
                "step": step,
                "id": f"p{i // 2}",
                "tier": i // 8,
                "decoding": "sampled",
                "sample": i % 2,
                "tokens": 10 + i,
            }
            | {
                "answered": int(draw > 0),
                "lenient": int(draw == 2),
                "strict": int(draw == 2 and i % 2),
                "undecided": 0,
            }
            | {"correct": int(draw == 2), "truncated": int(draw == 0)}
            for i, draw in enumerate(draws)
        ]
        files.write_rows(folder / "results/evaluation" / path, evaluations.COLUMNS, rows)

    study = STUDY | {"arms": [{"policy": "all", "recipe": "slow"}]}
    write("m/base/t.csv.gz", 0, outcomes[0])
    write("m/t/slow/all/seed0/t.csv.gz", 5, outcomes[1])
    write("m/t/slow/all/seed1/t.csv.gz", 5, outcomes[0][::-1])
    loaded_cells = load(folder, HAND | {"studies": {"hand": study}})
    by_grading = completions.decomposition(loaded_cells)
    assert [row["grading"] for row in by_grading] == ["task", "strict", "lenient"]
    for row in [*by_grading, *completions.decomposition_runs(loaded_cells)]:
        assert abs(row["finishing"] + row["correctness"] - row["gain"]) < 1e-12
        assert row["truncated"] == pytest.approx(1 - row["answered"]) and row["tokens"] >= 10


def updates_of(*lengths):
    """{run: its log}, with one run for each number of updates in `lengths`. The runs alternate
    between two policies."""
    frames = {}
    for n, length in enumerate(lengths):
        run = Run("m", "t", "slow", ("all", "low")[n % 2], n // 2, "m")
        row = {
            "prompts": 8.0,
            "rollouts": 64.0,
            "tokens_mean": 10.0 + n,
            "learnable_share": 0.5,
            "truncated_share": 0.0,
        }
        row |= dict.fromkeys(("kept", "replayed", "thrown_away", "labels", "trained"), np.nan)
        frames[run] = pd.DataFrame([row | {"step": step + 1} for step in range(length)])
    return frames


def parity_rows(monkeypatch, updates, held_constant):
    recipe = {"reward": "correct"}
    monkeypatch.setattr(
        training.Spec,
        "read",
        lambda path: SimpleNamespace(completion_tokens=48, training=recipe, subset="seed0.csv"),
    )
    description = {"policy": {"rule": "all"}, "pool": 40, "prompts": 40}
    monkeypatch.setattr(training.files, "read_json", lambda path: description)
    arms = [{"policy": ["all", "low"], "recipe": "slow"}]
    study = Study.of(STUDY | {"arms": arms, "held_constant": held_constant})
    return training.parity(updates, study)


def test_costs_of_training_are_shown_by_policy(monkeypatch):
    updates = updates_of(3, 3, 3, 3)
    rows = parity_rows(
        monkeypatch, updates, ["updates", "prompts", "rollouts", "completion_tokens"]
    )
    assert [(row["policy"], row["seed"], row["updates"], row["prompts"], row["rollouts"]) for row in rows] == [
        ("all", 0, 3, 24, 192), ("low", 0, 3, 24, 192), ("all", 1, 3, 24, 192), ("low", 1, 3, 24, 192),
    ]  # fmt: skip
    seconds = {
        ("m", "t", row["policy"], row["recipe"], row["seed"]): 10.0 + row["seed"] for row in rows
    }
    every, low = training.spent(rows, seconds)
    assert (every["policy"], every["tokens"], every["tokens_least"], every["tokens_most"]) == (
        "all",
        192 * 11,
        192 * 10,
        192 * 12,
    )
    assert (low["seconds"], low["seconds_least"], low["seconds_most"], low["seeds"]) == (
        10.5,
        10.0,
        11.0,
        2,
    )
    assert training.spent([], {}) == []


HARD, DRAWN = {"rule": "hard", "budget": 0.1}, {"rule": "random", "budget": 0.1}
LOWEST, ALL = {"rule": "lowest", "by": "agreement", "budget": 0.1}, {"rule": "all"}
PREDICTED = {"rule": "nearest_half", "by": "predicted", "calibrated_on": 0.02, "budget": 0.1}
PROMPTS = {"prompts": [8] * 100}


@pytest.mark.parametrize(
    ("policy", "chosen", "recipe", "log", "labels"),
    [
        (HARD, 50, {}, PROMPTS, 500),
        (HARD, 50, {"reward": "majority"}, PROMPTS, 500),
        (DRAWN, 50, {}, PROMPTS, 50),
        (LOWEST, 50, {}, PROMPTS, 50),
        (LOWEST, 50, {"reward": "majority"}, PROMPTS, 0),
        (PREDICTED, 50, {}, PROMPTS, 50),
        (PREDICTED, 50, {"reward": "majority"}, PROMPTS, 10),
        (ALL, 500, {"reward": "finished"}, PROMPTS, 0),
        (ALL, 500, {}, PROMPTS, 500),
        # a short run on all prompts needs only the answers of the sampled prompts
        (ALL, 500, {}, {"prompts": [8, 8, 8]}, 24),
        (ALL, 20, {}, {"prompts": [8, 8, 8]}, 20),
        (DRAWN, 50, {}, {"prompts": [8, 8, 8]}, 50),
        ({"rule": "annotated"}, 50, {}, {"prompts": [8, 8, 8]}, 50),
        (HARD, 50, {}, {"prompts": [8, 8, 8]}, 500),
        # with a selector, a label for each prompt that was sampled, not for each of the subset
        (ALL, 500, {"selector": {"kind": "beta"}}, {"labels": [8, 7, 3]}, 18),
        (DRAWN, 50, {"selector": {"kind": "dynamic"}}, {"labels": [8, 8, 8]}, 24),
        # 500 if the policy's choice or the curriculum's order needs the labels of the whole pool
        (HARD, 50, {"selector": {"kind": "dynamic"}}, {"labels": [8, 8, 8]}, 500),
        (ALL, 500, {"selector": {"kind": "curriculum", "by": "pass_rate"}}, {"labels": [8, 8]}, 500),
        (ALL, 500, {"selector": {"kind": "curriculum", "by": "tier"}}, {"labels": [8, 8]}, 16),
        (PREDICTED, 50, {"selector": {"kind": "beta"}}, {"labels": [8, 8]}, 26),
        (PREDICTED, 50, {"selector": {"kind": "beta"}}, {"labels": [45]}, 50),
        (ALL, 500, {"selector": {"kind": "beta"}, "reward": "majority"}, {"labels": [0, 0]}, 0),
    ],
)  # fmt: skip
def test_labels_bought_by_hand(policy, chosen, recipe, log, labels, monkeypatch):
    description = {"policy": policy, "pool": 500, "prompts": chosen}
    description["sample"] = 10 if policy is PREDICTED else None
    monkeypatch.setattr(training.files, "read_json", lambda path: description)
    recipe = {"reward": "correct"} | recipe
    assert training.labels_bought("p/seed0.csv", recipe, pd.DataFrame(log)) == labels


def test_the_rollouts_of_runs_with_a_selector_add_up():
    updates = updates_of(3, 3, 3, 3)
    for run, log in updates.items():
        if run.policy == "low":
            log[["kept", "replayed", "thrown_away", "labels", "trained"]] = [
                [40.0, 0.0, 24.0, 8.0, 0.0],
                [64, 8, 0, 2, 1],
                [0, 0, 64, 0, 1],
            ]
    (row,) = training.rollouts(updates)
    assert row == {"model": "m", "task": "t", "policy": "low", "recipe": "slow", "sampling_steps": 3, "updates": 2, "generated": 192, "kept": 104} | {
        "replayed": 8, "thrown_away": 88, "labels": 10, "thrown_away_share": 88 / 192, "seeds": 2
    }  # fmt: skip
    assert row["kept"] + row["thrown_away"] == row["generated"]


def test_a_difference_in_what_the_study_holds_constant_stops_the_summary_with_both_numbers(
    monkeypatch,
):
    with pytest.raises(UserError) as error:
        parity_rows(monkeypatch, updates_of(3, 3, 3, 2), ["prompts"])
    assert str(error.value) == (
        "m/t: the study holds prompts constant, but slow/all/seed0 has 24 and slow/low/seed1 has 16;"
        " train the runs with one recipe or take prompts out of held_constant"
    )
    assert len(parity_rows(monkeypatch, updates_of(3, 3, 3, 2), ["completion_tokens"])) == 4, (
        "runs may differ in what the study does not hold constant"
    )


def test_wall_time_is_read_from_timing_csv_and_is_nan_without_this_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    updates = updates_of(2, 2)
    run, other_run = updates
    files.write_rows(
        f"results/training/{run.path}/timing.csv",
        ["step", "seconds"],
        [{"step": 1, "seconds": 1.5}, {"step": 2, "seconds": 2}],
    )
    seconds = training.read_seconds(updates)
    assert seconds["m", "t", "all", "slow", 0] == 3.5 and np.isnan(
        seconds["m", "t", "low", "slow", 0]
    )


def test_the_gain_is_regressed_on_the_learnable_share_the_length_and_both(tmp_path):
    policies = ["a", "b", "c", "d", "e", "f"]
    learned, tokens = [0.1, 0.3, 0.2, 0.6, 0.5, 0.4], [50.0, 45, 48, 30, 41, 33]
    key = lambda policy, test="t": {
        "model": "m",
        "task": "t",
        "eval_task": test,
        "policy": policy,
        "recipe": "r",
    }
    gains = [
        key(p) | {"decoding": "sampled", "step": 30, "gain": 0.5 - 0.01 * n}
        for p, n in zip(policies, tokens)
    ]
    gains += [
        key("a", "other") | {"decoding": "sampled", "step": 30, "gain": 9.0},
        key("a") | {"decoding": "greedy", "step": 30, "gain": 9.0},
    ]
    shares = [
        {"model": "m", "task": "t", "policy": p, "recipe": "r", "learnable": share}
        for p, share in zip(policies, learned)
    ]
    lengths = [
        key(p) | {"decoding": "sampled", "step": 30, "tokens_mean": n}
        for p, n in zip(policies, tokens)
    ]
    rows = {
        (row["task"], row["predictor"], row["adjusted_for"]): row
        for row in regressions.regressions(gains, shares, lengths)
    }
    assert len(rows) == 2 * 5 and {row["cells"] for row in rows.values()} == {6}
    assert rows["all", "tokens", None]["r_squared"] == pytest.approx(1)
    assert rows["t", "tokens", "learnable"]["slope"] == pytest.approx(-0.01)
    assert rows["t", "learnable", "tokens"]["slope"] == pytest.approx(0, abs=1e-9), (
        "the length explains the whole gain"
    )
    assert rows["t", "learnable", None]["r_squared"] == pytest.approx(
        np.corrcoef(learned, [row["gain"] for row in gains[:6]])[0, 1] ** 2
    )
    unknown = [row | {"tokens_mean": np.nan} for row in lengths]
    assert regressions.regressions(gains, shares, unknown) == []
