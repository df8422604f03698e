"""With `keep_checkpoints: last`, an evaluated study keeps only the last checkpoint of each run, and
no job runs again."""

import json

RUN = "results/training/tiny/swaps/mini/hard/seed0"


def keep_last(config):
    config["keep_checkpoints"] = "last"


def test_an_evaluated_study_keeps_the_last_checkpoints(finished):
    folder = finished.folder / RUN
    before = json.loads((folder / "checkpoints/step-2/manifest.json").read_text())
    times = {
        path: path.stat().st_mtime_ns
        for path in finished.folder.rglob("manifest.json")
        if "step-2" not in path.parts
    }
    finished.configure(keep_last)
    assert finished.plan() == {"prune_checkpoints": 2, "all": 1}
    finished.run()
    assert [path.name for path in (folder / "checkpoints/step-2").iterdir()] == ["pruned.json"]
    assert json.loads((folder / "checkpoints/step-2/pruned.json").read_text()) == before
    assert (folder / "checkpoints/step-4/model.safetensors").exists()
    bytes_freed = sum(entry["bytes"] for entry in before["files"].values())
    assert json.loads((folder / "pruned.json").read_text()) == {"steps": [2], "bytes": bytes_freed}
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert finished.plan() == {}, "no finished run or evaluation may be planned again"
    finished.configure(lambda config: config.update(keep_checkpoints="all"))
    assert finished.plan() == {}
    finished.fail("results/evaluation/tiny/swaps/mini/hard/seed0/arithmetic.csv.gz")
    log = finished.folder / "results/logs/evaluate_run/tiny/swaps/mini/hard/seed0/arithmetic.log"
    (message,) = log.read_text().strip().splitlines()
    reason = f"error: {RUN}/checkpoints: the weights after 2 updates were removed"
    assert message.startswith(reason) and "keep_checkpoints: all" in message


def test_checkpoints_that_another_study_has_yet_to_evaluate_are_kept(finished):
    def share(config):
        keep_last(config)
        config["studies"]["other"] = config["studies"]["mini"] | {
            "arms": [{"policy": "hard", "recipe": "mini"}],
            "also_tested_on": {"swaps": ["swaps_hard", "arithmetic_hard"]},
        }

    finished.configure(share)
    assert finished.plan() == {"prune_checkpoints": 1, "all": 1}
    plan = finished.plan("--config", "study=other")
    assert plan["prune_checkpoints"] == 1 and plan["evaluate_run"] == 1 and "train_grpo" not in plan
