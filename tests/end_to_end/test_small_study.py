"""The files of the finished small study (fixture `finished_world`) are as documented; its tables
agree with each other and follow from its completions and training logs."""

import csv
import gzip
import json
import shutil

import pandas as pd
import pytest
import yaml

import invariants
from conftest import RUN
from hardgrpo.data import tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import files, user_settings

KEY = ["step", "id", "decoding", "sample"]


def rows(path):
    text = gzip.open(path, "rt").read() if path.suffix == ".gz" else path.read_text()
    return list(csv.DictReader(text.splitlines()))


def test_every_kind_of_file_is_there_with_its_columns(finished_world):
    results = finished_world.folder / "results"
    problems = files.read_jsonl(results / "tasks/swaps/train.jsonl", {"id": str})
    assert len(problems) == 24
    assert set(problems[0]) == {"id", "question", "answer", "tier", "source"}
    shards = [results / f"probe/tiny/swaps/shard{shard}.jsonl.gz" for shard in (0, 1)]
    probed = [row for path in shards for row in files.read_jsonl(path, {"id": str})]
    assert len(probed) == 24 * 3 and len({row["seed"] for row in probed}) == 24 * 3
    assert set(probed[0]) == {
        "id", "sample", "seed", "completion", "tokens", "finish_reason", "log_probability",
    }  # fmt: skip
    difficulty = rows(results / "difficulty/tiny/swaps.csv")
    assert list(difficulty[0]) == [
        "id", "tier", "samples", "correct", "answered", "strict", "lenient", "undecided", "sound", "truncated", "tokens", "pass_rate",
        "held_out", "held_out_correct",
    ]  # fmt: skip
    assert [row["id"] for row in difficulty] == [problem["id"] for problem in problems]
    subset = rows(results / "subsets/tiny/swaps/hard/seed0.csv")
    assert list(subset[0]) == ["id", "pass_rate", "rank"] and len(subset) == 6
    updates = rows(results / f"training/{RUN}/updates.csv")
    assert list(updates[0]) == [
        "step", "prompts", "rollouts", "reward_mean", "learnable_share", "all_right_share", "correct_share", "answered_share", "undecided_share", "truncated_share",
        "tokens_mean", "kl", "loss", "grad_norm", "learning_rate",
    ]  # fmt: skip
    assert [int(row["step"]) for row in updates] == [1, 2, 3, 4]
    assert {(float(row["prompts"]), float(row["rollouts"])) for row in updates} == {(3, 12)}
    for row in updates:
        names = ("learnable_share", "all_right_share", "reward_mean")
        mixed, right, mean = (float(row[name]) for name in names)
        assert right <= mean <= right + mixed, (
            "the mean reward counts every rollout of an all-right group and some rollouts of a mixed group"
        )
    timing = rows(results / f"training/{RUN}/timing.csv")
    assert all(float(row["seconds"]) > 0 for row in timing) and len(timing) == 4
    graded = rows(results / f"evaluation/{RUN}/swaps.csv.gz")
    assert list(graded[0]) == [
        "step", "id", "tier", "decoding", "sample", "correct", "answered", "strict", "lenient", "undecided", "sound", "truncated", "tokens", "answer",
    ]  # fmt: skip
    assert {row["sound"] for row in graded} <= {"0", "1"}, "steps of swaps can be checked"
    assert len(graded) == 2 * 8 * 3, "2 checkpoints, 8 problems, 2 samples + 1 greedy"
    texts = files.read_jsonl(results / f"evaluation/{RUN}/swaps.jsonl.gz", {"completion": str})
    assert len(texts) == len(graded)


def test_snakemakes_records_of_files_are_small(finished_world):
    """Before each plan, Snakemake reads the records of all files (one record for each file)."""
    paths = (finished_world.folder / ".snakemake/metadata").rglob("*")
    records = [path for path in paths if path.is_file()]
    assert len(records) > 90 and max(path.stat().st_size for path in records) < 50_000


def test_the_specification_and_the_provenance_describe_the_run(finished_world):
    folder = finished_world.folder / "results/training" / RUN
    spec = yaml.safe_load((folder / "spec.yaml").read_text())
    record = json.loads((folder / "provenance.json").read_text())
    assert record["run"] == spec
    assert record["packages"]["trl"] and record["seconds"] > 0 and record["completion_tokens"] > 0
    assert not list((finished_world.folder / "results/state").glob("*")), (
        "a finished run must remove its state"
    )


