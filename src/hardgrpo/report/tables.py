"""The tables of the supplement, as data: TABLES. To add a table, add an entry.

An entry names the rows (`rows`) and the columns. A column is `NAME`, `NAME:FORMAT` or
`NAME:FORMAT = HEADER`; columns are separated by semicolons. `formats.FORMATS` and ARROWS list the
formats, HEADERS the usual headers. `display` adds columns that are shown but not written to the table's CSV file.
"""

import html
import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from hardgrpo.analysis import formats
from hardgrpo.analysis.columns import CELL, RUNS, interval
from hardgrpo.analysis.formats import UNKNOWN, points
from hardgrpo.analysis.summaries import own_test_rows, own_test_samples, with_several_tiers
from hardgrpo.report import latex
from hardgrpo.selection import policies
from hardgrpo.study.recipe import ADAM_BETA2

# --- one formatter

# {format: unit behind the header}
UNITS = {
    "signed": ", pp",
    "gain": ", pp [95\N{NARROW NO-BREAK SPACE}%]",
    "share": " [95\N{NARROW NO-BREAK SPACE}%]",
}
# {format of a value before and after training: format of the two values}
ARROWS = {"arrow": "points", "arrow_count": "count"}


def cell_text(row: dict, name: str, form: str) -> str:
    """A cell of a column in a format of `formats.FORMATS` or of ARROWS; `number`: a number that is
    already formatted."""
    if form == "number":
        return row[name]
    if form in ARROWS:
        return " → ".join(cell_text(row, side, ARROWS[form]) for side in (f"before {name}", name))
    endings, show = formats.FORMATS[form]
    is_unknown = form != "text" and pd.isna(row[name])
    return UNKNOWN if is_unknown else show(*(row[f"{name}{ending}"] for ending in endings))


HEADERS = {
    "arm": "policy",
    "base_accuracy": "base %",
    "completion_tokens": "limit, tokens",
    "eval_task": "tested on",
    "mdd": "detectable, pp",
    "minus_arm": "minus",
    "out_of_reach": "out %",
    "p_holm": "p (Holm)",
    "problems": "n",
}


@dataclass(frozen=True)
class Column:
    """`width`: a share of the line if the text wraps, else 0. `is_design`: whether the cells are
    names or counts, which describe the design, not results."""

    header: str
    cells: list[str]
    is_number: bool = False
    width: float = 0.0
    is_design: bool = False


@dataclass(frozen=True)
class Table:
    """`source` is the summary table of the rows. `rows` maps (summary tables by name, design of the
    study) to the rows; None: all rows of the source. `caption` is LaTeX."""

    source: str
    columns: str
    caption: str
    rows: Callable[[Mapping, dict], pd.DataFrame] | None = None
    display: Callable[[pd.DataFrame, Mapping], pd.DataFrame] | None = None


def make(name: str, tables: Mapping, study: dict) -> tuple[pd.DataFrame, list[Column]]:
    """(rows for the CSV, columns to show) of a table of the supplement. `tables` holds the summary
    tables by name, `study` is the study's design (designs.design)."""
    table = TABLES[name]
    frame = table.rows(tables, study) if table.rows else tables[table.source]
    shown = table.display(frame, tables) if table.display else frame
    columns = [_parse(column) for column in table.columns.split(";")]
    names = [column for column, *_ in columns]
    rows = [_with_parts(row, names) for row in shown.to_dict("records")]
    made = [_column(rows, shown, *column) for column in columns if column[0] in shown]
    return frame, [column for column in made if column is not None]


def _parse(column: str) -> tuple[str, str, str]:
    """(name, format, header); the header is "" for the usual header."""
    column, _, header = column.partition("=")
    name, _, form = column.strip().partition(":")
    return name, form.strip() or "text", header.strip()


