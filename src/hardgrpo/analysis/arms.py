"""Arms of a study. An arm is a policy, which chooses the prompts, and a recipe, which trains on the chosen prompts.

Tables have the columns `policy` and `recipe`, and `minus` and `minus_recipe` for the arm that is subtracted. Figures and texts show an
arm's label: the policy, followed by the recipe if the recipe is not the study's first recipe.
"""

from collections.abc import Iterable

import pandas as pd

RECORDED = "recorded"  # the recipe of recorded runs, which were trained outside this project
NO_RUN = "base"  # the value of `minus` where a base model is subtracted


def label(policy: str, recipe: str, first_recipe: str) -> str:
    """'hard', or 'hard, mini_beta' if `recipe` is neither the study's first recipe nor RECORDED."""
    return policy if recipe in ("", RECORDED, first_recipe) else f"{policy}, {recipe}"


def drop_labels(table: pd.DataFrame) -> pd.DataFrame:
    """The table without the columns that `add_labels` adds. Files do not contain labels."""
    return table.drop(columns=["arm", "minus_arm"], errors="ignore")


def first_or_only(first_recipe: str, recipes: Iterable[str]) -> str:
    """The study's first recipe. If unknown (""), the only recipe of a table, or "" if the table has several."""
    names = {*recipes} - {"", RECORDED}
    return first_recipe or (names.pop() if len(names) == 1 else "")


def add_labels(table: pd.DataFrame, first_recipe: str) -> pd.DataFrame:
    """The table with the column `arm` and, if there is a column `minus`, `minus_arm`. Without a recipe, the label is the policy."""
    labels = {}
    if "recipe" in table:
        first_recipe = first_or_only(first_recipe, table.recipe.dropna())
    for column, policy, recipe in (("arm", "policy", "recipe"), ("minus_arm", "minus", "minus_recipe")):
        if policy in table and not table.empty:
            recipes = table[recipe].fillna("") if recipe in table else [""] * len(table)
            labels[column] = [label(*names, first_recipe) for names in zip(table[policy], recipes)]
        elif policy in table:
            labels[column] = []
    return table.assign(**{name: pd.Series(values, table.index, dtype=object) for name, values in labels.items()})
