"""Each replicate pretrains, probes, trains and evaluates its own base model. The summaries compare
each run with its own base model."""

import pytest

from hardgrpo.runtime import files

pytestmark = pytest.mark.nightly


def own(config: dict) -> None:
    config["models"]["tiny"]["source"].update(seed="own", steps=10)
    # Both tasks need the same number of held-out samples, because the probe of swaps_once consists
    # of the completions of the probe of swaps, truncated at a smaller limit.
    for task in ("swaps", "swaps_once"):
        config["tasks"][task]["probe"]["held_out"] = 2
    config["recipes"]["mini"].update(updates=2, checkpoint_every=2)
    config["studies"]["mini"].update(
        arms=[{"policy": "hard", "recipe": "mini"}],
        seeds=[0, 3],
        also_tested_on={},
        weaker_signal=[],
    )


def test_each_replicate_is_compared_with_its_own_base_model(finished):
    world = finished
    world.configure(own)
    before = world.plan("results/summaries/mini/gains.csv")
    assert {rule: before[rule] for rule in ("pretrain_model", "probe", "evaluate_base", "sample_reach", "train_grpo", "evaluate_run")} == {
        "pretrain_model": 2, "probe": 4, "evaluate_base": 2, "sample_reach": 2, "train_grpo": 2, "evaluate_run": 2,
    }  # fmt: skip
    world.run("results/summaries/mini/gains.csv")
    results = world.folder / "results"
    weights = [
        (results / f"models/tiny-seed{seed}/model.safetensors").read_bytes() for seed in (0, 3)
    ]
    assert weights[0] != weights[1], "the two base models must differ"
    accuracies = {}
    for seed in (0, 3):
        for what in ("base", f"swaps/mini/hard/seed{seed}"):
            graded = files.read_rows(
                results / f"evaluation/tiny-seed{seed}/{what}/swaps.csv.gz",
                {"step": int, "correct": int, "decoding": str},
            )
            last_step = max(row["step"] for row in graded)
            grades = [
                row["correct"]
                for row in graded
                if row["step"] == last_step and row["decoding"] == "sampled"
            ]
            accuracies[seed, what[:4]] = sum(grades) / len(grades)
    (gain,) = [
        row
        for row in files.read_rows(
            results / "summaries/mini/gains.csv", {"gain": float, "decoding": str, "seeds": int}
        )
        if row["decoding"] == "sampled"
    ]
    by_hand = sum(accuracies[seed, "swap"] - accuracies[seed, "base"] for seed in (0, 3)) / 2
    assert abs(gain["gain"] - by_hand) < 1e-9 and gain["seeds"] == 2
    (kind,) = [
        row
        for row in files.read_rows(
            results / "summaries/mini/kinds.csv", {"tier": str, "reach_samples": int}
        )
        if not row["tier"]
    ]
    assert kind["reach_samples"] == 4
    assert world.plan("results/summaries/mini/gains.csv") == {}, "all jobs must have run"
    world.configure(lambda config: config["studies"]["mini"].update(seeds=[0, 3, 5]))
    plan = world.plan("results/summaries/mini/gains.csv")
    assert plan["pretrain_model"] == plan["train_grpo"] == 1, (
        "one more replicate must add one base model and one training"
    )
