"""Choices without labels: changed answers change no byte of the subset. A subset that is chosen by
predicted pass rates depends only on the answers that were bought."""

import json
import random
from types import SimpleNamespace

import numpy as np
import pytest

import project_config
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies, predicted
from in_process import run_program

CONFIG = project_config.config()
# Policies as the programs receive them, without `rounds`: the workflow reads this key and runs
# select_subset.py once for each round.
UNLABELLED = {
    name: {key: value for key, value in policy.items() if key != "rounds"}
    for name, policy in CONFIG["policies"].items()
    if policy.get("by", "pass_rate") != "pass_rate"
}
COLOURS = ["red", "blue", "pink", "green"]


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """Files of a pool of 200 prompts with eight samples each. The more the samples of a prompt
    agree, the more of them are right. For a tenth of the prompts, the samples agree on a wrong
    answer instead."""
    folder, chance = tmp_path_factory.mktemp("probe"), random.Random(3)
    problems, samples = [], []
    for number in range(200):
        answer, sure = chance.choice(COLOURS), chance.random()
        others = [colour for colour in COLOURS if colour != answer]
        usual_answer = chance.choice(others) if number % 10 == 0 else answer
        problems.append({"id": f"p{number}", "question": f"question {number}", "answer": answer})
        for sample in range(8):
            text = f"#### {usual_answer if chance.random() < sure else chance.choice(COLOURS)}"
            text = "" if chance.random() < 0.05 else text
            row = {"id": f"p{number}", "sample": sample, "completion": text, "tokens": 3}
            samples.append(row | {"finish_reason": "stop"})
    files.write_jsonl(folder / "completions.jsonl", samples)
    return SimpleNamespace(problems=problems, completions=folder / "completions.jsonl")


@pytest.fixture
def choose(probe, tmp_path, monkeypatch):
    """A function that runs all programs that lead from the problems to the subset of a policy. It
    returns the bytes of the subset and of its description."""
    monkeypatch.chdir(tmp_path)
    measuring = {"completions": probe.completions, "grader": "final_word", "samples": 8}

    def choose(name, changed=lambda problem: problem) -> bytes:
        """`changed` may change a problem's answer."""
        policy, sample = UNLABELLED[name], {}
        files.write_jsonl("problems.jsonl", map(changed, probe.problems))
        run_program("remove_answers", problems="problems.jsonl", output="questions.jsonl")
        run_program(
            "measure_signals", questions="questions.jsonl", output="signals.csv", **measuring
        )
        if "calibrated_on" in policy:
            run_program(
                "measure_difficulty", problems="problems.jsonl", output="rates.csv", **measuring
            )
            run_program(
                "annotate_sample", questions="questions.jsonl", difficulty="rates.csv",
                share=policy["calibrated_on"], seed=0, output="sample.csv",
            )  # fmt: skip
            sample = {"sample": "sample.csv"}
        run_program(
            "select_subset", signals="signals.csv", policy=json.dumps(policy), seed=0, output="subset.csv", **sample
        )  # fmt: skip
        return (tmp_path / "subset.csv").read_bytes() + (tmp_path / "subset.json").read_bytes()

    return choose


@pytest.mark.parametrize("name", UNLABELLED)
def test_answers_that_were_not_bought_do_not_change_the_subset(name, choose, tmp_path):
    before, bought = choose(name), set()
    if (tmp_path / "sample.csv").exists():
        bought = {row["id"] for row in files.read_rows("sample.csv", {"id": str})}
        assert len(bought) == 4
    without = lambda changed: (
        lambda problem: problem | {"answer": "nonsense"} if problem["id"] in changed else problem
    )
    assert choose(name, without({f"p{n}" for n in range(200)} - bought)) == before
    if bought:
        assert choose(name, without({min(bought)})) != before, (
            "a change of an answer that was bought must change the subset"
        )


@pytest.mark.parametrize("name", UNLABELLED)
def test_the_description_of_a_subset_has_the_numbers_of_labels_and_prompts(name, choose):
    choose(name)
    description = files.read_json("subset.json")
    rows = files.read_rows("subset.csv", {"id": str, UNLABELLED[name]["by"]: float})
    size = round(200 * UNLABELLED[name]["budget"])
    counts = [description[key] for key in ("pool", "prompts", "labels")]
    assert [*counts, len(rows)] == [200, size, size, size]
    table = files.read_rows("signals.csv", {"id": str, "agreement": float})
    agreement = {row["id"]: row["agreement"] for row in table}
    chosen = np.mean([agreement[row["id"]] for row in rows])
    if name in ("agreement_lowest", "entropy_highest"):
        assert chosen < sorted(agreement.values())[40]


# --- predicted pass rates


def known_signals(count: int, **columns) -> dict[str, dict]:
    agreement = np.linspace(0, 1, count)
    blank = dict.fromkeys(policies.SIGNALS)
    return {
        f"p{n}": blank | {"agreement": value, "entropy": 1 - value, "answered_share": 1.0} | columns
        for n, value in enumerate(agreement)
    }


@pytest.mark.parametrize("sign", [1, -1])
def test_predictions_follow_the_sample(sign):
    """With sign -1, the model is confidently wrong: predictions fall as the agreement rises."""
    rates = {f"p{n}": 0.5 + sign * (n / 100 - 0.5) for n in range(0, 100, 9)}
    predictions = list(predicted.predict_pass_rates(known_signals(100), rates).values())
    assert (sign * np.diff(predictions) > 0).all() and 0 < min(predictions) < max(predictions) < 1
    assert predictions[50] == pytest.approx(0.5, abs=0.1)


def test_a_sample_that_separates_the_pool_still_gives_finite_predictions():
    rates = {"p1": 0.0, "p2": 0.0, "p40": 1.0, "p45": 1.0}
    predictions = predicted.predict_pass_rates(known_signals(50), rates)
    assert np.isfinite(list(predictions.values())).all()
    assert predictions["p0"] < 0.5 < predictions["p49"]


@pytest.mark.parametrize("rate, word", [(0.0, "wrong"), (1.0, "right")])
def test_a_sample_with_only_right_or_only_wrong_completions_is_refused(rate, word):
    with pytest.raises(UserError, match=f"all completions of the 2 annotated prompts are {word}"):
        predicted.predict_pass_rates(known_signals(9), {"p1": rate, "p2": rate})


def test_a_random_sample_has_at_least_two_prompts():
    ids = [f"p{n}" for n in range(100)]
    sample = predicted.draw_sample(ids, 0.1, 0)
    assert len(set(sample)) == 10 and predicted.draw_sample(ids, 0.1, 1) != sample
    assert predicted.draw_sample(ids[::-1], 0.1, 0) == sample, "the order of the ids plays no part"
    assert len(predicted.draw_sample(ids, 0.02, 0)) == 2
    with pytest.raises(UserError, match="at least two"):
        predicted.draw_sample(ids, 0.01, 0)
