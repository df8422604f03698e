"""Before any run starts, compute the largest number of labels that each run of a study may buy."""

import math

from hardgrpo.analysis import arms
from hardgrpo.planning import durations
from hardgrpo.selection import policies
from hardgrpo.study import selector as selectors
from hardgrpo.study.policy import Policy
from hardgrpo.study.recipe import Recipe
from hardgrpo.study.study import Study


def planned_labels(study: Study) -> list[dict]:
    """A row for each task and arm of sampled models. `pool` and `labels` are None if unknown before
    the run."""
    rows = {}
    for run in study.runs:
        if not study.config.models[run.model].is_sampled:
            continue
        pool = durations.known_problems(study.config.split(run.task, "train"))
        rows[run.task, run.policy, run.recipe] = {
            "study": study.name,
            "task": run.task,
            "pool": pool,
            "policy": run.policy,
            "recipe": run.recipe,
            "arm": arms.label(run.policy, run.recipe, study.first_recipe),
            "labels": label_count(
                study.config.policies[run.policy], study.config.recipes[run.recipe], pool
            ),
        }
    return list(rows.values())


def label_count(policy: Policy, recipe: Recipe, pool: int | None) -> int | None:
    """The largest number of labels that a run may buy; None if the configuration does not determine
    it."""
    needs, budget = policies.labels_before(policy.entry), policy.entry.get("budget")
    if getattr(recipe.selector, "by", None) == "pass_rate":
        needs = "pool"  # the curriculum sorts by pass rates
    if pool is None and (needs != "none" or not isinstance(budget, dict)):
        return None
    if needs == "pool" or policy.rule == "all":
        return policies.labels(
            policy.entry, recipe.entry, pool, 0, pool, _sampled_prompts(policy, recipe, pool)
        )
    if budget is None:
        return None
    sample = policies.subset_size(policy.calibrated_on, pool) if needs == "sample" else 0
    subset = policies.subset_size(budget, math.inf if pool is None else pool)
    return policies.labels(
        policy.entry, recipe.entry, pool, sample, subset, _sampled_prompts(policy, recipe, subset)
    )


def _sampled_prompts(policy: Policy, recipe: Recipe, subset: int) -> int | None:
    """The largest number of prompts of which a run samples rollouts; None if it buys the labels of
    the whole subset."""
    return (
        selectors.max_labels(recipe.entry, subset)
        if recipe.selector or policy.rule == "all"
        else None
    )


def format_lines(rows: list[dict]) -> list[str]:
    """The rows as text, a line for each task and number of labels; [] without rows."""
    if not rows:
        return []
    lines = [
        "",
        "Largest number of labels that a run buys, including the labels that its policy needs before the choice:",
    ]
    for study, task, pool in dict.fromkeys(
        (row["study"], row["task"], row["pool"]) for row in rows
    ):
        lines.append(f"  {study}, {task}, a pool of {'?' if pool is None else pool}")
        by_labels: dict[int | None, list[str]] = {}
        for row in rows:
            if (row["study"], row["task"]) == (study, task):
                by_labels.setdefault(row["labels"], []).append(row["arm"])
        for count in sorted(by_labels, key=lambda count: (count is None, count or 0)):
            lines.append(f"  {'?' if count is None else count:>8}  {'; '.join(by_labels[count])}")
    return lines
