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


def _paired(study: Study, claim: dict, cell: tuple, policy: str, minus: str) -> tuple | None:
    """(estimate, low, high), the row: one policy less another, paired by problem and seed."""
    for row in study.rows("differences", claim):
        if cell_of(row) == cell and {policy, minus} == {row["policy"], row["minus"]}:
            return interval_of(row, "difference", 1 if row["policy"] == policy else -1), row
    return None


def difference(claim: dict, study: Study) -> list[dict]:
    """`policy` less `minus` after training, paired by problem and seed."""
    rows = []
    for cell in study.cells("differences", claim):
        if found := _paired(study, claim, cell, claim["policy"], claim["minus"]):
            (estimate, low, high), row = found
            p_holm = known_or(row.get("p_holm"))
            said = about_policies(verdict(low, high, p_holm), row["seeds"])
            name = f"{claim['policy']} - {claim['minus']}"
            rows.append(result(cell, name, (estimate, low, high), row["seeds"], row["problems"], said, p_holm))
    return rows


def equivalence(claim: dict, study: Study) -> list[dict]:
    """`policy` less `minus` lies within `margin` on both sides."""
    rows = []
    for cell in study.cells("differences", claim):
        if found := _paired(study, claim, cell, claim["policy"], claim["minus"]):
            interval, row = found
            said = about_policies(within(*interval[1:], claim["margin"]), row["seeds"])
            name = f"|{claim['policy']} - {claim['minus']}| < {claim['margin']:g}"
            rows.append(result(cell, name, interval, row["seeds"], row["problems"], said))
    return rows


def _all_of(cell: tuple, links: list[tuple]) -> dict:
    """One row for several differences that must all be positive: `links` are (name, interval, seeds, n).

    Supported where every one is (an intersection-union test needs no correction), contradicted where one is negative after a
    correction for their number. The row shows the one that decides.
    """
    against = min(links, key=lambda link: link[1][2])
    weakest = min(links, key=lambda link: link[1][1])
    said = verdict(weakest[1][1], widened(*against[1:3], len(links))[2])
    name, interval, seeds, n = against if said == CONTRADICTED else weakest
    return result(cell, name, interval, seeds, n, about_policies(said, seeds))


def largest(claim: dict, study: Study) -> list[dict]:
    """`policy` gains more than each policy of `among` that the study has (two at least)."""
    rows = []
    for cell in study.cells("differences", claim):
        pairs = [(other, _paired(study, claim, cell, claim["policy"], other)) for other in claim["among"]]
        links = [(f"{claim['policy']} - {other} (weakest)", p[0], p[1]["seeds"], p[1]["problems"]) for other, p in pairs if p]
        if len(links) > 1:
            rows.append(_all_of(cell, links))
    return rows


def order(claim: dict, study: Study) -> list[dict]:
    """Each of `policies` gains more than the next; the study must have all."""
    rows = []
    steps = list(zip(claim["policies"], claim["policies"][1:]))
    for cell in study.cells("differences", claim):
        pairs = [(one, other, _paired(study, claim, cell, one, other)) for one, other in steps]
        if all(p for _, _, p in pairs):
            links = [(f"{one} - {other} (weakest)", p[0], p[1]["seeds"], p[1]["problems"]) for one, other, p in pairs]
            rows.append(_all_of(cell, links))
    return rows


def _by_policy(rows: list[dict]) -> dict[str, dict]:
    return {row["policy"]: row for row in rows}


def _largest_unpaired(claim: dict, cell: tuple, rows: list[dict], name: str, what: str, n: str) -> list[dict]:
    by_policy = _by_policy(rows)
    own = by_policy.get(claim["policy"])
    others = [by_policy[other] for other in claim["among"] if other in by_policy]
    if own is None or len(others) < 2:
        return []
    label = f"{what}, {claim['policy']} - %s (weakest)"
    return [_all_of(cell, [(label % other["policy"], unpaired(own, other, name), own["seeds"], own[n]) for other in others])]


def largest_pass(claim: dict, study: Study) -> list[dict]:
    """As `largest`, by pass@k with the largest k above 1 (k = 1 is accuracy)."""
    rows = []
    for cell in study.cells("pass_at_k", claim):
        here = [row for row in study.rows("pass_at_k", claim) if cell_of(row) == cell]
        k = max(row["k"] for row in here)
        if k > 1:
            here = [row for row in here if row["k"] == k]
            rows += _largest_unpaired(claim, cell, here, "gain", f"pass@{k:.0f}", "problems")
    return rows


def largest_learnable(claim: dict, study: Study) -> list[dict]:
    """As `largest`, by learnable share; intervals over seeds, n is the number of updates."""
    rows = []
    for cell in study.cells("learnable", claim):
        here = [row for row in study.rows("learnable", claim) if cell_of(row) == cell]
        rows += _largest_unpaired(claim, cell, here, "learnable", "learnable", "updates")
    return rows