def _column(rows: list[dict], frame: pd.DataFrame, name: str, form: str, header: str):
    """A column; None if it would say nothing: a test that is always the task's own, or numbers that
    are all unknown."""
    if name == "eval_task" and not header and (frame.task == frame.eval_task).all():
        return None
    if name == "task" and not header:
        has_tests = "eval_task" in frame and (frame.task != frame.eval_task).any()
        header = "trained on" if has_tests else "task"
    if form.startswith("wrap"):  # text that wraps, with its width in per cent of the line
        return Column(header or name, [str(row[name]) for row in rows], width=int(form[4:]) / 100)
    cells = [cell_text(row, name, form) for row in rows]
    is_number = form != "text"
    if rows and is_number and not any(set(cell) - set(f"{UNKNOWN}→ ") for cell in cells):
        return None
    header = header or HEADERS.get(name, name.replace("_", " "))
    return Column(
        header + UNITS.get(form, ""), cells, is_number, is_design=form in ("text", "count")
    )


def _with_parts(row: dict, names: list[str]) -> dict:
    """A row in which the parts of a gain are rounded so that they add up to the gain, `before NAME`
    is the value before training, and a recorded model has the model's name."""
    kinds = [name for name in KINDS if name in names]
    if "gain" in names and "finishing" in kinds:
        rounded = formats.round_parts(row["gain"], [row[kind] for kind in kinds])
        row = row | dict(zip(kinds, rounded))
    before = {
        f"before {name.removeprefix('base_')}": row[name]
        for name in row
        if name.startswith("base_")
    }
    if "model" in row:
        row = row | {"model": str(row["model"]).removesuffix("-recorded")}
    return row | before


KINDS = ("finishing", "correctness", "sharpening", "new_solving")


# --- LaTeX, HTML and text

FEW = 3  # least number of rows for which equal cells become a note; fewer may be a coincidence
MOST_ROWS = 40  # largest number of rows of a table that is printed, about one page
TEXT_WIDTH = 455  # points


def to_latex(columns: list[Column]) -> str:
    r"""A booktabs longtable, which may break over pages; "" if there are no rows. The table has a
    caption if \tablecaption is defined. `printed_columns` says which columns move into the caption.
    A table of more than MOST_ROWS rows is not printed: \filedtable prints its number of rows.
    """
    if not columns or not columns[0].cells:
        return ""
    if len(columns[0].cells) > MOST_ROWS:
        return f"\\filedtable{{{len(columns[0].cells)}}}\n"
    notes, printed = printed_columns(columns)
    # The first columns name the row. In all of them but the last, a cell is left empty if it and
    # the cells to its left equal the cells above.
    is_name = lambda column: not column.is_number and not column.width
    names = len(list(itertools.takewhile(is_name, printed)))
    lines, previous = [], [None] * len(printed)
    for row in zip(*([_latex_cell(cell, column) for cell in column.cells] for column in printed)):
        equal = itertools.accumulate((a == b for a, b in zip(row, previous)), min)
        cells = zip(row, equal, itertools.count())
        lines.append(" & ".join("" if same and i < names - 1 else cell for cell, same, i in cells))
        previous = row
    # The part of a header after a comma ("gain, pp") is in a second row, which keeps columns narrow.
    heads = [latex.escape(column.header).partition(", ")[::2] for column in printed]
    head = " ".join(" & ".join(row) + r" \\" for row in zip(*heads) if any(row))
    note = f" {'; '.join(notes)}." if notes else ""
    alignments = [
        rf">{{\raggedright\arraybackslash}}p{{{column.width:.2f}\linewidth}}"
        if column.width
        else "lr"[column.is_number]
        for column in printed
    ]
    return "\n".join(
        [
            rf"\ifdefined\tablecaption{font_command(printed)}\fi",
            rf"\begin{{longtable}}{{@{{}}{''.join(alignments)}@{{}}}}",
            rf"\ifdefined\tablecaption\caption{{\tablecaption{{}}{note}}}\\\fi",
            rf"\toprule {head} \midrule\endfirsthead",
            rf"\toprule {head} \midrule\endhead",
            r"\bottomrule\endfoot",
            r"\bottomrule\endlastfoot",
            *(rf"{line} \\" for line in lines),
            r"\end{longtable}",
            "",
        ]
    )


