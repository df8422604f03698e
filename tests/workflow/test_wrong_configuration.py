"""What is wrong in a configuration is one clear line with the place and the remedy; exit status not 0, results untouched."""

import copy
import os

import pytest

import shipped
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import checks, schema

CONFIG = shipped.config()
SHOWN = CONFIG["models"]["knowing"]["source"]["demonstrations"]["facts"]

# A recipe that sorts by pass rates needs a policy that knows them.
BY_RATE = {
    "recipes": ["mini_by_rate"],
    "policies": ["agreement_lowest"],
    "models": ["tiny"],
    "tasks": ["swaps"],
    "seeds": [0],
    "title": "t",
}


def by_rate(config):
    config["recipes"]["mini_by_rate"] = config["recipes"]["mini_50"] | {"selector": {"kind": "curriculum", "by": "pass_rate"}}
    config["studies"]["by_rate"] = BY_RATE


def break_(path, value):
    """A change of the configuration: set the entry at a dotted path (None: delete it)."""

    def change(config):
        *parents, last = path.split("/")
        for key in parents:
            config = config[int(key) if isinstance(config, list) else key]
        last = int(last) if isinstance(config, list) else last
        if value is None:
            del config[last]
        else:
            config[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (break_("keep_checkpoints", "two"), ["keep_checkpoints", "'two'", "last"]),
        (break_("tasks/swaps/grdaer", "x"), ["tasks.swaps", "unknown", "'grdaer'", "'grader'"]),
        (break_("recipes/mini/learning_rte", 1.0), ["recipes.mini", "learning_rte", "'learning_rate'"]),
        (break_("models/tiny/source/stpes", 1), ["models.tiny.source", "stpes", "'steps'"]),
        (break_("tasks/swaps/source/familly", "swaps"), ["tasks.swaps.source", "familly", "'family'"]),
        (break_("modles", {}), ["top level", "modles", "'models'"]),
        (break_("tasks/swaps/source/kind", "generate"), ["tasks.swaps.source.kind", "generated", "files"]),
        (break_("study", "minni"), ["study", "unknown", "'minni'", "'mini'"]),
        (break_("studies/mini/models", ["tinny"]), ["studies.mini.models", "unknown", "'tinny'", "'tiny'"]),
        (break_("studies/mini/tasks", ["swap"]), ["studies.mini.tasks", "unknown", "'swap'", "'swaps'"]),
        (break_("studies/mini/policies", ["hrad"]), ["studies.mini.policies", "unknown", "'hrad'", "'hard'"]),
        (
            break_("studies/mini/recipes", ["as_writen"]),
            ["studies.mini.recipes", "unknown", "'as_writen'", "'as_written'"],
        ),
        (
            break_("tasks/swaps_tight/completion_tokens", 192),
            ["tasks.swaps_tight.completion_tokens", "192", "swaps_ample"],
        ),
        (
            break_("tasks/swaps_once/probe/samples", 9),
            ["tasks.swaps_once.probe.samples", "9", "8", "swaps"],
        ),
        (
            break_("tasks/swaps_once/probe/samples", 8),
            ["tasks.swaps_once.completion_tokens", "below"],
        ),
        (
            break_("tasks/swaps_once/probe/seed", 7),
            ["tasks.swaps_once.probe.seed", "'swaps'"],
        ),
        (
            break_("tasks/swaps/test/reach", {"samples": 64, "seed": 2}),
            ["tasks.swaps.test.reach.seed", "test", "another"],
        ),
        (
            break_("models/tiny-seed3", {"source": CONFIG["models"]["tiny"]["source"]}),
            ["models.tiny-seed3", "bases"],
        ),
        (break_("tasks/swaps_tight/grader", "final_number"), ["tasks.swaps_tight.grader", "swaps_ample"]),
        (break_("tasks/swaps_tight/cut_from", "swaps_tight"), ["tasks.swaps_tight.cut_from", "sampled"]),
        (
            break_("policies/hard_by_tight/probed_on", "swaps_tigt"),
            ["policies.hard_by_tight.probed_on", "'swaps_tight'"],
        ),
        (
            break_("recipes/mini_rest/majority_share", 0.95),
            ["recipes.mini_rest.majority_share", "0.95", "8 prompts"],
        ),
        (break_("recipes/mini/learning_rate", float("nan")), ["recipes.mini.learning_rate", "nan"]),
        (break_("studies/mini/recipes", ["mini", "mini"]), ["studies.mini.recipes", "twice"]),
        (break_("recipes/mini/temperature", float("inf")), ["recipes.mini.temperature", "inf"]),
        (break_("studies/mini/seeds", [0, 2**32]), ["studies.mini.seeds.1", "4294967296", "maximum"]),
        (break_("tasks/swaps/prompt", "\0{question}"), ["tasks.swaps.prompt", "character"]),
        (break_("tasks/swaps/prompt", "\ud800{question}"), ["tasks.swaps.prompt", "character"]),
        (break_("models/tiny/chat", {"truncation": True}), ["models.tiny.chat", "truncation", "template"]),
        (break_("recipes/mini_rest/reward", "majority"), ["recipes.mini_rest.majority_share", "reward: correct"]),
        (break_("recipes/mini_beta/selector/kind", "bandit"), ["recipes.mini_beta.selector"]),
        (break_("recipes/mini_beta/selector/groups", 6), ["recipes.mini_beta.selector", "groups"]),
        (
            break_("recipes/mini_targeted/selector/reference", 48),
            ["recipes.mini_targeted.selector.reference", "6 sampling steps", "48"],
        ),
        (
            break_("recipes/mini_replay/selector/buffer", 3),
            ["recipes.mini_replay.selector.replay", "buffer", "3 groups"],
        ),
        (
            break_("recipes/mini_dynamic/selector", {"kind": "dynamic", "groups": 40, "most_steps": 3}),
            ["recipes.mini_dynamic.selector.groups", "3 sampling steps"],
        ),
        (break_("recipes/mini_beta/majority_share", 0.5), ["recipes.mini_beta.majority_share", "selector"]),
        (break_("recipes/mini_sft/selector", {"kind": "beta"}), ["recipes.mini_sft.selector", "GRPO"]),
        (break_("recipes/mini_prime/temperature", 0.7), ["recipes.mini_prime.process", "temperature: 1"]),
        (break_("recipes/mini_prime/reward", "majority"), ["recipes.mini_prime.process", "reward: correct"]),
        (
            break_("recipes/mini_prime/adapter", {"rank": 8, "alpha": 16, "dropout": 0.05}),
            ["recipes.mini_prime.process", "adapter.dropout: 0"],
        ),
        (
            by_rate,
            ["studies.by_rate.policies", "'agreement_lowest'", "pass rates"],
        ),
        (
            break_("studies/mini_online/tasks", ["facts"]),
            ["studies.mini_online.tasks", "'facts'", "tiers", "'mini_easy_first'"],
        ),
        (break_("policies/nearest_half/rounds", 2), ["policies.nearest_half.rounds", "'rounds'", "pass_rate"]),
        (break_("policies/agreement_in_rounds/rounds", 3), ["policies.agreement_in_rounds.rounds", "2"]),
        (
            break_("policies/agreement_in_rounds/probed_by", "small"),
            ["policies.agreement_in_rounds.probed_by", "trained"],
        ),
        (
            break_("recipes/mini_rounds/checkpoint_every", 50),
            ["studies.mini_online.policies", "two rounds", "'mini_rounds'", "50 updates"],
        ),
        (
            break_("recipes/mini_rounds/adapter", {"rank": 8, "alpha": 16, "dropout": 0.0}),
            ["studies.mini_online.policies", "adapter", "second round"],
        ),
        (
            break_("recipes/mini_rounds/beta", 0.1),
            ["studies.mini_online.policies", "beta 0.1", "KL"],
        ),
        (break_("policies/half_by_small/probed_by", "smal"), ["policies.half_by_small.probed_by", "'small'"]),
        (
            break_("policies/half_by_small/probed_by", "wordy"),
            [
                "studies.mini_labels.policies",
                "'half_by_small'",
                "'wordy'",
                "'swaps'",
                "exclude",
            ],
        ),
        (
            break_("policies/half_by_small/probed_by", "qwen3-4b-recorded"),
            ["studies.mini_labels.policies", "'swaps'", "recorded"],
        ),
        (
            break_("policies/half_by_small/probed_by", "qwen2.5-math-1.5b-trajectory"),
            ["studies.mini_labels.policies", "trajectory"],
        ),
        (break_("policies/hard/budget", {"prompt": 50}), ["policies.hard.budget", "'prompt'", "'prompts'"]),
        (
            break_("policies/hard/budget", {"money": 100, "label_price": 2}),
            ["policies.hard.budget", "answers", "pool", "by"],
        ),
        (
            break_("studies/mini/policies", ["hard_by_tight"]),
            ["studies.mini.policies", "problems", "'arithmetic'"],
        ),
        (
            break_("tasks/facts/source/train", 600),
            ["tasks.facts.source", "600 + 150", "650", "lower"],
        ),
        (break_("tasks/facts/source/length", [1]), ["tasks.facts.source.length", "'length'", "remove"]),
        (break_("tasks/facts", None), ["models.knowing.source.demonstrations", "unknown", "'facts'"]),
        (
            break_("models/knowing/source/demonstrations/facts/slip", 0.5),
            ["models.knowing.source.demonstrations.facts.slip", "'slip'", "remove"],
        ),
        (
            break_("models/knowing/source/demonstrations/facts/known", None),
            ["models.knowing.source.demonstrations.facts", "'known'", "known: ["],
        ),
        (
            break_("models/knowing/source/demonstrations/facts/known", [0.5, 0]),
            ["models.knowing.source.demonstrations.facts.known.1", "minimum"],
        ),
        (
            break_("models/tiny/source/demonstrations/swaps/known", [1, 1]),
            ["models.tiny.source.demonstrations.swaps.known", "'known'", "remove"],
        ),
        (
            break_("models/tiny/source/demonstrations/arithmetic/length", None),
            ["models.tiny.source.demonstrations.arithmetic", "'length'", "add"],
        ),
        (
            break_("models/tiny/source/demonstrations/shuffled_objects_1000", {"share": {"first": 1, "last": 1}}),
            [
                "models.tiny.source.demonstrations.shuffled_objects_1000",
                "swaps, arithmetic, facts",
            ],
        ),
        (
            lambda config: (
                config["tasks"].update(other_facts=config["tasks"]["facts"]),
                break_("models/knowing/source/demonstrations/other_facts", SHOWN)(config),
            ),
            ["models.knowing.source.demonstrations", "other_facts", "answers", "keep"],
        ),
        (
            break_("studies/mini/also_tested_on", {"arithmetic": ["facts"]}),
            ["studies.mini.also_tested_on", "'tiny'", "'facts'", "demonstrations"],
        ),
        (break_("studies/mini/recipes", None), ["studies.mini", "'recipes'"]),
        (break_("studies/mini/seeds", [0, 1, 1]), ["studies.mini.seeds", "distinct"]),
        (
            break_("studies/mini/also_tested_on", {"arithmetic": ["nowhere"]}),
            ["also_tested_on.arithmetic", "unknown", "'nowhere'"],
        ),
        (
            break_("studies/paper/exclude/0/model", "qwen"),
            ["studies.paper.exclude.0.model", "'qwen'", "models"],
        ),
        (
            break_("studies/mini/also_compared", [["hard", "easy, mini_curve"]]),
            [
                "studies.mini.also_compared[0]",
                "'easy, mini_curve'",
                "'mini'",
            ],
        ),
        (break_("studies/paper/exclude/0/modle", "qwen"), ["studies.paper.exclude.0", "modle", "'model'"]),
        (break_("studies/paper/weaker_signal", ["x"]), ["studies.paper.weaker_signal", "task", "model"]),
        (break_("studies/paper/tasks", ["gsm8k", "aime2025"]), ["studies.paper.tasks", "'aime2025'", "train"]),
        (break_("subset/task", "aime2025"), ["subset.task", "train split"]),
        (break_("subset/model", "smollm2"), ["subset.model", "unknown", "'smollm2'", "'smollm2-135m'"]),
        (break_("models/qwen3-4b/source/revision", "main"), ["models.qwen3-4b.source.revision", "hexadecimal"]),
        (break_("models/qwen3-4b/source/kind", "hugging"), ["models.qwen3-4b.source.kind", "hub", "folder", "package"]),
        (break_("models/qwen3-4b/engine", "sglang"), ["models.qwen3-4b.engine", "vllm"]),
        (break_("models/qwen3-4b/shape", None), ["models.qwen3-4b.shape", "needs"]),
        (break_("tasks/gsm8k/source/train/0/rows", {"onyl": [1]}), ["tasks.gsm8k.source.train.0.rows", "'only'"]),
        (break_("tasks/gsm8k_concise/test", None), ["tasks.gsm8k_concise", "study"]),
        (
            break_("tasks/gsm8k_concise/labelled", False),
            ["tasks", "'gsm8k_concise'", "answers", "annotate"],
        ),
        (break_("tasks/gsm8k_concise/labelled", "no"), ["tasks.gsm8k_concise.labelled", "'no'", "boolean"]),
        (break_("recipes/as_released_july/adapter", None), ["recipes.as_released_july.base", "trained", "adapter"]),
        (break_("recipes/as_released_july/generation", "vllm"), ["recipes.as_released_july.generation", "4-bit"]),
        (break_("recipes/lora_slm/adapter/rnak", 8), ["recipes.lora_slm.adapter", "rnak", "'rank'"]),
        (break_("policies/low_tiers/highest_tier", None), ["policies.low_tiers", "'highest_tier'"]),
        (
            break_("studies/paper/exclude/1", {"tested_on": "aime2025", "policy": "hard"}),
            ["studies.paper.exclude.1", "policy"],
        ),
        (
            break_("tasks/math/source/columns", {"question": "q"}),
            ["tasks.math.source.columns", "format math"],
        ),
        (break_("track", "tensorbord"), ["track", "tensorboard"]),
        (break_("studies/mini/models", ["tiny", "qwen3-4b-recorded"]), ["studies.mini.models", "share"]),
        (break_("policies/hard/budget", 0), ["policies.hard.budget", "(0, 1]"]),
        (break_("policies/hard/budget", 1.5), ["policies.hard.budget", "(0, 1]"]),
        (break_("policies/hard/budget", None), ["policies.hard", "needs", "'budget'"]),
        (break_("policies/all/budget", 0.5), ["policies.all.budget", "'budget'"]),
        (break_("tasks/swaps/probe/samples", 10.0), ["tasks.swaps.probe.samples", "10.0", "integer"]),
        (break_("tasks/swaps/probe/shards", 2000), ["tasks.swaps.probe.shards", "2000", "500"]),
        (break_("tasks/swaps_hard/completion_tokens", 500), ["tasks.swaps_hard.completion_tokens", "context", "192"]),
        (
            break_("studies/recordings/tasks", ["swaps"]),
            ["studies.recordings.tasks", "recordings", "'swaps'"],
        ),
        (
            break_("models/qwen2.5-math-1.5b-trajectory/source/prompts", "swaps"),
            ["models.qwen2.5-math-1.5b-trajectory.source.prompts", "'swaps'", "task"],
        ),
        (
            break_("models/qwen2.5-math-1.5b-trajectory/source/chosen_from", 0),
            ["models.qwen2.5-math-1.5b-trajectory.source.chosen_from", "epochs"],
        ),
        (break_("models/qwen2.5-math-1.5b-trajectory/source/origin", None), ["source", "'origin'", "licence"]),
        (break_("studies/trajectories/tasks", ["swaps"]), ["studies.trajectories.tasks", "[]"]),
        (break_("studies/trajectories/recipes", ["mini"]), ["studies.trajectories.recipes", "remove"]),
        (
            break_("studies/trajectories/policies", ["low_tiers"]),
            ["studies.trajectories.policies", "'low_tiers'", "pass rates"],
        ),
        *(
            (break_("studies/trajectories/policies", [name]), [f"'{name}' needs more than the pass rates", "take it out"])
            for name in ("hard_by_tight", "half_by_small", "agreement_lowest", "annotated")
        ),
        (
            break_("studies/trajectories/models", ["qwen2.5-math-1.5b-trajectory", "tiny"]),
            ["trajectories.models", "share"],
        ),
        (break_("studies/recordings/tasks", []), ["studies.recordings.tasks", "trajectories"]),
        (break_("subset/model", "qwen2.5-math-1.5b-trajectory"), ["subset.model", "trajectory"]),
        (break_("tasks/swaps/probe/samples", 0), ["tasks.swaps.probe.samples", "K"]),
        (break_("recipes/mini/group_size", 1), ["recipes.mini.group_size", "at least 2"]),
        (break_("recipes/mini/checkpoint_every", 7), ["recipes.mini.checkpoint_every", "divide"]),
        (break_("recipes/mini/learning_rate", "1e-4"), ["recipes.mini.learning_rate", "'1e-4'", "number"]),
        (break_("tasks/swaps/prompt", "no place for it"), ["tasks.swaps.prompt", "{question}"]),
        (break_("tasks/swaps/grader", "oracle"), ["tasks.swaps.grader", "'oracle'", "final_word"]),
        (break_("tasks/swaps/source/train", None), ["tasks.swaps.source", "'train'"]),
        (break_("tasks/swaps/source/objects", None), ["tasks.swaps.source", "'objects'"]),
    ],
)
def test_a_wrong_configuration_names_file_and_place(change, words):
    config = copy.deepcopy(CONFIG)
    change(config)
    with pytest.raises(UserError) as caught:
        checks.check(config, "config.yaml")
    message = str(caught.value)
    assert message.startswith("config.yaml: ") and "\n" not in message
    for word in words:
        assert word in message, message


