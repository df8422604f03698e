"""Summary tables of the kinds of gain (finishing, sharpening, new solving), of sound and lucky
answers, of equal answers, and of majority votes.

A problem is *out of reach* of a base model if none of the problem's k reach samples
(`reach.samples` of the test) is correct and, where steps can be checked, sound. The gain is
measured with other samples, so that a chance success in one sample does not change both reach and
gain.
"""

import numpy as np
import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import Cell, estimate_columns, mean_columns, sizes


def kinds(cells: list[Cell]) -> list[dict]:
    """The gain of each cell with reach samples, split exactly into finishing, sharpening and new
    solving, over all problems (rows with an empty `tier`) and within each tier.

    The gains within reach and out of reach are each split into finishing and correctness
    (`statistics.decompose`). *Finishing* is the sum of the two finishing parts. *Sharpening* is the
    correctness part within reach, and *new solving* the correctness part out of reach. The formula
    is homogeneous of degree 1, so the parts of a group of problems follow from the formula with all
    rates outside the group set to zero.
    """
    rows = []
    for cell in cells:
        if cell.reach is None:
            continue
        rates = cell.decomposition_rates(cell.last_step)
        shape = rates[2].shape
        out_of_reach = np.broadcast_to(cell.out_of_reach(), shape)
        greedy = None
        if "greedy" in cell.decodings():
            greedy = cell.rates(cell.last_step, decoding="greedy") - cell.base_rates(
                decoding="greedy"
            )
        for tier, in_tier in ({None: np.ones(shape[1], bool)} | cell.tier_masks()).items():
            finishing, sharpening, new_solving = split(
                *(np.broadcast_to(array, shape)[:, in_tier] for array in rates),
                out_of_reach[:, in_tier],
            )
            gain_out_of_reach = out_of_reach[:, in_tier] * (rates[3] - rates[1])[:, in_tier]
            rows.append(
                cell.keys
                | {"tier": tier, "step": cell.last_step, "reach_samples": cell.reach_samples()}
                | mean_columns("gain", (rates[3] - rates[1])[:, in_tier])
                | mean_columns("finishing", finishing)
                | mean_columns("sharpening", sharpening)
                | mean_columns("new_solving", new_solving)
                | {"new_solving_p": float(statistics.p_value(statistics.components(new_solving)))}
                | {
                    "out_of_reach": out_of_reach[:, in_tier].mean(),
                    "accuracy_out_of_reach": statistics.ratio_of_means(
                        (out_of_reach * rates[3])[:, in_tier], out_of_reach[:, in_tier]
                    ),
                }
                | mean_columns("gain_out_of_reach", gain_out_of_reach)
                | (
                    estimate_columns("greedy_gain", statistics.UNKNOWN)
                    if greedy is None
                    else mean_columns("greedy_gain", greedy[:, in_tier])
                )
                | {"problems": int(in_tier.sum()), "seeds": shape[0]}
            )
    return rows


