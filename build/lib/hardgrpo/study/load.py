"""Read the configuration: the catalogue in config/, overlaid by config.yaml and the user's files
(--configfile).

config/tasks.yaml, models.yaml, policies.yaml and recipes.yaml contain one section each.
config/studies/NAME.yaml contains one study, config/analyses/NAME.yaml one analysis of published
numbers. Without config/, the whole configuration is in config.yaml.
"""

import copy
import difflib
import re
from pathlib import Path

import yaml

from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

# sections whose entries may have the key `extends`
SECTIONS = ("tasks", "models", "policies", "recipes")
FOLDERS = ("studies", "analyses")  # sections with a file for each entry
LONGEST_CHAIN = 100  # largest number of entries with `extends` in a chain


def read(folder: str | Path = ".") -> dict:
    """The configuration in a folder, without the user's files. Raise a `UserError` for a file that
    is not valid YAML."""
    return read_file(Path(folder) / "config.yaml")


def read_file(path: str | Path) -> dict:
    """The configuration in a file, laid over the catalogue in the file's folder. Raise a
    `UserError` if the file is not valid YAML or not a mapping."""
    return complete(read_mapping(path), Path(path).parent)


def read_mapping(path: str | Path) -> dict:
    """The content of one file of a configuration. Raise a `UserError` if the file is not valid YAML
    or not a mapping."""
    content = files.read_yaml(path)
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise UserError(
            f"{path}: expected a mapping such as `study: mini`, found {kind}; correct it"
        )
    return content


def complete(config: dict, folder: str | Path = ".") -> dict:
    """The catalogue in config/ of a folder, overlaid by `config`, with `extends` resolved.

    `extends` is resolved within the catalogue first. An entry of `config` therefore changes only
    the catalogue's entry of the same name, not the entries that extend it. Raise a `UserError` for
    a file that is not valid YAML and for an entry that extends an unknown entry.
    """
    return resolve(lay_over(resolve(_catalogue(folder), "config"), config), "config.yaml")


def lay_over(base: dict, changes: dict) -> dict:
    """A copy of `base` in which `changes` replaces values and adds entries, mapping by mapping, as
    Snakemake's --configfile does."""
    merged = dict(base)
    for key, value in changes.items():
        is_nested = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = lay_over(merged[key], value) if is_nested else copy.deepcopy(value)
    return merged


def resolve(config: dict, name: str) -> dict:
    """A copy of a configuration in which an entry with `extends` also has the values of the
    extended entry. `name` is the configuration's name in error messages."""
    resolved = dict(config)
    for section in SECTIONS:
        entries = config.get(section)
        if isinstance(entries, dict):
            resolved[section] = {
                key: _resolve(entries, key, f"{name}: {section}", ()) for key in entries
            }
    return resolved


def _resolve(entries: dict, key: str, place: str, extending: tuple[str, ...]):
    entry = entries[key]
    if not isinstance(entry, dict) or "extends" not in entry:
        return entry
    base = entry["extends"]
    changes = {name: value for name, value in entry.items() if name != "extends"}
    if key in extending:
        raise UserError(
            f"{place}.{extending[0]}.extends: {' -> '.join((*extending, key))} is a cycle; remove `extends` from one entry"
        )
    if len(extending) == LONGEST_CHAIN:
        raise UserError(
            f"{place}.{extending[0]}.extends: a chain of more than {LONGEST_CHAIN} entries; remove `extends` from one entry"
        )
    if not isinstance(base, str) or base not in entries:
        similar = difflib.get_close_matches(str(base), entries, n=1)
        hint = f"did you mean '{similar[0]}'?" if similar else "name another entry of the section"
        raise UserError(f"{place}.{key}.extends: there is no '{base}'; {hint}")
    resolved = _resolve(entries, base, place, (*extending, key))
    return lay_over(resolved, changes) if isinstance(resolved, dict) else changes


def _catalogue(folder: str | Path) -> dict:
    catalogue: dict = {}
    for path in sources(folder):
        content, name = files.read_yaml(path), path.stem
        if path.parent.name in FOLDERS:
            catalogue.setdefault(path.parent.name, {})[name] = content
        elif (
            not isinstance(content, dict)
            or set(content) != {name}
            or not isinstance(content[name], dict)
        ):
            raise UserError(
                f"{path}: expected one key, `{name}`, and below it an entry for each name"
            )
        else:
            catalogue |= content
    return catalogue


def sources(folder: str | Path = ".") -> list[Path]:
    """The files of the catalogue in a folder."""
    config = Path(folder) / "config"
    sections = [config / f"{section}.yaml" for section in SECTIONS]
    entries = [path for folder in FOLDERS for path in sorted((config / folder).glob("*.yaml"))]
    return [path for path in sections if path.is_file()] + entries


def locate(place: str, paths: list[Path]) -> str | None:
    """FILE:LINE of a place in the configuration, such as "studies.paper.arms[0].recipe"; None if no
    file has the first two keys.

    If several files match, choose the file with the most matching keys, and on a tie the last file,
    because the user's files are last in `paths`.
    """
    # The name of a study may have dots: studies.mini.2 is a place of mini.2.yaml, not of mini.yaml.
    entry_of = lambda path: (
        f"{path.parent.name}.{path.stem}" if path.parent.name in FOLDERS else None
    )
    names = [name for name in map(entry_of, paths) if name and f"{place}.".startswith(f"{name}.")]
    entry = max(names, key=len, default=None)
    best, most_keys = None, 2
    for path in paths:
        if entry_of(path) not in (None, entry):
            continue
        try:
            node = yaml.compose(
                path.read_text(encoding="utf-8"),
                Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader),
            )
        # libyaml refuses some texts that PyYAML's own reader accepts, such as half a surrogate pair
        except yaml.YAMLError:
            continue
        line, matched_keys = _descend(
            node, place.removeprefix(entry).lstrip(".") if entry_of(path) else place
        )
        matched_keys += 2 if entry_of(path) else 0
        if matched_keys >= most_keys:
            best, most_keys = f"{path}:{line}", matched_keys
    return best


def _descend(node: yaml.Node | None, place: str) -> tuple[int, int]:
    """(line of the innermost existing node on the way to a place, number of steps to this node)."""
    line, steps = 1, 0
    while place and node is not None:
        child, length = _child(node, place)
        if child is None:
            break
        key, node = child
        line, steps, place = key.start_mark.line + 1, steps + 1, place[length:].lstrip(".")
    return line, steps


def _child(node: yaml.Node, place: str) -> tuple[tuple[yaml.Node, yaml.Node] | None, int]:
    """Find the entry whose name is the beginning of `place`. Return ((key, value) of the entry or
    None, length of the name)."""
    if (
        isinstance(node, yaml.SequenceNode)
        and (number := re.match(r"\[?(\d+)\]?", place))
        and int(number[1]) < len(node.value)
    ):
        item = node.value[int(number[1])]
        return (item, item), number.end()
    if isinstance(node, yaml.MappingNode):
        # A name may have dots, as in qwen2.5-3b-instruct, so the longest matching name counts.
        matches = [
            entry
            for entry in node.value
            if re.match(re.escape(str(entry[0].value)) + r"(?=[.\[]|$)", place)
        ]
        if matches:
            entry = max(matches, key=lambda entry: len(str(entry[0].value)))
            return entry, len(str(entry[0].value))
    return None, 0
