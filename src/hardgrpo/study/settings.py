"""Values that rules and programs need from a checked configuration, such as the runs of a study.

`config` is the whole configuration. Other dictionaries are its entries: a task, a model, a policy,
a recipe or a study.
"""

import re
from dataclasses import dataclass

from hardgrpo.data import generated
from hardgrpo.selection import policies

OWN = "own"  # the value of `seed` of a pretrained model if each replicate pretrains its own base
# end of the name of a replicate's own base; models may not have such a name
OWN_BASE_NAME = re.compile(r"-seed[0-9]+$")

RECIPE_DEFAULTS = {"adam_beta2": 0.999}  # defaults of keys that a recipe may leave out
# Keys that every GRPO recipe needs and no other recipe may have.
GRPO_KEYS = (
    "group_size",
    "temperature",
    "reward",
    "advantage",
    "loss",
    "beta",
    "epsilon",
    "generation",
)
# Arguments of `apply_chat_template` that the function does not pass to the template.
NOT_OF_A_TEMPLATE = frozenset(
    [
        "conversation",
        "tools",
        "documents",
        "chat_template",
        "add_generation_prompt",
        "continue_final_message",
        "tokenize",
    ]
    + [
        "sanitize_control_tokens",
        "padding",
        "truncation",
        "max_length",
        "return_tensors",
        "return_dict",
    ]
    + ["return_assistant_tokens_mask", "tokenizer_kwargs"]
)
ABOUT_CHAT = "is set by the workflow or not supported; name only what the model's own template reads, as enable_thinking"
# {trainer: kind of file that it reads}
TRAINER_FILES = {"trl": "jsonl", "verl": "parquet", "prime-rl": "jsonl"}
SOLVED_FAMILIES = ("swaps", "arithmetic")  # generated families whose problems have worked solutions


@dataclass(frozen=True)
class Run:
    """One training run. The recipe of recorded completions is `recorded`.

    `base` names the weights from which the run starts (`base_of`). The run's path begins with this
    name.
    """

    model: str
    task: str
    recipe: str
    policy: str
    seed: int
    base: str

    @property
    def path(self) -> str:
        return f"{self.base}/{self.task}/{self.recipe}/{self.policy}/seed{self.seed}"


def run_of(config: dict, model: str, task: str, recipe: str, policy: str, seed: int) -> Run:
    return Run(model, task, recipe, policy, seed, base_of(config, model, seed))


def run_of_path(base: str, task: str, recipe: str, policy: str, seed: int) -> Run:
    """The run whose path consists of these parts."""
    return Run(model_of(base), task, recipe, policy, int(seed), base)


def has_own_bases(model: dict) -> bool:
    """Whether each replicate of a model has a base of its own, pretrained from its own seed."""
    return model["source"].get("seed") == OWN


def base_of(config: dict, model: str, seed: int) -> str:
    """The name of the weights from which a replicate starts: the model's name, or the name of the
    replicate's own base (tiny-seed3)."""
    return own_base(model, seed) if has_own_bases(config["models"][model]) else model


def own_base(model: str, seed: int) -> str:
    return f"{model}-seed{seed}"


def bases_of(config: dict, model: str, seeds: list[int]) -> list[str]:
    return list(dict.fromkeys(base_of(config, model, seed) for seed in seeds))


def model_of(base: str) -> str:
    """The model of a base: tiny-seed3 -> tiny."""
    return OWN_BASE_NAME.sub("", base)


def entry(config: dict, base: str) -> dict:
    """The entry of a model. For a replicate's own base: the model's entry in which the base's seed
    replaces `seed: own`."""
    model = config["models"][model_of(base)]
    if base in config["models"]:
        return model
    return model | {"source": model["source"] | {"seed": int(base.rpartition("-seed")[2])}}


def probing_base(config: dict, model: str, policy: dict, seed: int) -> str:
    """The base model whose completions a policy uses to choose prompts, for a replicate of
    `model`."""
    return base_of(config, policy.get("probed_by", model), seed)


def probing_models(policies: dict, study: dict) -> set[str]:
    """The models whose completions a study's policies use to choose prompts. `policies` is the
    section of the configuration."""
    entries = [policies.get(name, {}) for name in policies_of(study)]
    return set(study["models"]) | {entry["probed_by"] for entry in entries if "probed_by" in entry}


