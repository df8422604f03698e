"""Read rows of a dataset's folder with the library `datasets`, which gets access only to data files
in the folder.

The card of a dataset may name any file or address, and may declare columns that hold paths of
images. The library therefore reads a temporary folder with links to the data files and with a card
that contains only the checked part of the dataset's card.
"""

import os
import tempfile
from pathlib import Path

import yaml

from hardgrpo.runtime import errors, files, provenance
from hardgrpo.runtime.errors import UserError
from hardgrpo.runtime.files import nested_entries

# If both files of CARD_FILES exist, a key of the second file replaces the same key of the first
# file.
CARD, CARD_FILES = "README.md", ("README.md", ".huggingface.yaml")
DATA_ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".arrow", ".txt")
NO_DATA = (
    "manifest.json", "config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json",
)  # fmt: skip
# Keys of an entry of `configs` in a dataset's card that choose or describe plain data. All other
# keys of an entry, except PATHS and `features`, are refused, because they are options of readers,
# and such an option may name a file.
PLAIN_OPTIONS = (
    "config_name", "default", "version", "description", "drop_labels", "sep", "delimiter", "header",
    "names", "encoding", "quotechar", "escapechar", "doublequote", "skip_blank_lines", "field",
    "sample_by", "keep_linebreaks",
)  # fmt: skip
PATHS = ("data_files", "data_dir")


def read_rows(folder: Path, name: str | None, split: str) -> list[dict]:
    """The rows of a split of the configuration `name` (None: the only or default configuration).

    Raise a `UserError` if the split does not exist, or if the dataset names a file outside of
    `folder`.
    """
    # a folder that fetch_dataset.py downloaded
    if folder.parts[:1] == ("results",) and (folder / "manifest.json").is_file():
        provenance.check_manifest(folder)
    import datasets  # slow to import, and only needed for hub datasets

    datasets.disable_progress_bars()
    # A temporary cache, because the shared cache compares modification times and could return
    # outdated rows.
    with tempfile.TemporaryDirectory() as temporary:
        links_folder = Path(temporary) / "dataset"
        links_folder.mkdir()
        (links_folder / CARD).write_text(
            f"---\n{yaml.safe_dump(check_card(folder))}---\n", encoding="utf-8"
        )
        for path in data_files(folder):
            link = links_folder / path.relative_to(folder)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path.resolve())
        try:
            dataset = datasets.load_dataset(
                str(links_folder), name=name, split=split, cache_dir=str(Path(temporary) / "cache")
            )
            # Plain Arrow values, because a Parquet file may declare a column of text to be paths of
            # images, which the library would open.
            return dataset.with_format("arrow")[:].to_pylist()
        except UserError:
            raise
        # The library's readers raise many kinds of errors for damaged and hostile files.
        except Exception as error:
            if errors.explain(error) is not None:
                raise
            reason = " ".join((str(error) or type(error).__name__).splitlines()[:2]).replace(
                str(links_folder), str(folder)
            )
            raise UserError(
                f"{folder}: no split '{split}' of configuration '{name}' can be read ({reason}); correct the task's source"
            ) from None


def data_files(folder: Path) -> list[Path]:
    """The data files of a folder, without hidden files. Raise a `UserError` for a link that leaves
    the folder, and for an archive."""
    paths = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(entry for entry in folders if not entry.startswith("."))
        for entry in [*folders, *sorted(names)]:
            path = Path(place) / entry
            is_data = (
                entry.lower().removesuffix(".gz").endswith(DATA_ENDINGS)
                and entry not in NO_DATA
                and entry[0] != "."
            )
            if entry in folders or is_data:
                files.check_inside(path, folder)
            if is_data and entry not in folders:
                _check_data_file(path)
                paths.append(path)
    return paths


