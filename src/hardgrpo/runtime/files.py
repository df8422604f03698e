"""Read files with checks, and write files atomically: a file is complete or absent."""

import argparse
import codecs
import collections
import contextlib
import csv
import gzip
import hashlib
import io
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import yaml

from hardgrpo.runtime.errors import RowError, Unreadable, UserError, refuse_rows

Kinds = dict[str, type | tuple[type, ...]]  # {key of a row: its type or types}


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block succeeds. A folder
    replaces only an empty folder or one with an entry of the same name (results of the same kind),
    a file never a folder."""
    path = output_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UserError(
            f"{path} cannot be written: a file is where its folder should be; name another output"
        ) from None
    temporary = path.with_name(f".{path.name}.tmp")
    _remove(temporary)
    try:
        yield temporary
        if temporary.is_file():
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
        if path.is_dir():
            old_names, new_names = (
                {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
                for folder in (path, temporary)
            )
            if temporary.is_file() or (old_names and not old_names & new_names):
                raise UserError(
                    f"{path}: a folder with other content is in the way; name another output or move this folder away"
                )
            if path.is_symlink():
                raise UserError(
                    f"{path}: a link to a folder is in the way; remove the link, or name the folder itself as the output"
                )
            shutil.rmtree(path)
        os.replace(temporary, path)
    finally:
        _remove(temporary)


def output_path(path: str | Path) -> Path:
    if Path(path).name in ("", ".."):
        raise UserError(f"'{path}' cannot be written: expected the name of a file or folder")
    return Path(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text. A `.gz` file has no name and time: equal texts give equal files."""
    with atomic(path) as temporary:
        # half a surrogate pair, at the end of a completion, becomes "?"
        data = text.encode("utf-8", "replace")
        if str(path).endswith(".gz"):
            buffer = io.BytesIO()
            with gzip.GzipFile(
                filename="", fileobj=buffer, mode="wb", mtime=0, compresslevel=6
            ) as stream:
                stream.write(data)
            data = buffer.getvalue()
        temporary.write_bytes(data)


def read_text(path: str | Path, errors: str = "strict", encoding: str = "utf-8") -> str:
    """Text of a file, decompressed if `.gz`. Raise a `UserError` if the file is missing, truncated
    or garbled."""
    data = read_bytes(path)
    try:
        if str(path).endswith(".gz"):
            data = gzip.decompress(data)
        return data.decode(encoding, errors)
    except (EOFError, zlib.error, OSError) as error:
        raise UserError(
            f"{path}: the file is truncated or damaged ({error}); delete it and run again"
        ) from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: byte {error.start}: not UTF-8 text; save the file as UTF-8 (in Excel: CSV UTF-8)"
        ) from None


def read_user_text(path: str | Path) -> str:
    """The text of a user's file, UTF-8 or (after a byte order mark) UTF-16."""
    utf16 = byte_order_mark(path) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return read_text(path, encoding="utf-16" if utf16 else "utf-8-sig")


def byte_order_mark(path: str | Path) -> bytes:
    data = read_bytes(path)[:3]
    marks = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return next((mark for mark in marks if data.startswith(mark)), b"")


def read_bytes(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: expected a file, found a folder") from None
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read: {error.strerror}") from None


def write_json(path: str | Path, value: dict, sort_keys: bool = False) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=sort_keys) + "\n")


def write_jsonl(path: str | Path, rows: Iterable[dict]) -> None:
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def parse_json(
    text: str, name: str | Path, remedy: str, line: int | None = None, numbers: bool = False
):
    """The value of a JSON text: the file `name`, or its line `line`. Refuse invalid JSON (for a
    line by a `RowError`), duplicate keys and, with `numbers`, NaN and Infinity."""

    def refusal(problem: str, column: int = 0) -> UserError:
        if not line:
            return UserError(f"{name}: {problem}; {remedy}")
        place = f"line {line}" + (f", column {column}" if column else "")
        return RowError(name, place, problem, remedy)

    def as_dict(pairs: list[tuple]) -> dict:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            repeated_name = first_repeated([name for name, _ in pairs])
            raise refusal(f"'{repeated_name}' occurs twice in an object")
        return entries

    def refuse_constant(constant: str):
        raise refusal(f"{constant} is not a finite number")

    try:
        return json.loads(
            text,
            object_pairs_hook=as_dict,
            parse_constant=refuse_constant if numbers else None,
        )
    except json.JSONDecodeError as error:
        place = "" if line else f"line {error.lineno}, column {error.colno}: "
        raise refusal(f"{place}not valid JSON ({error.msg})", error.colno) from None
    except (ValueError, RecursionError):  # thousands of digits or of brackets
        raise refusal("a number is too large for JSON, or the nesting is too deep") from None


