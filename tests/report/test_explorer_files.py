"""The explorer of recordings, the answers beside completions, and the error for a missing file."""

import json

import pytest

from explorer_pages import HandMadeStudy
from hardgrpo.report import explorer
from hardgrpo.study.resolved import resolve_study


def test_a_missing_evaluation_is_reported(tmp_path):
    handmade = HandMadeStudy(tmp_path, seeds=[0], policies=["hard"], tests=["t"])
    handmade.write_problems("t", [{"id": "a", "question": "?", "answer": "x", "tier": 1}])
    row = {"step": 0, "id": "a", "decoding": "sampled", "sample": 0, "correct": 0, "answered": 0}
    handmade.write_evaluation("m/base", "t", [row | {"completion": ""}])
    path = "results/evaluation/m/t/r/hard/seed0/t.csv.gz"
    assert handmade.write().stderr == f"error: {path}: no such file\n"


@pytest.mark.chromium
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
    world.run("explorer", "--config", "study=recordings")
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


def test_an_answer_in_the_reasoning_alone_is_shown_as_no_answer(tmp_path, monkeypatch):
    handmade = HandMadeStudy(tmp_path, seeds=[0], policies=["hard"], tests=["t"])
    handmade.config["tasks"]["t"] = handmade.config["tasks"]["t"] | {"grader": "boxed_text"}
    handmade.write_problems("t", [{"id": "q", "question": "1 + 1?", "answer": "2"}])
    completions = [r"<think>\boxed{1} is it</think> hmm", r"<think>1?</think> \boxed{2}"]
    for model_path in handmade.model_paths:
        rows = [
            {"step": 0, "id": "q", "decoding": "sampled", "sample": sample, "correct": sample}
            | {"answered": sample, "completion": text}
            for sample, text in enumerate(completions)
        ]
        handmade.write_evaluation(model_path, "t", rows)
    monkeypatch.chdir(tmp_path)
    _, texts = explorer.read_study(resolve_study(handmade.config, "s"))
    assert [block["extracted"] for block in texts] == [[None, "2"]] * 2
