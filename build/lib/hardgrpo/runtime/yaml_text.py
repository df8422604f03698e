"""Parse YAML as plain data of limited size, with errors that name the file and, if known, the
line."""

import collections
from pathlib import Path

import yaml

from hardgrpo.runtime.errors import UserError
from hardgrpo.runtime.json_text import nested_entries


class _Yaml(yaml.SafeLoader):  # libyaml's loader would crash on deep nesting
    """A loader of plain data that refuses duplicate keys. PyYAML's own loader silently keeps only
    the last value of a duplicate key."""

    def construct_mapping(self, node, deep=False):
        names = collections.Counter(
            key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)
        )
        repeated_key = next(
            (key for key, times in names.items() if times > 1 and key != "<<"), None
        )
        if repeated_key is not None:
            raise yaml.MarkedYAMLError(
                problem=f"'{repeated_key}' occurs twice in a mapping", problem_mark=node.start_mark
            )
        return super().construct_mapping(node, deep)

    merged = 0

    def flatten_mapping(self, node):
        """Copy the entries to which merge keys (<<) refer. Entries are counted before they are copied,
        because each line of a text can multiply the number of entries by ten."""
        for key, value in node.value:
            for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if key.tag == "tag:yaml.org,2002:merge" and isinstance(source, yaml.MappingNode):
                    self.flatten_mapping(source)
                    self.merged += len(source.value)
            if self.merged > MOST_MERGED:
                problem = f"merge keys (<<) copy more than {MOST_MERGED:,} entries"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        super().flatten_mapping(node)


LARGEST_YAML = 1_000_000  # entries, counted again for each alias
MOST_MERGED = 100_000  # entries that are copied by merge keys


def parse_yaml(text: str, path: str | Path):
    """The content of a YAML text. Raise a `UserError` that starts with the file's `path` if the
    text is not valid YAML, contains itself by an alias, or is too large."""
    if "\0" in text:
        raise UserError(
            f"{path}: contains null characters, so it is probably UTF-16 text; save the file as UTF-8"
        )
    try:
        content = yaml.load(text, _Yaml)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise UserError(
            f"{path}:{f' line {mark.line + 1}:' if mark else ''} not valid YAML ({problem}); correct it"
        ) from None
    # for example an impossible date, a list as a key, or deep nesting
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise UserError(f"{path}: not valid YAML ({error}); correct it") from None
    if isinstance(content, dict) and "__use_yte__" in content:
        raise UserError(
            f"{path}: '__use_yte__' makes Snakemake run the file as a program; a configuration is plain data: remove the key"
        )
    for count, _ in enumerate(nested_entries(content), start=1):
        if count > LARGEST_YAML:
            raise UserError(
                f"{path}: more than {LARGEST_YAML:,} entries, counted again for each alias (*); use fewer aliases or entries"
            )
    return content
