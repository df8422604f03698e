"""Prepare the problems of a task, and make prompts from questions. Each problem is a row of
`tasks/{task}/{split}.jsonl`:

    {"id": "swaps-train-0007", "question": "...", "answer": "pink", "tier": 3,
     "source": "generated:swaps:11"}
"""

import random
from pathlib import Path

from hardgrpo.data import generated, row_files, sources, spreadsheets
from hardgrpo.data.question_ids import question_ids
from hardgrpo.grading import graders, quantities
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import RowError, UserError, first_entries, printable, refuse_rows

SPLITS = ("train", "test")
FAMILIES = {
    "swaps": lambda rng, source: generated.draw_swaps(rng, source["objects"], source["length"]),
    "arithmetic": lambda rng, source: generated.draw_arithmetic(rng, source["length"]),
    "facts": lambda rng, source: generated.draw_fact(rng, source["seed"]),
}
# Up to this share of the reference answers may be unreadable, of the worked solutions rejected, and of
# the prompts too long.
UNREADABLE_SHARE = 0.01


def prepare(
    task: str, source: dict, split: str, paths: list[str], labelled: bool = True
) -> tuple[list[dict], dict[str, str]]:
    """(problems of a split, {id: file and row of the problem; "problem 'ID'" if generated}).
    `source` is the part of the task's `source` that this split needs; `paths` are the files of its
    parts. Raise a `UserError` for rows that are not valid problems, and if no problem is left."""
    if source.get("kind") == "generated":
        problems = generate_problems(task, source, split)
        return problems, {problem["id"]: f"problem '{problem['id']}'" for problem in problems}
    rows = problems_with_rows(task, source, split, paths, labelled)
    return [problem for problem, _, _ in rows], {problem["id"]: place for problem, _, place in rows}


def is_same_answer(grader: str | None, answer: str | None, other_answer: str | None) -> bool:
    """Whether two reference answers are equal by a grader's lenient rule or, without a grader,
    whether their texts are equal. None counts as equal to any answer."""
    if answer is None or other_answer is None or answer.strip() == other_answer.strip():
        return True
    if grader is None:
        return False
    rules = graders.GRADERS[grader]
    return bool(rules.lenient(rules.normalise(answer), rules.normalise(other_answer)))


def problems_with_rows(
    task: str, source: dict, split: str, paths: list[str], labelled: bool = True
) -> list[tuple[dict, dict, str]]:
    """[(problem, its row, "FILE: PLACE" of the row)] of a split that is read from files."""
    parts = source[split] if source["kind"] == "hub" else [{}] * len(paths)
    named_rows = []  # (row, path, place, fields of the problem)
    for part_number, (part, path) in enumerate(zip(parts, map(Path, paths), strict=True)):
        content = row_files.read_file(path)
        fields = {"source": f"{part['dataset']}/{part['file']}" if part else path.name}
        part_field = {"part": part_number} if source["kind"] == "files" and len(parts) > 1 else {}
        named_rows += [
            (row, path, content.places[number], fields | {"row": number} | part_field)
            for number, row in sources.choose_rows(content.rows, part.get("rows"), path)
        ]
    expected_count = source.get("problems")
    if expected_count is not None and len(named_rows) != expected_count:
        raise UserError(
            f"{', '.join(map(str, paths))}: {len(named_rows)} problems, but the {split} split of task '{task}' has {expected_count};"
            " the file is truncated or is another version; get the pinned version"
        )
    # Tasks on the same rows of a dataset have the same ids, so that their samples are drawn with
    # the same random numbers and can be paired by problem.
    stem = parts[0]["dataset"].rpartition("/")[2] if source["kind"] == "hub" else task
    row_format, columns = source.get("format", "columns"), source.get("columns", {})
    problems, origins, row_errors = [], [], []
    for index, (row, path, place, fields) in enumerate(named_rows):
        try:
            problem = sources.as_problem(row, row_format, columns, labelled, path, place)
        except RowError as error:
            if not (spreadsheets.is_table(path) and spreadsheets.is_blank(row.values())):
                row_errors.append(error)
            continue
        if source.get("keep") == "numeric" and not quantities.is_number(str(problem["answer"])):
            continue
        problem_id, answer = problem.get("id"), problem["answer"]
        if problem_id in (None, "") and source["kind"] != "files":
            problem_id = f"{stem}-{split}-{index:04d}"
        texts = {
            "id": "" if problem_id is None else str(problem_id),
            "question": str(problem["question"]),
            "answer": None if answer is None else str(answer),
            "tier": problem["tier"] if problem["tier"] != "" else None,
        }
        origins.append((row, path, place))
        problems.append(texts | fields)
    refuse_rows(row_errors)
    if not problems:
        raise UserError(
            f"task {task}: no problems are left in the {split} split; check the files, and `rows` and `keep` in the task's source"
        )
    # People edit files, so the ids follow from the questions and not from the rows.
    unnamed = [problem for problem in problems if not problem["id"]]
    for problem, problem_id in zip(unnamed, question_ids(row["question"] for row in unnamed)):
        problem["id"] = problem_id
    _check_ids(problems, [(path, place) for _, path, place in origins])
    return [
        (problem, row, f"{path}: {place}") for problem, (row, path, place) in zip(problems, origins)
    ]


