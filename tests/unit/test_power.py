"""The smallest effect that a design can detect, and the number of seeds that a published difference
needs."""

import pytest
from scipy import stats

import project_config
from conftest import ROOT
from hardgrpo.analysis import published
from hardgrpo.planning import power
from hardgrpo.planning.calibration import Calibration
from hardgrpo.runtime import files
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_study

CONFIG = project_config.config()
CLAIMS = files.read_yaml(ROOT / "paper/claims.yaml")
FOLDER = ROOT / "results/published"


def required_seeds(
    study: str, claims: list[dict] = CLAIMS, calibration: Calibration | None = None
) -> list[dict]:
    return power.required_seeds(
        Configuration.of(CONFIG),
        resolve_study(CONFIG, study),
        claims,
        published.read(FOLDER),
        published.read_readings(FOLDER),
        "h100",
        calibration,
    )


def test_detectable_effects_equal_a_computation_by_hand():
    source = {"kind": "generated", "family": "facts", "seed": 0, "train": 0}
    tasks = {
        name: {"source": source | {"test": problems}, "test": {"samples": 4}}
        for name, problems in {"t": 500, "u": 15}.items()
    }
    models = {"m": {"source": {"kind": "folder", "path": "m"}}}
    entry = {"models": ["m"], "tasks": ["t"], "also_tested_on": {"t": ["u"]}}
    entry["arms"] = [{"policy": ["a", "b"], "recipe": ["r"]}]
    study = lambda seeds=3, **changes: project_config.study(
        {
            "studies": {"s": entry | {"seeds": list(range(seeds))} | changes},
            "models": models,
            "tasks": tasks,
        },
        "s",
    )
    effects = lambda seeds, **changes: power.detectable_effects(study(seeds, **changes))
    rows = effects(3)
    names = ("test", "problems", "seeds")
    assert [[row[name] for name in names] for row in rows] == [["t", 500, 3], ["u", 15, 3]]
    by_hand = 5.653**2 * 2 * (0.02**2 + 0.15 / 4 / 500) / 3 + 2.8016**2 * 0.02 / 500
    assert rows[0]["difference"] == pytest.approx(by_hand**0.5, rel=1e-3)
    assert rows[1]["gain"] > rows[0]["gain"], (
        "a test with fewer problems must detect only larger gains"
    )
    differences = [row["difference"] for seeds in (3, 5, 10) for row in effects(seeds)[:1]]
    assert differences[0] > 1.7 * differences[1] > 1.7 * 1.5 * differences[2], (
        "the detectable difference must shrink by more than a factor of 1.7 from 3 to 5 seeds, and"
        " of 1.5 from 5 to 10 seeds"
    )
    assert effects(1)[0]["difference"] < differences[0], (
        "with one seed, the detectable difference is for new problems only and must be smaller"
    )
    assert rows[0]["primary"] == rows[0]["difference"], (
        "with two policies and one task, there is one comparison, so no correction applies"
    )
    four = effects(3, arms=[{"policy": ["a", "b", "c", "d"], "recipe": "r"}])[0]
    by_hand = (
        13.89**2 * 2 * (0.02**2 + 0.15 / 4 / 500) / 3
        + (stats.norm.isf(0.025 / 6) + stats.norm.ppf(0.8)) ** 2 * 0.02 / 500
    )
    assert four["difference"] == pytest.approx(by_hand**0.5, rel=1e-3), (
        "the difference is not the value by hand after Holm's correction for six pairs"
    )
    assert four["primary"] == rows[0]["primary"] and four["gain"] == rows[0]["gain"]
    two = {"arms": [{"policy": ["a", "b"], "recipe": ["r", "q"]}]}
    # Of the six pairs of arms, four are compared: a with b under each recipe, and r with q under
    # each policy.
    assert power.pairs_compared(study(**two)) == 4
    also = {"also_compared": [[{"policy": "b", "recipe": "q"}, {"policy": "a", "recipe": "r"}]]}
    assert power.pairs_compared(study(**two, **also)) == 5, (
        "also_compared must add a pair that differs in policy and recipe"
    )


