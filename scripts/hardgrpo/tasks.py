"""Tasks: where problems come from, and how a question becomes a prompt. A problem is a row of `tasks/{task}/{split}.jsonl`.

{"id": "swaps-train-0007", "question": "...", "answer": "pink", "tier": 3, "source": "generated:swaps:11"}
"""

import json
import random
from pathlib import Path

from . import files, generated, grading
from .errors import UserError

SPLITS = ("train", "test")
FAMILIES = {
    "swaps": lambda rng, source: generated.draw_swaps(rng, source["objects"], source["length"]),
    "arithmetic": lambda rng, source: generated.draw_arithmetic(rng, source["length"]),
}


def prepare(task: str, source: dict, split: str, data: str | Path) -> list[dict]:
    """The problems of one split. `source` is the task's `source` in config.yaml, `data` the folder of local files."""
    if source["kind"] == "generated":
        problems = generate_problems(task, source, split)
    else:
        problems = import_problems(task, Path(data) / source[split], split)
    return problems


def check_readable(problems: list[dict], grader: str, path: str | Path) -> None:
    """Raise a `UserError` where the grader could not accept a completion that states the reference answer."""
    unreadable = [p["id"] for p in problems if not grading.readable(grader, p["answer"])]
    if unreadable:
        raise UserError(
            f"{path}: grader '{grader}' cannot read the reference answer of {len(unreadable)} problems, first"
            f" '{unreadable[0]}'; choose another grader for the task or correct the answers"
        )


def generate_problems(task: str, source: dict, wanted: str) -> list[dict]:
    """One split. Train and then test come from one stream of draws, so that no question stands in both."""
    rng = random.Random(f"{source['family']}:{source['seed']}")
    draw, seen, splits = FAMILIES[source["family"]], set(), {}
    for split in SPLITS:
        splits[split] = []
        misses = 0
        while len(splits[split]) < source[split]:
            chain = draw(rng, source)
            if chain.question in seen:
                misses += 1
                if misses > 100_000:
                    raise UserError(
                        f"task {task}: cannot draw {source[split]} different {split} problems; allow more lengths or objects"
                    )
                continue
            seen.add(chain.question)
            splits[split].append(
                {
                    "id": f"{task}-{split}-{len(splits[split]):04d}",
                    "question": chain.question,
                    "answer": chain.answer,
                    "tier": chain.tier,
                    "source": f"generated:{source['family']}:{source['seed']}",
                }
            )
        if split == wanted:
            return splits[split]
    raise ValueError(f"unknown split {wanted!r}")


def import_problems(task: str, path: Path, split: str) -> list[dict]:
    """Problems of a local file: JSON Lines with question and answer, or BIG-Bench-Hard's JSON (input, target)."""
    if path.suffix == ".json":
        try:
            examples = json.loads(files.read_text(path))["examples"]
            rows = [{"question": str(e["input"]), "answer": str(e["target"])} for e in examples]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise UserError(f"{path}: expected BIG-Bench-Hard's form {{'examples': [{{'input', 'target'}}]}} ({error})") from None
    else:
        rows = files.read_jsonl(path, {"question": str, "answer": (str, int, float)})
    if not rows:
        raise UserError(f"{path}: no problems; expected at least one")
    problems = [
        {
            "id": str(index_name if row.get("id") is None else row["id"]),
            "question": row["question"],
            "answer": str(row["answer"]),
            "tier": row.get("tier"),
            "source": path.name,
        }
        for index_name, row in ((f"{task}-{split}-{index:04d}", row) for index, row in enumerate(rows))
    ]
    return _checked(problems, path)


def read_problems(path: str | Path) -> list[dict]:
    """Problems with unique ids and nonempty answers; anything else is a `UserError` that names the line."""
    return _checked(files.read_jsonl(path, {"id": (str, int), "answer": (str, int, float)}), path)


def _checked(problems: list[dict], path: str | Path) -> list[dict]:
    lines: dict[str, int] = {}
    for line, problem in enumerate(problems, start=1):
        problem["id"], problem["answer"] = str(problem["id"]), str(problem["answer"])
        if not problem["answer"].strip():
            raise UserError(f"{path}: row {line}: problem '{problem['id']}' has an empty answer; every problem needs one")
        if problem["id"] in lines:
            raise UserError(
                f"{path}: row {line}: id '{problem['id']}' stands in row {lines[problem['id']]} already; ids must be unique"
            )
        lines[problem["id"]] = line
    return problems


def prompt_text(template: str, question: str) -> str:
    """The user's message: the template with `{question}` filled in (plain replacement: questions may hold braces)."""
    return template.replace("{question}", question)


def messages(template: str, question: str) -> list[dict]:
    """The conversation that is put through the model's chat template, for probe, training and evaluation alike."""
    return [{"role": "user", "content": prompt_text(template, question)}]
