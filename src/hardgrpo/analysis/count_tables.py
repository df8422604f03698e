"""Summary tables of analyses of published numbers of right answers. The tables are computed from
hypergeometric probabilities, without simulation.

Each function that makes a table receives the rows of a table of counts (data/published_counts.py)
and the analysis, an entry of `analyses` in the configuration. There are N prompts, S seeds and n
samples per prompt. Prompts are chosen by K of the n samples.
"""

import numpy as np
from scipy import special, stats

from hardgrpo.analysis import statistics
from hardgrpo.analysis.cells import estimates
from hardgrpo.analysis.summary_tables import table
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.selection import probe_sizes as probes

ALL = "all"  # in the column `file`: the distinct prompts of all files
# in the column `rule`: the predicted pass rates nearest to one half, without a sample
PREDICTED = "predicted_half"


# --- samples per prompt ---


@table(
    "model task file pool rule samples prompts labels mixed pass_rate never_solved unmixed_prompts",
    kind="probe_sizes",
)
def probe_sizes(counts: list[dict], analysis: dict) -> list[dict]:
    """How chosen prompts behave in new samples, by rule and by the number K of samples that
    determine the choice (`probe_sizes.compare`): for the distinct prompts of all files, then for
    each file. Files with predicted pass rates also have a row of rule PREDICTED."""
    rows = []
    for file, members in pools(counts, analysis["budget"]).items():
        correct, samples = (
            np.array([row[name] for row in members]) for name in ("correct", "samples")
        )
        sizes = list(range(1, analysis["probe"] + 1))
        rows += [
            _keys(analysis) | {"file": file, "pool": len(members)} | row
            for row in probes.compare(
                correct, samples, analysis["budget"], sizes, analysis["group"]
            )
        ]
        if all(row.get("predicted") is not None for row in members):
            distances = np.abs([row["predicted"] - 0.5 for row in members])
            prompts = policies.subset_size(analysis["budget"], len(members))
            chosen = np.argsort(distances, kind="stable")[:prompts]
            # a choice of all chosen prompts
            (row,) = probes.compare(correct[chosen], samples[chosen], 1, [], analysis["group"])
            row |= {"rule": PREDICTED, "file": file, "pool": len(members)}
            rows.append(_keys(analysis) | row)
    return rows


def _keys(analysis: dict) -> dict:
    """The columns that name an analysis' model and prompts."""
    return {"model": analysis["model"], "task": analysis["prompts"]}


def pools(counts: list[dict], budget: float) -> dict[str, list[dict]]:
    """{name: rows} of all files together, and of each file if there are several. A prompt of
    several files counts once in ALL, by its first row. Raise a `UserError` if the budget pays for
    no prompt of a file."""
    by_file: dict[str, list[dict]] = {}
    for row in counts:
        by_file.setdefault(row["file"], []).append(row)
    first_rows = {row["id"]: row for row in reversed(counts)}
    for file, members in by_file.items():
        if policies.subset_size(budget, len(members)) < 1:
            raise UserError(
                f"{file}: {budget} x {len(members)} prompts are less than one prompt; raise the budget"
            )
    distinct = [row for row in counts if first_rows[row["id"]] is row]
    return {ALL: distinct} | (by_file if len(by_file) > 1 else {})


# --- before and after training ---


class BeforeAfter:
    """Right answers before and after training. Prompts are chosen by K of the n samples of the base
    model. The other n - K samples measure the prompts before training, and all n samples of the
    trained model measure them after training.

    `correct` (N,) and `correct_after` (S, N) are the numbers of right answers. `weights` (K + 1, N)
    is the probability that c of K samples, drawn at random from the n samples, are right. All other
    arrays have the axes (S, K + 1, N): seed, number c of right answers among the K samples, prompt.
    An axis has length 1 if the values are the same along the axis.
    """

    def __init__(self, counts: list[dict], analysis: dict):
        seeds = [name for name in counts[0] if name.startswith("correct_")]
        self.seeds = [int(name.removeprefix("correct_")) for name in seeds]
        self.samples, self.probe = analysis["samples"], analysis["probe"]
        self.correct = np.array([row["correct"] for row in counts])
        self.correct_after = np.array([[row[name] for row in counts] for name in seeds])
        classes = np.arange(self.probe + 1)[:, None]
        self.weights = stats.hypergeom.pmf(classes, self.samples, self.correct, self.probe)
        measured = self.samples - self.probe
        remaining = np.clip(
            self.correct - classes, 0, measured
        )  # values of c that cannot occur have weight 0
        after = self.correct_after[:, None]
        self.before = (remaining / measured)[None]
        self.gain = after / self.samples - self.before
        self.mixed_before = mixed(remaining, measured, analysis["group"])[None]
        self.mixed = mixed(after, self.samples, analysis["group"])
        self.solved_before = (remaining > 0)[None].astype(float)
        self.solved = pass_at_k(after, self.samples, measured)

    def shares(self) -> np.ndarray:
        """(K + 1,) expected share of prompts with c right answers among K samples, for each c."""
        return self.weights.mean(axis=1)

    def parts(self, values: np.ndarray, chosen_parts: np.ndarray) -> np.ndarray:
        """(S, N) contributions of each seed and prompt. For each seed, the mean of the
        contributions over all prompts is the mean of `values` over the chosen prompts.

        `chosen_parts` (K + 1,) holds for each c the chosen share of the prompts with c right
        answers. These shares are treated as fixed. The mean over chosen prompts is a ratio: the sum
        of weight times value, divided by the sum of the weights. The contributions are the
        linearisation of the ratio about its mean over seeds, so that `statistics.mean_interval` of
        the contributions is the interval of the ratio.
        """
        weights = chosen_parts[:, None] * self.weights
        total = weights.sum()
        values = np.broadcast_to(values, (len(self.seeds), *weights.shape))
        mean = (weights * values).sum(axis=(1, 2)).mean() / total
        return mean + weights.shape[1] / total * (weights * (values - mean)).sum(axis=1)

    def mean(self, values: np.ndarray, chosen_parts: np.ndarray) -> float:
        return float(self.parts(values, chosen_parts).mean())

    def columns(self, chosen_parts: np.ndarray) -> dict:
        """The columns that describe chosen prompts before and after training."""
        return {
            "before": self.mean(self.before, chosen_parts),
            "mixed_before": self.mean(self.mixed_before, chosen_parts),
            **estimates(
                gain=self.parts(self.gain, chosen_parts),
                mixed=self.parts(self.mixed, chosen_parts),
            ),
        }