def _latex_cell(cell: str, column: Column) -> str:
    text = (latex.number if column.is_number else latex.escape)(cell)
    # allow line breaks in long names
    return re.sub(r"(\\_|(?<=\w)-(?=\w))", r"\1\\allowbreak{}", text) if column.width else text


def printed_columns(columns: list[Column]) -> tuple[list[str], list[Column]]:
    """(notes for the caption, columns to print). A column whose cells are all equal becomes a note
    if it describes the design, or if the table has at least FEW rows."""
    is_constant = lambda column: (
        len(set(column.cells)) == 1 and (column.is_design or len(column.cells) >= FEW)
    )
    if all(map(is_constant, columns)):
        return [], columns
    notes = [
        f"{latex.escape(column.header)}: {_latex_cell(column.cells[0], column)}"
        for column in columns
        if is_constant(column) and column.cells[0]
    ]
    return notes, [column for column in columns if not is_constant(column)]


def font_command(columns: list[Column]) -> str:
    """The command of the largest font in which the estimated width of a table fits the paper's text
    width ("" for the usual font). If no font fits, `\\tiny` with less space between the columns."""
    # arrows are not counted, because the digits beside them are narrow
    length = lambda cell: len(cell.replace("→", ""))
    characters = sum(
        max(map(length, (column.header, *column.cells))) for column in columns if not column.width
    )
    space = TEXT_WIDTH * (1 - sum(column.width for column in columns)) - 7 * len(columns)
    fonts = {"": 4.6, r"\scriptsize": 4.0}  # mean width of a character, in points
    narrow = r"\tiny\setlength{\tabcolsep}{2.5pt}"
    return next((font for font, width in fonts.items() if characters * width <= space), narrow)


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 14px/1.4 system-ui, sans-serif; margin: 1.5em }} p {{ max-width: 60em }}
table {{ border-collapse: collapse }} th, td {{ padding: .2em .7em; vertical-align: top }}</style>
<h1>{title}</h1>
<p>{caption}</p>
{table}
"""
TEX = {  # {pattern of a command in a caption: its plain text}
    r"\\(?:emph|texttt|textbf)\{([^}]*)\}": r"\1",
    r"~?\\cite\{[^}]*\}": "",  # a page has no list of references
    r"\\,|~": " ",
    r"\$([^$]*)\$": r"\1",
    r"\\([%_&#$])": r"\1",
}


def to_html(title: str, columns: list[Column], caption: str = "") -> str:
    """The page of a table. `caption` is the table's caption in LaTeX."""
    table = to_frame(columns).to_html(index=False, border=0, justify="left")
    values = {"title": html.escape(title), "caption": html.escape(plain_text(caption))}
    return PAGE.format(table=table, **values)


def to_frame(columns: list[Column], are_constant_shown: bool = True) -> pd.DataFrame:
    """The cells as text, with or without columns that hold one value."""
    shown = [column for column in columns if are_constant_shown or len(set(column.cells)) > 1]
    frame = pd.DataFrame([column.cells for column in shown]).T
    return frame.set_axis([column.header for column in shown], axis=1)


def plain_text(caption: str) -> str:
    """A caption in which the commands of TEX are replaced by plain text."""
    for pattern, text in TEX.items():
        caption = re.sub(pattern, text, caption)
    return caption


# --- rows


def _other_tests(tables: Mapping, study: dict) -> pd.DataFrame:
    frame = tables["pass_at_k"]
    return frame[frame.task != frame.eval_task]


