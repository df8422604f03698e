"""Read the checked configuration: the runs of a study, and the parts of it that rules and programs need."""

import re
from dataclasses import dataclass

from hardgrpo.data import generated
from hardgrpo.selection import policies

OWN = "own"  # as the seed of a pretrained model: each replicate pretrains a base of its own
OWN_BASE_NAME = re.compile(r"-seed[0-9]+$")  # no model of the configuration may have a name that ends so

RECIPE_DEFAULTS = {"adam_beta2": 0.999}  # of keys that a recipe may leave out
# Keys that only a GRPO recipe has, and needs.
GRPO_KEYS = ("group_size", "temperature", "reward", "advantage", "loss", "beta", "epsilon", "generation")
# Arguments that `apply_chat_template` uses itself and does not pass to the template.
NOT_OF_A_TEMPLATE = frozenset(
    ["conversation", "tools", "documents", "chat_template", "add_generation_prompt", "continue_final_message", "tokenize"]
    + ["sanitize_control_tokens", "padding", "truncation", "max_length", "return_tensors", "return_dict"]
    + ["return_assistant_tokens_mask", "tokenizer_kwargs"]
)
ABOUT_CHAT = "is set by the workflow or not supported; name only what the model's own template reads, as enable_thinking"
SOLVED_FAMILIES = ("swaps", "arithmetic")  # generated families whose problems have worked solutions


@dataclass(frozen=True)
class Run:
    """One training run. The recipe of recorded completions is `recorded`.

    `base` names the weights that the run starts from (`base_of`); its path begins with this name.
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
    """The run whose path has these parts."""
    return Run(model_of(base), task, recipe, policy, int(seed), base)


def has_own_bases(model: dict) -> bool:
    """Whether each replicate of a model has a base of its own, pretrained from its own seed."""
    return model["source"].get("seed") == OWN


def base_of(config: dict, model: str, seed: int) -> str:
    """The name of the weights from which a replicate starts: the model's, or those of its own base (tiny-seed3)."""
    return own_base(model, seed) if has_own_bases(config["models"][model]) else model


def own_base(model: str, seed: int) -> str:
    return f"{model}-seed{seed}"


def bases_of(config: dict, model: str, seeds: list[int]) -> list[str]:
    return list(dict.fromkeys(base_of(config, model, seed) for seed in seeds))


def model_of(base: str) -> str:
    """The model of a base: tiny-seed3 -> tiny."""
    return OWN_BASE_NAME.sub("", base)


def entry(config: dict, base: str) -> dict:
    """The entry of the configuration for a model or for a replicate's own base, in which the base's seed replaces `seed: own`."""
    found = config["models"][model_of(base)]
    if base in config["models"]:
        return found
    return found | {"source": found["source"] | {"seed": int(base.rpartition("-seed")[2])}}


def probing_base(config: dict, model: str, policy: dict, seed: int) -> str:
    """The base model by whose completions a policy chooses, for a replicate of `model`."""
    return base_of(config, policy.get("probed_by", model), seed)


def probing_models(policies: dict, study: dict) -> set[str]:
    """The models by whose completions a study's policies choose. `policies` is the section of the configuration."""
    entries = [policies.get(name, {}) for name in policies_of(study)]
    return set(study["models"]) | {entry["probed_by"] for entry in entries if "probed_by" in entry}


def used_bases(config: dict, model: str) -> list[str]:
    """The bases of a model: itself, or its own bases that a study or `subset` uses."""
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
    """Whether the problems of a split have reference answers. A test split always has."""
    return split != "train" or task.get("labelled", True)


def answer_column(task: dict) -> str:
    """The column of a task's file in which answers stand, or should."""
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
    """Whether a policy annotates half of its budget before training and half in the middle of it."""
    return "rounds" in policy


def is_online(recipe: dict) -> bool:
    """Whether a recipe chooses prompts while it trains, or trains a reward model beside the policy."""
    return bool(recipe.get("selector") or recipe.get("process"))


def majority_share(recipe: dict) -> float:
    """Share of an update's prompts that a recipe takes from those that were not chosen, rewarded by the majority's answers."""
    return recipe.get("majority_share", 0)


