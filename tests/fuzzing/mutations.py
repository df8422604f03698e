"""Make hostile files, values and texts from valid ones. All random choices come from argument
`rng`."""

import contextlib
import csv
import io
import json
import random
from collections.abc import Callable

import yaml

DEEP = 100_000  # levels of nesting, more than any parser's stack can hold

# Hostile values for a cell, for an entry of JSON or YAML, and for an argument.
NUMBERS = [
    0,
    -1,
    1,
    2,
    2**31,
    2**63,
    -(2**63),
    10**18,
    10**400,
    0.5,
    1.0,
    -0.5,
    1e-320,
    1e308,
    float("nan"),
    float("inf"),
    -float("inf"),
]
TEXTS = [
    "", " ", "\t", "0", "-0", "00", "007", "1e400", "1_0", "0x10", "nan", "NaN", "inf", "-inf", "None", "null", "true", "False", "NA", "#N/A",
    "٣", "１２", "½", "9" * 5000, "x" * 200_000, "ünï", "日本", "a\nb", "a\r\nb", "a\rb", "a\x00b", "\ufeff", "\u202etxt.exe", "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07", "'", '"', '""', "`id`", "$(id)", "; id", "../../x", "/etc/passwd", "=1+1", "@SUM(A1)", "{", "}", "{}", "{question}",
    "\\", "\\n", "%s", "%d" * 50, "<b>", "&amp;", "\\input{/etc/passwd}", "\u2028", "\ud83d", "#### 7", "\\boxed{7}", "p0", "(A)",
]  # fmt: skip
STRUCTURES = [None, True, False, [], {}, [[]], [None], {"": None}, {"id": {}}, ["a", "a"], [1, "a"]]
VALUES = [*NUMBERS, *TEXTS, *STRUCTURES]


# Errors of a change that is impossible because an earlier change broke the file's syntax or shape.
NOTHING_TO_CHANGE = (
    *(LookupError, TypeError, ValueError, OverflowError, RecursionError),
    *(csv.Error, yaml.YAMLError),
)


