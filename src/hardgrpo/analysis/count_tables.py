"""Summary tables of analyses of published numbers of right answers. The tables are computed from
hypergeometric probabilities, without simulation.

Each function receives the rows of a table of counts (data/published_counts.py) and the analysis, an
entry of `analyses` in the configuration. N is the number of prompts, S of seeds, n of samples per
prompt, and K of the samples per prompt by which prompts are chosen.
"""

import numpy as np
from scipy import special, stats

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import estimate_columns
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.selection import probe_sizes as probes

ALL = "all"  # in the column `file`: the distinct prompts of all files


# --- samples per prompt ---


def probe_sizes(counts: list[dict], analysis: dict) -> list[dict]:
    """How chosen prompts behave in new samples, by rule and by the number K of samples that
    determine the choice (`probe_sizes.compare`): for the distinct prompts of all files, then for
    each file."""
    rows = []
    for file, members in pools(counts, analysis["budget"]).items():
        correct, samples = (
            np.array([row[name] for row in members]) for name in ("correct", "samples")
        )
        sizes = list(range(1, analysis["probe"] + 1))
        for row in probes.compare(correct, samples, analysis["budget"], sizes, analysis["group"]):
            rows.append(
                {
                    "model": analysis["model"],
                    "task": analysis["prompts"],
                    "file": file,
                    "pool": len(members),
                }
                | row
            )
    return rows


def pools(counts: list[dict], budget: float) -> dict[str, list[dict]]:
    """{name: rows} of all files together, and of each file if there are several. A prompt of
    several files counts once in ALL, by its first row. Raise a `UserError` if the budget pays for
    no prompt of a file."""
    by_file: dict[str, list[dict]] = {}
    for row in counts:
        by_file.setdefault(row["file"], []).append(row)
    # the first row of a prompt replaces later ones
    distinct = {row["id"]: row for row in reversed(counts)}
    for file, members in by_file.items():
        if policies.subset_size(budget, len(members)) < 1:
            raise UserError(
                f"{file}: a budget of {budget} of {len(members)} prompts is less than one prompt; raise the budget"
            )
    return {
        ALL: [row for row in counts if distinct[row["id"]] is row],
        **(by_file if len(by_file) > 1 else {}),
    }


# --- before and after training ---