def test_checkpoints_are_ordinary_model_folders(finished_world):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    base = AutoModelForCausalLM.from_pretrained(finished_world.folder / "results/models/tiny")
    folder = finished_world.folder / "results/training" / RUN / "checkpoints"
    assert sorted(path.name for path in folder.glob("step-*")) == ["step-2", "step-4"]
    trained = AutoModelForCausalLM.from_pretrained(folder / "step-4")
    assert base.config.vocab_size == trained.config.vocab_size
    tokenizer = AutoTokenizer.from_pretrained(folder / "step-4")
    question = "Bob has 12 coins. How many coins does Bob have?"
    chat = [{"role": "user", "content": question}]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text == f"{question} Answer:"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_figures_tables_and_numbers_are_made_and_the_log_says_what_to_open(finished_world):
    paper = finished_world.folder / "paper/mini"
    for figure in ("accuracy", "learnable", "difficulty", "training_curves"):
        assert (paper / f"figures/{figure}.pdf").read_bytes().startswith(b"%PDF")
        assert (paper / f"figures/{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert rows(paper / f"figures/{figure}.csv")
    on_runs = ("gain", "learnable", "out_of_distribution", "parts", "differences")
    for table in (*on_runs, "subsets", "claims"):
        assert "\\begin{longtable}" in (paper / f"tables/{table}.tex").read_text()
        assert rows(paper / f"tables/{table}.csv")
    shown = finished_world.first_output
    for words in ("base model", "gain, sampled", "minus random", "gain, greedy", "finishing"):
        assert words in shown
    assert "paper/mini/figures" in shown
    assert "train tiny/swaps/hard/seed0: [####################] 4 of 4 updates (100%)" in shown, (
        "the terminal must show the progress"
    )


def test_a_figure_and_the_tables_are_drawn_without_torch(finished, tmp_path):
    """Snakemake does not load torch either. tests/workflow/test_containers.py draws all figures
    without torch."""
    for package in ("torch", "transformers", "trl", "datasets"):
        (tmp_path / f"{package}.py").write_text("raise ImportError('not in this environment')\n")
    paper = finished.folder / "paper/mini"
    texts = lambda: {
        path.relative_to(paper).as_posix(): path.read_bytes()
        for path in paper.rglob("*")
        if path.suffix in (".tex", ".csv")
    }
    before = texts()
    shutil.rmtree(paper)
    targets = ("paper/mini/figures", "paper/mini/tables")
    finished.run(*targets, env={"PYTHONPATH": str(tmp_path), user_settings.KEEP_PYTHONPATH: "1"})
    drawn = texts()
    assert drawn.items() <= before.items()
    assert {"figures/accuracy.csv", "tables/gain.tex", "claims.csv"} <= drawn.keys()
    assert (paper / "figures/accuracy.png").exists()


@pytest.mark.tex
def test_the_paper_compiles(finished_world):
    assert (finished_world.folder / "paper/mini/supplement.pdf").read_bytes().startswith(b"%PDF")


def test_the_tables_agree(finished_world):
    assert invariants.faults(finished_world.folder / "results/summaries/mini") == []


def test_completions_graded_again_get_their_grades(finished_world):
    count = 0
    for texts in sorted((finished_world.folder / "results/evaluation").rglob("*.jsonl.gz")):
        test = texts.name.removesuffix(".jsonl.gz")
        problems = tasks.read_problems(finished_world.folder / f"results/tasks/{test}/test.jsonl")
        answers = {row["id"]: row["answer"] for row in problems}
        graded = pd.read_csv(texts.with_name(f"{test}.csv.gz"), dtype={"id": str}).set_index(KEY)
        for row in files.read_jsonl(texts, {"completion": str}):
            grade = graders.grade("final_word", row["completion"], answers[row["id"]])
            saved = graded.loc[tuple(row[key] for key in KEY)]
            for column in ("correct", "answered", "strict", "lenient"):
                assert saved[column] == getattr(grade, column), (texts, row)
            count += 1
    assert count > 500