def _gains(tables: Mapping, study: dict) -> pd.DataFrame:
    return own_test_rows(tables["gains"]).sort_values("decoding", ascending=False, kind="stable")


def _published(quantity: str) -> Callable:
    """Add the rows' published numbers."""

    def display(frame: pd.DataFrame, tables: Mapping) -> pd.DataFrame:
        rows = tables["compared"][tables["compared"].quantity == quantity]
        published = {(r.model, r.task, r.policy): points(r.published) for r in rows.itertuples()}
        numbers = [published.get((r.model, r.task, r.arm), "") for r in frame.itertuples()]
        return frame.assign(published=numbers) if any(numbers) else frame

    return display


def _base_as(name: str, column: str = "base") -> Callable:
    """Name the column of the values before training after `name`, for the format `arrow`."""
    return lambda frame, tables: frame.assign(**{f"base_{name}": frame[column]})


def _several_tiers(tables: Mapping, study: dict) -> pd.DataFrame:
    return with_several_tiers(own_test_rows(tables["tiers"]))


def _kinds(tables: Mapping, study: dict) -> pd.DataFrame:
    frame = tables["kinds"]
    return frame[frame.tier.isna()]


def _graders(tables: Mapping, study: dict) -> pd.DataFrame:
    """Only arms whose gain depends on the grading."""
    frame = tables["decomposition"]
    return frame[frame.groupby(CELL).gain.transform("nunique") > 1]


def _one_seed(tables: Mapping, study: dict) -> pd.DataFrame:
    frame = tables["mcnemar"]
    return frame[frame.groupby(["model", "task"]).seed.transform("nunique") == 1]


def _leads(tables: Mapping, study: dict) -> pd.DataFrame:
    """A predictor that is the same for all base models has no slope."""
    return own_test_rows(tables["lead_regressions"]).dropna(subset=["slope"])


def _predictors(frame: pd.DataFrame, tables: Mapping) -> pd.DataFrame:
    # imported late: scipy loads slowly, and planning imports this module
    from hardgrpo.analysis.explanations import OTHER_MODELS, PREDICTORS

    shown = frame.assign(predictor=frame.predictor.map(PREDICTORS))
    if frame.model.isna().all():
        return shown.drop(columns="model")
    return shown.fillna({"model": OTHER_MODELS})


def _regressions(frame: pd.DataFrame, tables: Mapping) -> pd.DataFrame:
    words = {"learnable": "learnable share", "tokens": "mean length"}
    name = lambda value: UNKNOWN if pd.isna(value) else words.get(value, value)
    sign = lambda slope: UNKNOWN if pd.isna(slope) else "+" if slope > 0 else formats.MINUS
    return frame.assign(
        predictor=frame.predictor.map(name),
        adjusted_for=[name(value) for value in frame.adjusted_for],
        slope=[sign(slope) for slope in frame.slope],
    )


def _spent(tables: Mapping, study: dict) -> pd.DataFrame:
    """Training on worked solutions samples no tokens, so it has no gain per token."""
    gains = own_test_samples(tables["gains"])[[*RUNS, "gain"]]
    frame = tables["spent"].merge(gains, on=RUNS, how="left")
    millions = (frame.tokens / 1e6).where(frame.tokens > 0)
    return frame.assign(gain_per_million=frame.gain / millions)


def _spreads(frame: pd.DataFrame, tables: Mapping) -> pd.DataFrame:
    def spread(name: str, unit: float) -> list[str]:
        ends = zip(*(frame[f"{name}{end}"] / unit for end in ("", "_least", "_most")))
        return [
            UNKNOWN if pd.isna(mean) else f"{mean:.2g} ({least:.2g}\N{EN DASH}{most:.2g})"
            for mean, least, most in ends
        ]

    return frame.assign(tokens=spread("tokens", 1e6), seconds=spread("seconds", 60))


