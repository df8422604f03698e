"""A fault in the configuration is reported in one line with the place and the remedy. The exit
status is not 0, and results are unchanged."""

import copy
import datetime
import os

import pytest

import project_config
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import checks

CONFIG = project_config.config()

# A study that is refused: the recipe sorts by pass rates, which the policy does not measure.
BY_RATE = {
    "arms": [{"policy": "agreement_lowest", "recipe": "mini_by_rate"}],
    "models": ["tiny"],
    "tasks": ["swaps"],
    "seeds": [0],
    "title": "t",
}


def by_rate(config):
    config["recipes"]["mini_by_rate"] = config["recipes"]["mini_50"] | {
        "selector": {"kind": "curriculum", "by": "pass_rate"}
    }
    config["studies"]["by_rate"] = BY_RATE


def served(probed_on, **subset):
    """A function that lets a model behind a server probe for the policy `served` on a task, and
    adds `subset` to the block `subset`."""

    def change(config):
        source = {"kind": "server", "url": "http://127.0.0.1:1/v1", "model": "m"}
        config["models"]["served"] = {"source": source}
        policy = {"rule": "hard", "budget": 0.1, "probed_by": "served", "probed_on": probed_on}
        config["policies"]["served"] = policy
        config["subset"] |= subset

    return change


def in_arm(change):
    """A function that applies `change` and lets study mini_truncation choose by policy `served`."""

    def change_study(config):
        change(config)
        config["studies"]["mini_truncation"]["arms"][0]["policy"] = ["served"]

    return change_study


def break_(path, value):
    """A function that sets the entry of a configuration at `path`, whose keys are separated by
    slashes, to `value`. If `value` is None, the function deletes the entry."""

    def change(config):
        *parents, leaf = path.split("/")
        for key in parents:
            config = config[int(key) if isinstance(config, list) else key]
        leaf = int(leaf) if isinstance(config, list) else leaf
        if value is None:
            del config[leaf]
        else:
            config[leaf] = value

    return change


