"""Recorded completions in the workflow: small made-up recordings, and published recordings if
their files exist."""

import json
from pathlib import Path

import pytest

from conftest import RECORDINGS, ROOT
from hardgrpo.grading import graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

QUESTIONS = [f"Which letter is number {i}?\nOptions:\n(A) a\n(B) b" for i in range(10)]
ANSWERS = ["(A)", "(B)"] * 5


def recording(path, completion, samples, **extra):
    """Write a recording of QUESTIONS. `completion(i, k)` is the text of completion k of question i,
    `extra` maps a further column to a function of i."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"question": q, "answer": a, "completions": [completion(i, k) for k in range(samples)]}
        | {key: f(i) for key, f in extra.items()}
        for i, (q, a) in enumerate(zip(QUESTIONS, ANSWERS))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def right(i):
    return f"so \\boxed{{{ANSWERS[i]}}}"


def configure(config):
    del config["models"]["qwen3-14b-recorded"]
    del config["models"]["qwen3-4b-recorded"]["source"]["recordings"]["kegg"]
    for name in ("gsm8k_hard_test", "gsm8k_hard_test_strict", "kegg"):
        del config["tasks"][name]
    config["tasks"]["letters"] = config["tasks"]["shuffled_objects_seven"] | {
        "source": {"kind": "files", "train": "mine/base.jsonl", "test": "mine/base.jsonl"}
    }
    runs = {"all": "mine/run/after-{step}-updates.jsonl", "hard": "mine/hard-{step}.jsonl"}
    config["models"]["mine"] = {
        "source": {
            "kind": "recorded",
            "recordings": {
                "letters": {"probe": "mine/base.jsonl", "base": "mine/base.jsonl", "runs": runs}
            },
        }
    }
    config["studies"]["recordings"].update(
        models=["mine"], tasks=["letters"], arms=[{"policy": ["hard", "all"]}]
    )
    config["policies"]["hard"]["budget"] = 0.2


@pytest.fixture
def recorded(world):
    """Recordings of ten problems. The base model has four completions of each problem: of problem
    i, i % 4 completions have no answer, the other completions are right. In run `all`, one of the
    two completions of each problem is right after 50 updates, and the other has no answer; after
    100 updates both are right. In run `hard`, all completions are wrong."""
    data = world.folder / "data/mine"
    cut = lambda i, k: "and then" if k < i % 4 else right(i)
    recording(data / "base.jsonl", cut, 4)
    recording(data / "run/after-50-updates.jsonl", lambda i, k: right(i) if k else "no", 2)
    recording(data / "run/after-100-updates.jsonl", lambda i, k: right(i), 2)
    recording(data / "hard-100.jsonl", lambda i, k: r"\boxed{(C)}", 3)
    world.configure(configure)
    return world


def test_a_study_of_recordings_runs_without_weights(recorded):
    recorded.run("--config", "study=recordings")
    summaries = recorded.folder / "results/summaries/recordings"
    parts = {
        row["policy"]: row
        for row in files.read_rows(
            summaries / "parts.csv", dict.fromkeys(["policy"], str) | NUMBERS
        )
    }
    base = 1 - (0 + 1 + 2 + 3 + 0 + 1 + 2 + 3 + 0 + 1) / 40
    assert parts["all"]["base_accuracy"] == pytest.approx(base)
    assert (parts["all"]["finishing"], parts["all"]["correctness"]) == pytest.approx((1 - base, 0))
    assert parts["hard"]["gain"] == pytest.approx(-base)
    assert parts["hard"]["correctness"] < 0 < parts["hard"]["finishing"]
    keys = {"policy": str, "step": int, "accuracy": float}
    steps = files.read_rows(summaries / "accuracy.csv", keys)
    accuracies = [(r["step"], r["accuracy"]) for r in steps if r["policy"] == "all"]
    assert accuracies == [(0, pytest.approx(base)), (50, 0.5), (100, 1.0)]
    assert (recorded.folder / "paper/recordings/figures/accuracy.pdf").exists()
    assert recorded.plan("--config", "study=recordings") == {}


@pytest.mark.nightly
def test_uneven_recordings_or_recordings_of_the_base_model_alone_give_difficulties_and_subsets(
    recorded,
):
    """Prompts have different numbers of completions, a text ends in the middle of a character (half
    of a surrogate pair), and the number in the name of one checkpoint has a leading zero."""
    data = recorded.folder / "data/mine"
    rows = [json.loads(line) for line in (data / "base.jsonl").read_text().splitlines()]
    rows[0]["completions"] += ["\ud83d", right(0)]
    rows[1] |= {"tokens": None}
    (data / "base.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (data / "hard-100.jsonl").rename(data / "hard-0100.jsonl")
    assert recorded.snakemake("--config", "study=recordings").returncode == 0
    recorded.configure(
        lambda config: config["models"]["mine"]["source"]["recordings"]["letters"].pop("runs")
    )
    done = recorded.snakemake("--config", "study=recordings")
    assert done.returncode == 0 and "no trained runs" in done.stdout, (
        done.stdout[-3000:] + done.stderr[-3000:]
    )
    subset = recorded.folder / "results/subsets/mine/letters/hard/seed0.csv"
    assert len(files.read_rows(subset, {"id": str})) == 2


NUMBERS = dict.fromkeys(["gain", "finishing", "correctness", "base_accuracy"], float)


def test_missing_recordings_are_reported(world):
    world.configure(configure)
    output = world.fail("-n", "--config", "study=recordings", "data=nowhere")
    assert "nowhere/mine/" in output


def test_missing_originals_are_planned_as_downloads_and_figures_need_no_originals(world):
    plan = world.plan("--config", "study=recordings", "data=nowhere")
    assert plan["fetch_original"] > 100 and plan["convert_recording"] > 80
    assert "fetch_original" not in world.plan(
        "figures", "--config", "study=recordings", "data=nowhere", "draw=reference"
    )
    assert world.plan("--config", "study=trajectories", "data=nowhere")["fetch_original"] == 1
    for study, number in (("recordings", plan["fetch_original"]), ("trajectories", 1)):
        downloads = world.plan("inputs", "--config", f"study={study}", "data=nowhere")
        assert downloads["fetch_original"] == number, study


NO_TEXT = "row 3: 'completions' must be a list of at least one text"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"completions": []}, NO_TEXT),
        ({"completions": [1]}, NO_TEXT),
        ({"question": QUESTIONS[0]}, "row 3: the question occurs twice in the file"),
        ({"question": "another one"}, "no completions for problem"),
        ({"tokens": [1, 2, 3]}, "row 3: 'tokens' must be a list with a value for each of the 2"),
    ],
)
def test_a_bad_recording_is_reported(tmp_path, row, words):
    from hardgrpo.data import completions

    rows = [{"question": q, "completions": ["a", "b"]} for q in QUESTIONS]
    rows[2] |= row
    path = tmp_path / "R.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    problems = [{"id": f"p{i}", "question": q, "answer": "(A)"} for i, q in enumerate(QUESTIONS)]
    with pytest.raises(UserError) as error:
        completions.read_recording(path, problems)
    assert str(error.value).startswith(f"{path}: ") and words in str(error.value)


# --- files in the format in which their authors published them

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def publish(folder: Path, right_shares: dict[str, float], samples: int = 5) -> None:
    """Write the files of a repository. `right_shares` maps the name of a file of completions to the
    share of questions whose completions in this file are right."""
    chat = "user\n{}.\nPut your final answer within \\boxed{{}}.\nassistant\n{}"
    (folder / "dset").mkdir(parents=True)
    rows = [
        json.dumps({"question": question, "answer": answer}) + "\n"
        for question, answer in zip(QUESTIONS, ANSWERS)
    ]
    (folder / "dset/test.json").write_text("".join(rows))
    (folder / "dset/scores.json").write_text(json.dumps([0.5] * 10))
    for name, share in right_shares.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        texts = [
            [chat.format(QUESTIONS[i], right(i) if i < 10 * share else r"\boxed{(C)}")] * samples
            for i in range(10)
        ]
        (folder / name).write_text(json.dumps(texts))
    curves = {"checkpoint": [100, 200], "accuracy": [0.4, 0.6], "base accuracy": 0.5}
    (folder / "random.json").write_text(json.dumps(curves))


def configure_published(config):
    configure(config)
    recording = {
        "questions": {"train": "dset/test.json", "test": "dset/test.json"},
        "scores": {"train": "dset/scores.json", "test": "dset/scores.json"},
        "probe": "{model}/base.json",
        "base": "{model}/base.json",
        "runs": {
            "all": "{model}_all/checkpoint-{step}.json",
            "hard": "{model}_hard/checkpoint-{step}.json",
        },
        "published": {"random_42": "random.json"},
    }
    source = {
        "kind": "recorded",
        "repository": "someone/runs",
        "commit": COMMIT,
        "local": "original/runs",
    }
    for model, name in (("mine", "A"), ("another", "B")):
        entry = source | {"name": name, "recordings": {"letters": recording}}
        config["models"][model] = {"source": entry}
    config["tasks"]["letters"]["source"] = {
        "kind": "recorded",
        "train": "mine/probe",
        "test": "mine/base",
    }
    config["studies"]["recordings"]["models"] = ["mine", "another"]


def test_a_study_of_published_files_runs_from_the_originals(world):
    """The files of two models have the same format. The file of one checkpoint is empty."""
    original = world.folder / "data/original/runs"
    shares = {
        "base.json": 0.5,
        "_all/checkpoint-100.json": 0.8,
        "_all/checkpoint-200.json": 1,
        "_hard/checkpoint-200.json": 0.7,
    }
    files_of = {
        f"{model}{'/' if name == 'base.json' else ''}{name}": share
        for model in "AB"
        for name, share in shares.items()
    }
    publish(original, files_of)
    (original / "A_hard/checkpoint-100.json").touch()
    world.configure(configure_published)
    output = world.run("--config", "study=recordings")
    assert "A_hard/checkpoint-100.json is empty (0 bytes)" in output

    kinds = dict.fromkeys(["model", "policy", "minus", "questions", "measure", "grading"], str) | {
        "difference": float
    }
    rows = files.read_rows(world.folder / "results/summaries/recordings/recorded_runs.csv", kinds)
    differences = {
        tuple(row[key] for key in ("model", "policy", "minus")): row["difference"]
        for row in rows
        if (row["measure"], row["questions"]) == ("accuracy", "all")
    }
    for model in ("mine", "another"):
        assert differences[model, "all", "base"] == pytest.approx(0.9 - 0.5)
        assert differences[model, "hard", "all"] == pytest.approx(-0.3)
        assert differences[model, "random_42", "base"] == pytest.approx((0.4 + 0.6) / 2 - 0.5)
    pinned = json.loads((world.folder / "inputs.lock").read_text())["repositories"][
        f"someone/runs@{COMMIT}"
    ]
    assert set(pinned) == {*files_of, "dset/test.json", "dset/scores.json", "random.json"}

    (original / "A_all/checkpoint-200.json").write_text("[]")
    done = world.snakemake("--config", "study=recordings")
    output = done.stdout + done.stderr
    log = world.folder / "results/logs/convert_recording/mine/letters/all/checkpoint-200.log"
    assert done.returncode != 0 and "Traceback" not in output
    assert "A_all/checkpoint-200.json is not the file of inputs.lock" in log.read_text()
    (original / "A_all/checkpoint-200.json").unlink()
    assert world.plan("--config", "study=recordings")["fetch_original"] == 1, (
        "a pinned file that is missing must be downloaded"
    )


# --- published recordings


@pytest.mark.recordings
@pytest.mark.parametrize("split", ["train", "test"])
def test_the_published_pass_rates_are_those_of_prompts_and_completions_graded_together(split):
    """As in HE's released code. Here, the grader receives the completion alone."""
    path = f"{RECORDINGS}/recordings/shuffled_objects_seven/qwen3-4b/{split}.jsonl"
    rows = files.read_jsonl(path, {"question": str, "completions": list})
    assert len(rows) == 125
    right = lambda row, start: sum(
        graders.grade("choice_letter", start + text, row["answer"]).correct
        for text in row["completions"]
    )
    with_prompt = [right(row, f"{row['prompt']}\n") for row in rows]
    published = [10 * row["published_pass_rate"] for row in rows]
    assert with_prompt == pytest.approx(published, abs=1e-8)
    changed = [row for row, count in zip(rows, with_prompt) if right(row, "") != count]
    assert {row["answer"] for row in changed} == {"(A)"}, "(A) is the example in the prompt"


