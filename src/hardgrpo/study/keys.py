"""`hardgrpo keys`: explain keys of the configuration."""

import difflib
import textwrap
from collections.abc import Iterator

from hardgrpo.runtime.errors import UserError
from hardgrpo.study.configuration import schema

LIMITS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to"}
LIMITS["exclusiveMaximum"] = "below"
TYPES = {"integer": "whole number", "boolean": "true or false", "string": "text"}


def add_command(commands) -> None:
    keys = commands.add_parser("keys", help="explain a key of the workflow's configuration")
    keys.set_defaults(run=lambda args: print(explain(args.key)))
    example = "for example recipes.NAME.beta; without it, the keys of the top level are explained"
    keys.add_argument("key", nargs="?", default="", help=example)


def explain(path: str) -> str:
    """The values and the description of the key at `path`, and of the keys below it."""
    lines = []
    for value in values_at(path):
        lines += [describe(path, value)] if path else []
        objects = list(objects_in(value))
        for entry in objects:
            has_heading = len(objects) > 1 and "description" in entry
            lines += ["", entry["description"]] if has_heading else []
            for key, child in entry["properties"].items():
                lines.append(describe(f"  {key}", child, key in entry.get("required", [])))
    return "\n".join(lines)


def values_at(path: str) -> list[dict]:
    """The schemas of the value at `path`: several if an object on the way has alternatives."""
    values, place = [schema()], ""
    for key in path.split(".") if path else []:
        types = [alternative for value in values for alternative in alternatives(value)]
        values_of_key = {name: [] for entry in types for name in entry.get("properties", ())}
        for entry in types:
            for name, value in entry.get("properties", {}).items():
                values_of_key[name].append(value)
        values = values_of_key.get(key, []) + [
            named for entry in types for named in named_entries(entry)
        ]
        if not values:
            similar = difflib.get_close_matches(key, values_of_key, n=1)
            known_keys = f"known keys: {', '.join(values_of_key)}"
            hint = f"did you mean '{similar[0]}'?" if similar else known_keys
            raise UserError(f"{place or 'top level'}: there is no key '{key}'; {hint}")
        place = f"{place}.{key}".removeprefix(".")
    return values


def objects_in(value: dict) -> Iterator[dict]:
    """The objects with keys that a value may be, also as entries of a mapping from names."""
    for alternative in alternatives(value):
        yield from [alternative] if "properties" in alternative else []
        for entry in named_entries(alternative):
            yield from objects_in(entry)


def alternatives(value: dict) -> list[dict]:
    """The types that a value may have; for a list, those of its items."""
    if "$ref" in value:
        return alternatives(schema()["$defs"][value["$ref"].rsplit("/", 1)[1]])
    types = [*value.get("anyOf", []), *value.get("oneOf", []), *filter(None, [value.get("items")])]
    return [entry for alternative in types for entry in alternatives(alternative)] or [value]


def named_entries(value: dict) -> list[dict]:
    """The schemas of the entries of a mapping from names."""
    schemas = [*value.get("patternProperties", {}).values(), value.get("additionalProperties")]
    return [entry for entry in schemas if isinstance(entry, dict)]


def describe(key: str, value: dict, is_required: bool = False) -> str:
    """A line with a key and its values, and the indented description."""
    types = []
    for alternative in value.get("anyOf") or value.get("oneOf") or [value]:
        prefix = "list of " if "items" in alternative else ""
        types += [prefix + describe_type(entry) for entry in alternatives(alternative)]
    listed, suffix = " or ".join(dict.fromkeys(types)), " (required)" if is_required else ""
    text = value.get("description") or alternatives(value)[0].get("description", "")
    return "\n    ".join([f"{key}: {listed}{suffix}", *textwrap.wrap(text, 90)])


def describe_type(value: dict) -> str:
    if "enum" in value or "const" in value:
        return ", ".join(map(str, value.get("enum", [value.get("const")])))
    if value["type"] == "object":
        return "entries by name" if named_entries(value) else "keys and values"
    limits = [f"{word} {value[key]}" for key, word in LIMITS.items() if key in value]
    return " ".join([TYPES.get(value["type"], value["type"]), *limits])
