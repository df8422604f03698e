"""`probe: {..., stop: {confidence: 1}}`: `snakemake subset` gives the files of full probing, for fewer samples."""

import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml
from test_own_prompts import OVERLAY, SAMPLES, TABLE, TASK, as_csv, chosen, make_world, untrained  # noqa: F401 (a fixture)

from conftest import SCRIPTS, World
from hardgrpo import difficulty, early_stopping, files

STOPPING = TASK | {"probe": {"samples": SAMPLES, "shards": 1, "seed": 1, "stop": {"confidence": 1, "batch": 8}}}
POLICIES = {"half": {"rule": "hard", "budget": 0.2}, "centre": {"rule": "middle", "budget": 0.2}}
EARLY = OVERLAY | {"tasks": {"mine": STOPPING}, "policies": POLICIES}
SUBSET = "results/subsets/mine/mine/half/seed3"


@pytest.fixture(scope="module")
def worlds(tmp_path_factory, untrained) -> tuple[World, World]:  # noqa: F811
    """The same pool probed in full and with `stop`, each with its subset."""
    full = make_world(
        tmp_path_factory.mktemp("full"),
        untrained,
        OVERLAY | {"policies": POLICIES, "tasks": {"mine": TASK}},
        prompts_csv=as_csv(TABLE),
    )
    early = make_world(tmp_path_factory.mktemp("early"), untrained, EARLY, prompts_csv=as_csv(TABLE))
    early.planned = early.plan("subset", "--configfile", "my.yaml")
    for world in (full, early):
        world.rows, world.facts = chosen(world)
    return full, early


def completions(world) -> dict:
    paths = sorted((world.folder / "results/probe/mine/mine").iterdir())
    return {(row["id"], row["sample"]): row for path in paths for row in files.read_jsonl(path, {"id": str})}


def test_the_subset_is_byte_for_byte_that_of_full_probing(worlds):
    full, early = worlds
    assert early.planned["probe_early"] == 1 and "probe" not in early.planned
    for end in (".csv", ".rows.csv"):
        assert (early.folder / (SUBSET + end)).read_bytes() == (full.folder / (SUBSET + end)).read_bytes()
    assert (
        early.facts["certainty"] == "the subset that full probing gives from the same completions, for certain"
        and early.facts["confidence"] == 1
    )
    same = ("measured_by", "policy", "seed", "pool", "prompts", "mean_pass_rate", "zero_share", "boundary_pass_rate")
    assert [early.facts[key] for key in same] == [full.facts[key] for key in same]


def test_its_samples_are_the_first_of_each_prompt_and_fewer(worlds):
    full, early = worlds
    some, everything = completions(early), completions(full)
    assert len(some) == early.facts["probe_samples"] < early.facts["probe_samples_in_full"] == len(everything)
    assert all(everything[key] == row for key, row in some.items())
    assert all((name, sample - 1) in some for name, sample in some if sample), "in their order"


def test_the_difficulties_say_how_many_samples_and_between_what_the_pass_rate_lies(worlds):
    full, early = worlds
    columns = {"id": str, "samples": int, "correct": int, "pass_rate": float}
    bounds = {"planned": int, "complete": int, "pass_rate_low": float, "pass_rate_high": float, "confidence": float}
    path = "results/difficulty/mine/mine.csv"
    rates = {row["id"]: row["pass_rate"] for row in files.read_rows(full.folder / path, columns)}
    assert "planned" not in (full.folder / path).read_text()
    found = files.read_rows(early.folder / path, columns | bounds)
    taken = [identity for identity, _ in completions(early)]
    for row in found:
        assert row["samples"] == taken.count(row["id"]) and row["planned"] == SAMPLES
        assert row["pass_rate_low"] <= rates[row["id"]] <= row["pass_rate_high"]
        assert row["complete"] == (row["samples"] == SAMPLES)
        assert row["pass_rate"] == (rates[row["id"]] if row["complete"] else None)
    assert 0 < sum(row["complete"] for row in found) < len(found)


def test_planning_again_plans_nothing_and_another_policy_probes_in_full(worlds, tmp_path):
    copy = object.__new__(World)
    copy.folder = tmp_path / "world"
    shutil.copytree(worlds[1].folder, copy.folder)
    assert copy.plan("subset", "--configfile", "my.yaml") == {}
    (copy.folder / "other.yaml").write_text(yaml.safe_dump({"subset": {"policy": "centre"}}))
    done = copy.snakemake("-n", "subset", "--configfile", "my.yaml", "other.yaml")
    said = done.stdout + done.stderr
    assert "tasks.mine.probe.stop is not heeded, the probe is in full: policy 'centre' needs every pass rate" in said
    assert {"probe", "measure_difficulty", "select_subset"} <= set(copy.plan("subset", "--configfile", "my.yaml", "other.yaml"))


