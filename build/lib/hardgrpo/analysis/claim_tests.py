"""The tests of claims. A test maps (claim, study) to rows: for every cell in which the study has
the estimate, the estimate with its 95 % interval.

The estimate of a difference or a gain is positive where the claim holds, unless the test's
docstring says otherwise. In a claim, `arm` and `minus_arm` are the labels of the claim's arms
(`label_arms`). Tests give no verdict: analysis/verdicts.py judges the primary claims.
"""

from collections.abc import Callable

import numpy as np

from hardgrpo.analysis import arms, statistics
from hardgrpo.analysis.cells import are_ordered
from hardgrpo.analysis.formats import is_known
from hardgrpo.analysis.published import unpaired
from hardgrpo.analysis.verdicts import Study, cell_of, relation

RECIPE_KEYS = {"policy": "recipe", "minus": "minus_recipe"}  # {key of a policy: key of its recipe}
LABEL_KEYS = {"policy": "arm", "minus": "minus_arm"}
NO_INTERVAL = (np.nan, np.nan)


def label_arms(claim: dict, first_recipe: str) -> dict:
    """The claim with the labels of its arms. An arm whose recipe the claim does not name (key
    `recipe` of `policy`, key `minus_recipe` of `minus`) has the study's first recipe."""
    return claim | {
        LABEL_KEYS[key]: arms.label(claim[key], claim.get(recipe, first_recipe), first_recipe)
        for key, recipe in RECIPE_KEYS.items()
        if key in claim
    }


def _result(
    cell: tuple, test: str, interval: tuple, seeds, n, p=None, unanswerable: str | None = None
) -> dict:
    names = ("model", "task", "eval_task", "estimate", "low", "high")
    return dict(zip(names, (*cell, *interval))) | {
        "test": test,
        "seeds": seeds,
        "n": n,
        "p": p,
        "open": unanswerable,
    }


def _cell_result(
    row: dict, test: str, interval: tuple, p=None, unanswerable: str | None = None
) -> dict:
    """The result of a cell with the seeds and problems of `row`. `unanswerable`: why the claim
    cannot be decided; None if the claim can be decided."""
    return _result(cell_of(row), test, interval, row["seeds"], row["problems"], p, unanswerable)


def _interval(row: dict, name: str, sign: int = 1) -> tuple[float, float, float]:
    ends = sorted((sign * row[f"{name}_low"], sign * row[f"{name}_high"]))
    return sign * row[name], *ends


def _difference(row: dict, claim: dict) -> tuple[float, float, float] | None:
    """`policy` minus `minus`, from a row with this difference in either direction; None if the row
    compares other arms."""
    if {row["arm"], row["minus_arm"]} != {claim["arm"], claim["minus_arm"]}:
        return None
    return _interval(row, "difference", 1 if row["arm"] == claim["arm"] else -1)


def _leads(
    study: Study, claim: dict, table: str = "differences", **values
) -> list[tuple[dict, tuple]]:
    """[(row, interval of `policy` minus `minus`)] of the rows that compare these two arms."""
    leads = [(row, _difference(row, claim)) for row in study.rows(table, claim, **values)]
    return [(row, interval) for row, interval in leads if interval]


# --- differences, paired by problem and seed ---


def difference(claim: dict, study: Study) -> list[dict]:
    """`policy` minus `minus` after training."""
    name = f"{claim['arm']} - {claim['minus_arm']}"
    return [
        _cell_result(row, name, interval, row.get("p")) for row, interval in _leads(study, claim)
    ]


def difference_by_recipe(claim: dict, study: Study) -> list[dict]:
    """`policy` minus `minus`, both trained by the same recipe: a row for each recipe with
    which both policies were trained, except the study's first recipe."""
    rows = []
    for row in study.rows("differences", claim):
        recipe = row["recipe"]
        if row["arm"] == row["policy"] or row["minus_recipe"] != recipe:
            continue
        if interval := _difference(row | {"arm": row["policy"], "minus_arm": row["minus"]}, claim):
            rows.append(
                _cell_result(row, f"{claim['policy']} - {claim['minus']}, {recipe}", interval)
            )
    return rows


