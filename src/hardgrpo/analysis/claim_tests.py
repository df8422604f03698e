"""The tests that decide claims: (claim, study) -> a row for every cell that the study can decide.

A row has an estimate that is positive where the claim holds, its 95 % interval, and the verdict.
"""

from collections.abc import Callable

import numpy as np

from hardgrpo.analysis import statistics
from hardgrpo.analysis.published import unpaired
from hardgrpo.analysis.verdicts import (
    CONTRADICTED,
    SUPPORTED,
    UNDECIDED,
    Study,
    about_policies,
    cell_of,
    interval_of,
    known_or,
    result,
    verdict,
    widened,
    within,
)


def _judged(row: dict, name: str, interval: tuple, said: str | None = None, p_holm=None) -> dict:
    """The result of a claim about policies, with seeds and problems of `row`; without `said` the interval decides."""
    said = about_policies(said or verdict(*interval[1:], p_holm), row["seeds"])
    return result(cell_of(row), name, interval, row["seeds"], row["problems"], said, p_holm)


def _paired(rows: list[dict], policy: str, minus: str) -> tuple | None:
    """(interval, row) of one policy less another, from a cell's rows of `differences`."""
    row = next((row for row in rows if {policy, minus} == {row["policy"], row["minus"]}), None)
    return row and (interval_of(row, "difference", 1 if row["policy"] == policy else -1), row)


def _leads(study: Study, claim: dict) -> dict[tuple, tuple]:
    """{cell: (interval, row)} of `policy` less `minus`, paired by problem and seed."""
    found = {cell: _paired(rows, claim["policy"], claim["minus"]) for cell, rows in study.by_cell("differences", claim).items()}
    return {cell: lead for cell, lead in found.items() if lead}


def difference(claim: dict, study: Study) -> list[dict]:
    """`policy` less `minus` after training, paired by problem and seed."""
    name = f"{claim['policy']} - {claim['minus']}"
    leads = _leads(study, claim).values()
    return [_judged(row, name, interval, p_holm=known_or(row.get("p_holm"))) for interval, row in leads]


def equivalence(claim: dict, study: Study) -> list[dict]:
    """`policy` less `minus` lies within `margin` on both sides."""
    name = f"|{claim['policy']} - {claim['minus']}| < {claim['margin']:g}"
    leads = _leads(study, claim).values()
    return [_judged(row, name, interval, within(*interval[1:], claim["margin"])) for interval, row in leads]


def _all_of(cell: tuple, links: list[tuple]) -> dict:
    """One row for several differences that must all be positive: `links` are (name, interval, seeds, n).

    Supported where every difference is positive (an intersection-union test needs no correction); contradicted where one is
    negative after a correction for their number. The row shows the difference that decides.
    """
    against = min(links, key=lambda link: link[1][2])
    weakest = min(links, key=lambda link: link[1][1])
    said = verdict(weakest[1][1], widened(*against[1:3], len(links))[2])
    name, interval, seeds, n = against if said == CONTRADICTED else weakest
    return result(cell, name, interval, seeds, n, about_policies(said, seeds))


def _all_positive(study: Study, claim: dict, pairs: list[tuple], least: int) -> list[dict]:
    """`_all_of` for `pairs` of policies, in cells that have at least so many of the pairs."""
    rows = []
    for cell, here in study.by_cell("differences", claim).items():
        found = [(f"{one} - {other} (weakest)", _paired(here, one, other)) for one, other in pairs]
        links = [(name, lead[0], lead[1]["seeds"], lead[1]["problems"]) for name, lead in found if lead]
        if len(links) >= least:
            rows.append(_all_of(cell, links))
    return rows


def largest(claim: dict, study: Study) -> list[dict]:
    """`policy` gains more than each policy of `among` that the study has (two at least)."""
    return _all_positive(study, claim, [(claim["policy"], other) for other in claim["among"]], 2)


def order(claim: dict, study: Study) -> list[dict]:
    """Each of `policies` gains more than the next; the study must have all."""
    pairs = list(zip(claim["policies"], claim["policies"][1:]))
    return _all_positive(study, claim, pairs, max(len(pairs), 1))


