"""Compare choices of prompts, without selection bias, by the share of mixed prompts (some
completions right, some wrong).

The completions of every prompt are split at random. One half chooses prompts, the other half
measures the chosen prompts. If the same completions chose and measured the prompts, the hardest
prompts would look too hard, and the prompts with pass rates nearest to one half would look mixed
too often.
"""

import numpy as np
from scipy import stats

from hardgrpo.selection import policies

CONFIDENT_AGREEMENT, WRONG_PASS_RATE = 0.5, 0.2  # definition of confidently wrong
CHOICES = (
    "hardest",
    "nearest ½",
    "agreement lowest",
    "agreement nearest ½",
    "entropy highest",
    "random",
)
# {choice by the completions of another model: the same choice by the model's own completions}
BY_OTHER_MODEL = {f"{choice}, by the other": choice for choice in CHOICES[:5]}
# choices that need the labels of the whole pool; the others need only labels of chosen prompts
NEEDS_POOL_LABELS = ("hardest", "nearest ½")
COLUMNS = ["choice", "labels", "prompts"]
MEASURES = (
    "mixed",
    "all_right",
    "all_wrong",
    "pass_rate",
    "confidently_wrong",
    "overlap",
    "rank_correlation",
)
COLUMNS += [f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high")]


def compare(
    right: np.ndarray,
    codes: np.ndarray,
    budget: float,
    draws: int,
    seed: int = 0,
    other_model: tuple[np.ndarray, np.ndarray] | None = None,
) -> list[dict]:
    """Rows of COLUMNS, one per choice: means over `draws` random splits, and 95 % intervals for new
    prompts (percentile bootstrap).

    `right` (N, K) holds whether sample k of prompt n is right, K >= 2. `codes` (N, K) numbers the
    answers (`signals.answer_codes`). `budget` is a share of the pool. `mixed`, `all_right`,
    `all_wrong` and `pass_rate` are measured on the K - K // 2 samples that do not choose prompts.
    For `confidently_wrong` and `overlap` (the share of chosen prompts that are also among the
    hardest), prompts are chosen and measured by all K samples. Every bootstrap sample is split
    once, so the intervals include the noise of a single split. Ties are broken at random.

    `other_model` holds `right` and `codes` of another model for the same prompts. With
    `other_model`, there are also rows for choices by all completions of the other model.
    `rank_correlation` is Spearman's correlation between the two models' values of the measure by
    which prompts are chosen.
    """
    rng = np.random.default_rng(seed)
    size = policies.subset_size(budget, len(right))
    split_results = [_measure_split(right, codes, size, rng, other_model) for _ in range(draws)]
    bootstrap_results = []
    for _ in range(draws):
        prompts = rng.integers(len(right), size=len(right))
        resampled_other = other_model and tuple(result[prompts] for result in other_model)
        bootstrap_results.append(
            _measure_split(right[prompts], codes[prompts], size, rng, resampled_other)
        )
    rows = []
    for choice in split_results[0]:
        needs_pool = BY_OTHER_MODEL.get(choice, choice) in NEEDS_POOL_LABELS
        row = {"choice": choice, "labels": len(right) if needs_pool else size, "prompts": size}
        for name in MEASURES:
            # a choice by the model's own completions has no rank_correlation
            mean = low = high = None
            if name in split_results[0][choice]:
                mean = float(np.mean([result[choice][name] for result in split_results]))
                draws_of_choice = [result[choice][name] for result in bootstrap_results]
                low, high = np.percentile(draws_of_choice, [2.5, 97.5])
            row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return rows


def _measure_split(
    right: np.ndarray,
    codes: np.ndarray,
    size: int,
    rng: np.random.Generator,
    other_model: tuple[np.ndarray, np.ndarray] | None,
) -> dict[str, dict[str, float]]:
    prompts, samples = right.shape
    order = rng.permuted(np.tile(np.arange(samples), (prompts, 1)), axis=1)
    choosing, measuring = order[:, : samples // 2], order[:, samples // 2 :]
    ties = rng.random(prompts)
    held_out_rates = np.take_along_axis(right, measuring, axis=1).mean(axis=1)
    confidently_wrong = are_confidently_wrong(right, codes)
    half = (np.take_along_axis(values, choosing, axis=1) for values in (right, codes))
    chosen_by_half, chosen_by_all = _choose(*half, size, ties), _choose(right, codes, size, ties)
    hardest = set(chosen_by_all["hardest"])
    correlations: dict[str, float] = {}
    if other_model is not None:
        own_keys, other_keys = _sort_keys(right, codes), _sort_keys(*other_model)
        chosen_by_other = _choose(*other_model, size, ties)
        for name, choice in BY_OTHER_MODEL.items():
            chosen_by_half[name] = chosen_by_all[name] = chosen_by_other[choice]
            correlations[name] = stats.spearmanr(own_keys[choice], other_keys[choice]).statistic
    return {
        choice: {
            "mixed": ((held_out_rates[chosen] > 0) & (held_out_rates[chosen] < 1)).mean(),
            "all_right": (held_out_rates[chosen] == 1).mean(),
            "all_wrong": (held_out_rates[chosen] == 0).mean(),
            "pass_rate": held_out_rates[chosen].mean(),
            "confidently_wrong": confidently_wrong[chosen_by_all[choice]].mean(),
            "overlap": np.mean([prompt in hardest for prompt in chosen_by_all[choice]]),
            **({"rank_correlation": correlations[choice]} if choice in correlations else {}),
        }
        for choice, chosen in chosen_by_half.items()
    }


def are_confidently_wrong(right: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(N,) whether the samples of a prompt agree and are mostly wrong, from `right` and `codes` (N,
    K)."""
    return (agreements(codes) >= CONFIDENT_AGREEMENT) & (right.mean(axis=1) <= WRONG_PASS_RATE)


def _sort_keys(right: np.ndarray, codes: np.ndarray) -> dict[str, np.ndarray]:
    """{choice: sort keys (N,)}. A choice takes the prompts with the lowest keys."""
    rates, agreement = right.mean(axis=1), agreements(codes)
    return {
        "hardest": rates,
        "nearest ½": abs(rates - 0.5),
        "agreement lowest": agreement,
        "agreement nearest ½": abs(agreement - 0.5),
        "entropy highest": -entropies(codes),
        "random": np.zeros(len(rates)),
    }


def _choose(
    right: np.ndarray, codes: np.ndarray, size: int, ties: np.ndarray
) -> dict[str, np.ndarray]:
    return {
        choice: np.lexsort((ties, key.round(9)))[:size]
        for choice, key in _sort_keys(right, codes).items()
    }


def agreements(codes: np.ndarray) -> np.ndarray:
    """(N,) share of the samples with the most frequent answer, from `codes` (N, K)."""
    return _counts(codes).max(axis=1) / codes.shape[1]


def entropies(codes: np.ndarray) -> np.ndarray:
    """(N,) entropy of the answers among samples with an answer, in nats; 0 without answers, so that
    a prompt without answers comes last in the choice by highest entropy, together with prompts
    whose answers are all equal."""
    counts = _counts(codes)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return -(shares * np.log(np.where(shares > 0, shares, 1))).sum(axis=1)


def _counts(codes: np.ndarray) -> np.ndarray:
    """(N, A) number of samples of each prompt that give each of the A answers."""
    return (codes[:, :, None] == np.arange(max(codes.max(), 0) + 1)).sum(axis=1)
