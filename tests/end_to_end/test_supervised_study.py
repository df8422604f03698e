"""Training on worked solutions: alone, interrupted, and beside GRPO in one study, from the problems
to the study's tables."""

import csv
import itertools
import json
import re
import signal
from pathlib import Path

import pytest
import yaml

from interruptible_run import contents, latest, start, wait_for

UPDATES, EVERY = 60, 20
RUN = "results/training/tiny/swaps/mini_sft/hard/seed0"


def rows(path: Path) -> list[dict]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture(scope="module")
def study(finished_world, tmp_path_factory):
    """The study of `finished_world` with a second recipe, which trains on worked solutions. Tests
    must not change the study."""
    world = finished_world.copy(tmp_path_factory.mktemp("supervised") / "world")

    def add(config):
        config["recipes"]["mini_sft"].update(updates=4, prompts_per_update=3, checkpoint_every=2)
        config["studies"]["mini"].update(
            arms=[{"policy": ["hard", "random"], "recipe": ["mini", "mini_sft"]}],
            held_constant=["updates", "prompts"],
        )

    world.configure(add)
    world.planned = world.plan()
    done = world.snakemake()
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return world


def test_a_second_recipe_trains_its_own_runs_and_leaves_the_runs_of_grpo_unchanged(
    study, finished_world
):
    assert (
        study.planned["write_solutions"],
        study.planned["train_grpo"],
        study.planned["evaluate_run"],
    ) == (1, 2, 4)
    assert not {"probe", "prepare_task", "pretrain_model", "select_subset"} & set(study.planned)
    for name in ("spec.yaml", "updates.csv", "timing.csv", "provenance.json"):
        run = f"results/training/tiny/swaps/mini/hard/seed0/{name}"
        assert (study.folder / run).read_bytes() == (finished_world.folder / run).read_bytes()
    assert study.plan() == {}


def test_a_run_on_worked_solutions_writes_its_files(study):
    spec = yaml.safe_load((study.folder / RUN / "spec.yaml").read_text())
    assert (
        spec["solutions"] == "results/tasks/swaps/solutions.jsonl"
        and spec["training"]["objective"] == "sft"
    )
    assert (study.folder / RUN / "spec.yaml").read_text().startswith("# One SFT run.")
    written, grpo = (
        rows(study.folder / RUN.replace("mini_sft", recipe) / "updates.csv")
        for recipe in ("mini_sft", "mini")
    )
    assert list(written[0]) == list(grpo[0]), "the logs of SFT and GRPO must have the same columns"
    assert [(row["step"], row["prompts"], row["rollouts"]) for row in written] == [
        (str(step), "3", "0") for step in range(1, 5)
    ]
    about_rollouts = {
        "reward_mean",
        "learnable_share",
        "all_right_share",
        "correct_share",
        "answered_share",
        "undecided_share",
    }
    assert {name for name, cell in written[0].items() if cell == ""} == about_rollouts | {
        "truncated_share",
        "kl",
    }
    record = json.loads((study.folder / RUN / "provenance.json").read_text())
    assert record["completion_tokens"] == 0
    assert (
        record["solution_tokens"]
        == round(sum(3 * float(row["tokens_mean"]) for row in written))
        > 100
    )
    solved = [
        json.loads(line) for line in (study.folder / spec["solutions"]).read_text().splitlines()
    ]
    assert len(solved) == 24 and all("####" in row["solution"] for row in solved)


def test_a_study_of_grpo_and_sft_has_every_summary_figure_and_table(study):
    tables = {
        path.stem: rows(path) for path in (study.folder / "results/summaries/mini").glob("*.csv")
    }
    arms = set(itertools.product(("hard", "random"), ("mini", "mini_sft")))
    for name in ("gains", "accuracy", "parts", "spent", "differences"):
        table_arms = {(row["policy"], row["recipe"]) for row in tables[name]}
        assert (
            table_arms
            | {(row["minus"], row["minus_recipe"]) for row in tables[name] if "minus" in row}
            == arms
        ), name
    for name in ("learnable", "curves"):
        assert {(row["policy"], row["recipe"]) for row in tables[name]} == {
            ("hard", "mini"),
            ("random", "mini"),
        }, "tables about rollouts must have rows only for GRPO"
    for row in tables["spent"]:
        supervised = row["recipe"] == "mini_sft"
        assert (float(row["updates"]), float(row["prompts"])) == (4, 12)
        assert (float(row["rollouts"]) == float(row["tokens"]) == 0) == supervised
    paper = study.folder / "paper/mini"
    shown = {(row["policy"], row["recipe"]): row for row in rows(paper / "tables/spent.csv")}
    assert (
        shown["hard", "mini_sft"]["gain_per_million"] == ""
        and "inf" not in (paper / "tables/spent.tex").read_text()
    )
    assert (paper / "figures/accuracy.pdf").is_file()