def read_json(
    path: str | Path, name: str | None = None, remedy: str = "delete it and run again"
) -> dict:
    """Read a JSON object; messages call the file `name` (default: the path)."""
    name = name or str(path)
    value = parse_json(read_text(path), name, remedy)
    if not isinstance(value, dict):
        raise UserError(f"{name}: expected a JSON object, found {type(value).__name__}; {remedy}")
    return value


def nested_entries(value: object) -> Iterator[object]:
    """A value of JSON or YAML and all its entries, at every depth."""
    queue = [value]
    while queue:
        entry = queue.pop()
        yield entry
        queue += (
            entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else []
        )


def first_repeated(names: list[str]) -> str | None:
    times = collections.Counter(names)
    return next((name for name in names if times[name] > 1), None)


def as_object(text: str) -> dict:
    """A JSON object; a `type` of `argparse`."""
    try:
        value = parse_json(text, "the argument", "expected a JSON object")
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, found {type(value).__name__}")
    return value


def read_jsonl(
    path: str | Path, keys: Kinds, errors: str = "strict", optional: Kinds | None = None
) -> list[dict]:
    """The rows of a JSON Lines file, at least one. Each must have all `keys`, with values of their
    types; `optional` keys may be missing or null."""
    return [row for _, row in parse_jsonl(read_text(path, errors), path, keys, optional)]


def parse_jsonl(
    text: str, path: str | Path, keys: Kinds, optional: Kinds | None = None
) -> list[tuple[int, dict]]:
    """[(line number from 1, row)] of a text; see `read_jsonl`."""
    rows, row_errors, kinds = [], [], keys | (optional or {})
    for line, content in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not content.strip():
            continue
        try:
            rows.append((line, _json_row(content, path, line, keys, kinds)))
        except RowError as error:
            row_errors.append(error)
    refuse_rows(row_errors)
    if not rows:
        raise UserError(f"{path}: the file has no rows; expected at least one JSON object")
    return rows


def _json_row(text: str, path: str | Path, line: int, keys: Kinds, kinds: Kinds) -> dict:
    remedy = "expected one JSON object a line (if this is the last line, the file may be truncated)"
    row = parse_json(text, path, remedy, line, numbers=True)
    if not isinstance(row, dict):
        raise RowError(path, f"line {line}", f"expected a JSON object, found {type(row).__name__}")
    for key, types in kinds.items():
        if row.get(key) is None:
            if key not in keys:
                continue
            raise RowError(
                path, f"line {line}", f"'{key}' is missing", f"found {', '.join(row) or 'nothing'}"
            )
        types = types if isinstance(types, tuple) else (types,)
        # `isinstance` takes a bool for an int
        if not isinstance(row[key], types) or isinstance(row[key], bool) and bool not in types:
            expected = " or ".join(kind.__name__ for kind in types)
            raise RowError(
                path, f"line {line}", f"'{key}' is {type(row[key]).__name__}, expected {expected}"
            )
    return row


LARGEST_YAML = 1_000_000  # entries; an alias that contains itself has no end


class _Yaml(yaml.SafeLoader):  # libyaml's loader would crash on deep nesting
    """A loader of plain data that refuses duplicate keys, of which PyYAML keeps the last."""

    def construct_mapping(self, node, deep=False):
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        repeated_key = first_repeated([name for name in names if name != "<<"])
        if repeated_key is not None:
            raise yaml.MarkedYAMLError(
                problem=f"'{repeated_key}' occurs twice in a mapping", problem_mark=node.start_mark
            )
        return super().construct_mapping(node, deep)


