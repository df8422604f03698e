"""With `probe: {..., stop: {confidence: 1}}`, `snakemake subset` writes the same subset as with
full probing, from fewer samples."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from test_own_prompts import TABLE

from conftest import World, path_of
from hardgrpo.runtime import files, states
from hardgrpo.sampling import store
from hardgrpo.selection import early_stopping, prompt_difficulty
from interruptible_run import wait_for
from own_prompts import OVERLAY, SAMPLES, TASK, as_csv, choose_subset, make_world

STOPPING = TASK | {
    "probe": {"samples": SAMPLES, "shards": 1, "seed": 1, "stop": {"confidence": 1, "batch": 8}}
}
POLICIES = {"half": {"rule": "hard", "budget": 0.2}, "centre": {"rule": "middle", "budget": 0.2}}
EARLY = OVERLAY | {"tasks": {"mine": STOPPING}, "policies": POLICIES}
SUBSET = "results/subsets/mine/mine/half/seed3"


@pytest.fixture(scope="module")
def worlds(tmp_path_factory, untrained) -> tuple[World, World]:
    """Two worlds with the same pool, one probed in full and one with `stop`, each with its
    subset."""
    full = make_world(
        tmp_path_factory.mktemp("full"),
        untrained,
        OVERLAY | {"policies": POLICIES, "tasks": {"mine": TASK}},
        prompts_csv=as_csv(TABLE),
    )
    early = make_world(
        tmp_path_factory.mktemp("early"), untrained, EARLY, prompts_csv=as_csv(TABLE)
    )
    early.planned = early.plan("subset", "--configfile", "my.yaml")
    for world in (full, early):
        world.rows, world.description = choose_subset(world)
    return full, early


def completions(world) -> dict:
    paths = sorted((world.folder / "results/probe/mine/mine").glob("*.gz"))
    return {
        (row["id"], row["sample"]): row
        for path in paths
        for row in files.read_jsonl(path, {"id": str})
    }


def test_the_subset_equals_that_of_full_probing_byte_for_byte(worlds):
    full, early = worlds
    assert early.planned["probe_early"] == 1 and "probe" not in early.planned
    for end in (".csv", ".rows.csv"):
        assert (early.folder / (SUBSET + end)).read_bytes() == (
            full.folder / (SUBSET + end)
        ).read_bytes()
    assert (
        early.description["certainty"] == "exactly the subset that full probing would choose"
        and early.description["confidence"] == 1
    )
    equal_keys = (
        "policy",
        "seed",
        "pool",
        "prompts",
        "mean_pass_rate",
        "zero_share",
        "boundary_pass_rate",
    )
    assert [early.description[key] for key in equal_keys] == [
        full.description[key] for key in equal_keys
    ]


def test_an_early_stopped_probe_has_the_first_samples_of_each_prompt(worlds):
    full, early = worlds
    some, everything = completions(early), completions(full)
    assert (
        len(some)
        == early.description["probe_samples"]
        < early.description["probe_samples_in_full"]
        == len(everything)
    )
    assert_samples_of(some, everything)
    assert all((name, sample - 1) in some for name, sample in some if sample), (
        "the samples of a prompt must have consecutive numbers from 0"
    )


def test_the_table_of_difficulties_has_the_number_of_samples_and_bounds_of_the_pass_rate(worlds):
    full, early = worlds
    columns = {"id": str, "samples": int, "correct": int, "pass_rate": float}
    bounds = {
        "planned": int,
        "complete": int,
        "pass_rate_low": float,
        "pass_rate_high": float,
        "confidence": float,
    }
    path = "results/difficulty/mine/mine.csv"
    rates = {row["id"]: row["pass_rate"] for row in files.read_rows(full.folder / path, columns)}
    assert "planned" not in (full.folder / path).read_text()
    rows = files.read_rows(early.folder / path, columns | bounds)
    sampled_ids = [problem_id for problem_id, _ in completions(early)]
    for row in rows:
        assert row["samples"] == sampled_ids.count(row["id"]) and row["planned"] == SAMPLES
        assert row["pass_rate_low"] <= rates[row["id"]] <= row["pass_rate_high"]
        assert row["complete"] == (row["samples"] == SAMPLES)
        assert row["pass_rate"] == (rates[row["id"]] if row["complete"] else None)
    assert 0 < sum(row["complete"] for row in rows) < len(rows)


def test_planning_again_plans_nothing_and_another_policy_probes_in_full(worlds, tmp_path):
    copy = worlds[1].copy(tmp_path / "world")
    assert copy.plan("subset", "--configfile", "my.yaml") == {}
    (copy.folder / "other.yaml").write_text(yaml.safe_dump({"subset": {"policy": "centre"}}))
    done = copy.snakemake("-n", "subset", "--configfile", "my.yaml", "other.yaml")
    output = done.stdout + done.stderr
    assert (
        "tasks.mine.probe.stop is ignored, so every prompt gets all its samples: rule middle of policy 'centre' cannot stop early"
        in output
    )
    assert {"probe", "measure_difficulty", "select_subset"} <= set(
        copy.plan("subset", "--configfile", "my.yaml", "other.yaml")
    )


@pytest.mark.parametrize(
    ("policy", "seed", "words"),
    [
        (
            {"rule": "middle", "budget": 0.2},
            3,
            "policy rule middle needs every pass rate, but not every prompt has all its samples",
        ),
        (
            {"rule": "easy", "budget": 0.2},
            3,
            "policy rule easy, seed 3: the samples do not decide this subset",
        ),
    ],
)
def test_a_subset_that_the_bounds_do_not_decide_is_refused(worlds, policy, seed, words):
    path = worlds[1].folder / "results/difficulty/mine/mine.csv"
    command = [
        sys.executable,
        path_of("select_subset"),
        "--difficulty",
        str(path),
        "--policy",
        json.dumps(policy),
    ]
    done = subprocess.run(
        [*command, "--seed", str(seed), "--output", "o.csv"],
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert (
        done.stderr.startswith(f"error: {path}: {words}")
        and "take `stop` out of the task's probe" in done.stderr
    )


def test_several_shards_are_refused_and_a_study_s_task_is_probed_in_full(world):
    def stop(config: dict) -> None:
        config["tasks"]["arithmetic"]["probe"].pop("held_out")
        config["tasks"]["arithmetic"]["probe"]["stop"] = {"confidence": 1}

    world.configure(stop)
    world.configure(
        lambda config: config["subset"].update(model="tiny", task="arithmetic", policy="hard")
    )
    done = world.snakemake("-n", "subset")
    assert (
        "tasks.arithmetic.probe.stop is ignored, so every prompt gets all its samples: "
        in done.stdout + done.stderr
    )
    assert done.returncode == 0 and "probe_early" not in done.stdout + done.stderr
    world.configure(lambda config: config["tasks"]["arithmetic"]["probe"].update(shards=2))
    done = world.snakemake("-n", "subset")
    assert done.returncode != 0
    assert "tasks.arithmetic.probe.shards: 2 shards cannot stop early" in done.stdout + done.stderr


def program(folder, *options) -> list[str]:
    """The command that runs probe_early.py directly, with the arguments of the rule."""
    return [
        sys.executable, path_of("probe_early"), "--model", "results/models/mine", "--problems", "results/tasks/mine/train.jsonl",
        "--prompt", "{question}", "--grader", "final_word", "--samples", str(SAMPLES), "--completion-tokens", "12", "--seed", "1",
        "--stop-for", json.dumps([POLICIES["half"] | {"seed": 3}]), "--batch", "8", "--state", str(folder / "state"),
        "--output", str(folder / "o.jsonl.gz"), "--provenance", str(folder / "p.json"), *options,
    ]  # fmt: skip


def test_a_batch_of_no_completion_is_refused(tmp_path):
    done = subprocess.run(
        program(tmp_path, "--batch", "0"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and done.stderr.startswith("error: expected --samples and --batch")


def test_the_description_of_a_subset_states_the_confidence(tmp_path):
    rng = np.random.default_rng(0)
    outcomes = rng.random((100, 8)) < rng.random((100, 1))
    policy, ids = {"rule": "hard", "budget": 0.2}, [f"n{i}" for i in range(100)]
    stopper = early_stopping.Stopper(
        [early_stopping.target_subset(ids, 8, policy, 3)], 8, confidence=0.8, completes_subset=True
    )
    early_stopping.simulate(stopper, outcomes)
    rows = [
        {"id": i, "samples": int(d), "correct": int(c), "pass_rate": c / d if d else None}
        for i, c, d in zip(ids, stopper.correct, stopper.drawn)
    ]
    columns = ["id", "samples", "correct", "pass_rate", *prompt_difficulty.BOUND_COLUMNS]
    for confidence in (0.8, 1):
        files.write_rows(
            tmp_path / "d.csv",
            columns,
            [prompt_difficulty.add_bounds(row, 8, confidence) for row in rows],
        )
        command = [
            sys.executable,
            path_of("select_subset"),
            "--difficulty",
            "d.csv",
            "--policy",
            json.dumps(policy),
        ]
        done = subprocess.run(
            [*command, "--seed", "3", "--output", "s.csv"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        if confidence == 1:
            assert done.returncode == 1 and "the samples do not decide this subset" in done.stderr
            continue
        assert done.returncode == 0, done.stderr
        description = files.read_json(tmp_path / "s.json")
        assert description["confidence"] == 0.8 and description["prompts"] == 20
        assert (
            "compared with the subset that full probing would choose, the expected precision and recall are at least 0.8"
            in description["certainty"]
        )
        lines = files.read_rows(tmp_path / "s.csv", {"id": str, "pass_rate": float, "rank": int})
        short = {row["id"] for row in rows if row["samples"] < 8}
        assert (
            {row["id"] for row in lines if row["pass_rate"] is None}
            == {row["id"] for row in lines} & short
            != set()
        )
        assert (
            description["mean_pass_rate"] is None
            and description["zero_share"] is None
            and len(lines) == 20
        )
        problems = [
            {"id": i, "question": f"q {i}", "answer": "1", "tier": None, "source": "s"} for i in ids
        ]
        files.write_jsonl(tmp_path / "p.jsonl", problems)
        command = [
            sys.executable,
            path_of("export_subset"),
            "--subset",
            "s.csv",
            "--facts",
            "s.json",
            "--problems",
            "p.jsonl",
        ]
        done = subprocess.run(
            [*command, "--files", "p.jsonl", "--output", "r.jsonl"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (
            done.returncode == 0
            and "pass rate unknown, because samples or answers are missing" in done.stdout
        ), done.stderr
        assert len(files.read_jsonl(tmp_path / "r.jsonl", {"id": str})) == 20
        assert (
            description["probe_samples"]
            == stopper.drawn.sum()
            < 800
            == description["probe_samples_in_full"]
        )


def test_a_killed_and_resumed_early_probe_writes_the_same_files(worlds, tmp_path):
    full, early = worlds
    command = program(tmp_path)
    kills = 0
    for lines in (2, 4):
        process = subprocess.Popen(
            ["nice", "-n", "19", *command],
            cwd=early.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        wait_for(
            lambda lines=lines: (
                sum(path.read_bytes().count(b"\n") for path in stores(tmp_path)) >= lines
            ),
            process,
        )
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.communicate()
        for path in stores(tmp_path):
            with open(path, "a") as stream:  # as after a kill in the middle of a write
                stream.write('[{"id": "n')
    assert kills, "the probe ended before it could be killed"
    done = subprocess.run(command, cwd=early.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "o.jsonl.gz").read_bytes() == (
        early.folder / "results/probe/mine/mine/stopped.jsonl.gz"
    ).read_bytes()
    assert json.loads((tmp_path / "p.json").read_text())["resumed_from"] > 0


def test_a_second_probe_samples_only_what_is_missing(worlds, tmp_path):
    full, early = worlds
    everything, sampled = completions(full), 0
    state = early.folder / "results/state"
    shutil.copytree(state, tmp_path / "state")
    first = read_store(tmp_path)
    assert first == completions(early), "the workflow must keep the store of its probe"

    for policy, seed, options in (
        ({"rule": "hard", "budget": 0.2}, 3, []),  # repeat the same probe
        ({"rule": "hard", "budget": 0.1}, 5, ["--batch", "3", "--confidence", "0.9"]),
        ({"rule": "easy", "budget": 0.3}, 3, []),
        ({"rule": "hard", "budget": 0.2}, 3, ["--samples", str(SAMPLES - 1)]),
    ):
        before = read_store(tmp_path)
        command = program(tmp_path, "--stop-for", json.dumps([policy | {"seed": seed}]), *options)
        done = subprocess.run(
            command, cwd=early.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        after, samples = read_store(tmp_path), SAMPLES - ("--samples" in options)
        record = json.loads((tmp_path / "p.json").read_text())
        assert record["completions"] == len(after) - len(before) and before.items() <= after.items()
        assert (
            without_log_probabilities(after).items()
            <= without_log_probabilities(everything).items()
        )
        sampled += record["completions"]
        assert bool(record["completions"]) or "engine transformers starts" not in done.stdout
        rows = files.read_jsonl(tmp_path / "o.jsonl.gz", {"id": str})
        assert {(row["id"], row["sample"]): row for row in rows} == {
            key: row for key, row in after.items() if key[1] < samples
        }
        ids = [
            row["id"]
            for row in files.read_jsonl(
                early.folder / "results/tasks/mine/train.jsonl", {"id": str}
            )
        ]
        assert rows == sorted(rows, key=lambda row: (ids.index(row["id"]), row["sample"])), (
            "rows must be in the order of the problems"
        )
    assert len(first) + sampled == len(read_store(tmp_path)) and sampled
    with open(stores(tmp_path)[0], "a") as stream:
        stream.write(json.dumps([rows[0]]) + "\n")
    done = subprocess.run(command, cwd=early.folder, capture_output=True, text=True, check=False)
    assert (
        done.returncode == 1
        and f"error: {stores(tmp_path)[0]}: problem '{rows[0]['id']}': expected sample"
        in done.stderr
    )


def test_for_another_budget_and_confidence_the_workflow_adds_samples_to_its_store(worlds, tmp_path):
    full, early = worlds
    copy = early.copy(tmp_path / "world")
    before = completions(copy)
    probe = STOPPING["probe"] | {"stop": {"confidence": 0.7, "batch": 8}}
    overlay = {
        "policies": {"half": {"rule": "hard", "budget": 0.5}},
        "tasks": {"mine": {"probe": probe}},
    }
    (copy.folder / "other.yaml").write_text(yaml.safe_dump(overlay))
    done = copy.snakemake("subset", "--configfile", "my.yaml", "other.yaml")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    after = completions(copy)
    record = files.read_json(copy.folder / "results/provenance/probe_early/mine/mine.json")
    assert record["completions"] == len(after) - len(before) and record["resumed_from"] == len(
        before
    )
    assert before.items() <= after.items() and len(after) < len(completions(full))
    assert_samples_of(after, completions(full))
    subset_rows = files.read_rows(copy.folder / (SUBSET + ".csv"), {"id": str, "pass_rate": float})
    assert len(subset_rows) == len(TABLE) / 2
    for row in subset_rows:
        assert (row["pass_rate"] is None) == ((row["id"], SAMPLES - 1) not in after)


def test_each_combination_of_settings_that_determine_a_completion_has_its_own_store(worlds):
    folder = worlds[1].folder
    settings = {
        "model": str(folder / "results/models/mine"),
        "problems": str(folder / "results/tasks/mine/train.jsonl"),
        "state": "s",
    }
    settings |= {
        "prompt": "{question}",
        "completion_tokens": 12,
        "seed": 1,
        "engine": "transformers",
        "precision": "fp32",
        "chat": {},
    }
    other_settings = {
        "prompt": "{question} ",
        "completion_tokens": 13,
        "seed": 2,
        "engine": "vllm",
        "precision": "bf16",
        "chat": {"enable_thinking": False},
    }
    other_settings |= {"problems": str(folder / "results/models/mine/config.json")}
    store_folder = store.probe_folder(argparse.Namespace(**settings))
    assert (
        len(
            {
                store_folder,
                *(
                    store.probe_folder(argparse.Namespace(**settings | {key: other_settings[key]}))
                    for key in other_settings
                ),
            }
        )
        == 8
    )
    changed_arguments = {
        "grader": "math",
        "samples": 99,
        "stop_for": [],
        "confidence": 0.9,
        "batch": 1,
        "gpus": 1,
    }
    assert store.probe_folder(argparse.Namespace(**settings | changed_arguments)) == store_folder


def test_a_second_process_on_the_same_store_is_refused(worlds, tmp_path):
    shutil.copytree(worlds[1].folder / "results/state", tmp_path / "state")
    folder = stores(tmp_path)[0].parent
    with states.hold_lock(folder):
        done = subprocess.run(
            program(tmp_path), cwd=worlds[1].folder, capture_output=True, text=True, check=False
        )
    assert (
        done.returncode == 1
        and done.stderr.count("error: ") == 1
        and "Traceback" not in done.stderr
    )
    message = f"error: {folder}: process {os.getpid()} on {os.uname().nodename} is sampling into this folder; wait for it, or stop it"
    assert message in done.stderr.splitlines()


@pytest.mark.parametrize(
    "stop_for",
    ['[{"rule": "hard", "budget": "x", "seed": 0}]', '[{"rule": "hard", "budget": 2, "seed": 0}]'],
)
def test_an_invalid_budget_is_refused(worlds, tmp_path, stop_for):
    command = program(tmp_path, "--stop-for", stop_for)
    done = subprocess.run(
        command, cwd=worlds[1].folder, capture_output=True, text=True, check=False
    )
    assert (
        done.returncode == 1
        and done.stderr.startswith("error: policy rule hard: budget is ")
        and "Traceback" not in done.stderr
    )
    assert not stores(tmp_path)


def stores(folder) -> list[Path]:
    return sorted((folder / "state").glob("probe-*/completions.jsonl"))


def assert_samples_of(some: dict, everything: dict) -> None:
    """Assert that each row of `some` equals its row in `everything`. The sixth decimal of the
    log-probability may differ, because matrix products of another shape are rounded
    differently."""
    assert without_log_probabilities(some).items() <= without_log_probabilities(everything).items()
    for key, row in some.items():
        for name in row.keys() | everything[key].keys():
            expected = everything[key][name]
            if name == "log_probability":
                expected = pytest.approx(expected, rel=0, abs=2e-6)
            assert row[name] == expected, (key, name)


def without_log_probabilities(rows: dict) -> dict:
    """{key: (completion, tokens, finish reason)}, without log-probabilities, whose last digits
    depend on the shape of batches."""
    return {
        key: (row["completion"], row["tokens"], row["finish_reason"]) for key, row in rows.items()
    }


def read_store(folder) -> dict:
    [path] = stores(folder)
    rows = [
        row
        for line in path.read_text(encoding="utf-8").splitlines()
        for row in json.loads(line.partition("\t")[0])
    ]
    return {(row["id"], row["sample"]): row for row in rows}


def test_a_damaged_line_of_a_probes_store_and_all_later_lines_are_ignored(tmp_path):
    probe_store = store.Store(tmp_path / "store")
    batches = [[{"id": "a", "sample": sample, "completion": "red"}] for sample in range(3)]
    for batch in batches:
        probe_store.add(batch)
    assert probe_store.batches() == batches
    probe_store.path.write_bytes(
        probe_store.path.read_bytes().replace(b'1, "completion": "red"', b'1, "completion": "rad"')
    )
    assert probe_store.batches() == batches[:1] and probe_store.batches() == batches[:1]
