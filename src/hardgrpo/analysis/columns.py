"""Names of columns in summary tables."""

ARM = ["policy", "recipe"]
CELL = ["model", "task", "eval_task", *ARM]  # the keys of most tables
RUNS = ["model", "task", *ARM]  # columns that are equal for all replicates of an arm
MINUS = ["minus", "minus_recipe"]  # the arm that is subtracted

# tables that are no summary tables of a study's results: made from summary tables, or by hand
NO_SUMMARIES = ("claims", "against_random", "compared", "deviations")

# columns that are read as text, because names may look like numbers, such as tier 3
NAMES = [
    *CELL,
    *MINUS,
    "decoding",
    "tier",
    "grading",
    "group",
    "id",
    "rule",
    "predictor",
    "adjusted_for",
    "quantity",
    "paper",
    "questions",
    "measure",
    "place",
    "file",
    "what",
    "at",
    "easiest",
    "hardest",
    "written",
    "key",
    "way",
    "decided_by",
]


def interval(name: str) -> list[str]:
    """Columns of an estimate and its 95 % interval, in most tables for new problems and new
    seeds."""
    return [name, f"{name}_low", f"{name}_high"]