def used_bases(config: dict, model: str) -> list[str]:
    """The bases of a model: the model itself, or the replicates' own bases that a study or `subset`
    uses."""
    if not has_own_bases(config["models"][model]):
        return [model]
    seeds = [
        seed
        for study in config["studies"].values()
        if model in probing_models(config["policies"], study)
        for seed in study["seeds"]
    ]
    seeds += [config["subset"]["seed"]] if config["subset"]["model"] == model else []
    return bases_of(config, model, seeds)


def has_train(task: dict) -> bool:
    return bool(task["source"].get("train"))


def is_labelled(task: dict, split: str = "train") -> bool:
    """Whether the problems of a split have reference answers. Problems of a test split always have
    answers."""
    return split != "train" or task.get("labelled", True)


def answer_column(task: dict) -> str:
    """The name of the column for answers in a task's file."""
    return task["source"].get("columns", {}).get("answer", "answer")


def has_solutions(task: dict) -> bool:
    """Whether the problems of a task come with worked solutions."""
    source = task["source"]
    if source["kind"] == "generated":
        return source["family"] in SOLVED_FAMILIES
    return source.get("format") in ("gsm8k", "math") or "solution" in source.get("columns", {})


def is_supervised(recipe: dict) -> bool:
    """Whether a recipe trains on worked solutions, without rollouts."""
    return recipe.get("objective") == "sft"


def has_rounds(policy: dict) -> bool:
    """Whether a policy annotates half of its budget before training and the other half in the
    middle of training."""
    return "rounds" in policy


def is_online(recipe: dict) -> bool:
    """Whether a recipe selects prompts during training, or trains a reward model together with the
    model."""
    return bool(recipe.get("selector") or recipe.get("process"))


def majority_share(recipe: dict) -> float:
    """Share of an update's prompts that a recipe takes from outside the subset and rewards by
    majority vote."""
    return recipe.get("majority_share", 0)


def texts_per_update(recipe: dict) -> int:
    """Number of texts in an update: the rollouts of its prompts, or their worked solutions."""
    return recipe["prompts_per_update"] * (1 if is_supervised(recipe) else recipe["group_size"])


def source_of_split(task: dict, split: str, with_solutions: bool = False) -> dict:
    """The part of a task's source that determines the problems of a split, and with
    `with_solutions` their worked solutions."""
    source = dict(task["source"])
    if split == "train":
        source.pop("test", None)
    elif (
        source["kind"] != "generated"
    ):  # a generated test split depends on the train split, which is drawn first
        source.pop("train", None)
    if "problems" in source:
        source["problems"] = source["problems"].get(split)
    # Problems do not contain solutions, so a change of the solution column must not prepare the
    # problems again.
    if "solution" in source.get("columns", {}) and not with_solutions:
        source["columns"] = {
            key: name for key, name in source["columns"].items() if key != "solution"
        }
        if not source["columns"]:
            del source["columns"]
    return source


def has_tiers(task: dict) -> bool:
    """Whether the problems of a task certainly have tiers. Rows of a user's own files may also have
    tiers, but are not read here."""
    source = task["source"]
    if source["kind"] == "generated":
        return source["family"] not in generated.LOOKED_UP
    return source.get("format") in ("gsm8k", "choices", "math")


def sampled_task(tasks: dict, name: str) -> str:
    """The task that is sampled for a task of the section `tasks`: itself, or the task from which
    its completions are cut."""
    return tasks[name].get("cut_from", name)


def probe_samples(probe: dict) -> int:
    """Completions per prompt of a task's probe: the samples that decide the subset, and the
    held-out samples."""
    return probe["samples"] + probe.get("held_out", 0)


