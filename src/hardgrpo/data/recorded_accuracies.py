"""Read the accuracies by checkpoint that the authors of a recorded run published without
completions."""

from hardgrpo.runtime import files

# A row is about the questions on which the base model's pass rate is `at_most_percent`; `problems` is
# their number, if the authors published the pass rates.
COLUMNS = {"step": int, "measure": str, "at_most_percent": int, "value": float}
COLUMNS |= {"base": float, "problems": int}


def read(path: str) -> list[dict]:
    """Rows of a table of published accuracies; what was not published is None."""
    return files.read_rows(path, COLUMNS)