# (place of the changed entry, its value (None: without the entry), words of the message, and the
# place that the message names, if it is another place)
WRONG = [
    ("keep_checkpoints", "two", "'two' should be 'all' or 'last'"),
    ("tasks/swaps/grdaer", "x", "unknown key 'grdaer'", "tasks.swaps"),
    ("modles", {}, "modles", "top level"),
    ("tasks/swaps/source/kind", "generate", "generated"),
    ("studies/mini_reference/also_tested_on", {"swaps": ["swaps_hard", "swaps"]}, "tested on 'swaps' twice", "studies.mini_reference.also_tested_on.swaps"),
    ("recipes/mini_sft/ratio", "token", "belongs to GRPO"),
    ("study", "minni", "unknown study 'minni'"),
    ("studies/mini/arms/0/policy", ["hrad"], "unknown policy 'hrad'", "studies.mini.arms"),
    ("tasks/swaps_tight/completion_tokens", 192, "192 is not below the 192 of 'swaps_ample'"),
    ("tasks/swaps_once/probe/samples", 9, "9 is more than the 8 of 'swaps'"),
    ("tasks/swaps_once/probe/samples", 8, "is not below the", "tasks.swaps_once.completion_tokens"),
    ("tasks/swaps_once/probe/seed", 7, "whose probe this task uses"),
    ("tasks/swaps/test/reach", {"samples": 64, "seed": 2}, "equals the seed of the test", "tasks.swaps.test.reach.seed"),
    ("models/tiny-seed3", {"source": CONFIG["models"]["tiny"]["source"]}, "replicates' own bases"),
    ("tasks/swaps_tight/grader", "final_number", "differs from that of 'swaps_ample'"),
    ("tasks/swaps_tight/cut_from", "swaps_tight", "name a task that is sampled"),
    ("recipes/mini_rest/majority_share", 0.95, "0.95 of the 8 prompts of an update is 8"),
    ("recipes/mini/learning_rate", float("nan"), "nan is not a finite number"),
    ("studies/mini/seeds", [0, 2**32], "4294967296 should be less than or equal to 4294967295", "studies.mini.seeds.1"),
    ("tasks/swaps/prompt", "\x00{question}", "a character that files and programs refuse"),
    ("models/tiny/chat", {"day": datetime.date(2024, 7, 26)}, "2024-07-26", "models.tiny.chat.day"),
    ("models/tiny/chat", {1: 1, "x": {None: 2}}, "the key 1 is not text"),
    ("plan/price", 10**400, "more than 18 digits"),
    ("models/tiny/chat", {"truncation": True}, "arguments of the model's own template"),
    ("recipes/mini_rest/reward", "majority", "belongs to GRPO with reward: correct", "recipes.mini_rest.majority_share"),
    ("recipes/mini_beta/selector/groups", 6, "groups", "recipes.mini_beta.selector"),
    ("recipes/mini_targeted/selector/reference", 48, "6 sampling steps of 8 prompts leave nothing to train on beside 48"),
    ("recipes/mini_replay/selector/buffer", 3, "a buffer of 3 groups cannot supply 4 groups", "recipes.mini_replay.selector.replay"),
    ("recipes/mini_dynamic/selector", {"kind": "dynamic", "groups": 40, "most_steps": 3}, "3 sampling steps of 8 prompts cannot sample 40 groups", "recipes.mini_dynamic.selector.groups"),
    ("recipes/mini_beta/majority_share", 0.5, "cannot be combined with selector"),
    ("recipes/mini_prime/temperature", 0.7, "set temperature: 1", "recipes.mini_prime.process"),
    ("recipes/mini_prime/reward", "majority", "set reward: correct", "recipes.mini_prime.process"),
    ("recipes/mini_prime/adapter", {"rank": 8, "alpha": 16, "dropout": 0.05}, "set adapter.dropout: 0", "recipes.mini_prime.process"),
    ("studies/mini_online/tasks", ["facts"], "task 'facts' has no tiers, by which recipe 'mini_easy_first' sorts"),
    ("policies/nearest_half/rounds", 2, "with by: pass_rate does not use 'rounds'"),
    ("policies/agreement_in_rounds/probed_by", "small", "the second round probes the trained model"),
    ("recipes/mini_rounds/checkpoint_every", 50, "annotates in two rounds, and recipe 'mini_rounds' has 50 updates, and half of this number", "studies.mini_online.arms"),
    ("recipes/mini_rounds/adapter", {"rank": 8, "alpha": 16, "dropout": 0.0}, "trains an adapter, from which a second round cannot start", "studies.mini_online.arms"),
    ("recipes/mini_rounds/beta", 0.1, "has beta 0.1: its KL term would compare the second round to the half-trained model", "studies.mini_online.arms"),
    ("policies/half_by_small/probed_by", "wordy", "'half_by_small' is probed by 'wordy', which has not learned task 'swaps'", "studies.mini_labels.arms"),
    ("policies/half_by_small/probed_by", "qwen3-4b-recorded", "which has no recorded completions of the pool of 'swaps'", "studies.mini_labels.arms"),
    ("policies/hard/budget", {"prompt": 50}, "unknown key 'prompt'; did you mean 'prompts'?"),
    ("policies/hard/budget", {"money": 100, "label_price": 2}, "needs the reference answers of the whole pool before it chooses"),
    ("studies/mini/arms/0/policy", ["hard_by_tight"], "which has other problems than 'arithmetic'", "studies.mini.arms"),
    ("tasks/facts/source/train", 600, "600 + 150 problems, but there are 650 different facts", "tasks.facts.source"),
    ("tasks/facts/source/length", [1], "facts does not use 'length'; remove it"),
    ("models/knowing/source/demonstrations/facts/slip", 0.5, "of facts take no 'slip'; remove it"),
    ("models/knowing/source/demonstrations/facts/known", None, "of facts need 'known'; add it, e.g. known: [0.5, 0.5]", "models.knowing.source.demonstrations.facts"),
    ("recipes/mini/loss", "cispo", "loss cispo limits the ratio itself", "recipes.mini.epsilon_high"),
    ("subset/policy", "agreement_in_rounds", "name a policy without rounds"),
    ("models/tiny/source/demonstrations/shuffled_objects", {"share": {"first": 1, "last": 1}}, "only generated tasks (swaps, arithmetic, facts) have demonstrations"),
    ("studies/mini/also_tested_on", {"arithmetic": ["facts"]}, "model 'steady' has not learned the facts of task 'facts'"),
    ("studies/mini/arms/0/recipe", None, "'recipe' is missing", "studies.mini.arms[0]"),
    ("studies/mini/seeds", [0, 1, 1], "not distinct"),
    ("studies/paper/arms/0/models", "qwen", "'qwen' is not one of the study's models", "studies.paper.arms[0].models"),
    ("studies/mini/also_compared", [[{"policy": "hard", "recipe": "mini"}, {"policy": "easy", "recipe": "mini_curve"}]], "policy 'easy' and recipe 'mini_curve'", "studies.mini.also_compared[0]"),
    ("studies/mini/arms", [{"policy": ["hard", "easy"], "recipe": "mini"}, {"policy": "easy", "recipe": "mini"}], "steady, arithmetic, easy, mini", "studies.mini.arms[1]"),
    ("studies/paper/arms", [{"policy": "hard", "recipe": "as_written", "tasks": "gsm8k"}], "no arm has task 'shuffled_objects'"),
    ("studies/paper/weaker_signal", ["x"], "neither a task nor a model"),
    ("studies/paper/tasks", ["gsm8k", "aime2025"], "'aime2025' has no train split"),
    ("subset/task", "aime2025", "no train split to choose from"),
    ("models/qwen3-4b/source/revision", "main", "should match pattern"),
    ("models/qwen3-4b/shape", None, "needs its shape"),
    ("tasks/gsm8k/source/train/0/rows", {"draw": 9}, "needs 'seed'", "tasks.gsm8k.source.train.0.rows.draw"),
    ("models/smollm2-135m/source/package", ["a", "b"], "a list of packages needs the SHA-256 checksum", "models.smollm2-135m.source.sha256"),
    ("models/qwen2.5-coder-0.5b-instruct/source/package", ["a", "a"], "is listed twice"),
    ("tasks/gsm8k_concise/test", None, "a study tests on this task", "tasks.gsm8k_concise"),
    ("tasks/gsm8k_concise/labelled", False, "'gsm8k_concise' has no reference answers", "studies.truncation.tasks"),
    ("recipes/as_released_later/adapter", None, "held in 32 bits", "recipes.as_released_later.base"),
    ("tasks/math/source/columns", {"question": "q"}, "format math determines the columns"),
    ("studies/mini/models", ["tiny", "qwen3-4b-recorded"], "cannot be in one study"),
    ("policies/hard/budget", 0, "greater than 0"),
    ("policies/hard/budget", None, "needs 'budget'", "policies.hard"),
    ("policies/band/low", 0.9, "0.9 is not below high (0.8)"),
    ("policies/band/order", "random", "needs 'budget'"),
    ("policies/all/budget", 0.5, "does not use 'budget'"),
    ("tasks/swaps/probe/samples", 10.0, "10.0 should be a valid integer"),
    ("tasks/swaps/probe/shards", 2000, "2000 shards, but only 500 problems"),
    ("tasks/swaps_hard/completion_tokens", 500, "context of 192"),
    ("studies/recordings/tasks", ["swaps"], "no model of the study has recordings of 'swaps'"),
    ("studies/recordings/tasks", [], "only a study of trajectories may have no tasks"),
    ("subset/policy", "annotated", "'gsm8k' is labelled"),
    ("subset/policy", "hard_by_tight", "which has other problems than 'gsm8k'"),
    ("subset/policy", "half_by_small", "'small', which has not learned task 'gsm8k'"),
    ("subset/model", "tiny", "'tiny', which has not learned task 'gsm8k'"),
    ("subset/model", "qwen3-4b-recorded", "no recorded completions of the pool of 'gsm8k'"),
    ("recipes/mini/checkpoint_every", 7, "does not divide"),
    ("recipes/mini/learning_rate", "1e-4", "'1e-4' should be a valid number"),
    ("tasks/swaps/prompt", "no place for it", "question"),
    ("tasks/swaps/source/train", None, "'train' is missing", "tasks.swaps.source"),
]  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case[0])
def test_a_wrong_value_is_reported_with_file_and_place(case):
    path, value, words, *place = case
    check_wrong(break_(path, value), *(place or [path.replace("/", ".")]), words)


