"""Summary tables of graded completions: accuracy, gains and differences, and what gains consist of.

Almost every number is the mean of an array (S, N) with its interval (`estimates`): S replicates
(seeds), N problems. Runs with the same seed share the base model and the test's problems, so the
noise that both have in common cancels in a paired difference.
"""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.arms import NO_RUN
from hardgrpo.analysis.cells import (
    Cell,
    are_ordered,
    estimates,
    families,
    minus_columns,
    pairs,
    sizes,
)
from hardgrpo.analysis.summary_tables import CELL_KEYS, MINUS_KEYS, table
from hardgrpo.data import evaluations

ANSWERED = "base_answered answered base_accuracy accuracy base_accuracy_answered accuracy_answered"
LENGTHS = "base_truncated truncated base_tokens tokens"
GRADINGS = {"task": "correct", "strict": "strict", "lenient": "lenient"}


def ends(
    cell: Cell, column: str = "correct", decoding: str = "sampled"
) -> tuple[np.ndarray, np.ndarray]:
    """(rates of the base models, rates after the last update)."""
    return cell.base_rates(column, decoding), cell.rates(cell.last_step, column, decoding)


def last_rates(cell: Cell) -> np.ndarray:
    return cell.rates(cell.last_step)


# --- accuracy


@table(f"{CELL_KEYS} decoding step accuracy± answered_mean tokens_mean problems samples seeds")
def accuracy(cells: list[Cell]) -> Iterator[dict]:
    """Accuracy by checkpoint. Step 0 is the base model, or the mean over the replicates of the base
    model, and has the same accuracy for all arms with the same base models."""
    for cell in cells:
        for decoding, step in itertools.product(cell.decodings(), [0, *cell.steps()]):
            rates = {
                column: cell.rates(step, column, decoding)
                if step
                else cell.base_rates(column, decoding)
                for column in ("correct", "answered", "tokens")
            }
            yield (
                cell.keys
                | {"decoding": decoding, "step": step}
                | estimates(accuracy=rates["correct"])
                | {f"{name}_mean": rates[name].mean() for name in rates if name != "correct"}
                | {"samples": cell.samples(step) if decoding == "sampled" else 1}
                | sizes(rates["correct"])
                | {"seeds": len(cell.runs if step else cell.bases)}
            )


def k_values(samples: int) -> list[int]:
    """1, 2, 4, 8, ... and `samples`, the largest k."""
    return sorted({samples, *(2**power for power in range(samples.bit_length()))})


def pass_rates(frame: pd.DataFrame, step: int, k: int, column: str = "correct") -> np.ndarray:
    """(N,) unbiased pass@k of each problem; nan where the values of the column are unknown."""
    counts = zip(*evaluations.counts(frame, step, column))
    return np.array(
        [np.nan if np.isnan(c) else statistics.pass_at_k(n, int(c), k) for n, c in counts]
    )


def passes(frames: list[pd.DataFrame], step: int, k: int, column: str = "correct") -> np.ndarray:
    """(S, N) unbiased pass@k."""
    return np.stack([pass_rates(frame, step, k, column) for frame in frames])


@table(f"{CELL_KEYS} k step base pass± gain± problems seeds")
def pass_at_k(cells: list[Cell]) -> Iterator[dict]:
    """Unbiased pass@k of the base model and the last checkpoint, for each k of `k_values`. pass@1
    is the accuracy."""
    for cell in cells:
        for k in k_values(min(cell.samples(0), cell.samples(cell.last_step))):
            base, trained = passes(cell.bases, 0, k), passes(cell.runs, cell.last_step, k)
            yield (
                cell.last_keys
                | {"k": k, "base": base.mean()}
                | estimates(**{"pass": trained, "gain": trained - base})
                | sizes(trained)
            )


@table("model eval_task k pass± sound± problems seeds")
def base_pass_at_k(cells: list[Cell]) -> Iterator[dict]:
    """Unbiased pass@k of the base models' reach samples, for correct answers and, where steps can
    be checked, for sound answers."""
    by_test = {(cell.model, cell.eval_task): cell for cell in cells if cell.reach}
    for (model, test), cell in by_test.items():
        for k in k_values(cell.reach_samples()):
            correct, sound = (passes(cell.reach, 0, k, name) for name in ("correct", "sound"))
            yield (
                {"model": model, "eval_task": test, "k": k}
                | estimates(**{"pass": correct, "sound": sound})
                | sizes(correct)
            )