def texts_per_update(recipe: dict) -> int:
    """Texts that an update trains on: the rollouts of its prompts, or their worked solutions."""
    return recipe["prompts_per_update"] * (1 if is_supervised(recipe) else recipe["group_size"])


def source_of_split(task: dict, split: str, with_solutions: bool = False) -> dict:
    """The part of a task's source that decides the problems of one split, and on request their worked solutions."""
    source = dict(task["source"])
    if split == "train":
        source.pop("test", None)
    elif source["kind"] != "generated":  # a generated test split depends on the train split, which is drawn first
        source.pop("train", None)
    if "problems" in source:
        source["problems"] = source["problems"].get(split)
    # A solution is no part of a problem: naming its column must not prepare the problems again.
    if "solution" in source.get("columns", {}) and not with_solutions:
        source["columns"] = {key: name for key, name in source["columns"].items() if key != "solution"}
        if not source["columns"]:
            del source["columns"]
    return source


def has_tiers(task: dict) -> bool:
    """Whether the source of a task is known to give its problems tiers. A user's own rows may have tiers, but only reading them would tell."""
    source = task["source"]
    if source["kind"] == "generated":
        return source["family"] not in generated.LOOKED_UP
    return source.get("format") in ("gsm8k", "choices", "math")


def sampled_task(tasks: dict, name: str) -> str:
    """The task that is sampled for a task of the section `tasks`: itself, or the task from which its completions are cut."""
    return tasks[name].get("cut_from", name)


def probe_samples(probe: dict) -> int:
    """Completions per prompt of a task's probe: those that decide the subset, and those that are held out."""
    return probe["samples"] + probe.get("held_out", 0)


def early_stop(config: dict) -> tuple[tuple[str, ...], str | None]:
    """((base, task) whose probe stops early for `subset`, or (); the reason why its task's `stop` is ignored, or None)."""
    chosen = config["subset"]
    model, policy = base_of(config, chosen["model"], chosen["seed"]), config["policies"][chosen["policy"]]
    task = policy.get("probed_on", chosen["task"])
    if "stop" not in config["tasks"][task]["probe"] or is_recorded(config, model):
        return (), None
    others = [name for name, study in config["studies"].items() if task in study["tasks"]]
    others += [name for name, other in config["tasks"].items() if other.get("cut_from") == task]
    if not policies.RULES[policy["rule"]].by_bounds:
        return (), f"policy '{chosen['policy']}' needs every pass rate"
    if others or "cut_from" in config["tasks"][task]:
        return (), f"{others[0] if others else config['tasks'][task]['cut_from']} shares this probe"
    return (model, task), None


def is_recorded(config: dict, model: str) -> bool:
    return entry(config, model)["source"]["kind"] == "recorded"


def is_trajectory(config: dict, model: str) -> bool:
    return entry(config, model)["source"]["kind"] == "trajectory"


def has_weights(config: dict, model: str) -> bool:
    return not (is_recorded(config, model) or is_trajectory(config, model))


def as_list(value) -> list:
    return value if isinstance(value, list) else [value]


def policies_of(study: dict) -> list[str]:
    """The names of a study's policies, in the order of its arms."""
    return list(dict.fromkeys(policy for arm in study["arms"] for policy in as_list(arm["policy"])))


def recipes_of(study: dict) -> list[str]:
    """The names of a study's recipes, in the order of its arms; the first is the one that figures do not name. Empty where nothing is
    trained."""
    return list(dict.fromkeys(recipe for arm in study["arms"] for recipe in as_list(arm.get("recipe", []))))


def has_arm(study: dict, **names: str) -> bool:
    """Whether an arm of a study has all of these: `model`, `task`, `policy`, `recipe`. An arm without `models` or `tasks` has all of them."""
    keys = {"model": "models", "task": "tasks", "policy": "policy", "recipe": "recipe"}
    return any(
        all(keys[kind] not in arm or name in as_list(arm[keys[kind]]) for kind, name in names.items()) for arm in study["arms"]
    )


