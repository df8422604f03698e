"""Read the trajectory of a training run: the number of correct rollouts of each prompt in each
epoch."""

from hardgrpo.data import spreadsheets
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import RowError, UserError, refuse_rows

COLUMNS = {"id": str, "epoch": int, "correct": int, "rollouts": int}


def read(path: str) -> dict[str, list[dict]]:
    """{prompt: rows in the order of the epochs}, with prompts in the order of the file. Raise a
    `UserError` for impossible or repeated rows."""
    table = spreadsheets.read(path)
    prompts: dict[str, list[dict]] = {}
    places: dict[tuple[str, int], str] = {}
    row_errors = []
    for row, place in zip(
        files.convert_rows(
            path, table.header, table.cells, COLUMNS, place=table.places.__getitem__
        ),
        table.places,
    ):
        problem = _row_problem(row)
        if not problem:
            first_place = places.setdefault((row["id"], row["epoch"]), place)
            repetition = (
                f"prompt '{row['id']}' has epoch {row['epoch']} twice, first in {first_place}"
            )
            problem = (repetition, "remove one of the rows") if first_place != place else None
        if problem:
            row_errors.append(RowError(path, place, *problem))
            continue
        prompts.setdefault(row["id"], []).append(row)
    refuse_rows(row_errors)
    if not prompts:
        raise UserError(f"{path}: the file has no rows; expected one for each prompt and epoch")
    return {name: sorted(rows, key=lambda row: row["epoch"]) for name, rows in prompts.items()}


def _row_problem(row: dict) -> tuple[str, str] | None:
    """(problem, remedy) of a row; None without a problem."""
    empty = next((column for column, value in row.items() if value is None), None)
    if empty:
        return f"column '{empty}' is empty", "fill it in"
    if row["epoch"] < 0:
        return f"epoch is {row['epoch']}, expected a number from 0", "correct it"
    if row["rollouts"] < 2:
        return (
            f"rollouts is {row['rollouts']}, expected at least 2, because a group of one rollout is never mixed",
            "correct it",
        )
    if not 0 <= row["correct"] <= row["rollouts"]:
        return (
            f"correct is {row['correct']} of {row['rollouts']} rollouts",
            "change one of the numbers",
        )
    return None


def split(
    prompts: dict[str, list[dict]], epochs: int, path: str
) -> tuple[dict[str, list[dict]], dict[str, list[dict]]]:
    """(first `epochs` rows of each prompt, later rows of each prompt). Raise a `UserError` if a
    prompt has no later rows."""
    short_prompt = next((name for name, rows in prompts.items() if len(rows) <= epochs), None)
    if short_prompt is not None:
        raise UserError(
            f"{path}: prompt '{short_prompt}' has {len(prompts[short_prompt])} epochs, expected more than the {epochs} from which subsets are chosen;"
            " lower chosen_from in the configuration, or leave the prompt out"
        )
    return {name: rows[:epochs] for name, rows in prompts.items()}, {
        name: rows[epochs:] for name, rows in prompts.items()
    }