@table(
    "model task chosen_by correct prompts before gain± mixed_before mixed± solved_before solved seeds",
    kind="before_after",
)
def difficulty_classes(counts: list[dict], analysis: dict) -> list[dict]:
    """How training changes the prompts with c right answers among K samples of the base model: a
    row for each c from 0 to K that occurs; see BeforeAfter.

    `solved_before` and `solved`: share of prompts with a right answer among n - K samples, before
    and after training.
    """
    data, rows = BeforeAfter(counts, analysis), []
    for c, share in enumerate(data.shares()):
        if share == 0:
            continue
        chosen_parts = np.eye(data.probe + 1)[c]
        rows.append(
            _keys(analysis)
            | {"chosen_by": data.probe, "correct": c, "prompts": float(share * len(counts))}
            | data.columns(chosen_parts)
            | {"solved_before": data.mean(data.solved_before, chosen_parts)}
            | {"solved": data.mean(data.solved, chosen_parts), "seeds": len(data.seeds)}
        )
    return rows


@table(
    "model task rule chosen_by prompts before gain± mixed_before mixed± gain_lead± mixed_lead± seeds",
    kind="before_after",
)
def choices_after(counts: list[dict], analysis: dict) -> list[dict]:
    """How training on all prompts changes the prompts that each rule chooses by K samples of the
    base model. A rule has no row if fewer prompts qualify than the budget requires. `gain_lead` and
    `mixed_lead` are differences from a random choice, paired by prompt and seed."""
    data, rows = BeforeAfter(counts, analysis), []
    prompts, shares = policies.subset_size(analysis["budget"], len(counts)), data.shares()
    all_parts = np.ones(data.probe + 1)
    for rule in probes.ORDER:
        chosen_shares = probes.choose_shares(
            shares, probes.class_ranks(rule, data.probe, shares), prompts / len(counts)
        )
        if chosen_shares is None:
            continue
        chosen_parts = np.divide(chosen_shares, shares, out=np.zeros(len(shares)), where=shares > 0)
        row = _keys(analysis) | {"rule": rule, "chosen_by": data.probe, "prompts": prompts}
        row |= data.columns(chosen_parts)
        for name, values in (("gain", data.gain), ("mixed", data.mixed)):
            lead = data.parts(values, chosen_parts) - data.parts(values, all_parts)
            row |= estimates(**{f"{name}_lead": statistics.UNKNOWN if rule == "random" else lead})
        rows.append(row | {"seeds": len(data.seeds)})
    return rows


@table("model task seed samples both only_before only_after never prompts", kind="before_after")
def solved_counts(counts: list[dict], analysis: dict) -> list[dict]:
    """For each seed, the numbers of prompts with a right answer among all n samples both before and
    after training, only before training, only after training, and never."""
    data = BeforeAfter(counts, analysis)
    before = data.correct > 0
    return [
        _keys(analysis)
        | {"seed": seed, "samples": data.samples, "prompts": len(counts)}
        | {"both": int((before & after).sum()), "only_before": int((before & ~after).sum())}
        | {"only_after": int((~before & after).sum()), "never": int((~before & ~after).sum())}
        for seed, after in zip(data.seeds, data.correct_after > 0)
    ]


@table("model task k seed before after± gain± samples prompts seeds", kind="before_after")
def pass_at_each_k(counts: list[dict], analysis: dict) -> list[dict]:
    """pass@k before and after training and the gain, for k = 1..n: over all seeds (`seed` is
    empty), then for each seed."""
    data, rows = BeforeAfter(counts, analysis), []
    for k in range(1, data.samples + 1):
        before, after = (
            pass_at_k(correct, data.samples, k) for correct in (data.correct, data.correct_after)
        )
        row = _keys(analysis) | {"k": k, "before": float(before.mean())}
        row |= {"prompts": len(counts), "samples": data.samples}
        over_seeds = estimates(after=after, gain=after - before)
        rows.append(row | {"seed": None} | over_seeds | {"seeds": len(data.seeds)})
        for seed, solved in zip(data.seeds, after):
            means = {"after": float(solved.mean()), "gain": float((solved - before).mean())}
            rows.append(row | dict.fromkeys(over_seeds) | means | {"seed": seed, "seeds": 1})
    return rows


def pass_at_k(correct: np.ndarray, samples: int, k: int) -> np.ndarray:
    """Unbiased pass@k: the probability that at least one of k samples is right, if `correct` of all
    `samples` samples are right."""
    return 1 - special.binom(samples - correct, k) / special.binom(samples, k)


def mixed(correct: np.ndarray, samples: int, group: int) -> np.ndarray:
    """Probability that a group, drawn from all samples, is neither all right nor all wrong, if
    `correct` of all `samples` samples are right."""
    return pass_at_k(correct, samples, group) - special.binom(correct, group) / special.binom(
        samples, group
    )