def gain(claim: dict, study: Study) -> list[dict]:
    """The gain of `policy` is positive."""
    rows = []
    for row in study.rows("gains", claim, decoding="sampled", policy=claim["policy"]):
        interval = interval_of(row, "gain")
        said = about_policies(verdict(*interval[1:]), row["seeds"])
        rows.append(result(cell_of(row), f"gain of {row['policy']}", interval, row["seeds"], row["problems"], said))
    return rows


def no_more_than(claim: dict, study: Study) -> list[dict]:
    """The gain of `policy` is at most `at_most`."""
    rows = []
    for row in study.rows("gains", claim, decoding="sampled", policy=claim["policy"]):
        interval = interval_of(row, "gain")
        said = about_policies(verdict(claim["at_most"] - interval[2], claim["at_most"] - interval[1]), row["seeds"])
        name = f"gain of {row['policy']} < {claim['at_most']:g}"
        rows.append(result(cell_of(row), name, interval, row["seeds"], row["problems"], said))
    return rows


def reaches(claim: dict, study: Study) -> list[dict]:
    """The largest gain of `policy` over all cells is at least `at_least`: supported if one cell's interval lies above it after
    a correction for the number of cells that were looked at, contradicted if all lie below."""
    rows = study.rows("gains", claim, decoding="sampled", policy=claim["policy"])
    if not rows:
        return []
    best = max(rows, key=lambda row: row["gain"])
    interval, aim = interval_of(best, "gain"), claim["at_least"]
    low = widened(interval, best["seeds"], len(rows))[1]  # the largest of many is large by chance
    said = SUPPORTED if low > aim else CONTRADICTED if all(row["gain_high"] < aim for row in rows) else UNDECIDED
    name = f"largest gain > {aim:g}"
    return [result(cell_of(best), name, interval, best["seeds"], best["problems"], about_policies(said, best["seeds"]))]


def ahead(claim: dict, study: Study) -> list[dict]:
    """`policy` is ahead of `minus` at the first checkpoint from `share` of the updates on, if that is not the last one.

    The table has no paired differences of checkpoints: half-widths are added as if the two were independent, so the interval is
    too wide rather than too narrow.
    """
    rows = []
    for cell in study.cells("accuracy", claim):
        here = [row for row in study.rows("accuracy", claim, decoding="sampled") if cell_of(row) == cell and row["step"] > 0]
        pair = [[row for row in here if row["policy"] == claim[key]] for key in ("policy", "minus")]
        common = sorted(set.intersection(*({row["step"] for row in side} for side in pair)))
        steps = [step for step in common[:-1] if step >= claim["share"] * common[-1]]
        if steps:
            one, other = (next(row for row in side if row["step"] == steps[0]) for side in pair)
            interval = unpaired(one, other, "accuracy")
            said = about_policies(verdict(*interval[1:]), one["seeds"])
            name = f"{claim['policy']} - {claim['minus']} after {steps[0]:.0f} of {common[-1]:.0f}"
            rows.append(result(cell, name, interval, one["seeds"], one["problems"], said))
    return rows


def smaller_lead(claim: dict, study: Study) -> list[dict]:
    """`policy` less `minus` is larger in a cell than in the cell with the weaker signal (another task or model)."""
    pairs = {cell: _paired(study, claim, cell, claim["policy"], claim["minus"]) for cell in study.cells("differences", claim)}
    pairs = {cell: pair for cell, pair in pairs.items() if pair}
    weak = {cell for cell in pairs if cell[0] in study.weaker or cell[1] in study.weaker}
    rows = []
    for weaker in weak:
        for cell in pairs.keys() - weak:
            if cell[1] != weaker[1] and cell[0] != weaker[0]:
                continue  # one thing differs at a time
            sides = [{"d": i[0], "d_low": i[1], "d_high": i[2]} for i in (pairs[cell][0], pairs[weaker][0])]
            interval, row = unpaired(*sides, "d"), pairs[cell][1]
            name = f"({claim['policy']} - {claim['minus']}) less that of {weaker[1] if cell[1] != weaker[1] else weaker[0]}"
            said = about_policies(verdict(*interval[1:]), row["seeds"])
            rows.append(result(cell, name, interval, row["seeds"], row["problems"], said))
    return sorted(rows, key=lambda row: (row["model"], row["task"]))