def without_last_share(config):
    for task in config["models"]["tiny"]["source"]["demonstrations"].values():
        task["share"].update(last=0)


def two_tasks_of_facts(config):
    config["tasks"]["other_facts"] = config["tasks"]["facts"]
    demonstrations = config["models"]["knowing"]["source"]["demonstrations"]
    demonstrations["other_facts"] = demonstrations["facts"]


NO_TOKENIZER = "no tokenizer to cut completions to the limit of 'swaps_tight'"


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (by_rate, "studies.by_rate.arms", "so its prompts have no pass rates"),
        (without_last_share, "models.tiny.source.demonstrations", "share.last is 0 for all tasks"),
        (two_tasks_of_facts, "models.knowing.source.demonstrations", "give different answers"),
        (
            served("swaps_tight", model="wordy", task="swaps_ample", policy="served"),
            "subset.policy",
            NO_TOKENIZER,
        ),
        (
            served("swaps_tight", model="served", task="swaps_tight", policy="hard"),
            "subset.model",
            NO_TOKENIZER,
        ),
        (in_arm(served("swaps_tight")), "studies.mini_truncation.arms", NO_TOKENIZER),
    ],
)
def test_values_that_do_not_fit_together_are_reported_with_file_and_place(change, place, words):
    check_wrong(change, place, words)


