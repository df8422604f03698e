"""Analyses of published numbers in the workflow, tested with small made-up files, with the
committed tables, and with the real files if they exist."""

import json

import numpy as np
import pytest

from published_files import write_csv, write_parquet


def configure(config) -> None:
    """Configure both analyses with small files in their formats, from a made-up repository."""
    for name, sources in (("probing", ["a.parquet", "b.parquet"]), ("before_after", ["p.csv"])):
        entry = config["analyses"][name]
        entry.update(probe=4, samples=16, group=4)
        entry["source"].update(
            repository="someone/numbers", commit="0123abc", files=sources, local="mine"
        )


@pytest.fixture
def published(world):
    generator = np.random.default_rng(0)
    for name in ("a", "b"):
        write_parquet(
            world.folder / f"data/mine/{name}.parquet",
            (6.25 * generator.integers(0, 17, 40)).tolist(),
        )
    base = generator.integers(0, 17, 40)
    after = [np.clip(base + generator.integers(-2, 8, 40), 0, 16) for _ in range(3)]
    rows = [[str(n), base[n] / 16, *(numbers[n] / 16 for numbers in after)] for n in range(40)]
    write_csv(world.folder / "data/mine/p.csv", rows, seeds=3)
    world.configure(configure)
    return world


@pytest.mark.parametrize(
    ("study", "figure", "table", "words"),
    [
        ("probing", "samples_per_prompt", "probe_sizes", "By `nearest_half`"),
        ("before_after", "before_after_training", "difficulty_classes", "Gain in pass rate"),
    ],
)
def test_an_analysis_runs_from_its_files_to_its_page(published, study, figure, table, words):
    done = published.snakemake("--config", f"study={study}")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert words in done.stdout, "the page must be printed"
    paper = published.folder / f"paper/{study}"
    assert {path.name for path in (paper / "figures").glob(f"{figure}.*")} == {
        f"{figure}.{kind}" for kind in ("pdf", "png", "csv")
    }
    assert words in (paper / "answers.md").read_text() and (paper / "claims.csv").is_file()
    assert (published.folder / f"results/summaries/{study}/{table}.csv").is_file()
    locked = json.loads((published.folder / "inputs.lock").read_text())["repositories"][
        "someone/numbers@0123abc"
    ]
    assert len(locked) == (2 if study == "probing" else 1)
    assert published.plan("--config", f"study={study}") == {}
    refused = published.snakemake("-n", "explorer", "--config", f"study={study}")
    assert "has no completions, so there is nothing to explore" in refused.stdout + refused.stderr


def test_a_file_that_differs_from_the_lock_is_refused_until_the_lock_is_updated(published):
    path = published.folder / "data/mine/p.csv"
    text = path.read_text()
    path.write_text(text.replace("boundary", "other", 1))
    published.run("--config", "study=before_after")
    path.write_text(text)
    output = published.fail("--config", "study=before_after")
    file = "EXPERIMENTS/E0_seed_stability/analysis/p.csv"
    assert f"{file} is not the file of inputs.lock: found" in output
    published.run("--config", "study=before_after", "update_inputs=true")


@pytest.mark.parametrize(("study", "downloads"), [("probing", 3), ("before_after", 1)])
def test_without_the_files_the_downloads_are_planned_and_figures_come_from_the_committed_tables(
    world, study, downloads
):
    planned = world.plan("--config", f"study={study}")
    assert planned["fetch_original"] == downloads and planned["count_answers"] == 1
    assert world.plan("inputs", "--config", f"study={study}")["fetch_original"] == downloads
    planned = world.plan("figures", "--config", f"study={study}", "draw=reference")
    assert "fetch_original" not in planned and planned["draw_figures"] == 1
    planned = world.plan("supplement", "--config", f"study={study}", "draw=reference")
    assert planned["write_answers"] == 1 and "fetch_original" not in planned
