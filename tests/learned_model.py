"""A small model that has learned some arithmetic, and checks of a server's pass rates and
log-probabilities against those of the model's weights."""

import json
import math
import socket
from pathlib import Path

import pytest

from command_line import run_well
from engine_scores import scores_by_transformers
from hardgrpo.data import tasks
from hardgrpo.runtime import files, provenance
from hardgrpo.sampling import engines
from hardgrpo.sampling.requests import Request

NAME = "learned"  # the model's name on servers
PROBLEMS = "results/tasks/arithmetic/train.jsonl"


def one_task(config: dict) -> None:
    """Configure one short arithmetic task and a model that learns a part of the task within a
    minute, so that pass rates are between 0 and 1."""
    task = config["tasks"]["arithmetic"]
    task["source"].update(length=[1, 2], train=60, test=40)
    task["probe"].update(samples=6)
    source = config["models"]["tiny"]["source"]
    source.update(
        steps=300, hidden_size=64, intermediate_size=192, heads=4, key_value_heads=4, layers=2,
        seed=0, batch_size=64,
    )  # fmt: skip
    changes = {"length": [1, 2], "slip": dict.fromkeys("+-*/", 0.15)}
    source["demonstrations"] = {"arithmetic": source["demonstrations"]["arithmetic"] | changes}
    source["demonstrations"]["arithmetic"]["share"] = {"first": 1.0, "last": 1.0}
    config["recipes"]["mini"].update(
        updates=4, prompts_per_update=4, group_size=4, checkpoint_every=2, learning_rate=5e-3
    )
    config["recipes"]["mini"]["adapter"] = {"rank": 4, "alpha": 16, "dropout": 0.0}
    # This model is not pretrained on the tasks of the other studies.
    config["studies"] = {"mini": config["studies"]["mini"]}
    config["studies"]["mini"].update(
        tasks=["arithmetic"],
        arms=[{"policy": "random", "recipe": "mini"}],
        seeds=[0],
        also_tested_on={},
        weaker_signal=[],
    )


def problems_of(folder: Path) -> dict[str, str]:
    problems = tasks.read_problems(folder / PROBLEMS)
    return {problem["id"]: problem["question"] for problem in problems}


def agree(first_share: tuple[float, int], second_share: tuple[float, int]) -> bool:
    """Whether two shares, each (share, number of samples), differ by less than the half-width of
    the difference's 99.9 % interval."""
    (p, n), (q, m) = first_share, second_share
    return abs(p - q) < 3.3 * math.sqrt(p * (1 - p) / n + q * (1 - q) / m)


def is_listening(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def probe_command(
    folder: Path,
    url: str,
    output: str,
    samples: int,
    tokens: int,
    settings: dict | None = None,
    model: str = NAME,
) -> list[str]:
    """The arguments of probe.py for the learned model behind a server. `settings` are keys of the
    model's source."""
    served = folder / "results/models/served"
    served.mkdir(exist_ok=True)
    provenance.write_manifest(served, model="served", source={"kind": "server", "model": model})
    server = json.dumps({"url": url} | (settings or {}))
    return [
        *("--model", str(served), "--problems", PROBLEMS, "--prompt", "{question}"),
        *("--samples", str(samples), "--completion-tokens", str(tokens), "--seed", "1"),
        *("--engine", "server", "--server", server, "--state", f"{output}-state"),
        *("--output", f"{output}.jsonl", "--provenance", f"{output}.json"),
    ]


def probe_through_server(
    folder: Path,
    url: str,
    output: str = "served",
    samples: int = 6,
    tokens: int = 40,
    settings: dict | None = None,
) -> tuple[dict, list[dict]]:
    """Probe through a server. Return (the server's entry in the provenance, the probe's rows)."""
    run_well(folder, "probe", *probe_command(folder, url, output, samples, tokens, settings))
    keys = {"id": str, "completion": str, "tokens": int, "finish_reason": str}
    rows = files.read_jsonl(folder / f"{output}.jsonl", keys)
    return files.read_json(folder / f"{output}.json")["server"], rows


def assert_pass_rate_of_weights(folder: Path, output: str = "served") -> None:
    """Assert that the pass rate of a probe equals that of the model's weights, up to sampling
    noise."""
    grading = {"problems": PROBLEMS, "grader": "final_number", "samples": 6}
    texts, table = f"{output}.jsonl", f"{output}.csv"
    run_well(folder, "measure_difficulty", completions=texts, output=table, **grading)
    rates = [
        (sum(row["correct"] for row in rows) / 360, 360)
        for path in (f"{output}.csv", "results/difficulty/tiny/arithmetic.csv")
        for rows in [files.read_rows(folder / path, {"correct": int})]
    ]
    assert 0.05 < rates[0][0] < 0.95 and agree(*rates)


def assert_log_probabilities_of_weights(folder: Path, rows: list[dict]) -> None:
    """Assert that each finished completion, end token included, has the number of tokens and the
    mean log-probability that the model's tokenizer and weights give."""
    assert rows, "no completion is finished"
    questions = problems_of(folder)
    tokenizer = engines.load_tokenizer(folder / "results/models/tiny")
    requests = [
        Request(tuple(tasks.messages("{question}", questions[row["id"]])), 1, 1.0) for row in rows
    ]
    prompts = engines.tokenize(tokenizer, requests, {})
    end = [tokenizer.eos_token_id]
    completions = [
        (tokenizer(row["completion"], add_special_tokens=False)["input_ids"] + end, 0)
        for row in rows
    ]
    assert [len(ids) for ids, _ in completions] == [row["tokens"] for row in rows]
    model = folder / "results/models/tiny"
    (scores,) = scores_by_transformers(model, [None], prompts, [completions])
    for row, tokens in zip(rows, scores):
        assert row["log_probability"] == pytest.approx(sum(tokens) / len(tokens), abs=1e-3)