def _largest_unpaired(claim: dict, cell: tuple, rows: list[dict], name: str, what: str, n: str) -> list[dict]:
    by_policy = {row["policy"]: row for row in rows}
    own = by_policy.get(claim["policy"])
    others = [by_policy[other] for other in claim["among"] if other in by_policy]
    if own is None or len(others) < 2:
        return []
    label = f"{what}, {claim['policy']} - %s (weakest)"
    return [_all_of(cell, [(label % other["policy"], unpaired(own, other, name), own["seeds"], own[n]) for other in others])]


def largest_pass(claim: dict, study: Study) -> list[dict]:
    """As `largest`, by pass@k with the largest k above 1 (k = 1 is accuracy)."""
    rows = []
    for cell, here in study.by_cell("pass_at_k", claim).items():
        k = max(row["k"] for row in here)
        if k > 1:
            here = [row for row in here if row["k"] == k]
            rows += _largest_unpaired(claim, cell, here, "gain", f"pass@{k:.0f}", "problems")
    return rows


def largest_learnable(claim: dict, study: Study) -> list[dict]:
    """As `largest`, by learnable share; intervals over seeds, n is the number of updates."""
    rows = []
    for cell, here in study.by_cell("learnable", claim).items():
        rows += _largest_unpaired(claim, cell, here, "learnable", "learnable", "updates")
    return rows


def _gains(study: Study, claim: dict) -> list[tuple[dict, tuple]]:
    """[(row, interval)] of the gains of `policy`."""
    rows = study.rows("gains", claim, decoding="sampled", policy=claim["policy"])
    return [(row, interval_of(row, "gain")) for row in rows]


def gain(claim: dict, study: Study) -> list[dict]:
    """The gain of `policy` is positive."""
    return [_judged(row, f"gain of {row['policy']}", interval) for row, interval in _gains(study, claim)]


def no_more_than(claim: dict, study: Study) -> list[dict]:
    """The gain of `policy` is at most `at_most`."""
    most = claim["at_most"]
    name = f"gain of {claim['policy']} < {most:g}"
    return [_judged(row, name, gain, verdict(most - gain[2], most - gain[1])) for row, gain in _gains(study, claim)]


def reaches(claim: dict, study: Study) -> list[dict]:
    """The largest gain of `policy` over all cells is at least `at_least`.

    Supported if the largest gain's interval lies above it after a correction for the number of cells (the largest of many is large
    by chance); contradicted if the intervals of all cells lie below.
    """
    found, aim = _gains(study, claim), claim["at_least"]
    if not found:
        return []
    best, interval = max(found, key=lambda pair: pair[0]["gain"])
    low = widened(interval, best["seeds"], len(found))[1]
    said = SUPPORTED if low > aim else CONTRADICTED if all(high < aim for _, (_, _, high) in found) else UNDECIDED
    return [_judged(best, f"largest gain > {aim:g}", interval, said)]


def ahead(claim: dict, study: Study) -> list[dict]:
    """`policy` is ahead of `minus` at the first checkpoint from `share` of the updates on, if that is not the last one.

    The table has no paired differences of checkpoints: half-widths are added as if the two were independent, so the interval is
    too wide rather than too narrow.
    """
    rows = []
    for here in study.by_cell("accuracy", claim).values():
        here = [row for row in here if row["decoding"] == "sampled" and row["step"] > 0]
        pair = [[row for row in here if row["policy"] == claim[key]] for key in ("policy", "minus")]
        common = sorted(set.intersection(*({row["step"] for row in side} for side in pair)))
        steps = [step for step in common[:-1] if step >= claim["share"] * common[-1]]
        if steps:
            one, other = (next(row for row in side if row["step"] == steps[0]) for side in pair)
            name = f"{claim['policy']} - {claim['minus']} after {steps[0]:.0f} of {common[-1]:.0f}"
            rows.append(_judged(one, name, unpaired(one, other, "accuracy")))
    return rows


def smaller_lead(claim: dict, study: Study) -> list[dict]:
    """`policy` less `minus` is larger in a cell than in the cell with the weaker signal (another task or model)."""
    leads = _leads(study, claim)
    weak = [cell for cell in leads if cell[0] in study.weaker or cell[1] in study.weaker]
    rows = []
    for weaker in weak:
        for cell in leads:
            if cell in weak or (cell[1] != weaker[1] and cell[0] != weaker[0]):
                continue  # one thing differs at a time
            sides = [dict(zip(("d", "d_low", "d_high"), leads[one][0])) for one in (cell, weaker)]
            name = f"({claim['policy']} - {claim['minus']}) less that of {weaker[1] if cell[1] != weaker[1] else weaker[0]}"
            rows.append(_judged(leads[cell][1], name, unpaired(*sides, "d")))
    return sorted(rows, key=lambda row: (row["model"], row["task"]))


