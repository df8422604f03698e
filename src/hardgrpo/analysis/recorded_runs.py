"""Summary table of recorded runs. A row is a difference: the mean over the last checkpoints of a run
minus the value of the base model or of another run.

A recorded run has one seed. Intervals are for new questions and this one run
(`statistics.half_width` with one seed). The accuracy of a single checkpoint is noisy: among the
last five checkpoints of HE's runs on task `shuffled_objects_seven`, successive accuracies differ by
up to four points.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import stats

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import Cell, estimates, families
from hardgrpo.analysis.completions import pass_rates
from hardgrpo.analysis.summary_tables import table
from hardgrpo.data import evaluations, recorded_accuracies

LAST_CHECKPOINTS = 5  # number of last checkpoints over which a mean is computed
HARD_PASS_RATE = 0.3  # highest pass rate of a hard question, as in HE's released code
# Hard questions are identified only if the base model has at least this many samples per question.
FEWEST_SAMPLES = 5
# {largest pass rate of the base model, in per cent (column `at_most_percent` of published.csv):
# name of the set of questions}
PUBLISHED_QUESTIONS = {100: "all", 30: "hard"}


@table(
    "model task policy minus grading questions measure checkpoints value minus_value difference±"
    " problems seeds"
)
def recorded_runs(cells: list[Cell], published_runs: list[tuple[str, str, str, str]]) -> list[dict]:
    """A row for each difference `value` - `minus_value` of means over the last five checkpoints that
    both runs have, or over all if there are fewer (`checkpoints`: their number).

    policy     the run
    minus      the run that is subtracted, or `base`
    grading    task: by the task's grader; lenient: by the lenient grade, only if the two grades
               differ; published: accuracies that the authors published without completions
    questions  all: all test questions; hard: the questions on which the base model's pass rate is
               at most HARD_PASS_RATE
    measure    accuracy; pass@k, where k is the smallest number of samples per question in the
               compared checkpoints and the base model; answered; finishing and
               correctness, into which the difference in accuracy splits exactly
               (`statistics.decompose`)

    `published_runs` are (model, task, policy, file) of published accuracies. Without outcomes of
    single questions, no interval can be paired by question: see `_widest_interval`. Two published
    runs are compared only by measures of which their files state the same value of the base model.
    """
    rows = []
    for family in families([cell for cell in cells if cell.recipe == "recorded"]):
        for cell in family:
            rows += _pair_rows(cell, None)
        for cell, minus_cell in itertools.combinations(
            sorted(family, key=lambda cell: _order(cell.policy)), 2
        ):
            rows += _pair_rows(cell, minus_cell)
    sizes = {(cell.model, cell.task): len(cell.base_rates()[0]) for cell in cells}
    return rows + list(_published(published_runs, sizes))


def _order(policy: str) -> tuple[bool, bool]:
    """Sort key: subsets chosen by difficulty, random subsets, all prompts. A run is subtracted from
    the runs before it."""
    return policy == "all", policy.startswith("random")


def _questions(cell: Cell) -> dict[str, np.ndarray]:
    """{name of a set: array of the shape (questions,), true for the questions of the set}."""
    rates = cell.base_rates()[0]
    hard = {"hard": rates <= HARD_PASS_RATE + 1e-9} if cell.samples(0) >= FEWEST_SAMPLES else {}
    return {"all": np.ones(len(rates), bool)} | {
        name: mask for name, mask in hard.items() if mask.sum() > 1
    }


# --- runs with completions ---


def _pair_rows(cell: Cell, minus_cell: Cell | None) -> Iterator[dict]:
    """Rows of a run minus another run, or minus its base model (None)."""
    steps = set(cell.steps()) & set(minus_cell.steps()) if minus_cell else cell.steps()
    steps = sorted(steps)[-LAST_CHECKPOINTS:]
    sides = [cell, minus_cell] if minus_cell else [cell]
    are_equal = all(
        np.array_equal(_rates(side, step, "correct"), _rates(side, step, "lenient"))
        for side, step in [*itertools.product(sides, steps), (cell, 0)]
    )
    k = min(side.samples(step) for side in sides for step in [0, *steps])
    minus_side = (minus_cell.runs[0], steps) if minus_cell else (cell.bases[0], [0])
    keys = {"model": cell.model, "task": cell.task, "policy": cell.policy}
    keys |= {"minus": minus_cell.policy if minus_cell else "base", "checkpoints": len(steps)}
    for grading, column in {"task": "correct", "lenient": "lenient"}.items():
        if grading == "lenient" and are_equal:
            continue
        means, minus_means = (
            _means(*side, column, k) for side in ((cell.runs[0], steps), minus_side)
        )
        for questions, mask in _questions(cell).items():
            values, minus_values = (
                {measure: rates[mask] for measure, rates in side.items()}
                for side in (means, minus_means)
            )
            for measure, differences in _differences(values, minus_values).items():
                yield (
                    keys
                    | {"grading": grading, "questions": questions, "measure": measure}
                    | {"value": _mean(values.get(measure))}
                    | {"minus_value": _mean(minus_values.get(measure))}
                    | estimates(difference=differences[None])
                    | {"problems": len(differences), "seeds": 1}
                )


def _rates(cell: Cell, step: int, column: str) -> np.ndarray:
    """(seeds, questions) mean of a column over samples; step 0 is the base model."""
    return cell.rates(step, column) if step else cell.base_rates(column)


def _means(frame: pd.DataFrame, steps: list[int], column: str, k: int) -> dict[str, np.ndarray]:
    """{measure: (questions,) mean over checkpoints}; pass@k only for k above 1."""
    mean = lambda rates: np.mean([rates(step) for step in steps], axis=0)
    by_problem = lambda name: mean(
        lambda step: evaluations.by_problem(frame, step, name).to_numpy()
    )
    rates = {"accuracy": by_problem(column), "answered": by_problem("answered")}
    if k > 1:
        rates[f"pass@{k}"] = mean(lambda step: pass_rates(frame, step, k, column))
    return rates


def _differences(
    values: dict[str, np.ndarray], minus_values: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """{measure: (questions,) differences} for the measures that both arguments have, and for
    the two parts of the difference in accuracy."""
    rates = [
        side[name][None] for side in (minus_values, values) for name in ("answered", "accuracy")
    ]
    finishing, correctness = statistics.decompose_by_problem(*rates)
    differences = {
        name: values[name] - minus_values[name] for name in values if name in minus_values
    }
    return differences | {"finishing": finishing[0], "correctness": correctness[0]}


def _mean(values: np.ndarray | None) -> float | None:
    return None if values is None else values.mean()


# --- published accuracies ---


def _published(
    published_runs: list[tuple[str, str, str, str]], sizes: dict[tuple[str, str], int]
) -> Iterator[dict]:
    """Rows of each published run minus the published base model, and of each pair of published
    runs. `sizes` are the numbers of test questions by model and task."""
    groups: dict[tuple[str, str], dict[str, dict]] = {}
    for model, task, policy, path in published_runs:
        groups.setdefault((model, task), {})[policy] = _by_measure(recorded_accuracies.read(path))
    for group, runs in groups.items():
        for policy, curves in runs.items():
            for (questions, measure), curve in curves.items():
                # Runs are not compared with the base model by pass@k: the authors computed the base
                # model's pass@k from ten completions, and each run's pass@k from three.
                if curve.base is not None and measure == "accuracy":
                    base = dict.fromkeys(curve.values, curve.base)
                    keys = (*group, policy, "base", "published", questions, measure)
                    yield _published_row(keys, curve, base, sizes)
        for policy, minus in itertools.combinations(sorted(runs, key=_order), 2):
            for (questions, measure), curve in runs[policy].items():
                minus_curve = runs[minus].get((questions, measure))
                bases = curve.base, minus_curve and minus_curve.base
                if None not in bases and abs(bases[0] - bases[1]) < 1e-9:
                    keys = (*group, policy, minus, "published", questions, measure)
                    yield _published_row(keys, curve, minus_curve.values, sizes)


@dataclass
class _Curve:
    """A published measure: the value of the base model and the number of questions (each None if
    unknown), and {step: value}."""

    base: float | None
    problems: int | None
    values: dict[int, float] = field(default_factory=dict)


def _by_measure(rows: list[dict]) -> dict[tuple[str, str], _Curve]:
    """{(questions, measure): curve}, for the sets of questions in PUBLISHED_QUESTIONS."""
    curves: dict[tuple[str, str], _Curve] = {}
    for row in rows:
        if questions := PUBLISHED_QUESTIONS.get(row["at_most_percent"]):
            curve = curves.setdefault(
                (questions, row["measure"]), _Curve(row["base"], row["problems"])
            )
            curve.values[row["step"]] = row["value"]
    return curves


def _published_row(
    keys: tuple[str, ...],
    curve: _Curve,
    minus_values: dict[int, float],
    sizes: dict[tuple[str, str], int],
) -> dict:
    """The row of a published measure minus `minus_values` ({step: value}). `keys` are model, task,
    policy, minus, grading, questions and measure."""
    names = ("model", "task", "policy", "minus", "grading", "questions", "measure")
    row = dict(zip(names, keys))
    steps = sorted(curve.values.keys() & minus_values.keys())[-LAST_CHECKPOINTS:]
    problems = curve.problems or (sizes.get(keys[:2]) if row["questions"] == "all" else None)
    value, minus_value = (
        float(np.mean([values[step] for step in steps])) for values in (curve.values, minus_values)
    )
    return (
        row
        | {"checkpoints": len(steps), "value": value, "minus_value": minus_value}
        | estimates(difference=_widest_interval(value, minus_value, problems))
        | {"problems": problems, "seeds": 1}
    )


def _widest_interval(value: float, minus_value: float, problems: int | None) -> statistics.Estimate:
    """The difference of two means over the same questions, with the widest 95 % interval that is
    compatible with the two means.

    Outcomes lie between 0 and 1, so their variance is at most p (1 - p), where p is the mean. The
    outcomes of two runs on a question are assumed not to be negatively correlated.
    """
    if not problems or problems < 2:
        return statistics.Estimate.around(value - minus_value, np.nan)
    variance = sum(share * (1 - share) for share in (value, minus_value)) / (problems - 1)
    return statistics.Estimate.around(
        value - minus_value, stats.t.ppf(0.975, problems - 1) * np.sqrt(variance)
    )
