"""The class of the whole configuration, and messages about all values that the classes refuse."""

import difflib
import functools
import math
import re
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, ValidationError

from hardgrpo.runtime.errors import UserError
from hardgrpo.runtime.gpu_kinds import GPUS
from hardgrpo.study.model import Model
from hardgrpo.study.policy import Policy
from hardgrpo.study.published_analysis import Analysis
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.sections import Sections
from hardgrpo.study.strict import Count, Name, Strict
from hardgrpo.study.study import Study
from hardgrpo.study.task import Task

LARGEST_NUMBER = 10**18  # the largest integer that is accepted


class ChosenSubset(Strict):
    """The subset that `.venv/bin/snakemake subset` chooses."""

    model: str
    """The base model whose completions decide the subset: a name in `models`."""

    task: str
    """A name in `tasks`. Its train split is the pool."""

    policy: str
    """A name in `policies`."""

    seed: Annotated[int, Field(ge=0)]
    """Random seed, which breaks ties between equal pass rates and determines random choices. If the model's source has
    `seed: own`, also the seed of the base model."""

    format: Literal["trl", "verl", "prime-rl"] | None = None
    """Also write the chosen prompts in the format that this trainer reads. The prompts need answers. For a task
    without labels, set the task's key `annotated` to the file of answers, and `policy` to `annotated`."""


class Plan(Strict):
    """The machine and the price that `.venv/bin/snakemake plan` assumes. The workflow also uses
    `gpu` to estimate walltimes on a cluster, and to refuse runs that need more memory."""

    gpu: Literal[*GPUS]
    """Kind of GPU. Its speed and memory are listed in src/hardgrpo/runtime/gpu_kinds.py. On a cluster, a gpu_name,
    gpu_constraint or gpu_partition of slurm/config.yaml that contains one of these kinds replaces this value."""

    gpus: Count
    """Number of GPUs that you can use at the same time."""

    price: Annotated[float, Field(ge=0)]
    """Price of a GPU-hour, in any currency."""


class Configuration(Strict, Sections):
    """The keys of config.yaml. All other keys are refused."""

    study: str
    """The study to run and draw: a name in `studies` or `analyses`."""

    data: str
    """Folder of local input files. Paths of sources, and of recordings without `repository`, are
    relative to this folder."""

    subset: ChosenSubset

    draw: Literal["computed", "reference"]
    """The summaries from which figures, tables and supplements are made. computed: summaries of runs
    of this clone (results/summaries). reference: committed summaries (results/reference); then no study is run."""

    track: Literal["none", "tensorboard", "trackio", "wandb"]
    """The tracker to which training curves are sent. updates.csv has the training curves in any case."""

    keep_checkpoints: Literal["all", "last"]
    """The checkpoints of a run that keep their weights: all, or last. With last, the workflow removes the weights of
    earlier checkpoints once every study of the configuration has evaluated the run. To test a removed checkpoint
    later, train the run again."""

    update_inputs: bool
    """What to do if a download differs from its entry in inputs.lock. true: replace the entry. false: stop and name the
    difference."""

    plan: Plan

    tasks: dict[Name, Task]
    """A task is a dataset with the conditions under which a model answers it. One dataset under two conditions is two
    tasks."""

    models: dict[Name, Model]
    """A model is a source of weights, a model behind a server, or a recording: completions, or numbers of right answers
    during training."""

    policies: dict[Name, Policy]
    """A selection policy chooses which prompts of the pool to train on, with most rules by the base model's completions."""

    recipes: dict[Name, Recipe]
    """A recipe says how a model is trained: by GRPO, or on worked solutions. A recipe has no settings of data."""

    studies: dict[Name, Study]
    """A study is a named set of runs with its figures and tables."""

    analyses: dict[Name, Analysis] | None = None
    """An analysis of published numbers of right answers: a study without arms, which samples and trains nothing."""

    @property
    def all_studies(self) -> dict[str, Study | Analysis]:
        return self.studies | (self.analyses or {})

    def contradictions(self) -> Iterator[tuple[str, str]]:
        for name in sorted(set(self.studies) & set(self.analyses or {})):
            yield f"analyses.{name}", "a study has the same name; give the analysis another name"


