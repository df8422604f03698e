"""The committed summaries of the studies that the pages show, and the claims of these studies."""

from hardgrpo.analysis import claims, published, random_choice, summaries
from hardgrpo.report import registry
from hardgrpo.runtime import files
from hardgrpo.study import claim_conditions, designs, paths
from hardgrpo.study.resolved import ResolvedStudy
from hardgrpo.study.strict import plain

from pathlib import Path

import pandas as pd

REFERENCE, TRUNCATION, VARIANTS = "mini_reference", "mini_truncation", "mini_variants"
CONFIRM, LABELS, ONLINE, RATES = "mini_confirm", "mini_labels", "mini_online", "mini_rates"
REAL = "small_real"
TRAINED = (REFERENCE, CONFIRM, TRUNCATION, VARIANTS, LABELS, ONLINE, RATES, REAL)
RECORDINGS, TRAJECTORIES = "recordings", "trajectories"
NAMES = ("gains", "differences", "learnable", "parts", "subsets", "kinds", "lead_regressions")


def read(root: Path, study: str, *further_names: str) -> dict[str, pd.DataFrame]:
    """Committed tables by name. A table without rows has no file."""
    tables = {
        name: root / paths.reference(study) / f"{name}.csv" for name in (*NAMES, *further_names)
    }
    return {
        name: pd.read_csv(path) if path.exists() else summaries.empty(name)
        for name, path in tables.items()
    }


def judged(root: Path, study: ResolvedStudy) -> dict[str, pd.DataFrame]:
    """The tables `claims`, `compared` and `against_random` that scripts/summaries/judge_claims.py
    writes."""
    conditions = claim_conditions.conditions(study)
    names = dict.fromkeys([*claims.TABLES, *published.TABLES])
    tables = summaries.read_tables(
        files.Tables.below(root / paths.reference(study.name)), names, conditions["first_recipe"]
    )
    folder = root / paths.PUBLISHED
    listed_claims = claims.read(root / "paper/claims.yaml")
    judged_study = claims.Study(tables, **conditions)
    rows = {
        "claims": claims.judge(listed_claims, judged_study),
        "against_random": claims.against_random(
            listed_claims,
            judged_study,
            study.name,
            plain(study.policies),
            designs.names_of_ways(study.policies, study.recipes),
            others=pd.read_csv(root / registry.COMPARISONS),
        ),
        "compared": published.compare(
            tables, published.read(folder), published.read_readings(folder)
        ),
    }
    columns = {
        "claims": claims.COLUMNS,
        "against_random": random_choice.COLUMNS,
        "compared": published.COMPARED,
    }
    return {
        name: pd.DataFrame(files.round_floats(rows[name]), columns=columns[name]) for name in rows
    }


def all_claims(root: Path, config: dict) -> pd.DataFrame:
    """Every claim in every study of TRAINED, with its estimate and verdict."""
    tables = {study: judged(root, ResolvedStudy.of(config, study))["claims"] for study in TRAINED}
    return pd.concat(tables, names=["study"]).reset_index("study").reset_index(drop=True)
