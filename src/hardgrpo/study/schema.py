"""Validate config.yaml against its schema, and explain the first violation in one sentence."""

import difflib
import math
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import yaml

LARGEST_NUMBER = 10**18  # of integers in the configuration
RULES = Path(__file__).parents[3] / "rules"


def read() -> dict:
    """The schema: its top level, with the definitions of both files."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C where PyYAML has it
    texts = ((RULES / f"{name}.schema.yaml").read_text(encoding="utf-8") for name in ("config", "models"))
    whole, models = (loader(text).get_single_data() for text in texts)
    return whole | {"$defs": whole["$defs"] | models["$defs"]}


def violation(config: dict) -> str | None:
    """The first violation of the schema, as a sentence; None if the configuration is valid."""
    for place, problem in _unusable(config):
        return f"{place}: {problem}; correct it"
    schema = read()
    # JSON Schema accepts 30.0 as an integer; the programs' arguments do not.
    strict = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    kept = {"pattern": _pattern}
    validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, kept, type_checker=strict)(schema)
    error = min(validator.iter_errors(config), key=lambda e: [str(p) for p in e.absolute_path], default=None)
    return None if error is None else _explain(error, schema)


def _unusable(value, *place: str) -> Iterator[tuple[str, str]]:
    """(place, what is wrong) of values that a schema cannot refuse: infinite and huge numbers, NaN, characters that no program takes, and what
    JSON does not have, because programs receive such values as JSON."""
    if isinstance(value, dict | list):
        for name, entry in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(value, dict) and not isinstance(name, str):
                yield ".".join(place) or "top level", f"the key {name!r} is no text; write it in quotes"
            yield from _unusable(name, *place)
            yield from _unusable(entry, *place, str(name))
    elif isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        yield ".".join(place), "a number of more than 18 digits"
    elif isinstance(value, float) and not math.isfinite(value):
        yield ".".join(place), f"{value} is no number"
    elif isinstance(value, str) and re.search("[\0\ud800-\udfff]", value):
        yield ".".join(place), f"{value!r} holds a character that no file or program takes"
    elif not isinstance(value, (str, int, float, type(None))):  # YAML has dates, sets and binary data
        yield (
            ".".join(place),
            f"YAML reads {value} as a {type(value).__name__}; expected text, a number, a list or a mapping: write text in quotes",
        )


def _pattern(validator, pattern: str, instance, schema: dict) -> Iterator[jsonschema.ValidationError]:
    """Let `$` match only the end of the text, as in JSON Schema. In Python it also matches before a final line feed."""
    if isinstance(instance, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


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
    """The innermost description on the path to the violated part of the schema."""
    node, found = schema, ""
    for step in path:
        if isinstance(node, dict) and "$ref" in node:  # the path skips references
            own = node.get("description")
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
            found = own or node.get("description", found)
        node = node[step]
        if isinstance(node, dict) and isinstance(node.get("description"), str):
            found = node["description"]
    return found


def _right_branch(error: jsonschema.ValidationError) -> jsonschema.ValidationError:
    """The error of one alternative of a `oneOf`: the alternative that `kind` names, or the one of the right type."""
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
