"""Tables of the supplements: entries of the registry fit their functions, LaTeX and HTML have the
same content, and a value is marked as best only if it differs significantly from all smaller
values."""

import importlib
import inspect
import re
from collections.abc import Iterator

import pandas as pd
import pytest

import project_config
from conftest import ROOT
from hardgrpo.analysis import (
    claims,
    formats,
    hard_leads,
    published,
    summaries,
    summary_tables,
)
from hardgrpo.report import latex, registry, web
from hardgrpo.report.table_columns import Column, K, numbers, plain
from hardgrpo.report.tables import training
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import designs, paths
from hardgrpo.study.resolved import ResolvedStudy
from summarize import Tables

CONFIG = project_config.config()
ALL_TABLES = {*registry.SUMMARIES, *registry.JUDGED}


def test_every_entry_uses_existing_tables_and_its_function_accepts_the_tables():
    tables = summary_tables.all_tables()
    assert [name for name in registry.SUMMARIES if tables[name].kind is None] == registry.SUMMARIES
    counts = {name for names in registry.COUNT_TABLES.values() for name in names}
    assert tables.keys() == {*registry.SUMMARIES, *counts}
    inputs = Tables(ResolvedStudy.of({"studies": {"s": {}}}, "s"), []).inputs
    for name in registry.SUMMARIES:
        assert {*tables[name].inputs} <= {*registry.SUMMARIES, *inputs}, name
        assert len(set(tables[name].columns)) == len(tables[name].columns), name
    for name, entry in registry.TABLES.items():
        assert set(entry.of) <= {*ALL_TABLES, "deviations"}, name
        function = getattr(importlib.import_module(f"hardgrpo.report.tables.{entry.module}"), name)
        assert set(inspect.signature(function).parameters) == {
            *entry.of,
            *(["study"] if entry.design else []),
        }, name
    for name, entry in registry.FIGURES.items():
        assert set(entry.of) <= ALL_TABLES and set(entry.may_be_empty) <= set(entry.of), name
        function = importlib.import_module(f"hardgrpo.report.figures.{name}").draw
        assert set(entry.of) <= set(inspect.signature(function).parameters), name
    assert set(registry.NUMBERED) <= ALL_TABLES


def test_every_summary_table_is_used():
    tables = summary_tables.all_tables()
    used = {name for table in tables.values() for name in table.inputs}
    used |= {
        name
        for entries in (registry.TABLES, registry.FIGURES)
        for entry in entries.values()
        for name in entry.of
    }
    used |= {*claims.TABLES, *published.TABLES}
    # no table or figure uses these tables, but people and the agreement with the reference do
    read_by_people = {"decomposition_runs", "recorded_rates"}
    assert set(registry.SUMMARIES) - used - set(registry.NUMBERED) == read_by_people


def test_each_table_and_figure_that_a_supplement_includes_or_references_is_in_the_registry():
    text = (ROOT / "paper/supplement.tex").read_text()
    text = text[text.index(r"\begin{document}") :] + (ROOT / "paper/trajectory.tex").read_text()
    for kind, entries in (("table", registry.TABLES), ("figure", registry.FIGURES)):
        names = re.findall(
            rf"\\(?:result{kind}|see{kind})\{{(\w+)\}}|ref\{{{kind[:3]}:(\w+)\}}", text
        )
        assert {name for pair in names for name in pair if name} <= entries.keys()
        assert names


# --- cells


def test_a_cell_has_the_same_text_in_latex_and_html():
    for cell, tex, page in [
        ("a_b & 5 %", r"a\_b \& 5 \%", "a_b &amp; 5 %"),
        (("base pass@", K), "base pass@$k$", "base pass@<i>k</i>"),
        ("a<b>c", "a<b>c", "a&lt;b&gt;c"),
    ]:
        assert latex.render(cell) == tex and str(web.render(cell)) == page
    assert (
        latex.render(formats.signed_interval(-0.031, -0.05, 0.001), True) == "$-$3.1 [$-$5.0, 0.1]"
    )
    assert (
        latex.render("<0.001", True) == "$<$0.001"
        and latex.render(formats.integer(1234), True) == r"1\,234"
    )


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