def test_models_that_learned_different_tasks_share_a_study_if_the_other_pairs_are_excluded():
    config = copy.deepcopy(CONFIG)
    apart = [{"model": "tiny", "task": "facts"}, {"model": "knowing", "task": ["swaps", "arithmetic"]}]
    config["studies"]["mini"].update(models=["tiny", "knowing"], tasks=["swaps", "arithmetic", "facts"], exclude=apart)
    checks.check(config, "config.yaml")
    config["studies"]["mini"]["exclude"] = apart[:1]
    with pytest.raises(UserError, match="model 'knowing' has not learned task 'swaps'"):
        checks.check(config, "config.yaml")


def test_the_configuration_as_it_is_is_right():
    checks.check(copy.deepcopy(CONFIG), "config.yaml")


def test_every_key_of_the_schema_is_described():
    whole = schema.read()
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

    walk(whole, "")
    assert undescribed == []


def test_snakemake_stops_with_one_line_and_leaves_results_alone(finished):
    before = {path: path.stat().st_mtime_ns for path in (finished.folder / "results").rglob("*") if path.is_file()}
    finished.configure(break_("policies/hard/budget", 1.5))
    done = finished.snakemake()
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert sum("policies.hard.budget" in line for line in said.splitlines()) == 1
    assert {path: path.stat().st_mtime_ns for path in (finished.folder / "results").rglob("*") if path.is_file()} == before


def test_a_configuration_that_is_a_program_is_not_run(world):
    program = "__use_yte__: true\n__definitions__:\n  - import pathlib; pathlib.Path('ran').touch()\n"
    world.edit("config.yaml", lambda text: program + text)
    done = world.snakemake("-n")
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "config.yaml: '__use_yte__' has Snakemake run the file" in said and "Traceback" not in said
    assert not (world.folder / "ran").exists()


def test_results_that_cannot_be_written_are_told_before_the_first_job(world):
    import shutil

    shutil.rmtree(world.folder / "results")
    (world.folder / "results").write_text("in the way")
    done = world.snakemake()
    assert done.returncode != 0 and "results: expected a folder for results, found a file" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_folder_without_permission_is_told(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # permissions do not bind root
    with pytest.raises(UserError, match="results: cannot be written"):
        checks.check_writable("results")