def _trajectories(tables: Mapping, study: dict) -> pd.DataFrame:
    frame, policy = tables["trajectories"], ["model", "task", "policy"]
    last = frame[(frame.end == 1) & frame.stretch.notna()][[*policy, *interval("pass_rate")]]
    names = dict(zip(interval("pass_rate"), interval("pass_rate_end")))
    return frame[frame.stretch.isna()].merge(last.rename(columns=names), on=policy)


RECORDED_KEYS = ["model", "task", "policy", "minus", "grading", "questions"]


def recorded_accuracies(recorded_runs: pd.DataFrame) -> pd.DataFrame:
    """The rows of accuracy. A published accuracy is left out if the table
    also has an accuracy that was graded here from the run's completions."""
    frame = recorded_runs[recorded_runs.measure == "accuracy"]
    graded = pd.MultiIndex.from_frame(frame[frame.grading == "task"][RECORDED_KEYS[:4]])
    has_completions = pd.MultiIndex.from_frame(frame[RECORDED_KEYS[:4]]).isin(graded)
    return frame[(frame.grading != "published") | ~has_completions].reset_index(drop=True)


def _recorded(tables: Mapping, study: dict) -> pd.DataFrame:
    return recorded_accuracies(tables["recorded_runs"])


def _compared(frame: pd.DataFrame, tables: Mapping) -> pd.DataFrame:
    quantity = [name.replace("_", " ") for name in frame.quantity]
    return frame.assign(quantity=quantity, here_low=frame.low, here_high=frame.high)


def _claims(frame: pd.DataFrame, tables: Mapping) -> pd.DataFrame:
    from hardgrpo.analysis.claims import LOG_ODDS  # imported late, as in `_predictors`

    tests = [
        task if test == task or pd.isna(test) else f"{task}, tested on {test}"
        for task, test in zip(frame.task, frame.eval_task)
    ]
    estimates = [
        (formats.hundredths if row.test.startswith(("R^2", LOG_ODDS)) else formats.with_interval)(
            row.estimate, row.low, row.high
        )
        for row in frame.itertuples()
    ]
    p_holm = [
        formats.probability(p) if primary else "" for p, primary in zip(frame.p_holm, frame.primary)
    ]
    words = [test.replace(" - ", f" {formats.MINUS} ").replace("R^2", "R²") for test in frame.test]
    shown = frame.assign(tested=tests, estimate=estimates, test=words, p_holm=p_holm)
    if frame.model.isna().all():
        return shown.drop(columns="model")
    return shown.fillna({"model": ""})


def _deviations(tables: Mapping, study: dict) -> pd.DataFrame:
    frame = tables["deviations"]
    return frame.assign(here=[own_setting(study, key) for key in frame.key])


def _minus_signs(frame: pd.DataFrame, tables: Mapping) -> pd.DataFrame:
    minus = lambda value: str(value).replace(" - ", f" {formats.MINUS} ")
    return frame.assign(
        **{name: frame[name].map(minus) for name in ("written", "july", "later", "here")}
    )


def own_setting(study: dict, key: str) -> str:
    """The study's setting for a key of `deviations.csv`, as text."""
    is_released = any(policies.RULES[rule].is_released for rule in study["rules"])
    limits = study["completion_tokens"].items()
    settings = {
        "ties": "the order of the dataset" if is_released else "broken at random, by the seed",
        "hardest": "sorted by pass rate" if is_released else "lowest pass rates",
        "middle": "the central ranks"
        if is_released
        else "nearest to the median, within the quartiles",
        "random": "shuffled by seed 42" if is_released else "by the seed",
        "pass_rates": "each replicate's own base model's"
        if study["own_bases"]
        else "the model's own",
        "prompts": "see the task in config/tasks.yaml",
        "test_questions": "the whole test set",
        "top_k": "none",
        "test_base": "as in training",
        "graded": "the completion alone",
        "seeds": f"{study['seeds']}",
        "fused": "on four matrices: q, k and v together, gate and up together, and two others",
        "graders": ", ".join(study["graders"]),
        "completion_tokens": ", ".join(f"{tokens} ({task})" for task, tokens in limits),
        "probe_samples": f"{study['probe_samples']}",
        "test_samples": f"mean of {study['test_samples']} at temperature 1, last checkpoint",
    }
    if pd.isna(key):
        return "see the task in config/tasks.yaml"
    if key in settings:
        return settings[key]
    if not study["recipe"]:
        return "not trained here"
    value = study["recipe"].get(key, ADAM_BETA2 if key == "adam_beta2" else None)
    if isinstance(value, dict):
        return ", ".join(
            f"{name} {entry if isinstance(entry, str) else f'{entry:g}'}"
            for name, entry in value.items()
        )
    return "none" if value is None else f"{value}"


