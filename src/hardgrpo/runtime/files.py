"""Read files with checks, and write files so that they are complete or absent."""

import argparse
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

from hardgrpo.runtime.errors import UserError

SEALED = ("results", "paper")  # what the workflow makes, in folders that it names relative to the project's


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`. Rename it to `path` if the block succeeds; remove it if the block fails.

    Leftovers of a killed process are removed first. A folder replaces an existing folder only if both hold a file of the same name (so
    they hold the same kind of result), or if the existing one is empty. A file never replaces a folder.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    _remove(temporary)
    try:
        yield temporary
        if temporary.is_file():
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
        if path.is_dir():
            old, new = ({p.name for p in folder.iterdir()} if folder.is_dir() else set() for folder in (path, temporary))
            if temporary.is_file() or (old and not old & new):
                raise UserError(f"{path}: a folder with other content is in the way; name another output or move it away")
            shutil.rmtree(path)
        seal = seal_of(path)
        seal.unlink(missing_ok=True)  # a kill from here on leaves the new file without a seal, never with the old one
        checksum = sha256(temporary) if temporary.is_file() and path.parts[0] in SEALED else None
        os.replace(temporary, path)
        if checksum:
            _write_seal(seal, checksum)
    finally:
        _remove(temporary)


def seal_of(path: str | Path) -> Path:
    """Where the checksum of a file is kept, which `read_text` compares: beside it, in a hidden folder."""
    path = Path(path)
    return path.parent / ".seals" / path.name


def _write_seal(seal: Path, checksum: str) -> None:
    seal.parent.mkdir(exist_ok=True)
    temporary = seal.with_name(f".{seal.name}.tmp")
    temporary.write_text(checksum + "\n", encoding="ascii")
    os.replace(temporary, seal)


def check_seal(path: str | Path, data: bytes | None = None) -> None:
    """Raise a `UserError` if a file is not what was written. `data`: its content, if it has been read. A file without a seal was not
    written by this project's programs, and is not checked."""
    seal = seal_of(path)
    try:
        expected = seal.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return
    if expected != (sha256(path) if data is None else hashlib.sha256(data).hexdigest()):
        raise UserError(
            f"{path}: the content is not what was written (checksum differs); delete it and run again, or delete {seal} if you changed"
            " it yourself"
        )


def check_seals(folder: str | Path) -> None:
    """Check every sealed file below a folder. One that is gone is none of its matters: the workflow makes it again."""
    for seal in sorted(Path(folder).rglob(".seals/*")):
        path = seal.parent.parent / seal.name
        if path.is_dir():
            raise UserError(f"{path}: expected a file, found a folder; delete it and run again")
        if path.exists():
            check_seal(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write text. A `.gz` file is compressed without name and time, so that equal texts give equal files."""
    with atomic(path) as temporary:
        # A completion that ends within a character may hold half a surrogate pair, which UTF-8 cannot encode: write "?" for it.
        data = text.encode("utf-8", "replace")
        if str(path).endswith(".gz"):
            buffer = io.BytesIO()
            with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", mtime=0, compresslevel=6) as stream:
                stream.write(data)
            data = buffer.getvalue()
        temporary.write_bytes(data)


def read_text(path: str | Path, errors: str = "strict") -> str:
    """Read UTF-8 text and decompress `.gz`. Raise a `UserError` if the file is missing, truncated or garbled.

    `errors` is the parameter of `bytes.decode`: how to treat bytes that are not UTF-8.
    """
    try:
        data = Path(path).read_bytes()
        check_seal(path, data)
        if str(path).endswith(".gz"):
            data = gzip.decompress(data)
        return data.decode("utf-8", errors)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: expected a file, found a folder") from None
    except (EOFError, zlib.error, OSError) as error:
        if isinstance(error, PermissionError):
            raise UserError(f"{path}: cannot be read: {error.strerror}") from None
        raise UserError(f"{path}: the file is truncated or damaged ({error}); delete it and run again") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start}: not UTF-8 text; save the file as UTF-8") from None


def write_json(path: str | Path, value: dict, sort_keys: bool = False) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=sort_keys) + "\n")


def write_jsonl(path: str | Path, rows: Iterable[dict]) -> None:
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def read_jsonl(path: str | Path, keys: dict[str, type | tuple[type, ...]], errors: str = "strict") -> list[dict]:
    """The rows of a JSON Lines file: at least one, each an object that has at least `keys`, with the given types."""
    rows = []
    for number, line in enumerate(read_text(path, errors).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(
                f"{path}: line {number}, column {error.colno}: not valid JSON ({error.msg}); expected one JSON object a line"
                " (if this is the last line, the file may be truncated)"
            ) from None
        if not isinstance(row, dict):
            raise UserError(f"{path}: line {number}: expected a JSON object, found {type(row).__name__}")
        for key, types in keys.items():
            if key not in row or row[key] is None:
                raise UserError(f"{path}: line {number}: '{key}' is missing; found {', '.join(row) or 'nothing'}")
            if not isinstance(row[key], types) or isinstance(row[key], bool) and bool not in _as_tuple(types):
                expected = " or ".join(t.__name__ for t in _as_tuple(types))
                raise UserError(f"{path}: line {number}: '{key}' is {type(row[key]).__name__}, expected {expected}")
        rows.append(row)
    if not rows:
        raise UserError(f"{path}: the file has no rows; expected at least one JSON object")
    return rows


def _as_tuple(types) -> tuple:
    return types if isinstance(types, tuple) else (types,)


def write_rows(path: str | Path, columns: list[str], rows: Iterable[dict]) -> None:
    """Write a CSV file with exactly `columns`. None becomes an empty cell; floats keep every digit (repr)."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n", extrasaction="raise")
    writer.writeheader()
    for row in rows:
        writer.writerow({column: _cell(row[column]) for column in columns} | {k: v for k, v in row.items() if k not in columns})
    write_text(path, buffer.getvalue())


def rounded(rows: Iterable[dict]) -> list[dict]:
    """Round numbers to ten significant digits: more than anyone needs, and equal on every machine."""
    return [{key: float(f"{value:.10g}") if isinstance(value, float) else value for key, value in row.items()} for row in rows]


def _cell(value):
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return int(value) if isinstance(value, bool) else value


def read_rows(path: str | Path, columns: dict[str, Callable], optional: dict[str, Callable] | None = None) -> list[dict]:
    """The rows of a CSV file that has at least `columns`, with converted cells. Empty cells and missing optional columns are None."""
    reader = csv.DictReader(io.StringIO(read_text(path)))
    missing = [column for column in columns if column not in (reader.fieldnames or [])]
    if missing:
        raise UserError(f"{path}: column '{missing[0]}' is missing; expected {', '.join(columns)}")
    rows = []
    for number, raw in enumerate(reader, start=2):
        row = dict.fromkeys(optional or {})
        found = columns | {column: convert for column, convert in (optional or {}).items() if column in raw}
        for column, convert in found.items():
            cell = raw[column]
            if cell is None:
                raise UserError(f"{path}: row {number}: the row ends before column '{column}'; the file may be truncated")
            try:
                row[column] = convert(cell) if cell != "" else None
            except ValueError:
                raise UserError(f"{path}: row {number}: column '{column}' is '{cell}', expected {convert.__name__}") from None
        rows.append(row)
    return rows


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where that is impossible (another disk, another owner)."""
    source = source.resolve()  # a hub's cache holds symbolic links
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def sha256(path: str | Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_json(path: str | Path, name: str | None = None, remedy: str = "delete it and run again") -> dict:
    """Read a JSON object. Raise a `UserError` for anything else; its message calls the file `name` (default: the path)."""
    name = name or str(path)
    try:
        value = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise UserError(f"{name}: line {error.lineno}, column {error.colno}: not valid JSON ({error.msg}); {remedy}") from None
    if not isinstance(value, dict):
        raise UserError(f"{name}: expected a JSON object, found {type(value).__name__}; {remedy}")
    return value


def listing(folder: str | Path) -> dict[str, dict]:
    """{path relative to the folder: {"bytes": size, "sha256": checksum}} of all its files, sorted."""
    folder = Path(folder)
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Tables(dict[str, Path]):
    """The files of tables by name: `gains` stands for .../gains.csv."""

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


def add_tables(parser: argparse.ArgumentParser) -> None:
    """The argument of programs that read a study's tables: their files, found by name."""
    parser.add_argument("--tables", required=True, nargs="+", action=_AsTables, metavar="CSV", help="files of the study's tables")