def eval_tasks(study: dict, task: str, model: str) -> list[str]:
    """The tasks on which a model's runs of `task` are tested: first `task` itself."""
    tests = [{"task": test} if isinstance(test, str) else test for test in study.get("also_tested_on", {}).get(task, [])]
    return [task] + [test["task"] for test in tests if model in as_list(test.get("models", model))]


def pairs(config: dict, study: dict) -> list[tuple[str, str]]:
    """(model, task) pairs of a study. A recorded model has only the tasks of its recordings."""
    return [
        (model, task)
        for model in study["models"]
        for task in study["tasks"]
        if has_arm(study, model=model, task=task)
        and (not is_recorded(config, model) or task in config["models"][model]["source"]["recordings"])
    ]


def runs(config: dict, study: dict) -> list[Run]:
    """All runs of a study, in the order of the configuration."""
    found = []
    for model, task in pairs(config, study):
        if is_recorded(config, model):
            names = config["models"][model]["source"]["recordings"][task].get("runs", {})
            found += [run_of(config, model, task, "recorded", policy, study["seeds"][0]) for policy in names]
            continue
        found += [
            run_of(config, model, task, recipe, policy, seed)
            for recipe in recipes_of(study)
            for policy in policies_of(study)
            if has_arm(study, model=model, task=task, policy=policy, recipe=recipe)
            for seed in study["seeds"]
        ]
    return found


def first_recipe(study: dict) -> str:
    """The first recipe that a study lists; "" if all of its runs are recorded."""
    return next(iter(recipes_of(study)), "")


def is_first_recipe(study: dict, recipe: str) -> bool:
    """Whether a recipe is the study's first, or that of recorded runs: labels of arms do not name it (`hardgrpo.analysis.arms`)."""
    return recipe in ("recorded", first_recipe(study))


def also_compared(study: dict) -> list[list[tuple[str, str]]]:
    """Pairs of arms (policy, recipe) that are compared although both policy and recipe differ."""
    return [[(arm["policy"], arm["recipe"]) for arm in pair] for pair in study.get("also_compared", [])]


def pretraining(config: dict, base: str) -> dict:
    """The settings of `pretrain_model.py`: the base's source, with source and prompt of each demonstrated task."""
    source = entry(config, base)["source"]
    shown = {
        task: spec | {"source": config["tasks"][task]["source"], "prompt": config["tasks"][task]["prompt"]}
        for task, spec in source["demonstrations"].items()
    }
    return source | {"demonstrations": shown}


def withheld_splits(config: dict, base: str) -> list[tuple[str, str]]:
    """(task, split) whose problems are left out of a pretrained base's demonstrations: both splits of the tasks that it is shown,
    and of those of the same families that a study trains or tests it on. Facts are not left out, because a model only knows facts
    that it was shown. Tasks that no study uses with this model are not listed, so that adding one does not pretrain the model
    again."""
    model = model_of(base)
    shown = config["models"][model]["source"]["demonstrations"]
    families = {config["tasks"][task]["source"]["family"] for task in shown} - set(generated.LOOKED_UP)
    used = set(shown)
    for study in config["studies"].values():
        used |= {test for one, task in pairs(config, study) if one == model for test in eval_tasks(study, task, model)}
    return [
        (name, split)
        for name, task in config["tasks"].items()
        if name in {sampled_task(config["tasks"], task) for task in used} and task["source"].get("family") in families
        for split in ("train", "test")
        if task["source"][split]
    ]


def chat(config: dict, model: str) -> dict:
    """Arguments of the model's chat template."""
    return entry(config, model).get("chat", {})


def engine(config: dict, model: str) -> str:
    return entry(config, model).get("engine", "transformers")


def gpus(config: dict, model: str, stage: str) -> dict:
    """The GPUs that a stage (sampling, adapter, full) of a model needs; count 0 for a model that runs on a CPU."""
    return entry(config, model).get("gpus", {}).get(stage, {"count": 0})


def share_policy_or_recipe(arm: tuple[str, str], other_arm: tuple[str, str]) -> bool:
    """Whether two arms (policy, recipe) have the same policy or the same recipe."""
    return any(name == other for name, other in zip(arm, other_arm))