# --- the tables

CELL_KEYS, ARM_KEYS = "model; task; eval_task; arm; ", "model; task; arm; "
POLICY_KEYS = "model; task; policy; "
SIZES = "; problems:count; seeds:count"
PARTS = "gain:signed; finishing:gain; correctness:gain"
KIND_PARTS = "out_of_reach:points; gain:signed; finishing:gain; sharpening:gain; new_solving:gain"

TABLES = {
    "gain": Table(
        "gains",
        "model; task; decoding; arm; base_accuracy:points; gain:gain; "
        f"published:number = published %; mdd:points{SIZES}",
        "Gain in accuracy over the base model, percentage points (pp).",
        rows=_gains,
        display=_published("gain"),
    ),
    "parts": Table(
        "parts",
        f"{CELL_KEYS}answered:arrow = answered, %; "
        f"accuracy_answered:arrow = right if answered, %; {PARTS}{SIZES}",
        "Every gain split into finishing and correctness, percentage points (pp).",
    ),
    "kinds": Table(
        "kinds",
        f"{CELL_KEYS}{KIND_PARTS}; greedy_gain:gain{SIZES}",
        r"Every gain split into finishing, sharpening and new solving, percentage points"
        r" (pp). A problem is out of reach if none of the base model's reach samples solves"
        r" it (\emph{out}: the share of these problems).",
        rows=_kinds,
    ),
    "reasons": Table(
        "reasons",
        f"{CELL_KEYS}sound_share:arrow = every step right, of right answers %; "
        "sound_gain:gain = gain, every step right; "
        f"lucky_gain:gain = gain, a step wrong{SIZES}",
        "Right answers in which every step is right, and right answers with a wrong step;"
        " gains in percentage points (pp).",
    ),
    "learnable": Table(
        "learnable",
        f"{ARM_KEYS}learnable:share = learnable %; published:number = published %; "
        "updates:count; seeds:count",
        "Learnable share: groups whose rewards differ, mean over all sampling steps.",
        display=_published("learnable"),
    ),
    "rollouts": Table(
        "rollouts",
        f"{ARM_KEYS}sampling_steps:count; updates:count; generated:count; kept:count; "
        "replayed:count; thrown_away:count; thrown_away_share:tenths = thrown away %; "
        "labels:count = prompts sampled; seeds:count",
        "Rollouts of runs that choose prompts during training, by arm, means over seeds:"
        " generated, kept for an update, replayed in a later update, thrown away. All"
        " sampling steps sample equally many rollouts; a step that keeps too few makes no"
        " update. Completions of the base model's probe, by which some policies choose, are"
        " not included.",
    ),
    "time_to_target": Table(
        "time_to_target",
        f"{ARM_KEYS}target:tenths = target accuracy %; minus_share:whole_percent = plain %; "
        "share:share = rollouts %; "
        "reached:whole_percent = target reached, % of bootstrap samples; seeds:count",
        r"The target is the final accuracy of GRPO with the study's first recipe on the same"
        r" prompts. Shown: the number of rollouts until an arm first reaches the target, in"
        r" per cent of the number until the first recipe reaches the target, with 95\,\%"
        r" bootstrap intervals for new seeds (given for six seeds or more). A dash: the arm"
        r" never reaches the target. The interval is missing if too many bootstrap samples"
        r" never reach the target. \emph{Plain}: the number of rollouts until the first"
        r" recipe first reaches the target, in per cent of all its rollouts.",
    ),
    "regressions": Table(
        "regressions",
        "task; predictor = gain explained by; adjusted_for; r_squared:two_decimals = R²; "
        "slope:number = sign of the slope; cells:count",
        "Gain explained by learnable share and by mean length, each alone and each adjusted"
        " for the other measure.",
        display=_regressions,
    ),
    "lead_regressions": Table(
        "lead_regressions",
        "model; task; minus = lead over; predictor = regressed on; "
        "slope:hundredths = slope, pp per pp [95 %]; r_squared:hundredths = R²; p:probability; "
        "points:count = base models",
        r"Regression of the lead of \texttt{hard} over another policy on measures of the"
        r" base model. The slope is in points of lead per point of the predictor; p-values"
        r" are not corrected for the number of regressions.",
        rows=_leads,
        display=_predictors,
    ),
    "out_of_distribution": Table(
        "pass_at_k",
        f"{CELL_KEYS}k:count; base:points = base pass@k %; pass:share = pass@k %; gain:gain{SIZES}",
        "pass@$k$ on test sets other than the task's own; pass@1 is the accuracy.",
        rows=_other_tests,
    ),
    "compared": Table(
        "compared",
        "model; eval_task = tested on; policy; quantity; place = from; "
        "published:share = published %; here:share = here %; seeds:count",
        "Published numbers and the same quantities in this study.",
        display=_compared,
    ),
    "differences": Table(
        "differences",
        f"{CELL_KEYS}minus_arm; difference:gain; mdd:points{SIZES}",
        "Differences between policies after training, paired by problem and seed,"
        " percentage points (pp).",
    ),
    "graders": Table(
        "decomposition",
        f"{CELL_KEYS}grading; truncated:arrow = truncated %; tokens:arrow_count; {PARTS}; "
        "seeds:count",
        r"Gains that differ between strict and lenient grading, and their parts, percentage"
        r" points (pp). In column \emph{grading}, \emph{task} is the task's own grading,"
        r" which gave the rewards in training. The truncated share and the mean length are"
        r" shown before and after training.",
        rows=_graders,
    ),
    "single_samples": Table(
        "mcnemar",
        "model; task; eval_task; decoding; arm; minus_arm; only_this:count = only this run; "
        "only_other:count = only other run; difference:signed; p:probability; "
        "p_holm:probability; problems:count",
        "McNemar's exact test with one completion per problem: problems that only the run"
        " of the row solves, and problems that only the run of the comparison solves.",
        rows=_one_seed,
    ),
    "tiers": Table(
        "tiers",
        f"{ARM_KEYS}tier; base_accuracy:points; accuracy:share = accuracy %; gain:gain{SIZES}",
        "Accuracy and gain by the tier of the test problem.",
        rows=_several_tiers,
    ),
    "subsets": Table(
        "subsets",
        f"{POLICY_KEYS}prompts:count; pool:count; mean_pass_rate:three_decimals = mean p̂; "
        "zero_share:points = p̂ = 0 %; held_out_pass_rate:three_decimals = held-out p̂; "
        "held_out_zero_share:points = held-out p̂ = 0 %; "
        "boundary_pass_rate:two_decimals = boundary p̂; tied:count = tied, at boundary; "
        "tied_chosen:count = chosen, of tied",
        "The subsets: mean pass rate, share never solved by the base model, and ties at the"
        " boundary of the choice.",
    ),
    "chosen": Table(
        "chosen",
        f"{POLICY_KEYS}prompts:count; pass_rate:points = right %; "
        "never_solved:points = never solved %; mixed:points = mixed %; "
        "confidently_wrong:points = confidently wrong %; samples:count = samples, per prompt; "
        "seeds:count",
        "Properties of the chosen prompts, measured by the reference answers and held-out"
        " samples: mean pass rate, share never solved, share whose samples are neither all"
        " right nor all wrong, and share on which the base model is confidently wrong (at"
        " least half of the samples give one answer, and at most a fifth is right), per"
        " cent.",
    ),
    "recorded": Table(
        "recorded_runs",
        "model; task; policy = run; minus; questions; grading; value:arrow = accuracy %; "
        "difference:gain; problems:count",
        r"Recorded runs of other authors, one run each: mean accuracy of the last five"
        r" checkpoints minus the accuracy of the base model (\emph{base}) or of another run,"
        r" percentage points (pp), on all test questions and on the questions with a pass"
        r" rate of the base model of at most 0.3 (\emph{hard}). The 95\,\% intervals are for"
        r" new questions and these runs; where only accuracies are published, the intervals"
        r" are the widest that are compatible with these accuracies. Gains on hard questions"
        r" include regression to the mean, because the base model's completions decide which"
        r" questions are hard.",
        rows=_recorded,
        display=_base_as("value", "minus_value"),
    ),
    "spent": Table(
        "spent",
        f"{ARM_KEYS}updates:count; prompts:count; rollouts:count; labels:count; "
        "completion_tokens:count; tokens:number = tokens, millions; seconds:number = minutes; "
        "gain:signed; gain_per_million:signed; seeds:count",
        "Cost of a run, by policy: means over seeds; for tokens and time, also the smallest"
        " and the largest value. Runs with the same recipe sample the same number of"
        " rollouts. The number of tokens differs, with a selector also the number of"
        " updates. Also shown: the gain and the gain per million sampled tokens. Training"
        " on worked solutions samples no tokens.",
        rows=_spent,
        display=_spreads,
    ),
    "trajectories": Table(
        "trajectories",
        f"{POLICY_KEYS}prompts:count; never_solved:points = never solved, in first epochs %; "
        "mixed:share = learnable %; all_right:share = all right %; "
        "all_wrong:share = all wrong %; pass_rate_end:share = right at the end %; "
        "seeds:count",
        r"Groups over the later epochs of a recorded training run, by policy, per cent;"
        r" \emph{end}: the last of ten (or fewer) equal stretches of these epochs. The"
        r" 95\,\% intervals are for new prompts in this one run.",
        rows=_trajectories,
    ),
    "claims": Table(
        "claims",
        "paper; model:wrap10; population:wrap10 = holds for; claim:wrap20; tested:wrap12 = on; "
        "test:wrap14 = estimate of; "
        "estimate:wrap13 = estimate, pp or R² [95\N{NARROW NO-BREAK SPACE}%]; p_holm:number; "
        "verdict:wrap10",
        r"The papers' claims. HE is Pikus et al.~\cite{pikus2025}, LDS is Yadav et"
        r" al.~\cite{yadav2026}, DAPO is Yu et al.~\cite{yu2025}, Sun is Sun et"
        r" al.~\cite{sun2025}. The first rows are the primary claims, one per paper or"
        r" question of this project, each named before any run of the study that decides it."
        r" Only primary claims get a verdict, after Holm's correction over the tasks; all"
        r" other rows are descriptive. Estimates are in points with 95\,\% intervals, except"
        r" $R^2$ and log odds.",
        display=_claims,
    ),
    "deviations": Table(
        "deviations",
        "what:wrap15; written:wrap19 = as written; july:wrap19 = code of July 2025; "
        "later:wrap19 = later code; here:wrap19 = run here",
        "What HE's authors wrote, what two states of their code do, and what ran here."
        " Sources are in the table's CSV.",
        rows=_deviations,
        display=_minus_signs,
    ),
}
