"""Estimate the variance components of a finished study. simulate_coverage.py simulates studies
with these components."""

from hardgrpo.analysis import cells as cells_of_study
from hardgrpo.runtime.errors import UserError

import numpy as np
from scipy import optimize, stats

# Gauss-Hermite nodes and weights, to integrate over the standard normal variable that two
# completions share.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()

# Parts of the latent variable that completions share. Each part has a covariance matrix over the
# arms: the base model is the first arm, and each pair of policy and recipe is a further arm.
PARTS = ("problem", "replicate", "problem_in_replicate", "number", "number_in_replicate")
COLUMNS = [
    "task",
    "eval_task",
    "design",
    "problems",
    "samples",
    "seeds",
    "base_accuracy",
    "policies",
    "accuracies",
    *PARTS,
]
OWN, SHARED = "own bases", "shared base"


def estimate(cells: list[cells_of_study.Cell]) -> list[dict]:
    """Variance components of each (model, task, test), by the method of moments. A completion is
    right if its latent normal variable is above 0.

    The latent correlation of two completions of a problem is the tetrachoric correlation of their
    grades. Completions with the same sample number share the random numbers in addition to the
    problem; completions of the same replicate also share the effect of its base model and training
    on the problem. `replicate` is the covariance of the arms' true accuracies over replicates, on
    the latent scale: the covariance of their mean accuracies, minus the noise of the sampled
    problems and completions.

    If all replicates share one base model, this model is an arm that does not vary over replicates.
    Raise a `UserError` for a test with less than two replicates, problems or samples.
    """
    rows = []
    for family in cells_of_study.families(cells):
        bases = family[0].grades(0)
        runs = [cell.grades(cell.steps()[-1]) for cell in family]
        arms, (seeds, problems, samples) = [bases, *runs], runs[0].shape
        if min(seeds, problems, samples) < 2:
            raise UserError(
                f"test {family[0].eval_task} of runs on {family[0].task}: {seeds} seeds, {problems} problems and {samples} samples;"
                " expected at least two of each; name another study"
            )
        matrices = _components(arms)
        row = {
            "task": family[0].task,
            "eval_task": family[0].eval_task,
            "design": OWN if len(bases) > 1 else SHARED,
        }
        row |= {
            "problems": problems,
            "samples": samples,
            "seeds": seeds,
            "base_accuracy": float(bases.mean()),
        }
        row |= {
            "policies": " ".join(
                cell.policy if cell.is_first_recipe else ", ".join(cell.arm) for cell in family
            ),
            "accuracies": text_of([grades.mean() for grades in runs]),
        }
        rows.append(row | {name: text_of(matrix.ravel()) for name, matrix in zip(PARTS, matrices)})
    return rows


def _components(arms: list[np.ndarray]) -> list[np.ndarray]:
    """The covariance matrices of PARTS. `arms` holds the grades of each arm: an array (replicates,
    problems, samples), with one replicate for a base that all replicates share."""
    count, seeds = len(arms), len(arms[-1])
    # Latent correlations across and within replicates. Index 0 of the last axis is for completions
    # with different sample numbers, index 1 for completions with the same sample number.
    across, within = np.zeros((2, count, count, 2))
    for a in range(count):
        for b in range(a, count):
            is_shared_base = len(arms[a]) < seeds
            within_replicate = [
                latent(
                    arms[a][0 if is_shared_base else r],
                    arms[b][0 if len(arms[b]) < seeds else r],
                    is_same_arm=a == b,
                )
                for r in range(seeds)
            ]
            across_replicates = [
                latent(arms[a][r], arms[b][q])
                for r in range(len(arms[a]))
                for q in range(len(arms[b]))
                if r != q
            ]
            self_correlation = [np.mean([different for different, _ in within_replicate]), np.nan]
            within[a, b] = within[b, a] = (
                np.nanmean(within_replicate, axis=0) if a != b else self_correlation
            )
            across[a, b] = across[b, a] = (
                within[a, b] if is_shared_base else np.mean(across_replicates, axis=0)
            )
    problem, problem_in_replicate = across[..., 0], within[..., 0] - across[..., 0]
    number = across[..., 1] - across[..., 0]
    number_in_replicate = (within[..., 1] - within[..., 0]) - number
    # Within a replicate, an arm has one completion of a problem per sample number. The arm's
    # diagonal entry of `number_in_replicate` therefore cannot be estimated. For a shared base, the
    # diagonal entry of `number` cannot be estimated either. The largest absolute value of the arm's
    # other entries replaces such an entry.
    for matrix in (number, number_in_replicate):
        for arm in range(count):
            if np.isnan(matrix[arm, arm]):
                matrix[arm, arm] = np.nanmax(np.abs(np.delete(matrix[arm], arm)))
    rates = [arm.mean(axis=-1) for arm in arms]
    # (arms, replicates, problems)
    means = np.stack([np.broadcast_to(rates_of_arm, rates[-1].shape) for rates_of_arm in rates])
    residual = (
        means
        - means.mean(axis=1, keepdims=True)
        - means.mean(axis=2, keepdims=True)
        + means.mean(axis=(1, 2), keepdims=True)
    )
    noise = (
        np.einsum("asn,bsn->ab", residual, residual)
        / ((seeds - 1) * (means.shape[2] - 1))
        / means.shape[2]
    )
    density = stats.norm.pdf(stats.norm.ppf(means.mean(axis=(1, 2))))
    replicate = (np.cov(means.mean(axis=2)) - noise) / np.outer(density, density)
    return [
        _nearest_covariance(matrix)
        for matrix in (problem, replicate, problem_in_replicate, number, number_in_replicate)
    ]


def _nearest_covariance(matrix: np.ndarray) -> np.ndarray:
    """The nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def text_of(values) -> str:
    """Numbers as a cell of a table."""
    return " ".join(f"{value:.6g}" for value in values)


def matrix_of(text: str) -> np.ndarray:
    """The square matrix in a cell of a table."""
    values = np.array(str(text).split(), dtype=float)
    return values.reshape(2 * [round(len(values) ** 0.5)])


def latent(
    first_grades: np.ndarray, second_grades: np.ndarray, is_same_arm: bool = False
) -> tuple[float, float]:
    """Latent correlations of the grades of two arms, arrays (problems, samples): (at different
    sample numbers, at equal sample numbers). The second correlation is nan if `is_same_arm`."""
    samples = first_grades.shape[1]
    same_sample = (first_grades * second_grades).sum(axis=1)
    different_samples = (
        first_grades.sum(axis=1) * second_grades.sum(axis=1) - same_sample
    ).mean() / (samples * (samples - 1))
    rates = first_grades.mean(), second_grades.mean()
    return _correlation(different_samples, *rates), np.nan if is_same_arm else _correlation(
        same_sample.mean() / samples, *rates
    )


def _correlation(joint_probability: float, p: float, q: float) -> float:
    """The correlation of two standard normal variables, limited to the range from 0 to 0.98. The
    variables exceed their thresholds with the probabilities p and q; both exceed them with the
    probability `joint_probability`."""
    a, b = stats.norm.ppf([p, q])

    def excess(r):
        inner = lambda x: stats.norm.cdf((x + np.sqrt(r) * NODES) / np.sqrt(1 - r))
        return (WEIGHTS * inner(a) * inner(b)).sum() - joint_probability

    if excess(0.0) >= 0:
        return 0.0
    return float(optimize.brentq(excess, 0.0, 0.98)) if excess(0.98) > 0 else 0.98
