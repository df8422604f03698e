"""Targets: files of every format. A case mutates one file of its target and calls the program or
function that reads this file.

The reader must return the content of each file that it accepts. contents.py reads the file
independently of the project's readers, and rejects ambiguous files: repeated keys or columns, rows
with more or fewer cells than the header, numbers that cannot be parsed.
"""

import gzip
import json
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from fuzzing import contents, mutations
from fuzzing.contents import (
    ROOT,
    SPEC,
    jsonl,
    number,
    parse_csv,
    parse_json,
    parse_jsonl,
    parse_table,
    table,
    value_when_read,
)
from fuzzing.judge import run_program
from hardgrpo.analysis import claims, published, summaries
from hardgrpo.data import (
    completions,
    evaluations,
    inputs,
    solutions,
    sources,
    spreadsheets,
    tasks,
    trajectory_files,
)
from hardgrpo.data.question_ids import normalize_spaces
from hardgrpo.planning import calibration
from hardgrpo.runtime import files, provenance
from hardgrpo.study.spec import Spec

# --- targets


@dataclass(frozen=True)
class Target:
    """`contents` is {name of a file: (content, kind of its mutations)}. `read` reads the files in a
    folder and checks the result. `kept` holds the names of files that are not mutated."""

    contents: dict[str, tuple[bytes, str]]
    read: Callable[[Path], None]
    kept: tuple[str, ...] = ()

    def run(self, rng: random.Random, folder: Path) -> None:
        data_by_name = {name: data for name, (data, _) in self.contents.items()}
        name = rng.choice([name for name in data_by_name if name not in self.kept])
        kind = self.contents[name][1]
        data_by_name[name] = mutations.mutated(rng, data_by_name[name], kind)
        for file, data in data_by_name.items():
            if file.endswith(".gz"):
                data = gzip.compress(data, 1)
                if file == name and rng.random() < 0.2:
                    data = rng.choice(mutations.BYTES[:5])(rng, data)
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(data)
        self.read(folder)


