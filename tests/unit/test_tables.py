"""Tables of the supplements: entries of the registry fit their functions, LaTeX and HTML have the
same content, and a value is marked as best only if it differs significantly from all smaller
values."""

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import project_config
from conftest import ROOT
from hardgrpo.analysis import (
    claims,
    explanations,
    formats,
    published,
    summaries,
    summary_tables,
)
from hardgrpo.report import figures, latex, registry
from hardgrpo.report import tables as shown_tables
from hardgrpo.report.tables import Column
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import designs, paths
from hardgrpo.study.resolved import resolve_study
from summarize import Tables

CONFIG = project_config.config()
ALL_TABLES = {*registry.SUMMARIES, *registry.JUDGED}
SHARES = st.lists(st.floats(-0.5, 0.5), min_size=2, max_size=4)
SUPPLEMENT = (ROOT / "paper/supplement.tex.j2").read_text()


def test_every_entry_uses_existing_tables_and_its_function_accepts_the_tables():
    tables = summary_tables.all_tables()
    assert [name for name in registry.SUMMARIES if tables[name].kind is None] == registry.SUMMARIES
    counts = {name for names in registry.COUNT_TABLES.values() for name in names}
    assert tables.keys() == {*registry.SUMMARIES, *counts}
    inputs = Tables(project_config.study({"studies": {"s": {}}}, "s")).inputs
    for name in registry.SUMMARIES:
        assert {*tables[name].inputs} <= {*registry.SUMMARIES, *inputs}, name
        assert len(set(tables[name].columns)) == len(tables[name].columns), name
    for name, table in shown_tables.TABLES.items():
        assert table.source in {*ALL_TABLES, "deviations"}, name
    assert figures.ALL.keys() == registry.FIGURES.keys()


def test_every_summary_table_is_used():
    tables = summary_tables.all_tables()
    used = {name for table in tables.values() for name in table.inputs}
    used |= {name for figure in registry.FIGURES for name in figures.sources(figure)}
    used |= {table.source for table in shown_tables.TABLES.values()}
    used |= {*claims.TABLES, *published.TABLES}
    unused = set(registry.SUMMARIES) - used - set(re.findall(r'\brows\("(\w+)"', SUPPLEMENT))
    assert unused == {"decomposition_runs"}  # the agreement with the reference reads it


def test_each_table_and_figure_that_a_supplement_includes_or_references_is_in_the_registry():
    text = SUPPLEMENT[SUPPLEMENT.index(r"\begin{document}") :]
    for kind, entries in (("table", shown_tables.TABLES), ("figure", registry.FIGURES)):
        names = re.findall(
            rf"\\(?:result{kind}|see{kind})\{{(\w+)\}}|ref\{{{kind[:3]}:(\w+)\}}", text
        )
        assert {name for pair in names for name in pair if name} <= entries.keys()
        assert names


# --- cells


def test_a_cell_has_the_same_text_in_latex_and_html():
    for cell, tex, page in [
        ("a_b & 5 %", r"a\_b \& 5 \%", "a_b &amp; 5 %"),
        ("mean p̂", r"mean $\hat p$", "mean p̂"),
        ("a<b>c", "a<b>c", "a&lt;b&gt;c"),
    ]:
        assert latex.escape(cell) == tex
        assert f"<td>{page}</td>" in shown_tables.to_html("t", [Column("x", [cell])])
    assert latex.number(formats.signed_interval(-0.031, -0.05, 0.001)) == "$-$3.1 [$-$5.0, 0.1]"
    assert latex.number("<0.001") == "$<$0.001"
    assert latex.number(formats.integer(1234)) == r"1\,234"


@pytest.mark.parametrize(
    ("share", "points", "signed", "change"),
    [
        (0.0312, "3.1", "+3.1", "+3.1"),
        (-0.0312, "−3.1", "−3.1", "-3.1"),
        (-0.0001, "0.0", "0.0", "+0.0"),
        (None, "–", "–", "–"),
    ],
)
def test_shares_are_formatted_in_percentage_points(share, points, signed, change):
    assert (formats.points(share), formats.signed(share), formats.change(share)) == (
        points,
        signed,
        change,
    )
    assert formats.with_interval(share, float("nan"), 0.1) == points


@given(SHARES)
def test_parts_as_printed_add_up_to_the_gain_as_printed(parts):
    printed_parts = formats.round_parts(sum(parts), parts)
    printed = lambda share: round(10 * float(formats.points(share).replace("\N{MINUS SIGN}", "-")))
    assert sum(map(printed, printed_parts)) == printed(sum(parts))
    assert all(
        abs(shown_part - part) < 0.001 + 1e-9 for shown_part, part in zip(printed_parts, parts)
    )


def test_an_interval_without_width_is_not_shown():
    assert (
        formats.with_interval(0.0, 0.0, 0.0) == "0.0"
        and formats.change_interval(0.0, 0.0, 0.0) == "+0.0"
    )
    assert formats.with_interval(0.031, 0.012, 0.05) == "3.1 [1.2, 5.0]"
    assert formats.change_interval(0.031, None, None) == "+3.1"


