"""The answers that the explorer shows beside completions."""

from explorer_pages import HandMadeStudy
from hardgrpo.report import explorer
from hardgrpo.study.resolved import resolve_study


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
