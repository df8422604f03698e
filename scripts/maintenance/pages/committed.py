"""The claims of the studies that the pages show, judged by their committed summaries."""

from hardgrpo.analysis import claims, random_choice, summaries
from hardgrpo.report import registry
from hardgrpo.runtime import files
from hardgrpo.study import claim_conditions, designs, paths
from hardgrpo.study.resolved import resolve_study
from hardgrpo.study.strict import plain
from hardgrpo.study.study import Study

from pathlib import Path

import pandas as pd

TRAINED = (
    "mini_reference",
    "mini_confirm",
    "mini_half",
    "mini_truncation",
    "mini_variants",
    "mini_labels",
    "mini_online",
    "mini_rates",
    "small_real",
)


def read_study(root: Path, study: Study) -> claims.Study:
    """The committed tables that claims read, with the study's conditions."""
    conditions = claim_conditions.conditions(study)
    folder = files.Tables.below(root / paths.reference(study.name))
    tables = summaries.read_tables(folder, claims.TABLES, conditions["first_recipe"])
    return claims.Study(tables, **conditions)


def judged(root: Path, study: Study) -> dict[str, pd.DataFrame]:
    """The tables `claims` and `against_random` that scripts/summaries/judge_claims.py writes."""
    listed_claims = files.read_yaml(root / "paper/claims.yaml")
    judged_study = read_study(root, study)
    against_random = claims.against_random(
        listed_claims,
        judged_study,
        study.name,
        plain(study.config.policies),
        designs.names_of_ways(study.config.policies, study.config.recipes),
        others=pd.read_csv(root / registry.COMPARISONS),
    )
    tables = {
        "claims": (claims.judge(listed_claims, judged_study), claims.COLUMNS),
        "against_random": (against_random, random_choice.COLUMNS),
    }
    return {
        name: pd.DataFrame(files.round_floats(rows), columns=columns)
        for name, (rows, columns) in tables.items()
    }


def all_claims(root: Path, config: dict) -> pd.DataFrame:
    """Every claim in every study of TRAINED, with its estimate and verdict."""
    tables = {study: judged(root, resolve_study(config, study))["claims"] for study in TRAINED}
    return pd.concat(tables, names=["study"]).reset_index("study").reset_index(drop=True)
