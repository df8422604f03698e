"""How many labels each run of a study would buy, from the configuration alone."""

import math

from hardgrpo.planning import durations
from hardgrpo.selection import policies, selector_settings
from hardgrpo.study import paths, settings


def planned(config: dict, study: str) -> list[dict]:
    """Rows (study, task, pool, policy, labels), one for each task and arm; `pool` and `labels` are None if only running tells."""
    rows = {}
    for run in paths.runs(config, study):
        if not settings.has_weights(config, run.model):
            continue
        arm, pool = settings.arm(config["studies"][study], run), durations.known_problems(config, run.task, "train")
        rows[run.task, arm] = {"study": study, "task": run.task, "pool": pool, "policy": arm}
        rows[run.task, arm]["labels"] = bought(config["policies"][run.policy], config["recipes"][run.recipe], pool)
    return list(rows.values())


def bought(policy: dict, recipe: dict, pool: int | None) -> int | None:
    """The most labels that a run buys from a pool of `pool` prompts; None where the configuration alone does not determine them."""
    needs, budget = policies.labels_before(policy), policy.get("budget")
    if pool is None and (needs != "none" or not isinstance(budget, dict)):
        return None
    if needs == "pool" or policy["rule"] == "all":
        return policies.labels(policy, recipe, pool, 0, pool, _sampled(policy, recipe, pool))
    if budget is None:
        return None
    sample = policies.subset_size(policy["calibrated_on"], pool) if needs == "sample" else 0
    chosen = policies.subset_size(budget, math.inf if pool is None else pool)
    return policies.labels(policy, recipe, pool, sample, chosen, _sampled(policy, recipe, chosen))


def _sampled(policy: dict, recipe: dict, chosen: int) -> int | None:
    """The most prompts that a run can sample if it buys labels of sampled prompts only; None if it buys all chosen ones."""
    return selector_settings.max_labels(recipe, chosen) if recipe.get("selector") or policy["rule"] == "all" else None


def lines(rows: list[dict]) -> list[str]:
    """The rows as text, a line for each task and number of labels; [] without rows."""
    said = ["", "Labels that a run buys, those that its policy needs before it chooses included:"] if rows else []
    for study, task, pool in dict.fromkeys((row["study"], row["task"], row["pool"]) for row in rows):
        said.append(f"  {study}, {task}, a pool of {'?' if pool is None else pool}")
        by_labels: dict[int | None, list[str]] = {}
        for row in rows:
            if (row["study"], row["task"]) == (study, task):
                by_labels.setdefault(row["labels"], []).append(row["policy"])
        for count in sorted(by_labels, key=lambda count: (count is None, count or 0)):
            said.append(f"  {'?' if count is None else count:>8}  {'; '.join(by_labels[count])}")
    return said