@table(f"{CELL_KEYS} tier step base_accuracy accuracy± gain± problems seeds")
def tiers(cells: list[Cell]) -> Iterator[dict]:
    """Accuracy and gain at the last checkpoint, by tier."""
    for cell in cells:
        base, trained = ends(cell)
        for tier, in_tier in cell.tier_masks().items():
            yield (
                cell.last_keys
                | {"tier": tier, "base_accuracy": base[:, in_tier].mean()}
                | estimates(accuracy=trained[:, in_tier], gain=(trained - base)[:, in_tier])
                | sizes(trained[:, in_tier])
            )


@table(f"{CELL_KEYS} target step steps step_first step_last seeds_reached seeds")
def catches_up(cells: list[Cell]) -> Iterator[dict]:
    """The first checkpoint whose accuracy is at least the `target`, the final accuracy of policy
    `all` with the study's first recipe. A cell has no row if its model, task and test lack this
    arm, or if the target is not above the base model's accuracy.

    `step` is this checkpoint for the accuracy averaged over seeds; empty if the mean accuracy never
    reaches the target. `seeds_reached` seeds reach the target; `step_first` and `step_last` are the
    checkpoints at which the quickest and the slowest of these seeds do, empty without such a seed.
    """
    targets = {
        (cell.model, cell.task, cell.eval_task): last_rates(cell).mean()
        for cell in cells
        if cell.policy == "all" and cell.is_first_recipe
    }
    for cell in cells:
        target = targets.get((cell.model, cell.task, cell.eval_task))
        if target is None or target <= cell.base_rates().mean():
            continue
        steps = cell.steps()
        curves = np.stack([cell.rates(step).mean(axis=1) for step in steps], axis=1)
        first_steps = (_first_step(steps, curve, target) for curve in curves)
        seed_steps = [step for step in first_steps if step is not None]
        yield cell.keys | {
            "target": target,
            "step": _first_step(steps, curves.mean(axis=0), target),
            "steps": steps[-1],
            "step_first": min(seed_steps, default=None),
            "step_last": max(seed_steps, default=None),
            "seeds_reached": len(seed_steps),
            "seeds": len(cell.runs),
        }


def _first_step(steps: list[int], accuracies: np.ndarray, target: float) -> int | None:
    return next(
        (step for step, accuracy in zip(steps, accuracies) if accuracy >= target - 1e-12), None
    )


# --- gains, and differences between arms


@table(f"{CELL_KEYS} decoding step base_accuracy gain± mdd problems samples seeds")
def gains(cells: list[Cell]) -> list[dict]:
    """Accuracy at the last checkpoint minus the accuracy of the base model, with the smallest
    detectable difference of the design (`mdd`)."""
    rows = {}
    for family in families(cells):
        for decoding in family[0].decodings():
            rates = [ends(cell, decoding=decoding) for cell in family]
            family_gains = [trained - base for base, trained in rates]
            mdd = _detectable(family_gains, _pooled(family_gains, differences=False))
            for cell, (base, _), gain in zip(family, rates, family_gains):
                samples = cell.samples(cell.last_step) if decoding == "sampled" else 1
                rows[id(cell), decoding] = (
                    cell.last_keys
                    | {"decoding": decoding, "base_accuracy": base.mean()}
                    | estimates(gain=gain)
                    | {"mdd": mdd, "samples": samples}
                    | sizes(gain)
                )
    return [rows[id(cell), decoding] for cell in cells for decoding in cell.decodings()]


