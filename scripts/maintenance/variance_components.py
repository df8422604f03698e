"""Estimate the variance components of a finished study, from which simulate_coverage.py draws studies."""

from hardgrpo.analysis import cells as cells_of_study

import numpy as np
from scipy import optimize, stats

# Gauss-Hermite nodes and weights, to integrate over the standard normal part that two completions share.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()

# Parts of the latent variable that completions share, each with a covariance matrix over the arms: the base model, then each policy.
PARTS = ("problem", "replicate", "problem_in_replicate", "number", "number_in_replicate")
COLUMNS = ["task", "eval_task", "design", "problems", "samples", "seeds", "base_accuracy", "policies", "accuracies", *PARTS]
OWN, SHARED = "own bases", "shared base"


def estimate(cells: list[cells_of_study.Cell]) -> list[dict]:
    """Variance components of each (task, test), by the method of moments. A completion is right if its latent normal variable is above 0.

    The latent correlation of two completions of one problem is the tetrachoric correlation of their grades. With the same sample number
    they share, beside the problem, the random numbers; in the same replicate also the effect of its base model and training on the
    problem. `replicate` is the covariance of the arms' true accuracies over replicates, on the latent scale: the
    covariance of their mean accuracies, less the noise of the sampled problems and completions.

    Where all replicates share one base model, the base is an arm that does not vary over replicates.
    """
    rows = []
    for family in cells_of_study.families(cells):
        bases = family[0].grades(0)
        runs = [cell.grades(cell.steps()[-1]) for cell in family]
        arms, (seeds, problems, samples) = [bases, *runs], runs[0].shape
        found = _shared(arms)
        row = {"task": family[0].task, "eval_task": family[0].eval_task, "design": OWN if len(bases) > 1 else SHARED}
        row |= {"problems": problems, "samples": samples, "seeds": seeds, "base_accuracy": float(bases.mean())}
        row |= {
            "policies": " ".join(cell.policy if cell.is_first_recipe else ", ".join(cell.arm) for cell in family),
            "accuracies": text_of([one.mean() for one in runs]),
        }
        rows.append(row | {name: text_of(matrix.ravel()) for name, matrix in zip(PARTS, found)})
    return rows


def _shared(arms: list[np.ndarray]) -> list[np.ndarray]:
    """The matrices of PARTS from the grades of the arms, each (S, N, m); (1, N, m) for a base that all replicates share."""
    count, seeds = len(arms), len(arms[-1])
    across, within = np.zeros((2, count, count, 2))  # latent correlations with different and with the same sample number
    for a in range(count):
        for b in range(a, count):
            fixed = len(arms[a]) < seeds  # the shared base: the same in all replicates
            same = [latent(arms[a][0 if fixed else r], arms[b][0 if len(arms[b]) < seeds else r], own=a == b) for r in range(seeds)]
            other = [latent(arms[a][r], arms[b][q]) for r in range(len(arms[a])) for q in range(len(arms[b])) if r != q]
            within[a, b] = within[b, a] = np.nanmean(same, axis=0) if a != b else [np.mean([one for one, _ in same]), np.nan]
            across[a, b] = across[b, a] = within[a, b] if fixed else np.mean(other, axis=0)
    problem, of_replicate = across[..., 0], within[..., 0] - across[..., 0]
    number, of_both = across[..., 1] - across[..., 0], (within[..., 1] - within[..., 0]) - (across[..., 1] - across[..., 0])
    for matrix in (number, of_both):  # unknown, one completion per number: take the largest with another arm
        for arm in range(count):
            if np.isnan(matrix[arm, arm]):
                matrix[arm, arm] = np.nanmax(np.abs(np.delete(matrix[arm], arm)))
    rates = [arm.mean(axis=-1) for arm in arms]
    means = np.stack([np.broadcast_to(one, rates[-1].shape) for one in rates])  # (arms, S, N)
    residual = (
        means - means.mean(axis=1, keepdims=True) - means.mean(axis=2, keepdims=True) + means.mean(axis=(1, 2), keepdims=True)
    )
    noise = np.einsum("asn,bsn->ab", residual, residual) / ((seeds - 1) * (means.shape[2] - 1)) / means.shape[2]
    density = stats.norm.pdf(stats.norm.ppf(means.mean(axis=(1, 2))))
    replicate = (np.cov(means.mean(axis=2)) - noise) / np.outer(density, density)
    return [_possible(matrix) for matrix in (problem, replicate, of_replicate, number, of_both)]


def _possible(matrix: np.ndarray) -> np.ndarray:
    """The nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def text_of(values) -> str:
    return " ".join(f"{value:.6g}" for value in values)


def matrix_of(text: str) -> np.ndarray:
    values = np.array(str(text).split(), dtype=float)
    return values.reshape(2 * [round(len(values) ** 0.5)])


def latent(one: np.ndarray, other: np.ndarray, own: bool = False) -> tuple[float, float]:
    """Latent correlations of two arms' grades (N, m): at different sample numbers, and at the same (nan for an arm with itself, `own`)."""
    samples = one.shape[1]
    same = (one * other).sum(axis=1)
    different = (one.sum(axis=1) * other.sum(axis=1) - same).mean() / (samples * (samples - 1))
    rates = one.mean(), other.mean()
    return _correlation(different, *rates), np.nan if own else _correlation(same.mean() / samples, *rates)


def _correlation(both: float, p: float, q: float) -> float:
    """The correlation of two standard normal variables, one of which exceeds its threshold with probability p, one with q, and both with
    `both`. It is limited to 0 to 0.98."""
    a, b = stats.norm.ppf([p, q])

    def excess(r):
        inner = lambda x: stats.norm.cdf((x + np.sqrt(r) * NODES) / np.sqrt(1 - r))
        return (WEIGHTS * inner(a) * inner(b)).sum() - both

    if excess(0.0) >= 0:
        return 0.0
    return float(optimize.brentq(excess, 0.0, 0.98)) if excess(0.98) > 0 else 0.98