@pytest.mark.parametrize(
    ("policy", "seed", "words"),
    [
        (
            {"rule": "middle", "budget": 0.2},
            3,
            "policy rule middle needs every pass rate, but not every prompt has all its samples",
        ),
        ({"rule": "easy", "budget": 0.2}, 3, "policy rule easy, seed 3: the samples do not decide this subset"),
    ],
)
def test_what_the_bounds_do_not_decide_is_refused(worlds, policy, seed, words):
    path = worlds[1].folder / "results/difficulty/mine/mine.csv"
    command = [sys.executable, str(SCRIPTS / "select_subset.py"), "--difficulty", str(path), "--policy", json.dumps(policy)]
    done = subprocess.run(
        [*command, "--seed", str(seed), "--output", "o.csv"], cwd=path.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith(f"error: {path}: {words}") and "take `stop` out of the task's probe" in done.stderr


def test_several_shards_are_refused_and_a_study_s_task_is_probed_in_full(world):
    world.configure(lambda config: config["tasks"]["swaps"]["probe"].update(stop={"confidence": 1}))
    world.configure(lambda config: config["subset"].update(model="tiny", task="swaps", policy="hard"))
    done = world.snakemake("-n", "subset")
    assert "tasks.swaps.probe.stop is not heeded, the probe is in full: " in done.stdout + done.stderr
    assert done.returncode == 0 and "probe_early" not in done.stdout + done.stderr
    world.configure(lambda config: config["tasks"]["swaps"]["probe"].update(shards=2))
    done = world.snakemake("-n", "subset")
    assert done.returncode != 0
    assert "config.yaml: tasks.swaps.probe.shards: 2 shards cannot stop early" in done.stdout + done.stderr


def program(folder, *options) -> list[str]:
    """probe_early.py by hand, as the rule calls it."""
    return [
        sys.executable, str(SCRIPTS / "probe_early.py"), "--model", "results/models/mine", "--problems", "results/tasks/mine/train.jsonl",
        "--prompt", "{question}", "--grader", "final_word", "--samples", str(SAMPLES), "--completion-tokens", "12", "--seed", "1",
        "--stop-for", json.dumps([POLICIES["half"] | {"seed": 3}]), "--batch", "8", "--state", str(folder / "state/s.jsonl"),
        "--output", str(folder / "o.jsonl.gz"), "--provenance", str(folder / "p.json"), *options,
    ]  # fmt: skip


def test_with_a_confidence_the_subset_s_file_says_so(tmp_path):
    rng = np.random.default_rng(0)
    outcomes = rng.random((100, 8)) < rng.random((100, 1))
    policy, ids = {"rule": "hard", "budget": 0.2}, [f"n{i}" for i in range(100)]
    stopper = early_stopping.Stopper([early_stopping.wanted(ids, 8, policy, 3)], 8, confidence=0.8, in_full=True)
    early_stopping.replay(stopper, outcomes)
    rows = [
        {"id": i, "samples": int(d), "correct": int(c), "pass_rate": c / d if d else None}
        for i, c, d in zip(ids, stopper.correct, stopper.drawn)
    ]
    columns = ["id", "samples", "correct", "pass_rate", *difficulty.STOPPED_COLUMNS]
    for confidence in (0.8, 1):
        files.write_rows(tmp_path / "d.csv", columns, [difficulty.stopped(row, 8, confidence) for row in rows])
        command = [sys.executable, str(SCRIPTS / "select_subset.py"), "--difficulty", "d.csv", "--policy", json.dumps(policy)]
        done = subprocess.run(
            [*command, "--seed", "3", "--output", "s.csv"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        if confidence == 1:
            assert done.returncode == 1 and "the samples do not decide this subset" in done.stderr
            continue
        assert done.returncode == 0, done.stderr
        facts = files.read_json(tmp_path / "s.json")
        assert facts["confidence"] == 0.8 and facts["prompts"] == 20
        assert "full probing is expected to choose at least 0.8 of these prompts, and at least 0.8 of what it" in facts["certainty"]
        lines = files.read_rows(tmp_path / "s.csv", {"id": str, "pass_rate": float, "rank": int})
        short = {row["id"] for row in rows if row["samples"] < 8}
        assert {row["id"] for row in lines if row["pass_rate"] is None} == {row["id"] for row in lines} & short != set()
        assert facts["mean_pass_rate"] is None and facts["zero_share"] is None and len(lines) == 20
        problems = [{"id": i, "question": f"q {i}", "answer": "1", "tier": None, "source": "s"} for i in ids]
        files.write_jsonl(tmp_path / "p.jsonl", problems)
        command = [sys.executable, str(SCRIPTS / "export_subset.py"), "--subset", "s.csv", "--problems", "p.jsonl"]
        done = subprocess.run(
            [*command, "--files", "p.jsonl", "--output", "r.jsonl"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 and "pass rate unknown, samples are missing" in done.stdout, done.stderr
        assert len(files.read_jsonl(tmp_path / "r.jsonl", {"id": str})) == 20
        assert facts["probe_samples"] == stopper.drawn.sum() < 800 == facts["probe_samples_in_full"]


def test_killed_and_taken_up_again_it_ends_the_same(worlds, tmp_path):
    full, early = worlds
    command = program(tmp_path)
    state, kills = tmp_path / "state/s.jsonl", 0
    for lines in (2, 4):
        process = subprocess.Popen(command, cwd=early.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        end = time.monotonic() + 120
        while process.poll() is None and not (state.exists() and state.read_bytes().count(b"\n") >= lines):
            assert time.monotonic() < end
            time.sleep(0.001)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.communicate()
        if state.exists():
            with open(state, "a") as stream:  # as a kill in the middle of a write leaves it
                stream.write('[{"id": "n')
    assert kills, "it was done before it could be killed"
    done = subprocess.run(command, cwd=early.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "o.jsonl.gz").read_bytes() == (early.folder / "results/probe/mine/mine/stopped.jsonl.gz").read_bytes()
    assert json.loads((tmp_path / "p.json").read_text())["resumed_from"] > 0 and not state.exists()
    assert not (early.folder / "results/state").exists() or not list((early.folder / "results/state").iterdir())
