"""Worked solutions of a task's train problems, for recipes with `objective: sft`. A solution is a
row of `tasks/{task}/solutions.jsonl`:

    {"id": "swaps-train-0007",
     "solution": "six Bob blue Claire pink : Bob pink Claire blue ; Bob pink #### pink"}
"""

from pathlib import Path

from hardgrpo.data import generated, sources, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import RowError, UserError, refuse_rows


def worked_solutions(
    task: str, source: dict, paths: list[str], grader: str
) -> list[tuple[dict, str]]:
    """[(problem, worked solution)] of the train split; see `tasks.prepare`."""
    if source.get("kind") == "generated":
        return [
            # the shortest of the solutions without a wrong step
            (problem, min(generated.solutions(source["family"], problem["question"]), key=len))
            for problem in tasks.generate_problems(task, source, "train")
        ]
    row_format, columns = source.get("format", "columns"), source.get("columns", {})
    if row_format not in sources.SOLUTIONS and "solution" not in columns:
        raise UserError(
            f"task {task}: its source has no worked solutions for objective: sft; name a column with solutions in the task's source (columns: {{solution:"
            " NAME}), or take another task"
        )
    pairs, row_errors = [], []
    for problem, row, place in tasks.problems_with_rows(task, source, "train", paths):
        answer_statement = statement(grader, problem["answer"])
        try:
            solution = sources.solution(row, row_format, columns, answer_statement, place)
        except RowError as error:
            row_errors.append(error)
        else:
            pairs.append((problem, solution))
    refuse_rows(row_errors)
    return pairs


def statement(grader: str, answer: str) -> str:
    r"""A sentence with a reference answer in the form that the grader reads: 'The answer is
    \boxed{42}.', or '#### 42'."""
    grader_entry = graders.GRADERS[grader]
    form = grader_entry.form % grader_entry.normalise(answer)
    return form if form.startswith("####") else f"The answer is {form}."


def correct_solutions(pairs: list[tuple[dict, str]], grader: str, path: str | Path) -> list[dict]:
    """The rows of `solutions.jsonl`: the solutions that the grader accepts.

    Print a warning about rejected solutions. Raise a `UserError` if more than 1 % are rejected.
    """
    rows, rejected_problems = [], []
    for problem, text in pairs:
        if graders.grade(grader, text, problem["answer"]).correct:
            rows.append({"id": problem["id"], "solution": text})
        else:
            rejected_problems.append(f"'{problem['id']}' ({problem['answer'][:30]})")
    if rejected_problems:
        tasks.leave_out(
            f"{path}: grader '{grader}' rejects the worked solutions of {len(rejected_problems)} of {len(pairs)} problems",
            rejected_problems,
            len(pairs),
            "choose another grader for the task, or correct the solutions",
            "these solutions are left out",
        )
    return rows


def read(path: str | Path) -> dict[str, str]:
    """{problem id: worked solution}."""
    rows = files.read_jsonl(path, {"id": str, "solution": str})
    return {row["id"]: row["solution"] for row in rows}