@functools.cache
def schema() -> dict:
    """The JSON schema of the configuration, which callers must not change."""
    json_schema = Configuration.model_json_schema()
    for subclass in _subclasses(Strict):
        part = (
            json_schema
            if subclass is Configuration
            else json_schema["$defs"].get(subclass.__name__, {})
        )
        for name, entry in part.get("properties", {}).items():
            part["properties"][name] = _plain(entry, name in subclass.nullable)
        if "description" in part:
            part["description"] = " ".join(part["description"].split())
    return json_schema


def _subclasses(base: type[Strict]) -> list[type[Strict]]:
    return [
        name for subclass in base.__subclasses__() for name in (subclass, *_subclasses(subclass))
    ]


def _plain(entry: dict, is_nullable: bool) -> dict:
    """The schema of a key without titles, defaults, line breaks and the type null of an optional
    key."""
    plain = {key: value for key, value in entry.items() if key not in ("title", "default")}
    if "anyOf" in plain and not is_nullable:
        options = [option for option in plain.pop("anyOf") if option != {"type": "null"}]
        plain = (options[0] if len(options) == 1 else {"anyOf": options}) | plain
    if "description" in plain:
        plain["description"] = " ".join(plain["description"].split())
    return plain


def make(config: dict) -> tuple[Configuration | None, list[tuple[str, str]]]:
    """(the configuration, or None if a value has a wrong type; the mistakes, which are
    contradictions between values if all types are right)"""
    if unusable := [(place, f"{problem}; correct it") for place, problem in _unusable(config)]:
        return None, unusable
    try:
        return Configuration.model_validate(config), []
    except ValidationError as error:
        details = error.errors(include_url=False)
        is_well_typed = all(detail["type"] == "contradiction" for detail in details)
        made = Configuration.of(config) if is_well_typed else None
        return made, _explain(config, error)


def _unusable(value, *place: str) -> Iterator[tuple[str, str]]:
    """Values that no class refuses, but that programs cannot receive as JSON."""
    if isinstance(value, dict | list):
        for name, entry in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(value, dict) and not isinstance(name, str):
                yield (
                    ".".join(place) or "top level",
                    f"the key {name!r} is not text; write it in quotes",
                )
            yield from _unusable(name, *place)
            yield from _unusable(entry, *place, str(name))
    elif isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        yield ".".join(place), "a number of more than 18 digits"
    elif isinstance(value, float) and not math.isfinite(value):
        yield ".".join(place), f"{value} is not a finite number"
    elif isinstance(value, str) and re.search("[\0\ud800-\udfff]", value):
        yield ".".join(place), f"{value!r} contains a character that files and programs refuse"
    elif not isinstance(value, str | int | float | None):  # YAML has dates, sets and binary data
        problem = f"YAML reads {value} as a {type(value).__name__}; expected text, a number, a list or a mapping: write text in quotes"
        yield ".".join(place), problem


def check_policy(entry: dict, option: str) -> None:
    """Raise a `UserError` if a policy, which a program receives by `option`, has wrong values."""
    try:
        Policy(**entry)
    except ValidationError as error:
        place_and_problem = _explain(entry, error)[0]
        raise UserError(": ".join(filter(None, (option, *place_and_problem)))) from None


class Location(NamedTuple):
    """The place of a pydantic error, whose `loc` mixes keys of the configuration with names of
    types and of tagged classes."""

    keys: tuple
    """Keys of the configuration on the way to the error."""

    union: tuple
    """The path of the outermost value that may have several types. Without such a value: `keys`;
    for an error about a missing key, `keys` and the missing key."""

    type_name: str
    """The type whose check gave the error, among the types that the value at `union` may have; empty
    if no value on the path may have several types."""


