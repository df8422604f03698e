"""The explorer of a large study and of recordings, and the errors for files that are missing or
contradict each other."""

import json
import random
import time

import pytest

from explorer_pages import HandMadeStudy

pytestmark = pytest.mark.chromium


def test_fifty_thousand_completions_are_opened_filtered_and_searched(
    tmp_path, watched, record_property
):
    explorer, rng = (
        HandMadeStudy(tmp_path, seeds=range(10), policies=["hard", "middle", "random", "easy"]),
        random.Random(1),
    )
    words = [
        "so",
        "then",
        "he",
        "has",
        "apples",
        "left",
        "minus",
        "plus",
        "<b>",
        "the",
        "answer",
        "\u202e",
    ] + [str(n) for n in range(200)]
    model_paths, size = explorer.model_paths, 305
    for test in explorer.tests:
        explorer.write_problems(test, [{"id": f"{test}{i}", "question": " ".join(rng.choices(words, k=40)), "answer": "1", "tier": i % 5} for i in range(size)])  # fmt: skip
        for model_path in model_paths:
            step = 0 if model_path == "m/base" else 30
            rows = [
                {
                    "step": step, "id": f"{test}{i}", "decoding": "sampled", "sample": k, "correct": rng.randrange(2), "answered": 1,
                    "completion": " ".join(rng.choices(words, k=100)), "truncated": 0, "tokens": 100,
                }
                for i in range(size) for k in range(2)
            ]  # fmt: skip
            explorer.write_evaluation(model_path, test, rows)
    done = explorer.write()
    assert done.returncode == 0, done.stderr
    total = size * 2 * len(model_paths) * len(explorer.tests)
    assert total >= 50_000

    def seconds(action):
        started = time.perf_counter()
        action()
        watched.wait_until_ready()
        return time.perf_counter() - started

    seconds_by_step = {"open": seconds(lambda: watched.open(explorer.url))}
    assert (
        watched.cells("#summary")[-1][1] == f"{total:,}" and len(watched.cells("#problems")) == 100
    )
    seconds_by_step["filter"] = seconds(
        lambda: watched.page.locator("#filter-change").select_option("up")
    )
    seconds_by_step["problem"] = seconds(
        lambda: watched.page.locator("#problems tbody tr").nth(50).click()
    )
    seconds_by_step["link"] = seconds(lambda: watched.open(watched.page.url))
    seconds_by_step["search"] = seconds(
        lambda: watched.page.goto(watched.page.url + "&in=completions&search=apples")
    )
    print(
        {name: round(value, 2) for name, value in seconds_by_step.items()},
        (tmp_path / "explorer.html").stat().st_size / 1e6,
        "MB",
    )
    record_property("seconds", seconds_by_step)


def test_a_missing_evaluation_is_reported(tmp_path):
    explorer = HandMadeStudy(tmp_path, seeds=[0], policies=["hard"], tests=["t"])
    explorer.write_problems("t", [{"id": "a", "question": "?", "answer": "x", "tier": 1}])
    row = {
        "step": 0,
        "id": "a",
        "decoding": "sampled",
        "sample": 0,
        "correct": 0,
        "answered": 0,
        "completion": "",
    }
    explorer.write_evaluation("m/base", "t", [row])
    assert (
        explorer.write().stderr
        == "error: results/evaluation/m/t/r/hard/seed0/t.csv.gz: no such file\n"
    )


def test_recorded_completions_are_shown_with_their_texts(world, watched):
    """The workflow makes this explorer. For each problem the base model has four samples, the first
    checkpoint two and the last checkpoint five. Samples are numbered from 0, so sample 4 has no
    counterpart of the base model."""
    data = world.folder / "data/mine"
    data.mkdir(parents=True)
    questions = [f"Which letter is number {i}?\nOptions:\n(A) a\n(B) b" for i in range(4)]

    def record(name, samples, completion, **extra):
        rows = [{"question": q, "answer": "(A)", "completions": [completion(i, k) for k in range(samples)]} | extra for i, q in enumerate(questions)]  # fmt: skip
        (data / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    record("base.jsonl", 4, lambda i, k: "and then" if k < i else r"so \boxed{(A)}")
    record("all-50.jsonl", 2, lambda i, k: "half way")
    record("all-100.jsonl", 5, lambda i, k: rf"sample {k} <b>says</b> \boxed{{(A)}}", tokens=[7] * 5, finish_reasons=["stop"] * 4 + ["length"])  # fmt: skip

    def configure(config):
        recordings = {
            "letters": {"base": "mine/base.jsonl", "runs": {"all": "mine/all-{step}.jsonl"}}
        }
        config["models"]["mine"] = {"source": {"kind": "recorded", "recordings": recordings}}
        letters = {"source": {"kind": "files", "test": "mine/base.jsonl"}}
        config["tasks"]["letters"] = config["tasks"]["shuffled_objects_seven"] | letters
        config["studies"]["recordings"].update(
            models=["mine"], tasks=["letters"], arms=[{"policy": "all"}]
        )

    world.configure(configure)
    done = world.snakemake("explorer", "--config", "study=recordings")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert world.plan("explorer", "--config", "study=recordings") == {}
    watched.open((world.folder / "paper/recordings/explorer.html").as_uri())
    summary = {cells[0]: cells[1:] for cells in watched.cells("#summary")}
    assert summary["base model"] == ["16", "62.5 %", "–", "–", "–", "37.5 %", "–"]
    assert summary["all"] == ["20", "100.0 %", "62.5 %", "6", "0", "0.0 %", "20.0 %"]
    watched.page.locator("#problems a").nth(2).click()
    watched.wait_until_ready()
    assert "p̂ 0.50 (2 of 4 samples" in watched.text("#detail .facts >> nth=0")
    assert "and then" in watched.text("[data-side=base]") and "tokens not recorded" in watched.text(
        "[data-side=base]"
    )
    assert "sample 0 <b>says</b>" in watched.text(
        "[data-side=checkpoint]"
    ) and "7 tokens" in watched.text("[data-side=checkpoint]")
    watched.page.locator(".pairs a").nth(4).click()
    watched.wait_until_ready()
    text = watched.text(".side")
    assert "has no sample 4" in text and "cut off at the limit" in text