def test_constant_columns_are_in_the_caption_of_a_table_and_in_each_row_of_a_page():
    columns = [Column("model", ["m_1", "m_1"], note="model {}"), numbers("x", ["+1", "2"])]
    text = latex.table(columns)
    assert r"Model m\_1." in text and "model &" not in text and text.count("\\\\") >= 4
    assert latex.table([Column("x", [])]) == ""
    html = web.page("t & u", columns)
    assert html.count("<td") == 4 and html.count("m_1") == 2 and "<h1>t &amp; u</h1>" in html
    assert "no rows for this table" in web.page("t", [Column("x", [])])
    caption = r"Gain of~\cite{a2025} \texttt{hard} \& \emph{out}, pass@$k$, 95\,\% intervals, percentage points."
    plain_caption = "Gain of hard & out, pass@k, 95 % intervals, percentage points."
    assert web.plain_text(caption) == plain_caption
    assert plain_caption.replace("&", "&amp;") in web.page("t", columns, caption)
    assert plain(("base pass@", K)) == "base pass@k"


def test_the_table_of_lead_regressions_names_the_model_of_each_row():
    row = {"task": "t", "eval_task": "t", "minus": "random", "predictor": "base_accuracy"}
    row |= {"points": 10, "p": 0.02}
    for name in ("slope", "r_squared"):
        row |= {name: 0.4, f"{name}_low": 0.1, f"{name}_high": 0.8}
    for models, expected in (
        (["a", "b"], ["a", "b"]),
        (["a", None], ["a", hard_leads.OTHER_MODELS]),
        ([None], None),  # each point of the regression is a base model
    ):
        rows = pd.DataFrame([row | {"model": model} for model in models])
        _, columns = training.lead_regressions(rows)
        cells = {plain(column.header): column.cells for column in columns}
        assert cells.get("model") == expected and cells["base models"][0] == "10"


# --- the tables of the committed studies


@pytest.mark.parametrize(
    "study", [path.parent.name for path in sorted(ROOT.glob("results/reference/*/gains.csv"))]
)
def test_tables_of_committed_studies_have_no_nan_no_hyphen_as_minus_and_no_constant_column(study):
    for name, columns in tables_of(study):
        text = latex.table(columns)
        assert "nan" not in re.sub(r"[a-z_]*nan[a-z_]+|[a-z_]+nan[a-z_]*", "", text), name
        numbers_shown = [
            plain(cell) for column in columns if column.number for cell in column.cells
        ]
        wrong = [cell for cell in numbers_shown if re.search(r"(?<![\w.])-\.?\d", cell)]
        assert not wrong, f"{name}: a hyphen stands for a minus sign in {wrong[0]}"
        constant = [
            plain(column.header)
            for column in latex.printed_columns(columns)[1]
            if len(column.cells) > 2 and len(set(map(plain, column.cells))) == 1
        ]
        assert len(columns[0].cells) > latex.MOST_ROWS or not constant, (
            f"{name}: constant columns: {constant}"
        )


def tables_of(study: str) -> Iterator[tuple[str, list[Column]]]:
    """(name, columns) of each table that can be made from a study's committed summaries."""
    design = designs.design(ResolvedStudy.of(CONFIG, study))
    tables = files.Tables.below(ROOT / paths.reference(study))
    for name, entry in registry.TABLES.items():
        if set(entry.of) <= registry.SUMMARIES.keys() and all(
            table in tables for table in entry.of
        ):
            frames = summaries.read_all(tables, entry.of, design["first_recipe"])
            yield name, registry.make_table(name, frames, design)[1]


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
