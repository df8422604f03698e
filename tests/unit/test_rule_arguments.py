"""Arguments that rules pass to programs."""

import json
import shlex
from types import SimpleNamespace

import pytest

import project_config
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.study.strict import sorted_json
from hardgrpo.workflow.arguments import Arguments
from hardgrpo.workflow.names import Names

ROOT = project_config.ROOT


def job(**wildcards: str) -> SimpleNamespace:
    return SimpleNamespace(**wildcards)


def arguments(change=lambda config: None, targets=()) -> Arguments:
    """The arguments that rules pass if Snakemake is called with `targets`. `change` changes a copy
    of the project's configuration."""
    config = project_config.config()
    change(config)
    config = Configuration.of(config)
    workflow = SimpleNamespace(
        basedir=str(ROOT), dag_settings=SimpleNamespace(targets=set(targets))
    )
    studies = resolve_studies(config)
    return Arguments(config, studies, Names(config, studies), workflow)


def test_json_does_not_depend_on_the_order_of_keys():
    assert sorted_json({"b": [{"d": 1, "c": 2}], "a": None}) == sorted_json(
        {"a": None, "b": [{"c": 2, "d": 1}]}
    )


def test_the_order_of_keys_in_the_configuration_changes_no_argument():
    def reverse(config):
        for section in ("tasks", "policies", "recipes"):
            config[section] = {
                name: dict(reversed(entry.items())) for name, entry in config[section].items()
            }

    wildcards = job(
        model="tiny-seed0",
        task="swaps",
        policy="hard",
        recipe="mini",
        seed="0",
        study="mini",
        split="train",
    )
    for name in (
        "source",
        "policy",
        "spec",
        "study",
        "design",
        "prices",
        "conditions",
        "pretraining",
    ):
        assert getattr(arguments(), name)(wildcards) == getattr(arguments(reverse), name)(
            wildcards
        ), name


def test_programs_receive_the_number_of_samples_of_a_probe():
    swaps = job(model="tiny-seed0", task="swaps")
    probe = project_config.config()["tasks"]["swaps"]["probe"]
    held_out = f" --held-out {probe['held_out']}" if "held_out" in probe else ""
    assert arguments().expected_samples(swaps) == f"--samples {probe['samples']}{held_out}"
    assert arguments().expected_samples(job(model="qwen3-4b-recorded", task="gsm8k")) == ""


def test_held_out_samples_are_sampled_but_not_used_for_the_choice():
    hold_out = lambda config: config["tasks"]["gsm8k"]["probe"].update(samples=5, held_out=3)
    gsm8k = job(model="qwen3-4b", task="gsm8k")
    assert arguments(hold_out).expected_samples(gsm8k) == "--samples 5 --held-out 3"
    assert arguments(hold_out).probed_samples(gsm8k) == 8


def test_a_cut_probe_states_both_numbers_of_samples_if_the_numbers_differ():
    fewer = lambda config: config["tasks"]["swaps_once"]["probe"].update(samples=2)
    samples = project_config.config()["tasks"]["swaps"]["probe"]["samples"]
    assert arguments(fewer).fewer_samples(job(task="swaps_once")) == f" --samples 2 --of {samples}"
    equal = lambda config: config["tasks"]["swaps_once"]["probe"].update(samples=samples)
    assert arguments(equal).fewer_samples(job(task="swaps_once")) == ""


def stopping(config: dict) -> None:
    config["tasks"] = {"gsm8k": config["tasks"]["gsm8k"]}
    config["tasks"]["gsm8k"]["probe"].update(stop=True, shards=1)
    config["studies"] = {}


def test_a_probe_that_stops_early_receives_the_policy_and_its_seed():
    words = shlex.split(arguments(stopping).stop(job(task="gsm8k")))
    assert json.loads(words[1]) == {"rule": "hard", "budget": 0.1, "seed": 0}
    assert (
        arguments(stopping)
        .expected_samples(job(model="smollm2-135m", task="gsm8k"))
        .endswith("--stopped")
    )


def test_round_one_has_half_of_the_budget_and_round_two_all_of_it():
    in_rounds = job(policy="agreement_in_rounds")
    assert json.loads(arguments().policy(in_rounds)) == {
        "rule": "lowest",
        "by": "agreement",
        "budget": 0.05,
    }
    assert json.loads(arguments().second_policy(in_rounds)) == {
        "rule": "lowest",
        "by": "agreement",
        "budget": 0.1,
    }


