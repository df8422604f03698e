"""A fault in the configuration ends Snakemake with one line, and changes no results. Each refusal:
tests/refusals.yaml."""

import shutil


def test_snakemake_gives_a_one_line_error_and_changes_no_results(finished):
    results = finished.folder / "results"
    times = lambda: {path: path.stat().st_mtime_ns for path in results.rglob("*") if path.is_file()}
    before = times()
    finished.configure(lambda config: config["policies"]["hard"].update(budget=1.5))
    output = finished.fail()
    assert sum("policies.hard.budget" in line for line in output.splitlines()) == 1
    assert times() == before


def test_a_users_mistake_is_reported_without_places_in_the_code(world):
    done = world.snakemake("-n", "--config", "study=unknown")
    lines = (done.stdout + done.stderr).splitlines()
    assert done.returncode != 0
    assert sum("unknown study 'unknown'" in line for line in lines) == 1
    assert [line for line in lines if "File " in line or ".py" in line or ".smk" in line] == []


def test_a_configuration_that_is_a_program_is_not_run(world):
    program = (
        "__use_yte__: true\n__definitions__:\n  - import pathlib; pathlib.Path('ran').touch()\n"
    )
    world.edit("config.yaml", lambda text: program + text)
    output = world.fail("-n")
    assert "config.yaml: '__use_yte__' makes Snakemake run the file" in output
    assert not (world.folder / "ran").exists()


def test_results_that_cannot_be_written_are_reported_before_the_first_job(world):
    shutil.rmtree(world.folder / "results")
    (world.folder / "results").write_text("in the way")
    assert "results: expected a folder for results, found a file" in world.fail()