def lost_lead(claim: dict, study: Study) -> list[dict]:
    """The lead of `policy` over `minus` on the task itself is larger than the same runs' lead with room to finish.

    Both leads are of the same runs on the same problems, but the tables do not have their covariance. Their half-widths are
    added, which is wide enough for any covariance.
    """
    rows = []
    own, roomier = (_leads(study, claim | {"tested": tested}) for tested in ("same", "roomier"))
    for cell, ((a, a_low, a_high), row) in own.items():
        for other, ((b, b_low, b_high), _) in roomier.items():
            if cell[:2] == other[:2]:
                name = f"({claim['policy']} - {claim['minus']}) less that on {other[2]}"
                rows.append(_judged(row, name, (a - b, a_low - b_high, a_high - b_low)))
    return rows


def parts(claim: dict, study: Study) -> list[dict]:
    """Finishing less correctness, for every policy. One seed is enough: the claim is about that run's gain."""
    last = {}
    for row in study.rows("parts", claim):
        key = (*cell_of(row), row["policy"])
        if key not in last or row["step"] > last[key]["step"]:
            last[key] = row
    rows = []
    for row in last.values():
        interval = interval_of(row, "finishing_minus_correctness")
        name = f"finishing - correctness of {row['policy']}"
        rows.append(result(cell_of(row), name, interval, row["seeds"], row["problems"], verdict(*interval[1:])))
    return rows


def _fits(study: Study, predictor: str) -> dict[str, dict]:
    """{task or "all": row} of the regression of the gain on a predictor by itself."""
    rows = study.tables.get("regressions", [])
    return {row["task"]: row for row in rows if row["predictor"] == predictor and not row["adjusted_for"]}


def fit(claim: dict, study: Study) -> list[dict]:
    """R^2 of `predictor` against the gain is not zero, and its slope has the claim's sign; n is the number of cells."""
    rows = []
    for task, row in _fits(study, claim["predictor"]).items():
        sign = np.sign(row["slope"]) * claim["sign"]
        said = UNDECIDED if not row["r_squared_low"] > 0 else SUPPORTED if sign > 0 else CONTRADICTED
        name = f"R^2 ({claim['predictor']}, gain)"
        rows.append(result(("", task, task), name, interval_of(row, "r_squared"), None, row["cells"], said))
    return rows


def better_fit(claim: dict, study: Study) -> list[dict]:
    """R^2 of `predictor` is larger than that of `than`. The bounds take the two intervals' ends, so they are cautious."""
    rows, others = [], _fits(study, claim["than"])
    for task, row in _fits(study, claim["predictor"]).items():
        if task in others:
            (one, low, high), (other, other_low, other_high) = (interval_of(r, "r_squared") for r in (row, others[task]))
            interval = one - other, low - other_high, high - other_low
            name = f"R^2 ({claim['predictor']}) - R^2 ({claim['than']})"
            rows.append(result(("", task, task), name, interval, None, row["cells"], verdict(*interval[1:])))
    return rows


def fit_base(claim: dict, study: Study) -> list[dict]:
    """R^2 of the base model's accuracy against the gain over models and tasks is not zero, for each of `policies`.

    A gain is accuracy less the base's, so noise in the base alone gives them a negative correlation.
    """
    rows = []
    for policy in claim["policies"]:
        cells = study.rows("gains", claim, decoding="sampled", policy=policy)
        if len({row["model"] for row in cells}) > 1 and len(cells) > 3:
            found = statistics.r_squared(*(np.array([row[key] for row in cells]) for key in ("base_accuracy", "gain")))
            said = SUPPORTED if found.low > 0 else UNDECIDED
            interval = found.estimate, found.low, found.high
            rows.append(result(("", "all", "all"), f"R^2 (base accuracy, gain of {policy})", interval, None, len(cells), said))
    return rows