def recipe_difference(claim: dict, study: Study) -> list[dict]:
    """`policy` trained by the study's first recipe minus `policy` trained by a further recipe: a
    row for each further recipe."""
    policy = claim["policy"]
    return [
        _cell_result(
            row, f"{policy} - {policy}, {row['minus_recipe']}", _interval(row, "difference")
        )
        for row in study.rows("differences", claim, arm=policy, minus=policy)
    ]


def difference_at_k(claim: dict, study: Study) -> list[dict]:
    """`policy` minus `minus` in pass@k, at the largest k."""
    rows = []
    for cell_rows in study.by_cell("paired", claim, what="pass@k").values():
        largest_k = max(int(row["at"]) for row in cell_rows)
        for row in cell_rows:
            if int(row["at"]) == largest_k and (interval := _difference(row, claim)):
                rows.append(
                    _cell_result(
                        row, f"pass@{largest_k}, {claim['arm']} - {claim['minus_arm']}", interval
                    )
                )
    return rows


def difference_by_tier(claim: dict, study: Study) -> list[dict]:
    """`policy` minus `minus` within each tier: a row for each tier."""
    name = f"{claim['arm']} - {claim['minus_arm']}, tier "
    return [
        _cell_result(row, name + row["at"], interval)
        for row, interval in _leads(study, claim, "paired", what="tier")
    ]


def ahead(claim: dict, study: Study) -> list[dict]:
    """`policy` minus `minus` at the first checkpoint after at least `share` of the updates; no row
    if this is the last checkpoint."""
    ends = {}
    for row in study.rows("gains", claim, arm=claim["arm"]):
        ends[cell_of(row)] = row["step"]
    rows = {}
    for row, interval in _leads(study, claim, "paired", what="checkpoint"):
        cell, step = cell_of(row), int(row["at"])
        # the table lists checkpoints in order
        if claim["share"] * ends[cell] <= step < ends[cell] and cell not in rows:
            rows[cell] = _cell_result(
                row,
                f"{claim['arm']} - {claim['minus_arm']} after {step} of {ends[cell]:.0f}",
                interval,
            )
    return list(rows.values())


def order(claim: dict, study: Study) -> list[dict]:
    """The smallest difference between a policy of the list `policies` and the next policy of the
    list (the former minus the latter). A cell that lacks any of these differences has no row."""
    rows, pairs = [], list(zip(claim["policies"], claim["policies"][1:]))
    for cell_rows in study.by_cell("differences", claim).values():
        links = [
            (interval, row, f"{policy} - {minus}")
            for policy, minus in pairs
            for row in cell_rows
            if (interval := _difference(row, {"arm": policy, "minus_arm": minus}))
        ]
        if links and len(links) == len(pairs):
            interval, row, name = min(links, key=lambda link: link[0][0])
            rows.append(_cell_result(row, f"{name} (least of the order)", interval))
    return rows


def lost_lead(claim: dict, study: Study) -> list[dict]:
    """The lead of `policy` over `minus` on the task's own test, minus the lead of the same runs on
    a test with the same problems and a larger completion limit."""
    name = f"{claim['arm']} - {claim['minus_arm']}, minus the same tested on "
    return [
        _cell_result(row, name + row["at"], interval)
        for row, interval in _leads(study, claim, "paired", what="test")
        if relation(row["task"], row["at"], study.tasks) == "roomier"
    ]


