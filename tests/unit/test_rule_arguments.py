"""Arguments that rules pass to programs."""

import json
import shlex
from types import SimpleNamespace

import pytest

import project_config
from hardgrpo.study import load
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.resolved import resolve_studies
from hardgrpo.workflow.arguments import Arguments
from hardgrpo.workflow.names import Names

ROOT = project_config.ROOT


RUN = {"model": "tiny-seed0", "task": "swaps", "policy": "hard", "recipe": "mini", "seed": "0"}
GSM8K = {"model": "qwen3-4b", "task": "gsm8k", "eval_task": "gsm8k"}
RECORDED = {"model": "qwen3-4b-recorded", "task": "gsm8k"}


def job(**wildcards: str) -> SimpleNamespace:
    return SimpleNamespace(**wildcards)


def arguments(changes: dict | None = None, targets=()) -> Arguments:
    """The arguments that rules pass if Snakemake is called with `targets`, by the project's
    configuration with `changes`."""
    config = Configuration.of(load.lay_over(project_config.config(), changes or {}))
    workflow = SimpleNamespace(
        basedir=str(ROOT), dag_settings=SimpleNamespace(targets=set(targets))
    )
    studies = resolve_studies(config)
    return Arguments(config, studies, Names(config, studies), workflow)


def of_task(name: str, **changes) -> dict:
    return {"tasks": {name: changes}}


def test_the_order_of_keys_in_the_configuration_changes_no_argument():
    config = project_config.config()
    for section in ("tasks", "policies", "recipes"):
        config[section] = {
            name: dict(reversed(entry.items())) for name, entry in config[section].items()
        }
    wildcards = RUN | {"study": "mini", "split": "train"}
    names = ("source", "policy", "spec", "study", "design", "prices", "conditions", "pretraining")
    for name in names:
        before, after = (getattr(parts, name) for parts in (arguments(), arguments(config)))
        assert before(job(**wildcards)) == after(job(**wildcards)), name


HELD_OUT = of_task("gsm8k", probe={"samples": 5, "held_out": 3})


@pytest.mark.parametrize(
    ("changes", "name", "wildcards", "expected"),
    [
        ({}, "expected_samples", RECORDED, ""),
        # held-out samples are sampled, but not used for the choice
        (HELD_OUT, "expected_samples", GSM8K, "--samples 5 --held-out 3"),
        (HELD_OUT, "probed_samples", GSM8K, 8),
        # a cut probe states both numbers of samples if they differ
        ({}, "fewer_samples", {"task": "swaps_tight"}, ""),
        (
            of_task("swaps_once", probe={"samples": 2}),
            "fewer_samples",
            {"task": "swaps_once"},
            " --samples 2 --of 8",
        ),
        ({}, "test", GSM8K, "--samples 4 --greedy --seed 2 --completion-tokens 250"),
        (
            of_task("gsm8k", test={"greedy": False}),
            "test",
            GSM8K,
            "--samples 4 --seed 2 --completion-tokens 250",
        ),
        (
            of_task("gsm8k", test={"reach": {"samples": 16, "seed": 9}}),
            "reach",
            GSM8K,
            "--samples 16 --seed 9 --completion-tokens 250",
        ),
        ({}, "annotation_column", {"task": "swaps", "content": "rows"}, ""),
        # only recordings are measured again when the program changes
        ({}, "recording_code", RUN, ""),
    ],
)
def test_programs_receive_the_conditions_of_the_task(changes, name, wildcards, expected):
    assert getattr(arguments(changes), name)(job(**wildcards)) == expected


@pytest.mark.parametrize(
    ("changes", "name", "wildcards", "place", "expected"),
    [
        # the program that chooses does not receive on which model and task a policy is probed
        ({}, "policy", {"policy": "hard_once"}, 0, {"rule": "hard", "budget": 0.1}),
        # in the first of two rounds, half of the budget is chosen
        (
            {},
            "policy",
            {"policy": "agreement_in_rounds"},
            0,
            {"rule": "lowest", "by": "agreement", "budget": 0.05},
        ),
        (
            {},
            "second_policy",
            {"policy": "agreement_in_rounds"},
            0,
            {"rule": "lowest", "by": "agreement", "budget": 0.1},
        ),
        ({}, "stop", {"task": "gsm8k"}, 1, {"rule": "hard", "budget": 0.1, "seed": 0}),
        # a value with quotes reaches the program unchanged
        (
            {"models": {"qwen3-4b": {"chat": {"system": """it's "quoted" $HOME `ls`"""}}}},
            "sampling",
            GSM8K,
            3,
            {"enable_thinking": False, "system": """it's "quoted" $HOME `ls`"""},
        ),
    ],
)
def test_programs_receive_json(changes, name, wildcards, place, expected):
    argument = getattr(arguments(changes), name)(job(**wildcards))
    assert json.loads(shlex.split(argument)[place] if place else argument) == expected


def test_the_size_of_a_pool_is_checked_only_if_policies_of_the_targets_choose_from_it():
    pool, test = job(task="arithmetic", split="train"), job(task="arithmetic", split="test")
    grader = project_config.config()["tasks"]["arithmetic"]["grader"]
    words = shlex.split(arguments().grader_and_policies(pool))
    assert words[:2] == [grader, "--policies"] and "hard" in json.loads(words[2])
    assert shlex.split(arguments().grader_and_policies(test)) == [grader]
    assert shlex.split(arguments(targets=["inputs"]).grader_and_policies(pool)) == [grader]


def test_the_specification_of_a_run_does_not_depend_on_other_recipes():
    run = job(**RUN)
    recipe = project_config.config()["recipes"]["mini"] | {"updates": 10}
    assert arguments().spec(run) == arguments({"recipes": {"new": recipe}}).spec(run)
    assert json.loads(arguments().spec(run))["model"] == "tiny-seed0"
