"""The LaTeX macros of a supplement's text: paragraphs, whose numbers keep their origins in the summary
tables, and the design of the study."""

import functools

from hardgrpo.analysis import formats, summaries
from hardgrpo.report import latex, paragraphs, registry
from hardgrpo.report.latex import escape
from hardgrpo.runtime import files

# {format: function from the values of a row's columns to text}
FORMATS = {
    "points": formats.points,
    "gain": formats.signed_interval,
    "interval": formats.with_interval,
    # follows the letter p: "=0.012" or "<0.001"
    "p": lambda value: ("=" if value >= 0.001 else "") + formats.probability(value),
    "count": lambda value: f"{value:.0f}",
    # a part of a gain, rounded so that the rounded parts add up to the rounded gain
    **{f"part {index + 1}": functools.partial(formats.rounded_part, index) for index in range(3)},
}
PARAGRAPHS = {  # macro: function of paragraphs.py
    "verdicts": "judged",
    "made.of": "made_of",
    "overlaps": "overlaps",
    "unsolved": "unsolved",
    "trajectories": "followed",
}
ORIGIN = ["key", "text", "table", "line", "columns", "written"]


def format_values(form: str, *values) -> str:
    return escape(*values) if form == "text" else latex.number(FORMATS[form](*values))


class Numbers:
    """The summary tables (`tables`), and the origin of each number that a paragraph prints
    (`origins`)."""

    def __init__(self, tables: files.Tables, first_recipe: str):
        self.origins: dict[str, dict] = {}
        self.tables = {}
        frames = summaries.read_all(tables, registry.NUMBERED, first_recipe)
        for name, frame in frames.items():
            self.tables[name] = frame.assign(line=range(2, len(frame) + 2))

    def add(self, key: str, table: str, row, columns: list[str], form: str) -> str:
        """The text of a number of a row of a table. `key` names the number."""
        text = format_values(form, *(getattr(row, column) for column in columns))
        origin = (key, text, table, row.line, " ".join(columns), form)
        self.origins[key] = dict(zip(ORIGIN, origin))
        return text


def texts(numbers: Numbers, study: dict) -> dict[str, str]:
    """{macro: paragraph}."""
    return {
        "abstract": paragraphs.abstract(numbers, study),
        "gains": paragraphs.gains(numbers),
        **{key: getattr(paragraphs, name)(numbers) for key, name in PARAGRAPHS.items()},
    }


def design(study: dict) -> dict[str, str]:
    """{macro: text} of a study's design (designs.design)."""
    recipe = study["recipe"]
    return {
        "title": escape(study["title"]),
        "study": escape(study["study"]),
        "models": escape(", ".join(study["models"])),
        "tasks": escape(", ".join(study["tasks"])),
        "policies": escape(", ".join(study["policies"])),
        "seeds": str(study["seeds"]),
        "budget": " to ".join(f"{100 * budget:g}" for budget in study["budgets"]) + r"\,\%"
        if study["budgets"]
        else "",
        "probe.samples": str(study["probe_samples"] or ""),
        "test.samples": str(study["test_samples"] or ""),
        "test.greedy": "yes" if study["greedy"] else "",
        "origins": escape("; ".join(study["origins"])),
        "chosen.from": ", ".join(map(str, study["chosen_from"])),
        "limits": escape(
            ", ".join([f"{tokens} ({task})" for task, tokens in study["completion_tokens"].items()])
        ),
        "held": escape(", ".join([name.replace("_", " ") for name in study["held_constant"]])),
        "pretrained": "yes" if study["pretrained"] else "",
        "own.bases": "yes" if study["own_bases"] else "",
        "shared.bases": "" if study["own_bases"] else "yes",
        "other.recipes": escape(
            "; ".join(
                f"{name}: {describe_settings(differences)}"
                for name, differences in study["other_recipes"].items()
            )
        ),
        "recorded": "" if recipe or study["chosen_from"] else "yes",
    } | {f"recipe.{key}": escape(value) for key, value in recipe.items()}


def describe_settings(settings: dict) -> str:
    """{'loss': 'dr_grpo', 'adapter': {'rank': 8}} -> 'loss dr_grpo, adapter (rank 8)'. Keys with
    the value None (the recipe has no such setting) are omitted."""
    words = {
        key: f"({describe_settings(value)})" if isinstance(value, dict) else value
        for key, value in settings.items()
        if value is not None
    }
    return ", ".join([f"{key.replace('_', ' ')} {value}" for key, value in words.items()])
