"""The table of docs/reproduce.md: every study, what it asks, its runs and whether its summaries are committed."""

import re
from pathlib import Path

from hardgrpo.study import paths, settings
from pages import results

# A study's name in config.yaml, and the comment on its line: what the study asks.
ASKED = re.compile(r"^  (\w+):(?: &\w+)? # (.+)$", re.MULTILINE)


def table(root: Path, config: dict) -> str:
    asked = dict(ASKED.findall((root / "config.yaml").read_text(encoding="utf-8").split("\nstudies:\n")[1]))
    lines = ["| study | title | what it asks | trains on | runs | summaries |", "|---|---|---|---|---|---|"]
    for name, study in config["studies"].items():
        committed = "committed" if (root / results.SUMMARIES / name / "gains.csv").is_file() else ""
        runs = len(paths.runs(config, name))
        lines.append(
            f"| `{name}` | {study['title']} | {asked.get(name, '')} | {trained_on(config, study)} | {runs} | {committed} |"
        )
    return "\n".join(lines)


def trained_on(config: dict, study: dict) -> str:
    """What hardware the runs of a study are trained on."""
    if not any(settings.has_weights(config, model) for model in study["models"]):
        return "nothing: recorded"
    return "GPUs" if any("gpus" in config["models"][model] for model in study["models"]) else "a CPU"