def read_yaml(path: str | Path):
    return parse_yaml(read_text(path), path)


def parse_yaml(text: str, path: str | Path):
    try:
        content = yaml.load(text, _Yaml)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise UserError(
            f"{path}:{f' line {mark.line + 1}:' if mark else ''} not valid YAML ({problem}); correct it"
        ) from None
    # an impossible date, a list as a key, or deep nesting
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path}: not valid YAML ({error}); correct it") from None
    if isinstance(content, dict) and "__use_yte__" in content:
        raise UserError(
            f"{path}: '__use_yte__' makes Snakemake run the file as a program; a configuration is plain data: remove the key"
        )
    if any(count > LARGEST_YAML for count, _ in enumerate(nested_entries(content))):
        raise UserError(
            f"{path}: more than {LARGEST_YAML:,} entries, counted again for each alias (*); use fewer aliases"
        )
    return content


def write_rows(path: str | Path, columns: list[str], rows: Iterable[dict]) -> None:
    """Write a CSV file. None and nan become empty cells; floats keep every digit (repr)."""
    rows = list(rows)
    for row in rows:
        if set(row) - set(columns):
            raise ValueError(f"{path}: unknown columns {sorted(set(row) - set(columns))}")
    write_text(
        path, csv_text(columns, [[_cell(row[column]) for column in columns] for row in rows])
    )


def csv_text(columns: list[str], rows: list[list], delimiter: str = ",") -> str:
    # The writer of Python up to 3.11.8 and 3.12.2 does not quote a lone carriage return, which
    # readers take as the end of a row.
    has_carriage_return = any(
        "\r" in cell for row in [columns, *rows] for cell in row if isinstance(cell, str)
    )
    buffer = io.StringIO()
    quoting = csv.QUOTE_ALL if has_carriage_return else csv.QUOTE_MINIMAL
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n", quoting=quoting)
    writer.writerows([columns, *rows])
    return buffer.getvalue()


def round_floats(rows: Iterable[dict]) -> list[dict]:
    """Floats rounded to ten significant digits, which are the same on every machine."""
    return [
        {
            key: float(f"{value:.10g}") if isinstance(value, float) else value
            for key, value in row.items()
        }
        for row in rows
    ]


def _cell(value):
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return int(value) if isinstance(value, bool) else value


def read_rows(
    path: str | Path, columns: dict[str, Callable], optional: dict[str, Callable] | None = None
) -> list[dict]:
    """The rows of a CSV file as {column: converted cell}. `columns` and `optional` map columns to
    functions that convert cells; other columns are left out. Empty cells and missing optional
    columns become None."""
    return convert_rows(path, *read_cells(path), columns, optional)


def _place_of(index: int) -> str:
    return f"row {index + 2}"  # row 1 is the header


def convert_rows(
    path: str | Path,
    header: list[str],
    cells: list[list[str]],
    columns: dict[str, Callable],
    optional: dict[str, Callable] | None = None,
    place: Callable[[int], str] = _place_of,
) -> list[dict]:
    """`read_rows` for cells in memory; `place` maps the index of a row to its place in the file."""
    missing_columns = [column for column in columns if column not in header]
    if missing_columns:
        raise UserError(
            f"{path}: column '{missing_columns[0]}' is missing; expected {', '.join(columns)}"
        )
    rows, row_errors = [], []
    kinds = columns | {
        column: convert for column, convert in (optional or {}).items() if column in header
    }
    for index, raw in enumerate(dict(zip(header, row)) for row in cells):
        row = dict.fromkeys(optional or {})
        for column, convert in kinds.items():
            try:
                row[column] = _convert_cell(convert, raw[column])
            except ValueError:
                row_errors.append(
                    RowError(
                        path,
                        place(index),
                        f"column '{column}' is '{raw[column]}', expected {convert.__name__}",
                    )
                )
                break
        rows.append(row)
    refuse_rows(row_errors)
    return rows


