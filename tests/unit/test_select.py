"""The program `select_subset`: subsets by tier, by held-out completions, and in two rounds."""

import json

from hardgrpo.runtime import files
from hardgrpo.selection import policies
from in_process import run


def select(folder, tiers, policy):
    rows = [{"id": f"p{n}", "tier": tier, "pass_rate": n / 10} for n, tier in enumerate(tiers)]
    files.write_rows(folder / "D.csv", ["id", "tier", "pass_rate"], rows)
    policy = json.dumps(policy)
    return run(folder, "select_subset", difficulty="D.csv", policy=policy, seed=0, output="S.csv")


def test_low_tiers_are_chosen_by_number(tmp_path):
    done = select(tmp_path, [1, 2.0, "10", None, 3], {"rule": "low_tiers", "highest_tier": 3})
    assert done.returncode == 0, done.stderr
    rows = files.read_rows(tmp_path / "S.csv", {"id": str, "pass_rate": float, "rank": int})
    assert [(row["id"], row["pass_rate"], row["rank"]) for row in rows] == [
        ("p0", 0.0, 1),
        ("p1", 0.1, 2),
        ("p4", 0.4, 3),
    ]
    description = files.read_json(tmp_path / "S.json")
    assert (description["pool"], description["prompts"], description["tied"]) == (5, 3, 0)


def test_tiers_that_are_words_do_not_disturb_a_choice_by_pass_rate(tmp_path):
    done = select(tmp_path, ["easy", "hard", None, "?"], {"rule": "hard", "budget": 0.5})
    assert done.returncode == 0, done.stderr
    assert [row["id"] for row in files.read_rows(tmp_path / "S.csv", {"id": str})] == ["p0", "p1"]


def test_a_first_round_with_unknown_values_is_kept_and_the_mean_is_unknown(tmp_path):
    """After the first round's training, a prompt's entropy is unknown if none of its completions
    has an answer."""
    unknown = dict.fromkeys(policies.SIGNALS)
    rows = [{"id": f"p{n}"} | unknown | {"entropy": n / 10 if n else None} for n in range(10)]
    files.write_rows(tmp_path / "signals.csv", ["id", *policies.SIGNALS], rows)
    files.write_rows(tmp_path / "first.csv", ["id", "rank"], [{"id": "p0", "rank": 1}])
    done = run(
        tmp_path,
        "select_subset",
        signals="signals.csv",
        besides="first.csv",
        policy=json.dumps({"rule": "highest", "by": "entropy", "budget": 0.3}),
        seed="0",
        output="S.csv",
    )
    assert done.returncode == 0, done.stderr
    chosen = files.read_rows(tmp_path / "S.csv", {"id": str, "entropy": float})
    assert [tuple(row.values()) for row in chosen] == [("p0", None), ("p9", 0.9), ("p8", 0.8)]
    assert files.read_json(tmp_path / "S.json")["mean"] is None


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
    done = run(tmp_path, "measure_difficulty", samples=2, held_out=2, output="D.csv", **inputs)  # fmt: skip
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
    done = run(tmp_path, "select_subset", difficulty="D.csv", policy=policy, seed=0, output="S.csv")  # fmt: skip
    assert done.returncode == 0, done.stderr
    description = json.loads((tmp_path / "S.json").read_text())
    assert [row["id"] for row in files.read_rows(tmp_path / "S.csv", {"id": str})] == ["a", "d"]
    assert (description["mean_pass_rate"], description["zero_share"]) == (0.25, 0.5)
    assert (description["held_out_pass_rate"], description["held_out_zero_share"]) == (0.5, 0.5)