def transfer(claim: dict, study: Study) -> list[dict]:
    """`policy` trained on task `trained_on` minus the same policy trained on task `minus`, both
    tested on the same test."""
    differences = study.rows(
        "paired", claim | {"tested": "any"}, what="trained on", arm=claim["arm"]
    )
    rows = []
    for row in differences:
        if {row["task"], row["at"]} == {claim["trained_on"], claim["minus"]}:
            interval = _interval(row, "difference", 1 if row["task"] == claim["trained_on"] else -1)
            name = f"trained on {claim['trained_on']} - trained on {claim['minus']}"
            rows.append(_cell_result(row | {"task": claim["trained_on"]}, name, interval))
    return rows


# --- unpaired differences ---


def learnable(claim: dict, study: Study) -> list[dict]:
    """The learnable share of `policy` minus the learnable share of `minus`. The interval combines
    the two shares' intervals over seeds as if the shares were independent. n is the number of
    updates."""
    rows = []
    for cell, cell_rows in study.by_cell("learnable", claim).items():
        by_arm = {row["arm"]: row for row in cell_rows}
        if claim["arm"] in by_arm and claim["minus_arm"] in by_arm:
            row, minus_row = by_arm[claim["arm"]], by_arm[claim["minus_arm"]]
            name = f"learnable share, {claim['arm']} - {claim['minus_arm']}"
            rows.append(
                _result(
                    cell, name, unpaired(row, minus_row, "learnable"), row["seeds"], row["updates"]
                )
            )
    return rows


def smaller_lead(claim: dict, study: Study) -> list[dict]:
    """The lead of `policy` over `minus` in a model that the study's `weaker_signal` does not name,
    minus the same lead in a model that it names. Both leads are on the same task; their difference
    is not paired."""
    leads = {cell_of(row): (row, interval) for row, interval in _leads(study, claim)}
    rows = []
    for weaker in (cell for cell in leads if cell[0] in study.weaker):
        for cell in (
            cell for cell in leads if cell[0] not in study.weaker and cell[1:] == weaker[1:]
        ):
            sides = [
                dict(zip(("lead", "lead_low", "lead_high"), leads[key][1]))
                for key in (cell, weaker)
            ]
            name = f"{claim['arm']} - {claim['minus_arm']}, minus the same of {weaker[0]}"
            rows.append(_cell_result(leads[cell][0], name, unpaired(*sides, "lead")))
    return rows


# --- a single policy ---


def _gains(study: Study, claim: dict) -> list[tuple[dict, tuple]]:
    """[(row, interval of the gain of `policy`)]."""
    rows = study.rows("gains", claim, decoding="sampled", arm=claim["arm"])
    return [(row, _interval(row, "gain")) for row in rows]


def gain(claim: dict, study: Study) -> list[dict]:
    """The gain of `policy`."""
    return [
        _cell_result(row, f"gain of {row['arm']}", interval)
        for row, interval in _gains(study, claim)
    ]


def largest_gain(claim: dict, study: Study) -> list[dict]:
    """The largest gain of `policy` over all cells. The estimate is biased upwards, because it is a
    maximum."""
    gains = _gains(study, claim)
    if not gains:
        return []
    row, interval = max(gains, key=lambda pair: pair[0]["gain"])
    return [_cell_result(row, f"largest gain of {claim['arm']}, of {len(gains)}", interval)]


def new_solving(claim: dict, study: Study) -> list[dict]:
    """New solving of `policy` in the hardest tier, if the tiers are numbers. The claim is that new
    solving lies within `margin` (a share) of zero.

    New solving cannot exceed the share of problems out of the base model's reach. If this share is
    at most `margin`, the claim is undecided, because it cannot fail.
    """
    rows = []
    for cell_rows in study.by_cell("kinds", claim, arm=claim["arm"]).values():
        tiers = [row for row in cell_rows if row["tier"]]
        if len(tiers) > 1 and are_ordered(str(row["tier"]) for row in tiers):
            hardest = tiers[-1]  # the table lists tiers from easy to hard
            out_of_reach = hardest["out_of_reach"]
            unanswerable = (
                f"only {100 * out_of_reach:.1f} % out of reach"
                if out_of_reach <= claim["margin"]
                else None
            )
            name = f"new solving of {claim['arm']}, tier {hardest['tier']} (unsolved by {hardest['reach_samples']:.0f} samples of the base)"
            rows.append(
                _cell_result(
                    hardest, name, _interval(hardest, "new_solving"), unanswerable=unanswerable
                )
            )
    return rows


