"""Which figures and tables a study has, and from which tables the figures and tables are made."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import project_config
from hardgrpo.report import registry
from hardgrpo.study import paths
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.workflow.drawing import Drawing, tables_of_entries

MINI = SimpleNamespace(study="mini")
# a summary table, a table computed from summary tables and claims, a table written by hand
TABLES = ["gains", "claims", "deviations"]


def drawing(
    targets=("figures",), has_tex=True, change=lambda config: None, is_report=False
) -> Drawing:
    """`Drawing` of the project's studies when Snakemake is called with these targets."""
    config = project_config.config()
    change(config)
    workflow = SimpleNamespace(
        basedir=str(project_config.ROOT),
        is_main_process=True,
        dag_settings=SimpleNamespace(targets=set(targets)),
    )
    return Drawing(config, resolve_studies(config), workflow, has_tex, is_report)


def draw(choice: str):
    return lambda config: config.update(draw=choice)


def write_tables(folder: str) -> None:
    Path(folder).mkdir(parents=True)
    for name in registry.SUMMARIES:
        Path(folder, f"{name}.csv").touch()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder without results of studies."""
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    Path(paths.PUBLISHED).symlink_to(project_config.ROOT / paths.PUBLISHED)


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ((), False),
        (("all",), False),
        (("figures",), True),
        (("figures", "supplement"), True),
        (("figures", "all"), False),
        (("paper/mini/figures/gains.pdf",), True),
        # this page shows completions, so it needs the results of a run
        (("paper/mini/explorer.html",), False),
    ],
)
def test_figures_and_papers_alone_run_no_study(targets, expected):
    assert drawing(targets).is_drawing_only() == expected
    assert (drawing(targets).results(MINI) == paths.results(drawing().studies["mini"])) <= (
        not expected
    )


def test_a_run_draws_the_tables_that_it_computes():
    write_tables(paths.reference("mini"))
    assert drawing(targets=()).folder("mini") == paths.computed("mini")


def test_figures_alone_are_drawn_from_computed_tables_or_else_from_the_reference():
    write_tables(paths.reference("mini"))
    assert drawing().folder("mini") == paths.reference("mini")
    write_tables(paths.computed("mini"))
    assert drawing().folder("mini") == paths.computed("mini")
    assert drawing(change=draw("reference")).folder("mini") == paths.reference("mini")


@pytest.mark.parametrize("choice", ["computed", "reference", "auto"])
def test_incomplete_tables_are_reported_with_the_command_that_makes_them(choice):
    write_tables(paths.computed("mini"))
    Path(paths.computed("mini"), "gains.csv").unlink()
    (problem,) = drawing(change=draw(choice)).configured_summaries(MINI)
    assert "no complete summaries of study mini" in problem and "--config study=mini" in problem
    assert not Path(problem).exists()


def test_a_drawing_reads_each_kind_of_table_from_its_own_folder():
    assert drawing(targets=()).tables(TABLES)(MINI) == [
        "results/summaries/mini/gains.csv",
        "paper/mini/claims.csv",
        "results/published/deviations.csv",
    ]


def test_tables_may_be_named_by_an_iterator():
    files = drawing(targets=()).tables(iter(TABLES))
    assert files(MINI) == files(MINI) != []


def test_a_table_of_several_registry_entries_is_listed_once():
    entries = {
        "a": SimpleNamespace(of=["gains", "spent"]),
        "b": SimpleNamespace(of=["spent", "parts"]),
    }
    assert list(tables_of_entries(entries)) == ["gains", "spent", "parts"]


def test_without_tex_a_study_is_finished_without_its_pdf():
    assert "paper/mini/supplement.pdf" in drawing(has_tex=True).finished("mini")
    assert set(drawing(has_tex=True).finished("mini")) - set(
        drawing(has_tex=False).finished("mini")
    ) == {"paper/mini/supplement.pdf"}


def test_recorded_runs_have_no_page_of_what_they_were_worth():
    assert (
        drawing().worth("mini") == ["paper/mini/worth.html"] and drawing().worth("recordings") == []
    )


def test_a_study_is_compared_with_its_reference_where_both_exist():
    assert drawing().agreement("mini") == []
    write_tables(paths.reference("mini"))
    assert drawing().agreement("mini") == [paths.agreement("mini")]
    assert "--agreement" not in drawing(targets=()).show_results_command("mini"), (
        "the command shows an agreement that was not computed"
    )
    Path(paths.agreement("mini")).parent.mkdir(parents=True)
    Path(paths.agreement("mini")).touch()
    assert paths.agreement("mini") in drawing(targets=()).show_results_command("mini")


def test_the_files_of_runs_are_compared_if_their_checksums_are_committed():
    wildcards = SimpleNamespace(study="mini")
    assert drawing().run_files(wildcards) == []
    committed = Path(paths.reference("mini"), "run_files.sha256")
    committed.parent.mkdir(parents=True)
    committed.touch()
    assert drawing().run_files(wildcards) == [str(committed)]


def test_a_report_of_committed_results_has_only_the_existing_files():
    write_tables(paths.reference("mini"))
    figure = Path("paper/mini/figures/accuracy.png")
    figure.parent.mkdir(parents=True)
    figure.write_bytes(b"\x89PNG")
    report = drawing(targets=(), is_report=True)
    assert report.is_drawing_only() and report.finished("mini") == [str(figure)]
    assert not drawing(targets=()).is_drawing_only(), "without --report, the study must be run"
    Path("paper/mini/explorer.html").touch()
    report = drawing(targets=(), is_report=True)
    assert not report.is_drawing_only() and "paper/mini/explorer.html" in report.finished("mini")


def test_a_report_leaves_out_tables_without_rows():
    report, table = drawing(is_report=True), Path("paper/mini/tables/reasons.csv")
    path = "paper/{study}/tables/reasons.html"
    assert report.in_report(path), "the report must list a table that was not made yet"
    table.parent.mkdir(parents=True)
    table.write_text("model,task\n")
    assert not report.in_report(path)
    table.write_text("model,task\nm,t\n")
    assert report.in_report(path)
