"""Every sentence of the papers that an experiment can answer names what answers it here, or why nothing does."""

import csv

import shipped
from conftest import ROOT
from hardgrpo.analysis import claims
from hardgrpo.report import registry

CONFIG = shipped.config()
WITH_CLAIMS = CONFIG | {"claims": {claim["id"] for claim in claims.read(ROOT / "paper/claims.yaml")}}
KNOWN = {kind: set(WITH_CLAIMS[kinds]) for kind, kinds in {
    "study": "studies", "task": "tasks", "model": "models", "policy": "policies", "recipe": "recipes", "claim": "claims",
}.items()} | {"figure": set(registry.FIGURES), "table": set(registry.TABLES), "rule": {"probe"}}  # fmt: skip
ROWS = list(csv.DictReader((ROOT / "results/published/inventory.csv").open(encoding="utf-8")))


def test_the_rows_are_those_of_the_sources():
    assert [int(row["number"]) for row in ROWS] == list(range(1, 52))
    assert all(row["source"] and row["said"] for row in ROWS)


def test_what_a_row_names_exists_and_a_row_without_a_name_says_why():
    for row in ROWS:
        for name in row["here"].split():
            kind, _, what = name.partition(":")
            assert what in KNOWN[kind], (row["number"], name)
        assert row["here"] or row["why_not"], row["number"]


def test_every_claim_answers_a_sentence_of_its_paper():
    named = {name.removeprefix("claim:") for row in ROWS for name in row["here"].split() if name.startswith("claim:")}
    of_papers = {claim["id"] for claim in claims.read(ROOT / "paper/claims.yaml") if claim["paper"] != "here"}
    others = {"low_tiers_over_as_many", "learnable_over_random", "dynamic_over_plain"}
    assert of_papers - named == others, "a control that LDS lacks; HE's Table 2; DAPO, which neither of the two papers runs"
