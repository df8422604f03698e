"""Probe the small study's model, train an adapter by GRPO, interrupt this training, and evaluate
the checkpoints, with each engine on the CPU. On GPUs, `make gpu-check` does the same with real
models."""

import csv
import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from command_line import format_options
from conftest import path_of
from hardgrpo.runtime import files
from interruptible_run import contents, states, wait_for

UPDATES, EVERY, SAMPLES = 6, 2, 4
ENGINES = ["transformers", pytest.param("vllm", marks=pytest.mark.vllm)]


class Place:
    """A folder with problems for a model."""

    def __init__(self, folder: Path, model: Path):
        self.folder, self.model = folder, model
        self.printed: dict[str, str] = {}  # {output file or folder: what its program printed}

    def run(self, program: str, *arguments) -> str:
        """Run a program, which must succeed. Print how long it took, and return what it printed."""
        began = time.monotonic()
        command = [sys.executable, path_of(program), *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        print(f"{program}: {time.monotonic() - began:.0f} s, start included")
        return done.stdout

    def once(self, name: str, program: str, *arguments) -> str:
        """Run the program that writes `name`, unless an earlier test has run it. Return what the
        program printed."""
        if name not in self.printed:
            self.printed[name] = self.run(program, *arguments)
        return self.printed[name]

    def trained(self, engine: str) -> Path:
        self.once(f"{engine}-whole", "train_grpo", *self.training(engine, f"{engine}-whole"))
        return self.folder / f"{engine}-whole"

    def evaluated(self, engine: str) -> str:
        """Evaluate the base model and its adapters; write grades to ENGINE.csv.gz and texts to
        ENGINE.jsonl.gz."""
        return self.once(
            f"{engine}.csv.gz", "evaluate", *self.sampling(engine, "test"), "--checkpoints", self.trained(engine) / "checkpoints",
            "--base", "--greedy", "--grader", "final_word", "--output", f"{engine}.csv.gz", "--completions", f"{engine}.jsonl.gz",
        )  # fmt: skip

    def sampling(self, engine: str, split: str) -> list:
        """Arguments that probe and evaluation have in common."""
        arguments = format_options(
            model=self.model, problems=f"{split}.jsonl", prompt="{question}", completion_tokens=48
        )
        return [*arguments, "--samples", SAMPLES, "--seed", 1, "--engine", engine]

    def training(self, engine: str, name: str) -> list:
        return ["--spec", f"{engine}.yaml", "--output", name, "--state", f"{name}.state"]


@pytest.fixture(scope="module")
def place(finished_world, tmp_path_factory) -> Place:
    folder, results = tmp_path_factory.mktemp("place"), finished_world.folder / "results"
    for split in ("train", "test"):
        rows = files.read_jsonl(results / f"tasks/swaps/{split}.jsonl", {"id": str})
        files.write_jsonl(
            folder / f"{split}.jsonl", [{"tier": None, "source": "made"} | row for row in rows]
        )
        if split == "train":
            ranked = [
                {"id": row["id"], "pass_rate": None, "rank": rank}
                for rank, row in enumerate(rows, start=1)
            ]
            files.write_rows(folder / "subset.csv", ["id", "pass_rate", "rank"], ranked)
    place = Place(folder, results / "models/tiny")
    spec = yaml.safe_load((results / "training/tiny/swaps/mini/hard/seed0/spec.yaml").read_text())
    spec |= {"model_folder": str(place.model), "problems": "train.jsonl", "subset": "subset.csv"}
    for engine in ("transformers", "vllm"):
        spec["training"] |= {
            "adapter": {"rank": 4, "alpha": 8, "dropout": 0.0}, "reward": "finished", "learning_rate": 1e-2,
            "updates": UPDATES, "checkpoint_every": EVERY, "generation": engine,
        }  # fmt: skip
        (folder / f"{engine}.yaml").write_text(yaml.safe_dump(spec))
    return place


@pytest.fixture(scope="module", params=ENGINES)
def engine(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def trained(place, engine) -> Path:
    return place.trained(engine)


def updates(run: Path) -> list[dict]:
    return list(csv.DictReader((run / "updates.csv").read_text().splitlines()))


def greedy(output: Path) -> dict[tuple, str]:
    """Greedy completions of an evaluation, by update and problem."""
    rows = [json.loads(line) for line in gzip.open(output, "rt")]
    return {
        (row["step"], row["id"]): row["completion"] for row in rows if row["decoding"] == "greedy"
    }


def test_a_probe_draws_every_sample(place, engine):
    place.run("probe", *place.sampling(engine, "train"), "--output", "probe.jsonl.gz")
    rows = files.read_jsonl(
        place.folder / "probe.jsonl.gz", {"id": str, "sample": int, "tokens": int}
    )
    assert len({(row["id"], row["sample"]) for row in rows}) == len(rows) == 24 * SAMPLES
    assert all(0 < row["tokens"] <= 48 for row in rows)
    assert len({row["completion"] for row in rows}) > 24, "the samples of each prompt are equal"


def test_an_adapter_is_trained(place, engine, trained):
    rows = updates(trained)
    assert [int(row["step"]) for row in rows] == list(range(1, UPDATES + 1))
    assert any(float(row["learnable_share"]) > 0 for row in rows), (
        "the rewards in each group are equal, so nothing can be learned"
    )
    assert sorted(path.name for path in (trained / "checkpoints").glob("step-*")) == [
        "step-2",
        "step-4",
        "step-6",
    ]
    seconds = [
        float(row["seconds"])
        for row in csv.DictReader((trained / "timing.csv").read_text().splitlines())
    ]
    print(
        f"updates: the first {seconds[0]:.1f} s, then {sum(seconds[1:]) / (UPDATES - 1):.2f} s each"
    )


def test_a_killed_and_restarted_training_resumes(place, engine, trained):
    """With transformers, all files except provenance.json and timing.csv equal those of the run that
    was not killed. With vLLM the files may differ, because vLLM draws other random numbers after a
    restart."""
    name = f"{engine}-resumed"
    command = [
        "nice",
        "-n",
        "19",
        sys.executable,
        path_of("train_grpo"),
        *map(str, place.training(engine, name)),
    ]
    with open(place.folder / "killed.log", "w") as log:
        process = subprocess.Popen(
            command, cwd=place.folder, stdout=log, stderr=log, start_new_session=True
        )
        wait_for(
            lambda: any((path / "manifest.json").exists() for path in states(place.folder, name)),
            process,
        )
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, (place.folder / "killed.log").read_text()[-3000:]
    place.run("train_grpo", *place.training(engine, name))
    resumed = place.folder / name
    assert json.loads((resumed / "provenance.json").read_text())["resumed_from"] >= EVERY
    resumed_files, trained_files = contents(resumed), contents(trained)
    assert sorted(resumed_files) == sorted(trained_files) and len(updates(resumed)) == UPDATES
    different_files = [path for path in resumed_files if resumed_files[path] != trained_files[path]]
    print(
        "bit-identical to the run that was not killed"
        if not different_files
        else f"not bit-identical: {different_files}"
    )
    assert not different_files or engine == "vllm"


def test_one_start_of_the_engine_evaluates_the_base_model_and_every_adapter(place, engine):
    output = place.evaluated(engine)
    assert output.count(f"engine {engine} starts") == 1
    rows = list(csv.DictReader(gzip.open(place.folder / f"{engine}.csv.gz", "rt")))
    assert {row["step"] for row in rows} == {"0", "2", "4", "6"} and len(rows) == 4 * 8 * (
        SAMPLES + 1
    )
    completions = greedy(place.folder / f"{engine}.jsonl.gz")
    problems = {name for _, name in completions}
    assert any(completions[0, name] != completions[UPDATES, name] for name in problems), (
        "the adapter does not change the completions"
    )


@pytest.mark.vllm
def test_greedy_completions_of_the_engines_agree(place):
    """At least half of the completions are equal. The other completions may differ, because the
    engines' kernels round differently and one different token changes the rest of a completion."""
    for engine in ("transformers", "vllm"):
        place.evaluated(engine)
    transformers_texts, vllm_texts = (
        greedy(place.folder / f"{engine}.jsonl.gz") for engine in ("transformers", "vllm")
    )
    base = [name for step, name in transformers_texts if step == 0]
    same = sum(transformers_texts[0, name] == vllm_texts[0, name] for name in base) / len(base)
    print(f"greedy completions of the base model that are equal with both engines: {same:.0%}")
    assert same >= 0.5