def tiers(claim: dict, study: Study) -> list[dict]:
    """The gain in the easiest tier less that in the hardest, for each of `policies`; n is the smaller number of problems."""
    rows, cells = [], study.by_cell("tiers", claim).values()
    for policy in claim["policies"]:
        for here in ([row for row in cell if row["policy"] == policy] for cell in cells):
            if len(here) > 1:
                easiest, hardest = here[0], here[-1]  # the table lists tiers from easy to hard
                name = f"gain of {policy}, tier {easiest['tier']} - tier {hardest['tier']}"
                smaller = min(easiest, hardest, key=lambda row: row["problems"])
                rows.append(_judged(easiest | {"problems": smaller["problems"]}, name, unpaired(easiest, hardest, "gain")))
    return rows


def equivalence_by_tier(claim: dict, study: Study) -> list[dict]:
    """As `equivalence`, within each tier and unpaired: a row for each tier."""
    rows = []
    for here in study.by_cell("tiers", claim).values():
        ours, theirs = ({row["tier"]: row for row in here if row["policy"] == claim[key]} for key in ("policy", "minus"))
        for tier in (tier for tier in ours if tier in theirs):
            interval = unpaired(ours[tier], theirs[tier], "gain")
            name = f"|{claim['policy']} - {claim['minus']}| < {claim['margin']:g} in tier {tier}"
            rows.append(_judged(ours[tier], name, interval, within(*interval[1:], claim["margin"])))
    return rows


def reach(claim: dict, study: Study) -> list[dict]:
    """`policy` is as accurate as training on all prompts at the end, within a share of the updates.

    The estimate is of the curve averaged over seeds, low and high are the quickest and the slowest seed (no interval; high is
    empty where a seed never gets there). n is the number of seeds that do.
    """
    rows = []
    for row in study.rows("reach", claim, policy=claim["policy"]):
        every = row["seeds_reached"] == row["seeds"]
        share, quickest, slowest = (known_or(row[key], np.nan) / row["steps"] for key in ("step", "step_first", "step_last"))
        if every and slowest <= claim["within"]:
            said = SUPPORTED
        else:
            said = UNDECIDED if quickest <= claim["within"] else CONTRADICTED
        name = f"share of updates <= {claim['within']:g} (quickest and slowest seed)"
        rows.append(_judged(row | {"problems": row["seeds_reached"]}, name, (share, quickest, slowest if every else np.nan), said))
    return rows


def transfer(claim: dict, study: Study) -> list[dict]:
    """The gain of `policy` trained on `trained_on` less that trained on `minus`, tested on the same other task; unpaired."""
    rows = []
    found = study.rows("gains", claim | {"tested": "any"}, decoding="sampled", policy=claim["policy"])
    for one in (row for row in found if row["task"] == claim["trained_on"]):
        for other in found:
            if other["task"] == claim["minus"] and all(one[key] == other[key] for key in ("model", "eval_task")):
                name = f"trained on {one['task']} - trained on {other['task']}"
                rows.append(_judged(one, name, unpaired(one, other, "gain")))
    return rows


# Each test, with the keys of a claim that it reads and their types.
PAIR = {"policy": str, "minus": str}
TESTS: dict[str, tuple[Callable[[dict, Study], list[dict]], dict[str, type]]] = {
    "difference": (difference, PAIR),
    "equivalence": (equivalence, PAIR | {"margin": float}),
    "equivalence_by_tier": (equivalence_by_tier, PAIR | {"margin": float}),
    "largest": (largest, {"policy": str, "among": list}),
    "largest_pass": (largest_pass, {"policy": str, "among": list}),
    "largest_learnable": (largest_learnable, {"policy": str, "among": list}),
    "order": (order, {"policies": list}),
    "gain": (gain, {"policy": str}),
    "no_more_than": (no_more_than, {"policy": str, "at_most": float}),
    "reaches": (reaches, {"policy": str, "at_least": float}),
    "ahead": (ahead, PAIR | {"share": float}),
    "smaller_lead": (smaller_lead, PAIR),
    "lost_lead": (lost_lead, PAIR),
    "parts": (parts, {}),
    "fit": (fit, {"predictor": str, "sign": int}),
    "better_fit": (better_fit, {"predictor": str, "than": str}),
    "fit_base": (fit_base, {"policies": list}),
    "tiers": (tiers, {"policies": list}),
    "reach": (reach, {"policy": str, "within": float}),
    "transfer": (transfer, PAIR | {"trained_on": str}),
}
