"""The file of claims: its accepted content, and the settings of a study that decide which rows a
claim is about."""

from types import SimpleNamespace

import pytest

import project_config
from conftest import ROOT
from hardgrpo.analysis import cells, claims
from hardgrpo.runtime import files
from hardgrpo.study import claim_conditions
from hardgrpo.study.resolved import resolve_study

CONFIG = project_config.config()


@pytest.fixture(scope="module")
def published_claims():
    return files.read_yaml(ROOT / "paper/claims.yaml")


def test_the_claims_are_about_policies_models_and_tasks_that_exist(published_claims):
    for claim in published_claims:
        named = lambda *keys, claim=claim: {claim[key] for key in keys if key in claim}
        scope, arms = claim.get("only", {}), named("policy", "minus")
        tasks = {name for key in ("task", "eval_task") for name in scope.get(key, [])}
        if claim["test"] == "transfer":  # `minus` is a task
            arms, tasks = named("policy"), tasks | named("trained_on", "minus")
        assert arms | {*claim.get("policies", [])} <= CONFIG["policies"].keys(), claim["id"]
        assert named("recipe", "minus_recipe") <= CONFIG["recipes"].keys(), claim["id"]
        assert set(scope.get("model", [])) <= CONFIG["models"].keys(), claim["id"]
        assert tasks <= CONFIG["tasks"].keys(), claim["id"]
    tests = {claim["test"] for claim in published_claims} | {"unsolved_gain", "mixed_lead"}
    assert tests == claims.TESTS.keys(), "a test in claims.TESTS has no claim"


def test_a_claim_has_the_keys_that_are_read(published_claims):
    """A misspelled key, such as `olny`, would make a claim about other rows."""
    required = {"id", "paper", "claim", "test"}
    scope = {
        "policy",
        "minus",
        "policies",
        "recipe",
        "minus_recipe",
        "trained_on",
        "tested",
        "only",
    }
    further = {"primary", "replicates", "margin", "share", "predictor"}
    for claim in published_claims:
        assert required <= claim.keys() <= required | scope | further, claim["id"]
        assert claim.get("only", {}).keys() <= set(claims.SCOPE_KEYS), claim["id"]
        assert claim.get("tested", "same") in ("same", "other", "roomier", "tighter"), claim["id"]
        is_primary = claim.get("primary", False)
        assert is_primary == ("replicates" in claim), claim["id"]


def test_a_study_that_trains_both_arms_of_a_claim_compares_them(published_claims):
    for name in CONFIG["studies"]:
        study = resolve_study(CONFIG, name)
        arms = list(dict.fromkeys((run.policy, run.recipe) for run in study.runs))
        partners = lambda arm, pairs=study.compared_pairs: [
            other for pair in pairs if arm in pair for other in pair if other != arm
        ]
        made_up = [SimpleNamespace(arm=arm, seeds=[0], compared_with=partners(arm)) for arm in arms]
        compared = {frozenset((cell.arm, other.arm)) for cell, other in cells.pairs(made_up)}
        first_recipe = study.first_recipe
        for claim in published_claims:
            pair = frozenset(
                (claim.get(policy), claim.get(recipe, first_recipe))
                for policy, recipe in (("policy", "recipe"), ("minus", "minus_recipe"))
            )
            if claim["test"] == "difference" and pair <= set(arms):
                assert pair in compared, f"{study}: {claim['id']}"


def test_no_paper_has_two_primary_claims_and_no_two_claims_have_the_same_estimate(
    published_claims,
):
    primary = {claim["paper"]: claim for claim in published_claims if claim.get("primary")}
    assert {paper: (claim["id"], claim["replicates"]) for paper, claim in primary.items()} == {
        "HE": ("hard_over_random", 10), "LDS": ("no_new_solving", 10), "here": ("no_labels_over_random", 10),
        "DAPO": ("dynamic_over_plain", 10), "mini_half": ("half_over_random", 48), "small_real": ("finishing_in_small_real", 3),
        "small_real_low_rate": ("finishing_at_low_rate", 3),
    }  # fmt: skip
    estimates = set()
    for claim in published_claims:
        get = claim.get
        # a difference and its negative count as one claim
        arms = frozenset({(get("policy"), get("recipe")), (get("minus"), get("minus_recipe"))})
        estimate = (claim["test"], arms, tuple(get("policies", ())), get("tested", "same"))
        assert estimate not in estimates, claim["id"]
        estimates.add(estimate)


def test_the_published_order_is_tested_on_gsm8k_and_no_claim_of_lds_uses_policy_easy(
    published_claims,
):
    by_id = {claim["id"]: claim for claim in published_claims}
    assert by_id["order_as_published"]["only"] == {"task": ["gsm8k"]}
    assert not any(
        "easy" in (claim.get("policy"), claim.get("minus"))
        for claim in published_claims
        if claim["paper"] == "LDS"
    )


def conditions(study: str, config: dict = CONFIG) -> dict:
    return claim_conditions.conditions(resolve_study(config, study))


def test_conditions_say_which_tasks_share_problems_and_which_signals_are_weaker():
    related = lambda study, *tasks: claims.relation(*tasks, conditions(study)["tasks"])
    assert related("mini_truncation", "swaps_tight", "swaps_ample") == "roomier"
    assert related("mini_reference", "swaps", "swaps_hard") == "other"
    assert related("limits", "math", "math_numeric") == "other"
    assert conditions("mini_reference")["weaker"] == ["arithmetic"]


def test_conditions_list_the_models_that_pretrain_a_base_for_each_seed():
    """Results generalise to new base models if each seed pretrains its own base model. If all seeds
    share one base model, the results are about this base model alone."""

    def own_bases(study: str, seed) -> list[str]:
        source = CONFIG["models"]["steady"]["source"] | {"seed": seed}
        models = CONFIG["models"] | {"steady": {"source": source}}
        return conditions(study, CONFIG | {"models": models})["own_bases"]

    assert own_bases("mini", "own") == ["steady"]
    assert own_bases("mini", 0) == own_bases("limits", "own") == []
