"""The power of a study before it is run: the smallest detectable effects, and the number of seeds
that a published difference needs.

Power depends on three variances that are unknown before the runs and therefore assumed. The spread
over seeds matters most: runs differ by 5 to 15 points on the small test sets of "A Sober Look at
Progress in LM Reasoning" (arXiv 2504.07086), and by 0.5 to 1.5 points in the miniature. The
variances over completions and over problems are those of the miniature's hardest tests, rounded up.
"""

from bisect import bisect_left
from itertools import combinations

from hardgrpo.analysis import statistics
from hardgrpo.planning import durations
from hardgrpo.planning.calibration import Calibration
from hardgrpo.planning.durations import Job
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.study import Study, share_policy_or_recipe

SEED_SD = 0.02  # standard deviation of a run's accuracy over seeds, as a share
COMPLETION_VARIANCE = 0.15  # mean of p(1-p) over problems
# {number of arms: variance over problems}: the gain of one arm, and the paired difference of two
# arms
PROBLEM_VARIANCE = {1: 0.05, 2: 0.02}
# Largest number of seeds that is tried. With so many seeds, almost all variance comes from the
# problems, and more seeds do not reduce this variance.
MOST_SEEDS = 1000


def detectable_effects(study: Study) -> list[dict]:
    """The smallest effects (shares) that each test detects with power 80 %: `gain` of one arm,
    `difference` of two arms corrected for `pairs_compared(study)` comparisons, `primary` corrected
    for the number of tasks. They generalise to new problems and (with several seeds) new seeds."""
    comparisons_by_quantity = {
        "gain": 1,
        "difference": max(pairs_compared(study), 1),
        "primary": len(study.tasks),
    }
    rows, seeds = [], len(study.seeds)
    for test in dict.fromkeys(test for _, _, test in study.tests):
        problems, samples = test_size(study, test)
        row = {"study": study.name, "test": test, "seeds": seeds}
        row |= {"problems": problems, "samples": samples}
        for quantity, comparisons in comparisons_by_quantity.items():
            arms = 1 if quantity == "gain" else 2
            row[quantity] = smallest_effect(problems, samples, seeds, arms, comparisons)
        rows.append(row)
    return rows


def test_size(study: Study, test: str) -> tuple[int, int]:
    """(number of problems of a test, sampled completions per problem)."""
    return durations.problems(study.config.split(test, "test")), study.config.tasks[
        test
    ].test.samples


def pairs_compared(study: Study) -> int:
    """The largest number of pairs of arms that are compared on one model and task: arms that share
    the policy or the recipe, or that `also_compared` names."""
    arms: dict[tuple, set] = {}
    for run in study.runs:
        arms.setdefault((run.model, run.task), set()).add((run.policy, run.recipe))
    also_compared = [set(pair) for pair in study.compared_pairs]
    is_compared = lambda pair: set(pair) in also_compared or share_policy_or_recipe(*pair)
    return max(
        (sum(map(is_compared, combinations(task_arms, 2))) for task_arms in arms.values()),
        default=0,
    )


def smallest_effect(
    problems: int, samples: int, seeds: int, arms: int, comparisons: int = 1
) -> float:
    """The smallest gain of one arm, or paired difference of two arms (a share), that a test detects
    with power 80 %."""
    sampling = arms * COMPLETION_VARIANCE / samples / problems / seeds
    over_seeds = arms * SEED_SD**2 / seeds + sampling
    over_problems = PROBLEM_VARIANCE[arms] / problems + (sampling if seeds == 1 else 0.0)
    return statistics.smallest_detectable(over_seeds, over_problems, seeds, comparisons)


def required_seeds(
    config: Configuration,
    study: Study,
    claims: list[dict],
    printed_gains: list[dict],
    readings: set,
    gpu: str,
    calibration: Calibration | None = None,
) -> list[dict]:
    """A row for each claim about two policies, model and task for which a paper printed both gains.
    `published`: the printed difference (a share). `detectable`: the smallest difference that the
    study's seeds detect. `takes`: the smallest number of seeds that detects the published
    difference with power 80 %; None above MOST_SEEDS. `gpu_hours`: of both policies' runs with so
    many seeds. `replicates`: the number that the claim's verdict requires. `aims`: whether the
    study's `aims_at` names the claim. Primary claims are corrected for the number of tasks.
    `readings`: pairs (published task, task of this project)."""
    rows = []
    for claim in claims:
        pair = (claim.get("policy"), claim.get("minus"))
        recipes = [claim.get(key, study.first_recipe) for key in ("recipe", "minus_recipe")]
        arms = list(zip(pair, recipes))
        if (
            claim["test"] != "difference"
            or claim.get("tested", "same") != "same"
            or not all(study.has_arm(policy=policy, recipe=recipe) for policy, recipe in arms)
        ):
            continue
        comparisons = len(study.tasks) if claim.get("primary") else 1
        for model, task in study.pairs:
            scope = claim.get("only", {})
            if model not in scope.get("model", [model]) or task not in scope.get("task", [task]):
                continue
            gains = [_printed_gain(printed_gains, readings, model, task, policy) for policy in pair]
            if None in gains:
                continue
            effect, size = gains[0] - gains[1], test_size(study, task)
            seeds_needed = _least_seeds(*size, abs(effect), comparisons)
            jobs = _jobs_of_seed(config, study, model, task, arms)
            seed_hours = sum(durations.estimate(job, gpu, calibration).gpu_hours for job in jobs)
            rows.append(
                {
                    "study": study.name,
                    "claim": claim["id"],
                    "model": model,
                    "task": task,
                    "published": effect,
                    "seeds": len(study.seeds),
                    "detectable": smallest_effect(*size, len(study.seeds), 2, comparisons),
                    "takes": seeds_needed,
                    "gpu_hours": seeds_needed and seeds_needed * seed_hours,
                    "replicates": claim.get("replicates"),
                    "aims": claim["id"] in (study.aims_at or []),
                }
            )
    return rows


def _printed_gain(
    printed_gains: list[dict], readings: set, model: str, task: str, policy: str
) -> float | None:
    keys = {"quantity": "gain", "model": model, "policy": policy, "unit": "points"}
    of_tasks = {published for published, here in readings if here == task}
    return next(
        (
            row["number"] / 100
            for row in printed_gains
            if keys.items() <= row.items() and row["task"] == row["eval_task"] in of_tasks
        ),
        None,
    )


def _least_seeds(problems: int, samples: int, effect: float, comparisons: int) -> int | None:
    # at least 2, because the spread over seeds cannot be estimated from one seed
    numbers = range(2, MOST_SEEDS + 1)
    is_detected = lambda seeds: smallest_effect(problems, samples, seeds, 2, comparisons) <= effect
    place = bisect_left(numbers, True, key=is_detected)
    return numbers[place] if place < len(numbers) else None


def _jobs_of_seed(
    config: Configuration, study: Study, model: str, task: str, arms: list[tuple[str, str]]
) -> list[Job]:
    """The GPU jobs of one seed of the arms (policy, recipe)."""
    base = study.config.base_of(model, 0)
    return [
        Job(config, rule, base, task, recipe, policy, test)
        for rule, test in (("train_grpo", None), ("evaluate_run", task))
        for policy, recipe in arms
    ]