@table(f"{CELL_KEYS} {MINUS_KEYS} difference± p mdd problems seeds")
def differences(cells: list[Cell]) -> Iterator[dict]:
    """Differences in sampled accuracy between arms at the last checkpoint, paired by problem and
    seed. They equal the differences of the gains, because both arms have the same base model.

    `p` is below 0.05 exactly if the interval excludes 0 (`statistics.p_value`), and is not
    corrected for other comparisons (see `random_choice`). `mdd` is the smallest difference that is
    detectable after a correction for all comparisons within a model, task and test.
    """
    for family in families(cells):
        rates, compared = {id(cell): last_rates(cell) for cell in family}, pairs(family)
        values = [rates[id(cell)] - rates[id(minus)] for cell, minus in compared]
        pooled = _pooled(list(rates.values()), differences=True)
        mdd = _detectable(values, pooled, len(compared)) if values else np.nan
        for (cell, minus), value in zip(compared, values):
            yield (
                cell.keys
                | minus_columns(minus)
                | estimates(difference=value)
                | {"p": float(statistics.p_value(statistics.components(value))), "mdd": mdd}
                | sizes(value)
            )


def _pooled(values: list[np.ndarray], differences: bool) -> tuple[float, int] | None:
    """`statistics.pooled_over_seeds`; None if the arrays differ in shape, if there is only one
    seed, or if `differences` is set and there is only one array."""
    is_single = len(values[0]) == 1 or (differences and len(values) < 2)
    if is_single or len({array.shape for array in values}) > 1:
        return None
    variance, df = statistics.pooled_over_seeds(np.stack(values), differences)
    return float(variance), df


def _detectable(
    values: list[np.ndarray], pooled: tuple[float, int] | None, comparisons: int = 1
) -> float:
    """The smallest detectable difference of a design; nan if there are several seeds and `pooled`
    is None."""
    seeds = {len(array) for array in values}
    if pooled is None and seeds != {1}:
        return np.nan
    over_problems = float(np.mean([statistics.components(array).over_problems for array in values]))
    over_seeds = pooled[0] if pooled else np.nan
    return statistics.smallest_detectable(over_seeds, over_problems, min(seeds), comparisons)


@table(
    f"{CELL_KEYS} {MINUS_KEYS} decoding seed step only_this only_other difference p p_holm problems"
)
def mcnemar(cells: list[Cell]) -> Iterator[dict]:
    """McNemar's exact test for decodings with one completion per problem.

    Each run is compared with the base model, and with the run of the same seed in each arm that
    `pairs` compares its arm with. The test compares two *runs* and says nothing about other seeds.
    Holm's correction covers the comparisons of a seed and decoding within a model, task and test,
    separately for comparisons with the base model and for comparisons between arms.
    """
    base_keys = {"minus": NO_RUN, "minus_recipe": ""}
    for family in families(cells):
        for decoding in family[0].decodings():
            grades = _single_grades(family, decoding)
            for seed in sorted({seed for _, seed in grades}):
                arms = [cell for cell in family if (cell.arm, seed) in grades]
                with_base = [(cell, base_keys, None) for cell in arms]
                between_arms = [
                    (cell, minus_columns(minus), minus.arm) for cell, minus in pairs(arms)
                ]
                for compared in (with_base, between_arms):
                    rows = [
                        cell.keys
                        | minus_keys
                        | {"decoding": decoding, "seed": seed, "step": cell.last_step}
                        | _mcnemar_columns(grades[cell.arm, seed], grades[minus_arm, seed])
                        for cell, minus_keys, minus_arm in compared
                    ]
                    corrected = statistics.holm([row["p"] for row in rows]).tolist()
                    yield from (row | {"p_holm": p} for row, p in zip(rows, corrected))


def _single_grades(family: list[Cell], decoding: str) -> dict[tuple, np.ndarray]:
    """{(arm, seed): grades (N,)} of runs with one completion per problem; arm None: the base
    model."""
    single_grades = {}
    for cell in family:
        grades, bases = cell.grades(cell.last_step, decoding), cell.grades(0, decoding)
        if grades is None or bases is None or not grades.shape[-1] == bases.shape[-1] == 1:
            continue
        for seed, run, base in zip(cell.seeds, grades, np.broadcast_to(bases, grades.shape)):
            single_grades[cell.arm, seed], single_grades[None, seed] = run[:, 0], base[:, 0]
    return single_grades


