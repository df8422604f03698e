"""Cells of a study: all replicates of a model, task and arm on a test. Most summary tables are made
from cells."""

import functools
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.columns import CELL
from hardgrpo.data import evaluations
from hardgrpo.grading import graders
from hardgrpo.runtime.errors import UserError
from hardgrpo.study import paths
from hardgrpo.study.study import RECORDED, Run, Study, share_policy_or_recipe


@dataclass(frozen=True)
class Cell:
    """All replicates of a (model, task, policy, recipe) on a test set.

    `bases` are the evaluations of the base models: one for each of `runs`, or a single evaluation
    if all runs share a base model. Shapes of arrays: S replicates (seeds), N problems, m
    completions per problem.
    """

    model: str
    task: str
    eval_task: str
    policy: str
    recipe: str
    bases: list[pd.DataFrame]
    runs: list[pd.DataFrame]
    seeds: list[int]
    reach: list[pd.DataFrame] | None = None  # evaluations of the base models' reach samples
    # true for runs of the study's first recipe, and for recorded runs
    is_first_recipe: bool = True
    # arms (policy, recipe) to compare this arm with although both policy and recipe differ
    compared_with: tuple[tuple[str, str], ...] = ()

    @property
    def keys(self) -> dict:
        return {name: getattr(self, name) for name in CELL}

    @property
    def arm(self) -> tuple[str, str]:
        return self.policy, self.recipe

    def steps(self) -> list[int]:
        return sorted(set.intersection(*(set(run.step) for run in self.runs)))

    @functools.cached_property
    def last_step(self) -> int:
        return self.steps()[-1]

    @property
    def last_keys(self) -> dict:
        return self.keys | {"step": self.last_step}

    def base_rates(self, column: str = "correct", decoding: str = "sampled") -> np.ndarray:
        """(S, N) mean of a column for the base model of each replicate, by problem; (1, N) if all
        replicates share a base model."""
        return self._rates(self.bases, 0, column, decoding)

    def rates(self, step: int, column: str = "correct", decoding: str = "sampled") -> np.ndarray:
        """(S, N) mean of a column by replicate and problem; problems are sorted by id. Raise a
        `UserError` if the base model and a run were tested on different problems."""
        return self._rates(self.runs, step, column, decoding)

    def decomposition_rates(self, step: int, column: str = "correct") -> list[np.ndarray]:
        """The arguments of `statistics.decompose_by_problem`, each (S, N): rates of the base models
        that are answered and correct, then the same rates at a step. `column` holds the grades."""
        columns = ("answered", column)
        trained = [self.rates(step, name) for name in columns]
        bases = [np.broadcast_to(self.base_rates(name), trained[0].shape) for name in columns]
        return [*bases, *trained]

    def _rates(
        self, frames: list[pd.DataFrame], step: int, column: str, decoding: str
    ) -> np.ndarray:
        index = evaluations.by_problem(self.bases[0], 0, "correct", decoding).index
        problem_rates = [evaluations.by_problem(frame, step, column, decoding) for frame in frames]
        for rates in problem_rates:
            if not rates.index.equals(index):
                raise UserError(
                    f"{self.model}/{self.task}/{self.recipe}/{self.policy} on {self.eval_task}: the problems at step {step} ({len(rates)}) are not those"
                    f" of the base model ({len(index)}); delete the evaluation files and run again"
                )
        return np.stack([rates.to_numpy() for rates in problem_rates])

    def grades(self, step: int, decoding: str = "sampled") -> np.ndarray | None:
        """(S, N, m) grades 0/1 of single completions. Step 0: of the base models, (1, N, m) if all
        replicates share a base model. None if sample numbers differ between problems, or m between
        replicates."""
        grades = [
            evaluations.by_sample(frame, step, decoding)
            for frame in (self.runs if step else self.bases)
        ]
        if any(array is None or array.shape != grades[0].shape for array in grades):
            return None
        return np.stack(grades)

    def tiers(self) -> pd.Series:
        """The tier of each problem, in the order of `rates`; nan for a problem without a tier."""
        base = self.bases[0]
        tier = base[base.step == 0].drop_duplicates("id").set_index("id").tier
        return tier.reindex(evaluations.by_problem(base, 0, "correct").index)

    def tier_masks(self) -> dict[str, np.ndarray]:
        """{tier: (N,) whether each problem is in the tier}. Numeric tiers come first, in order,
        then names alphabetically."""
        tiers = self.tiers()
        return {
            tier: (tiers == tier).to_numpy()
            for tier in sorted(tiers.dropna().unique(), key=_tier_order)
        }

    def out_of_reach(self) -> np.ndarray:
        """(S, N) whether no reach sample of a base model solves a problem; (1, N) if all replicates
        share a base model.

        A sample solves a problem if its answer is correct and, where steps can be checked, sound. A
        correct answer alone may be a guess in problems with few possible answers.
        """
        correct, sound = (
            self._rates(self.reach, 0, column, "sampled") for column in ("correct", "sound")
        )
        return np.where(np.isnan(sound), correct, sound) == 0

    def reach_samples(self) -> int:
        """The smallest number of reach samples of a problem."""
        return int(min(evaluations.counts(frame, 0)[0].min() for frame in self.reach))

    def samples(self, step: int) -> int:
        """The smallest number of completions of a problem at a step, over all runs (at step 0: over
        all base models)."""
        frames = self.runs if step else self.bases
        return int(min(evaluations.counts(frame, step)[0].min() for frame in frames))

    def decodings(self) -> list[str]:
        return [d for d in ("sampled", "greedy") if (self.bases[0].decoding == d).any()]


