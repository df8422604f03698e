"""Reject a policy that cannot choose from its pool (for example, the budget exceeds the pool),
before any job samples completions of this pool.

The rule prepare_task checks the pool that it writes. Before the first job, `check_prepared` reads
the pools that earlier calls of Snakemake prepared.
"""

import os
from collections.abc import Collection, Iterable

from hardgrpo.runtime import files
from hardgrpo.selection import policies
from hardgrpo.study import paths
from hardgrpo.study.configuration import ChosenSubset
from hardgrpo.study.sections import Sections
from hardgrpo.study.study import Study
from hardgrpo.study.task import Task

# largest share of a pool's problems that may be left out because the grader cannot read their
# answers, see tasks.readable_problems
UNREADABLE_SHARE = 0.01


def choosing_policies(
    study: Study, subset: ChosenSubset, task: str, targets: Collection[str]
) -> dict[str, dict]:
    """{name: policy} of the policies with a budget that choose from a task's pool, for target
    `subset` that of `subset`, for `all` those of the configured study."""
    names = [subset.policy] if "subset" in targets and subset.task == task else []
    if (not targets or "all" in targets) and task in study.tasks:
        names += [name for name in study.policies if study.has_arm(policy=name, task=task)]
    return {
        name: study.config.policies[name].entry
        for name in names
        if study.config.policies[name].budget
    }


def check_prepared(sections: Sections, choices: Iterable[tuple[str, str]]) -> None:
    """Refuse the choices (policy, task) for which a prepared pool is too small."""
    for name, task in sorted(set(choices)):
        policy, pool = sections.policies[name], paths.problems(task, "train")
        if policy.budget and os.path.exists(pool):
            size = _usable_problems(sections.tasks[task], pool, policy.entry["budget"])
            policies.check_pool(f"policy '{name}'", policy.entry, task, size)


def _usable_problems(task: Task, pool: str, budget: float | dict) -> int:
    """Problems of a prepared pool whose answers the grader can read. Answers are checked only if
    the budget could exceed the readable ones."""
    problems = files.read_jsonl(pool, {"id": str})
    fewest_readable = (1 - UNREADABLE_SHARE) * len(problems)
    if (
        not task.is_labelled
        or not isinstance(budget, dict)
        or policies.affordable_prompts(budget) <= fewest_readable
    ):
        return len(problems)
    from hardgrpo.grading import graders  # imported late, because every dry-run reads this module

    return sum(graders.accepts_reference(task.grader, problem["answer"]) for problem in problems)
