"""Results without Snakemake's records of how they were made: copied into a new clone, or linked
from another clone."""

import shutil

import pytest

from conftest import World, shrink

TRAINS = {"pretrain_model", "probe", "train_grpo", "evaluate_run"}


@pytest.fixture
def fresh(finished, tmp_path) -> World:
    """A second clone, which has no results yet."""
    world = World(tmp_path / "fresh")
    world.configure(shrink)
    shutil.rmtree(world.folder / "results")
    return world


def check_refused_and_kept(world: World, *words: str) -> None:
    """Assert that Snakemake refuses the results with an error that contains `words` and names
    `--touch`, and that Snakemake plans no sampling and no training after `--touch`."""
    done = world.snakemake()
    output = done.stdout + done.stderr
    assert done.returncode != 0 and "--touch" in output
    assert [part for part in words if part not in output] == []
    touched = world.snakemake("--touch")
    assert touched.returncode == 0, touched.stderr
    assert world.plan().keys().isdisjoint(TRAINS)


def test_results_copied_into_a_fresh_clone_are_refused_until_they_are_touched(finished, fresh):
    # the copies have new modification times
    shutil.copytree(
        finished.folder / "results", fresh.folder / "results", copy_function=shutil.copy
    )
    # the base model has no input files, so its copy is never older than an input
    assert fresh.plan().keys() >= TRAINS - {"pretrain_model"}
    check_refused_and_kept(fresh, "copied")


def test_a_link_to_the_results_of_another_clone_is_refused_until_they_are_touched(finished, fresh):
    (fresh.folder / "results").symlink_to(finished.folder / "results")
    check_refused_and_kept(
        fresh, "results is a link to", str(finished.folder / "results"), "two clones"
    )
    assert finished.plan() == {}, "the other clone must still have all results"


@pytest.mark.parametrize("record", ["incomplete", "metadata"])
def test_results_of_a_snakemake_that_was_killed_in_its_first_job_do_not_count_as_copied(
    world, record
):
    """Snakemake marks a job's files as incomplete before the job starts. Once the job has ended,
    Snakemake records how the files were made."""
    world.clear()
    manifest = world.folder / "results/models/tiny-seed0/manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{}")
    dry_run = lambda: (done := world.snakemake("-n")).stdout + done.stderr
    assert "no record" in dry_run()
    (world.folder / ".snakemake" / record).mkdir(parents=True, exist_ok=True)
    (world.folder / ".snakemake" / record / "cmVzdWx0cw==").write_text("{}")
    assert "no record" not in dry_run()