def test_the_committed_tables_have_the_numbers_that_were_computed_by_hand():
    """By the lenient grader, 69 of 396 completions have an answer before training and 50 are right;
    after training, 377 and 320. From these counts, finishing is 89.7 % of the gain; from rounded
    shares, it would be 89.8 %."""
    tables = ROOT / "results/reference/recordings"
    columns = ["base_answered", "answered", "base_accuracy", "accuracy"]
    columns += ["base_accuracy_answered", "accuracy_answered", "finishing", "gain"]
    keys = dict.fromkeys(("model", "task", "policy"), str)
    rows = {
        tuple(row[key] for key in keys): [row[column] for column in columns]
        for row in files.read_rows(tables / "parts.csv", keys | dict.fromkeys(columns, float))
    }
    strict, lenient = (
        rows["qwen3-14b-recorded", f"gsm8k_hard_test{end}", "unknown_subset"]
        for end in ("_strict", "")
    )
    percent = lambda shares: [round(100 * share, 1) for share in shares]
    assert percent(strict[:6]) == [17.4, 95.2, 6.6, 69.2, 37.7, 72.7]
    assert percent(lenient[2:6]) == [12.6, 80.8, 72.5, 84.9]
    all_prompts = rows["qwen3-4b-recorded", "shuffled_objects_seven", "all"]
    assert percent(all_prompts[:6]) == [96.9, 96.5, 54.8, 81.6, 56.6, 84.5]
    assert percent(row[6] / row[7] for row in (strict, lenient)) == [68.5, 89.7]
    # The authors' subsets have 47, 22 and 17 prompts. Their second subset has 22 instead of 26
    # prompts, because the authors graded prompt and completion together.
    subsets = files.read_rows(
        tables / "subsets.csv", {"task": str, "policy": str, "prompts": float}
    )
    hardest = ("shuffled_objects_seven", "hard30")
    prompts = [row["prompts"] for row in subsets if (row["task"], row["policy"]) == hardest]
    assert prompts == [47, 26, 17]
