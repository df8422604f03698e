"""What the columns of summary tables are called."""

CELL = ["model", "task", "eval_task", "policy"]  # what names a row of most tables

# Columns that hold names: text, whatever they look like (a tier is called 3, a task may be called 7).
NAMES = [*CELL, "minus", "decoding", "tier", "grading", "group", "id", "rule", "predictor", "adjusted_for", "quantity", "paper"]
NAMES += ["place", "what", "written", "released", "key"]


def interval(name: str) -> list[str]:
    """An estimate and its 95 % interval, for new problems and new seeds."""
    return [name, f"{name}_low", f"{name}_high"]


def intervals(name: str) -> list[str]:
    """With `*_a` for these problems and new seeds, and `*_pooled` with the variance over seeds of all policies together."""
    return [*interval(name), f"{name}_low_a", f"{name}_high_a", f"{name}_low_pooled", f"{name}_high_pooled"]
