"""Worked solutions of a task's train problems, on which recipes with `objective: sft` train. Each is a row of
`tasks/{task}/solutions.jsonl`:

{"id": "swaps-train-0007", "solution": "six Bob blue Claire pink : Bob pink Claire blue ; Bob pink #### pink"}
"""

from pathlib import Path

from hardgrpo.data import generated, sources, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import RowError, UserError, first_entries, printable, refuse_rows

UNGRADED_SHARE = tasks.UNREADABLE_SHARE  # at most this share of solutions may be graded wrong; they are left out


def worked(task: str, source: dict, paths: list[str], grader: str) -> list[tuple[dict, str]]:
    """[(problem, its worked solution)] of the train split. The arguments are those of `tasks.prepare`."""
    if source.get("kind") == "generated":
        problems = tasks.generate_problems(task, source, "train")
        return [(problem, _generated(task, source["family"], problem["question"])) for problem in problems]
    format, columns = source.get("format", "columns"), source.get("columns", {})
    if format not in sources.SOLUTIONS and "solution" not in columns:
        raise UserError(
            f"task {task}: its source has no worked solutions, so a recipe with objective: sft cannot train on it; take another task, or"
            " name a column with solutions in the task's source (columns: {solution: NAME})"
        )
    solved, row_errors = [], []
    for problem, row, where in tasks.with_rows(task, source, "train", paths):
        try:
            solved.append((problem, sources.solution(row, format, columns, statement(grader, problem["answer"]), where)))
        except RowError as error:
            row_errors.append(error)
    refuse_rows(row_errors)
    return solved


def _generated(task: str, family: str, question: str) -> str:
    """The shortest worked solution, in which every step is right."""
    found = generated.solutions(family, question)
    if found is None:
        raise UserError(f"task {task}: family {family} has no worked solutions; train on swaps or arithmetic")
    return min(found, key=len)


def statement(grader: str, answer: str) -> str:
    r"""A sentence that states a reference answer in the form that the grader reads: 'The answer is \boxed{42}.', or '#### 42'."""
    chosen = graders.GRADERS[grader]
    stated = chosen.form % chosen.reference(answer)
    return stated if stated.startswith("####") else f"The answer is {stated}."


def graded_right(solved: list[tuple[dict, str]], grader: str, path: str | Path) -> list[dict]:
    """The rows of `solutions.jsonl`: solutions that the grader finds right. Print the others; raise a `UserError` if they exceed 1 %."""
    wrong = [problem for problem, text in solved if not graders.grade(grader, text, problem["answer"]).correct]
    if wrong:
        examples = first_entries([f"'{p['id']}' ({p['answer'][:30]})" for p in wrong])
        what = f"{path}: grader '{grader}' does not find the worked solution of {len(wrong)} of {len(solved)} problems right: {examples}"
        if len(wrong) > UNGRADED_SHARE * len(solved):
            raise UserError(f"{what}; choose another grader for the task or correct the solutions")
        print(f"warning: {printable(what)}; they are left out", flush=True)
    left_out = {problem["id"] for problem in wrong}
    return [{"id": problem["id"], "solution": text} for problem, text in solved if problem["id"] not in left_out]


def read(path: str | Path) -> dict[str, str]:
    """{problem's id: its worked solution}."""
    found: dict[str, str] = {}
    for number, row in enumerate(files.read_jsonl(path, {"id": str, "solution": str}), start=1):
        if row["id"] in found:
            raise UserError(f"{path}: row {number}: id '{row['id']}' stands there twice; write the solutions again")
        found[row["id"]] = row["solution"]
    return found
