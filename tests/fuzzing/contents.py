"""Valid files of every format, small enough to mutate a thousand times a minute, and independent
readers of the mutated files. These readers share no code with the project's readers."""

import csv
import io
import json
import re
from pathlib import Path

import yaml

import project_config
from hardgrpo.data.question_ids import question_id

ROOT = Path(__file__).parents[2]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


PROBLEMS = [
    {
        "id": f"p{i}",
        "question": f"q {i}?",
        "answer": f"({'ABC'[i % 3]})",
        "tier": 1 + i % 3,
        "source": "f",
        "row": i,
    }
    for i in range(8)
]
COMPLETIONS = [
    {
        "id": f"p{i}",
        "sample": k,
        "seed": 1,
        "completion": rf"\boxed{{({'ABC'[k % 3]})}}",
        "tokens": 3,
        "finish_reason": "stop",
    }
    for i in range(8)
    for k in range(4)
]
RECORDING = [{"question": f"q {i}?", "answer": f"({'ABC'[i % 3]})", "completions": [rf"\boxed{{({c})}}" for c in "ABCA"], "tokens": [3, 3, 3, 3]} for i in range(8)]  # fmt: skip
SIGNALS = [{"id": f"p{i}", "samples": 4, "agreement": i / 8, "entropy": i / 9, "answered_share": 1.0, "mean_tokens": 3.0, "log_probability": -0.5} for i in range(8)]  # fmt: skip
RATES = [{"id": f"p{i}", "tier": 1, "samples": 4, "pass_rate": i / 8} for i in range(8)]
LOCK = {
    "datasets": {"a/b@c": {"x.json": {"bytes": 3, "sha256": "0" * 64}}},
    "problems": {"t": {"train": {"rows": 3, "sha256": "1" * 64}}},
}
SPEC = {
    "model": "m", "task": "t", "policy": "p", "recipe": "r", "seed": 0, "model_folder": "results/models/m", "problems": "P.jsonl", "subset": "s.csv",
    "prompt": "{question}", "chat": {}, "grader": "final_word", "completion_tokens": 10,
    "training": project_config.config()["recipes"]["mini"],
}  # fmt: skip


def jsonl(rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def table(rows) -> bytes:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().encode()


QUESTIONS = [{"id": row["id"], "question": row["question"]} for row in PROBLEMS]
TO_ANNOTATE = [{"question": row["question"], "answer": row["answer"] if index % 2 else "", "prompt_id": question_id(row["question"]), "chosen_because": "hard"} for index, row in enumerate(PROBLEMS)]  # fmt: skip
TEXTS = [
    {"question": row["question"], "answer": row["answer"], "tier": row["tier"]} for row in PROBLEMS
]
EPOCHS = [
    {"id": f"p{i}", "epoch": epoch, "correct": (i + epoch) % 4, "rollouts": 4}
    for epoch in range(3)
    for i in range(4)
]
SUBSET = [
    {"id": name, "pass_rate": 0.25, "rank": rank}
    for rank, name in enumerate(("p3", "p1", "p2"), start=1)
]
FACTS = {
    "policy": {"rule": "hard", "budget": 0.4},
    "seed": 0,
    "pool": 8,
    "prompts": 3,
    "mean_pass_rate": 0.25,
}
CHECKSUM = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"  # SHA-256 of b"foo"
SETTINGS = {"auto_map": {}, "model_type": "qwen3", "vocab_size": 10}
INDEX = {"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
CLAIMS = yaml.safe_load((ROOT / "paper/claims.yaml").read_text(encoding="utf-8"))[:3]


# --- independent readers


def decode_text(data: bytes) -> str:
    return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")


def parse_jsonl(data: bytes) -> list:
    return [parse_json(line) for line in decode_text(data).split("\n") if line.strip()]


def parse_json(text: str | bytes):
    def once(pairs):
        assert len(dict(pairs)) == len(pairs), f"a key occurs twice: {[key for key, _ in pairs]}"
        return dict(pairs)

    def constant(name):
        raise AssertionError(f"accepted {name}, which is not valid JSON")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise AssertionError(f"accepted a text that is not valid JSON: {error}") from None


def parse_csv(data: bytes) -> list[dict[str, str]]:
    csv.field_size_limit(2**31)
    header, *rows = filter(
        None, csv.reader(io.StringIO(decode_text(data), newline=""), strict=True)
    )
    assert len(set(header)) == len(header), f"a column occurs twice: {header}"
    assert all(len(row) == len(header) for row in rows), (
        "rows have more or fewer cells than the header"
    )
    return [dict(zip(header, row)) for row in rows]


def parse_table(data: bytes) -> list[dict[str, str]]:
    """Read a user's table, to which a spreadsheet program may have added empty rows, and empty
    cells after the last column."""
    csv.field_size_limit(2**31)
    header, *rows = filter(
        None, csv.reader(io.StringIO(decode_text(data), newline=""), strict=True)
    )
    assert not any("".join(row[len(header) :]).strip() for row in rows), (
        "a row has more cells than the header"
    )
    rows = [row[: len(header)] for row in rows if "".join(row).strip()]
    return parse_csv(table_of([header, *rows]))


def table_of(rows: list[list[str]]) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, quoting=csv.QUOTE_ALL).writerows(rows)
    return buffer.getvalue().encode("utf-8", "surrogatepass")


def number(cell: str) -> float | None:
    """The number in a cell; None for an empty cell."""
    assert cell == "" or NUMBER.fullmatch(cell) or cell in ("inf", "-inf"), (
        f"accepted as a number: {cell[:60]!r}"
    )
    return float(cell) if cell else None


def value_when_read(value):
    """The value that is read after `value` is written to a file: half a surrogate pair becomes a
    question mark."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def checkpoints() -> dict[str, bytes]:
    """The files of two checkpoints of a run, by path."""
    listed = json.dumps({"files": {"x": {"bytes": 3, "sha256": CHECKSUM}}}).encode()
    each = {
        f"checkpoints/step-{step}/{name}": data
        for step in (2, 4)
        for name, data in (("manifest.json", listed), ("x", b"foo"))
    }
    return {"checkpoints/manifest.json": b'{"steps": [2, 4], "files": {}}'} | each
