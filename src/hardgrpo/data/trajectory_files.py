"""Read the trajectory of a training run: the number of correct rollouts of each prompt in each
epoch."""

from hardgrpo.data import spreadsheets
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

COLUMNS = {"id": str, "epoch": int, "correct": int, "rollouts": int}


def read(path: str) -> dict[str, list[dict]]:
    """{prompt: rows in the order of the epochs}, with prompts in the order of the file. Raise a
    `UserError` for impossible or repeated rows."""
    table = spreadsheets.read(path)
    prompts: dict[str, dict[int, dict]] = {}
    place_of = table.places.__getitem__
    rows = files.convert_rows(path, table.header, table.cells, COLUMNS, place=place_of)
    for row, place in zip(rows, table.places):
        epochs = prompts.setdefault(row["id"], {})
        if problem := _row_problem(row, epochs):
            raise UserError(f"{path}: {place}: {problem}; correct the row")
        epochs[row["epoch"]] = row
    if not prompts:
        raise UserError(f"{path}: the file has no rows; expected one for each prompt and epoch")
    return {
        prompt: [epochs[epoch] for epoch in sorted(epochs)] for prompt, epochs in prompts.items()
    }


def _row_problem(row: dict, epochs: dict[int, dict]) -> str | None:
    """What is wrong with a row of a prompt whose earlier rows are `epochs`, if anything."""
    if None in row.values():
        return "a cell is empty"
    if row["epoch"] < 0:
        return f"epoch is {row['epoch']}, expected a number from 0"
    if row["rollouts"] < 2:
        return f"rollouts is {row['rollouts']}, expected at least 2"
    if not 0 <= row["correct"] <= row["rollouts"]:
        return f"correct is {row['correct']} of {row['rollouts']} rollouts"
    if row["epoch"] in epochs:
        return f"prompt '{row['id']}' has epoch {row['epoch']} twice"
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
            " lower chosen_from, or leave the prompt out"
        )
    return {name: rows[:epochs] for name, rows in prompts.items()}, {
        name: rows[epochs:] for name, rows in prompts.items()
    }