def readable_problems(problems: list[dict], grader: str, path: str | Path) -> list[dict]:
    """The problems with a reference answer that the grader can read.

    Print a warning about unreadable answers. Raise a `UserError` if more than 1 % are unreadable.
    """
    readable, unreadable = [], []
    for problem in problems:
        is_readable = graders.accepts_reference(grader, problem["answer"])
        (readable if is_readable else unreadable).append(problem)
    if not unreadable:
        return problems
    examples = [f"'{row['id']}' ({row['answer'][:30]})" for row in unreadable]
    answers = [problem["answer"].strip() for problem in unreadable]
    has_comma = any(map(spreadsheets.DECIMAL_COMMA.fullmatch, answers))
    point = " (a decimal comma: write a decimal point)" if has_comma else ""
    leave_out(
        f"{path}: grader '{grader}' cannot read the reference answer of {len(unreadable)} of {len(problems)} problems",
        examples,
        len(problems),
        f"choose another grader for the task or correct the answers{point}",
        "pass rates, subsets (except subsets by signals) and tests leave these problems out",
    )
    return readable


def leave_out(fault: str, examples: list[str], total: int, remedy: str, result: str) -> None:
    """Print a warning about entries with a fault: `examples`, all of them. Raise a `UserError` if
    they are more than UNREADABLE_SHARE of `total` entries."""
    message = f"{fault}: {first_entries(examples)}"
    if len(examples) > UNREADABLE_SHARE * total:
        raise UserError(f"{message}; {remedy}")
    print(f"warning: {printable(message)}; {result}", flush=True)


def generate_problems(task: str, source: dict, wanted_split: str) -> list[dict]:
    """The problems of a split of a generated task. The test split continues the draws of the train
    split, and repeated questions are discarded, so no question is in both. Raise a `UserError` if
    the source does not give enough different questions."""
    rng = random.Random(f"{source['family']}:{source['seed']}")
    draw, questions = FAMILIES[source["family"]], set()
    for split in SPLITS[: SPLITS.index(wanted_split) + 1]:
        problems, misses = [], 0
        while len(problems) < source[split]:
            chain = draw(rng, source)
            if chain.question in questions:
                misses += 1
                if misses > 100_000:
                    raise UserError(
                        f"task {task}: cannot draw {source[split]} different {split} problems; ask for fewer, or allow more lengths or objects"
                    )
                continue
            questions.add(chain.question)
            number = len(problems)
            facts = {"question": chain.question, "answer": chain.answer, "tier": chain.tier}
            facts |= {"source": f"generated:{source['family']}:{source['seed']}"}
            problems.append({"id": f"{task}-{split}-{number:04d}"} | facts)
    return problems


def read_problems(path: str | Path, needs_answer: bool = True) -> list[dict]:
    """The problems of a file that prepare_task.py wrote. Raise a `UserError` if a row lacks a
    question or a needed answer."""
    keys = {"id": str, "question": str} | ({"answer": str} if needs_answer else {})
    return files.read_jsonl(path, keys)


def read_subset(subset: str | Path, pool: str | Path, needs_answer: bool = True) -> list[dict]:
    """The problems of a subset, in order. `pool`: the file from which the subset was chosen."""
    problems = {problem["id"]: problem for problem in read_problems(pool, needs_answer)}
    return [problems[row["id"]] for row in files.read_rows(subset, {"id": str})]


def _check_ids(problems: list[dict], places: list[tuple[str | Path, str]]) -> None:
    """Raise a `UserError` for ids that occur twice. `places` are (file, place in the file) of each
    problem."""
    first_places: dict[str, tuple[str | Path, str]] = {}
    row_errors = []
    for problem, (path, place) in zip(problems, places):
        first_path, first_place = first_places.setdefault(problem["id"], (path, place))
        if (first_path, first_place) != (path, place):
            earlier_place = first_place if first_path == path else f"{first_path}: {first_place}"
            fault = f"id '{problem['id']}' is already in {earlier_place}"
            row_errors.append(RowError(path, place, fault, "ids must be unique"))
    refuse_rows(row_errors)


def messages(template: str, question: str) -> list[dict]:
    """The conversation for the model's chat template, in probe, training and evaluation."""
    # `str.format` would fail for other braces in the template
    return [{"role": "user", "content": template.replace("{question}", question)}]