class BeforeAfter:
    """Right answers before and after training. Prompts are chosen by K of the n samples of the base
    model and measured with the other n - K samples.

    Arrays have the axes (S, K + 1, N): seed, number c of right answers among the K samples, prompt.
    A single axis of length 1 stands for values that are the same along the axis. `weights` (K + 1,
    N): the probability that c of the K samples are right, if the K samples are drawn from the n
    samples at random.
    """

    def __init__(self, counts: list[dict], analysis: dict):
        seeds = [name for name in counts[0] if name.startswith("correct_")]
        self.seeds = [int(name.removeprefix("correct_")) for name in seeds]
        self.samples, self.probe, self.group = (
            analysis["samples"],
            analysis["probe"],
            analysis["group"],
        )
        self.correct = np.array([row["correct"] for row in counts])
        self.correct_after = np.array([[row[name] for row in counts] for name in seeds])
        classes = np.arange(self.probe + 1)[:, None]
        self.weights = stats.hypergeom.pmf(classes, self.samples, self.correct, self.probe)
        measured = self.samples - self.probe
        remaining = np.clip(self.correct - classes, 0, measured)  # impossible numbers have weight 0
        after = self.correct_after[:, None]
        self.before = (remaining / measured)[None]
        self.gain = after / self.samples - self.before
        self.mixed_before = mixed(remaining, measured, self.group)[None]
        self.mixed = mixed(after, self.samples, self.group)
        solved_before, solved = (remaining > 0)[None], pass_at_k(after, self.samples, measured)
        self.solved_before, self.solved = solved_before.astype(float), solved
        self.newly_solved, self.lost = (
            np.where(solved_before, 0.0, solved),
            np.where(solved_before, 1 - solved, 0.0),
        )

    def shares(self) -> np.ndarray:
        """Expected share (K + 1,) of the prompts by c."""
        return self.weights.mean(axis=1)

    def parts(self, values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """(S, N): values whose mean over N is, for each seed, the mean of `values` over chosen
        prompts.

        `chosen` (K + 1,) is the chosen part of each class and is treated as fixed. The mean over
        chosen prompts is a ratio: the sum of weight times value, divided by the sum of the weights.
        The returned values are the linearisation of the ratio about its mean over seeds, so that
        `statistics.mean_interval` of these values is the interval of the ratio.
        """
        weights = chosen[:, None] * self.weights
        total = weights.sum()
        values = np.broadcast_to(values, (len(self.seeds), *weights.shape))
        mean = (weights * values).sum(axis=(1, 2)).mean() / total
        return mean + weights.shape[1] / total * (weights * (values - mean)).sum(axis=1)

    def mean(self, values: np.ndarray, chosen: np.ndarray) -> float:
        return float(self.parts(values, chosen).mean())

    def columns(self, chosen: np.ndarray) -> dict:
        """The columns that describe chosen prompts before and after training."""
        row = {
            "before": self.mean(self.before, chosen),
            "mixed_before": self.mean(self.mixed_before, chosen),
        }
        for name in ("gain", "mixed"):
            row |= estimate_columns(
                name, statistics.mean_interval(self.parts(getattr(self, name), chosen))
            )
        return row


def difficulty_classes(counts: list[dict], analysis: dict) -> list[dict]:
    """What training does to the prompts of which c of K samples of the base model are right, for c
    = 0..K; see BeforeAfter.

    `solved_before` and `solved`: share of prompts with a right answer among n - K samples, before
    and after training. `newly_solved`: share of prompts with a right answer only after training.
    `lost`: only before training. `newly_solved` - `lost` = `solved` - `solved_before`.
    """
    data, rows = BeforeAfter(counts, analysis), []
    for c, share in enumerate(data.shares()):
        if share == 0:
            continue
        chosen = np.eye(data.probe + 1)[c]
        row = {
            "model": analysis["model"],
            "task": analysis["prompts"],
            "chosen_by": data.probe,
            "correct": c,
        }
        row |= {"prompts": float(share * len(counts))} | data.columns(chosen)
        row |= {
            name: data.mean(getattr(data, name), chosen) for name in ("solved_before", "solved")
        }
        for name in ("newly_solved", "lost"):
            row |= estimate_columns(
                name, statistics.mean_interval(data.parts(getattr(data, name), chosen))
            )
        rows.append(row | {"seeds": len(data.seeds)})
    return rows


def choices_after(counts: list[dict], analysis: dict) -> list[dict]:
    """What training on all prompts does to the prompts that each rule chooses by K samples of the
    base model. `gain_lead` and `mixed_lead` are differences from a random choice, paired by prompt
    and seed."""
    data, rows = BeforeAfter(counts, analysis), []
    prompts, shares = policies.subset_size(analysis["budget"], len(counts)), data.shares()
    everything = np.ones(data.probe + 1)
    for rule in probes.ORDER:
        chosen_shares = probes.choose_shares(
            shares, probes.class_ranks(rule, data.probe, shares), prompts / len(counts)
        )
        if chosen_shares is None:
            continue
        chosen = np.divide(chosen_shares, shares, out=np.zeros(len(shares)), where=shares > 0)
        row = {
            "model": analysis["model"],
            "task": analysis["prompts"],
            "rule": rule,
            "chosen_by": data.probe,
            "prompts": prompts,
        }
        row |= data.columns(chosen)
        for name in ("gain", "mixed"):
            lead = data.parts(getattr(data, name), chosen) - data.parts(
                getattr(data, name), everything
            )
            row |= estimate_columns(
                f"{name}_lead",
                statistics.mean_interval(lead) if rule != "random" else statistics.UNKNOWN,
            )
        rows.append(row | {"seeds": len(data.seeds)})
    return rows


def solved_counts(counts: list[dict], analysis: dict) -> list[dict]:
    """Numbers of prompts with a right answer among all n samples: before and after training, only
    before, only after, never; a row for each seed."""
    data = BeforeAfter(counts, analysis)
    before, rows = data.correct > 0, []
    for seed, correct in zip(data.seeds, data.correct_after):
        after = correct > 0
        numbers = {
            "both": before & after,
            "only_before": before & ~after,
            "only_after": ~before & after,
            "never": ~before & ~after,
        }
        row = {
            "model": analysis["model"],
            "task": analysis["prompts"],
            "seed": seed,
            "samples": data.samples,
        }
        rows.append(
            row
            | {name: int(prompts.sum()) for name, prompts in numbers.items()}
            | {"prompts": len(counts)}
        )
    return rows


def pass_at_each_k(counts: list[dict], analysis: dict) -> list[dict]:
    """pass@k before and after training and the gain, for k = 1..n: over all seeds (`seed` is
    empty), then for each seed."""
    data, rows = BeforeAfter(counts, analysis), []
    for k in range(1, data.samples + 1):
        before, after = (
            pass_at_k(correct, data.samples, k) for correct in (data.correct, data.correct_after)
        )
        row = {
            "model": analysis["model"],
            "task": analysis["prompts"],
            "k": k,
            "before": float(before.mean()),
        }
        row |= {"prompts": len(counts), "samples": data.samples}
        estimates = estimate_columns("after", statistics.mean_interval(after)) | estimate_columns(
            "gain", statistics.mean_interval(after - before)
        )
        rows.append(row | {"seed": None} | estimates | {"seeds": len(data.seeds)})
        for seed, solved in zip(data.seeds, after):
            estimates = dict.fromkeys(estimates) | {
                "after": float(solved.mean()),
                "gain": float((solved - before).mean()),
            }
            rows.append(row | {"seed": seed} | estimates | {"seeds": 1})
    return rows


def pass_at_k(correct: np.ndarray, samples: int, k: int) -> np.ndarray:
    """Probability that at least one of k samples, drawn from `samples` of which `correct` are
    right, is right (unbiased pass@k)."""
    return 1 - special.binom(samples - correct, k) / special.binom(samples, k)


def mixed(correct: np.ndarray, samples: int, group: int) -> np.ndarray:
    """Probability that a group, drawn from `samples` of which `correct` are right, is neither all
    right nor all wrong."""
    return pass_at_k(correct, samples, group) - special.binom(correct, group) / special.binom(
        samples, group
    )