def lost_lead(claim: dict, study: Study) -> list[dict]:
    """The lead of `policy` over `minus` on the task itself is larger than the same runs' lead with room to finish.

    Both leads are of the same runs on the same problems, how they vary together is not in the tables: their half-widths are added,
    which is wide enough whatever that is.
    """
    rows = []
    own, roomier = (claim | {"tested": where} for where in ("same", "roomier"))
    for cell in study.cells("differences", own):
        for other in study.cells("differences", roomier):
            if cell[:2] != other[:2]:
                continue
            here = _paired(study, own, cell, claim["policy"], claim["minus"])
            there = _paired(study, roomier, other, claim["policy"], claim["minus"])
            if not here or not there:
                continue
            (a, a_low, a_high), (b, b_low, b_high) = here[0], there[0]
            interval, row = (a - b, a_low - b_high, a_high - b_low), here[1]
            said = about_policies(verdict(*interval[1:]), row["seeds"])
            name = f"({claim['policy']} - {claim['minus']}) less that on {other[2]}"
            rows.append(result(cell, name, interval, row["seeds"], row["problems"], said))
    return rows


def parts(claim: dict, study: Study) -> list[dict]:
    """Finishing less correctness, for every policy; of one run, it says what that run's gain is made of."""
    last = {}
    for row in study.rows("parts", claim):
        key = (*cell_of(row), row["policy"])
        if key not in last or row["step"] > last[key]["step"]:
            last[key] = row
    rows = []
    for row in last.values():
        interval = interval_of(row, "finishing_minus_correctness")
        rows.append(
            result(
                cell_of(row),
                f"finishing - correctness of {row['policy']}",
                interval,
                row["seeds"],
                row["problems"],
                verdict(*interval[1:]),
            )
        )
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
    rows = []
    for policy in claim["policies"]:
        for cell in study.cells("tiers", claim):
            here = [row for row in study.rows("tiers", claim, policy=policy) if cell_of(row) == cell]
            if len(here) > 1:
                easiest, hardest = here[0], here[-1]  # the table lists tiers from easy to hard
                interval = unpaired(easiest, hardest, "gain")
                said = about_policies(verdict(*interval[1:]), easiest["seeds"])
                name = f"gain of {policy}, tier {easiest['tier']} - tier {hardest['tier']}"
                n = min(easiest["problems"], hardest["problems"])
                rows.append(result(cell, name, interval, easiest["seeds"], n, said))
    return rows


def equivalence_by_tier(claim: dict, study: Study) -> list[dict]:
    """As `equivalence`, within each tier and unpaired: a row for each tier."""
    rows = []
    for cell in study.cells("tiers", claim):
        sides = [
            {row["tier"]: row for row in study.rows("tiers", claim, policy=claim[key]) if cell_of(row) == cell}
            for key in ("policy", "minus")
        ]
        for tier in (tier for tier in sides[0] if tier in sides[1]):
            one, other = sides[0][tier], sides[1][tier]
            interval = unpaired(one, other, "gain")
            said = about_policies(within(*interval[1:], claim["margin"]), one["seeds"])
            name = f"|{claim['policy']} - {claim['minus']}| < {claim['margin']:g} in tier {tier}"
            rows.append(result(cell, name, interval, one["seeds"], one["problems"], said))
    return rows


def reach(claim: dict, study: Study) -> list[dict]:
    """`policy` is as accurate as training on all prompts at the end, within a share of the updates.

    The estimate is of the curve averaged over seeds, low and high are the quickest and the slowest seed (no interval; high is
    empty where a seed never gets there). n is the number of seeds that do.
    """
    rows = []
    for row in study.rows("reach", claim, policy=claim["policy"]):
        every = row["seeds_reached"] == row["seeds"]
        shares = tuple(known_or(row[key], np.nan) / row["steps"] for key in ("step", "step_first", "step_last"))
        interval = shares[0], shares[1], shares[2] if every else np.nan
        if every and interval[2] <= claim["within"]:
            said = SUPPORTED
        else:
            said = CONTRADICTED if not interval[1] <= claim["within"] else UNDECIDED
        name = f"share of updates <= {claim['within']:g} (quickest and slowest seed)"
        rows.append(result(cell_of(row), name, interval, row["seeds"], row["seeds_reached"], about_policies(said, row["seeds"])))
    return rows


def transfer(claim: dict, study: Study) -> list[dict]:
    """The gain of `policy` trained on `trained_on` less that trained on `minus`, tested on the same other task; unpaired."""
    rows = []
    found = study.rows("gains", claim | {"tested": "any"}, decoding="sampled", policy=claim["policy"])
    for one in (row for row in found if row["task"] == claim["trained_on"]):
        for other in found:
            if other["task"] == claim["minus"] and all(one[key] == other[key] for key in ("model", "eval_task")):
                interval = unpaired(one, other, "gain")
                said = about_policies(verdict(*interval[1:]), one["seeds"])
                name = f"trained on {one['task']} - trained on {other['task']}"
                rows.append(result(cell_of(one), name, interval, one["seeds"], one["problems"], said))
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
