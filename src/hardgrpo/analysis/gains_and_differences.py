"""Summary tables of gains over the base model, of differences between arms, and of McNemar's tests
of single completions."""

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.arms import NO_RUN
from hardgrpo.analysis.cells import Cell, families, mean_columns, minus_columns, pairs


def gains(cells: list[Cell]) -> list[dict]:
    """Accuracy at the last checkpoint minus the accuracy of the base model, with the smallest
    detectable difference of the design (`mdd`).

    `gain_low` and `gain_high` are the interval for new problems and new seeds; `*_a` is the
    interval for the same problems and new seeds. `*_pooled` is an interval with one variance over
    seeds, estimated from all arms, and is valid only if the arms' variances are equal.
    """
    rows = {}
    for family in families(cells):
        for decoding in family[0].decodings():
            gains_by_cell = {
                id(member): member.rates(member.last_step, decoding=decoding)
                - member.base_rates(decoding=decoding)
                for member in family
            }
            pooled = _pooled(list(gains_by_cell.values()), differences=False)
            mdd = _detectable(list(gains_by_cell.values()), pooled)
            for cell in family:
                cell_gains = gains_by_cell[id(cell)]
                samples = cell.samples(cell.last_step) if decoding == "sampled" else 1
                rows[id(cell), decoding] = (
                    cell.keys
                    | {
                        "decoding": decoding,
                        "step": cell.last_step,
                        "base_accuracy": cell.base_rates(decoding=decoding).mean(),
                    }
                    | mean_columns("gain", cell_gains)
                    | _alternative_intervals(
                        "gain", cell_gains, _shared_noise(cell, None, decoding), pooled
                    )
                    | {
                        "mdd": mdd,
                        "problems": cell_gains.shape[1],
                        "samples": samples,
                        "seeds": cell_gains.shape[0],
                    }
                )
    return [rows[id(cell), decoding] for cell in cells for decoding in cell.decodings()]


def differences(cells: list[Cell]) -> list[dict]:
    """Differences in sampled accuracy between arms at the last checkpoint, paired by problem and
    seed. They equal the differences of the gains, because both arms have the same base model.

    `p` is below 0.05 exactly if the interval excludes 0 (`statistics.p_value`), and
    is not corrected for other comparisons (see `random_choice`). `mdd` is the smallest difference
    that is detectable after a correction for all comparisons within a model, task and test.
    """
    rows = []
    for family in families(cells):
        rates = {id(cell): cell.rates(cell.last_step) for cell in family}
        cell_pairs = pairs(family)
        pooled = _pooled(list(rates.values()), differences=True)
        mdd = (
            _detectable(
                [rates[id(a)] - rates[id(b)] for a, b in cell_pairs], pooled, len(cell_pairs)
            )
            if cell_pairs
            else np.nan
        )
        family_rows = []
        for first, second in cell_pairs:
            values = rates[id(first)] - rates[id(second)]
            parts = statistics.components(values)
            family_rows.append(
                first.keys
                | minus_columns(second)
                | mean_columns("difference", values)
                | _alternative_intervals(
                    "difference", values, _shared_noise(first, second, "sampled"), pooled
                )
                | {"p": float(statistics.p_value(parts))}
                | {"mdd": mdd, "problems": parts.problems, "seeds": parts.seeds}
            )
        rows += family_rows
    return rows


