"""Read the claims of paper/claims.yaml and judge them by a study's summary tables.

A claim's `test` is a key of `claim_tests.TESTS`. In an analysis of published numbers, `test`
is a key of `claim_tests.COUNT_TESTS`, and every claim is primary. Only primary claims get a verdict
(module `verdicts`).
"""

from pathlib import Path

import pandas as pd

from hardgrpo.analysis import random_choice
from hardgrpo.analysis.claim_tests import (
    COUNT_TESTS,
    FIT_PREDICTORS,
    PRIMARY,
    RECIPE_KEYS,
    TESTS,
    UNREAD_KEYS,
    label_arms,
)
from hardgrpo.analysis.verdicts import DESCRIPTIVE, SCOPE_KEYS, TESTED, Study, add_verdicts
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError


def judge(claims: list[dict], study: Study) -> list[dict]:
    """Rows of claims.csv: every claim in every cell where the study has an estimate. Primary claims
    come first."""
    rows = []
    for claim in sorted(claims, key=lambda claim: not claim.get("primary")):
        claim_columns = {key: claim[key] for key in ("id", "paper", "claim")} | {
            "primary": bool(claim.get("primary"))
        }
        function, _ = {**TESTS, **COUNT_TESTS}[claim["test"]]
        results = function(label_arms(claim, study.first_recipe), study)
        if claim_columns["primary"]:
            results = add_verdicts(results, claim)
        else:
            results = [row | {"p_holm": None, "verdict": DESCRIPTIVE} for row in results]
        for row in results:
            # `p` and `open` are inputs of the verdict, not columns of claims.csv.
            result = {key: value for key, value in row.items() if key not in ("p", "open")}
            rows.append(claim_columns | result | {"population": study.population(row["model"])})
    return rows


def against_random(
    claims: list[dict], study: Study, name: str, policies: dict, names: dict, others: pd.DataFrame
) -> list[dict]:
    """The rows of table against_random: the study's comparisons with a random choice.

    `name` is the study's name. `policies` and `names` are as in `random_choice.comparisons`.
    `others` holds the comparisons of all committed studies (results/reference/all/which-prompts.csv).
    """
    rows = study.tables["differences"]
    own_comparisons = (
        random_choice.comparisons(
            name, pd.DataFrame(rows), policies, names, primary_differences(claims, study)
        )
        if rows
        else []
    )
    other_rows = others[others.study != name].to_dict("records")
    return random_choice.add_verdicts(own_comparisons, other_rows)


def primary_differences(claims: list[dict], study: Study) -> dict[tuple, float]:
    """{(model, task, policy, recipe, policy to subtract, its recipe): corrected p} of the primary
    claims about the difference of two policies on the task's own test, where the study decides
    them."""
    p_values = {}
    for claim in claims:
        if not claim.get("primary") or claim["test"] != "difference" or "tested" in claim:
            continue
        recipes = [claim.get(key, study.first_recipe) for key in ("recipe", "minus_recipe")]
        arms = claim["policy"], recipes[0], claim["minus"], recipes[1]
        for row in judge([claim], study):
            if row["p_holm"] == row["p_holm"]:  # nan: too few replicates
                p_values[row["model"], row["task"], *arms] = row["p_holm"]
    return p_values


def read(path: str | Path) -> list[dict]:
    """The claims of a YAML file. Raise a `UserError` if a claim lacks a key that its test requires,
    or has a key that its test does not read."""
    claims = files.read_yaml(path)
    if not isinstance(claims, list) or not all(isinstance(claim, dict) for claim in claims):
        raise UserError(f"{path}: expected a list of claims, each with id, paper, claim and test")
    for number, claim in enumerate(claims, start=1):
        if problem := _problem(claim, claims[: number - 1]):
            raise UserError(
                f"{path}: claim {number} ({claim.get('id', 'without an id')}): {problem}"
            )
    return claims


def _problem(claim: dict, earlier_claims: list[dict]) -> str | None:
    """What is wrong with a claim and how to mend it; None if nothing is wrong. `earlier_claims`
    precede the claim in the file."""
    for key in ("id", "paper", "claim", "test"):
        if not isinstance(claim.get(key), str):
            return f"'{key}' is missing or not text; every claim has id, paper, claim and test"
    if claim["id"] in [earlier["id"] for earlier in earlier_claims]:
        return "the id is in the file twice; give each claim its own id"
    if claim["test"] not in TESTS:
        return f"unknown test '{claim['test']}'; expected one of {', '.join(TESTS)}"
    required_keys = TESTS[claim["test"]][1]
    for key, kind in required_keys.items():
        if type(claim.get(key)) not in ((int, float) if kind is float else (kind,)):
            return f"test '{claim['test']}' needs '{key}', a {kind.__name__}"
    recipe_keys = [RECIPE_KEYS[key] for key in RECIPE_KEYS if key in required_keys]
    optional_keys = [
        key
        for key in (*recipe_keys, "tested", "only", "primary", "replicates")
        if key not in UNREAD_KEYS.get(claim["test"], ())
    ]
    unread_keys = (
        claim.keys() - required_keys.keys() - {"id", "paper", "claim", "test", *optional_keys}
    )
    if unread_keys:
        return f"test '{claim['test']}' does not read '{min(unread_keys)}'; it reads {', '.join([*required_keys, *optional_keys])}"
    if claim["test"] == "fit" and claim["predictor"] not in FIT_PREDICTORS:
        return f"predictor is '{claim['predictor']}', expected one of {', '.join(FIT_PREDICTORS)}"
    for key, recipe in RECIPE_KEYS.items():
        policy, comma, name = str(claim.get(key, "")).partition(", ")
        if comma:
            return f"{key}: '{claim[key]}' names a policy and a recipe; write {key}: {policy} and {recipe}: {name}"
        if not isinstance(claim.get(recipe, ""), str):
            return f"{recipe}: expected the name of a recipe"
    if problem := _primary_problem(claim, earlier_claims):
        return problem
    if claim.get("tested", "same") not in TESTED:
        return f"tested is '{claim['tested']}', expected one of {', '.join(TESTED)}"
    scope = claim.get("only", {})
    if (
        not isinstance(scope, dict)
        or not scope.keys() <= set(SCOPE_KEYS)
        or not all(isinstance(names, list) for names in scope.values())
    ):
        return f"'only' must hold lists of names under {', '.join(SCOPE_KEYS)}"
    return None


def _primary_problem(claim: dict, earlier_claims: list[dict]) -> str | None:
    if "primary" not in claim:
        return (
            "'replicates' is for primary claims; remove it or add primary: true"
            if "replicates" in claim
            else None
        )
    if claim["primary"] is not True:
        return "'primary' must be true; leave it out of a descriptive claim"
    if type(claim.get("replicates")) is not int or claim["replicates"] < 2:
        return "a primary claim needs 'replicates', the number of replicates that its verdict requires, 2 or more"
    if claim["test"] not in PRIMARY:
        return f"test '{claim['test']}' gives no verdict; the test of a primary claim is one of {', '.join(PRIMARY)}"
    primary_ids = [
        earlier["id"]
        for earlier in earlier_claims
        if earlier.get("primary") and earlier["paper"] == claim["paper"]
    ]
    return (
        f"'{primary_ids[0]}' is the primary claim of {claim['paper']} already; a paper has only one primary claim"
        if primary_ids
        else None
    )