def check_wrong(change, place, words):
    config = copy.deepcopy(CONFIG)
    change(config)
    with pytest.raises(UserError) as error:
        checks.check(config, "config.yaml")
    lines = str(error.value).splitlines()
    assert all(line.startswith("config.yaml: ") for line in lines)
    assert any(line.startswith(f"config.yaml: {place}") and words in line for line in lines), lines


@pytest.mark.parametrize(
    "policy", ["low_tiers", "hard_by_tight", "half_by_small", "agreement_lowest", "annotated"]
)
def test_policies_choose_from_trajectories_only_by_pass_rates(policy):
    change = break_("studies/trajectories/arms/0/policy", [policy])
    check_wrong(change, "studies.trajectories.arms", "needs more than the pass rates")


def test_models_that_learned_different_tasks_share_a_study_if_each_model_has_its_own_arms():
    config = copy.deepcopy(CONFIG)
    arms = [
        {"policy": "hard", "recipe": "mini", "models": "tiny", "tasks": ["swaps", "arithmetic"]},
        {"policy": "hard", "recipe": "mini", "models": "knowing", "tasks": "facts"},
    ]
    config["studies"]["mini"].update(
        models=["tiny", "knowing"], tasks=["swaps", "arithmetic", "facts"], arms=arms
    )
    checks.check(config, "config.yaml")
    del arms[1]["tasks"]
    with pytest.raises(UserError, match="model 'knowing' has not learned task 'swaps'"):
        checks.check(config, "config.yaml")


def test_a_server_may_probe_for_a_task_whose_completions_are_cut_on_the_task_that_it_answers():
    config = copy.deepcopy(CONFIG)
    served("swaps_ample", model="wordy", task="swaps_tight", policy="served")(config)
    checks.check(config, "config.yaml")