def split(
    base_answered, base_correct, answered, correct, out_of_reach: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(finishing, sharpening, new solving): linearised contributions (S, N) of each seed and
    problem. Each part of the gain is the mean of its array. The sum of the three arrays is the
    array of gains.

    `out_of_reach` (S, N) marks the problems out of reach of each replicate's base model.
    """
    rates = (base_answered, base_correct, answered, correct)
    finishing_within_reach, sharpening = statistics.decompose_by_problem(
        *(rate * ~out_of_reach for rate in rates)
    )
    finishing_out_of_reach, new_solving = statistics.decompose_by_problem(
        *(rate * out_of_reach for rate in rates)
    )
    return finishing_within_reach + finishing_out_of_reach, sharpening, new_solving


def reasons(cells: list[Cell]) -> list[dict]:
    """Accuracy before and after training, split into *sound* answers (every step is correct) and
    *lucky* answers (a step is wrong). Tasks whose steps cannot be checked have no rows."""
    rows = []
    for cell in cells:
        sound, base_sound = cell.rates(cell.last_step, "sound"), cell.base_rates("sound")
        if np.isnan(sound).any() or np.isnan(base_sound).any():
            continue
        correct, base_correct = cell.rates(cell.last_step), cell.base_rates()
        rows.append(
            cell.keys
            | {
                "step": cell.last_step,
                "base_sound": base_sound.mean(),
                "base_sound_share": statistics.ratio_of_means(base_sound, base_correct),
                "sound": sound.mean(),
                "sound_share": statistics.ratio_of_means(sound, correct),
            }
            | mean_columns("sound_gain", sound - base_sound)
            | mean_columns("lucky_gain", (correct - sound) - (base_correct - base_sound))
            | sizes(sound)
        )
    return rows


def same_answers(cells: list[Cell]) -> list[dict]:
    """The probability that two samples of a problem give the same answer, before and after
    training.

    The estimate for a problem with m samples is the sum over the problem's answers of c(c-1) /
    (m(m-1)), where c is the number of samples that give the answer. The estimate is unbiased for
    every m. A missing answer counts as an answer. -log2 of the mean over problems is the collision
    entropy (Renyi entropy of order 2) in bits. Cells with fewer than two samples per problem have
    no row.
    """
    rows = []
    for cell in cells:
        if min(cell.samples(0), cell.samples(cell.last_step)) < 2:
            continue
        base = np.stack([_same_answer_share(frame, 0) for frame in cell.bases])
        trained = np.stack([_same_answer_share(frame, cell.last_step) for frame in cell.runs])
        rows.append(
            cell.keys
            | {"step": cell.last_step, "base_same": base.mean()}
            | mean_columns("same", trained)
            | mean_columns("change", trained - base)
            | {"base_entropy": _bits(base.mean()), "entropy": _bits(trained.mean())}
            | sizes(trained)
        )
    return rows


def majority(cells: list[Cell]) -> list[dict]:
    """Accuracy of the majority vote over all samples of a problem, before and after training
    (maj@k; arXiv 2203.11171).

    If several answers have the most votes, the vote counts as the mean of their correctness.
    Samples without an answer do not vote, and a problem without any answer counts as wrong. Cells
    with fewer than three samples per problem have no row.
    """
    rows = []
    for cell in cells:
        if min(cell.samples(0), cell.samples(cell.last_step)) < 3:
            continue
        base = np.stack([_vote(frame, 0) for frame in cell.bases])
        trained = np.stack([_vote(frame, cell.last_step) for frame in cell.runs])
        rows.append(
            cell.keys
            | {"step": cell.last_step, "k": cell.samples(cell.last_step), "base": base.mean()}
            | mean_columns("majority", trained)
            | mean_columns("gain", trained - base)
            | sizes(trained)
        )
    return rows


def _vote(frame: pd.DataFrame, step: int) -> np.ndarray:
    """(N,) whether the majority vote is correct; a share if several answers have the most votes."""
    samples = frame[(frame.step == step) & (frame.decoding == "sampled")]
    answered = samples[samples.answer.fillna("") != ""]
    votes = answered.groupby(["id", "answer"]).correct.agg(["size", "mean"])
    winners = votes[votes["size"] == votes.groupby("id")["size"].transform("max")]
    shares = winners.groupby("id")["mean"].mean()
    return shares.reindex(sorted(samples.id.unique()), fill_value=0.0).to_numpy()


def _same_answer_share(frame: pd.DataFrame, step: int) -> np.ndarray:
    """(N,) by problem: the share of pairs of samples with the same answer."""
    samples = frame[(frame.step == step) & (frame.decoding == "sampled")]
    counts = samples.assign(answer=samples.answer.fillna("")).groupby(["id", "answer"]).size()
    pairs = (counts * (counts - 1)).groupby("id", sort=True).sum()
    sample_counts = counts.groupby("id", sort=True).sum()
    return (pairs / (sample_counts * (sample_counts - 1))).to_numpy()


def _bits(probability: float) -> float:
    return float(-np.log2(probability)) if probability > 0 else np.nan
