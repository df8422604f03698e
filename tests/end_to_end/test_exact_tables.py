"""Summaries, verdicts, shown tables and drawn rows of figures of made-up studies have the committed
checksums. A line of exact_tables.sha256 that differs names the table that changed.

    HARDGRPO_WRITE=1 pytest tests/end_to_end/test_exact_tables.py   # after a change that is meant
"""

import copy
import hashlib
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

import invariants
import made_up_study
import project_config
from conftest import LONG_LIMIT, ROOT
from hardgrpo.report import registry
from hardgrpo.study import paths
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_study
from hardgrpo.study.study import Study
from hardgrpo.workflow.arguments import Arguments
from hardgrpo.workflow.names import Names
from in_process import run_program

EXPECTED = ROOT / "tests/end_to_end/exact_tables.sha256"
# Replicates with base models of their own, two tests with tiers, greedy and reach samples, a policy
# by a signal, and a recipe with a selector.
MADE_UP = {
    "title": "Made up",
    "question": "Does the code compute the same tables?",
    "models": ["tiny", "misled"],
    "tasks": ["swaps", "arithmetic"],
    "arms": [
        {"policy": ["random", "hard"], "recipe": "mini_curve", "models": "tiny"},
        {
            "policy": "all",
            "recipe": ["mini_curve", "mini_dynamic"],
            "models": "tiny",
            "tasks": "swaps",
        },
        {
            "policy": ["agreement_lowest", "hard"],
            "recipe": "mini_curve",
            "models": "misled",
            "tasks": "arithmetic",
        },
    ],
    "seeds": [0, 1, 2],
}
RECORDED = ["shuffled_objects_seven"]
STUDIES = ("made_up", "recordings", "trajectories")


def write_tables(name: str, config: dict, arguments: Arguments, study: Study) -> None:
    """Run the programs from the summaries to the tables and figures of a study, as the rules do."""
    made_up_study.write(study, config)
    wildcards = SimpleNamespace(study=name)
    run_program(
        "summarize",
        study=name,
        config=arguments.study(wildcards),
        output=f"{name}/summaries",
    )
    assert invariants.faults(Path(f"{name}/summaries")) == []
    run_program(
        "judge_claims",
        tables=sorted(Path(f"{name}/summaries").iterdir()),
        claims=ROOT / "paper/claims.yaml",
        published=paths.PUBLISHED,
        conditions=arguments.conditions(wildcards),
        study=name,
        policies=arguments.compared_policies(wildcards),
        comparisons=ROOT / registry.COMPARISONS,
        output=f"{name}/verdicts",
    )
    tables = [*Path(f"{name}/summaries").iterdir(), *Path(f"{name}/verdicts").iterdir()]
    tables.append(f"{paths.PUBLISHED}/deviations.csv")
    run_program(
        "write_supplement",
        text=ROOT / "paper/supplement.tex.j2",
        design=arguments.design(wildcards),
        tables=tables,
        output=name,
    )
    run_program(
        "draw_figures",
        study=name,
        config=arguments.study(wildcards),
        tables=tables,
        output=f"{name}/figures",
    )


def checksums() -> str:
    """A line for each table: the checksum of the table's files of all studies."""
    contents: dict[str, bytes] = {}
    for path in sorted(Path().glob("*/*/*.*")):
        if path.parts[0] != "results" and path.suffix not in (".pdf", ".png"):
            table = f"{path.parts[1]}/{path.stem}"
            contents[table] = contents.get(table, b"") + path.read_bytes()
    lines = [
        f"{hashlib.sha256(text).hexdigest()[:16]}  {table}" for table, text in contents.items()
    ]
    return "".join(f"{line}\n" for line in sorted(lines, key=lambda line: line.split()[1]))


@pytest.mark.slow
@pytest.mark.timeout(LONG_LIMIT)
def test_the_tables_of_made_up_studies_have_the_committed_checksums(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    Path(paths.PUBLISHED).symlink_to(ROOT / paths.PUBLISHED)
    config = copy.deepcopy(project_config.config())
    config["studies"]["made_up"] = MADE_UP
    config["studies"]["recordings"] |= {"models": ["qwen3-4b-recorded"], "tasks": RECORDED}
    studies = {name: resolve_study(config, name) for name in STUDIES}
    checked = Configuration.of(config)
    arguments = Arguments(checked, studies, Names(checked, studies), None)
    for name, study in studies.items():
        write_tables(name, config, arguments, study)
    for name, analysis in config["analyses"].items():
        made_up_study.write_counts(paths.counts(name), analysis)
        part = json.dumps({"analyses": {name: analysis}})
        run_program("summarize", study=name, config=part, output=f"{name}/counts")
    if os.environ.get("HARDGRPO_WRITE"):
        EXPECTED.write_text(checksums())
    assert checksums().splitlines() == EXPECTED.read_text().splitlines()
