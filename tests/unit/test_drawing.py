"""From which tables the figures and tables of a study are made."""

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


def drawing(has_tex=True, draw="computed") -> Drawing:
    config = Configuration.of(project_config.config() | {"draw": draw})
    return Drawing(config, resolve_studies(config), has_tex)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder without results of studies."""
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    Path(paths.PUBLISHED).symlink_to(project_config.ROOT / paths.PUBLISHED)


def write_reference_tables() -> None:
    Path(paths.reference("mini")).mkdir(parents=True)
    for name in registry.SUMMARIES:
        Path(paths.reference("mini"), f"{name}.csv").touch()


def test_the_setting_draw_alone_decides_which_tables_are_drawn():
    write_reference_tables()
    reference = drawing(draw="reference")
    for kind, from_kind in (("summaries", drawing()), ("reference", reference)):
        files = {f"results/{kind}/mini/{name}.csv" for name in registry.SUMMARIES}
        assert set(from_kind.summaries(MINI)) == files
    results = set(paths.results(drawing().studies["mini"]))
    assert results <= set(drawing().finished("mini"))
    assert results.isdisjoint(reference.finished("mini")), "committed tables need no run"


def test_without_tex_a_study_is_finished_without_its_pdf():
    finished, without_pdf = (set(drawing(tex).finished("mini")) for tex in (True, False))
    assert finished - without_pdf == {"paper/mini/supplement.pdf"}


def test_a_study_is_compared_with_its_reference_where_both_exist():
    assert drawing().agreement("mini") == drawing().run_files(MINI) == []
    write_reference_tables()
    run_files = Path(paths.reference("mini"), "run_files.sha256")
    run_files.touch()
    assert drawing().run_files(MINI) == [str(run_files)]
    agreement = Path(paths.agreement("mini"))
    assert drawing().agreement("mini") == [str(agreement)]
    assert "--agreement" not in drawing().show_results_command("mini"), "it was not computed"
    agreement.parent.mkdir(parents=True)
    agreement.touch()
    assert str(agreement) in drawing().show_results_command("mini")
