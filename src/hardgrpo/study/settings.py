"""Values that rules and programs need from single entries of a checked configuration.

Dictionaries are entries of the configuration: a task, a model, a policy, a recipe or a study.
`tasks`, `models` and `policies` are sections of the configuration: {name: entry}.
"""

import re
from dataclasses import dataclass

from hardgrpo.data import generated
from hardgrpo.selection import trainer_rows

OWN = "own"  # the value of `seed` of a pretrained model if each replicate pretrains its own base
# end of the name of a replicate's own base; the name of a model may not have this end
OWN_BASE_NAME = re.compile(r"-seed[0-9]+$")

RECIPE_DEFAULTS = {"adam_beta2": 0.999}  # defaults of keys that a recipe may leave out
CORES_PER_GPU = 4  # processor cores that a job requests for each of its GPUs
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
# Parameters of `apply_chat_template` itself. All other arguments are passed to the template.
NOT_OF_A_TEMPLATE = {
    "conversation",
    "tools",
    "documents",
    "chat_template",
    "add_generation_prompt",
    "continue_final_message",
    "tokenize",
    "sanitize_control_tokens",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "return_dict",
    "return_assistant_tokens_mask",
    "tokenizer_kwargs",
}
ABOUT_CHAT = "is set by the workflow or not supported; name only arguments of the model's own template, such as enable_thinking"
# {trainer: kind of file that it reads}
TRAINER_FILES = trainer_rows.FILES
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


@dataclass(frozen=True, eq=False)
class Split:
    """A split of a task: `train` or `test`. `task` is the entry of the task `task_name`."""

    task_name: str
    name: str
    task: dict


def is_pretrained(model: dict) -> bool:
    """Whether a model is pretrained by this workflow."""
    return model["source"]["kind"] == "pretrain"


def has_own_bases(model: dict) -> bool:
    """Whether each replicate of a model has a base of its own, pretrained from its own seed."""
    return model["source"].get("seed") == OWN


def base_of(models: dict, model: str, seed: int) -> str:
    """The name of the weights from which a replicate starts: the model's name, or the name of the
    replicate's own base (tiny-seed3)."""
    return own_base(model, seed) if has_own_bases(models[model]) else model


def own_base(model: str, seed: int) -> str:
    return f"{model}-seed{seed}"


def bases_of(models: dict, model: str, seeds: list[int]) -> list[str]:
    return list(dict.fromkeys(base_of(models, model, seed) for seed in seeds))


def model_of(base: str) -> str:
    """The model of a base: tiny-seed3 -> tiny."""
    return OWN_BASE_NAME.sub("", base)


def entry(models: dict, base: str) -> dict:
    """The entry of a model. For a replicate's own base: the model's entry in which the base's seed
    replaces `seed: own`."""
    if base in models:
        return models[base]
    model = models[model_of(base)]
    return model | {"source": model["source"] | {"seed": int(base.rpartition("-seed")[2])}}


def probing_base(models: dict, model: str, policy: dict, seed: int) -> str:
    """The base model whose completions a policy uses to choose prompts, for a replicate of
    `model`."""
    return base_of(models, policy.get("probed_by", model), seed)


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


def scores_before_update(recipe: dict) -> bool:
    """Whether TRL computes the log-probabilities of vLLM's rollouts in a pass of its own before the
    update: for the weights of rollouts, and for replayed rollouts."""
    replay = (recipe.get("selector") or {}).get("replay")
    return recipe.get("generation") == "vllm" and bool(
        recipe.get("importance_correction") or replay
    )


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
    # a generated test split depends on the train split, which is drawn first
    elif source["kind"] != "generated":
        source.pop("train", None)
    if "problems" in source:
        source["problems"] = source["problems"].get(split)
    # Problems do not contain solutions, so the problems need not be prepared again when the setting
    # `solution` changes.
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
        return source["family"] not in generated.MEMORISED
    return source.get("format") in ("gsm8k", "choices", "math")


def sampled_task(tasks: dict, name: str) -> str:
    """The name of the task whose completions are sampled for task `name`: the task from which they
    are cut (`cut_from`), or `name`."""
    return tasks[name].get("cut_from", name)


def probe_samples(probe: dict) -> int:
    """Completions per prompt of a task's probe: the samples that decide the subset, and the
    held-out samples."""
    return probe["samples"] + probe.get("held_out", 0)


def is_recorded(model: dict) -> bool:
    return model["source"]["kind"] == "recorded"


