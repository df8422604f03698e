"""Choices without labels: changed answers change no byte of the subset. A subset that is chosen by
predicted pass rates depends only on the answers that were bought."""

import json
import random
import subprocess

import numpy as np
import pytest

import in_process
import project_config
from command_line import format_options
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies, predicted

CONFIG = project_config.config()
# Policies as the programs receive them, without `rounds`: the workflow reads this key and runs
# select_subset.py once for each round.
UNLABELLED = {
    name: {key: value for key, value in policy.items() if key != "rounds"}
    for name, policy in CONFIG["policies"].items()
    if policy.get("by", "pass_rate") != "pass_rate"
}
COLOURS = ["red", "blue", "pink", "green"]


def run(folder, program, /, *arguments, fails=False, **options) -> subprocess.CompletedProcess:
    done = in_process.run(folder, program, *arguments, **options)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """A pool of 200 prompts with eight samples each. The more the samples of a prompt agree,
    the more of them are right. For a tenth of the prompts, the samples agree on a wrong answer
    instead."""
    folder, chance = tmp_path_factory.mktemp("probe"), random.Random(3)
    problems, samples = [], []
    for number in range(200):
        answer, sure = chance.choice(COLOURS), chance.random()
        usual_answer = (
            chance.choice([c for c in COLOURS if c != answer]) if number % 10 == 0 else answer
        )
        problems.append({"id": f"p{number}", "question": f"question {number}", "answer": answer})
        for sample in range(8):
            text = (
                ""
                if chance.random() < 0.05
                else f"#### {usual_answer if chance.random() < sure else chance.choice(COLOURS)}"
            )
            samples.append(
                {
                    "id": f"p{number}",
                    "sample": sample,
                    "completion": text,
                    "tokens": 3,
                    "finish_reason": "stop",
                }
            )
    files.write_jsonl(folder / "problems.jsonl", problems)
    files.write_jsonl(folder / "completions.jsonl", samples)
    return folder


def choose(probe, folder, name, changed=lambda problem: problem, seed="0") -> bytes:
    """Run all programs that lead from the problems to the subset. `changed` may change a problem's
    answer. Return the bytes of the subset and of its description."""
    policy, folder = UNLABELLED[name], folder / name
    folder.mkdir(parents=True, exist_ok=True)
    files.write_jsonl(
        folder / "problems.jsonl",
        map(changed, files.read_jsonl(probe / "problems.jsonl", {"id": str})),
    )
    completions = format_options(
        completions=probe / "completions.jsonl", grader="final_word", samples="8"
    )
    run(folder, "remove_answers", problems="problems.jsonl", output="questions.jsonl")
    run(folder, "measure_signals", *completions, questions="questions.jsonl", output="signals.csv")
    sample = []
    if "calibrated_on" in policy:
        run(
            folder,
            "measure_difficulty",
            *completions,
            problems="problems.jsonl",
            output="difficulty.csv",
        )
        drawn = format_options(
            questions="questions.jsonl", share=policy["calibrated_on"], seed=seed
        )
        run(folder, "annotate_sample", *drawn, difficulty="difficulty.csv", output="sample.csv")
        sample = ["--sample", "sample.csv"]
    run(
        folder,
        "select_subset",
        *sample,
        signals="signals.csv",
        policy=json.dumps(policy),
        seed=seed,
        output="subset.csv",
    )
    return (folder / "subset.csv").read_bytes() + (folder / "subset.json").read_bytes()


@pytest.mark.parametrize("name", UNLABELLED)
def test_answers_that_were_not_bought_do_not_change_the_subset(name, probe, tmp_path):
    bought = set()
    before = choose(probe, tmp_path / "before", name)
    if (tmp_path / f"before/{name}/sample.csv").exists():
        bought = {
            row["id"]
            for row in files.read_rows(tmp_path / f"before/{name}/sample.csv", {"id": str})
        }
        assert len(bought) == 4
    nonsense = lambda problem: (
        problem if problem["id"] in bought else problem | {"answer": "nonsense"}
    )
    assert choose(probe, tmp_path / "after", name, nonsense) == before
    if bought:
        change_bought_answer = lambda problem: (
            problem | {"answer": "nonsense" if problem["id"] == min(bought) else problem["answer"]}
        )
        assert choose(probe, tmp_path / "other", name, change_bought_answer) != before, (
            "a change of an answer that was bought must change the subset"
        )


