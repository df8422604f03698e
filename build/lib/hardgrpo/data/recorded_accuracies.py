"""Read the accuracies by checkpoint that the authors of a recorded run published without
completions."""

from hardgrpo.runtime import files

# `at_most_percent`: a row is about the questions on which the base model's pass rate is at most
# this percentage; 100 for all questions. `problems`: the number of these questions, empty if the
# authors did not publish the pass rates.
COLUMNS = {
    "step": int,
    "measure": str,
    "at_most_percent": int,
    "value": float,
    "base": float,
    "problems": int,
}


def read(path: str) -> list[dict]:
    """Rows of a table of published accuracies. `base` is None if the value of the base model was
    not published; `problems` is None if the base model's pass rates were not published."""
    return files.read_rows(path, COLUMNS)