def read_cells(path: str | Path) -> tuple[list[str], list[list[str]]]:
    csv.field_size_limit(2**31 - 1)  # models write long answers
    reader = csv.reader(
        io.StringIO(read_text(path).removeprefix("\ufeff"), newline=""), strict=True
    )
    try:
        header, *cells = list(filter(None, reader)) or [[]]
    except csv.Error as error:
        raise UserError(
            f"{path}: line {reader.line_num}: not valid CSV ({error}); correct the quoting"
        ) from None
    check_cells(path, header, cells)
    return header, cells


def check_cells(
    path: str | Path,
    header: list[str],
    cells: list[list[str]],
    place: Callable[[int], str] = _place_of,
) -> None:
    """Refuse repeated column names and rows shorter or longer than the header."""
    repeated_name = first_repeated(header)
    if repeated_name is not None:
        raise UserError(
            f"{path}: column '{repeated_name}' occurs twice in the header; rename one of the columns"
        )
    longer = "put quotes around a text that contains the delimiter, or give each column a name"
    shorter = "correct the row, or make the file again if it was truncated"
    refuse_rows(
        [
            RowError(
                path,
                place(index),
                f"more or fewer cells than the header's {len(header)} (here {len(row)})",
                longer if len(row) > len(header) else shorter,
            )
            for index, row in enumerate(cells)
            if len(row) != len(header)
        ]
    )


def _convert_cell(convert: Callable, cell: str):
    """The converted cell; None if empty. Numbers such as '1_0', ' 1' and 'nan' are refused."""
    if convert in (int, float) and (
        not cell.isascii()
        or "_" in cell
        or cell != cell.strip()
        or cell.lower().strip("+-") == "nan"
    ):
        raise ValueError
    return convert(cell) if cell != "" else None


def link_or_copy(source: Path, target: Path) -> None:
    """Hard-link `target` to `source`, or copy it (another disk, another account)."""
    source = source.resolve()  # a hub's cache holds symbolic links
    try:
        if source.stat().st_uid != os.geteuid():
            raise PermissionError
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def follow_umask(folder: Path) -> None:
    """Give files the modes of the umask: safetensors writes files that only their owner can
    read."""
    mask = os.umask(0o077)
    os.umask(mask)
    for path in folder.iterdir():
        if path.is_file():
            path.chmod(0o666 & ~mask)


def sha256(path: str | Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def listing(folder: str | Path) -> dict[str, dict]:
    """{path relative to the folder: {"bytes", "sha256"}} of all files, sorted by path"""
    folder = Path(folder)
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Tables(dict[str, Path]):
    """{name of a table: its file}"""

    def __init__(self, paths: Iterable[str | Path]):
        super().__init__((Path(path).stem, Path(path)) for path in paths)

    def __missing__(self, name: str) -> Path:
        raise UserError(f"table {name} is not given; name its file {name}.csv after --tables")

    @classmethod
    def below(cls, *folders: str | Path) -> "Tables":
        return cls(path for folder in folders for path in sorted(Path(folder).glob("*.csv")))


class _AsTables(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, Tables(values))


def add_tables(parser: argparse.ArgumentParser, required: bool = True) -> None:
    parser.add_argument(
        "--tables",
        required=required,
        nargs="+",
        action=_AsTables,
        metavar="CSV",
        help="files of the study's tables",
    )


def is_outside(name: str) -> bool:
    """Whether a name would lead out of the folder to which it is relative."""
    return Path(name).is_absolute() or ".." in Path(name).parts


def check_inside(path: Path, folder: Path) -> None:
    """Refuse an entry of `folder` that leads out through a link; in a hub's cache, links from
    `snapshots/COMMIT` to `../../blobs` count as inside."""
    target, root = path.resolve(), folder.resolve()
    places = [root, root.parents[1] / "blobs"] if root.parent.name == "snapshots" else [root]
    if not any(target.is_relative_to(place) for place in places):
        raise UserError(
            f"{path}: a link to {target}, which is outside of {folder}; put a copy of the file in its place"
        )
