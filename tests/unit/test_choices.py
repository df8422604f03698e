"""Comparisons of choices of prompts, measured on completions that were not used for the choice."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import fork_server
from command_line import format_options
from conftest import RECORDINGS, ROOT, path_of
from hardgrpo.runtime import files
from hardgrpo.selection import choices


def table(right, codes, budget=0.25, draws=60) -> dict[str, dict]:
    return {
        row["choice"]: row
        for row in choices.compare(np.array(right, dtype=float), np.array(codes), budget, draws)
    }


def test_agreement_and_entropy_equal_those_computed_by_hand():
    codes = np.array([[0, 0, 1, -1], [-1, -1, -1, -1], [0, 1, 2, 3]])
    assert choices.agreements(codes).tolist() == [0.5, 0, 0.25]
    assert choices.entropies(codes) == pytest.approx([0.6365141682948128, 0, np.log(4)])


def test_each_choice_contains_the_prompts_that_its_name_describes():
    """Four kinds of prompts, two of each: wrong with equal answers, wrong with different answers,
    half right, right."""
    sure, unsure, half, right = [0] * 8, list(range(8)), [0, 1] * 4, [0] * 8
    graded = [[0] * 8, [0] * 8, [1, 0] * 4, [1] * 8]
    rows_by_choice = table(
        [grades for grades in graded for _ in "ab"],
        [answers for answers in (sure, unsure, half, right) for _ in "ab"],
    )
    assert {row["prompts"] for row in rows_by_choice.values()} == {2}
    assert (
        rows_by_choice["hardest"]["labels"],
        rows_by_choice["agreement lowest"]["labels"],
        rows_by_choice["random"]["labels"],
    ) == (8, 2, 2)
    assert rows_by_choice["hardest"]["all_wrong"] == 1 and rows_by_choice["hardest"]["mixed"] == 0
    assert rows_by_choice["nearest ½"]["mixed"] > 0.9, (
        "the four samples that measure a half-right prompt are rarely all right or all wrong"
    )
    assert (
        rows_by_choice["agreement lowest"]["all_wrong"] == 1
        and rows_by_choice["agreement lowest"]["confidently_wrong"] == 0
    )
    assert rows_by_choice["agreement lowest"]["overlap"] == pytest.approx(0.5, abs=0.2), (
        "half of the hardest prompts have different answers, and ties are broken at random"
    )
    assert rows_by_choice["entropy highest"]["pass_rate"] == 0
    for row in rows_by_choice.values():
        assert row["mixed"] + row["all_right"] + row["all_wrong"] == pytest.approx(1)
        assert (
            row["mixed_low"] <= row["mixed"] <= row["mixed_high"]
            or row["mixed_low"] == row["mixed_high"]
        )


def test_one_model_chooses_prompts_for_another_model():
    """The other model ranks the prompts in the same or in the reverse order, and gives the same
    answer in all of its samples."""
    right = np.repeat(np.linspace(0, 1, 20)[:, None], 10, axis=1) > np.linspace(0.05, 0.95, 10)
    sure = np.zeros((20, 10), dtype=int)
    for other_grades, correlation in ((right, 1), (right[::-1], -1)):
        rows = choices.compare(
            right * 1.0, right * 1, 0.2, 20, other_model=(other_grades * 1.0, sure)
        )
        rows_by_choice = {row["choice"]: row for row in rows}
        assert set(rows_by_choice) == {*choices.CHOICES, *choices.BY_OTHER_MODEL}
        hardest = rows_by_choice["hardest, by the other"]
        assert hardest["rank_correlation"] == pytest.approx(correlation) and hardest["labels"] == 20
        assert hardest["pass_rate"] == pytest.approx(
            rows_by_choice["hardest"]["pass_rate"] if correlation == 1 else 0.9, abs=0.1
        )
        assert hardest["overlap"] == (1 if correlation == 1 else 0)
        assert rows_by_choice["hardest"]["rank_correlation"] is None, (
            "a choice by the model's own completions has no rank correlation"
        )
    alone = choices.compare(right * 1.0, right * 1, 0.2, 20)
    assert (
        [row for row in rows if row["choice"] in choices.CHOICES][0]["overlap"]
        == alone[0]["overlap"]
        == 1
    )


def test_hard_prompts_have_lower_pass_rates_in_the_samples_that_chose_them():
    """Every prompt has a pass rate of one half, so on other samples the hardest tenth has the same
    pass rate as all prompts."""
    right = np.random.default_rng(1).random((200, 8)) < 0.5
    hardest = table(right, right.astype(int), budget=0.1)["hardest"]
    assert hardest["pass_rate"] == pytest.approx(0.5, abs=0.05)
    assert np.sort(right.mean(axis=1))[:20].mean() < 0.25


def compare(tmp_path, *recordings, **options) -> subprocess.CompletedProcess:
    arguments = [
        "--recording",
        *map(str, recordings),
        "--grader",
        options.pop("grader", "final_word"),
    ]
    arguments += ["--probed-by", *map(str, options.pop("probed"))] if "probed" in options else []
    arguments += ["--output", str(tmp_path / "choices.csv")]
    arguments += [part for key, value in options.items() for part in (f"--{key}", str(value))]
    return fork_server.run(path_of("compare_choices"), arguments, ROOT)


def test_the_program_compares_the_choices_for_a_recording(tmp_path):
    rows = [
        {
            "question": f"q{n}",
            "answer": "red",
            "completions": [f"#### {'red' if n % 3 > k % 2 else 'blue'}" for k in range(6)],
        }
        for n in range(30)
    ]
    files.write_jsonl(tmp_path / "r.jsonl", rows)
    done = compare(tmp_path, tmp_path / "r.jsonl", draws=20)
    assert done.returncode == 0, done.stderr
    assert "30 prompts, 6 completions each, 33% confidently wrong" in done.stdout
    written = files.read_rows(
        tmp_path / "choices.csv", {"choice": str, "mixed": float, "labels": int}
    )
    assert [row["choice"] for row in written] == list(choices.CHOICES) and written[1][
        "mixed"
    ] > written[0]["mixed"]


def test_rows_with_the_same_question_are_distinguished_by_their_ids(tmp_path):
    rows = [
        {
            "id": n,
            "question": "the same question",
            "answer": "red",
            "completions": ["#### red", f"#### {'red' if n else 'blue'}"],
        }
        for n in range(4)
    ]
    files.write_jsonl(tmp_path / "r.jsonl", rows)
    assert compare(tmp_path, tmp_path / "r.jsonl", draws=2, budget=0.5).returncode == 0
    for ids, words in (
        ([0, 1, 2, 2], "r.jsonl: row 4: id '2' occurs twice"),
        ([0, 1, 2, [3]], "r.jsonl: line 4: 'id' is list"),
        ([None] * 4, "r.jsonl: row 2: the question occurs twice"),
    ):
        same_question = [row | {"id": row_id} for row, row_id in zip(rows, ids)]
        files.write_jsonl(tmp_path / "r.jsonl", same_question)
        done = compare(tmp_path, tmp_path / "r.jsonl", draws=2, budget=0.5)
        assert done.returncode == 1 and words in done.stderr, done.stderr


def test_a_prompt_with_an_unreadable_answer_is_left_out_of_the_comparison(tmp_path):
    rows = [
        {
            "question": f"q{n}",
            "answer": "7" if n else "seven",
            "completions": ["\\boxed{7}", f"\\boxed{{{n % 9}}}"],
        }
        for n in range(150)
    ]
    files.write_jsonl(tmp_path / "r.jsonl", rows)
    done = compare(tmp_path, tmp_path / "r.jsonl", grader="number_lenient", draws=2)
    assert done.returncode == 0 and "149 prompts" in done.stdout, done.stderr
    assert "'line 1' (seven)" in done.stdout


def test_a_probe_and_a_recording_of_the_same_completions_give_the_same_table(tmp_path):
    texts = {
        f"p{n}": [f"#### {'red' if n % 3 > k % 2 else 'blue'}" for k in range(6)] for n in range(30)
    }
    problems = [{"id": name, "question": f"question {name}", "answer": "red"} for name in texts]
    files.write_jsonl(tmp_path / "P.jsonl", problems)
    files.write_jsonl(
        tmp_path / "r.jsonl",
        [problem | {"completions": texts[problem["id"]]} for problem in problems],
    )
    for shard in (0, 1):
        rows = [
            {"id": name, "sample": sample, "completion": text}
            for name in [*texts][shard::2]
            for sample, text in enumerate(texts[name])
        ]
        files.write_jsonl(tmp_path / f"shard{shard}.jsonl.gz", rows)
    columns = {"choice": str, "mixed": float, "labels": int, "pass_rate": float}
    assert compare(tmp_path, tmp_path / "r.jsonl", draws=20).returncode == 0
    of_recording = files.read_rows(tmp_path / "choices.csv", columns)
    arguments = format_options(
        problems="P.jsonl", completions=["shard0.jsonl.gz", "shard1.jsonl.gz"], grader="final_word"
    )
    process = fork_server.run(
        path_of("compare_choices"),
        [*arguments, "--draws", "20", "--output", "choices.csv"],
        tmp_path,
    )
    assert process.returncode == 0, process.stderr
    assert files.read_rows(tmp_path / "choices.csv", columns) == of_recording


def test_the_recordings_of_two_models_must_match(tmp_path):
    for name, start in (("one", 0), ("other", 1)):
        rows = [
            {"question": f"q{n}", "answer": "red", "completions": ["#### red"] * 2}
            for n in range(start, start + 20)
        ]
        files.write_jsonl(tmp_path / f"{name}.jsonl", rows)
    done = compare(tmp_path, tmp_path / "one.jsonl", probed=[tmp_path / "other.jsonl"])
    assert (
        done.returncode == 1 and "other.jsonl: no completions for problem 'line 1'" in done.stderr
    )


@pytest.mark.parametrize(
    "change, words",
    [
        (
            lambda rows: rows[1]["completions"].pop(),
            "question 'q1': 5 completions; expected at least 2, and as many as the first question has, 6",
        ),
        (
            lambda rows: rows[2].update(question="q0"),
            "row 3: the question occurs twice in the file",
        ),
        (lambda rows: rows[0].pop("answer"), "line 1: 'answer' is missing"),
        (
            lambda rows: [row.update(completions=["red", "it is blue"]) for row in rows],
            "r.jsonl: grader final_word reads no answer in any completion",
        ),
    ],
)
def test_a_wrong_recording_is_reported_and_writes_no_file(tmp_path, change, words):
    rows = [
        {"question": f"q{n}", "answer": "red", "completions": ["#### red"] * 6} for n in range(20)
    ]
    change(rows)
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = compare(tmp_path, tmp_path / "r.jsonl")
    assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "choices.csv").exists()


@pytest.mark.recordings
@pytest.mark.parametrize(
    # numbers measured from HE's recordings before compare_choices.py was written
    "model, split, overlap, confident, mixed",
    [
        ("qwen3-4b", "train", 0.11, 25, (0.30, 0.71, 0.53, 0.78)),
        ("qwen3-4b", "test", 0.05, 23, (0.26, 0.75, 0.52, 0.77)),
        ("qwen3-8b", "train", 0.31, 7, (0.41, 0.68, 0.52, 0.78)),
        ("qwen3-8b", "test", 0.32, 10, (0.23, 0.49, 0.52, 0.73)),
    ],
)
def test_the_recordings_give_the_numbers_measured_before(
    tmp_path, model, split, overlap, confident, mixed
):
    path = Path(RECORDINGS) / f"recordings/shuffled_objects_seven/{model}/{split}.jsonl"
    done = compare(tmp_path, path, grader="choice_letter", draws=100)
    assert done.returncode == 0 and f"{confident}% confidently wrong" in done.stdout
    rows = {
        row["choice"]: row
        for row in files.read_rows(
            tmp_path / "choices.csv", {"choice": str, "mixed": float, "overlap": float}
        )
    }
    assert rows["agreement lowest"]["overlap"] == pytest.approx(overlap, abs=0.03)
    mixed_shares = [
        rows[choice]["mixed"] for choice in ("hardest", "agreement lowest", "random", "nearest ½")
    ]
    assert mixed_shares == pytest.approx(mixed, abs=0.05), (
        "the shares differ by more than random splits and ties can explain"
    )


@pytest.mark.recordings
def test_each_of_two_recorded_models_chooses_for_the_other_model(tmp_path):
    recording_4b, recording_8b = (
        Path(RECORDINGS) / f"recordings/shuffled_objects_seven/qwen3-{size}b/train.jsonl"
        for size in (4, 8)
    )
    done = compare(
        tmp_path,
        recording_4b,
        recording_8b,
        grader="choice_letter",
        draws=60,
        probed=(recording_8b, recording_4b),
    )
    assert done.returncode == 0, done.stderr
    rows = files.read_rows(tmp_path / "choices.csv", {"choice": str, "rank_correlation": str})
    correlations = {
        row["rank_correlation"] for row in rows if row["choice"] == "hardest, by the other"
    }
    assert len(correlations) == 1 and 0.2 < float(*correlations) < 0.5, (
        "the rank correlation differs between the two directions, or is out of range"
    )