def _explain(config: dict, error: ValidationError) -> list[tuple[str, str]]:
    """The mistake of each error. For a value that may have several types, errors of the closest
    type."""
    errors_of_value: dict[tuple, dict[str, list[tuple[Location, dict]]]] = {}
    for detail in error.errors(include_url=False):
        location = _locate(config, detail)
        errors_of_value.setdefault(location.union, {}).setdefault(location.type_name, []).append(
            (location, detail)
        )
    problems = []
    for errors_of_type in errors_of_value.values():
        closest = min(
            errors_of_type.values(), key=lambda errors: (_is_of_another_type(errors), len(errors))
        )
        if len(errors_of_type) > 1:  # further errors may follow from a wrong guess of the type
            closest = sorted(closest, key=lambda error: error[1]["type"] != "extra_forbidden")[:1]
        for location, detail in closest:
            if detail["type"] in ("contradiction", "null"):
                problems += [
                    (_dotted((*location.keys, *filter(None, [key]))), problem)
                    for key, problem in detail["ctx"]["problems"]
                ]
            else:
                problems.append(_sentence(location.keys, detail))
    return list(dict.fromkeys(problems))


def _is_of_another_type(errors: list[tuple[Location, dict]]) -> bool:
    """Whether the type refuses the value as a whole, such as a mapping for a number."""
    return any(
        location.keys == location.union and detail["type"].endswith(("_type", "_error"))
        for location, detail in errors
    )


def _locate(config: object, detail: dict) -> Location:
    loc = detail["loc"][:-1] if detail["type"] == "missing" else detail["loc"]
    node, keys, union, type_name = config, [], None, ""
    # For an object with a `kind`, pydantic inserts the kind into `loc` after the object's key. The
    # object may also contain a key with the same name as its kind, so only the first such part is
    # taken as the kind.
    may_be_kind = True
    for part in loc:
        if may_be_kind and isinstance(node, dict) and node.get("kind") == part:
            may_be_kind = False
        elif _has(node, part):
            keys.append(part)
            node, may_be_kind = node[part], True
        elif union is None and part != "[key]":
            union, type_name = tuple(keys), str(part)
    return Location(
        tuple(keys), (*keys, *detail["loc"][len(loc) :]) if union is None else union, type_name
    )


def _has(node: object, part: str | int) -> bool:
    if isinstance(node, list):
        return isinstance(part, int) and part < len(node)
    return isinstance(node, dict) and part in node


def _sentence(keys: tuple, detail: dict) -> tuple[str, str]:
    kind, place = detail["type"], _dotted(keys)
    if kind == "extra_forbidden":
        other_keys = _known_keys() - {keys[-1]}
        similar = difflib.get_close_matches(str(keys[-1]), sorted(other_keys), n=1)
        hint = f"did you mean '{similar[0]}'?" if similar else "remove it"
        return _dotted(keys[:-1]), f"unknown key '{keys[-1]}'; {hint}"
    if kind == "missing":
        return place, f"'{detail['loc'][-1]}' is missing; add it"
    if kind == "union_tag_not_found":
        return place, "'kind' is missing; add it"
    if kind == "union_tag_invalid":
        tags = detail["ctx"]["expected_tags"].replace("'", "")
        problem = f"'{detail['ctx']['tag']}' is not one of {tags}; correct it"
        return _dotted((*keys, "kind")), problem
    if detail["loc"][-1] == "[key]":
        problem = "is used as a folder's name; expected a name of letters, digits, _ . -, which begins with a letter or digit"
        return place, f"{detail['input']!r} {problem}"
    message = re.sub("^(Input|String|List|Dictionary) should", "should", detail["msg"])
    # keys and addresses may contain secrets
    value = "the value" if keys[-1] in ("key", "url") else repr(detail["input"])
    path = ".".join(key for key in keys if isinstance(key, str))
    return place, f"{value} {message}; `hardgrpo keys {path}` explains the key"


@functools.cache
def _known_keys() -> set[str]:
    classes = [Strict]
    for part in classes:
        classes += part.__subclasses__()
    return {field.alias or key for part in classes for key, field in part.model_fields.items()}


def _dotted(keys: tuple) -> str:
    return ".".join(map(str, keys)) or "top level"