@pytest.mark.parametrize("policy", ["hard_once", "half_by_small"])
def test_the_program_that_chooses_is_not_told_on_which_model_and_task_a_policy_is_probed(policy):
    assert json.loads(arguments().policy(job(policy=policy))).keys() == {"rule", "budget"}


def test_the_files_that_a_policy_chooses_by_become_options():
    files = {"signals": "results/signals/a/b.csv", "sample": "results/s.csv"}
    assert (
        arguments().named_inputs(job(), files)
        == "--signals results/signals/a/b.csv --sample results/s.csv"
    )


def test_the_size_of_a_pool_is_checked_only_if_policies_of_the_targets_choose_from_it():
    pool, test = job(task="arithmetic", split="train"), job(task="arithmetic", split="test")
    grader = project_config.config()["tasks"]["arithmetic"]["grader"]
    words = shlex.split(arguments().grader_and_policies(pool))
    assert words[:2] == [grader, "--policies"] and "hard" in json.loads(words[2])
    assert shlex.split(arguments().grader_and_policies(test)) == [grader]
    assert shlex.split(arguments(targets=["inputs"]).grader_and_policies(pool)) == [grader]


def test_a_chat_template_with_quotes_reaches_the_program_unchanged():
    value = """it's "quoted" $HOME `ls`"""
    chatty = lambda config: config["models"]["qwen3-4b"].update(chat={"system": value})
    words = shlex.split(arguments(chatty).sampling(job(model="qwen3-4b")))
    assert words[0] == "--engine" and json.loads(words[3]) == {"system": value}


def test_an_evaluation_with_a_greedy_completion_receives_the_greedy_option():
    words = arguments().test(job(eval_task="gsm8k"))
    assert words == "--samples 4 --greedy --seed 2 --completion-tokens 250"
    sampled = lambda config: config["tasks"]["gsm8k"]["test"].update(greedy=False)
    assert (
        arguments(sampled).test(job(eval_task="gsm8k"))
        == "--samples 4 --seed 2 --completion-tokens 250"
    )


def test_reach_is_sampled_with_its_own_number_of_samples_and_seed():
    reach = lambda config: config["tasks"]["gsm8k"]["test"].update(reach={"samples": 16, "seed": 9})
    assert (
        arguments(reach).reach(job(eval_task="gsm8k"))
        == "--samples 16 --seed 9 --completion-tokens 250"
    )


def test_the_column_to_fill_in_is_named_as_in_the_pools_file():
    rename = lambda config: config["tasks"]["swaps"].update(
        source={"kind": "files", "train": "mine.csv", "columns": {"answer": "the answer"}}
    )
    assert shlex.split(
        arguments(rename).annotation_column(job(task="swaps", content="to_annotate"))
    ) == [
        "--to-annotate",
        "the answer",
    ]
    assert arguments().annotation_column(job(task="swaps", content="rows")) == ""


def test_only_recordings_are_measured_again_when_the_program_changes():
    assert arguments().recording_code(job(model="tiny-seed0")) == ""
    assert arguments().recording_code(job(model="qwen3-4b-recorded")) == arguments().code(
        "probe/measure_difficulty.py"
    )


def test_the_specification_of_a_run_does_not_depend_on_other_recipes():
    run = job(model="tiny-seed0", task="swaps", recipe="mini", policy="hard", seed="0")
    add_recipe = lambda config: config["recipes"].update(
        new=config["recipes"]["mini"] | {"updates": 10}
    )
    assert arguments().spec(run) == arguments(add_recipe).spec(run)
    assert json.loads(arguments().spec(run))["model"] == "tiny-seed0"


def test_sampling_receives_the_precision_that_the_model_sets():
    probe = job(model="tiny-seed0", task="swaps")
    set_precision = lambda config: config["models"]["tiny"].update(precision="bf16")
    assert "--precision" not in arguments().sampling(probe)
    assert arguments(set_precision).sampling(probe).endswith(" --precision bf16")


def test_the_second_round_starts_from_the_checkpoint_that_the_first_ends_with():
    run = job(
        model="tiny-seed0", task="swaps", recipe="mini", policy="agreement_in_rounds", seed="0"
    )
    updates = json.loads(arguments().first_spec(run))["training"]["updates"]
    assert arguments().first_checkpoint(run).endswith(f"first/checkpoints/step-{updates}")
