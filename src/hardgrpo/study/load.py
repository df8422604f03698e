"""Read the configuration: the catalogue in config/, overlaid by config.yaml and the user's files
(--configfile).

config/tasks.yaml, models.yaml, policies.yaml and recipes.yaml contain one section each.
config/studies/NAME.yaml contains one study, config/analyses/NAME.yaml one analysis of published
numbers. Without config/, the whole configuration is in config.yaml.
"""

import copy
import difflib
from pathlib import Path

from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

# sections whose entries may have the key `extends`
SECTIONS = ("tasks", "models", "policies", "recipes")
FOLDERS = ("studies", "analyses")  # sections with a file for each entry


def read(folder: str | Path = ".") -> dict:
    return read_file(Path(folder) / "config.yaml")


def read_file(path: str | Path) -> dict:
    """The configuration in a file, laid over the catalogue in the file's folder."""
    return complete(read_mapping(path), Path(path).parent)


def read_mapping(path: str | Path) -> dict:
    content = files.read_yaml(path)
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise UserError(
            f"{path}: expected a mapping such as `study: mini`, found {kind}; correct it"
        )
    return content


def complete(config: dict, folder: str | Path = ".") -> dict:
    """The catalogue in config/ of a folder, overlaid by `config`, with `extends` resolved: within
    the catalogue first, so that an entry of `config` changes no entries that extend it."""
    return resolve(lay_over(resolve(_catalogue(folder), "config"), config), "config.yaml")


def lay_over(base: dict, changes: dict) -> dict:
    """A copy of `base` in which `changes` replaces values mapping by mapping, as --configfile
    does."""
    merged = dict(base)
    for key, value in changes.items():
        is_nested = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = lay_over(merged[key], value) if is_nested else copy.deepcopy(value)
    return merged


def resolve(config: dict, name: str) -> dict:
    """A copy in which entries have the values of the entries that they extend. `name` is the
    configuration's name in error messages."""
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
    config = Path(folder) / "config"
    sections = [config / f"{section}.yaml" for section in SECTIONS]
    entries = [path for folder in FOLDERS for path in sorted((config / folder).glob("*.yaml"))]
    return [path for path in sections if path.is_file()] + entries