def _mcnemar_columns(grades: np.ndarray, minus_grades: np.ndarray) -> dict:
    only_this, only_other, p = statistics.mcnemar(grades, minus_grades)
    return {
        "only_this": only_this,
        "only_other": only_other,
        "difference": (only_this - only_other) / len(grades),
        "p": p,
        "problems": len(grades),
    }


@table(f"{CELL_KEYS} {MINUS_KEYS} what at difference± problems seeds")
def paired(cells: list[Cell]) -> Iterator[dict]:
    """Further differences, paired by problem and seed: a row for each pair of cells that is
    compared, kind of difference (`what`) and value of `at`.

    - checkpoint: accuracy of one arm minus accuracy of another at step `at`, for each checkpoint
      that both arms have, except the last; only if both arms have the same last checkpoint,
      because runs of different lengths may have sampled different numbers of rollouts;
    - pass@k: pass@k of one arm minus pass@k of another, with k = `at`, the number of samples per
      problem, if it is above 1;
    - tier: accuracy of one arm minus accuracy of another on the problems of tier `at`;
    - test: the arm's lead on the task's own test minus the same runs' lead on test `at`, which has
      the same problems;
    - trained on: accuracy of the arm trained on `task` minus accuracy of the same arm trained on
      task `at`, on the same test.
    """

    def row(cell: Cell, minus: Cell, what: str, at, values: np.ndarray) -> dict:
        columns = minus_columns(minus) | {"what": what, "at": str(at)}
        return cell.keys | columns | estimates(difference=values) | sizes(values)

    for family in families(cells):
        for cell, minus in pairs(family):
            if cell.last_step == minus.last_step:
                for step in sorted(set(cell.steps()) & set(minus.steps()))[:-1]:
                    lead = cell.rates(step) - minus.rates(step)
                    yield row(cell, minus, "checkpoint", step, lead)
            samples = min(side.samples(side.last_step) for side in (cell, minus))
            if samples > 1:
                sides = [passes(side.runs, side.last_step, samples) for side in (cell, minus)]
                yield row(cell, minus, "pass@k", samples, sides[0] - sides[1])
            lead = last_rates(cell) - last_rates(minus)
            for tier, in_tier in cell.tier_masks().items():
                yield row(cell, minus, "tier", tier, lead[:, in_tier])
    for cell, minus, test, values in _lost_leads(cells):
        yield row(cell, minus, "test", test, values)
    for cell, other in itertools.combinations(cells, 2):
        names = ("model", "eval_task", "arm", "seeds")
        is_same_arm = all(getattr(cell, name) == getattr(other, name) for name in names)
        if is_same_arm and cell.task != other.task:
            yield row(cell, cell, "trained on", other.task, last_rates(cell) - last_rates(other))


def _lost_leads(cells: list[Cell]) -> Iterator[tuple[Cell, Cell, str, np.ndarray]]:
    """Yield (cell, cell to subtract, test, values (S, N)) for each pair of arms and each further
    test that has the same problems as the task's own test."""
    for own_family, further_family in itertools.permutations(families(cells), 2):
        own, further = own_family[0], further_family[0]
        if (
            own.eval_task != own.task
            or (own.model, own.task) != (further.model, further.task)
            or not own.tiers().index.equals(further.tiers().index)
        ):
            continue
        by_arm = {cell.arm: cell for cell in further_family}
        for cell, minus in pairs([cell for cell in own_family if cell.arm in by_arm]):
            if cell.seeds == by_arm[cell.arm].seeds == by_arm[minus.arm].seeds:
                lead = last_rates(cell) - last_rates(minus)
                further_lead = last_rates(by_arm[cell.arm]) - last_rates(by_arm[minus.arm])
                yield cell, minus, further.eval_task, lead - further_lead


