"""Tables of test cases that are written as text."""


def rows_of(text: str) -> list[list[str]]:
    """The rows of a table: one line for each row, ` | ` between two cells."""
    return [[cell.strip() for cell in line.split(" | ")] for line in text.strip().splitlines()]