def test_constants_of_a_study_are_compared_across_objectives(study, tmp_path):
    world = study.copy(tmp_path / "world")
    world.configure(
        lambda config: config["studies"]["mini"].update(held_constant=["updates", "rollouts"])
    )
    done = world.snakemake("results/summaries/mini/gains.csv")
    assert done.returncode != 0
    log = (world.folder / "results/logs/summarize/mini.log").read_text()
    assert re.search(
        r"holds rollouts constant, but mini/hard/seed0 has 48 and mini_sft/hard/seed0 has 0", log
    ), log


def test_a_study_on_worked_solutions_alone_is_summarised_and_drawn(study, tmp_path):
    world = study.copy(tmp_path / "world")
    world.configure(
        lambda config: config["studies"]["mini"].update(
            arms=[{"policy": ["hard", "random"], "recipe": "mini_sft"}]
        )
    )
    done = world.snakemake()
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert "train_grpo" not in done.stdout + done.stderr
    assert "rollouts each" not in (world.folder / "paper/mini/supplement.tex").read_text()


@pytest.fixture(scope="module")
def run(study, tmp_path_factory) -> Path:
    """A folder with the specifications of two longer runs on worked solutions, one without and one
    with an adapter, and with the files of both runs after an uninterrupted training."""
    folder = tmp_path_factory.mktemp("interrupted_sft")
    (folder / "results").symlink_to(study.folder / "results")
    spec = yaml.safe_load((folder / RUN / "spec.yaml").read_text())
    spec["training"] |= {"updates": UPDATES, "checkpoint_every": EVERY, "learning_rate": 3e-3}
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    spec["training"] |= {"adapter": {"rank": 4, "alpha": 8, "dropout": 0.1}}
    (folder / "adapter.yaml").write_text(yaml.safe_dump(spec))
    for name in ("spec", "adapter"):
        assert start(folder, f"clean-{name}", spec=f"{name}.yaml").wait() == 0, (
            folder / f"clean-{name}.log"
        ).read_text()
    return folder


@pytest.mark.parametrize("spec", ["spec", "adapter"])
def test_a_training_stopped_by_a_signal_and_restarted_writes_equal_bytes(run, spec):
    name = f"told-{spec}"
    for _ in range(2):
        before = latest(run, name)
        process = start(run, name, spec=f"{spec}.yaml")
        wait_for(lambda before=before: latest(run, name) > before, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 1, (run / f"{name}.log").read_text()
    assert start(run, name, spec=f"{spec}.yaml").wait() == 0, (run / f"{name}.log").read_text()
    assert json.loads((run / name / "provenance.json").read_text())["resumed_from"] > 0
    assert contents(run / name) == contents(run / f"clean-{spec}")
    assert (
        f"checkpoints/step-{UPDATES}/{'adapter_' if spec == 'adapter' else ''}model.safetensors"
        in contents(run / name)
    )


def test_the_loss_falls_in_the_log(run):
    losses = [float(row["loss"]) for row in rows(run / "clean-spec/updates.csv")]
    assert len(losses) == UPDATES and max(losses[-3:]) < 0.8 * losses[0], losses
    assert f"{UPDATES} updates, last loss {losses[-1]:.3f}" in (run / "clean-spec.log").read_text()


@pytest.mark.nightly
def test_two_processes_have_the_same_losses_as_one_process(run):
    """Each process has half of an update's texts, and the two halves differ in their number of
    tokens. The loss must be the mean over the tokens of both halves."""
    spec = yaml.safe_load((run / "adapter.yaml").read_text())
    spec["training"] |= {"updates": 6, "checkpoint_every": 6, "prompts_per_update": 4}
    spec["training"]["adapter"]["dropout"] = 0.0
    (run / "pair.yaml").write_text(yaml.safe_dump(spec))
    for name, arguments in (("one", []), ("two", ["--processes", "2"])):
        assert start(run, name, *arguments, spec="pair.yaml").wait() == 0, (
            run / f"{name}.log"
        ).read_text()
    rows_of_one, rows_of_two = (rows(run / name / "updates.csv") for name in ("one", "two"))
    assert len({row["tokens_mean"] for row in rows_of_one}) > 1
    for row_of_one, row_of_two in zip(rows_of_one, rows_of_two, strict=True):
        assert [row_of_one[name] for name in ("step", "prompts", "rollouts", "tokens_mean")] == [
            row_of_two[name] for name in ("step", "prompts", "rollouts", "tokens_mean")
        ]
        assert float(row_of_two["loss"]) == pytest.approx(float(row_of_one["loss"]), rel=1e-3)