def early_stop(config: dict) -> tuple[tuple[str, ...], str | None]:
    """((base, task) whose probe stops early for `subset`, or (); the reason why the task's `stop`
    is ignored, or None)."""
    subset, tasks = config["subset"], config["tasks"]
    base, policy = (
        base_of(config, subset["model"], subset["seed"]),
        config["policies"][subset["policy"]],
    )
    task = policy.get("probed_on", subset["task"])
    if "stop" not in tasks[task]["probe"] or is_recorded(config, base):
        return (), None
    if not policies.RULES[policy["rule"]].by_bounds:
        return (), f"policy '{subset['policy']}' needs every pass rate"
    sharers = [name for name, study in config["studies"].items() if task in study["tasks"]]
    sharers += [name for name, entry in tasks.items() if entry.get("cut_from") == task]
    sharers += [tasks[task]["cut_from"]] if "cut_from" in tasks[task] else []
    return ((), f"{sharers[0]} shares this probe") if sharers else ((base, task), None)


def is_analysis(config: dict, study: str) -> bool:
    """Whether a study is an analysis of published numbers, without arms and runs."""
    return study in config.get("analyses", {})


def is_recorded(config: dict, model: str) -> bool:
    return entry(config, model)["source"]["kind"] == "recorded"


def is_trajectory(config: dict, model: str) -> bool:
    return entry(config, model)["source"]["kind"] == "trajectory"


def is_served(config: dict, model: str) -> bool:
    """Whether a model is behind a server, so that there are no weights and no tokenizer."""
    return entry(config, model)["source"]["kind"] == "server"


def is_sampled(config: dict, model: str) -> bool:
    """Whether the workflow samples completions of a model, from its weights or from a server."""
    return not (is_recorded(config, model) or is_trajectory(config, model))


def replace_in_texts(value, old: str, new: str):
    """A copy of a nested value of the configuration in which every text has `new` in place of
    `old`."""
    if isinstance(value, dict):
        return {key: replace_in_texts(entry, old, new) for key, entry in value.items()}
    return value.replace(old, new) if isinstance(value, str) else value


def as_list(value) -> list:
    return value if isinstance(value, list) else [value]


def policies_of(study: dict) -> list[str]:
    """The names of a study's policies, in the order of its arms."""
    return list(dict.fromkeys(policy for arm in study["arms"] for policy in as_list(arm["policy"])))


def recipes_of(study: dict) -> list[str]:
    """The names of a study's recipes, in the order of its arms. Figures do not name the first
    recipe. Empty if nothing is trained."""
    return list(
        dict.fromkeys(recipe for arm in study["arms"] for recipe in as_list(arm.get("recipe", [])))
    )


def has_arm(study: dict, **names: str) -> bool:
    """Whether one arm of a study has all `names` (`model`, `task`, `policy`, `recipe`). An arm
    without `models` has all models, an arm without `tasks` all tasks."""
    keys = {"model": "models", "task": "tasks", "policy": "policy", "recipe": "recipe"}
    return any(
        all(
            keys[kind] not in arm or name in as_list(arm[keys[kind]])
            for kind, name in names.items()
        )
        for arm in study["arms"]
    )


def eval_tasks(study: dict, task: str, model: str) -> list[str]:
    """The tasks on which a model's runs of `task` are tested, beginning with `task` itself."""
    tests = [
        {"task": test} if isinstance(test, str) else test
        for test in study.get("also_tested_on", {}).get(task, [])
    ]
    return [task] + [test["task"] for test in tests if model in as_list(test.get("models", model))]


def pairs(config: dict, study: dict) -> list[tuple[str, str]]:
    """(model, task) pairs of a study. A recorded model has only the tasks of its recordings."""
    return [
        (model, task)
        for model in study["models"]
        for task in study["tasks"]
        if has_arm(study, model=model, task=task)
        and (
            not is_recorded(config, model)
            or task in config["models"][model]["source"]["recordings"]
        )
    ]


def runs(config: dict, study: dict) -> list[Run]:
    """All runs of a study, in the order of the configuration."""
    study_runs = []
    for model, task in pairs(config, study):
        if is_recorded(config, model):
            names = config["models"][model]["source"]["recordings"][task].get("runs", {})
            study_runs += [
                run_of(config, model, task, "recorded", policy, study["seeds"][0])
                for policy in names
            ]
            continue
        study_runs += [
            run_of(config, model, task, recipe, policy, seed)
            for recipe in recipes_of(study)
            for policy in policies_of(study)
            if has_arm(study, model=model, task=task, policy=policy, recipe=recipe)
            for seed in study["seeds"]
        ]
    return study_runs