def test_an_annotated_subset_needs_the_file_of_annotated_prompts():
    config = copy.deepcopy(CONFIG)
    config["tasks"]["open"] = config["tasks"]["gsm8k"] | {"labelled": False}
    config["subset"] |= {"task": "open", "policy": "annotated"}
    with pytest.raises(UserError, match="subset.policy: 'annotated' takes the annotated prompts"):
        checks.check(config, "config.yaml")
    config["tasks"]["open"]["annotated"] = "filled.csv"
    checks.check(config, "config.yaml")


def test_a_pretrained_model_is_not_probed_with_completions_that_exceed_its_context():
    config = copy.deepcopy(CONFIG)
    config["tasks"]["open"] = config["tasks"]["gsm8k"] | {"labelled": False}
    config["subset"] |= {"model": "tiny", "task": "open", "policy": "agreement_lowest"}
    with pytest.raises(UserError, match="subset.model: 'tiny', whose context of 192 tokens"):
        checks.check(config, "config.yaml")


@pytest.mark.parametrize(
    "model, policy",
    [
        ("tiny", "agreement_lowest"),  # measured without answers
        ("tiny", "random"),
        ("qwen3-4b-recorded", "random"),  # needs no probe
    ],
)
def test_prompts_without_answers_may_be_chosen_by_a_model_that_cannot_solve_them(model, policy):
    config = copy.deepcopy(CONFIG)
    config["tasks"]["open"] = config["tasks"]["gsm8k"] | {
        "labelled": False,
        "completion_tokens": 64,
    }
    config["subset"] |= {"model": model, "task": "open", "policy": policy}
    checks.check(config, "config.yaml")


def test_the_committed_configuration_is_valid():
    checks.check(copy.deepcopy(CONFIG), "config.yaml")


def test_snakemake_gives_a_one_line_error_and_changes_no_results(finished):
    before = {
        path: path.stat().st_mtime_ns
        for path in (finished.folder / "results").rglob("*")
        if path.is_file()
    }
    finished.configure(break_("policies/hard/budget", 1.5))
    done = finished.snakemake()
    assert done.returncode != 0
    output = done.stdout + done.stderr
    assert "Traceback" not in output
    assert sum("policies.hard.budget" in line for line in output.splitlines()) == 1
    assert {
        path: path.stat().st_mtime_ns
        for path in (finished.folder / "results").rglob("*")
        if path.is_file()
    } == before


def test_a_users_mistake_is_reported_without_places_in_the_code(world):
    done = world.snakemake("-n", "--config", "study=unknown")
    lines = (done.stdout + done.stderr).splitlines()
    assert done.returncode != 0
    assert sum("unknown study 'unknown'" in line for line in lines) == 1
    assert [line for line in lines if "File " in line or ".py" in line or ".smk" in line] == []


def test_a_configuration_that_is_a_program_is_not_run(world):
    program = (
        "__use_yte__: true\n__definitions__:\n  - import pathlib; pathlib.Path('ran').touch()\n"
    )
    world.edit("config.yaml", lambda text: program + text)
    done = world.snakemake("-n")
    output = done.stdout + done.stderr
    assert (
        done.returncode != 0
        and "config.yaml: '__use_yte__' makes Snakemake run the file" in output
        and "Traceback" not in output
    )
    assert not (world.folder / "ran").exists()


def test_results_that_cannot_be_written_are_reported_before_the_first_job(world):
    import shutil

    shutil.rmtree(world.folder / "results")
    (world.folder / "results").write_text("in the way")
    done = world.snakemake()
    assert (
        done.returncode != 0
        and "results: expected a folder for results, found a file" in done.stdout + done.stderr
    )
    assert "Traceback" not in done.stdout + done.stderr


def test_a_folder_without_permission_is_reported(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root ignores permissions
    with pytest.raises(UserError, match="results: cannot be written"):
        checks.check_writable("results")