@table(f"{CELL_KEYS} easiest hardest step points± log_odds± problems seeds")
def tier_trends(cells: list[Cell]) -> Iterator[dict]:
    """The gain in the easiest tier minus the gain in the hardest tier, in points and in log odds of
    the tier's accuracy.

    Gains in points must shrink near 100 %. Seeds are paired, problems are not. Log odds are nan if
    an accuracy is 0 or 1. `problems` is the number of problems of the smaller tier. Tiers that are
    not numbers have no order, so they have no row.
    """
    for cell in cells:
        masks = cell.tier_masks()
        if len(masks) < 2 or not are_ordered(masks):
            continue
        base, trained = ends(cell)
        (easiest, in_easiest), *_, (hardest, in_hardest) = masks.items()
        tier_rates = [(base[:, mask], trained[:, mask]) for mask in (in_easiest, in_hardest)]
        points = [after - before for before, after in tier_rates]
        log_odds = [_log_odds(before, after) for before, after in tier_rates]
        yield (
            cell.keys
            | {"easiest": easiest, "hardest": hardest, "step": cell.last_step}
            | estimates(
                points=statistics.contrast_interval(*points),
                log_odds=statistics.contrast_interval(*log_odds),
            )
            | {"problems": int(min(in_easiest.sum(), in_hardest.sum())), "seeds": len(cell.runs)}
        )