def first_recipe(study: dict) -> str:
    """The first recipe that a study lists; "recorded" if all of the study's runs are recorded."""
    return next(iter(recipes_of(study)), "recorded")


def is_first_recipe(study: dict, recipe: str) -> bool:
    """Whether labels of arms (`hardgrpo.analysis.arms`) leave out a recipe: the study's first
    recipe, or `recorded`."""
    return recipe in ("recorded", first_recipe(study))


def also_compared(study: dict) -> list[list[tuple[str, str]]]:
    """Pairs of arms (policy, recipe) that are compared although both policy and recipe differ."""
    return [
        [(arm["policy"], arm["recipe"]) for arm in pair] for pair in study.get("also_compared", [])
    ]


def pretraining(config: dict, base: str) -> dict:
    """The settings of `pretrain_model.py`: the base's source, with source and prompt of each
    demonstrated task."""
    source = entry(config, base)["source"]
    demonstrations = {
        task: values
        | {"source": config["tasks"][task]["source"], "prompt": config["tasks"][task]["prompt"]}
        for task, values in source["demonstrations"].items()
    }
    return source | {"demonstrations": demonstrations}


def withheld_splits(config: dict, base: str) -> list[tuple[str, str]]:
    """(task, split) whose problems are left out of a pretrained base's demonstrations.

    These are both splits of the demonstrated tasks, and of tasks of the same families on which a
    study trains or tests the model. Facts are never left out, because a model learns facts only
    from its demonstrations. Tasks that no study uses with this model are not listed, so that a new
    task does not pretrain the model again.
    """
    base_model, tasks = model_of(base), config["tasks"]
    demonstrations = config["models"][base_model]["source"]["demonstrations"]
    families = {tasks[name]["source"]["family"] for name in demonstrations} - set(
        generated.LOOKED_UP
    )
    used_tasks = set(demonstrations)
    for study in config["studies"].values():
        used_tasks |= {
            test
            for model, task in pairs(config, study)
            if model == base_model
            for test in eval_tasks(study, task, model)
        }
    sampled_tasks = {sampled_task(tasks, name) for name in used_tasks}
    return [
        (name, split)
        for name, task in tasks.items()
        if name in sampled_tasks and task["source"].get("family") in families
        for split in ("train", "test")
        if task["source"][split]
    ]


def chat(config: dict, model: str) -> dict:
    """Arguments of the model's chat template."""
    return entry(config, model).get("chat", {})


def engine(config: dict, model: str) -> str:
    return (
        "server" if is_served(config, model) else entry(config, model).get("engine", "transformers")
    )


def weights_source(config: dict, model: str) -> dict:
    """The part of a model's source that decides its completions. The address of a server, its price
    and its limits do not."""
    source = entry(config, model)["source"]
    return (
        {key: source[key] for key in ("kind", "model", "endpoint") if key in source}
        if is_served(config, model)
        else source
    )


def server(config: dict, model: str) -> dict:
    """The part of a server's source that does not decide the completions: address, key, price and
    limits."""
    source = entry(config, model)["source"]
    return {key: value for key, value in source.items() if key not in ("kind", "model", "endpoint")}


def gpus(config: dict, model: str, stage: str) -> dict:
    """The GPUs that a stage (sampling, adapter, full) of a model needs; count 0 for a model that
    runs on a CPU."""
    return entry(config, model).get("gpus", {}).get(stage, {"count": 0})