def are_ordered(tiers: Iterable[str]) -> bool:
    """Whether all tiers are numbers, so that they have an easiest and a hardest tier."""
    return all(_tier_order(tier)[0] < float("inf") for tier in tiers)


def _tier_order(tier: str) -> tuple[float, str]:
    try:
        return float(tier), tier
    except ValueError:
        return float("inf"), tier


def load_cells(study: Study) -> list[Cell]:
    """The cells of a study. Every evaluation file is read once."""
    groups: dict[tuple, list[Run]] = {}
    for run in study.runs:
        groups.setdefault((run.model, run.task, run.policy, run.recipe), []).append(run)
    read = functools.cache(
        lambda run_path, test: evaluations.read(paths.evaluation(run_path, test))
    )
    cells = []
    for (model, task, *arm), replicates in groups.items():
        partners = tuple(
            partner
            for pair in study.compared_pairs
            if tuple(arm) in pair
            for partner in pair
            if partner != tuple(arm)
        )
        bases = list(dict.fromkeys(run.base for run in replicates))
        for test in study.eval_tasks(task, model):
            base_evaluations = {
                kind: [read(f"{base}/{kind}", test) for base in bases]
                for kind in paths.base_sample_sets(study, model, test)
            }
            cells.append(
                Cell(
                    *(model, task, test, *arm),
                    bases=base_evaluations["base"],
                    runs=[read(run.path, test) for run in replicates],
                    seeds=[run.seed for run in replicates],
                    reach=base_evaluations.get("reach"),
                    is_first_recipe=arm[1] in (RECORDED, study.first_recipe),
                    compared_with=partners,
                )
            )
    frames = [frame for cell in cells for frame in (*cell.bases, *cell.runs, *(cell.reach or []))]
    frames = list({id(frame): frame for frame in frames}.values())
    graders.check_decided(
        sum(frame.undecided.sum() for frame in frames),
        sum(map(len, frames)),
        f"evaluations of study {study.name}",
    )
    return cells


def families(cells: list[Cell]) -> list[list[Cell]]:
    """Groups of cells with the same model, task and test, sorted by these names. Within a group,
    the cells are in the study's order. `pairs` compares only cells of one group."""
    keys = lambda cell: (cell.model, cell.task, cell.eval_task)
    return [
        sorted(group, key=cells.index)
        for _, group in itertools.groupby(sorted(cells, key=keys), key=keys)
    ]


def pairs(family: list[Cell]) -> list[tuple[Cell, Cell]]:
    """The pairs of cells of a family to compare: pairs of arms with the same seeds that have the
    same policy or the same recipe, or that the study's `also_compared` names."""
    compared = lambda a, b: b.arm in a.compared_with or share_policy_or_recipe(a.arm, b.arm)
    return [
        (a, b)
        for a, b in itertools.combinations(family, 2)
        if a.seeds == b.seeds and compared(a, b)
    ]


def minus_columns(cell: Cell) -> dict:
    """The columns that name the arm of a subtracted cell."""
    return {"minus": cell.policy, "minus_recipe": cell.recipe}


def estimates(**values: np.ndarray | statistics.Estimate) -> dict:
    """The columns of estimates and their intervals; an array (S, N) stands for its mean over seeds
    and problems."""
    columns = {}
    for name, value in values.items():
        if not isinstance(value, statistics.Estimate):
            value = statistics.mean_interval(value)
        columns |= {name: value.estimate, f"{name}_low": value.low, f"{name}_high": value.high}
    return columns


def sizes(values: np.ndarray) -> dict:
    """The numbers of problems and seeds of values (S, N)."""
    return {"problems": values.shape[1], "seeds": values.shape[0]}
