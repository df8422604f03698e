"""A fault in the configuration is reported in one line with the place and the remedy. The exit
status is not 0, and results are unchanged."""

import copy
import datetime
import os

import pytest

import project_config
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import checks, configuration

CONFIG = project_config.config()
FACT_DEMONSTRATIONS = CONFIG["models"]["knowing"]["source"]["demonstrations"]["facts"]

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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            break_("keep_checkpoints", "two"),
            ["keep_checkpoints: 'two' should be 'all' or 'last'", "all, or last"],
        ),
        (
            break_("tasks/swaps/grdaer", "x"),
            ["tasks.swaps", "unknown key 'grdaer'", "did you mean 'grader'"],
        ),
        (
            break_("recipes/mini/learning_rte", 1.0),
            ["recipes.mini", "learning_rte", "did you mean 'learning_rate'"],
        ),
        (
            break_("models/tiny/source/stpes", 1),
            ["models.tiny.source", "stpes", "did you mean 'steps'"],
        ),
        (
            break_("tasks/swaps/source/familly", "swaps"),
            ["tasks.swaps.source", "familly", "did you mean 'family'"],
        ),
        (break_("modles", {}), ["top level", "modles", "did you mean 'models'"]),
        (
            break_("tasks/swaps/source/kind", "generate"),
            ["tasks.swaps.source.kind", "generated", "files"],
        ),
        (
            break_("studies/mini_reference/also_tested_on", {"swaps": ["swaps_hard", "swaps"]}),
            ["studies.mini_reference.also_tested_on.swaps", "tested on 'swaps' twice"],
        ),
        (
            break_("studies/mini_reference/also_tested_on", {"swaps": ["swaps_hard"] * 2}),
            ["studies.mini_reference.also_tested_on.swaps", "tested on 'swaps_hard' twice"],
        ),
        (
            break_("recipes/mini_sft/ratio", "token"),
            ["recipes.mini_sft.ratio", "belongs to GRPO"],
        ),
        (break_("study", "minni"), ["study", "unknown study 'minni'", "did you mean 'mini'"]),
        (
            break_("studies/mini/models", ["tinny"]),
            ["studies.mini.models", "unknown model 'tinny'", "did you mean 'tiny'"],
        ),
        (
            break_("studies/mini/tasks", ["swap"]),
            ["studies.mini.tasks", "unknown task 'swap'", "did you mean 'swaps'"],
        ),
        (
            break_("studies/mini/arms/0/policy", ["hrad"]),
            ["studies.mini.arms", "unknown policy 'hrad'", "did you mean 'hard'"],
        ),
        (
            break_("studies/mini/arms/0/recipe", ["as_writen"]),
            ["studies.mini.arms", "unknown recipe 'as_writen'", "did you mean 'as_written'"],
        ),
        (
            break_("tasks/swaps_tight/completion_tokens", 192),
            ["tasks.swaps_tight.completion_tokens", "192 is not below the 192 of 'swaps_ample'"],
        ),
        (
            break_("tasks/swaps_once/probe/samples", 9),
            ["tasks.swaps_once.probe.samples", "9 is more than the 8 of 'swaps'"],
        ),
        (
            break_("tasks/swaps_once/probe/samples", 8),
            ["tasks.swaps_once.completion_tokens", "is not below the"],
        ),
        (
            break_("tasks/swaps_once/probe/seed", 7),
            ["tasks.swaps_once.probe.seed", "whose probe this task uses"],
        ),
        (
            break_("tasks/swaps/test/reach", {"samples": 64, "seed": 2}),
            ["tasks.swaps.test.reach.seed", "equals the seed of the test", "give another"],
        ),
        (
            break_("models/tiny-seed3", {"source": CONFIG["models"]["tiny"]["source"]}),
            ["models.tiny-seed3", "replicates' own bases"],
        ),
        (
            break_("tasks/swaps_tight/grader", "final_number"),
            ["tasks.swaps_tight.grader", "differs from that of 'swaps_ample'"],
        ),
        (
            break_("tasks/swaps_tight/cut_from", "swaps_tight"),
            ["tasks.swaps_tight.cut_from", "name a task that is sampled"],
        ),
        (
            break_("policies/hard_by_tight/probed_on", "swaps_tigt"),
            ["policies.hard_by_tight.probed_on", "did you mean 'swaps_tight'"],
        ),
        (
            break_("recipes/mini_rest/majority_share", 0.95),
            ["recipes.mini_rest.majority_share", "0.95 of the 8 prompts of an update is 8"],
        ),
        (
            break_("recipes/mini/learning_rate", float("nan")),
            ["recipes.mini.learning_rate: nan is not a finite number"],
        ),
        (
            break_("studies/mini/arms/0/recipe", ["mini", "mini"]),
            ["studies.mini.arms[0]", "steady, arithmetic, hard, mini", "twice"],
        ),
        (
            break_("recipes/mini/temperature", float("inf")),
            ["recipes.mini.temperature: inf is not a finite number"],
        ),
        (
            break_("studies/mini/seeds", [0, 2**32]),
            ["studies.mini.seeds.1", "4294967296 should be less than or equal to 4294967295"],
        ),
        (
            break_("tasks/swaps/prompt", "\0{question}"),
            ["tasks.swaps.prompt", "a character that files and programs refuse"],
        ),
        (
            break_("tasks/swaps/prompt", "\ud800{question}"),
            ["tasks.swaps.prompt", "a character that files and programs refuse"],
        ),
        (
            break_("models/tiny/chat", {"day": datetime.date(2024, 7, 26)}),
            ["models.tiny.chat.day", "2024-07-26", "in quotes"],
        ),
        (
            break_("models/tiny/chat", {"words": {"a"}}),
            ["models.tiny.chat.words", "expected text, a number"],
        ),
        (
            break_("models/tiny/chat", {"data": b"a"}),
            ["models.tiny.chat.data", "expected text, a number"],
        ),
        (
            break_("models/tiny/chat", {1: 1, "x": {None: 2}}),
            ["models.tiny.chat", "the key 1 is not text"],
        ),
        (
            break_("models/tiny/chat", {"x": {True: 2}}),
            ["models.tiny.chat.x", "the key True is not text"],
        ),
        (break_("plan/price", 10**400), ["plan.price", "more than 18 digits"]),
        (
            break_("models/tiny/chat", {"truncation": True}),
            ["models.tiny.chat: truncation", "arguments of the model's own template"],
        ),
        (
            break_("recipes/mini_rest/reward", "majority"),
            ["recipes.mini_rest.majority_share", "belongs to GRPO with reward: correct"],
        ),
        (break_("recipes/mini_beta/selector/kind", "bandit"), ["recipes.mini_beta.selector"]),
        (break_("recipes/mini_beta/selector/groups", 6), ["recipes.mini_beta.selector", "groups"]),
        (
            break_("recipes/mini_targeted/selector/reference", 48),
            [
                "recipes.mini_targeted.selector.reference",
                "6 sampling steps of 8 prompts leave nothing to train on beside 48",
            ],
        ),
        (
            break_("recipes/mini_replay/selector/buffer", 3),
            ["recipes.mini_replay.selector.replay", "a buffer of 3 groups cannot supply 4 groups"],
        ),
        (
            break_(
                "recipes/mini_dynamic/selector", {"kind": "dynamic", "groups": 40, "most_steps": 3}
            ),
            [
                "recipes.mini_dynamic.selector.groups",
                "3 sampling steps of 8 prompts cannot sample 40 groups",
            ],
        ),
        (
            break_("recipes/mini_beta/majority_share", 0.5),
            ["recipes.mini_beta.majority_share", "cannot be combined with selector"],
        ),
        (
            break_("recipes/mini_sft/selector", {"kind": "beta"}),
            ["recipes.mini_sft.selector", "belongs to GRPO"],
        ),
        (
            break_("recipes/mini_prime/temperature", 0.7),
            ["recipes.mini_prime.process", "set temperature: 1"],
        ),
        (
            break_("recipes/mini_prime/reward", "majority"),
            ["recipes.mini_prime.process", "set reward: correct"],
        ),
        (
            break_("recipes/mini_prime/adapter", {"rank": 8, "alpha": 16, "dropout": 0.05}),
            ["recipes.mini_prime.process", "set adapter.dropout: 0"],
        ),
        (
            by_rate,
            [
                "studies.by_rate.arms",
                "'agreement_lowest' chooses by agreement, so its prompts have no pass rates",
            ],
        ),
        (
            break_("studies/mini_online/tasks", ["facts"]),
            [
                "studies.mini_online.tasks",
                "task 'facts' has no tiers, by which recipe 'mini_easy_first' sorts",
            ],
        ),
        (
            break_("policies/nearest_half/rounds", 2),
            ["policies.nearest_half.rounds", "with by: pass_rate does not use 'rounds'"],
        ),
        (
            break_("policies/agreement_in_rounds/rounds", 3),
            ["policies.agreement_in_rounds.rounds", "3 should be 2"],
        ),
        (
            break_("policies/agreement_in_rounds/probed_by", "small"),
            ["policies.agreement_in_rounds.probed_by", "the second round probes the trained model"],
        ),
        (
            break_("recipes/mini_rounds/checkpoint_every", 50),
            [
                "studies.mini_online.arms",
                "annotates in two rounds, and recipe 'mini_rounds' has 50 updates, and half of this number",
            ],
        ),
        (
            break_("recipes/mini_rounds/adapter", {"rank": 8, "alpha": 16, "dropout": 0.0}),
            [
                "studies.mini_online.arms",
                "trains an adapter, from which a second round cannot start",
            ],
        ),
        (
            break_("recipes/mini_rounds/beta", 0.1),
            [
                "studies.mini_online.arms",
                "has beta 0.1: its KL term would compare the second round to the half-trained model",
            ],
        ),
        (
            break_("policies/half_by_small/probed_by", "smal"),
            ["policies.half_by_small.probed_by", "did you mean 'small'"],
        ),
        (
            break_("policies/half_by_small/probed_by", "wordy"),
            [
                "studies.mini_labels.arms",
                "'half_by_small' is probed by 'wordy', which has not learned task 'swaps'",
                "leave the task out of the `tasks` of the policy's arm",
            ],
        ),
        (
            break_("policies/half_by_small/probed_by", "qwen3-4b-recorded"),
            [
                "studies.mini_labels.arms",
                "which has no recorded completions of the pool of 'swaps'",
            ],
        ),
        (
            break_("policies/half_by_small/probed_by", "qwen2.5-math-1.5b-trajectory"),
            ["studies.mini_labels.arms", "a trajectory, whose prompts have no texts"],
        ),
        (
            break_("policies/hard/budget", {"prompt": 50}),
            ["policies.hard.budget", "unknown key 'prompt'; did you mean 'prompts'?"],
        ),
        (
            break_("policies/hard/budget", {"money": 100, "label_price": 2}),
            [
                "policies.hard.budget",
                "needs the reference answers of the whole pool before it chooses",
                "by",
            ],
        ),
        (
            break_("studies/mini/arms/0/policy", ["hard_by_tight"]),
            ["studies.mini.arms", "which has other problems than 'arithmetic'"],
        ),
        (
            break_("tasks/facts/source/train", 600),
            [
                "tasks.facts.source",
                "600 + 150 problems, but there are 650 different facts",
                "lower train or test",
            ],
        ),
        (
            break_("tasks/facts/source/length", [1]),
            ["tasks.facts.source.length", "facts does not use 'length'; remove it"],
        ),
        (
            break_("tasks/facts", None),
            ["models.knowing.source.demonstrations", "unknown task 'facts'"],
        ),
        (
            break_("models/knowing/source/demonstrations/facts/slip", 0.5),
            [
                "models.knowing.source.demonstrations.facts.slip",
                "of facts take no 'slip'; remove it",
            ],
        ),
        (
            break_("models/knowing/source/demonstrations/facts/known", None),
            [
                "models.knowing.source.demonstrations.facts",
                "of facts need 'known'; add it, e.g. known: [0.5, 0.5]",
            ],
        ),
        (
            break_("models/knowing/source/demonstrations/facts/known", [0.5, 0]),
            ["models.knowing.source.demonstrations.facts.known.1", "0 should be greater than 0"],
        ),
        (
            break_("models/tiny/source/demonstrations/swaps/known", [1, 1]),
            [
                "models.tiny.source.demonstrations.swaps.known",
                "of swaps take no 'known'; remove it",
            ],
        ),
        (
            break_("recipes/mini/loss", "cispo"),
            ["recipes.mini.epsilon_high", "loss cispo limits the ratio itself"],
        ),
        (
            break_("subset/policy", "agreement_in_rounds"),
            ["subset.policy", "name a policy without rounds"],
        ),
        (
            lambda config: [
                task["share"].update(last=0)
                for task in config["models"]["tiny"]["source"]["demonstrations"].values()
            ],
            ["models.tiny.source.demonstrations", "share.last is 0 for all tasks"],
        ),
        (
            break_("tasks/arithmetic/source/objects", [3]),
            [
                "tasks.arithmetic.source.objects",
                "family arithmetic does not use 'objects'; remove it",
            ],
        ),
        (
            break_("models/tiny/source/demonstrations/arithmetic/length", None),
            ["models.tiny.source.demonstrations.arithmetic", "of arithmetic need 'length'; add it"],
        ),
        (
            break_(
                "models/tiny/source/demonstrations/shuffled_objects",
                {"share": {"first": 1, "last": 1}},
            ),
            [
                "models.tiny.source.demonstrations.shuffled_objects",
                "only generated tasks (swaps, arithmetic, facts) have demonstrations",
            ],
        ),
        (
            lambda config: (
                config["tasks"].update(other_facts=config["tasks"]["facts"]),
                break_("models/knowing/source/demonstrations/other_facts", FACT_DEMONSTRATIONS)(
                    config
                ),
            ),
            [
                "models.knowing.source.demonstrations",
                "facts and other_facts give different answers",
                "keep one",
            ],
        ),
        (
            break_("studies/mini/also_tested_on", {"arithmetic": ["facts"]}),
            [
                "studies.mini.also_tested_on",
                "model 'steady' has not learned the facts of task 'facts'",
                "demonstrations",
            ],
        ),
        (
            break_("studies/mini/arms/0/recipe", None),
            ["studies.mini.arms[0]", "'recipe' is missing"],
        ),
        (break_("studies/mini/seeds", [0, 1, 1]), ["studies.mini.seeds", "not distinct"]),
        (
            break_("studies/mini/also_tested_on", {"arithmetic": ["nowhere"]}),
            ["also_tested_on.arithmetic", "unknown task 'nowhere'"],
        ),
        (
            break_("studies/paper/arms/0/models", "qwen"),
            ["studies.paper.arms[0].models", "'qwen' is not one of the study's models"],
        ),
        (
            break_(
                "studies/mini/also_compared",
                [
                    [
                        {"policy": "hard", "recipe": "mini"},
                        {"policy": "easy", "recipe": "mini_curve"},
                    ]
                ],
            ),
            ["studies.mini.also_compared[0]", "policy 'easy' and recipe 'mini_curve'"],
        ),
        (
            break_("studies/paper/arms/0/modle", "qwen"),
            ["studies.paper.arms.0", "modle", "did you mean 'models'"],
        ),
        (
            break_(
                "studies/mini/arms",
                [
                    {"policy": ["hard", "easy"], "recipe": "mini"},
                    {"policy": "easy", "recipe": "mini"},
                ],
            ),
            [
                "studies.mini.arms[1]",
                "steady, arithmetic, easy, mini",
                "listed twice, first in arms[0]",
            ],
        ),
        (
            break_("studies/mini/arms/0/models", "small"),
            ["studies.mini.arms[0].models", "'small' is not one of the study's models"],
        ),
        (
            break_(
                "studies/paper/arms", [{"policy": "hard", "recipe": "as_written", "tasks": "gsm8k"}]
            ),
            ["no arm has task 'shuffled_objects'"],
        ),
        (
            break_("studies/paper/weaker_signal", ["x"]),
            ["studies.paper.weaker_signal", "neither a task nor a model"],
        ),
        (
            break_("studies/paper/tasks", ["gsm8k", "aime2025"]),
            ["studies.paper.tasks", "'aime2025' has no train split"],
        ),
        (break_("subset/task", "aime2025"), ["subset.task", "no train split to choose from"]),
        (
            break_("subset/model", "smollm2"),
            ["subset.model", "unknown model 'smollm2'", "did you mean 'smollm2-135m'"],
        ),
        (
            break_("models/qwen3-4b/source/revision", "main"),
            ["models.qwen3-4b.source.revision", "40 hexadecimal"],
        ),
        (
            break_("models/qwen3-4b/source/kind", "hugging"),
            ["models.qwen3-4b.source.kind", "hub", "folder", "package"],
        ),
        (break_("models/qwen3-4b/engine", "sglang"), ["models.qwen3-4b.engine", "vllm"]),
        (break_("models/qwen3-4b/shape", None), ["models.qwen3-4b.shape", "needs its shape"]),
        (
            break_("tasks/gsm8k/source/train/0/rows", {"onyl": [1]}),
            ["tasks.gsm8k.source.train.0.rows", "did you mean 'only'"],
        ),
        (
            break_("tasks/gsm8k/source/train/0/rows", {"draw": 9}),
            ["tasks.gsm8k.source.train.0.rows.draw", "needs 'seed'"],
        ),
        (
            break_("tasks/gsm8k/source/train/0/rows", {"seed": 9}),
            ["tasks.gsm8k.source.train.0.rows.seed", "needs 'draw'"],
        ),
        (
            break_("models/qwen2.5-coder-0.5b-instruct/source/sha256", "1d"),
            ["models.qwen2.5-coder-0.5b-instruct.source.sha256"],
        ),
        (
            break_("models/smollm2-135m/source/package", ["a", "b"]),
            ["models.smollm2-135m.source.sha256", "a list of packages needs the SHA-256 checksum"],
        ),
        (
            break_("models/qwen2.5-coder-0.5b-instruct/source/package", ["a", "a"]),
            ["models.qwen2.5-coder-0.5b-instruct.source.package", "is listed twice"],
        ),
        (
            break_("tasks/gsm8k_concise/test", None),
            ["tasks.gsm8k_concise", "a study tests on this task"],
        ),
        (
            break_("tasks/gsm8k_concise/labelled", False),
            [
                "tasks",
                "'gsm8k_concise' has no reference answers",
                "annotate the prompts that `.venv/bin/snakemake subset` writes",
            ],
        ),
        (
            break_("tasks/gsm8k_concise/labelled", "no"),
            ["tasks.gsm8k_concise.labelled", "'no' should be a valid boolean"],
        ),
        (
            break_("recipes/as_released_later/adapter", None),
            ["recipes.as_released_later.base", "held in 32 bits", "adapter"],
        ),
        (
            break_("recipes/lora_slm/adapter/rnak", 8),
            ["recipes.lora_slm.adapter", "rnak", "did you mean 'rank'"],
        ),
        (
            break_("policies/low_tiers/highest_tier", None),
            ["policies.low_tiers", "needs 'highest_tier'"],
        ),
        (
            break_("studies/paper/also_tested_on/gsm8k", [{"task": "aime2025", "models": "qwen"}]),
            ["studies.paper.also_tested_on.gsm8k", "'qwen' is not a model of this study"],
        ),
        (
            break_("tasks/math/source/columns", {"question": "q"}),
            ["tasks.math.source.columns", "format math determines the columns"],
        ),
        (break_("track", "tensorbord"), ["track", "tensorboard"]),
        (
            break_("studies/mini/models", ["tiny", "qwen3-4b-recorded"]),
            ["studies.mini.models", "cannot be in one study"],
        ),
        (break_("policies/hard/budget", 0), ["policies.hard.budget", "(0, 1]"]),
        (break_("policies/hard/budget", 1.5), ["policies.hard.budget", "(0, 1]"]),
        (break_("policies/hard/budget", None), ["policies.hard", "needs 'budget'"]),
        (break_("policies/band/low", 0.9), ["policies.band.low", "0.9 is not below high (0.8)"]),
        (break_("policies/band/order", "random"), ["policies.band.order", "needs 'budget'"]),
        (break_("policies/all/budget", 0.5), ["policies.all.budget", "does not use 'budget'"]),
        (
            break_("tasks/swaps/probe/samples", 10.0),
            ["tasks.swaps.probe.samples", "10.0 should be a valid integer"],
        ),
        (
            break_("tasks/swaps/probe/shards", 2000),
            ["tasks.swaps.probe.shards", "2000 shards, but only 500 problems"],
        ),
        (
            break_("tasks/swaps_hard/completion_tokens", 500),
            ["tasks.swaps_hard.completion_tokens", "context of 192"],
        ),
        (
            break_("studies/recordings/tasks", ["swaps"]),
            ["studies.recordings.tasks", "no model of the study has recordings of 'swaps'"],
        ),
        (
            break_("models/qwen2.5-math-1.5b-trajectory/source/prompts", "swaps"),
            [
                "models.qwen2.5-math-1.5b-trajectory.source.prompts",
                "'swaps' is a task; give the prompts",
            ],
        ),
        (
            break_("models/qwen2.5-math-1.5b-trajectory/source/chosen_from", 0),
            [
                "models.qwen2.5-math-1.5b-trajectory.source.chosen_from",
                "expected:",
                "first epochs",
            ],
        ),
        (
            break_("models/qwen2.5-math-1.5b-trajectory/source/origin", None),
            ["source", "'origin' is missing", "its licence"],
        ),
        (
            break_("studies/trajectories/tasks", ["swaps"]),
            ["studies.trajectories.tasks", "neither tasks nor runs; write []"],
        ),
        (
            break_("studies/trajectories/arms/0/recipe", ["mini"]),
            ["studies.trajectories.arms[0].recipe", "neither tasks nor runs; remove it"],
        ),
        (
            break_("studies/trajectories/arms/0/policy", ["low_tiers"]),
            ["studies.trajectories.arms", "'low_tiers' needs more than the pass rates"],
        ),
        *(
            (
                break_("studies/trajectories/arms/0/policy", [name]),
                [f"'{name}' needs more than the pass rates", "remove the policy"],
            )
            for name in ("hard_by_tight", "half_by_small", "agreement_lowest", "annotated")
        ),
        (
            break_("studies/trajectories/models", ["qwen2.5-math-1.5b-trajectory", "tiny"]),
            ["trajectories.models", "cannot be in one study"],
        ),
        (
            break_("studies/recordings/tasks", []),
            ["studies.recordings.tasks", "only a study of trajectories may have no tasks"],
        ),
        (break_("tasks/kegg/test", None), ["tasks.kegg", "the key `test` of the task"]),
        (
            break_("subset/model", "qwen2.5-math-1.5b-trajectory"),
            ["subset.model", "a trajectory, whose prompts have no texts"],
        ),
        (break_("subset/policy", "annotated"), ["subset.policy", "'gsm8k' is labelled"]),
        (
            break_("subset/policy", "hard_by_tight"),
            ["subset.policy", "which has other problems than 'gsm8k'"],
        ),
        (
            break_("subset/policy", "half_by_small"),
            ["subset.policy", "'small', which has not learned task 'gsm8k'"],
        ),
        (
            break_("subset/model", "tiny"),
            ["subset.model", "'tiny', which has not learned task 'gsm8k'"],
        ),
        (
            break_("subset/model", "qwen3-4b-recorded"),
            ["subset.model", "no recorded completions of the pool of 'gsm8k'"],
        ),
        (
            served("swaps_tight", model="wordy", task="swaps_ample", policy="served"),
            ["subset.policy", "no tokenizer to cut completions to the limit of 'swaps_tight'"],
        ),
        (
            served("swaps_tight", model="served", task="swaps_tight", policy="hard"),
            ["subset.model", "no tokenizer to cut completions to the limit of 'swaps_tight'"],
        ),
        (
            in_arm(served("swaps_tight")),
            ["studies.mini_truncation.arms", "no tokenizer to cut completions"],
        ),
        (break_("tasks/swaps/probe/samples", 0), ["tasks.swaps.probe.samples", "K"]),
        (break_("recipes/mini/group_size", 1), ["recipes.mini.group_size", "at least 2"]),
        (
            break_("recipes/mini/checkpoint_every", 7),
            ["recipes.mini.checkpoint_every", "does not divide"],
        ),
        (
            break_("recipes/mini/learning_rate", "1e-4"),
            ["recipes.mini.learning_rate", "'1e-4' should be a valid number"],
        ),
        (break_("tasks/swaps/prompt", "no place for it"), ["tasks.swaps.prompt", "{question}"]),
        (
            break_("tasks/swaps/grader", "oracle"),
            ["tasks.swaps.grader", "'oracle' should be", "final_word"],
        ),
        (break_("tasks/swaps/source/train", None), ["tasks.swaps.source", "'train' is missing"]),
        (break_("tasks/swaps/source/objects", None), ["tasks.swaps.source", "'objects'"]),
    ],
)
def test_a_wrong_configuration_names_file_and_place(change, words):
    config = copy.deepcopy(CONFIG)
    change(config)
    with pytest.raises(UserError) as error:
        checks.check(config, "config.yaml")
    message = str(error.value)
    assert all(line.startswith("config.yaml: ") for line in message.splitlines())
    for word in words:
        assert word in message, message


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


def test_every_key_of_the_schema_is_described():
    schema = configuration.schema()
    undescribed = []

    def walk(node, place):
        for name, entry in node.get("properties", {}).items():
            if "description" not in entry and "$ref" not in entry:
                undescribed.append(f"{place}.{name}")
        for name, entry in node.items():
            if isinstance(entry, dict):
                walk(entry, f"{place}.{name}")
            elif isinstance(entry, list):
                for item in entry:
                    if isinstance(item, dict):
                        walk(item, place)

    walk(schema, "")
    assert undescribed == []


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
