"""The largest number of labels that a run of each arm of a plan may buy, by policy, recipe and size
of the pool."""

import pytest

import project_config
from hardgrpo.planning import label_counts
from hardgrpo.study.policy import Policy
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.resolved import resolve_study

CONFIG = project_config.config()
STEPS = {"updates": 100, "prompts_per_update": 8}
GRPO, MAJORITY = STEPS | {"reward": "correct"}, STEPS | {"reward": "majority"}


def count(policy: dict, recipe: dict, pool: int | None) -> int | None:
    return label_counts.label_count(
        Policy.of(policy), Recipe.of(CONFIG["recipes"]["mini"] | recipe), pool
    )


HARD = {"rule": "hard", "budget": 0.1}
RANDOM = {"rule": "random", "budget": 0.1}
BY_AGREEMENT = {"rule": "lowest", "by": "agreement"}
BY_SAMPLE = {"rule": "nearest_half", "by": "predicted", "calibrated_on": 0.02, "budget": 0.1}


@pytest.mark.parametrize(
    ("policy", "recipe", "pool", "bought"),
    [
        (HARD, GRPO, 500, 500),
        (HARD, MAJORITY, 500, 500),
        ({"rule": "base_wrong", "threshold": 0.25}, GRPO, 500, 500),
        (RANDOM, GRPO, 500, 50),
        (RANDOM, MAJORITY, 500, 0),
        (RANDOM, STEPS | {"objective": "sft"}, 500, 50),
        (BY_AGREEMENT | {"budget": {"money": 60, "label_price": 2}}, GRPO, 500, 30),
        (BY_AGREEMENT | {"budget": {"prompts": 7}}, GRPO, None, 7),
        (BY_AGREEMENT | {"budget": 0.1}, GRPO, None, None),
        (BY_SAMPLE, GRPO, 500, 50),
        (BY_SAMPLE, MAJORITY, 500, 10),
        ({"rule": "all"}, GRPO, 500, 500),
        # the run ends before it has sampled all prompts
        ({"rule": "all"}, GRPO | {"updates": 50}, 500, 400),
        ({"rule": "all"}, GRPO, None, None),
        ({"rule": "low_tiers", "highest_tier": 3}, GRPO, 500, None),
        ({"rule": "annotated"}, GRPO, 500, None),
    ],
)
def test_labels_follow_from_policy_recipe_and_pool(policy, recipe, pool, bought):
    assert count(policy, recipe, pool) == bought


@pytest.mark.parametrize("kind", ["dynamic", "beta", "curriculum"])
def test_a_run_with_a_selector_needs_labels_of_sampled_prompts_only(kind):
    online = GRPO | {"selector": {"kind": kind}, "updates": 50}
    assert count({"rule": "all"}, online, 500) == 400
    assert count(RANDOM, online, 500) == 50


@pytest.mark.parametrize("pool", [None, 500])
@pytest.mark.parametrize("recipe", [GRPO, MAJORITY])
def test_a_curriculum_by_pass_rate_needs_the_labels_of_the_whole_pool(pool, recipe):
    """The size of a pool of the user's own files is unknown before the files are prepared."""
    sorting = recipe | {"selector": {"kind": "curriculum", "by": "pass_rate"}}
    for policy in ({"rule": "random"}, BY_AGREEMENT):
        assert count(policy | {"budget": {"prompts": 7}}, sorting, pool) == pool


def test_a_plan_lists_the_largest_number_of_labels_of_each_arm():
    rows = {
        (row["task"], row["arm"]): row["labels"]
        for row in label_counts.planned_labels(resolve_study(CONFIG, "mini_labels"))
    }
    assert len(rows) == 36 and rows["swaps", "hard_2"] == rows["arithmetic", "half_by_small"] == 500
    assert rows["swaps", "agreement_lowest_2"] == 10 and rows["swaps", "random, mini_majority"] == 0
    assert rows["swaps", "agreement_lowest, mini_rest"] == 50, (
        "prompts outside the subset get majority rewards, which need no labels"
    )
    lines = lambda study: label_counts.format_lines(
        label_counts.planned_labels(resolve_study(CONFIG, study))
    )
    assert "         0  random, mini_majority" in lines("mini_labels")
    assert "  mini_labels, swaps, a pool of 500" in lines("mini_labels")
    assert lines("recordings") == lines("trajectories") == []