def _check_data_file(path: Path) -> None:
    # the library unpacks archives by their content, not by their name
    from datasets.utils.extract import Extractor

    _check_regular(path)
    archive = Extractor.infer_extractor_format(path)
    if archive not in (None, "gzip") or (archive == "gzip") != path.name.lower().endswith(".gz"):
        raise UserError(
            f"{path}: its content is {archive or 'not gzip'}, contrary to its name; unpack the file, or correct its name"
        )


def _check_regular(path: Path) -> None:
    if not path.is_file():
        raise UserError(
            f"{path}: not a regular file; put a file in its place, or take it out of the dataset"
        )


def check_card(folder: Path) -> dict:
    """`configs` and `dataset_info` of a dataset's card. Raise a `UserError` if the card names a
    file outside of the folder, or if an entry of `configs` has an unsupported key."""
    card, places = {}, {}
    for path in (folder / name for name in CARD_FILES):
        if path.is_symlink() or path.exists():
            files.check_inside(path, folder)
            _check_regular(path)
            content = _content(path)
            card |= content
            places |= dict.fromkeys(content, path)
    configs, infos = card.get("configs") or [], card.get("dataset_info") or []
    infos = [infos] if isinstance(infos, dict) else infos
    for key, entries in (("configs", configs), ("dataset_info", infos)):
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise UserError(f"{places[key]}: '{key}' is not a list of mappings; correct it")
    for config in configs:
        for key, value in config.items():
            if key in PATHS:
                _check_paths(value, places["configs"])
            elif key == "features":
                _check_features(value, places["configs"])
            elif key not in PLAIN_OPTIONS:
                raise UserError(
                    f"{places['configs']}: '{key}' in configs is not a supported option; remove the option"
                )
    for info in infos:
        if info.get("features"):
            _check_features(info["features"], places["dataset_info"])
    infos = [
        {key: info[key] for key in ("config_name", "features") if info.get(key)} for info in infos
    ]
    infos = [info for info in infos if "features" in info]
    return ({"configs": configs} if configs else {}) | (
        {"dataset_info": infos if len(infos) > 1 else infos[0]} if infos else {}
    )


def _content(path: Path) -> dict:
    from huggingface_hub import repocard

    text = files.read_text(path, encoding="utf-8-sig")
    if path.name == CARD:
        block = repocard.REGEX_YAML_BLOCK.search(text)
        text = block[2] if block else ""
    content = files.parse_yaml(text, path)
    if content is not None and not isinstance(content, dict):
        raise UserError(f"{path}: expected a mapping, found {type(content).__name__}; correct it")
    return content or {}


def _check_paths(value: object, card: Path) -> None:
    for entry in nested_entries(value):
        if isinstance(entry, str) and (
            ":" in entry or entry.startswith(("/", "~", "\\")) or ".." in Path(entry).parts
        ):
            raise UserError(
                f"{card}: '{entry}' in configs is a file outside of the dataset's folder; put the file into the folder"
            )


def _check_features(features: object, card: Path) -> None:
    """Raise a `UserError` for columns other than text, numbers, and lists or groups of these.
    Columns of images or sounds could contain paths of files."""
    import datasets

    plain_kinds = (
        datasets.Value,
        datasets.ClassLabel,
        datasets.List,
        datasets.LargeList,
        dict,
        list,
        tuple,
    )
    try:
        queue = [dict(datasets.Features._from_yaml_list(features))]
    except Exception as error:  # the library raises many kinds of errors for malformed features
        raise UserError(
            f"{card}: its features cannot be read ({str(error) or type(error).__name__}); correct them"
        ) from None
    while queue:
        entry = queue.pop()
        if not isinstance(entry, plain_kinds):
            kind = type(entry).__name__
            raise UserError(
                f"{card}: a column of kind '{kind}' in its features, expected text, numbers or lists; take the column out"
            )
        queue += (
            entry.values()
            if isinstance(entry, dict)
            else entry
            if isinstance(entry, (list, tuple))
            else []
        )
        queue += [entry.feature] if isinstance(entry, (datasets.List, datasets.LargeList)) else []
