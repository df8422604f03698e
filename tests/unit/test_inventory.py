"""results/published/inventory.csv has a row for each statement of the papers that an experiment can
test. The row names the entries of this project that test the statement, or the reason why no entry
does."""

import csv

import project_config
from conftest import ROOT
from hardgrpo.analysis import claims
from hardgrpo.report import registry
from hardgrpo.study import configuration

CONFIG = project_config.config()
CLAIMS = claims.read(ROOT / "paper/claims.yaml") + [
    claim for analysis in CONFIG["analyses"].values() for claim in analysis.get("claims", [])
]
WITH_CLAIMS = CONFIG | {"claims": {claim["id"] for claim in CLAIMS}}
NAMES_BY_KIND = {kind: set(WITH_CLAIMS[kinds]) for kind, kinds in {
    "study": "studies", "analysis": "analyses", "task": "tasks", "model": "models", "policy": "policies", "recipe": "recipes", "claim": "claims",
}.items()} | {"figure": set(registry.FIGURES), "table": set(registry.TABLES), "rule": {"probe"}}  # fmt: skip
ROWS = list(csv.DictReader((ROOT / "results/published/inventory.csv").open(encoding="utf-8")))


def test_the_rows_are_numbered_and_have_a_source_and_a_statement():
    assert [int(row["number"]) for row in ROWS] == list(range(1, 52))
    assert all(row["source"] and row["statement"] for row in ROWS)


def test_the_entries_that_a_row_names_exist_and_a_row_without_entries_gives_a_reason():
    for row in ROWS:
        for name in row["answered_by"].split():
            kind, _, what = name.partition(":")
            assert what in NAMES_BY_KIND[kind], (row["number"], name)
        assert row["answered_by"] or row["limitation"], row["number"]


# --- the inventory agrees with the code

SCHEMA = configuration.schema()
SECTIONS = {
    "policy": "policies",
    "recipe": "recipes",
    "task": "tasks",
    "model": "models",
    "study": "studies",
}


def alternatives(part: dict) -> list[dict]:
    """The alternatives that a part of the schema allows, with every `$ref` replaced by its
    definition."""
    if "$ref" in part:
        return alternatives(SCHEMA["$defs"][part["$ref"].rsplit("/", 1)[1]])
    options = [*part.get("oneOf", []), *part.get("anyOf", [])]
    return (
        [alternative for option in options for alternative in alternatives(option)]
        if options
        else [part]
    )


def is_in_schema(name: str) -> bool:
    """Whether the schema has a key, such as recipe.selector.kind. For `key=value`, such as
    recipe.selector.kind=curriculum, the schema must also allow the value."""
    path, _, value = name.partition("=")
    section, *steps = path.split(".")
    parts = alternatives(SCHEMA["$defs"][section.capitalize()])
    for step in steps:
        parts = [
            inner
            for part in parts
            for inner in alternatives(part.get("properties", {}).get(step, {"enum": []}))
        ]
    return any(not value or value in part.get("enum", [part.get("const")]) for part in parts)


def is_used(name: str, answered_by: str) -> bool:
    """Whether `answered_by` names an entry of the configuration that has a key. For `key=value`,
    the key must have this value."""
    path, _, value = name.partition("=")
    section, *steps = path.split(".")
    for kind, _, entry in (word.partition(":") for word in answered_by.split()):
        content = CONFIG[SECTIONS[section]].get(entry) if kind == section else None
        for step in steps:
            content = content.get(step) if isinstance(content, dict) else None
        if content is not None and (not value or content == value):
            return True
    return False


