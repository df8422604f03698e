"""Read the rows of a file of problems, prompts or completions, and write chosen rows in the same
form: Parquet, JSON Lines, a JSON array (or an object with one array of objects, as BIG-Bench-Hard's
files), CSV and TSV, a text with a prompt in each line, the folder of `Dataset.save_to_disk`, and a
split of a dataset of the hub. Texts may be compressed (.gz, .bz2, .xz, .zst)."""

import bz2
import contextlib
import gzip
import json
import lzma
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hardgrpo.data import spreadsheets
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
ENDINGS = (".parquet", ".jsonl", ".ndjson", ".jl", ".json", ".csv", ".tsv", ".txt")
EXPECTED = (
    "expected .parquet, .jsonl, .json, .csv, .tsv or .txt (also compressed), a folder of"
    " save_to_disk, or OWNER/NAME of a dataset of the hub"
)
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")


@dataclass
class Rows:
    """The rows of a file, and their places for messages. `write(path, indices, cells)` writes some
    of the rows, each with further cells, to a file with the ending `ending`. `table_form` says how
    a table was written; None for files that are not tables."""

    path: str
    form: str
    ending: str
    rows: list[dict]
    places: list[str]
    write: Callable[[Path, Sequence[int], list[dict]], None]
    table_form: spreadsheets.Form | None = None

    @property
    def has_decimal_comma(self) -> bool:
        """Whether the rows are of a table with semicolons, in which 3,5 is a number."""
        return self.table_form is not None and self.table_form.delimiter == ";"


def read(path: str, split: str | None = None, config: str | None = None) -> Rows:
    """The rows of a person's file or dataset; `split` names a split of a dataset, `config` the
    configuration of a dataset of the hub. A table may lack a header, and its cells lose the
    apostrophes of `spreadsheets.escape_formulas`. Raise a `UserError` if the file cannot be read or
    has no rows."""
    location = Path(path)
    if location.is_dir():
        content = _read_folder(path, split)
    elif location.exists():
        content = read_file(location, may_lack_header=True)
    elif HUB_NAME.fullmatch(path) and not path.lower().endswith((*ENDINGS, *COMPRESSIONS)):
        content = _read_hub(path, split, config)
    else:
        raise UserError(f"{path}: no such file; {EXPECTED}")
    return _with_rows(content)


def stem(path: str | Path) -> str:
    """The name of a file without the endings of its form and compression."""
    name = Path(path).name
    for ending in (*COMPRESSIONS, *ENDINGS):
        name = name.removesuffix(ending) or name
    return name


def read_file(path: str | Path, may_lack_header: bool = False) -> Rows:
    """The rows of a file. With `may_lack_header`, a table is read as by `read`. Raise a `UserError`
    if the file cannot be read or has no rows."""
    return _with_rows(_read_file(Path(path), may_lack_header))


def _read_file(path: Path, may_lack_header: bool) -> Rows:
    name = path.name.lower()
    is_compressed = name.endswith(COMPRESSIONS)
    ending = Path(name.rpartition(".")[0] if is_compressed else name).suffix
    if ending == ".parquet":
        return _of_table(str(path), "Parquet", read_parquet(path))
    if ending in (".csv", ".tsv"):
        return _read_table(path, ending, may_lack_header)
    if ending == ".txt":
        return _read_lines(path)
    if ending in (".jsonl", ".ndjson", ".jl", ".json"):
        return _read_json(path, ending)
    is_sheet = ending in (".xlsx", ".xls", ".ods", ".numbers")
    remedy = "save the sheet as CSV UTF-8" if is_sheet else EXPECTED
    raise UserError(f"{path}: unknown kind of file '{ending}'; {remedy}")


def _with_rows(content: Rows) -> Rows:
    if not content.rows:
        raise UserError(f"{content.path}: no rows; expected at least one")
    return content


# --- Parquet and datasets


