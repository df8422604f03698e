"""Targets: the arguments of the programs in CALLS, which need no network and no batch system. The
programs that load a model end with an error, because their model, settings or specification is
missing or empty. Outputs stay in the case's folder."""

import copy
import json
import os
import random
from dataclasses import dataclass
from pathlib import Path

import project_config
from command_line import format_options
from fuzzing import contents, mutations
from fuzzing.contents import ROOT, jsonl, table
from fuzzing.judge import run_program

CONFIG = project_config.config()
FILES = {
    "P.jsonl": jsonl(contents.PROBLEMS), "C.jsonl": jsonl(contents.COMPLETIONS), "Q.jsonl": jsonl(contents.QUESTIONS), "R.jsonl": jsonl(contents.RECORDING),
    "D.csv": table(contents.RATES), "G.csv": table(contents.SIGNALS), "S.csv": table(contents.SUBSET), "S.json": json.dumps(contents.FACTS).encode(),
    "T.csv": table(contents.EPOCHS), "to.csv": table(contents.TO_ANNOTATE), "rows.csv": table(contents.TEXTS), "empty": b"", "config.yaml": (ROOT / "config.yaml").read_bytes(),
}  # fmt: skip
POLICY = {"rule": "hard", "budget": 0.25}
TABLES = [str(path) for path in sorted((ROOT / "results/reference/mini").glob("*.csv"))]
# options that name an output: their values must stay inside the case's folder
OUTPUTS = ("--output", "--later", "--state", "--output-graded", "--captions")
OUTPUT_PATHS = [
    "out",
    "folder",
    "a/b/c/out.csv",
    "P.jsonl/out",
    "x" * 300,
    "a b'\"$(id)`;&",
    "ünï.csv",
    ".",
    "",
]
SMALL_VALUES = [
    value
    for value in mutations.VALUES
    if not (isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) > 10)
]
NO_MODEL_OPTIONS = format_options(
    model="none", problems="P.jsonl", prompt="{question}", completion_tokens="5"
)

CALLS: dict[str, list[str]] = {
    "format_subset": ["--subset", "S.csv", "--problems", "P.jsonl", "--prompt", "{question}", "--task", "t", "--format", "verl", "--output", "out.parquet"],
    "read_annotated": ["--problems", "P.jsonl", "--annotated", "to.csv", "--column", "answer", "--grader", "choice_letter", "--output", "out.jsonl"],
    "import_recording": ["--recording", "R.jsonl", "--problems", "P.jsonl", "--output", "out.jsonl.gz"],
    "import_trajectory": ["--trajectory", "T.csv", "--chosen-from", "1", "--difficulty", "out.csv", "--later", "later.csv"],
    "grade_recording": ["--problems", "P.jsonl", "--recordings", "R.jsonl", "--steps", "5", "--grader", "choice_letter", "--output", "out.csv.gz", "--completions", "out.jsonl.gz"],
    "calibrate": ["--config", "config.yaml", "--gpu", "h100", "--results", "folder", "--output", "out.json"],
    "compare_with_reference": ["--tables", next(path for path in TABLES if "decomposition_runs" in path), "--reference", next(path for path in TABLES if "decomposition_runs" in path), "--output", "out.csv"],
    "show_results": ["--study", "mini", "--tables", *TABLES],
    "probe": [*NO_MODEL_OPTIONS, "--samples", "2", "--seed", "1", "--shard", "0", "--shards", "1", "--output", "out.jsonl"],
    "evaluate": [*NO_MODEL_OPTIONS, "--samples", "2", "--seed", "1", "--grader", "choice_letter", "--output", "out.csv.gz", "--completions", "out.jsonl.gz"],
    "train_grpo": ["--spec", "empty", "--output", "out", "--state", "state"],
    "prune_checkpoints": ["--checkpoints", "checkpoints", "--output", "out.json"],
}  # fmt: skip


@dataclass(frozen=True)
class Target:
    program: str

    def run(self, rng: random.Random, folder: Path) -> None:
        for name, data in FILES.items():
            (folder / name).write_bytes(data)
        (folder / "folder").mkdir()
        for name, data in contents.checkpoints().items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        earlier_folder = os.getcwd()
        os.chdir(folder)
        try:
            run_program(self.program, *change_arguments(rng, CALLS[self.program]))
        finally:
            os.chdir(earlier_folder)
        assert sorted(path.name for path in folder.glob(".*tmp")) == [], "half-written files remain"


def change_arguments(rng: random.Random, arguments: list[str]) -> list[str]:
    """The arguments after one or two changes."""
    changed_arguments = list(arguments)
    outputs = {*OUTPUTS} | {
        option
        for option, value in zip(arguments, arguments[1:])
        if value.startswith(("out", "later"))
    }
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(len(changed_arguments))
        option = next(
            (word for word in reversed(changed_arguments[: place + 1]) if word.startswith("--")), ""
        )
        is_output = option in outputs or changed_arguments[place].startswith(("out", "later"))
        if rng.random() < 0.1:
            del changed_arguments[place]
        elif rng.random() < 0.05:
            changed_arguments.append(draw_text(rng) if not is_output else "x")
        elif changed_arguments[place].startswith("--") and rng.random() < 0.5:
            changed_arguments.insert(
                place, rng.choice(("--unknown", "--", "-", "--help-me", "--output=out2"))
            )
        elif is_output:
            changed_arguments[place] = (
                rng.choice(OUTPUT_PATHS) if changed_arguments[place] != option else option
            )
        elif changed_arguments[place][:1] in "{[" and rng.random() < 0.8:
            try:
                changed_arguments[place] = json.dumps(
                    change_entry(rng, json.loads(changed_arguments[place]))
                )
            except (ValueError, RecursionError):
                changed_arguments[place] = "[" * mutations.DEEP
        else:
            changed_arguments[place] = rng.choice(
                (
                    draw_text(rng),
                    rng.choice(list(FILES)),
                    "folder",
                    "missing",
                    str(rng.choice(mutations.NUMBERS)),
                )
            )
    return changed_arguments


def change_entry(rng: random.Random, value):
    """A copy of a nested value with one entry deleted or replaced by a small value. A large value,
    such as 10^9 problems, would be a valid request that takes hours."""
    copied_value = copy.deepcopy(value)
    path = rng.choice(mutations.places(copied_value))
    parent = copied_value
    for key in path[:-1]:
        parent = parent[key]
    if rng.random() < 0.2 and isinstance(parent, dict):
        del parent[path[-1]]
    else:
        parent[path[-1]] = rng.choice(SMALL_VALUES)
    return copied_value


def draw_text(rng: random.Random) -> str:
    """Text that the operating system accepts as an argument: no NUL, no lone surrogates, limited
    length."""
    return (
        str(rng.choice(mutations.TEXTS))
        .replace("\x00", "")
        .encode("utf-8", "replace")
        .decode()[:5000]
    )


TARGETS = {name: Target(name) for name in CALLS}
