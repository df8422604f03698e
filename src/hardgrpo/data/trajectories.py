"""Read the trajectory of a training run: how many rollouts of each prompt were right in each epoch."""

from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

COLUMNS = {"id": str, "epoch": int, "correct": int, "rollouts": int}


def read(path: str) -> dict[str, list[dict]]:
    """{prompt: its rows by epoch}, prompts in the order of the file. Raise a `UserError` for impossible or repeated rows."""
    prompts: dict[str, list[dict]] = {}
    seen: dict[tuple[str, int], int] = {}
    for number, row in enumerate(files.read_rows(path, COLUMNS), start=2):
        place = f"{path}: row {number}"
        empty = next((column for column, value in row.items() if value is None), None)
        if empty:
            raise UserError(f"{place}: column '{empty}' is empty; fill it in")
        if row["epoch"] < 0:
            raise UserError(f"{place}: epoch is {row['epoch']}, expected a number from 0; correct it")
        if row["rollouts"] < 2:
            raise UserError(
                f"{place}: rollouts is {row['rollouts']}, expected at least 2, because one alone is never mixed; correct it"
            )
        if not 0 <= row["correct"] <= row["rollouts"]:
            raise UserError(f"{place}: correct is {row['correct']} of {row['rollouts']} rollouts; correct one of them")
        first = seen.setdefault((row["id"], row["epoch"]), number)
        if first != number:
            raise UserError(f"{place}: prompt '{row['id']}' has epoch {row['epoch']} twice, first in row {first}; remove one")
        prompts.setdefault(row["id"], []).append(row)
    if not prompts:
        raise UserError(f"{path}: the file has no rows; expected one for each prompt and epoch")
    return {name: sorted(rows, key=lambda row: row["epoch"]) for name, rows in prompts.items()}


def split(prompts: dict[str, list[dict]], epochs: int, path: str) -> tuple[dict[str, list[dict]], dict[str, list[dict]]]:
    """(the first `epochs` rows of each prompt, all its later rows). Raise a `UserError` if a prompt has no later ones."""
    short = next((name for name, rows in prompts.items() if len(rows) <= epochs), None)
    if short is not None:
        raise UserError(
            f"{path}: prompt '{short}' has {len(prompts[short])} epochs, expected more than the {epochs} from which subsets are chosen;"
            " lower chosen_from in the configuration, or leave the prompt out"
        )
    return {name: rows[:epochs] for name, rows in prompts.items()}, {name: rows[epochs:] for name, rows in prompts.items()}
