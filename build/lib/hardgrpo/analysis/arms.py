"""Arms of a study. An arm is a policy, which chooses the prompts, and a recipe, which trains on the
chosen prompts.

Tables have the columns `policy` and `recipe`, and `minus` and `minus_recipe` for the arm that is
subtracted. Figures and texts show an arm's label: the policy, followed by the recipe if the recipe
is not the study's first recipe.
"""

from collections.abc import Iterable

import pandas as pd

RECORDED = "recorded"  # the recipe of recorded runs, which were trained outside this project
NO_RUN = "base"  # the value of `minus` where a base model is subtracted


def label(policy: str, recipe: str, first_recipe: str) -> str:
    """'hard', or 'hard, mini_beta' if `recipe` is none of "", RECORDED and `first_recipe`."""
    return policy if recipe in ("", RECORDED, first_recipe) else f"{policy}, {recipe}"


def drop_labels(table: pd.DataFrame) -> pd.DataFrame:
    """The table without the columns that `add_labels` adds. The CSV files of figures and tables do
    not contain labels."""
    return table.drop(columns=["arm", "minus_arm"], errors="ignore")


def default_recipe(first_recipe: str, recipes: Iterable[str]) -> str:
    """The recipe that labels leave out: `first_recipe`, unless it is "". In this case, the only
    recipe in `recipes`, not counting "" and RECORDED, or "" if there is none or several."""
    names = {*recipes} - {"", RECORDED}
    return first_recipe or (names.pop() if len(names) == 1 else "")


def add_labels(table: pd.DataFrame, first_recipe: str) -> pd.DataFrame:
    """The table with the labels of its arms: column `arm` if the table has the column `policy`, and
    `minus_arm` if the table has the column `minus`. In a row without a recipe, the label is the
    policy alone."""
    default = default_recipe(first_recipe, table.recipe.dropna() if "recipe" in table else [])
    labels = {}
    for column, policy, recipe in (
        ("arm", "policy", "recipe"),
        ("minus_arm", "minus", "minus_recipe"),
    ):
        if policy in table:
            recipes = table[recipe].fillna("") if recipe in table else [""] * len(table)
            arms = [label(*arm, default) for arm in zip(table[policy], recipes)]
            labels[column] = pd.Series(arms, table.index, dtype=object)
    return table.assign(**labels)
