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
    for part in find(path):
        lines += [describe(path, part)] if path else []
        kinds = list(objects(part))
        for kind in kinds:
            lines += ["", kind["description"]] if len(kinds) > 1 and "description" in kind else []
            for key, child in kind["properties"].items():
                lines.append(describe(f"  {key}", child, key in kind.get("required", [])))
    return "\n".join(lines)


def find(path: str) -> list[dict]:
    """The schemas at `path`: several if an object on the way can have several kinds."""
    parts, place = [schema()], ""
    for key in path.split(".") if path else []:
        choices = [option for part in parts for option in options(part)]
        children = [option["properties"][key] for option in choices if key in option.get("properties", ())]  # fmt: skip
        if not (parts := children + [entry for option in choices for entry in entries(option)]):
            known_keys = [name for option in choices for name in option.get("properties", ())]
            similar = difflib.get_close_matches(key, known_keys, n=1)
            hint = (
                f"did you mean '{similar[0]}'?"
                if similar
                else f"known keys: {', '.join(known_keys)}"
            )
            raise UserError(f"{place or 'top level'}: there is no key '{key}'; {hint}")
        place = f"{place}.{key}".removeprefix(".")
    return parts


def objects(part: dict) -> Iterator[dict]:
    """The objects that a part of the schema describes, also as entries of a mapping from names."""
    for option in options(part):
        yield from [option] if "properties" in option else []
        for entry in entries(option):
            yield from objects(entry)


def options(part: dict) -> list[dict]:
    """The alternatives of a part of the schema; for a list, those of its items."""
    if "$ref" in part:
        return options(schema()["$defs"][part["$ref"].rsplit("/", 1)[1]])
    choices = [*part.get("anyOf", []), *part.get("oneOf", []), *filter(None, [part.get("items")])]
    return [option for choice in choices for option in options(choice)] or [part]


def entries(option: dict) -> list[dict]:
    """The schemas of the entries of a mapping from names."""
    schemas = [*option.get("patternProperties", {}).values(), option.get("additionalProperties")]
    return [entry for entry in schemas if isinstance(entry, dict)]


def describe(name: str, part: dict, is_required: bool = False) -> str:
    """A line with a key and its values, and the indented description."""
    forms = []
    for alternative in part.get("anyOf") or part.get("oneOf") or [part]:
        prefix = "list of " if "items" in alternative else ""
        forms += [prefix + values(option) for option in options(alternative)]
    choices, suffix = " or ".join(dict.fromkeys(forms)), " (required)" if is_required else ""
    text = part.get("description") or options(part)[0].get("description", "")
    return "\n    ".join([f"{name}: {choices}{suffix}", *textwrap.wrap(text, 90)])


def values(option: dict) -> str:
    if "enum" in option or "const" in option:
        return ", ".join(map(str, option.get("enum", [option.get("const")])))
    if option["type"] == "object":
        return "entries by name" if entries(option) else "keys and values"
    limits = [f"{word} {option[key]}" for key, word in LIMITS.items() if key in option]
    return " ".join([TYPES.get(option["type"], option["type"]), *limits])