def share_policy_or_recipe(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Whether two arms (policy, recipe) have the same policy or the same recipe."""
    return first[0] == second[0] or first[1] == second[1]


def training_gpus(config: dict, model: str, recipe: str) -> dict:
    """The GPUs of a training run: the model's entry for adapters or for all weights. A recipe with
    a selector or process rewards gets at most one GPU, because the run trains in a single
    process."""
    training = config["recipes"][recipe]
    stage_gpus = gpus(config, model, "adapter" if training.get("adapter") else "full")
    return (
        stage_gpus | {"count": min(1, stage_gpus["count"])} if is_online(training) else stage_gpus
    )


def recipe_differences(recipe: dict, first: dict) -> dict:
    """{key: the recipe's value} of keys with another value in the first recipe; None if the recipe
    lacks the key."""
    return {
        key: recipe.get(key) for key in sorted(recipe | first) if recipe.get(key) != first.get(key)
    }


def prices(config: dict, study: str) -> dict:
    """The prices and counts from which a study's costs are computed.

    `gpu_hour`: the price of a GPU hour. `gpus`: for each model the number of GPUs by recipe (0: the
    CPU), in the study's order of recipes. `label`: the price of a label, for policies whose budget
    names it. Policy `annotated` has the price of the policy of `subset`, which chose the prompts to
    annotate.
    """
    plan, entries = config["studies"][study], config["policies"]
    gpu_counts = lambda model: {
        recipe: training_gpus(config, model, recipe)["count"] for recipe in recipes_of(plan)
    }
    budget_of = lambda name: entries.get(name, {}).get("budget")
    is_annotated = lambda name: entries.get(name, {}).get("rule") == "annotated"
    budgets = {
        name: budget_of(config["subset"]["policy"] if is_annotated(name) else name)
        for name in policies_of(plan)
    }
    return {
        "gpu_hour": config["plan"]["price"],
        "gpus": {model: gpu_counts(model) for model in plan["models"]},
        "label": {
            name: budget["label_price"]
            for name, budget in budgets.items()
            if isinstance(budget, dict) and "label_price" in budget
        },
    }


def study_design(config: dict, study: str) -> dict:
    """The design of a study, for the text of its paper. The design depends on the configuration
    alone, not on results."""
    plan, recipe_names = config["studies"][study], recipes_of(config["studies"][study])
    tasks = {name: config["tasks"][name] for name in plan["tasks"]}
    models = {name: config["models"][name] for name in plan["models"]}
    chosen_by = [config["policies"][name] for name in policies_of(plan)]
    task = next(iter(tasks.values()), {})
    recipe = config["recipes"].get(first_recipe(plan), {})
    trajectories = [
        model["source"] for name, model in models.items() if is_trajectory(config, name)
    ]
    budgets = {
        policy["budget"] for policy in chosen_by if isinstance(policy.get("budget"), float | int)
    }
    return {
        "study": study,
        "title": plan["title"],
        "models": plan["models"],
        "tasks": plan["tasks"],
        "cut_from": {
            name: entry["cut_from"] for name, entry in tasks.items() if "cut_from" in entry
        },
        "pretrained": any(model["source"]["kind"] == "pretrain" for model in models.values()),
        "own_bases": all(map(has_own_bases, models.values())),
        "held_constant": plan.get("held_constant", []),
        "weaker_signal": plan.get("weaker_signal", []),
        "graders": sorted({entry["grader"] for entry in tasks.values()}),
        "policies": policies_of(plan),
        "policy_settings": {name: config["policies"][name] for name in policies_of(plan)},
        "rules": sorted({policy["rule"] for policy in chosen_by}),
        "seeds": len(plan["seeds"]),
        "budgets": sorted({min(budgets), max(budgets)}) if budgets else [],
        "probe_samples": task.get("probe", {}).get("samples"),
        "probes": {  # completions per prompt, unless they are recorded
            name: tasks[name]["probe"]["samples"]
            for model, name in pairs(config, plan)
            if not is_recorded(config, model)
        },
        "test_samples": task.get("test", {}).get("samples"),
        "greedy": task.get("test", {}).get("greedy", False)
        and not is_recorded(config, plan["models"][0]),
        "completion_tokens": {name: entry["completion_tokens"] for name, entry in tasks.items()},
        "first_recipe": first_recipe(plan),
        "recipe": recipe,
        "other_recipes": {
            name: recipe_differences(config["recipes"][name], recipe) for name in recipe_names[1:]
        },
        # epochs; empty unless models are trajectories
        "chosen_from": sorted({source["chosen_from"] for source in trajectories}),
        "origins": [source["origin"] for source in trajectories],
    }


def sorted_slice(value):
    """A copy with sorted mappings. Snakemake compares parameters as text, and the order of keys
    must not matter."""
    if isinstance(value, dict):
        return {key: sorted_slice(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sorted_slice(item) for item in value]
    return value
