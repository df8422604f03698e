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
CHECKED = Configuration.of(CONFIG)
CLAIMS = files.read_yaml(ROOT / "paper/claims.yaml")
FOLDER = ROOT / "results/published"


def required_seeds(
    study: str, claims: list[dict] = CLAIMS, calibration: Calibration | None = None
) -> list[dict]:
    tables = published.read(FOLDER), published.read_readings(FOLDER)
    return power.required_seeds(
        CHECKED, resolve_study(CONFIG, study), claims, *tables, "h100", calibration
    )


def study(seeds: int = 3, **changes):
    """Two policies, trained and tested on a task of 500 problems, and tested on one of 15."""
    source = {"kind": "generated", "family": "facts", "seed": 0, "train": 0}
    tasks = {
        name: {"source": source | {"test": problems}, "test": {"samples": 4}}
        for name, problems in {"t": 500, "u": 15}.items()
    }
    entry = {
        "models": ["m"],
        "tasks": ["t"],
        "also_tested_on": {"t": ["u"]},
        "seeds": list(range(seeds)),
    }
    entry["arms"] = [{"policy": ["a", "b"], "recipe": ["r"]}]
    models = {"m": {"source": {"kind": "folder", "path": "m"}}}
    config = {"studies": {"s": entry | changes}, "models": models, "tasks": tasks}
    return project_config.study(config, "s")


OVER_SEEDS = 2 * (0.02**2 + 0.15 / 4 / 500) / 3  # the variance of a difference over three seeds


def test_detectable_effects_equal_a_computation_by_hand():
    effects = lambda seeds, **changes: power.detectable_effects(study(seeds, **changes))
    rows = effects(3)
    sizes = [(row["test"], row["problems"], row["seeds"]) for row in rows]
    assert sizes == [("t", 500, 3), ("u", 15, 3)]
    by_hand = 5.653**2 * OVER_SEEDS + 2.8016**2 * 0.02 / 500
    assert rows[0]["difference"] == pytest.approx(by_hand**0.5, rel=1e-3)
    assert rows[1]["gain"] > rows[0]["gain"], "with fewer problems, only larger gains are detected"
    three, five, ten = (effects(seeds)[0]["difference"] for seeds in (3, 5, 10))
    assert three > 1.7 * five > 1.7 * 1.5 * ten
    assert effects(1)[0]["difference"] < three, "one seed: of new problems only"
    assert rows[0]["primary"] == rows[0]["difference"], "one comparison needs no correction"


def test_detectable_effects_are_corrected_for_the_number_of_comparisons():
    two_policies = power.detectable_effects(study())[0]
    arms = [{"policy": ["a", "b", "c", "d"], "recipe": "r"}]
    four_policies = power.detectable_effects(study(arms=arms))[0]
    quantiles = stats.norm.isf(0.025 / 6) + stats.norm.ppf(0.8)
    by_hand = 13.89**2 * OVER_SEEDS + quantiles**2 * 0.02 / 500
    assert four_policies["difference"] == pytest.approx(by_hand**0.5, rel=1e-3)
    for effect in ("primary", "gain"):  # not corrected for the pairs
        assert four_policies[effect] == two_policies[effect]
    # a with b under each recipe, and r with q under each policy, but no pair that differs in both
    two = {"arms": [{"policy": ["a", "b"], "recipe": ["r", "q"]}]}
    assert power.pairs_compared(study(**two)) == 4
    also = {"also_compared": [[{"policy": "b", "recipe": "q"}, {"policy": "a", "recipe": "r"}]]}
    assert power.pairs_compared(study(**two, **also)) == 5


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
    rows = {(row["claim"], row["model"], row["task"]): row for row in required_seeds("paper")}
    assert ("hard_over_easy", "llama-3.1-8b-instruct", "gsm8k") in rows
    first = rows["hard_over_random", "qwen3-4b", "gsm8k"]
    assert first["published"] == pytest.approx(0.3419 - 0.2949), "Table 1 of HE"
    for (claim, _, task), row in rows.items():
        size = power.test_size(resolve_study(CONFIG, "paper"), task)
        comparisons = 2 if claim == "hard_over_random" else 1  # primary, and tested on two tasks
        is_detected = lambda seeds, row=row, size=size, by=comparisons: (
            power.smallest_effect(*size, seeds, 2, by) <= abs(row["published"])
        )
        takes = row["takes"]
        if takes is None:
            assert not is_detected(power.MOST_SEEDS) and row["gpu_hours"] is None
        else:
            assert is_detected(takes) and (takes == 2 or not is_detected(takes - 1))
            assert (takes <= row["seeds"]) == (row["detectable"] <= abs(row["published"]))
    hours = lambda row: row["gpu_hours"] / row["takes"]
    small, large = (rows["hard_over_easy", f"qwen3-{size}b", "gsm8k"] for size in (4, 14))
    assert hours(small) < hours(large)


def test_gpu_hours_are_those_of_the_recipe_that_the_claim_names():
    claim = {"id": "c", "test": "difference", "policy": "hard", "minus": "random"}

    def hours(recipe: str) -> float:
        return required_seeds("variants", [claim | {"recipe": recipe, "minus_recipe": recipe}])[0][
            "gpu_hours"
        ]

    assert hours("sft") < hours("as_written") < hours("as_written_full")


def test_gpu_hours_are_corrected_by_the_times_of_finished_jobs():
    slow = {(rule, "gpu", "qwen3-4b"): {"slowness": 2.0} for rule in ("train_grpo", "evaluate_run")}

    def hours(calibration: Calibration | None) -> list[float]:
        rows = required_seeds("paper", calibration=calibration)
        return [row["gpu_hours"] for row in rows if row["gpu_hours"] and row["model"] == "qwen3-4b"]

    assert hours(Calibration(slow)) == pytest.approx([2 * plain for plain in hours(None)]) != []


@pytest.mark.parametrize(
    "study", [name for name, study in CONFIG["studies"].items() if "aims_at" in study]
)
def test_a_study_detects_its_target_effect(study):
    """Each claim in `aims_at` has a model and a task for which the study's seeds detect the
    published difference."""
    rows = [row for row in required_seeds(study) if row["aims"]]
    detected = {row["claim"] for row in rows if row["takes"] and row["takes"] <= row["seeds"]}
    assert detected == set(CONFIG["studies"][study]["aims_at"])