def tiers(claim: dict, study: Study) -> list[dict]:
    """The gain of each of `policies` in the easiest tier minus the same policy's gain in the hardest
    tier, in points and in log odds. n is the number of problems of the smaller tier."""
    rows = []
    for policy in claim["policies"]:
        for row in study.rows("tier_trends", claim, arm=policy):
            name = f"gain of {policy}, tier {row['easiest']} - tier {row['hardest']}"
            rows.append(_cell_result(row, name, _interval(row, "points")))
            if is_known(row["log_odds"]):
                rows.append(_cell_result(row, f"{LOG_ODDS}{name}", _interval(row, "log_odds")))
    return rows


def parts(claim: dict, study: Study) -> list[dict]:
    """Finishing minus correctness, the two parts of the gain of `policy`, at the last
    checkpoint."""
    last_rows = {}
    for row in study.rows("parts", claim, arm=claim["arm"]):
        if cell_of(row) not in last_rows or row["step"] > last_rows[cell_of(row)]["step"]:
            last_rows[cell_of(row)] = row
    name = f"finishing - correctness of {claim['arm']}"
    return [
        _cell_result(row, name, _interval(row, "finishing_minus_correctness"))
        for row in last_rows.values()
    ]


def catches_up(claim: dict, study: Study) -> list[dict]:
    """How early `policy` reaches the final accuracy of training on all prompts: the number of
    updates until then, as a share of all updates.

    The estimate is the share for the curve averaged over seeds. low and high are not an interval,
    but the shares for the quickest and the slowest seed; high is nan if a seed never reaches the
    final accuracy. n is the number of seeds that reach the final accuracy.
    """
    rows = []
    for row in study.rows("catches_up", claim, arm=claim["arm"]):
        share, quickest, slowest = (
            row[key] / row["steps"] for key in ("step", "step_first", "step_last")
        )
        spread = quickest, slowest if row["seeds_reached"] == row["seeds"] else np.nan
        rows.append(
            _cell_result(
                row | {"problems": row["seeds_reached"]},
                "share of updates (quickest and slowest seed)",
                (share, *spread),
            )
        )
    return rows


def rollouts_saved(claim: dict, study: Study) -> list[dict]:
    """The share of the baseline's rollouts that the claim's arm saves until it reaches the
    baseline's final accuracy. The baseline is the arm's policy with the study's first recipe."""
    name = f"share of rollouts saved by {claim['arm']}"
    return [
        _cell_result(
            row | {"problems": None},
            name,
            tuple(1 - row[key] for key in ("share", "share_high", "share_low")),
        )
        for row in study.rows("time_to_target", claim, arm=claim["arm"])
    ]


# --- published numbers before and after training ---


def unsolved_gain(claim: dict, study: Study) -> list[dict]:
    """The gain in pass rate of the prompts that the base model solves in none of K samples; prompts
    are chosen by these samples (K: column `chosen_by`). The claim is that the gain lies within
    `margin` (a share) of zero."""
    return [
        _cell_result(
            row | {"problems": row["prompts"]},
            f"gain, solved in 0 of {row['chosen_by']:.0f} samples",
            _interval(row, "gain"),
        )
        for row in study.rows("difficulty_classes", claim, correct=0)
    ]


def mixed_lead(claim: dict, study: Study) -> list[dict]:
    """The share of mixed groups after training among the groups of the prompts that `policy`
    chooses, minus the same share for a random choice of prompts."""
    return [
        _cell_result(
            row | {"problems": row["prompts"]},
            f"mixed groups, {row['rule']} - random",
            _interval(row, "mixed_lead"),
        )
        for row in study.rows("choices_after", claim, rule=claim["policy"])
    ]


