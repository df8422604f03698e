"""Held-out completions measure the difficulty of the chosen prompts, and choose no prompts."""

import json

import in_process
from hardgrpo.runtime import files


def test_the_first_samples_choose_the_hardest_prompts_and_the_held_out_samples_measure_their_pass_rate(
    tmp_path,
):
    # the first two samples are used for the choice, the other two are held out
    right = {"a": "0011", "b": "1100", "c": "1111", "d": "0100"}
    problems = [{"id": name, "question": name, "answer": "7"} for name in right]
    completions = [
        {"id": name, "sample": sample, "completion": "#### 7" if grade == "1" else "#### 8"}
        for name, grades in right.items()
        for sample, grade in reversed(list(enumerate(grades)))
    ]
    files.write_jsonl(tmp_path / "P.jsonl", problems)
    files.write_jsonl(tmp_path / "C.jsonl", completions)
    inputs = {"problems": "P.jsonl", "completions": "C.jsonl", "grader": "final_number"}
    done = in_process.run(tmp_path, "measure_difficulty", samples=2, held_out=2, output="D.csv", **inputs)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = files.read_rows(
        tmp_path / "D.csv",
        {"id": str, "samples": int, "pass_rate": float, "held_out": int, "held_out_correct": int},
    )
    assert {row["id"]: (row["pass_rate"], row["held_out_correct"]) for row in rows} == {
        "a": (0, 2),
        "b": (1, 0),
        "c": (1, 2),
        "d": (0.5, 0),
    }
    assert {(row["samples"], row["held_out"]) for row in rows} == {(2, 2)}
    policy = json.dumps({"rule": "hard", "budget": 0.5})
    done = in_process.run(tmp_path, "select_subset", difficulty="D.csv", policy=policy, seed=0, output="S.csv")  # fmt: skip
    assert done.returncode == 0, done.stderr
    description = json.loads((tmp_path / "S.json").read_text())
    assert [row["id"] for row in files.read_rows(tmp_path / "S.csv", {"id": str})] == ["a", "d"]
    assert (description["mean_pass_rate"], description["zero_share"]) == (0.25, 0.5)
    assert (description["held_out_pass_rate"], description["held_out_zero_share"]) == (0.5, 0.5)