def mcnemar(cells: list[Cell]) -> list[dict]:
    """McNemar's exact test for decodings with one completion per problem.

    Each run is compared with the base model, and with the run of the same seed in each arm that
    `pairs` compares its arm with. The test compares two *runs* and says nothing about other seeds.
    Holm's correction covers the comparisons of a seed and decoding within a model, task and test,
    separately for comparisons with the base model and for comparisons between arms.
    """
    rows = []
    for family in families(cells):
        for decoding in family[0].decodings():
            grades = _single_grades(family, decoding)
            for seed in sorted({seed for _, seed in grades}):
                arms = [cell for cell in family if (cell.arm, seed) in grades]
                with_base = [(cell, {"minus": NO_RUN, "minus_recipe": ""}, None) for cell in arms]
                between_arms = [
                    (first, minus_columns(second), second.arm) for first, second in pairs(arms)
                ]
                for comparisons in (with_base, between_arms):
                    rows += _with_holm(
                        [
                            cell.keys
                            | minus_keys
                            | {"decoding": decoding, "seed": seed, "step": cell.last_step}
                            | _mcnemar_columns(grades[cell.arm, seed], grades[minus_arm, seed])
                            for cell, minus_keys, minus_arm in comparisons
                        ]
                    )
    return rows


def _single_grades(family: list[Cell], decoding: str) -> dict[tuple, np.ndarray]:
    """{(arm, seed): grades (N,)} of runs with one completion per problem; arm None: the base
    model."""
    single_grades = {}
    for cell in family:
        grades, bases = cell.grades(cell.last_step, decoding), cell.grades(0, decoding)
        if grades is None or bases is None or not grades.shape[-1] == bases.shape[-1] == 1:
            continue
        for seed, run_grades, base_grades in zip(
            cell.seeds, grades, np.broadcast_to(bases, grades.shape)
        ):
            single_grades[cell.arm, seed] = run_grades[:, 0]
            single_grades[None, seed] = base_grades[:, 0]
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


def _alternative_intervals(
    name: str, values: np.ndarray, shared: float, pooled: tuple[float, int] | None
) -> dict:
    """Two alternative intervals: for target A, and with one variance over seeds for all arms."""
    fixed = statistics.fixed_problems_interval(values, shared)
    parts = statistics.components(values)
    half = np.nan if pooled is None else statistics.half_width(parts, *pooled)
    return {
        f"{name}_low_a": fixed.low,
        f"{name}_high_a": fixed.high,
        f"{name}_low_pooled": parts.estimate - half,
        f"{name}_high_pooled": parts.estimate + half,
    }


def _shared_noise(cell: Cell, minus_cell: Cell | None, decoding: str) -> float:
    """`statistics.shared_noise` of a gain (`minus_cell` is None) or a difference; nan if samples
    cannot be paired."""
    if decoding == "greedy":
        return 0.0  # greedy decoding has no sampling noise
    grades = cell.grades(cell.last_step)
    minus_grades = minus_cell.grades(minus_cell.last_step) if minus_cell else cell.grades(0)
    if grades is None or minus_grades is None or grades.shape[-2:] != minus_grades.shape[-2:]:
        return np.nan
    return float(statistics.shared_noise(grades - minus_grades))


def _detectable(
    values: list[np.ndarray], pooled: tuple[float, int] | None, comparisons: int = 1
) -> float:
    """The smallest detectable difference of a design; nan if there are several seeds and `pooled`
    is None."""
    seeds = {array.shape[0] for array in values}
    if pooled is None and seeds != {1}:
        return np.nan
    over_problems = float(np.mean([statistics.components(array).over_problems for array in values]))
    return statistics.smallest_detectable(
        pooled[0] if pooled else np.nan, over_problems, min(seeds), comparisons
    )


def _pooled(values: list[np.ndarray], differences: bool) -> tuple[float, int] | None:
    """`statistics.pooled_over_seeds`; None if the arrays differ in shape, if there is only one
    seed, or if `differences` is set and there is only one array."""
    if (
        len({array.shape for array in values}) > 1
        or values[0].shape[0] == 1
        or (differences and len(values) < 2)
    ):
        return None
    over_seeds, df = statistics.pooled_over_seeds(np.stack(values), differences)
    return float(over_seeds), df


def _with_holm(rows: list[dict]) -> list[dict]:
    """Add `p_holm` to the rows of one family of comparisons."""
    corrected = statistics.holm([row["p"] for row in rows]).tolist()
    return [row | {"p_holm": p} for row, p in zip(rows, corrected)]