@pytest.mark.parametrize("name", UNLABELLED)
def test_the_description_of_a_subset_has_the_numbers_of_labels_and_prompts(name, probe, tmp_path):
    choose(probe, tmp_path, name)
    description = files.read_json(tmp_path / name / "subset.json")
    rows = files.read_rows(
        tmp_path / name / "subset.csv", {"id": str, UNLABELLED[name]["by"]: float}
    )
    size = round(200 * UNLABELLED[name]["budget"])
    assert (description["pool"], description["prompts"], description["labels"], len(rows)) == (
        200,
        size,
        size,
        size,
    )
    signals = {
        row["id"]: row
        for row in files.read_rows(tmp_path / name / "signals.csv", {"id": str, "agreement": float})
    }
    chosen = np.mean([signals[row["id"]]["agreement"] for row in rows])
    if name in ("agreement_lowest", "entropy_highest"):
        assert chosen < sorted(signal["agreement"] for signal in signals.values())[40]


# --- predicted pass rates


def known_signals(count: int, **columns) -> dict[str, dict]:
    agreement = np.linspace(0, 1, count)
    blank = dict.fromkeys(policies.SIGNALS)
    return {
        f"p{n}": blank | {"agreement": value, "entropy": 1 - value, "answered_share": 1.0} | columns
        for n, value in enumerate(agreement)
    }


def test_predictions_follow_the_sample():
    signals = known_signals(100)
    rising = predicted.predict_pass_rates(signals, {f"p{n}": n / 100 for n in range(0, 100, 9)})
    assert all(rising[f"p{n}"] < rising[f"p{n + 1}"] for n in range(99)) and rising[
        "p50"
    ] == pytest.approx(0.5, abs=0.1)
    falling = predicted.predict_pass_rates(
        signals, {f"p{n}": 1 - n / 100 for n in range(0, 100, 9)}
    )
    assert all(falling[f"p{n}"] > falling[f"p{n + 1}"] for n in range(99)), (
        "if the model is confidently wrong, predictions must fall as the agreement rises"
    )
    assert all(0 < rate < 1 for rate in [*rising.values(), *falling.values()])


def test_a_sample_that_separates_the_pool_still_gives_finite_predictions():
    predictions = predicted.predict_pass_rates(
        known_signals(50), {"p1": 0.0, "p2": 0.0, "p40": 1.0, "p45": 1.0}
    )
    assert (
        np.isfinite(list(predictions.values())).all()
        and predictions["p0"] < 0.5 < predictions["p49"]
    )


@pytest.mark.parametrize("rate, word", [(0.0, "wrong"), (1.0, "right")])
def test_a_sample_with_only_right_or_only_wrong_completions_is_refused(rate, word):
    with pytest.raises(UserError, match=f"all completions of the 2 annotated prompts are {word}"):
        predicted.predict_pass_rates(known_signals(9), {"p1": rate, "p2": rate})


def test_a_random_sample_has_at_least_two_prompts():
    ids = [f"p{n}" for n in range(100)]
    assert len(set(predicted.draw_sample(ids, 0.1, 0))) == 10 and predicted.draw_sample(
        ids, 0.1, 0
    ) != predicted.draw_sample(ids, 0.1, 1)
    assert predicted.draw_sample(ids[::-1], 0.1, 0) == predicted.draw_sample(ids, 0.1, 0), (
        "the sample must not depend on the order of the ids"
    )
    assert len(predicted.draw_sample(ids, 0.02, 0)) == 2
    with pytest.raises(UserError, match="at least two"):
        predicted.draw_sample(ids, 0.01, 0)