def plain(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def difficulty(folder):
    run_program(
        "measure_difficulty",
        problems=folder / "P.jsonl",
        completions=folder / "C.jsonl.gz",
        grader="choice_letter",
        output=folder / "D.csv",
    )
    problems, samples = (
        parse_jsonl(plain(folder / "P.jsonl")),
        parse_jsonl(plain(folder / "C.jsonl.gz")),
    )
    rates = {row["id"]: number(row["pass_rate"]) for row in parse_csv(plain(folder / "D.csv"))}
    assert set(rates) <= {str(problem["id"]) for problem in problems}
    for problem in problems:
        texts = [
            sample["completion"] for sample in samples if str(sample["id"]) == str(problem["id"])
        ]
        stated = [re.findall(r"\\boxed\{ *([^{}]*?) *\}", text)[-1:] for text in texts]
        if str(problem["id"]) in rates:
            right = sum(answer == [str(problem["answer"]).strip()] for answer in stated)
            assert rates[str(problem["id"])] == right / len(texts), problem["id"]


def select(folder):
    run_program(
        "select_subset",
        difficulty=folder / "D.csv",
        policy='{"rule": "hard", "budget": 0.25}',
        seed=0,
        output=folder / "S.csv",
    )
    rates = {row["id"]: number(row["pass_rate"]) for row in parse_csv(plain(folder / "D.csv"))}
    assert_lowest(rates, parse_csv(plain(folder / "S.csv")), len(rates) // 4)


def select_by_signal(folder):
    policy = '{"rule": "lowest", "by": "agreement", "budget": 0.25}'
    run_program(
        "select_subset", signals=folder / "G.csv", policy=policy, seed=0, output=folder / "S.csv"
    )
    rows = parse_csv(plain(folder / "G.csv"))
    values = {row["id"]: number(row["agreement"]) for row in rows}
    assert all(value is None or 0 <= value <= 1 for value in values.values()), (
        "an agreement is not between 0 and 1"
    )
    assert_lowest(
        {name: value for name, value in values.items() if value is not None},
        parse_csv(plain(folder / "S.csv")),
        len(rows) // 4,
    )


def assert_lowest(values: dict[str, float], subset: list[dict], size: int) -> None:
    chosen = [row["id"] for row in subset]
    assert set(chosen) <= set(values) and len(set(chosen)) == len(chosen)
    assert "" not in values and not any(map(math.isnan, values.values()))
    assert len(chosen) == size, (len(chosen), size)
    assert max(values[name] for name in chosen) <= min(
        (values[name] for name in values if name not in chosen), default=math.inf
    )


def predicted(folder):
    policy = '{"rule": "nearest_half", "by": "predicted", "budget": 0.75, "calibrated_on": 0.5}'
    run_program(
        "select_subset",
        signals=folder / "G.csv",
        sample=folder / "X.csv",
        policy=policy,
        seed=0,
        output=folder / "S.csv",
    )
    sampled_rates = {
        row["id"]: number(row["pass_rate"]) for row in parse_csv(plain(folder / "X.csv"))
    }
    assert all(rate is not None and 0 <= rate <= 1 for rate in sampled_rates.values())
    ids = {row["id"] for row in parse_csv(plain(folder / "G.csv"))}
    assert (
        set(sampled_rates) <= ids
        and {row["id"] for row in parse_csv(plain(folder / "S.csv"))} <= ids
    )


def prompts(name: str):
    def read(folder):
        problems = tasks.prepare(
            "t", {"kind": "files", "train": name}, "train", [str(folder / name)]
        )
        data = plain(folder / name)
        if name.endswith(".csv"):
            rows = parse_table(data)
        else:
            rows = parse_jsonl(data)
        assert [(p["question"], p["answer"]) for p in problems] == [
            (str(row["question"]), str(row["answer"])) for row in rows
        ]
        assert len({problem["id"] for problem in problems}) == len(rows)
        path = folder / "out.jsonl"
        files.write_jsonl(path, problems)
        assert tasks.read_problems(path) == value_when_read(problems), (
            "rows differ after they were written and read again"
        )

    return read


def big_bench(folder):
    rows = sources.read_rows(folder / "B.json")
    assert rows == [
        {"input": str(row["input"]), "target": str(row["target"])}
        for row in parse_json(plain(folder / "B.json"))["examples"]
    ]


def export(folder):
    run_program(
        "export_subset",
        subset=folder / "S.csv",
        facts=folder / "S.json",
        problems=folder / "P.jsonl",
        files=folder / "rows.csv",
        to_annotate="answer",
        output=folder / "out.csv",
    )
    exported_rows, ids = (
        parse_csv(plain(folder / "out.csv")),
        [row["id"] for row in parse_csv(plain(folder / "S.csv"))],
    )
    assert [row["id"].removeprefix("'") for row in exported_rows] == [
        problem_id.removeprefix("'") for problem_id in ids
    ]
    texts = {str(row["id"]): row["question"] for row in parse_jsonl(plain(folder / "P.jsonl"))}
    assert all(
        texts[name] in map(spreadsheets.unescape_formulas, row.values())
        for name, row in zip(ids, exported_rows)
    )


def annotated(name: str):
    def read(folder):
        run_program(
            "read_annotated",
            problems=folder / "P.jsonl",
            annotated=folder / name,
            column="answer",
            grader="choice_letter",
            output=folder / "A.jsonl",
        )
        data = plain(folder / name)
        rows = parse_table(data) if name.endswith("csv") else parse_jsonl(data)
        normalize = lambda text: normalize_spaces(spreadsheets.unescape_formulas(str(text or "")))
        questions = {
            str(row["id"]): normalize(row["question"])
            for row in parse_jsonl(plain(folder / "P.jsonl"))
        }
        # an answer belongs to the question of its row, or to its id if the row has no question
        written = {
            (
                normalize(row.get("question")) or questions.get(str(row["id"])),
                str(row["answer"]).strip(),
            )
            for row in rows
        }
        for row in parse_jsonl(plain(folder / "A.jsonl")):
            assert (questions[row["id"]], row["answer"]) in written

    return read


def recording(folder):
    problems = tasks.read_problems(folder / "P.jsonl")
    samples_by_problem = completions.read_recording(str(folder / "R.jsonl"), problems)
    rows = {row["question"]: row for row in parse_jsonl(plain(folder / "R.jsonl"))}
    for problem in problems:
        row = rows.pop(problem["question"])
        assert [sample["completion"] for sample in samples_by_problem[problem["id"]]] == row[
            "completions"
        ]
        for sample in samples_by_problem[problem["id"]]:
            assert (
                sample["tokens"] is None or type(sample["tokens"]) is int and sample["tokens"] >= 0
            ), sample["tokens"]
            assert sample["finish_reason"] is None or isinstance(sample["finish_reason"], str)
    assert not rows


def graded_recording(folder):
    run_program(
        "grade_recording",
        problems=folder / "P.jsonl",
        recordings=folder / "R.jsonl",
        steps=5,
        grader="choice_letter",
        output=folder / "e.csv.gz",
        completions=folder / "e.jsonl.gz",
    )
    assert len(evaluations.read(str(folder / "e.csv.gz"))) == len(
        parse_jsonl(plain(folder / "e.jsonl.gz"))
    )


def choices(folder):
    run_program(
        "compare_choices",
        recording=folder / "R.jsonl",
        grader="choice_letter",
        budget=0.5,
        draws=5,
        output=folder / "c.csv",
    )
    assert {row["pool"] for row in parse_csv(plain(folder / "c.csv"))} == {
        str(len(parse_jsonl(plain(folder / "R.jsonl"))))
    }


def signals(folder):
    run_program(
        "measure_signals",
        questions=folder / "Q.jsonl",
        completions=folder / "C.jsonl.gz",
        grader="choice_letter",
        output=folder / "G.csv",
    )
    for row in parse_csv(plain(folder / "G.csv")):
        values = {
            name: number(row[name])
            for name in ("agreement", "entropy", "answered_share", "mean_tokens", "log_probability")
        }
        assert 0 <= values["agreement"] <= values["answered_share"] <= 1
        assert all(value is None or math.isfinite(value) for value in values.values()), values
        assert values["mean_tokens"] is None or values["mean_tokens"] >= 0


def trajectory(folder):
    run_program(
        "import_trajectory",
        trajectory=folder / "T.csv",
        chosen_from=1,
        difficulty=folder / "D.csv",
        later=folder / "L.csv",
    )
    rows = parse_table(plain(folder / "T.csv"))
    first = {}
    for row in sorted(rows, key=lambda row: number(row["epoch"])):
        first.setdefault(row["id"], number(row["correct"]) / number(row["rollouts"]))
    assert {
        row["id"]: number(row["pass_rate"]) for row in parse_csv(plain(folder / "D.csv"))
    } == first
    assert len(parse_csv(plain(folder / "L.csv"))) == len(rows) - len(first)


def later_epochs(folder):
    assert all(
        0 <= row["correct"] <= row["rollouts"]
        for rows in trajectory_files.read(str(folder / "T.csv")).values()
        for row in rows
    )


def evaluation(folder):
    frame = evaluations.read(str(folder / "E.csv.gz"))
    rows = parse_csv(plain(folder / "E.csv.gz"))
    assert list(frame.id) == [row["id"] for row in rows] and list(frame.correct) == [
        number(row["correct"]) for row in rows
    ]
    assert list(frame.step) == [number(row["step"]) for row in rows] and (frame.step >= 0).all()
    for column in ("truncated", "tokens", "sound"):
        assert [None if value != value else value for value in frame[column]] == [
            number(row[column]) for row in rows
        ]


def summary(folder):
    frame = summaries.read(
        folder / "gains.csv",
        ["model", "task", "eval_task", "policy", "gain", "gain_low", "gain_high", "seeds"],
    )
    rows = parse_csv(plain(folder / "gains.csv"))
    for column in ("gain", "gain_low", "gain_high", "seeds"):
        assert [None if value != value else value for value in frame[column]] == [
            number(row[column]) for row in rows
        ], column
    assert [value if isinstance(value, str) else "" for value in frame.policy] == [
        row["policy"] for row in rows
    ]


def judged_claims(folder):
    for claim in claims.read(folder / "claims.yaml"):
        assert isinstance(claim["claim"], str)


def printed_numbers(folder):
    numbers = published.read(folder / "published")
    assert all(math.isfinite(row["number"]) for row in numbers)
    assert len(numbers) == len(parse_csv(plain(folder / "published/p.csv")))


def lock(folder):
    lock_entries = inputs.read_lock(folder / "inputs.lock")
    assert lock_entries == parse_json(plain(folder / "inputs.lock"))
    inputs.check_problems(
        folder / "inputs.lock", "t/train", [{"question": "q", "answer": "a"}], update=True
    )
    assert inputs.read_lock(folder / "inputs.lock")["problems"]["t/train"]["rows"] == 1


def spec(folder):
    run_spec = Spec.read(str(folder / "spec.yaml"))
    for name, value in SPEC.items():
        assert type(getattr(run_spec, name)) is type(value), name


def model(folder):
    run_program(
        "fetch_model",
        model="m",
        source=json.dumps({"kind": "folder", "path": str(folder / "m")}),
        output=folder / "out",
        lock=folder / "inputs.lock",
    )
    assert provenance.check_manifest(folder / "out")["model"] == "m"
    for name in ("config.json", "tokenizer_config.json"):
        assert not json.loads(plain(folder / "out" / name)).get("auto_map"), (
            "the model's own code was accepted"
        )


def calibrated(folder):
    calibration.read(str(folder / "calibration.json"))


def jobs_measured(folder):
    config = {
        "models": {"m": {"source": {}}},
        "tasks": {"t": {"source": {}}},
        "recipes": {},
        "policies": {},
        "data": "data",
    }
    for job in calibration.read_finished_jobs(str(folder), config):
        assert math.isfinite(job.seconds) and job.seconds >= 0
        assert job.tokens is None or job.tokens >= 0


def worked(folder):
    worked_solutions = solutions.read(folder / "W.jsonl")
    assert worked_solutions == {
        row["id"]: row["solution"] for row in parse_jsonl(plain(folder / "W.jsonl"))
    }
    assert len(worked_solutions) == len(parse_jsonl(plain(folder / "W.jsonl")))


P, R = (
    {"P.jsonl": (jsonl(contents.PROBLEMS), "jsonl")},
    {"R.jsonl": (jsonl(contents.RECORDING), "jsonl")},
)
C, T = (
    {"C.jsonl.gz": (jsonl(contents.COMPLETIONS), "jsonl")},
    {"T.csv": (table(contents.EPOCHS), "csv")},
)
G, S = (
    {"G.csv": (table(contents.SIGNALS), "csv")},
    {
        "S.csv": (table(contents.SUBSET), "csv"),
        "S.json": (json.dumps(contents.FACTS).encode(), "json"),
    },
)

TARGETS: dict[str, Target] = {
    "completions of a probe": Target(P | C, difficulty),
    "pass rates": Target({"D.csv": (table(contents.RATES), "csv")}, select),
    "signals": Target(G, select_by_signal),
    "sample of pass rates": Target(G | {"X.csv": (table(contents.RATES[2:6]), "csv")}, predicted),
    "prompts, CSV": Target({"mine.csv": (table(contents.TEXTS), "csv")}, prompts("mine.csv")),
    "prompts, JSON Lines": Target({"mine.jsonl": (jsonl(contents.TEXTS), "jsonl")}, prompts("mine.jsonl")),
    "prompts, BIG-Bench-Hard": Target({"B.json": (json.dumps({"examples": [{"input": "q\nOptions:\n(A) x", "target": "(A)"}] * 3}).encode(), "json")}, big_bench),
    "subset": Target(P | S | {"rows.csv": (table(contents.TEXTS), "csv")}, export),
    "annotated, CSV": Target(P | {"to.csv": (table(contents.TO_ANNOTATE), "csv")}, annotated("to.csv"), kept=("P.jsonl",)),
    "annotated, JSON Lines": Target(P | {"to.jsonl": (jsonl(contents.TO_ANNOTATE), "jsonl")}, annotated("to.jsonl"), kept=("P.jsonl",)),
    "recording": Target(P | R, recording),
    "recording, graded": Target(P | R, graded_recording),
    "recording, choices": Target(R, choices),
    "questions": Target({"Q.jsonl": (jsonl(contents.QUESTIONS), "jsonl")} | C, signals),
    "trajectory": Target(T, trajectory),
    "trajectory, read": Target(T, later_epochs),
    "evaluation": Target({"E.csv.gz": (table(contents.EVALUATION), "csv")}, evaluation),
    "summary": Target({"gains.csv": ((ROOT / "results/reference/mini/gains.csv").read_bytes(), "csv")}, summary),
    "claims": Target({"claims.yaml": (yaml.safe_dump(contents.CLAIMS).encode(), "yaml")}, judged_claims),
    "published numbers": Target({"published/p.csv": (table([dict.fromkeys(published.COLUMNS, "x") | {"value": "1.50"}] * 3), "csv")}, printed_numbers),
    "inputs.lock": Target({"inputs.lock": (json.dumps(contents.LOCK).encode(), "json")}, lock),
    "specification of a run": Target({"spec.yaml": (yaml.safe_dump(SPEC).encode(), "yaml")}, spec),
    "model folder": Target(
        {"m/config.json": (json.dumps(contents.SETTINGS).encode(), "json"), "m/tokenizer_config.json": (json.dumps(contents.SETTINGS).encode(), "json"),
         "m/model.safetensors.index.json": (json.dumps(contents.INDEX).encode(), "json")} | {f"m/{name}": (b"x", "") for name in ("model-1.safetensors", "model-2.safetensors", "tokenizer.json")},
        model, kept=("m/model-1.safetensors", "m/model-2.safetensors", "m/tokenizer.json"),
    ),
    "calibration": Target({"calibration.json": (json.dumps(contents.GROUPS).encode(), "json")}, calibrated),
    "provenance": Target({"provenance/probe/m/t/shard0.json": (json.dumps(contents.PROVENANCE).encode(), "json")}, jobs_measured),
    "worked solutions": Target({"W.jsonl": (jsonl([{"id": f"p{i}", "solution": "1 #### 1"} for i in range(4)]), "jsonl")}, worked),
}  # fmt: skip
