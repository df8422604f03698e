"""The power of a study before it is run: the smallest detectable effects, and the number of seeds
that a published difference needs.

Power depends on three variances that are unknown before the runs and therefore assumed. The spread
over seeds matters most: runs differ by 5 to 15 points on small test sets in A Sober Look at
Progress in LM Reasoning (arXiv 2504.07086), and by 0.5 to 1.5 in the miniature. The variances over
completions and over problems are the variances of the miniature's hardest tests, rounded up.
"""

from itertools import combinations

from hardgrpo.analysis import statistics
from hardgrpo.planning import durations
from hardgrpo.study import settings

SEED_SD = 0.02  # standard deviation of a run's accuracy over seeds, as a share
COMPLETION_VARIANCE = 0.15  # mean of p(1-p) over problems
# variance over problems; 1: the gain of one policy, 2: the paired difference of two policies
PROBLEM_VARIANCE = {1: 0.05, 2: 0.02}
MOST_SEEDS = 1000  # if a difference needs more seeds, the test has too few problems


def detectable_effects(config: dict, study: str) -> list[dict]:
    """The smallest effects (shares) that each test of a study would detect with power 80 %, after
    Holm's correction.

    `gain` is the smallest detectable gain of one policy. `difference` is the smallest detectable
    difference of two policies, corrected for all pairs that the study compares on a test. `primary`
    is the smallest detectable difference of a primary claim about two policies, corrected for the
    number of the study's tasks. The effects follow from the assumed variances
    (statistics.smallest_detectable). They hold for new problems and new seeds. In a study with a
    single seed they hold only for the runs of this seed.
    """
    plan = config["studies"][study]
    tests = [
        (model, test)
        for model, task in settings.pairs(config, plan)
        for test in settings.eval_tasks(plan, task, model)
    ]
    comparisons_by_quantity = {
        "gain": 1,
        "difference": max(pairs_compared(config, plan), 1),
        "primary": len(plan["tasks"]),
    }
    rows = []
    for test in dict.fromkeys(test for _, test in tests):
        seeds = len(plan["seeds"])
        test_columns = {
            "study": study,
            "test": test,
            "seeds": seeds,
            "problems": durations.problems(config, test, "test"),
        }
        row = test_columns | {"samples": config["tasks"][test]["test"]["samples"]}
        for quantity, comparisons in comparisons_by_quantity.items():
            row[quantity] = smallest_effect(
                config, test, seeds, 1 if quantity == "gain" else 2, comparisons
            )
        rows.append(row)
    return rows


def pairs_compared(config: dict, plan: dict) -> int:
    """The largest number of pairs of arms that are compared on one model and task. Two arms are
    compared if they share the policy or the recipe, or if the study's `also_compared` names the
    pair."""
    arms: dict[tuple, set] = {}
    for run in settings.runs(config, plan):
        arms.setdefault((run.model, run.task), set()).add((run.policy, run.recipe))
    also_compared = [set(pair) for pair in settings.also_compared(plan)]
    is_compared = lambda pair: set(pair) in also_compared or settings.share_policy_or_recipe(*pair)
    return max(
        (sum(map(is_compared, combinations(arms_of_cell, 2))) for arms_of_cell in arms.values()),
        default=0,
    )


def smallest_effect(config: dict, test: str, seeds: int, runs: int, comparisons: int = 1) -> float:
    """The smallest effect (a share) that a test detects with power 80 %: a gain (`runs` 1) or a
    paired difference (`runs` 2)."""
    problems, samples = (
        durations.problems(config, test, "test"),
        config["tasks"][test]["test"]["samples"],
    )
    sampling = runs * COMPLETION_VARIANCE / samples / problems / seeds
    over_seeds = runs * SEED_SD**2 / seeds + sampling
    over_problems = PROBLEM_VARIANCE[runs] / problems + (sampling if seeds == 1 else 0.0)
    return statistics.smallest_detectable(over_seeds, over_problems, seeds, comparisons)