def test_a_plan_has_only_claims_about_recipes_and_tasks_of_the_study():
    claim = {"id": "c", "test": "difference", "policy": "hard", "minus": "random"}
    tasks = lambda **change: {row["task"] for row in required_seeds("paper", [claim | change])}
    assert "gsm8k" in tasks()
    assert tasks(recipe="as_written", minus_recipe="as_written") == tasks()
    assert tasks(recipe="mini_prime", minus_recipe="mini_prime") == set()
    assert tasks(minus_recipe="mini_prime") == set()
    assert tasks(only={"task": ["gsm8k"]}) == {"gsm8k"}
    assert tasks(only={"task": ["swaps"]}) == tasks(only={"model": ["tiny"]}) == set()


def test_the_required_number_of_seeds_is_the_smallest_that_detects_the_published_difference():
    by_key = {(r["claim"], r["model"], r["task"]): r for r in required_seeds("paper")}
    rows = by_key.values()
    assert ("hard_over_easy", "llama-3.1-8b-instruct", "gsm8k") in by_key
    first = by_key["hard_over_random", "qwen3-4b", "gsm8k"]
    assert first["published"] == pytest.approx(0.3419 - 0.2949), "Table 1 of HE"
    for row in rows:
        size = power.test_size(resolve_study(CONFIG, "paper"), row["task"])
        # the primary claim is tested on two tasks
        comparisons = 2 if row["claim"] == "hard_over_random" else 1
        is_detected = lambda seeds, row=row, size=size, by=comparisons: (
            power.smallest_effect(*size, seeds, 2, by) <= abs(row["published"])
        )
        if row["takes"] is None:
            assert not is_detected(power.MOST_SEEDS) and row["gpu_hours"] is None
        else:
            assert is_detected(row["takes"]) and (
                row["takes"] == 2 or not is_detected(row["takes"] - 1)
            )
            assert (row["takes"] <= row["seeds"]) == (row["detectable"] <= abs(row["published"]))
    cheap, dear = (
        next(row for row in rows if row["model"] == model and row["claim"] == "hard_over_easy")
        for model in ("qwen3-4b", "qwen3-14b")
    )
    assert cheap["gpu_hours"] / cheap["takes"] < dear["gpu_hours"] / dear["takes"], (
        "a larger model costs more per seed"
    )


def test_gpu_hours_are_those_of_the_recipe_that_the_claim_names():
    claim = {"id": "c", "test": "difference", "policy": "hard", "minus": "random"}
    hours = lambda recipe: required_seeds(
        "variants", [claim | {"recipe": recipe, "minus_recipe": recipe}]
    )[0]["gpu_hours"]
    assert hours("sft") < hours("as_written") < hours("as_written_full")


def test_gpu_hours_are_corrected_by_the_times_of_finished_jobs():
    slow = {(rule, "gpu", "qwen3-4b"): {"slowness": 2.0} for rule in ("train_grpo", "evaluate_run")}
    hours = lambda calibration: {
        row["claim"]: row["gpu_hours"]
        for row in required_seeds("paper", calibration=calibration)
        if row["gpu_hours"] and (row["model"], row["task"]) == ("qwen3-4b", "gsm8k")
    }
    calibrated, plain = hours(Calibration(slow)), hours(None)
    assert plain and all(calibrated[claim] == pytest.approx(2 * plain[claim]) for claim in plain)


@pytest.mark.parametrize(
    "study", [name for name, study in CONFIG["studies"].items() if "aims_at" in study]
)
def test_a_study_detects_its_target_effect(study):
    """Each claim in `aims_at` has a model and a task for which the study's seeds detect the
    published difference."""
    aims = CONFIG["studies"][study]["aims_at"]
    rows = [row for row in required_seeds(study) if row["aims"]]
    assert {row["claim"] for row in rows if row["takes"] and row["takes"] <= row["seeds"]} == set(
        aims
    )
