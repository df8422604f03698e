"""Summary tables of kinds of gain: finishing, sharpening, new solving; sound and lucky answers; same answers; majority votes.

A problem is *out of reach* of a base model if none of its k reach samples (`reach.samples` of the test) solves it: is right and,
where steps can be checked, sound. The gain is measured with other samples, so that a lucky sample does not count in both.
"""

import numpy as np
import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.accuracy import tier_names
from hardgrpo.analysis.cells import Cell, as_columns, mean_columns


def kinds(cells: list[Cell]) -> list[dict]:
    """Every gain split exactly into finishing, sharpening and new solving, also within each tier (`tier` is empty for all).

    Problems within reach and problems out of reach are each split into finishing and correctness (`statistics.decompose`).
    Finishing is the sum of the two finishing parts; correctness within reach is *sharpening*, out of reach *new solving*. The
    formula is homogeneous of degree 1: a group's parts follow from the rates with those of all other problems set to zero.
    """
    rows = []
    for cell in cells:
        if cell.reach is None:
            continue
        last, tier = cell.steps()[-1], cell.tiers()
        columns = ("answered", "correct")
        rates = [*map(cell.base_rates, columns), *(cell.rates(last, column) for column in columns)]
        shape = rates[2].shape
        lost = np.broadcast_to(cell.out_of_reach(), shape)
        greedy = None
        if "greedy" in cell.decodings():
            greedy = cell.rates(last, decoding="greedy") - cell.base_rates(decoding="greedy")
        for name in [None, *tier_names(tier)]:
            kept = np.ones(shape[1], bool) if name is None else (tier == name).to_numpy()
            finishing, sharpening, new = split(*(np.broadcast_to(one, shape)[:, kept] for one in rates), lost[:, kept])
            of_lost = lost[:, kept] * (rates[3] - rates[1])[:, kept]
            rows.append(
                cell.keys
                | {"tier": name, "step": last, "reach_samples": cell.reach_samples()}
                | mean_columns("gain", (rates[3] - rates[1])[:, kept])
                | mean_columns("finishing", finishing)
                | mean_columns("sharpening", sharpening)
                | mean_columns("new_solving", new)
                | {"new_solving_p": float(statistics.p_value(statistics.components(new)))}
                | {"out_of_reach": lost[:, kept].mean(), "accuracy_out_of_reach": _ratio((lost * rates[3])[:, kept], lost[:, kept])}
                | mean_columns("gain_out_of_reach", of_lost)
                | (
                    as_columns("greedy_gain", statistics.UNKNOWN)
                    if greedy is None
                    else mean_columns("greedy_gain", greedy[:, kept])
                )
                | {"problems": int(kept.sum()), "seeds": shape[0]}
            )
    return rows


def split(base_answered, base_correct, answered, correct, lost: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(finishing, sharpening, new solving): linearised contributions (S, N). Their means are the parts; they add up to the gains.

    `lost` (S, N) says which problems are out of reach of each replicate's base.
    """
    rates = (base_answered, base_correct, answered, correct)
    finishing, sharpening = statistics.decompose_by_problem(*(rate * ~lost for rate in rates))
    of_lost, new = statistics.decompose_by_problem(*(rate * lost for rate in rates))
    return finishing + of_lost, sharpening, new


def reasons(cells: list[Cell]) -> list[dict]:
    """Right for the right reason: accuracy before and after training, split into *sound* answers (every step right) and *lucky*
    ones. Only for tasks whose steps can be checked."""
    rows = []
    for cell in cells:
        sound, before = (cell.rates(cell.steps()[-1], "sound"), cell.base_rates("sound"))
        if np.isnan(sound).any() or np.isnan(before).any():
            continue
        last = cell.steps()[-1]
        correct, base_correct = cell.rates(last), cell.base_rates()
        rows.append(
            cell.keys
            | {"step": last, "base_sound": before.mean(), "base_sound_share": _ratio(before, base_correct)}
            | {"sound": sound.mean(), "sound_share": _ratio(sound, correct)}
            | mean_columns("sound_gain", sound - before)
            | mean_columns("lucky_gain", (correct - sound) - (base_correct - before))
            | {"problems": sound.shape[1], "seeds": sound.shape[0]}
        )
    return rows


def same_answers(cells: list[Cell]) -> list[dict]:
    """The probability that two samples of a problem give the same answer, before and after training.

    A problem with m samples, c of which give each answer, has sum c(c-1) / (m(m-1)): unbiased for every m. A missing answer counts
    as an answer of its own. -log2 of the mean over problems is the collision entropy (Renyi's of order 2) in bits.
    """
    rows = []
    for cell in cells:
        last = cell.steps()[-1]
        if min(cell.samples(0), cell.samples(last)) < 2:
            continue
        base = np.stack([_agreement(frame, 0) for frame in cell.bases])
        trained = np.stack([_agreement(frame, last) for frame in cell.runs])
        rows.append(
            cell.keys
            | {"step": last, "base_same": base.mean()}
            | mean_columns("same", trained)
            | mean_columns("change", trained - base)
            | {"base_entropy": _bits(base.mean()), "entropy": _bits(trained.mean())}
            | {"problems": trained.shape[1], "seeds": trained.shape[0]}
        )
    return rows


def majority(cells: list[Cell]) -> list[dict]:
    """Accuracy of the majority vote over all samples of a problem, before and after training (maj@k; arXiv 2203.11171).

    Among equally frequent answers one wins at random: their mean counts. Samples without an answer do not vote; a problem without
    any answer is wrong. Fewer than three samples give no row.
    """
    rows = []
    for cell in cells:
        last = cell.steps()[-1]
        if min(cell.samples(0), cell.samples(last)) < 3:
            continue
        base = np.stack([_vote(frame, 0) for frame in cell.bases])
        trained = np.stack([_vote(frame, last) for frame in cell.runs])
        rows.append(
            cell.keys
            | {"step": last, "k": cell.samples(last), "base": base.mean()}
            | mean_columns("majority", trained)
            | mean_columns("gain", trained - base)
            | {"problems": trained.shape[1], "seeds": trained.shape[0]}
        )
    return rows


def _vote(frame: pd.DataFrame, step: int) -> np.ndarray:
    """(N,) by problem: 1 where the majority vote is right, else 0; a share where answers tie."""
    kept = frame[(frame.step == step) & (frame.decoding == "sampled")]
    votes = kept[kept.answer.fillna("") != ""].groupby(["id", "answer"]).correct.agg(["size", "mean"])
    winning = votes[votes["size"] == votes.groupby("id")["size"].transform("max")]
    return winning.groupby("id")["mean"].mean().reindex(sorted(kept.id.unique()), fill_value=0.0).to_numpy()


def _agreement(frame: pd.DataFrame, step: int) -> np.ndarray:
    """(N,) by problem: the share of pairs of samples with the same answer."""
    kept = frame[(frame.step == step) & (frame.decoding == "sampled")]
    counts = kept.assign(answer=kept.answer.fillna("")).groupby(["id", "answer"]).size()
    pairs = (counts * (counts - 1)).groupby("id", sort=True).sum()
    samples = counts.groupby("id", sort=True).sum()
    return (pairs / (samples * (samples - 1))).to_numpy()


def _bits(same: float) -> float:
    return float(-np.log2(same)) if same > 0 else np.nan


def _ratio(part: np.ndarray, whole: np.ndarray) -> float:
    return float(part.mean() / whole.mean()) if whole.mean() else np.nan