def contradictions(rows: list[dict]) -> list[tuple[str, str]]:
    """[(number of a row, how the row contradicts the configuration)]."""
    row_errors = []
    for row in rows:
        for name in row["configuration_keys"].split():
            if row["answered_by"] and not (
                is_in_schema(name) and is_used(name, row["answered_by"])
            ):
                row_errors.append((row["number"], f"no entry in answered_by has {name}"))
            if not row["answered_by"] and is_in_schema(name):
                row_errors.append(
                    (
                        row["number"],
                        f"answered_by is empty, but the configuration can have {name}",
                    )
                )
        says_missing = any(word in row["limitation"] for word in ("built", "not run"))
        if says_missing and (row["answered_by"] or not row["configuration_keys"]):
            row_errors.append(
                (
                    row["number"],
                    "limitation says that something is missing; expected its key in"
                    " configuration_keys, and an empty answered_by",
                )
            )
        tasks = [
            word.removeprefix("task:")
            for word in row["answered_by"].split()
            if word.startswith("task:")
        ]
        if "in no study" in row["limitation"]:
            used = {task for study in CONFIG["studies"].values() for task in study["tasks"]}
            row_errors += (
                [
                    (
                        row["number"],
                        "limitation says 'in no study', but all tasks of the row are in studies",
                    )
                ]
                if set(tasks) <= used
                else []
            )
    return row_errors


def test_rows_do_not_contradict_the_configuration():
    assert contradictions(ROWS) == []


def test_a_row_that_says_that_something_is_missing_is_compared_with_the_configuration():
    row = {
        "number": "7",
        "answered_by": "",
        "configuration_keys": "policy.by=agreement",
        "limitation": "measures that need no labels are not built yet",
    }
    assert contradictions([row]), (
        "the row must contradict the configuration: a policy may choose by agreement"
    )
    assert contradictions([row | {"configuration_keys": ""}]), "the row must name the missing key"
    assert contradictions([row | {"configuration_keys": "policy.by=influence"}]) == []
    assert contradictions([row | {"answered_by": "policy:hard", "limitation": ""}]), (
        "policy hard does not choose by agreement"
    )
    assert contradictions(
        [
            row
            | {
                "configuration_keys": "recipe.selector.kind=curriculum",
                "limitation": "no curriculum is built",
            }
        ]
    )
    assert contradictions(
        [
            row
            | {
                "answered_by": "recipe:mini",
                "configuration_keys": "recipe.selector.kind=curriculum",
                "limitation": "",
            }
        ]
    )


OWN_CLAIMS = (
    "here",
    "mini_half",
    "small_real",
    "small_real_low_rate",
)  # values of `paper` of claims of this project


def test_a_row_names_each_claim_of_a_paper_except_three():
    claims_of_rows = {
        name.removeprefix("claim:")
        for row in ROWS
        for name in row["answered_by"].split()
        if name.startswith("claim:")
    }
    of_papers = {claim["id"] for claim in CLAIMS if claim["paper"] not in OWN_CLAIMS}
    unlisted_claims = {
        "low_tiers_over_as_many",  # a control that LDS lacks
        "learnable_over_random",  # the row of HE's Table 2 names table `learnable` instead
        "dynamic_over_plain",  # a claim of DAPO; neither HE nor LDS runs DAPO
    }
    assert of_papers - claims_of_rows == unlisted_claims


def test_a_row_names_each_analysis_and_each_study_of_models_made_elsewhere():
    """Models made elsewhere are recordings, trajectories, and models whose weights come from a
    Python package."""
    published = {f"analysis:{name}" for name in CONFIG["analyses"]} | {
        f"study:{name}"
        for name, study in CONFIG["studies"].items()
        if any(
            CONFIG["models"][model]["source"]["kind"] in ("recorded", "trajectory", "package")
            for model in study["models"]
        )
    }
    answers = {name for row in ROWS for name in row["answered_by"].split()}
    assert published <= answers, f"no row names {published - answers}"
    assert {"study:recordings", "study:trajectories", "study:small_real"} < published


def test_a_row_that_names_a_recorded_model_or_a_claim_of_an_analysis_also_names_its_study():
    for row in ROWS:
        names = set(row["answered_by"].split())
        of_recordings = {name for name in names if "recorded" in name}
        if of_recordings:
            assert "study:recordings" in names, (row["number"], of_recordings)
        for name, analysis in CONFIG["analyses"].items():
            of_analysis = {f"claim:{claim['id']}" for claim in analysis.get("claims", [])} & names
            if of_analysis:
                assert f"analysis:{name}" in names, (row["number"], of_analysis)
