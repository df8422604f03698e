"""Read the claims of paper/claims.yaml and judge them by a study's summary tables.

A claim's `test` is a key of `claim_tests.TESTS`; analysis/verdicts.py says when a claim is supported, contradicted or undecided.
"""

from pathlib import Path

import yaml

from hardgrpo.analysis.claim_tests import TESTS
from hardgrpo.analysis.verdicts import ONLY, TESTED, Study
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError


def judge(claims: list[dict], study: Study) -> list[dict]:
    """Rows of claims.csv: every claim in every cell where the study can decide it."""
    rows = []
    for claim in claims:
        kept = {key: claim[key] for key in ("id", "paper", "claim")}
        rows += [kept | row for row in TESTS[claim["test"]][0](claim, study)]
    return rows


def read(path: str | Path) -> list[dict]:
    """The claims of a YAML file; each must have exactly the keys that its test reads."""
    try:
        claims = yaml.safe_load(files.read_text(path))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise UserError(f"{path}:{f' line {mark.line + 1}:' if mark else ''} not valid YAML; correct it") from None
    if not isinstance(claims, list) or not all(isinstance(claim, dict) for claim in claims):
        raise UserError(f"{path}: expected a list of claims, each with id, paper, claim and test")
    seen = set()
    for number, claim in enumerate(claims, start=1):
        if problem := _wrong(claim, seen):
            raise UserError(f"{path}: claim {number} ({claim.get('id', 'without an id')}): {problem}")
        seen.add(claim["id"])
    return claims


def _wrong(claim: dict, seen: set[str]) -> str | None:
    """What is wrong with a claim, and what to write instead."""
    for key in ("id", "paper", "claim", "test"):
        if not isinstance(claim.get(key), str):
            return f"'{key}' is missing or not text; every claim has id, paper, claim and test"
    if claim["id"] in seen:
        return "the id is in the file twice; give each claim its own"
    if claim["test"] not in TESTS:
        return f"unknown test '{claim['test']}'; expected one of {', '.join(TESTS)}"
    needed = TESTS[claim["test"]][1]
    for key, kind in needed.items():
        right = type(claim.get(key)) in ((int, float) if kind is float else (kind,))
        if not right:
            return f"test '{claim['test']}' needs '{key}', a {kind.__name__}"
    unknown = claim.keys() - needed.keys() - {"id", "paper", "claim", "test", "tested", "only"}
    if unknown:
        return f"test '{claim['test']}' does not read '{min(unknown)}'; it reads {', '.join([*needed, 'tested', 'only'])}"
    if claim.get("tested", "same") not in TESTED:
        return f"tested is '{claim['tested']}', expected one of {', '.join(TESTED)}"
    only = claim.get("only", {})
    if not isinstance(only, dict) or not only.keys() <= set(ONLY) or not all(isinstance(names, list) for names in only.values()):
        return f"'only' must hold lists of names under {', '.join(ONLY)}"
    return None
