"""Fuzzing targets: config.yaml with hostile entries, by section. Planning must not fail for a
configuration that passes the checks."""

import copy
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

import project_config
from fuzzing import mutations
from fuzzing.judge import UserError
from hardgrpo.planning import label_counts, power
from hardgrpo.report import conditions
from hardgrpo.runtime import files
from hardgrpo.study import checks, claim_conditions, paths
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.workflow.names import Names

ROOT = Path(__file__).parents[2]
CONFIG = project_config.config()
SECTIONS = ("tasks", "models", "policies", "recipes", "studies")


@dataclass(frozen=True)
class Target:
    section: str | None  # None: the keys outside of sections
    after: Callable[[dict, Path], None]
    share: float = 1.0

    def run(self, rng: random.Random, folder: Path) -> None:
        config = draw_config(rng, self.section)
        checks.check(config, "config.yaml")
        self.after(config, folder)


def draw_config(rng: random.Random, section: str | None) -> dict:
    """The configuration with one or two changes in a section, or in the keys outside of
    sections."""
    config = copy.deepcopy(CONFIG)
    for _ in range(rng.choice((1, 1, 2))):
        if section is None:
            outside = {key: value for key, value in config.items() if key not in SECTIONS}
            config = {key: config[key] for key in SECTIONS} | mutations.changed(rng, outside)
        else:
            name = rng.choice(list(config[section]))
            entry = {name: config[section].pop(name)}
            config[section] |= (
                likely(rng, entry, config[section])
                if rng.random() < 0.5
                else mutations.changed(rng, entry)
            )
    return config


def likely(rng: random.Random, entry: dict, other_entries: dict) -> dict:
    """The entry with one value replaced by a value that may be valid: the value at the same place
    in another entry, or an integer computed from the old integer. A value of another type may stay
    unchanged."""
    parent, path = entry, rng.choice(mutations.places(entry))
    other_value = rng.choice(list(other_entries.values()))
    for key in path[:-1]:
        parent = parent[key]
    for key in path[1:]:
        other_value = other_value.get(key) if isinstance(other_value, dict) else None
    old = parent[path[-1]]
    near = rng.choice((old + 1, old // 2, old * 3)) if isinstance(old, int) else old
    parent[path[-1]] = (
        near if other_value is None or rng.random() < 0.3 else copy.deepcopy(other_value)
    )
    return entry


def planned(config: dict, folder: Path) -> None:
    """Plan everything that depends on the configuration alone: files, runs, labels, power, the
    paper's text."""
    studies = resolve_studies(config)
    for study in studies.values():
        assert len({run.path for run in study.runs}) == len(study.runs)
        planned_files = [
            *paths.results(study),
            *paths.inputs(study, studies.values()),
            *paths.prunings(study, studies.values()),
        ]
        assert all(
            isinstance(path, str) and path and path.isprintable() and ".." not in path.split("/")
            for path in planned_files
        ), planned_files
        json.dumps([paths.study_part(study), claim_conditions.conditions(study)])
        for fact in (
            conditions.tests,
            conditions.budget_lines,
            conditions.limits,
            conditions.has_reach,
            conditions.is_compared,
        ):
            fact(study)
        label_counts.planned_labels(study)
        power.detectable_effects(study)
    checked = Configuration.of(config)
    Names(checked, studies)
    paths.chosen_rows(checked.subset, checked)


def dry_run(config: dict, folder: Path) -> None:
    """Let Snakemake plan target `all`. If Snakemake refuses the configuration, raise a `UserError`
    with the last line of its output."""
    for name in ("Snakefile", "rules", "scripts", "src", "laptop", "envs", "inputs.lock", "paper"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "results").mkdir()
    for name in ("published", "reference"):
        (folder / "results" / name).symlink_to(ROOT / "results" / name)
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "-n",
        "--profile",
        "laptop",
        "--cores",
        "1",
        "--quiet",
        "all",
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"HARDGRPO_WARM": "off"},
    )
    output = done.stdout + done.stderr
    assert "Traceback" not in output and "Error in" not in output, output[-1500:]
    if done.returncode:
        raise UserError(output.strip().splitlines()[-1])


class Text:
    """The target that mutates the text of config.yaml. The project's own reader reads the text;
    Snakemake does not run."""

    share = 0.5

    def run(self, rng: random.Random, folder: Path) -> None:
        (folder / "config.yaml").write_bytes(
            mutations.mutated(rng, yaml.safe_dump(SMALL, sort_keys=False).encode(), "yaml")
        )
        config = files.read_yaml(folder / "config.yaml")
        if not isinstance(config, dict):
            raise UserError("Snakemake refuses a configuration that is not a mapping")
        checks.check(config, "config.yaml")


SMALL_ENTRIES = {
    "models": ["tiny"],
    "tasks": ["swaps"],
    "policies": ["hard", "random"],
    "recipes": ["mini"],
    "studies": ["mini"],
}
SMALL = CONFIG | {
    section: {name: CONFIG[section][name] for name in names}
    for section, names in SMALL_ENTRIES.items()
}

TARGETS = {
    "outside of sections": Target(None, planned),
    **{section: Target(section, planned, share=2.0) for section in SECTIONS},
    "planned by Snakemake": Target("studies", dry_run, share=0.1),
    "text of the file": Text(),
}