def read_parquet(path: str | Path, columns: list[str] | None = None) -> "pyarrow.Table":  # noqa: F821
    """The table of a Parquet file, with `columns` (default: all). Raise a `UserError` for a file
    that is missing, damaged or without one of the columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as table:
            missing = set(columns or []) - set(table.schema_arrow.names)
            if missing:
                raise UserError(
                    f"{path}: column '{min(missing)}' is missing; expected {', '.join(columns)}"
                )
            return table.read(columns=columns)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(
            f"{path}: not a Parquet file ({str(error).splitlines()[0]}); get the file again"
        ) from None


def _of_table(path: str, form: str, table: "pyarrow.Table") -> Rows:  # noqa: F821
    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(target: Path, indices: Sequence[int], cells: list[dict]) -> None:
        chosen = table.take(pa.array(indices, pa.int64()))
        for name in cells[0]:
            chosen = chosen.append_column(name, pa.array([row[name] for row in cells]))
        with files.atomic(target) as temporary:
            pq.write_table(chosen, temporary)

    return Rows(path, form, ".parquet", table.to_pylist(), _row_places(table.num_rows), write)


def _read_folder(path: str, split: str | None) -> Rows:
    """The folder of `Dataset.save_to_disk` or `DatasetDict.save_to_disk`."""
    if not any((Path(path) / name).is_file() for name in ("state.json", "dataset_dict.json")):
        raise UserError(
            f"{path}: a folder without state.json, so save_to_disk did not write it; name a file"
        )
    datasets = _import_datasets()
    try:
        dataset = datasets.load_from_disk(path)
    except (OSError, ValueError, KeyError, TypeError) as error:  # also those of pyarrow
        raise UserError(
            f"{path}: not a readable folder of save_to_disk ({str(error)[:200]}); save it again"
        ) from None
    dataset = _one_split(path, dataset, split)

    def write(target: Path, indices: Sequence[int], cells: list[dict]) -> None:
        chosen = dataset.select(indices)
        for name in cells[0]:
            chosen = chosen.add_column(name, [row[name] for row in cells])
        with files.atomic(target) as temporary:
            chosen.save_to_disk(temporary)

    rows = dataset.with_format("arrow")[:].to_pylist()
    return Rows(path, "folder of save_to_disk", "", rows, _row_places(len(rows)), write)


def _read_hub(path: str, split: str | None, config: str | None) -> Rows:
    datasets = _import_datasets()
    try:
        dataset = datasets.load_dataset(path, config, split=split)
    except Exception as error:  # the library's many errors about names, splits and the network
        raise UserError(
            f"{path}: no such file, and no readable dataset of the hub ({type(error).__name__}:"
            f" {str(error).splitlines()[0][:200]}); check the name, --config, --split and the connection"
        ) from None
    table = _one_split(path, dataset, split).with_format("arrow")[:]
    return _of_table(path, "dataset of the hub", table)


def _import_datasets():
    import datasets

    datasets.disable_progress_bars()
    return datasets


def _one_split(path: str, dataset, split: str | None):
    """The split `split` of a dataset, or the only one."""
    if not isinstance(dataset, dict):
        return dataset
    if split is None and len(dataset) == 1:
        return next(iter(dataset.values()))
    if split not in dataset:
        problem = f"no split '{split}'" if split else "several splits"
        raise UserError(f"{path}: {problem}; name one with --split: {', '.join(dataset)}")
    return dataset[split]


# --- texts


def read_text(path: Path) -> str:
    """The text of a file: UTF-8, compressed or not, or UTF-16 with a byte order mark. Raise a
    `UserError` if it is damaged or neither."""
    ending = path.suffix.lower()
    if ending not in COMPRESSIONS:
        return files.read_user_text(path)
    data = files.read_bytes(path)
    try:
        if ending == ".zst":
            import pyarrow as pa  # slow to import, and every dry-run imports this module

            with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
                data = stream.read()
        else:
            data = {".gz": gzip, ".bz2": bz2, ".xz": lzma}[ending].decompress(data)
        return data.decode("utf-8-sig")
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise UserError(
            f"{path}: the file is truncated, damaged or not UTF-8 text ({error}); make it again"
        ) from None


def _read_json(path: Path, ending: str) -> Rows:
    """JSON Lines; in a file that ends in .json also a list of objects, or an object with one."""
    text, key, value = read_text(path), None, None
    if ending == ".json":
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(text)
    if isinstance(value, dict):
        is_rows = lambda v: isinstance(v, list) and v and all(isinstance(row, dict) for row in v)
        lists = [name for name, entries in value.items() if is_rows(entries)]
        if len(lists) > 1:
            raise UserError(
                f"{path}: several lists of objects ({', '.join(lists)}); save one of the lists alone"
            )
        if not lists and all(isinstance(entry, (list, dict)) for entry in value.values()):
            raise UserError(
                f"{path}: an object of columns or of numbered rows; save the rows as a list of objects (pandas: orient='records')"
            )
        key = lists[0] if lists else None
        value = value.get(key)
    if isinstance(value, list):
        rows, places = value, _row_places(len(value))
        for place, row in zip(places, rows):
            if not isinstance(row, dict):
                raise UserError(f"{path}: {place}: expected an object, found {str(row)[:40]!r}")
    else:
        numbered = files.parse_jsonl(text, path, {})
        rows, places = [row for _, row in numbered], [f"row {line}" for line, _ in numbered]

    def write(target: Path, chosen: list[dict]) -> None:
        content = {key: chosen} if key else chosen
        files.write_text(target, json.dumps(content, ensure_ascii=False, indent=1) + "\n")

    if value is None:
        return _of_rows(path, "JSON Lines", ".jsonl", rows, places, files.write_jsonl)
    return _of_rows(path, "JSON", ".json", rows, places, write)


def _read_table(path: Path, ending: str, may_lack_header: bool) -> Rows:
    table = spreadsheets.parse(read_text(path), path, bool(files.byte_order_mark(path)))
    header, cells, places = table.header, table.cells, table.places
    if may_lack_header:
        header, *cells = [list(map(spreadsheets.unescape_formulas, r)) for r in (header, *cells)]
        words = header[0].split() if len(header) == 1 else []
        is_sentence = len(words) > 3 or any(re.search(r"\d", word) for word in words)
        if is_sentence or not spreadsheets.looks_like_header(header, cells):
            if len(header) > 1:
                raise UserError(
                    f"{path}: the first row looks like data, not like names of columns ('{header[0][:60]}'); put a row of names such as question,answer above it"
                )
            header, cells, places = ["question"], [header, *cells], ["row 1", *places]
    rows = [dict(zip(header, row)) for row in cells]
    content = _of_rows(path, ending[1:].upper(), ending, rows, places, _table_writer(table.form))
    content.table_form = table.form
    return content


def _read_lines(path: Path) -> Rows:
    lines = map(str.strip, read_text(path).split("\n"))
    prompts = {f"row {number}": line for number, line in enumerate(lines, 1) if line}
    rows, write = [{"question": line} for line in prompts.values()], _table_writer(spreadsheets.Form())  # fmt: skip
    return _of_rows(path, "text, a prompt in each line", ".csv", rows, list(prompts), write)


def _table_writer(form: spreadsheets.Form) -> Callable[[Path, list[dict]], None]:
    return lambda target, rows: files.write_text(target, spreadsheets.rows_text(rows, form))


def _of_rows(
    path: Path,
    form: str,
    ending: str,
    rows: list[dict],
    places: list[str],
    write_rows: Callable[[Path, list[dict]], None],
) -> Rows:
    def write(target: Path, indices: Sequence[int], cells: list[dict]) -> None:
        write_rows(target, [rows[index] | further for index, further in zip(indices, cells)])

    return Rows(str(path), form, ending, rows, places, write)


def _row_places(number: int) -> list[str]:
    return [f"row {index}" for index in range(1, number + 1)]
