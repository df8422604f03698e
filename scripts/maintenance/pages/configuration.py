"""The reference of docs/configuration.md, from the classes of src/hardgrpo/study/, the configured
values and the rules of policies."""

from hardgrpo.selection import policies
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.strict import Strict

import re
from collections.abc import Iterator

# {definition of the schema: heading of its section}, in the order of the page
SECTIONS = {
    "Task": "A task: `tasks.NAME`",
    "Generated": "Problems that are generated: `tasks.NAME.source`",
    "Files": "Problems from files: `tasks.NAME.source`",
    "HubDataset": "Problems from the hub: `tasks.NAME.source`",
    "RecordedProblems": "Problems of a recording: `tasks.NAME.source`",
    "Columns": "Columns: `tasks.NAME.source.columns`",
    "Part": "Parts of a split: an entry of `tasks.NAME.source.train` or `.test`",
    "Model": "A model: `models.NAME`",
    "TrainingGpus": "GPUs for training: `models.NAME.gpus.adapter` and `.full`",
    "Pretrained": "Weights that are pretrained here: `models.NAME.source`",
    "HubModel": "Weights from the hub: `models.NAME.source`",
    "ModelFolder": "Weights from a folder: `models.NAME.source`",
    "ModelPackage": "Weights from a Python package: `models.NAME.source`",
    "Server": "A model behind a server: `models.NAME.source`",
    "Recorded": "Recorded completions: `models.NAME.source`",
    "Trajectory": "A recorded training run: `models.NAME.source`",
    "Policy": "A policy: `policies.NAME`",
    "Recipe": "A recipe: `recipes.NAME`",
    "DynamicSelector": "Dynamic sampling: `recipes.NAME.selector`",
    "SkipSelector": "Skipped prompts: `recipes.NAME.selector`",
    "BetaSelector": "A Beta posterior: `recipes.NAME.selector`",
    "TargetedSelector": "Predicted pass rates and replay: `recipes.NAME.selector`",
    "CurriculumSelector": "A curriculum: `recipes.NAME.selector`",
    "Study": "A study: `studies.NAME`",
    "Analysis": "An analysis of published numbers: `analyses.NAME`",
    "Claim": "Claims: an entry of `analyses.NAME.claims`",
    "Original": "Published files: `analyses.NAME.source`",
}

LABELS = {"pool": "of the whole pool", "sample": "of a small sample (simulated)", "none": "none"}


def schema() -> dict:
    """The JSON schema of the configuration."""
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
    """The direct and indirect subclasses of a class."""
    return [
        name for subclass in base.__subclasses__() for name in (subclass, *_subclasses(subclass))
    ]


def _plain(entry: dict, is_nullable: bool) -> dict:
    """The schema of a key, without pydantic's titles and defaults, without line breaks in the
    description, and without the type null of an optional key."""
    plain = {key: value for key, value in entry.items() if key not in ("title", "default")}
    if "anyOf" in plain and not is_nullable:
        options = [option for option in plain.pop("anyOf") if option != {"type": "null"}]
        plain = (options[0] if len(options) == 1 else {"anyOf": options}) | plain
    if "description" in plain:
        plain["description"] = " ".join(plain["description"].split())
    return plain