def is_trajectory(model: dict) -> bool:
    return model["source"]["kind"] == "trajectory"


def is_served(model: dict) -> bool:
    """Whether a model is behind a server, so that there are no weights and no tokenizer."""
    return model["source"]["kind"] == "server"


def is_sampled(model: dict) -> bool:
    """Whether the workflow samples completions of a model, from its weights or from a server."""
    return not (is_recorded(model) or is_trajectory(model))


def replace_in_texts(value, old: str, new: str):
    """A copy of a text, or of a nested mapping, in which every text has `new` in place of `old`.
    Lists in the mapping stay unchanged."""
    if isinstance(value, dict):
        return {key: replace_in_texts(entry, old, new) for key, entry in value.items()}
    return value.replace(old, new) if isinstance(value, str) else value


def as_list(value) -> list:
    return value if isinstance(value, list) else [value]


def policies_of(study: dict) -> list[str]:
    """The names of a study's policies, in the order of its arms."""
    return list(dict.fromkeys(policy for arm in study["arms"] for policy in as_list(arm["policy"])))


def recipes_of(study: dict) -> list[str]:
    """The names of a study's recipes, in the order of its arms; empty if nothing is trained."""
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


def first_recipe(study: dict) -> str:
    """The first recipe that a study lists; "recorded" if all of the study's runs are recorded."""
    return next(iter(recipes_of(study)), "recorded")


def is_first_recipe(study: dict, recipe: str) -> bool:
    """Whether the displayed names of arms (`hardgrpo.analysis.arms`) omit a recipe, because it is
    the study's first recipe or `recorded`."""
    return recipe in ("recorded", first_recipe(study))


def also_compared(study: dict) -> list[list[tuple[str, str]]]:
    """Pairs of arms (policy, recipe) that are compared although both policy and recipe differ."""
    return [
        [(arm["policy"], arm["recipe"]) for arm in pair] for pair in study.get("also_compared", [])
    ]


def pretraining(model: dict, tasks: dict) -> dict:
    """The settings of `pretrain_model.py`: a model's source, with the source and prompt of each
    demonstrated task added to `demonstrations`."""
    source = model["source"]
    demonstrations = {
        task: values | {"source": tasks[task]["source"], "prompt": tasks[task]["prompt"]}
        for task, values in source["demonstrations"].items()
    }
    return source | {"demonstrations": demonstrations}


def chat(model: dict) -> dict:
    """Arguments of the model's chat template."""
    return model.get("chat", {})


def engine(model: dict) -> str:
    return "server" if is_served(model) else model.get("engine", "transformers")


def weights_source(model: dict) -> dict:
    """The part of a model's source that determines its completions: for a server, all except
    address, key, price and limits."""
    source = model["source"]
    return (
        {key: source[key] for key in ("kind", "model", "endpoint") if key in source}
        if is_served(model)
        else source
    )


def server(model: dict) -> dict:
    """The part of a server's source that does not decide the completions: address, key, price and
    limits."""
    source = model["source"]
    return {key: value for key, value in source.items() if key not in ("kind", "model", "endpoint")}


def gpus(model: dict, stage: str) -> dict:
    """The GPUs that a stage (sampling, adapter, full) of a model needs; count 0 for a model that
    runs on a CPU."""
    return model.get("gpus", {}).get(stage, {"count": 0})


def share_policy_or_recipe(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Whether two arms (policy, recipe) have the same policy or the same recipe."""
    return first[0] == second[0] or first[1] == second[1]


def training_gpus(model: dict, recipe: dict) -> dict:
    """The GPUs of a training run: the model's entry for adapters or for all weights. A recipe with
    a selector or process rewards gets at most one GPU, because the run trains in a single
    process."""
    stage_gpus = gpus(model, "adapter" if recipe.get("adapter") else "full")
    return stage_gpus | {"count": min(1, stage_gpus["count"])} if is_online(recipe) else stage_gpus


def recipe_differences(recipe: dict, first: dict) -> dict:
    """{key: the recipe's value} of keys with another value in the first recipe. The value is None
    if the recipe lacks the key."""
    return {
        key: recipe.get(key) for key in sorted(recipe | first) if recipe.get(key) != first.get(key)
    }


def sorted_slice(value):
    """A copy with sorted mappings. Snakemake compares parameters as text, and the order of keys
    must not matter."""
    if isinstance(value, dict):
        return {key: sorted_slice(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sorted_slice(item) for item in value]
    return value
