"""Compare choices of prompts: how many of the chosen prompts are mixed, by completions that did not choose them.

The completions of every prompt are split at random: one half chooses, the other half measures. Measured by the completions that
chose them, the hardest prompts would look harder than they are, and those nearest to one half more mixed.
"""

import numpy as np
from scipy import stats

CONFIDENT, WRONG = 0.5, 0.2  # confidently wrong: at least this agreement, at most this pass rate
CHOICES = ("hardest", "nearest ½", "agreement lowest", "agreement nearest ½", "entropy highest", "random")
BY_OTHER = {f"{choice}, by the other": choice for choice in CHOICES[:5]}  # the same, by the completions of another model
POOL = ("hardest", "nearest ½")  # choices that need the answers of the whole pool; the others need those of the chosen prompts
COLUMNS = ["choice", "labels", "prompts"]
MEASURED = ("mixed", "all_right", "all_wrong", "pass_rate", "confidently_wrong", "overlap", "rank_correlation")
COLUMNS += [f"{name}{end}" for name in MEASURED for end in ("", "_low", "_high")]


def compare(
    right: np.ndarray,
    codes: np.ndarray,
    budget: float,
    draws: int,
    seed: int = 0,
    other: tuple[np.ndarray, np.ndarray] | None = None,
) -> list[dict]:
    """Rows of COLUMNS, one per choice: means over `draws` random splits; 95 % intervals for new prompts (percentile bootstrap).

    `right` is (N, K): whether sample k of prompt n is right, K >= 2. `codes` (N, K) numbers its answer (`signals.answer_codes`).
    Mixed, all right, all wrong and the pass rate are measured on the K - K // 2 samples that do not choose. `confidently_wrong` and
    `overlap` (the share of a choice that is also among the hardest) use all K samples, to choose and to measure. Every bootstrap
    sample is split once, so the intervals include the noise of a single split. Ties are broken at random.

    `other` holds `right` and `codes` of another model for the same prompts in the same order. It adds rows for the choices by all
    of that model's completions. `rank_correlation` is Spearman's, between the two models' values of the measure that chooses.
    """
    chance = np.random.default_rng(seed)
    size = int(np.floor(round(budget * len(right), 9)))
    point = [_one_split(right, codes, size, chance, other) for _ in range(draws)]
    again = []
    for _ in range(draws):
        prompts = chance.integers(len(right), size=len(right))
        others = other and tuple(one[prompts] for one in other)
        again.append(_one_split(right[prompts], codes[prompts], size, chance, others))
    rows = []
    for choice in point[0]:
        row = {"choice": choice, "labels": len(right) if BY_OTHER.get(choice, choice) in POOL else size, "prompts": size}
        for name in MEASURED:
            ends = [None, None, None]  # a choice by the model's own completions has no other to correlate with
            if name in point[0][choice]:
                mean = float(np.mean([one[choice][name] for one in point]))
                ends = [mean, *np.percentile([one[choice][name] for one in again], [2.5, 97.5])]
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), ends))
        rows.append(row)
    return rows


def _one_split(
    right: np.ndarray, codes: np.ndarray, size: int, chance: np.random.Generator, other: tuple[np.ndarray, np.ndarray] | None
) -> dict[str, dict[str, float]]:
    prompts, samples = right.shape
    order = chance.permuted(np.tile(np.arange(samples), (prompts, 1)), axis=1)
    first, others = order[:, : samples // 2], order[:, samples // 2 :]
    ties = chance.random(prompts)
    told = np.take_along_axis(right, others, axis=1).mean(axis=1)
    rates, agreement = right.mean(axis=1), agreements(codes)
    confidently = (agreement >= CONFIDENT) & (rates <= WRONG)
    by_half = _chosen(np.take_along_axis(right, first, axis=1).mean(axis=1), np.take_along_axis(codes, first, axis=1), size, ties)
    by_all = _chosen(rates, codes, size, ties)
    hardest = set(by_all["hardest"])
    correlations: dict[str, float] = {}
    if other is not None:
        own, foreign = _keys(rates, codes), _keys(other[0].mean(axis=1), other[1])
        by_other = _chosen(other[0].mean(axis=1), other[1], size, ties)
        for name, choice in BY_OTHER.items():
            by_half[name] = by_all[name] = by_other[choice]
            correlations[name] = stats.spearmanr(own[choice], foreign[choice]).statistic
    return {
        choice: {
            "mixed": ((told[kept] > 0) & (told[kept] < 1)).mean(),
            "all_right": (told[kept] == 1).mean(),
            "all_wrong": (told[kept] == 0).mean(),
            "pass_rate": told[kept].mean(),
            "confidently_wrong": confidently[by_all[choice]].mean(),
            "overlap": np.mean([one in hardest for one in by_all[choice]]),
            **({"rank_correlation": correlations[choice]} if choice in correlations else {}),
        }
        for choice, kept in by_half.items()
    }


def _keys(rates: np.ndarray, codes: np.ndarray) -> dict[str, np.ndarray]:
    """Sort keys (N,) of each choice, which takes the prompts with the lowest keys."""
    agreement = agreements(codes)
    return {
        "hardest": rates,
        "nearest ½": abs(rates - 0.5),
        "agreement lowest": agreement,
        "agreement nearest ½": abs(agreement - 0.5),
        "entropy highest": -entropies(codes),
        "random": np.zeros(len(rates)),
    }


def _chosen(rates: np.ndarray, codes: np.ndarray, size: int, ties: np.ndarray) -> dict[str, np.ndarray]:
    return {choice: np.lexsort((ties, key.round(9)))[:size] for choice, key in _keys(rates, codes).items()}


def agreements(codes: np.ndarray) -> np.ndarray:
    """(N,) share of the samples with the most frequent answer, from codes (N, K)."""
    return _counts(codes).max(axis=1) / codes.shape[1]


def entropies(codes: np.ndarray) -> np.ndarray:
    """(N,) entropy of the answers among the samples that give one, in nats; 0 where none does, so that it is chosen last."""
    counts = _counts(codes)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return -(shares * np.log(np.where(shares > 0, shares, 1))).sum(axis=1)


def _counts(codes: np.ndarray) -> np.ndarray:
    """(N, A) how many samples of a prompt give each answer."""
    return (codes[:, :, None] == np.arange(max(codes.max(), 0) + 1)).sum(axis=1)