def reference(config: dict) -> str:
    """A table of the top level with the values of `config`, and a table for each section."""
    json_schema = schema()
    lines = ["## Top level", "", "| key | value | configured | what |", "|---|---|---|---|"]
    for key, part, _ in keys(json_schema, json_schema):
        setting = config
        for step in key.split("."):
            setting = setting.get(step)
        printed = (
            ""
            if setting is None
            else f"{len(setting)} entries"
            if isinstance(setting, dict)
            else f"`{str(setting).lower() if setting in (True, False) else setting}`"
        )
        lines.append(
            f"| `{key}` | {value(part, json_schema)} | {printed} | {described(part, json_schema)} |"
        )
    for name, title in SECTIONS.items():
        part = json_schema["$defs"][name]
        lines += [
            "",
            f"## {title}",
            "",
            part.get("description", ""),
            "",
            "| key | needed | value | what |",
            "|---|---|---|---|",
        ]
        for key, key_schema, requirement in keys(part, json_schema):
            lines.append(
                f"| `{key}` | {requirement} | {value(key_schema, json_schema)} | {described(key_schema, json_schema)} |"
            )
        if name == "Policy":
            lines += ["", *rules()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def rules() -> list[str]:
    """A table of the rules of policies: the prompts that each rule takes, the keys that it needs,
    and the labels that it needs before the choice."""
    lines = [
        "### What a rule takes",
        "",
        "Ties are broken by the seed unless a rule says otherwise. *Labels before*: the labels that must be known before the choice."
        " Training also needs the labels of the chosen prompts, unless the reward is `finished` or `majority`.",
        "",
        "| rule | takes | needs | labels before |",
        "|---|---|---|---|",
    ]
    for name, rule in policies.RULES.items():
        required = ", ".join(f"`{key}`" for key in sorted(rule.needs))
        lines.append(f"| `{name}` | {rule.description} | {required} | {labels(name)} |")
    return lines


def labels(rule: str) -> str:
    """The labels that a rule needs before it chooses, for each measure that it accepts as `by`."""
    if "by" not in policies.RULES[rule].accepts:
        return LABELS[policies.labels_before({"rule": rule})]
    measures_by_need: dict[str, list[str]] = {}
    for measure in policies.SHARES if rule == "nearest_half" else policies.MEASURES:
        measures_by_need.setdefault(
            policies.labels_before({"rule": rule, "by": measure}), []
        ).append(f"`{measure}`")
    return "; ".join(
        f"by {', '.join(measures)}: {LABELS[need]}" for need, measures in measures_by_need.items()
    )


def keys(
    part: dict, json_schema: dict, place: str = "", optional_key: str = ""
) -> Iterator[tuple[str, dict, str]]:
    """(path, schema, requirement in words) of the keys of an object and of its nested objects.
    `place` is the prefix of the paths. `optional_key` is the optional key that contains the object:
    the object's required keys are required only with this key."""
    for name, key_schema in part["properties"].items():
        path, required = f"{place}{name}", name in part.get("required", [])
        objects = nested(key_schema, path, json_schema)
        # a required object without a section has no line, because its keys have lines
        if not (required and [link for link, _ in objects] == [f"{path}."]):
            yield (
                path,
                key_schema,
                ("yes" if not optional_key else f"with `{optional_key}`") if required else "",
            )
        for link, inner in objects:
            yield from keys(inner, json_schema, link, optional_key if required else path)


def nested(part: dict, path: str, json_schema: dict) -> list[tuple[str, dict]]:
    """(prefix of keys, schema) of the objects below a key, except objects with their own section.
    The prefix is `path.`, `path.NAME.` or `path[].`."""
    if "$ref" in part:
        name = part["$ref"].rsplit("/", 1)[1]
        return [] if name in SECTIONS else [(f"{path}.", json_schema["$defs"][name])]
    entries = [part.get("additionalProperties"), *part.get("patternProperties", {}).values()]
    choices = [(f"{path}.NAME", entry) for entry in entries] + [(f"{path}[]", part.get("items"))]
    choices += [(path, schema) for schema in [*part.get("anyOf", []), *part.get("oneOf", [])]]
    return [
        pair
        for link, schema in choices
        if isinstance(schema, dict)
        for pair in nested(schema, link, json_schema)
    ]


def described(part: dict, json_schema: dict) -> str:
    return (part.get("description") or resolve(part, json_schema).get("description", "")).replace(
        "|", "\\|"
    )


def resolve(part: dict, json_schema: dict) -> dict:
    return json_schema["$defs"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part


def value(part: dict, json_schema: dict) -> str:
    """The values that a key may have, in words."""
    if "$ref" in part and (name := part["$ref"].rsplit("/", 1)[1]) in SECTIONS:
        words = re.sub("(?<!^)([A-Z])", r" \1", name).lower()
        # the value that key `kind` must have, if the class has this key
        kind = json_schema["$defs"][name].get("properties", {}).get("kind", {}).get("const", words)
        return f"[{kind}](#{anchor(SECTIONS[name])})"
    part = resolve(part, json_schema)
    if "enum" in part:
        return ", ".join(f"`{option}`" for option in part["enum"])
    if "const" in part:
        return f"`{part['const']}`"
    if options := [*part.get("oneOf", []), *part.get("anyOf", [])]:
        return " or ".join(dict.fromkeys(value(option, json_schema) for option in options))
    if part.get("type") == "array":
        return f"list of {value(part['items'], json_schema)}"
    if part.get("type") == "object":
        inner = next(
            iter(part.get("patternProperties", {}).values()), part.get("additionalProperties")
        )
        return (
            f"by name: {value(inner, json_schema)}"
            if isinstance(inner, dict) and "$ref" in inner
            else "keys and values"
        )
    return {
        "integer": "whole number",
        "number": "number",
        "boolean": "`true`, `false`",
        "null": "`null`",
    }.get(part["type"], "text") + limits(part)


def limits(part: dict) -> str:
    """The range of a number, such as ' from 0 to 1' or ' above 0'; '' without limits."""
    words = {
        "minimum": "from",
        "exclusiveMinimum": "above",
        "maximum": "to",
        "exclusiveMaximum": "below",
    }
    return "".join(f" {word} {part[name]}" for name, word in words.items() if name in part)


def anchor(title: str) -> str:
    """GitHub's link to a heading."""
    letters = "".join(
        character for character in title.lower() if character.isalnum() or character in " -_"
    )
    return letters.replace(" ", "-")