def test_a_slope_is_printed_with_its_interval_if_it_has_one():
    assert formats.hundredths(0.612, 0.2, 0.8) == "0.61 [0.20, 0.80]"
    assert formats.hundredths(0.612) == formats.hundredths(0.612, np.nan, np.nan) == "0.61"


def test_half_a_tenth_is_rounded_equally_by_numpy_and_python():
    """NumPy rounds 0.0095 (0.95 points) to 1.0 points, Python to 0.9 points. Without `points`, a
    text and a table could print different gains for the same row."""
    for share in (n / 20_000 for n in range(-2_000, 2_000)):
        assert formats.points(np.float64(share)) == formats.points(share)
        printed_parts = formats.round_parts(np.float64(share), [share / 3, 2 * share / 3])
        printed = [
            round(10 * float(formats.points(part).replace("\N{MINUS SIGN}", "-")))
            for part in (*printed_parts, share)
        ]
        assert sum(printed[:-1]) == printed[-1], share


def test_constant_columns_are_in_the_caption_of_a_table_and_in_each_row_of_a_page():
    columns = [Column("model", ["m_1"] * 3), Column("x", ["+1", "2", "3"], is_number=True)]
    text = shown_tables.to_latex(columns)
    assert r"model: m\_1." in text and "model &" not in text and text.count("\\\\") >= 4
    assert shown_tables.to_latex([Column("x", [])]) == ""
    html = shown_tables.to_html("t & u", columns)
    assert html.count("<td") == 6 and html.count("m_1") == 3 and "<h1>t &amp; u</h1>" in html
    caption = r"Gain of~\cite{a2025} \texttt{hard} \& \emph{out}, pass@$k$, 95\,\% intervals, percentage points."
    plain_caption = "Gain of hard & out, pass@k, 95 % intervals, percentage points."
    assert shown_tables.plain_text(caption) == plain_caption
    assert plain_caption.replace("&", "&amp;") in shown_tables.to_html("t", columns, caption)


def test_the_table_of_lead_regressions_names_the_model_of_each_row():
    row = {"task": "t", "eval_task": "t", "minus": "random", "predictor": "base_accuracy"}
    row |= {"points": 10, "p": 0.02}
    for name in ("slope", "r_squared"):
        row |= {name: 0.4, f"{name}_low": 0.1, f"{name}_high": 0.8}
    for models, expected in (
        (["a", "b"], ["a", "b"]),
        (["a", None], ["a", explanations.OTHER_MODELS]),
        ([None], None),  # each point of the regression is a base model
    ):
        rows = pd.DataFrame([row | {"model": model} for model in models])
        _, columns = shown_tables.make("lead_regressions", {"lead_regressions": rows}, {})
        cells = {column.header: column.cells for column in columns}
        assert cells.get("model") == expected and cells["base models"][0] == "10"


# --- the tables of the committed studies


@pytest.mark.parametrize(
    "study", [path.parent.name for path in sorted(ROOT.glob("results/reference/*/gains.csv"))]
)
def test_tables_of_committed_studies_have_no_nan_no_hyphen_as_minus_and_no_constant_column(study):
    for name, columns in tables_of(study):
        text = shown_tables.to_latex(columns)
        assert "nan" not in re.sub(r"[a-z_]*nan[a-z_]+|[a-z_]+nan[a-z_]*", "", text), name
        numbers_shown = [cell for column in columns if column.is_number for cell in column.cells]
        wrong = [cell for cell in numbers_shown if re.search(r"(?<![\w.])-\.?\d", cell)]
        assert not wrong, f"{name}: a hyphen stands for a minus sign in {wrong[0]}"
        constant = [
            column.header
            for column in shown_tables.printed_columns(columns)[1]
            if len(column.cells) > 2 and len(set(column.cells)) == 1
        ]
        assert len(columns[0].cells) > shown_tables.MOST_ROWS or not constant, (
            f"{name}: constant columns: {constant}"
        )


def tables_of(study: str) -> Iterator[tuple[str, list[Column]]]:
    """(name, columns) of each table that can be made from a study's committed summaries."""
    design = designs.design(resolve_study(CONFIG, study))
    tables = files.Tables.below(ROOT / paths.reference(study))
    frames = summaries.read_all(tables, registry.SUMMARIES, design["first_recipe"])
    frames["compared"] = pd.DataFrame(columns=published.COMPARED)
    for name, table in shown_tables.TABLES.items():
        if table.source in registry.SUMMARIES:
            yield name, shown_tables.make(name, frames, design)[1]


def test_a_committed_table_without_a_file_is_empty_and_other_missing_tables_are_errors(tmp_path):
    committed, computed = (tmp_path / "results" / kind / "s" for kind in ("reference", "summaries"))
    for folder in (committed, computed):
        folder.mkdir(parents=True)
        (folder / "gains.csv").write_text("model\nm\n")
    columns = summary_tables.all_tables()["parts"].columns
    frame = summaries.read_all(files.Tables.below(committed), ["parts"], "")["parts"]
    assert frame.empty and list(frame.columns) == [*columns, "arm"]
    assert summaries.read_tables(files.Tables.below(committed), ["parts"], "") == {"parts": []}
    for folder, name in ((computed, "parts"), (committed, "claims")):
        with pytest.raises(UserError, match=f"table {name} is not given"):
            summaries.read_all(files.Tables.below(folder), [name], "")
