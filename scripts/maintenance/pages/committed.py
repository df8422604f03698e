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
    "mini_truncation",
    "mini_variants",
    "mini_labels",
    "mini_online",
    "mini_rates",
    "small_real",
)


def judged(root: Path, study: Study) -> dict[str, pd.DataFrame]:
    """The tables `claims` and `against_random` that scripts/summaries/judge_claims.py writes."""
    conditions = claim_conditions.conditions(study)
    tables = summaries.read_tables(
        files.Tables.below(root / paths.reference(study.name)),
        claims.TABLES,
        conditions["first_recipe"],
    )
    listed_claims = files.read_yaml(root / "paper/claims.yaml")
    judged_study = claims.Study(tables, **conditions)
    against_random = claims.against_random(
        listed_claims,
        judged_study,
        study.name,
        plain(study.config.policies),
        designs.names_of_ways(study.config.policies, study.config.recipes),
        others=pd.read_csv(root / registry.COMPARISONS),
    )
    judged_claims = claims.judge(listed_claims, judged_study)
    return {
        "claims": pd.DataFrame(files.round_floats(judged_claims), columns=claims.COLUMNS),
        "against_random": pd.DataFrame(
            files.round_floats(against_random), columns=random_choice.COLUMNS
        ),
    }


def all_claims(root: Path, config: dict) -> pd.DataFrame:
    """Every claim in every study of TRAINED, with its estimate and verdict."""
    tables = {study: judged(root, resolve_study(config, study))["claims"] for study in TRAINED}
    return pd.concat(tables, names=["study"]).reset_index("study").reset_index(drop=True)
