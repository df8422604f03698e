"""Estimate how many groups of rollouts will be mixed (some right, some wrong), without selection
bias: half of the completions of each prompt chooses prompts, the other half measures the chosen
ones.

The measuring half is usually smaller than a group of training. The probability that a group is
mixed follows from the distribution of the chosen prompts' true pass rates, which is estimated by
maximum likelihood without an assumption about its form (Laird 1978,
doi:10.1080/01621459.1978.10480103), by expectation maximisation on a grid of pass rates.
"""

from collections.abc import Callable

import numpy as np

GRID = np.linspace(0.0, 1.0, 101)  # pass rates
STEPS = 100  # of expectation maximisation
SPLITS = 8  # random halves; the result is their mean


def mixed_share(correct: np.ndarray, samples: np.ndarray, group: int) -> float:
    """The expected share of mixed groups of `group` rollouts, for prompts of which `correct` (N,) of
    `samples` (N,) completions are right."""
    pairs, numbers = np.unique(np.stack([correct, samples]), axis=1, return_counts=True)
    right, wrong = pairs[0][:, None], (pairs[1] - pairs[0])[:, None]
    likelihood = GRID**right * (1 - GRID) ** wrong  # (pairs, pass rates)
    weights = np.full(len(GRID), 1 / len(GRID))
    for _ in range(STEPS):
        posterior = likelihood * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        weights = numbers @ posterior / numbers.sum()
    return float(weights @ (1 - GRID**group - (1 - GRID) ** group))


def expected_mixed(
    correct: np.ndarray,
    samples: np.ndarray,
    group: int,
    choose: Callable[[np.ndarray, int], np.ndarray],
) -> float:
    """The expected share of mixed groups among chosen prompts. `choose` returns the indices of the
    chosen prompts from the pass rates (N,) in the choosing half, and the number of the split.
    Each prompt needs two completions or more."""
    rng = np.random.default_rng(0)
    shares = []
    for split in range(SPLITS):
        half = samples // 2
        chosen_right = rng.hypergeometric(correct, samples - correct, half)
        indices = choose(chosen_right / half, split)
        remaining = correct - chosen_right, samples - half
        shares.append(mixed_share(remaining[0][indices], remaining[1][indices], group))
    return float(np.mean(shares))
