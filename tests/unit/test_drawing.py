"""Which figures and tables a study has, and from which tables the figures and tables are made."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import project_config
from hardgrpo.report import registry
from hardgrpo.study import paths
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.workflow.drawing import Drawing

MINI = SimpleNamespace(study="mini")
# a summary table, a table computed from summary tables and claims, a table written by hand
TABLES = ["gains", "claims", "deviations"]


def drawing(has_tex=True, draw="computed") -> Drawing:
    """`Drawing` of the project's studies with this setting `draw`."""
    config = project_config.config()
    config["draw"] = draw
    return Drawing(Configuration.of(config), resolve_studies(config), has_tex)


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


def test_the_setting_draw_alone_decides_which_tables_are_drawn():
    write_tables(paths.reference("mini"))
    assert drawing().folder("mini") == paths.computed("mini")
    reference = drawing(draw="reference")
    assert reference.folder("mini") == paths.reference("mini")
    assert set(reference.tables(["gains"])(MINI)) == {
        f"results/reference/mini/{name}.csv" for name in registry.SUMMARIES
    }
    results = set(paths.results(drawing().studies["mini"]))
    assert results <= set(drawing().finished("mini"))
    assert results.isdisjoint(reference.finished("mini")), "committed tables need no run"


def test_a_drawing_reads_each_kind_of_table_from_its_own_folder():
    assert drawing().tables(TABLES)(MINI) == [
        "results/summaries/mini/gains.csv",
        "paper/mini/claims.csv",
        "results/published/deviations.csv",
    ]


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
    assert "--agreement" not in drawing().show_results_command("mini"), (
        "the command shows an agreement that was not computed"
    )
    Path(paths.agreement("mini")).parent.mkdir(parents=True)
    Path(paths.agreement("mini")).touch()
    assert paths.agreement("mini") in drawing().show_results_command("mini")


def test_the_files_of_runs_are_compared_if_their_checksums_are_committed():
    wildcards = SimpleNamespace(study="mini")
    assert drawing().run_files(wildcards) == []
    committed = Path(paths.reference("mini"), "run_files.sha256")
    committed.parent.mkdir(parents=True)
    committed.touch()
    assert drawing().run_files(wildcards) == [str(committed)]


def test_a_report_leaves_out_tables_without_rows():
    report, table = drawing(), Path("paper/mini/tables/reasons.csv")
    path = "paper/{study}/tables/reasons.html"
    assert report.in_report(path), "the report must list a table that was not made yet"
    table.parent.mkdir(parents=True)
    table.write_text("model,task\n")
    assert not report.in_report(path)
    table.write_text("model,task\nm,t\n")
    assert report.in_report(path)