def training_gpus(config: dict, model: str, recipe: str) -> dict:
    """The GPUs of a training run: the model's entry for adapters or for all weights. With a selector or process rewards at most one
    GPU, because such a run is one process."""
    chosen = config["recipes"][recipe]
    found = gpus(config, model, "adapter" if chosen.get("adapter") else "full")
    return found | {"count": min(1, found["count"])} if is_online(chosen) else found


def recipe_differences(recipe: dict, first: dict) -> dict:
    """Where a recipe differs from another: {key: its value}; None for a key that it lacks."""
    return {key: recipe.get(key) for key in sorted(recipe | first) if recipe.get(key) != first.get(key)}


def prices(config: dict, study: str) -> dict:
    """What a study's costs are computed from: the price of a GPU hour; for each model, the number of GPUs by recipe (0: the CPU),
    in the study's order of recipes; and the price of a label, for policies whose budget names one. Policy `annotated` has the price
    of the policy of `subset`, which chose the prompts to annotate."""
    plan = config["studies"][study]
    gpus = lambda model: {recipe: training_gpus(config, model, recipe)["count"] for recipe in recipes_of(plan)}
    chosen_by = lambda name: config["subset"]["policy"] if config["policies"].get(name, {}).get("rule") == "annotated" else name
    budgets = {name: config["policies"].get(chosen_by(name), {}).get("budget") for name in policies_of(plan)}
    return {
        "gpu_hour": config["plan"]["price"],
        "gpus": {model: gpus(model) for model in plan["models"]},
        "label": {
            name: budget["label_price"] for name, budget in budgets.items() if isinstance(budget, dict) and "label_price" in budget
        },
    }


def study_design(config: dict, study: str) -> dict:
    """The design of a study, for the text of its paper. It comes from the configuration, not from results."""
    plan = config["studies"][study]
    recipe = config["recipes"].get(recipes[0], {}) if (recipes := recipes_of(plan)) else {}
    first = config["tasks"][plan["tasks"][0]] if plan["tasks"] else {}
    trajectories = [config["models"][model]["source"] for model in plan["models"] if is_trajectory(config, model)]
    budgets = {
        budget for policy in policies_of(plan) if isinstance(budget := config["policies"][policy].get("budget"), float | int)
    }
    return {
        "study": study,
        "title": plan["title"],
        "models": plan["models"],
        "tasks": plan["tasks"],
        "cut_from": {task: config["tasks"][task]["cut_from"] for task in plan["tasks"] if "cut_from" in config["tasks"][task]},
        "pretrained": any(config["models"][model]["source"]["kind"] == "pretrain" for model in plan["models"]),
        "own_bases": all(has_own_bases(config["models"][model]) for model in plan["models"]),
        "held_constant": plan.get("held_constant", []),
        "weaker_signal": plan.get("weaker_signal", []),
        "graders": sorted({config["tasks"][task]["grader"] for task in plan["tasks"]}),
        "policies": policies_of(plan),
        "rules": sorted({config["policies"][policy]["rule"] for policy in policies_of(plan)}),
        "seeds": len(plan["seeds"]),
        "budgets": sorted({min(budgets), max(budgets)}) if budgets else [],
        "probe_samples": first.get("probe", {}).get("samples"),
        "probes": {  # completions per prompt, unless they are recorded
            task: config["tasks"][task]["probe"]["samples"] for model, task in pairs(config, plan) if not is_recorded(config, model)
        },
        "test_samples": first.get("test", {}).get("samples"),
        "greedy": first.get("test", {}).get("greedy", False) and not is_recorded(config, plan["models"][0]),
        "completion_tokens": {task: config["tasks"][task]["completion_tokens"] for task in plan["tasks"]},
        "first_recipe": first_recipe(plan),
        "recipe": recipe,
        "other_recipes": {name: recipe_differences(config["recipes"][name], recipe) for name in recipes[1:]},
        "chosen_from": sorted({source["chosen_from"] for source in trajectories}),  # epochs; empty unless models are trajectories
        "origins": [source["origin"] for source in trajectories],
    }


def sorted_slice(value):
    """A copy with all mappings sorted: Snakemake compares parameters as text, and order must not matter."""
    if isinstance(value, dict):
        return {key: sorted_slice(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sorted_slice(item) for item in value]
    return value
