"""The reference of docs/configuration.md, from the classes of src/hardgrpo/study/, the values in config.yaml and the rules of policies."""

from hardgrpo.selection import policies
from hardgrpo.study import configuration

import re
from collections.abc import Iterator

# The definitions that get a section of their own, in the order of the page.
SECTIONS = {
    "Task": "A task: `tasks.NAME`",
    "Generated": "Problems that are generated: `tasks.NAME.source`",
    "Files": "Problems from files: `tasks.NAME.source`",
    "HubDataset": "Problems from the hub: `tasks.NAME.source`",
    "Columns": "Columns: `tasks.NAME.source.columns`",
    "Part": "Parts of a split: an entry of `tasks.NAME.source.train` or `.test`",
    "Model": "A model: `models.NAME`",
    "TrainingGpus": "GPUs for training: `models.NAME.gpus.adapter` and `.full`",
    "Pretrained": "Weights that are pretrained here: `models.NAME.source`",
    "HubModel": "Weights from the hub: `models.NAME.source`",
    "ModelFolder": "Weights from a folder: `models.NAME.source`",
    "ModelPackage": "Weights from a Python package: `models.NAME.source`",
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
}

LABELS = {"pool": "of the json_schema pool", "sample": "of a small sample", "none": "none"}


def reference(config: dict) -> str:
    """A table of the top level with the values of config.yaml, and one for each section."""
    json_schema = configuration.schema()
    lines = ["## Top level", "", "| key | value | in config.yaml | what |", "|---|---|---|---|"]
    for key, part, _ in keys(json_schema, json_schema):
        here = config
        for step in key.split("."):
            here = here[step]
        shown = (
            ", ".join(f"`{name}`" for name in here)
            if isinstance(here, dict)
            else f"`{str(here).lower() if here in (True, False) else here}`"
        )
        lines.append(f"| `{key}` | {value(part, json_schema)} | {shown} | {described(part, json_schema)} |")
    for name, title in SECTIONS.items():
        part = json_schema["$defs"][name]
        lines += ["", f"## {title}", "", part.get("description", ""), "", "| key | needed | value | what |", "|---|---|---|---|"]
        for key, one, needed in keys(part, json_schema):
            lines.append(f"| `{key}` | {needed} | {value(one, json_schema)} | {described(one, json_schema)} |")
        if name == "Policy":
            lines += ["", *rules()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def rules() -> list[str]:
    """A table of the rules of policies: what each takes, by which keys, and whose labels it needs before it chooses."""
    lines = [
        "### What a rule takes",
        "",
        "Ties are broken by the seed unless a rule says otherwise. *Labels before* are those that must be known before the choice; the"
        " chosen prompts need theirs to be trained on.",
        "",
        "| rule | takes | needs | labels before |",
        "|---|---|---|---|",
    ]
    for name, rule in policies.RULES.items():
        needed = ", ".join(f"`{key}`" for key in sorted(rule.needs))
        lines.append(f"| `{name}` | {rule.description} | {needed} | {labels(name)} |")
    return lines


def labels(rule: str) -> str:
    """Whose labels a rule needs before it chooses, by the measures that it may go by."""
    if not policies.RULES[rule].accepts_by:
        return LABELS[policies.labels_before({"rule": rule})]
    found: dict[str, list[str]] = {}
    for measure in policies.SHARES if rule == "nearest_half" else policies.MEASURES:
        found.setdefault(policies.labels_before({"rule": rule, "by": measure}), []).append(f"`{measure}`")
    return "; ".join(f"by {', '.join(measures)}: {LABELS[needed]}" for needed, measures in found.items())


def keys(part: dict, json_schema: dict, place: str = "", inside: str = "") -> Iterator[tuple[str, dict, str]]:
    """The keys of an object and of the objects inside it: path, schema, and in words whether the key is needed.

    `inside` is the optional key around them: an inner key is needed only together with it.
    """
    for name, one in part["properties"].items():
        path, required = f"{place}{name}", name in part.get("required", [])
        objects = nested(one, path, json_schema)
        if not (required and [link for link, _ in objects] == [f"{path}."]):  # a needed object is described by its keys
            yield path, one, ("yes" if not inside else f"with `{inside}`") if required else ""
        for link, inner in objects:
            yield from keys(inner, json_schema, link, inside if required else path)


def nested(part: dict, path: str, json_schema: dict) -> list[tuple[str, dict]]:
    """The objects inside a key that have no section of their own, each with what leads to its keys (`path.`, `path.NAME.` or `path[].`)."""
    if "$ref" in part:
        name = part["$ref"].rsplit("/", 1)[1]
        return [] if name in SECTIONS else [(f"{path}.", json_schema["$defs"][name])]
    entries = [part.get("additionalProperties"), *part.get("patternProperties", {}).values()]
    choices = [(f"{path}.NAME", entry) for entry in entries] + [(f"{path}[]", part.get("items"))]
    choices += [(path, one) for one in [*part.get("anyOf", []), *part.get("oneOf", [])]]
    return [found for link, one in choices if isinstance(one, dict) for found in nested(one, link, json_schema)]


def described(part: dict, json_schema: dict) -> str:
    return (part.get("description") or resolved(part, json_schema).get("description", "")).replace("|", "\\|")


def resolved(part: dict, json_schema: dict) -> dict:
    return json_schema["$defs"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part


def value(part: dict, json_schema: dict) -> str:
    """The values that a key may have, in words."""
    if "$ref" in part and (name := part["$ref"].rsplit("/", 1)[1]) in SECTIONS:
        kind = (
            json_schema["$defs"][name]
            .get("properties", {})
            .get("kind", {})
            .get("const", re.sub("(?<!^)([A-Z])", r" \1", name).lower())
        )  # as it is written in config.yaml
        return f"[{kind}](#{anchor(SECTIONS[name])})"
    part = resolved(part, json_schema)
    if "enum" in part:
        return ", ".join(f"`{one}`" for one in part["enum"])
    if "const" in part:
        return f"`{part['const']}`"
    if options := [*part.get("oneOf", []), *part.get("anyOf", [])]:
        return " or ".join(dict.fromkeys(value(one, json_schema) for one in options))
    if part.get("type") == "array":
        return f"list of {value(part['items'], json_schema)}"
    if part.get("type") == "object":
        inner = next(iter(part.get("patternProperties", {}).values()), part.get("additionalProperties"))
        return f"by name: {value(inner, json_schema)}" if isinstance(inner, dict) and "$ref" in inner else "keys and values"
    return {"integer": "whole number", "number": "number", "boolean": "`true`, `false`", "null": "`null`"}.get(
        part["type"], "text"
    ) + limits(part)


def limits(part: dict) -> str:
    """The range of a number: ' from 0 to 1', ' above 0', ' above 0 below 1', or nothing."""
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
    return "".join(f" {word} {part[name]}" for name, word in words.items() if name in part)


def anchor(title: str) -> str:
    """GitHub's link to a heading."""
    kept = "".join(one for one in title.lower() if one.isalnum() or one in " -_")
    return kept.replace(" ", "-")