def mutated(rng: random.Random, data: bytes, kind: str) -> bytes:
    """A file after at most three changes. `kind` is jsonl, json, csv or yaml, or binary, which
    originals.py adds to STRUCTURED."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change = rng.choice(STRUCTURED[kind] if rng.random() < 0.65 else BYTES)
        with contextlib.suppress(*NOTHING_TO_CHANGE):
            data = change(rng, data)
    return data


# --- bytes


def flip(rng, data):
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 8))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def truncate(rng, data):
    return data[: rng.randrange(len(data))]


def empty(rng, data):
    return rng.choice((b"", b"\n", b" ", b"\n\n\n", b"\x00" * 100))


def insert(rng, data):
    place = rng.randrange(len(data) + 1)
    piece = rng.choice((b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b'"', b"'", b"\r", b"\n", b",", b"{", b"[", b"&", b"*", b"!", b"\x1b[2J",
                        "\u2028".encode(), "\u202e".encode(), b"9" * 5000, b"#", b"---\n", b"<<<<<<< HEAD\n", b"\x85", b"\t"))  # fmt: skip
    return data[:place] + piece + data[place:]


def replaced_piece(rng, data):
    start = rng.randrange(len(data))
    length = rng.choice((1, 4, 40))
    return data[:start] + bytes(rng.randrange(256) for _ in range(length)) + data[start + length :]


def repeated_piece(rng, data):
    start = rng.randrange(len(data))
    end = start + rng.choice((1, 20, len(data)))
    return data[:end] + data[start:end] * rng.choice((1, 2, 50)) + data[end:]


def recoded(rng, data):
    text = data.decode()
    return rng.choice((
        lambda: text.encode("utf-16"), lambda: text.encode("utf-32"), lambda: text.encode("latin-1", "replace"), lambda: text.encode("utf-8-sig"),
        lambda: text.encode("utf-7"), lambda: text.encode("cp037", "replace"), lambda: text.replace("\n", "\r\n").encode(), lambda: text.replace("\n", "\r").encode(),
    ))()  # fmt: skip


def nested(rng, data):
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}"), ("- ", ""), ("(", ")")))
    deep = opening * DEEP + ("1" + closing * DEEP if rng.random() < 0.5 else "")
    place = rng.choice((0, len(data)))
    return data[:place] + deep.encode() + data[place:]


BYTES: list[Callable] = [
    flip,
    truncate,
    empty,
    insert,
    replaced_piece,
    repeated_piece,
    recoded,
    nested,
]


# --- structure


def value(rng, old=None):
    """A value in place of `old`: one of VALUES, a value similar to `old`, or a value of another
    type that looks like `old`."""
    if rng.random() < 0.3 and isinstance(old, (int, float)) and not isinstance(old, bool):
        return rng.choice((old + 1, old - 1, -old, old * 1000, float(old), str(old), [old]))
    if rng.random() < 0.2 and isinstance(old, str):
        return rng.choice(
            (
                old + " ",
                " " + old,
                old + "\n",
                old.upper(),
                old * 2,
                [old],
                {"x": old},
                old + rng.choice(TEXTS),
            )
        )
    return rng.choice(VALUES)


def as_json(entry) -> str:
    return json.dumps(entry, ensure_ascii=True)


def places(nested_value, path=()) -> list[tuple]:
    """The paths of all entries at any depth inside a nested value."""
    inner = (
        nested_value.items()
        if isinstance(nested_value, dict)
        else enumerate(nested_value)
        if isinstance(nested_value, list)
        else ()
    )
    return [place for key, entry in inner for place in [(*path, key), *places(entry, (*path, key))]]


def changed(rng, nested_value):
    """Replace, remove, rename, exchange or add one entry of a nested value in place, and return the
    nested value."""
    path = rng.choice(places(nested_value))
    parent = nested_value
    for key in path[:-1]:
        parent = parent[key]
    key, action = path[-1], rng.randrange(10)
    if action < 6:
        parent[key] = value(rng, parent[key])
    elif action == 6:
        del parent[key]
    elif isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), rng.choice((parent[key], value(rng))))
    elif action == 7:
        parent[rng.choice((key + "x", key.upper(), " " + key, "id", ""))] = parent.pop(key)
    elif action == 8:
        other_key = rng.choice(list(parent))
        parent[key], parent[other_key] = parent[other_key], parent[key]
    else:
        parent[rng.choice(TEXTS)] = value(rng)
    return nested_value


def _json(rng, data):
    return as_json(changed(rng, json.loads(data))).encode()


def _jsonl(rng, data):
    lines = data.decode().split("\n")
    number = rng.randrange(len(lines) - 1)
    lines[number] = as_json(changed(rng, json.loads(lines[number])))
    return "\n".join(lines).encode()


def _twice_in_json(rng, data):
    """A JSON object with a repeated key."""
    text = data.decode()
    place = text.index("{", rng.randrange(len(text) // 2)) + 1
    key = text[place:].split('"')[1]
    return (text[:place] + f'"{key}": {as_json(value(rng))}, ' + text[place:]).encode()


def _lines(rng, data):
    lines = data.decode().split("\n")
    place, other_place = rng.randrange(len(lines)), rng.randrange(len(lines))
    rng.choice((
        lambda: lines.pop(place), lambda: lines.insert(other_place, lines[place]), lambda: lines.insert(other_place, ""), lambda: lines.insert(place, as_json(value(rng))),
        lambda: lines.__setitem__(slice(None), lines[:1] + lines[:0:-1]),
    ))()  # fmt: skip
    return "\n".join(lines).encode()


def _csv(rng, data):
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    row, column = rng.randrange(len(rows)), rng.randrange(len(rows[0]))
    other_column = rng.randrange(len(rows[0]))

    def exchange():
        for cells in rows:
            cells[column], cells[other_column] = cells[other_column], cells[column]

    def exchange_cells():  # without the header
        for cells in rows[1:]:
            cells[column], cells[other_column] = cells[other_column], cells[column]

    def take_out():
        for cells in rows:
            del cells[column]

    def double():
        for cells in rows:
            cells.append(
                cells[column] if cells is rows[0] or rng.random() < 0.5 else str(value(rng))
            )

    def set_cell():
        rows[row][column] = str(value(rng, rows[row][column]))

    rng.choice((set_cell, set_cell, set_cell, set_cell, exchange, exchange_cells, take_out, double, lambda: rows[row].append("x"),
                lambda: rows[row].pop(), lambda: rows.append(list(rows[row])), lambda: rows.pop(row)))()  # fmt: skip
    buffer = io.StringIO()
    csv.writer(
        buffer,
        lineterminator=rng.choice(("\n", "\n", "\r\n")),
        quoting=rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)),
    ).writerows(rows)
    return buffer.getvalue().encode()


def _yaml(rng, data):
    if b"*a" in data:  # an earlier change added an alias (BOMB would be too large to change)
        return data
    return yaml.safe_dump(changed(rng, yaml.safe_load(data)), sort_keys=False).encode()


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)


def _yaml_tricks(rng, data):
    trick = rng.choice((BOMB, "a: &a [*a]\n", "a: !!python/object/apply:os.system [id]\n", "? [1, 2]\n: x\n", "<<: 5\n", "2020-01-01: 2020-13-45\n",
                        "a: 0o17\n", "a: 1:30\n", "on: off\n", "a: .nan\n", "a: !!binary x\n", "- a\n", "%YAML 9.9\n---\n", "a: 2020-99-99\n"))  # fmt: skip
    return data + b"\n" + trick.encode() if rng.random() < 0.5 else trick.encode() + data


STRUCTURED: dict[str, list[Callable]] = {
    "json": [_json, _json, _json, _twice_in_json],
    "jsonl": [_jsonl, _jsonl, _jsonl, _lines, _twice_in_json],
    "csv": [_csv, _csv, _csv, _lines],
    "yaml": [_yaml, _yaml, _yaml_tricks],
}
