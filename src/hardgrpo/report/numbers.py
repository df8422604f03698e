"""The LaTeX macros of the paper's text: numbers of the summary tables, each with its origin,
paragraphs, and the design of the study."""

import functools

from hardgrpo.analysis import formats, summaries
from hardgrpo.analysis.columns import interval
from hardgrpo.report import latex, paragraphs, registry
from hardgrpo.report.latex import escape
from hardgrpo.report.paragraphs import cell
from hardgrpo.runtime import files

# {format: function from the values of a row's columns to text}
FORMATS = {
    "points": formats.points,
    "gain": formats.signed_interval,
    "interval": formats.with_interval,
    "r squared": "{:.2f}".format,
    "slope": formats.hundredths,  # points of lead per point of the predictor
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
    "leads": "leads",
    "explained": "explained",
    "elsewhere": "elsewhere",
    "unsolved": "unsolved",
    "trajectories": "followed",
}
ORIGIN = ["key", "text", "table", "line", "columns", "written"]


def format_values(form: str, *values) -> str:
    return escape(*values) if form == "text" else latex.number(FORMATS[form](*values))


class Numbers:
    """The text of each macro (`values`), its origin (`origins`), and the summary tables
    (`tables`)."""

    def __init__(self, tables: files.Tables, first_recipe: str):
        self.values: dict[str, str] = {}
        self.origins: list[dict] = []
        self.tables = {}
        frames = summaries.read_all(tables, registry.NUMBERED, first_recipe)
        for name, frame in frames.items():
            self.tables[name] = frame.assign(line=range(2, len(frame) + 2))

    def define(self, key: str, text: str, *origin) -> str:
        """Define a macro and return the LaTeX that uses it. `origin`: table, line, columns,
        format."""
        self.values[key] = text
        self.origins.append(dict.fromkeys(ORIGIN, "") | dict(zip(ORIGIN, (key, text, *origin))))
        return rf"\result{{{key}}}"

    def add(self, key: str, table: str, row, columns: list[str], form: str) -> str:
        """Define a macro from a row of a table, unless the macro exists, and return the LaTeX that
        uses it."""
        if key in self.values:
            return rf"\result{{{key}}}"
        text = format_values(form, *(getattr(row, column) for column in columns))
        return self.define(key, text, table, row.line, " ".join(columns), form)


def texts(numbers: Numbers, study: dict) -> dict[str, str]:
    """{macro: paragraph}."""
    return {
        "abstract": paragraphs.abstract(numbers, study),
        "gains": paragraphs.gains(numbers),
        "limits.compared": paragraphs.limits_compared(numbers, study["cut_from"]),
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


def define(numbers: Numbers) -> None:
    """Define a macro for each number of the summary tables that a text may quote by its key. The
    functions of `paragraphs` define further macros."""
    tables, add = numbers.tables, numbers.add
    for row in tables["gains"].itertuples():
        key = f"{cell(row)}.{row.decoding}"
        base = f"{row.model}.{row.eval_task}.{row.decoding}"
        add(f"gain.{key}", "gains", row, interval("gain"), "gain")
        add(f"base.{base}", "gains", row, ["base_accuracy"], "points")
        add(f"detectable.{key}", "gains", row, ["mdd"], "points")
    for row in tables["differences"].itertuples():
        key, test = f"{cell(row)}.{row.minus_arm}", f"{row.model}.{row.task}.{row.eval_task}"
        add(f"difference.{key}", "differences", row, interval("difference"), "gain")
        add(f"detectable.difference.{test}", "differences", row, ["mdd"], "points")
    for row in tables["learnable"].itertuples():
        key = f"{row.model}.{row.task}.{row.arm}"
        add(f"learnable.{key}", "learnable", row, interval("learnable"), "interval")
    for row in tables["parts"].itertuples():
        for part in ("finishing", "correctness"):
            add(f"{part}.{cell(row)}", "parts", row, interval(part), "gain")
        for name in ("base_answered", "answered", "base_accuracy"):
            add(f"{name.replace('_', '.')}.{cell(row)}", "parts", row, [name], "points")
    for row in tables["subsets"].itertuples():
        key = f"{row.model}.{row.task}.{row.policy}"
        add(f"zero.{key}", "subsets", row, ["zero_share"], "points")
        add(f"tied.{key}", "subsets", row, ["tied"], "count")
    trajectories = tables["trajectories"]
    is_whole_run = trajectories.stretch.isna()
    for row in trajectories[is_whole_run].itertuples():
        key = f"{row.model}.{row.task}.{row.policy}"
        for name in ("mixed", "all_right", "all_wrong"):
            macro = f"{name.replace('_', '.')}.{key}"
            add(macro, "trajectories", row, interval(name), "interval")
        add(f"never.solved.{key}", "trajectories", row, ["never_solved"], "points")
    for row in trajectories[~is_whole_run].itertuples():
        key = f"{row.model}.{row.task}.{row.policy}"
        if row.begin == 0:
            add(f"mixed.first.{key}", "trajectories", row, interval("mixed"), "interval")
        if row.end == 1:
            add(f"mixed.last.{key}", "trajectories", row, interval("mixed"), "interval")
