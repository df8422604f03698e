"""config.yaml: checked against the closed schema and against itself, then cut into runs and into slices for rules."""

import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import yaml

from . import costs, grading, policies
from .errors import UserError

SCHEMA = Path(__file__).parents[2] / "rules" / "config.schema.yaml"


@dataclass(frozen=True)
class Run:
    """(model, task, policy, recipe, seed); for recorded completions the recipe is `recorded`."""

    model: str
    task: str
    recipe: str
    policy: str
    seed: int

    @property
    def path(self) -> str:
        return f"{self.model}/{self.task}/{self.recipe}/{self.policy}/seed{self.seed}"


def check(config: dict, name: str) -> None:
    """Raise a `UserError` that names the file, the place, what was expected and what to do."""
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    # JSON Schema takes 30.0 for an integer; a program's argument does not.
    strict = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=strict)(schema)
    error = min(validator.iter_errors(config), key=lambda e: [str(p) for p in e.absolute_path], default=None)
    if error is not None:
        raise UserError(f"{name}: {_explain(error, schema)}")
    for place, problem in _contradictions(config):
        raise UserError(f"{name}: {place}: {problem}")


def _explain(error: jsonschema.ValidationError, schema: dict) -> str:
    while error.validator == "oneOf":
        error = _right_branch(error)
    place = ".".join(map(str, error.absolute_path)) or "top level"
    if error.validator == "additionalProperties":
        known = list(error.schema.get("properties", {}))
        unknown = [key for key in error.instance if key not in known][0]
        close = difflib.get_close_matches(str(unknown), known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else "remove it"
        return f"{place}: unknown key '{unknown}'; {hint} (known here: {', '.join(known)})"
    if error.validator == "required":
        missing = [key for key in error.validator_value if key not in error.instance][0]
        described = error.schema["properties"][missing].get("description", "")
        return f"{place}: '{missing}' is missing; add it ({described.rstrip('.')})"
    described = _description(schema, error.absolute_schema_path)
    return f"{place}: {error.message}" + (f"; expected: {described.rstrip('.')}" if described else "") + "; correct it"


def _description(schema: dict, path) -> str:
    """The innermost description on the way through the schema to what was violated."""
    node, found = schema, ""
    for step in path:
        if isinstance(node, dict) and "$ref" in node:  # the path leaves references out
            own = node.get("description")
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
            found = own or node.get("description", found)
        node = node[step]
        if isinstance(node, dict) and isinstance(node.get("description"), str):
            found = node["description"]
    return found


def _right_branch(error: jsonschema.ValidationError) -> jsonschema.ValidationError:
    """Of the alternatives of a `oneOf`, the complaint of the one that `kind` names, or that has the right type."""
    branches: dict[int, list] = {}
    for complaint in error.context:
        branches.setdefault(complaint.schema_path[0], []).append(complaint)

    def distance(complaints: list) -> tuple:
        wrong_kind = any(c.validator == "const" or (c.validator == "type" and not c.relative_path) for c in complaints)
        return wrong_kind, len(complaints)

    best = min(branches.values(), key=distance)
    if distance(best)[0] and isinstance(error.instance, dict) and "kind" in error.instance:
        kinds = [c.validator_value for complaints in branches.values() for c in complaints if c.validator == "const"]
        choice = next(c for c in best if c.validator == "const")
        choice.message = f"{error.instance['kind']!r} is not one of {', '.join(kinds)}"
        return choice
    return best[0]


def _contradictions(config: dict) -> Iterator[tuple[str, str]]:
    def unknown(place: str, kind: str, names) -> Iterator[tuple[str, str]]:
        for name in names:
            if name not in config[kind]:
                close = difflib.get_close_matches(str(name), config[kind], n=1)
                hint = f"did you mean '{close[0]}'?" if close else f"add it under `{kind}`"
                yield place, f"unknown {SINGULAR[kind]} '{name}'; {hint} (known: {', '.join(config[kind])})"

    if config["study"] not in config["studies"]:
        yield from unknown("study", "studies", [config["study"]])
    for name, task in config["tasks"].items():
        place = f"tasks.{name}"
        if task["grader"] not in grading.GRADERS:
            yield f"{place}.grader", f"unknown grader '{task['grader']}'; expected one of {', '.join(grading.GRADERS)}"
        source = task["source"]
        if "cut_from" in task:
            yield from _not_cut(config, name, place)
        if "stop" in task["probe"] and task["probe"]["shards"] > 1:
            yield (
                f"{place}.probe.shards",
                f"{task['probe']['shards']} shards cannot stop early, because what a prompt needs depends on all the others; set it to 1, or"
                " take `stop` out",
            )
        if source["kind"] == "generated":
            if task["probe"]["shards"] > max(1, source["train"]):
                yield f"{place}.probe.shards", f"{task['probe']['shards']} shards for {source['train']} problems; lower it"
            for key, families in (("objects", ("swaps", "shuffled_objects")), ("length", ("swaps", "arithmetic"))):
                if source["family"] in families and key not in source:
                    yield f"{place}.source", f"family {source['family']} needs '{key}'; add it, e.g. {key}: [3, 4, 5]"
        elif source.get("format", "columns") != "columns" and "columns" in source:
            yield f"{place}.source.columns", f"format {source['format']} knows its own columns; remove one of the two"
        elif not ("train" in source or "test" in source):
            yield f"{place}.source", "neither 'train' nor 'test' is there; name at least one split"
    for name, model in config["models"].items():
        source, place = model["source"], f"models.{name}.source"
        if source["kind"] == "pretrain":
            if source["heads"] % source["key_value_heads"]:
                yield (
                    f"{place}.key_value_heads",
                    f"{source['key_value_heads']} does not divide heads ({source['heads']}); change one of them",
                )
            yield from unknown(f"{place}.demonstrations", "tasks", source["demonstrations"])
            for task, spec in source["demonstrations"].items():
                if config["tasks"][task]["source"].get("family") not in ("swaps", "arithmetic"):
                    yield (
                        f"{place}.demonstrations.{task}",
                        "only generated swaps and arithmetic have demonstrations; name one of these",
                    )
                elif (config["tasks"][task]["source"]["family"] == "arithmetic") != isinstance(spec["slip"], dict):
                    yield (
                        f"{place}.demonstrations.{task}.slip",
                        "expected one number for swaps, one by operation (+ - * /) for arithmetic",
                    )
        elif source["kind"] == "recorded":
            yield from unknown(f"{place}.recordings", "tasks", source["recordings"])
            for task, recorded in source["recordings"].items():
                if "probe" in recorded and not has_train(config["tasks"][task]):
                    yield (
                        f"{place}.recordings.{task}.probe",
                        f"task '{task}' has no train split; give it one or leave the probe out",
                    )
    for name, policy in config["policies"].items():
        rule, place = policy["rule"], f"policies.{name}"
        yield from unknown(f"{place}.probed_on", "tasks", [policy["probed_on"]] if "probed_on" in policy else [])
        needs = policies.NEEDS.get(rule, set())
        for key in sorted(needs - set(policy)):
            example = {"budget": 0.1, "threshold": 0.25, "highest_tier": 3}[key]
            yield place, f"rule '{rule}' needs '{key}'; add it, e.g. {key}: {example}"
        for key in sorted(set(policy) - needs - {"rule", "probed_on"}):
            yield f"{place}.{key}", f"rule '{rule}' takes no '{key}'; remove it"
    for name, recipe in config["recipes"].items():
        if recipe["updates"] % recipe["checkpoint_every"]:
            yield (
                f"recipes.{name}.checkpoint_every",
                f"{recipe['checkpoint_every']} does not divide updates ({recipe['updates']}), so the last update would have no"
                " checkpoint; change one of them",
            )
        if recipe["base"] == "nf4" and not recipe.get("adapter"):
            yield f"recipes.{name}.base", "weights held in 4 bits cannot be trained themselves; add an adapter or choose bf16"
        if recipe["base"] == "nf4" and recipe["generation"] == "vllm":
            yield (
                f"recipes.{name}.generation",
                "vLLM cannot follow an adapter that is merged into 4-bit weights; choose transformers, or base: bf16",
            )
    chosen = config["subset"]
    for kind in ("models", "tasks", "policies"):
        yield from unknown(f"subset.{SINGULAR[kind]}", kind, [chosen[SINGULAR[kind]]])
    if chosen["task"] in config["tasks"] and not has_train(config["tasks"][chosen["task"]]):
        yield "subset.task", f"task '{chosen['task']}' has no train split to choose from; give it one"
    if chosen["model"] in config["models"] and is_recorded(config, chosen["model"]):
        if chosen["task"] not in config["models"][chosen["model"]]["source"]["recordings"]:
            yield "subset.model", f"'{chosen['model']}' has no recordings of task '{chosen['task']}'; name another model or task"
    for name, study in config["studies"].items():
        place = f"studies.{name}"
        for kind in ("models", "tasks", "policies"):
            yield from unknown(f"{place}.{kind}", kind, study[kind])
            if len(set(study[kind])) < len(study[kind]):
                yield f"{place}.{kind}", "a name stands here twice; remove one"
        if len(set(study["seeds"])) < len(study["seeds"]):
            yield f"{place}.seeds", f"{study['seeds']} are not distinct; a seed that stands twice is one replicate counted twice"
        for policy in study["policies"]:
            for task in study["tasks"]:
                other = config["policies"].get(policy, {}).get("probed_on", task)
                if is_excluded(study, policy=policy, task=task) or {task, other} - set(config["tasks"]):
                    continue
                if sampled_as(config, other) != sampled_as(config, task):
                    yield (
                        f"{place}.policies",
                        f"'{policy}' is probed on '{other}', whose problems are not those of '{task}'; exclude the pair, or name a task"
                        " with the same cut_from",
                    )
        kinds = {config["models"][model]["source"]["kind"] == "recorded" for model in study["models"]}
        if len(kinds) > 1:
            yield f"{place}.models", "recorded models and models with weights cannot share a study; make two studies"
        if kinds == {False}:
            if "recipes" not in study:
                yield place, "'recipes' is missing; name one or more of `recipes`"
            else:
                yield from unknown(f"{place}.recipes", "recipes", study["recipes"])
            for task in study["tasks"]:
                if not has_train(config["tasks"][task]):
                    yield (
                        f"{place}.tasks",
                        f"task '{task}' has no train split to choose from; give it one or name it in also_tested_on",
                    )
                if config["tasks"][task].get("difficulty") == "agreement":
                    yield (
                        f"{place}.tasks",
                        f"task '{task}' has no reference answers, so nothing can be trained or tested on it; `snakemake subset`"
                        " chooses from it",
                    )
            for model in study["models"]:
                yield from _unable(config, study, model, place)
        else:
            for task in study["tasks"]:
                if "cut_from" in config["tasks"][task]:
                    yield f"{place}.tasks", f"recorded completions are taken as they are, but task '{task}' cuts them; take it out"
            if len(study["seeds"]) != 1:
                yield f"{place}.seeds", "recorded completions have one seed; expected one"
            if study.get("also_tested_on"):
                yield (
                    f"{place}.also_tested_on",
                    "recordings are tested on their own task only; make the other a task of the study",
                )
            recorded = {task for model in study["models"] for task in config["models"][model]["source"]["recordings"]}
            for task in study["tasks"]:
                if task not in recorded:
                    yield f"{place}.tasks", f"no model of the study has recordings of '{task}'; take it out or add them"
        for task in study.get("weaker_signal", []):
            if task not in [*study["tasks"], *study["models"]]:
                yield f"{place}.weaker_signal", f"'{task}' is neither a task nor a model of this study; add it or take it out"
        for task, tests in study.get("also_tested_on", {}).items():
            if task not in study["tasks"]:
                yield f"{place}.also_tested_on", f"'{task}' is not a task of this study; add it to its tasks"
            yield from unknown(f"{place}.also_tested_on.{task}", "tasks", tests)
            for test in tests:
                if test in config["tasks"] and not config["tasks"][test]["source"].get("test"):
                    yield f"{place}.also_tested_on.{task}", f"task '{test}' has no test split; give it one"
                if test in config["tasks"] and config["tasks"][test].get("difficulty") == "agreement":
                    yield f"{place}.also_tested_on.{task}", f"task '{test}' has no reference answers to test on; take it out"
        for number, entry in enumerate(study.get("exclude", [])):
            for key, kind in (("model", "models"), ("task", "tasks"), ("policy", "policies"), ("recipe", "recipes")):
                for value in _listed(entry.get(key, [])):
                    if value not in study.get(kind, []):
                        yield f"{place}.exclude.{number}.{key}", f"'{value}' is not one of the study's {kind}; correct it"
            yield from unknown(f"{place}.exclude.{number}.tested_on", "tasks", _listed(entry.get("tested_on", [])))
            if "tested_on" in entry and ("policy" in entry or "recipe" in entry):
                yield (
                    f"{place}.exclude.{number}",
                    "a test is left out for a model and a task, not for a policy or recipe; remove that key",
                )


def _unable(config: dict, study: dict, model: str, place: str) -> Iterator[tuple[str, str]]:
    """What a model of a study cannot do: tasks it was never shown, completions longer than its context."""
    source = config["models"][model]["source"]
    for task in study["tasks"]:
        if source["kind"] == "pretrain" and sampled_as(config, task) not in source["demonstrations"]:
            yield (
                f"{place}.tasks",
                f"model '{model}' was never shown task '{task}'; add it to models.{model}.source.demonstrations",
            )
        for test in eval_tasks(study, task, model):
            if test in config["tasks"] and not ("test" in config["tasks"][test] and config["tasks"][test]["source"].get("test")):
                yield f"tasks.{test}", "a study tests on it, so it needs a test split in its source and `test`; add them"
            if source["kind"] == "pretrain" and test in config["tasks"]:
                if config["tasks"][test]["completion_tokens"] >= source["context_tokens"]:
                    yield (
                        f"tasks.{test}.completion_tokens",
                        f"model '{model}' has a context of {source['context_tokens']} tokens for prompt and completion; lower it",
                    )
    if "gpus" not in config["models"][model]:
        return
    if "shape" not in config["models"][model]:
        yield f"models.{model}.shape", "a model for GPUs needs its shape, from which memory is estimated; add it"
        return
    for recipe in (name for name in study["recipes"] if name in config["recipes"]):
        kind = "adapter" if config["recipes"][recipe].get("adapter") else "full"
        for task in (name for name in study["tasks"] if name in config["tasks"]):
            try:
                costs.check_fits(config, model, recipe, task)
            except UserError as error:
                yield f"models.{model}.gpus.{kind}", str(error)


def _not_cut(config: dict, name: str, place: str) -> Iterator[tuple[str, str]]:
    """Why the completions of a task's `cut_from` cannot be cut into its own."""
    task, other = config["tasks"][name], config["tasks"].get(config["tasks"][name]["cut_from"])
    if other is None or "cut_from" in other:
        yield f"{place}.cut_from", f"'{task['cut_from']}' is no task, or is cut from another itself; name one that is sampled"
        return
    for key in sorted((set(task) | set(other)) - {"cut_from", "completion_tokens"}):
        if task.get(key) != other.get(key):
            yield f"{place}.{key}", f"differs from that of '{task['cut_from']}', whose completions it cuts; make them equal"
    if task["completion_tokens"] >= other["completion_tokens"]:
        yield (
            f"{place}.completion_tokens",
            f"{task['completion_tokens']} is no cut of the {other['completion_tokens']} of '{task['cut_from']}'; lower it",
        )


SINGULAR = {"tasks": "task", "models": "model", "policies": "policy", "recipes": "recipe", "studies": "study"}


def has_train(task: dict) -> bool:
    return bool(task["source"].get("train"))


def source_of_split(task: dict, split: str) -> dict:
    """The part of a task's source that decides one split: what stands for the other split is left out."""
    source = dict(task["source"])
    if split == "train":
        source.pop("test", None)
    elif source["kind"] != "generated":  # the test split of a generated task comes after its train split
        source.pop("train", None)
    if "problems" in source:
        source["problems"] = source["problems"].get(split)
    return source


def sampled_as(config: dict, task: str) -> str:
    """The task whose completions a task's are: itself, or the one that they are cut from."""
    return config["tasks"][task].get("cut_from", task)


def stopped_early(config: dict) -> tuple[tuple[str, ...], str | None]:
    """((model, task) whose probe stops early for `subset` or (), why a `stop` of its task is not heeded or None)."""
    chosen = config["subset"]
    model, policy = chosen["model"], config["policies"][chosen["policy"]]
    task = policy.get("probed_on", chosen["task"])
    if "stop" not in config["tasks"][task]["probe"] or is_recorded(config, model):
        return (), None
    others = [name for name, study in config["studies"].items() if task in study["tasks"]]
    others += [name for name, other in config["tasks"].items() if other.get("cut_from") == task]
    if policy["rule"] not in policies.BY_BOUNDS:
        return (), f"policy '{chosen['policy']}' needs every pass rate"
    if others or "cut_from" in config["tasks"][task]:
        return (), f"{others[0] if others else config['tasks'][task]['cut_from']} shares this probe"
    return (model, task), None


def is_recorded(config: dict, model: str) -> bool:
    return config["models"][model]["source"]["kind"] == "recorded"


def _listed(value) -> list:
    return value if isinstance(value, list) else [value]


def is_excluded(study: dict, tested_on: str | None = None, **run: str) -> bool:
    """Whether an entry of `exclude` leaves out a run (model, task, policy, recipe; what is not given matches nothing), or its
    test on a task."""
    for entry in study.get("exclude", []):
        if ("tested_on" in entry) != (tested_on is not None):
            continue
        asked = run | ({"tested_on": tested_on} if tested_on else {})
        if all(asked.get(key) in _listed(value) for key, value in entry.items()):
            return True
    return False


def eval_tasks(study: dict, task: str, model: str) -> list[str]:
    """The tasks that a model's runs of `task` are tested on: itself, then the others."""
    others = study.get("also_tested_on", {}).get(task, [])
    return [task] + [other for other in others if not is_excluded(study, other, model=model, task=task)]


def pairs(config: dict, study: dict) -> list[tuple[str, str]]:
    """(model, task) of a study; a recorded model answers only the tasks it has recordings of."""
    return [
        (model, task)
        for model in study["models"]
        for task in study["tasks"]
        if not is_excluded(study, model=model, task=task)
        and (not is_recorded(config, model) or task in config["models"][model]["source"]["recordings"])
    ]


def runs(config: dict, study: dict) -> list[Run]:
    """Every run of a study, in the order of the configuration."""
    found = []
    for model, task in pairs(config, study):
        if is_recorded(config, model):
            names = config["models"][model]["source"]["recordings"][task].get("runs", {})
            found += [Run(model, task, "recorded", policy, study["seeds"][0]) for policy in names]
            continue
        found += [
            Run(model, task, recipe, policy, seed)
            for recipe in study["recipes"]
            for policy in study["policies"]
            if not is_excluded(study, model=model, task=task, policy=policy, recipe=recipe)
            for seed in study["seeds"]
        ]
    return found


def arm(study: dict, run: Run) -> str:
    """What a run is called in tables and figures: its policy, and its recipe too where that is not the study's first."""
    return run.policy if run.recipe in ("recorded", study.get("recipes", [""])[0]) else f"{run.policy}, {run.recipe}"


def pretraining(config: dict, model: str) -> dict:
    """What `pretrain_model.py` needs: the model's source, each demonstrated task with its own source and prompt."""
    source = config["models"][model]["source"]
    shown = {
        task: spec | {"source": config["tasks"][task]["source"], "prompt": config["tasks"][task]["prompt"]}
        for task, spec in source["demonstrations"].items()
    }
    return source | {"demonstrations": shown}


def never_shown(config: dict, model: str) -> list[tuple[str, str]]:
    """(task, split) whose problems a pretrained model must not have seen: all that a study trains or tests it on, of the families
    it is shown. Other tasks of these families stay out, so that adding one does not train it again."""
    shown = config["models"][model]["source"]["demonstrations"]
    families = {config["tasks"][task]["source"]["family"] for task in shown}
    used = set(shown)
    for study in config["studies"].values():
        used |= {test for one, task in pairs(config, study) if one == model for test in eval_tasks(study, task, model)}
    return [
        (name, split)
        for name, task in config["tasks"].items()
        if name in {sampled_as(config, task) for task in used} and task["source"].get("family") in families
        for split in ("train", "test")
        if task["source"][split]
    ]


def chat(config: dict, model: str) -> dict:
    """Arguments of the model's chat template."""
    return config["models"][model].get("chat", {})


def engine(config: dict, model: str) -> str:
    return config["models"][model].get("engine", "transformers")


def gpus(config: dict, model: str, stage: str) -> dict:
    """What a stage (sampling, adapter, full) of a model needs of GPUs; count 0 for a model that a CPU runs."""
    return config["models"][model].get("gpus", {}).get(stage, {"count": 0})


def training_gpus(config: dict, run: Run) -> dict:
    return gpus(config, run.model, "adapter" if config["recipes"][run.recipe].get("adapter") else "full")


def specification(config: dict, run: Run) -> dict:
    """The content of a run's `spec.yaml`."""
    task = config["tasks"][run.task]
    return {
        "model": run.model,
        "task": run.task,
        "policy": run.policy,
        "recipe": run.recipe,
        "seed": run.seed,
        "model_folder": f"results/models/{run.model}",
        "problems": f"results/tasks/{run.task}/train.jsonl",
        "subset": f"results/subsets/{run.model}/{run.task}/{run.policy}/seed{run.seed}.csv",
        "prompt": task["prompt"],
        "chat": chat(config, run.model),
        "grader": task["grader"],
        "completion_tokens": task["completion_tokens"],
        "training": {"adapter": None} | config["recipes"][run.recipe],
    }


def described(config: dict, study: str) -> dict:
    """The design of a study in numbers, for its text: what the configuration says, not what a run gave."""
    plan = config["studies"][study]
    recipe = config["recipes"].get(plan.get("recipes", [""])[0], {})
    first = config["tasks"][plan["tasks"][0]]
    budgets = {config["policies"][policy].get("budget") for policy in plan["policies"]} - {None}
    return {
        "study": study,
        "title": plan["title"],
        "models": plan["models"],
        "tasks": plan["tasks"],
        "cut_from": {task: config["tasks"][task]["cut_from"] for task in plan["tasks"] if "cut_from" in config["tasks"][task]},
        "pretrained": any(config["models"][model]["source"]["kind"] == "pretrain" for model in plan["models"]),
        "held_constant": plan.get("held_constant", []),
        "weaker_signal": plan.get("weaker_signal", []),
        "graders": sorted({config["tasks"][task]["grader"] for task in plan["tasks"]}),
        "policies": plan["policies"],
        "seeds": len(plan["seeds"]),
        "budget": min(budgets, default=None),
        "probe_samples": first["probe"]["samples"],
        "probes": {  # completions a prompt, where they are not recorded
            task: config["tasks"][task]["probe"]["samples"] for model, task in pairs(config, plan) if not is_recorded(config, model)
        },
        "test_samples": first["test"]["samples"],
        "completion_tokens": {task: config["tasks"][task]["completion_tokens"] for task in plan["tasks"]},
        "recipe": recipe,
    }


def check_writable(*folders: str) -> None:
    """Results that cannot be written are told before the first job, not after the first hour."""
    for folder in folders:
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise UserError(f"{path}: expected a folder for results, found a file; move it away")
        place = path if path.exists() else Path(".")
        if not os.access(place, os.W_OK):
            raise UserError(f"{path.absolute()}: cannot be written; clone the repository to a folder that you may write to")


def sorted_slice(value):
    """A copy with all mappings in sorted order: rule parameters compare as text, and order must not matter."""
    if isinstance(value, dict):
        return {key: sorted_slice(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sorted_slice(item) for item in value]
    return value