def required_seeds(
    config: dict, study: str, claims: list[dict], printed_gains: list[dict], readings: set, gpu: str
) -> list[dict]:
    """The number of seeds that each claim about two policies needs, and the GPU-hours of these
    seeds.

    Only claims whose two gains a paper printed have rows: one row for each model and task of the
    study. Columns: `published` is the printed difference (a share). `detectable` is the smallest
    difference that the study's seeds detect. `takes` is the smallest number of seeds, at least 2,
    that detects the published difference with power 80 %; None if the number exceeds MOST_SEEDS
    because the test has too few problems. `gpu_hours` is the cost of the two policies' runs with
    `takes` seeds. `aims` tells whether the study's `aims_at` names the claim. `readings` are the
    pairs of a published task and the corresponding task of this project. Primary claims are
    corrected for the number of the study's tasks.
    """
    plan, rows = config["studies"][study], []
    for claim in claims:
        pair = (claim.get("policy"), claim.get("minus"))
        recipes = [
            claim.get(key, settings.first_recipe(plan)) for key in ("recipe", "minus_recipe")
        ]
        if (
            claim["test"] != "difference"
            or claim.get("tested", "same") != "same"
            or not all(
                settings.has_arm(plan, policy=policy, recipe=recipe)
                for policy, recipe in zip(pair, recipes)
            )
        ):
            continue
        comparisons = len(plan["tasks"]) if claim.get("primary") else 1
        for model, task in settings.pairs(config, plan):
            scope = claim.get("only", {})
            if model not in scope.get("model", [model]) or task not in scope.get("task", [task]):
                continue
            gains = [_printed_gain(printed_gains, readings, model, task, policy) for policy in pair]
            if None in gains:
                continue
            effect = gains[0] - gains[1]
            seeds_needed = _least_seeds(config, task, abs(effect), comparisons)
            rows.append(
                {
                    "study": study,
                    "claim": claim["id"],
                    "model": model,
                    "task": task,
                    "published": effect,
                }
                | {"detectable": smallest_effect(config, task, len(plan["seeds"]), 2, comparisons)}
                | {"seeds": len(plan["seeds"]), "takes": seeds_needed}
                | {
                    "gpu_hours": seeds_needed
                    and seeds_needed * _gpu_hours(config, plan, model, task, pair, gpu)
                }
                | {"aims": claim["id"] in plan.get("aims_at", [])}
            )
    return rows


def _printed_gain(
    printed_gains: list[dict], readings: set, model: str, task: str, policy: str
) -> float | None:
    """The printed gain (a share) of the published task that corresponds to `task`; None if no paper
    printed a gain."""
    for row in printed_gains:
        is_gain = (row["quantity"], row["model"], row["policy"]) == ("gain", model, policy) and row[
            "unit"
        ] == "points"
        if is_gain and row["task"] == row["eval_task"] and (row["task"], task) in readings:
            return row["number"] / 100
    return None


def _least_seeds(config: dict, test: str, effect: float, comparisons: int) -> int | None:
    is_detectable = lambda seeds: smallest_effect(config, test, seeds, 2, comparisons) <= effect
    if not is_detectable(MOST_SEEDS):
        return None
    # the result is at least 2, because the spread over seeds cannot be estimated from one seed
    low, high = 1, MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_detectable(middle) else (middle, high)
    return high


def _gpu_hours(
    config: dict, plan: dict, model: str, task: str, pair: tuple[str, str], gpu: str
) -> float:
    """GPU-hours of one seed: the runs of two policies, and the evaluations of these runs on the
    trained task."""
    recipe = settings.recipes_of(plan)[0]
    jobs = [
        durations.Job(
            rule,
            model=settings.base_of(config, model, 0),
            task=task,
            recipe=recipe,
            policy=policy,
            seed=0,
            eval_task=task,
        )
        for rule in ("train_grpo", "evaluate_run")
        for policy in pair
    ]
    return sum(durations.estimate(config, job, gpu).gpu_hours for job in jobs)