# --- regressions over cells: without intervals, because cells are not independent ---


def fit(claim: dict, study: Study) -> list[dict]:
    """R^2 of `predictor` and gain over all cells, and the sign of the slope. n is the number of
    cells."""
    rows = study.tables.get("regressions", [])
    return [
        _result(("", "all", "all"), f"R^2 ({claim['predictor']}, gain), slope {'+' if row['slope'] > 0 else '-'}",
                (row["r_squared"], *NO_INTERVAL), None, row["cells"])
        for row in rows
        if row["task"] == "all" and row["predictor"] == claim["predictor"] and not row["adjusted_for"]
    ]  # fmt: skip


def fit_base(claim: dict, study: Study) -> list[dict]:
    """R^2 of base accuracy and gain in a regression over models and tasks, for each of `policies`.

    A gain is accuracy minus base accuracy. Noise in the base accuracy therefore makes gain and base
    accuracy correlate negatively.
    """
    rows = []
    for policy in claim["policies"]:
        cells = study.rows("gains", claim, decoding="sampled", arm=policy)
        if len({row["model"] for row in cells}) > 1 and len(cells) > 3:
            r_squared = statistics.r_squared(
                *(np.array([row[key] for row in cells]) for key in ("base_accuracy", "gain"))
            )
            name = f"R^2 (base accuracy, gain of {policy})"
            rows.append(
                _result(
                    ("", "all", "all"), name, (r_squared.estimate, *NO_INTERVAL), None, len(cells)
                )
            )
    return rows


LOG_ODDS = "log odds of "  # prefix of `test` where the estimate is in log odds, not a share

PAIR = {"policy": str, "minus": str}
# {test: (function, {key of the claim that the function reads: type})}
TESTS: dict[str, tuple[Callable[[dict, Study], list[dict]], dict[str, type]]] = {
    "difference": (difference, PAIR),
    "difference_by_recipe": (difference_by_recipe, PAIR),
    "recipe_difference": (recipe_difference, {"policy": str}),
    "difference_at_k": (difference_at_k, PAIR),
    "difference_by_tier": (difference_by_tier, PAIR),
    "ahead": (ahead, PAIR | {"share": float}),
    "order": (order, {"policies": list}),
    "lost_lead": (lost_lead, PAIR),
    "transfer": (transfer, PAIR | {"trained_on": str}),
    "learnable": (learnable, PAIR),
    "smaller_lead": (smaller_lead, PAIR),
    "gain": (gain, {"policy": str}),
    "largest_gain": (largest_gain, {"policy": str}),
    "new_solving": (new_solving, {"policy": str, "margin": float}),
    "tiers": (tiers, {"policies": list}),
    "parts": (parts, {"policy": str}),
    "catches_up": (catches_up, {"policy": str}),
    "rollouts_saved": (rollouts_saved, {"policy": str}),
    "fit": (fit, {"predictor": str}),
    "fit_base": (fit_base, {"policies": list}),
}
# {test: optional keys of other tests that this test does not read}
UNREAD_KEYS = {
    "difference_by_recipe": {"recipe", "minus_recipe"},
    "recipe_difference": {"recipe"},
    "transfer": {"minus_recipe", "tested"},  # `minus` is a task
    "fit": {"tested", "only"},
}
FIT_PREDICTORS = ("learnable", "tokens")  # the values of `predictor`
COUNT_TESTS = {  # tests for claims of analyses of published numbers (study/published_analysis.py)
    "unsolved_gain": (unsolved_gain, {"margin": float}),
    "mixed_lead": (mixed_lead, {"policy": str}),
}
# the tests that a primary claim of paper/claims.yaml may have
PRIMARY = ("difference", "new_solving", "parts")