def _log_odds(base: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """(S, N) linearised contributions whose mean is the gain in log odds of the accuracy (delta
    method)."""
    means = base.mean(), trained.mean()
    if any(mean in (0, 1) for mean in means):
        return np.full(trained.shape, np.nan)
    before, after = (
        np.log(m / (1 - m)) + (x - m) / (m * (1 - m)) for m, x in zip(means, (base, trained))
    )
    return after - before


# --- finishing and correctness


@table(
    f"{CELL_KEYS} step gain finishing± correctness± finishing_minus_correctness± {ANSWERED} problems seeds"
)
def parts(cells: list[Cell]) -> Iterator[dict]:
    """Every gain of sampled completions at the last checkpoint, split exactly into finishing and
    correctness."""
    for cell in cells:
        rates = cell.decomposition_rates(cell.last_step)
        finishing, correctness = statistics.decompose_by_problem(*rates)
        yield (
            cell.last_keys
            | {"gain": (rates[3] - rates[1]).mean()}
            | estimates(
                finishing=finishing,
                correctness=correctness,
                finishing_minus_correctness=finishing - correctness,
            )
            | _answered(*rates)
            | sizes(finishing)
        )


@table(
    f"{CELL_KEYS} grading step gain± finishing± correctness± {ANSWERED} {LENGTHS} problems seeds"
)
def decomposition(cells: list[Cell]) -> Iterator[dict]:
    """Every gain at the last checkpoint split into finishing and correctness, by grading.

    `grading` is "task" (the task's own), "strict" or "lenient". All gradings count the same
    completions as answered.
    """
    for cell in cells:
        lengths = {name: values.mean() for name, values in _lengths(cell).items()}
        for grading, column in GRADINGS.items():
            rates = cell.decomposition_rates(cell.last_step, column)
            finishing, correctness = statistics.decompose_by_problem(*rates)
            gain = rates[3] - rates[1]
            yield (
                cell.last_keys
                | {"grading": grading}
                | estimates(gain=gain, finishing=finishing, correctness=correctness)
                | _answered(*rates)
                | lengths
                | sizes(gain)
            )


@table(f"{CELL_KEYS} seed step gain finishing correctness {ANSWERED} {LENGTHS} problems")
def decomposition_runs(cells: list[Cell]) -> Iterator[dict]:
    """The exact split of every run's gain at the last checkpoint. The mean of the splits of all
    runs differs slightly from the split of the mean gain."""
    for cell in cells:
        lengths = _lengths(cell)
        for index, seed in enumerate(cell.seeds):
            rates = [rate[index] for rate in cell.decomposition_rates(cell.last_step)]
            means = [float(rate.mean()) for rate in rates]
            finishing, correctness = statistics.decompose(*means)
            yield (
                cell.last_keys
                | {"seed": seed, "gain": means[3] - means[1]}
                | {"finishing": finishing, "correctness": correctness}
                | _answered(*rates)
                | {name: values[index].mean() for name, values in lengths.items()}
                | {"problems": len(rates[0])}
            )


def _lengths(cell: Cell) -> dict[str, np.ndarray]:
    """{column of LENGTHS: (S, N)}."""
    sides = [ends(cell, name) for name in ("truncated", "tokens")]
    values = [
        np.broadcast_to(side, trained.shape) for base, trained in sides for side in (base, trained)
    ]
    return dict(zip(LENGTHS.split(), values))


def _answered(base_answered, base_correct, answered, correct) -> dict:
    """The columns ANSWERED."""
    values = (
        base_answered.mean(),
        answered.mean(),
        base_correct.mean(),
        correct.mean(),
        statistics.ratio_of_means(base_correct, base_answered),
        statistics.ratio_of_means(correct, answered),
    )
    return dict(zip(ANSWERED.split(), values))


# --- kinds of gain


@table(
    f"{CELL_KEYS} tier step reach_samples gain± finishing± sharpening± new_solving±"
    " out_of_reach greedy_gain± problems seeds"
)
def kinds(cells: list[Cell]) -> Iterator[dict]:
    """The gain of each cell with reach samples, split exactly into finishing, sharpening and new
    solving, over all problems (rows with an empty `tier`) and within each tier.

    The gain is measured with other samples than those that determine which problems are *out of
    reach* of a base model (`Cell.out_of_reach`), so that a chance success in one sample does not
    change both.
    """
    for cell in cells:
        if cell.reach is None:
            continue
        rates = cell.decomposition_rates(cell.last_step)
        shape = rates[2].shape
        out_of_reach = np.broadcast_to(cell.out_of_reach(), shape)
        greedy_gain = np.full(shape, np.nan)
        if "greedy" in cell.decodings():
            greedy_base, greedy = ends(cell, decoding="greedy")
            greedy_gain = greedy - greedy_base
        for tier, in_tier in {None: np.ones(shape[1], bool), **cell.tier_masks()}.items():
            tier_rates = [rate[:, in_tier] for rate in rates]
            is_out, gain = out_of_reach[:, in_tier], tier_rates[3] - tier_rates[1]
            finishing, sharpening, new_solving = split(*tier_rates, is_out)
            yield (
                cell.last_keys
                | {"tier": tier, "reach_samples": cell.reach_samples()}
                | estimates(gain=gain, finishing=finishing, sharpening=sharpening)
                | estimates(new_solving=new_solving)
                | {"out_of_reach": is_out.mean()}
                | estimates(greedy_gain=greedy_gain[:, in_tier])
                | sizes(gain)
            )


def split(
    base_answered, base_correct, answered, correct, out_of_reach: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(finishing, sharpening, new solving): linearised contributions (S, N) of each seed and
    problem. Each part of the gain is the mean of its array. The sum of the three arrays is the
    array of gains. `out_of_reach` (S, N) marks the problems out of reach of each replicate's base
    model.

    *Sharpening* is the correctness part within reach, *new solving* that out of reach. The formula
    of `statistics.decompose` is homogeneous of degree 1, so the parts of a group of problems follow
    from the formula with all rates outside the group set to zero.
    """
    rates = (base_answered, base_correct, answered, correct)
    finishing_within_reach, sharpening = statistics.decompose_by_problem(
        *(rate * ~out_of_reach for rate in rates)
    )
    finishing_out_of_reach, new_solving = statistics.decompose_by_problem(
        *(rate * out_of_reach for rate in rates)
    )
    return finishing_within_reach + finishing_out_of_reach, sharpening, new_solving


@table(
    f"{CELL_KEYS} step base_sound_share sound sound_share sound_gain± lucky_gain± problems seeds"
)
def reasons(cells: list[Cell]) -> Iterator[dict]:
    """Accuracy before and after training, split into *sound* answers (every step is correct) and
    *lucky* answers (a step is wrong). Tasks whose steps cannot be checked have no rows."""
    for cell in cells:
        base_sound, sound = ends(cell, "sound")
        if np.isnan(sound).any() or np.isnan(base_sound).any():
            continue
        base_correct, correct = ends(cell)
        lucky_gain = (correct - sound) - (base_correct - base_sound)
        yield (
            cell.keys
            | {
                "step": cell.last_step,
                "base_sound_share": statistics.ratio_of_means(base_sound, base_correct),
                "sound": sound.mean(),
                "sound_share": statistics.ratio_of_means(sound, correct),
            }
            | estimates(sound_gain=sound - base_sound, lucky_gain=lucky_gain)
            | sizes(sound)
        )
