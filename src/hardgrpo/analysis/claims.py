"""Judge claims by a study's summary tables.

paper/claims.yaml lists the papers' claims; an analysis of published numbers lists its own. A claim
has a `test`: a function below that yields, for every cell in which the study has the estimate, the
estimate with its 95 % interval. The estimate of a difference or a gain is positive where the claim
holds, unless the test's docstring says otherwise.

Only primary claims and the claims of analyses get a verdict (docs/statistics.md); a row that states
a reason why it cannot decide (`open`) is undecided. All other claims are descriptive.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from hardgrpo.analysis import arms, random_choice, statistics
from hardgrpo.analysis.cells import are_ordered
from hardgrpo.analysis.formats import is_known

SUPPORTED, CONTRADICTED = "supported", "contradicted"
UNDECIDED, DESCRIPTIVE = "undecided", "descriptive"
NEW_BASES, THIS_MODEL, THESE_MODELS = "new base models of this kind", "this model", "these models"
ALPHA = 0.05
SCOPE_KEYS = ("model", "task", "eval_task")
RECIPE_KEYS = {"policy": "recipe", "minus": "minus_recipe"}  # {key of a policy: key of its recipe}
LABEL_KEYS = {"policy": "arm", "minus": "minus_arm"}
LOG_ODDS = "log odds of "  # prefix of `test` where the estimate is in log odds, not a share
# columns of claims.csv; `p` and `open` of a test's rows are inputs of the verdict, not columns
COLUMNS = ["id", "paper", "primary", "model", "task", "eval_task", "population", "claim", "test"]
COLUMNS += ["estimate", "low", "high", "p_holm", "seeds", "n", "verdict"]
# summary tables that claims read
TABLES = ["gains", "differences", "paired", "kinds", "parts", "learnable", "regressions"]
TABLES += ["tier_trends", "catches_up", "time_to_target"]


@dataclass(frozen=True)
class Study:
    """The summary tables of a study ({name: rows}), and the settings that decide which rows a claim
    is about (claim_conditions.conditions).

    `tasks` is {name: {"completion_tokens": int, "problems": str}}; tasks with the same problems
    have the same value of `problems`. `weaker` lists the tasks or models with a weaker learning
    signal (`weaker_signal` of the study). `own_bases` lists the models that have a pretrained base
    model for each replicate.
    """

    tables: dict[str, list[dict]]
    first_recipe: str
    tasks: dict[str, dict]
    weaker: list[str]
    own_bases: list[str]

    def rows(self, table: str, claim: dict, **values) -> list[dict]:
        """Rows of a table in the claim's scope whose columns equal `values`."""
        return [
            row
            for row in self.tables.get(table, [])
            if all(row.get(key) == value for key, value in values.items())
            and self.is_in_scope(row, claim)
        ]

    def by_cell(self, table: str, claim: dict, **values) -> dict[tuple, list[dict]]:
        """The rows that `rows` returns, grouped by cell."""
        cells: dict[tuple, list[dict]] = {}
        for row in self.rows(table, claim, **values):
            cells.setdefault(cell_of(row), []).append(row)
        return cells

    def is_in_scope(self, row: dict, claim: dict) -> bool:
        _, task, eval_task = cell = cell_of(row)
        scope, tested = claim.get("only", {}), claim.get("tested", "same")
        if any(value not in scope.get(key, [value]) for key, value in zip(SCOPE_KEYS, cell)):
            return False
        return tested == "any" or relation(task, eval_task, self.tasks) == tested

    def population(self, model: str) -> str:
        """The population that a row is about. `model` is "" for a row over all models of the
        study."""
        if model:
            return NEW_BASES if model in self.own_bases else THIS_MODEL
        models = {row["model"] for row in self.tables.get("gains", [])}
        if models <= set(self.own_bases):
            return NEW_BASES
        return THIS_MODEL if len(models) == 1 else THESE_MODELS


def cell_of(row: dict) -> tuple:
    return row["model"], row["task"], row.get("eval_task", row["task"])


def relation(task: str, eval_task: str, tasks: dict[str, dict]) -> str:
    """How a test relates to the training task: a value of a claim's key `tested`, or "alike" if
    only the grader or the prompt differs."""
    if task == eval_task:
        return "same"
    trained_on, tested_on = tasks[task], tasks[eval_task]
    if trained_on["problems"] != tested_on["problems"]:
        return "other"
    limits = trained_on["completion_tokens"], tested_on["completion_tokens"]
    return "alike" if limits[0] == limits[1] else "roomier" if limits[1] > limits[0] else "tighter"


# --- tests


TESTS: dict[str, Callable[[dict, Study], Iterable[dict]]] = {}


def test(function: Callable) -> Callable:
    """A test. In its argument `claim`, `arm` and `minus_arm` are the labels of the claim's arms
    (`label_arms`)."""
    TESTS[function.__name__] = function
    return function


def label_arms(claim: dict, first_recipe: str) -> dict:
    """The claim with the labels of its arms. An arm whose recipe the claim does not name (key
    `recipe` of `policy`, key `minus_recipe` of `minus`) has the study's first recipe."""
    return claim | {
        LABEL_KEYS[key]: arms.label(claim[key], claim.get(recipe, first_recipe), first_recipe)
        for key, recipe in RECIPE_KEYS.items()
        if key in claim
    }


def _result(row: dict, test: str, interval: tuple, n: str | None = "problems", **more) -> dict:
    """The estimate of the cell of `row`, with the seeds of `row`; n: the column of the number of
    problems or other units. `open`: why the claim cannot be decided."""
    names = ("model", "task", "eval_task", "estimate", "low", "high")
    values = dict(zip(names, (*cell_of(row), *interval)))
    rest = {"test": test, "seeds": row["seeds"], "n": row[n] if n else None, "p": None}
    return values | rest | {"open": None} | more


def _over_all_cells(test: str, estimate: float, cells: int) -> dict:
    """An estimate of a regression over cells: without an interval, because cells are not
    independent."""
    row = {"model": "", "task": "all", "eval_task": "all", "seeds": None, "cells": cells}
    return _result(row, test, (estimate, np.nan, np.nan), n="cells")


def _interval(row: dict, name: str, sign: int = 1) -> tuple[float, float, float]:
    return sign * row[name], *sorted((sign * row[f"{name}_low"], sign * row[f"{name}_high"]))


def _leads(
    study: Study, claim: dict, table: str = "differences", **values
) -> Iterator[tuple[dict, tuple]]:
    """Yield (row, interval of `policy` minus `minus`) for the rows that compare these two arms, in
    either direction."""
    for row in study.rows(table, claim, **values):
        if {row["arm"], row["minus_arm"]} == {claim["arm"], claim["minus_arm"]}:
            yield row, _interval(row, "difference", 1 if row["arm"] == claim["arm"] else -1)


def _pair(claim: dict) -> str:
    return f"{claim['arm']} - {claim['minus_arm']}"


@test
def difference(claim: dict, study: Study) -> Iterator[dict]:
    """`policy` minus `minus` after training, paired by problem and seed."""
    for row, interval in _leads(study, claim):
        yield _result(row, _pair(claim), interval, p=row.get("p"))


@test
def difference_by_recipe(claim: dict, study: Study) -> Iterator[dict]:
    """`policy` minus `minus`, both trained by the same recipe: a row for each recipe with
    which both policies were trained, except the study's first recipe."""
    for row in study.rows("differences", claim):
        policies, recipe = (row["policy"], row["minus"]), row["recipe"]
        is_first_recipe = row["arm"] == row["policy"]
        if is_first_recipe or row["minus_recipe"] != recipe:
            continue
        if set(policies) == {claim["policy"], claim["minus"]}:
            sign = 1 if row["policy"] == claim["policy"] else -1
            name = f"{claim['policy']} - {claim['minus']}, {recipe}"
            yield _result(row, name, _interval(row, "difference", sign))


@test
def recipe_difference(claim: dict, study: Study) -> Iterator[dict]:
    """`policy` trained by the study's first recipe minus `policy` trained by a further recipe: a
    row for each further recipe."""
    policy = claim["policy"]
    for row in study.rows("differences", claim, arm=policy, minus=policy):
        name = f"{policy} - {policy}, {row['minus_recipe']}"
        yield _result(row, name, _interval(row, "difference"))


@test
def difference_at_k(claim: dict, study: Study) -> Iterator[dict]:
    """`policy` minus `minus` in pass@k, where k is the number of samples per problem."""
    for row, interval in _leads(study, claim, "paired", what="pass@k"):
        yield _result(row, f"pass@{row['at']}, {_pair(claim)}", interval)


@test
def difference_by_tier(claim: dict, study: Study) -> Iterator[dict]:
    """`policy` minus `minus` within each tier: a row for each tier."""
    for row, interval in _leads(study, claim, "paired", what="tier"):
        yield _result(row, f"{_pair(claim)}, tier {row['at']}", interval)


@test
def ahead(claim: dict, study: Study) -> Iterator[dict]:
    """`policy` minus `minus` at the first checkpoint after at least `share` of the updates; no row
    if this is the last checkpoint."""
    ends = {cell_of(row): row["step"] for row in study.rows("gains", claim, arm=claim["arm"])}
    done = set()
    for row, interval in _leads(study, claim, "paired", what="checkpoint"):
        cell, step = cell_of(row), int(row["at"])
        # the table lists checkpoints in order
        if claim["share"] * ends[cell] <= step < ends[cell] and cell not in done:
            done.add(cell)
            yield _result(row, f"{_pair(claim)} after {step} of {ends[cell]:.0f}", interval)


@test
def order(claim: dict, study: Study) -> Iterator[dict]:
    """The smallest difference between a policy of the list `policies` and the next policy of the
    list (the former minus the latter). A cell that lacks any of these differences has no row."""
    pairs = [
        {"arm": policy, "minus_arm": minus}
        for policy, minus in zip(claim["policies"], claim["policies"][1:])
    ]
    links: dict[tuple, list] = {}
    for pair in pairs:
        for row, interval in _leads(study, claim | pair):
            links.setdefault(cell_of(row), []).append((interval, row, _pair(pair)))
    for cell in study.by_cell("differences", claim):
        if len(links.get(cell, [])) == len(pairs):
            interval, row, name = min(links[cell], key=lambda link: link[0][0])
            yield _result(row, f"{name} (least of the order)", interval)


@test
def lost_lead(claim: dict, study: Study) -> Iterator[dict]:
    """The lead of `policy` over `minus` on the task's own test, minus the lead of the same runs on
    a test with the same problems and a larger completion limit."""
    for row, interval in _leads(study, claim, "paired", what="test"):
        if relation(row["task"], row["at"], study.tasks) == "roomier":
            yield _result(row, f"{_pair(claim)}, minus the same tested on {row['at']}", interval)


@test
def transfer(claim: dict, study: Study) -> Iterator[dict]:
    """`policy` trained on task `trained_on` minus the same policy trained on task `minus`, both
    tested on the same test."""
    tasks = claim["trained_on"], claim["minus"]
    rows = study.rows("paired", claim | {"tested": "any"}, what="trained on", arm=claim["arm"])
    for row in rows:
        if {row["task"], row["at"]} == set(tasks):
            interval = _interval(row, "difference", 1 if row["task"] == tasks[0] else -1)
            name = f"trained on {tasks[0]} - trained on {tasks[1]}"
            yield _result(row | {"task": tasks[0]}, name, interval)


@test
def learnable(claim: dict, study: Study) -> Iterator[dict]:
    """The learnable share of `policy` minus the learnable share of `minus`. The interval combines
    the two shares' intervals over seeds as if the shares were independent. n is the number of
    updates."""
    for rows in study.by_cell("learnable", claim).values():
        by_arm = {row["arm"]: row for row in rows}
        if claim["arm"] in by_arm and claim["minus_arm"] in by_arm:
            row = by_arm[claim["arm"]]
            sides = (_interval(side, "learnable") for side in (row, by_arm[claim["minus_arm"]]))
            interval = statistics.unpaired(*sides)
            yield _result(row, f"learnable share, {_pair(claim)}", interval, n="updates")


@test
def smaller_lead(claim: dict, study: Study) -> Iterator[dict]:
    """The lead of `policy` over `minus` in a model that the study's `weaker_signal` does not name,
    minus the same lead in a model that it names. Both leads are on the same task; their difference
    is not paired."""
    leads = {cell_of(row): (row, interval) for row, interval in _leads(study, claim)}
    for weaker in (cell for cell in leads if cell[0] in study.weaker):
        for cell, (row, lead) in leads.items():
            if cell[0] not in study.weaker and cell[1:] == weaker[1:]:
                interval = statistics.unpaired(lead, leads[weaker][1])
                yield _result(row, f"{_pair(claim)}, minus the same of {weaker[0]}", interval)


@test
def gain(claim: dict, study: Study) -> Iterator[dict]:
    """The gain of `policy`."""
    for row in study.rows("gains", claim, decoding="sampled", arm=claim["arm"]):
        yield _result(row, f"gain of {row['arm']}", _interval(row, "gain"))


@test
def largest_gain(claim: dict, study: Study) -> Iterator[dict]:
    """The largest gain of `policy` over all cells. The estimate is biased upwards, because it is a
    maximum."""
    rows = list(gain(claim, study))
    if rows:
        largest = max(rows, key=lambda row: row["estimate"])
        yield largest | {"test": f"largest gain of {claim['arm']}, of {len(rows)}"}


@test
def new_solving(claim: dict, study: Study) -> Iterator[dict]:
    """New solving of `policy` in the hardest tier, if the tiers are numbers. The claim is that new
    solving lies within `margin` (a share) of zero.

    New solving cannot exceed the share of problems out of the base model's reach. If this share is
    at most `margin`, the claim is undecided, because it cannot fail.
    """
    for rows in study.by_cell("kinds", claim, arm=claim["arm"]).values():
        tier_rows = [row for row in rows if row["tier"]]
        if len(tier_rows) < 2 or not are_ordered(str(row["tier"]) for row in tier_rows):
            continue
        row = tier_rows[-1]  # the table lists tiers from easy to hard
        cannot_fail = row["out_of_reach"] <= claim["margin"]
        reason = f"only {100 * row['out_of_reach']:.1f} % out of reach" if cannot_fail else None
        samples = f"unsolved by {row['reach_samples']:.0f} samples of the base"
        name = f"new solving of {claim['arm']}, tier {row['tier']} ({samples})"
        yield _result(row, name, _interval(row, "new_solving"), open=reason)


@test
def tiers(claim: dict, study: Study) -> Iterator[dict]:
    """The gain of each of `policies` in the easiest tier minus the same policy's gain in the hardest
    tier, in points and in log odds. n is the number of problems of the smaller tier."""
    for policy in claim["policies"]:
        for row in study.rows("tier_trends", claim, arm=policy):
            name = f"gain of {policy}, tier {row['easiest']} - tier {row['hardest']}"
            yield _result(row, name, _interval(row, "points"))
            if is_known(row["log_odds"]):
                yield _result(row, f"{LOG_ODDS}{name}", _interval(row, "log_odds"))


@test
def parts(claim: dict, study: Study) -> Iterator[dict]:
    """Finishing minus correctness, the two parts of the gain of `policy`."""
    for row in study.rows("parts", claim, arm=claim["arm"]):
        name = f"finishing - correctness of {claim['arm']}"
        yield _result(row, name, _interval(row, "finishing_minus_correctness"))


@test
def catches_up(claim: dict, study: Study) -> Iterator[dict]:
    """How early `policy` reaches the final accuracy of training on all prompts: the number of
    updates until then, as a share of all updates.

    The estimate is the share for the curve averaged over seeds. low and high are not an interval,
    but the shares for the quickest and the slowest seed; high is nan if a seed never reaches the
    final accuracy. n is the number of seeds that reach the final accuracy.
    """
    for row in study.rows("catches_up", claim, arm=claim["arm"]):
        share, quickest, slowest = (
            row[key] / row["steps"] for key in ("step", "step_first", "step_last")
        )
        slowest = slowest if row["seeds_reached"] == row["seeds"] else np.nan
        name = "share of updates (quickest and slowest seed)"
        yield _result(row, name, (share, quickest, slowest), n="seeds_reached")


@test
def rollouts_saved(claim: dict, study: Study) -> Iterator[dict]:
    """The share of the baseline's rollouts that the claim's arm saves until it reaches the
    baseline's final accuracy. The baseline is the arm's policy with the study's first recipe."""
    for row in study.rows("time_to_target", claim, arm=claim["arm"]):
        interval = tuple(1 - row[key] for key in ("share", "share_high", "share_low"))
        yield _result(row, f"share of rollouts saved by {claim['arm']}", interval, n=None)


@test
def fit(claim: dict, study: Study) -> Iterator[dict]:
    """R^2 of `predictor` and gain over all cells, and the sign of the slope. n is the number of
    cells."""
    for row in study.tables.get("regressions", []):
        is_alone = row["task"] == "all" and not row["adjusted_for"]
        if is_alone and row["predictor"] == claim["predictor"]:
            sign = "+" if row["slope"] > 0 else "-"
            name = f"R^2 ({claim['predictor']}, gain), slope {sign}"
            yield _over_all_cells(name, row["r_squared"], row["cells"])


@test
def fit_base(claim: dict, study: Study) -> Iterator[dict]:
    """R^2 of base accuracy and gain in a regression over models and tasks, for each of `policies`.

    A gain is accuracy minus base accuracy. Noise in the base accuracy therefore makes gain and base
    accuracy correlate negatively.
    """
    for policy in claim["policies"]:
        rows = study.rows("gains", claim, decoding="sampled", arm=policy)
        if len({row["model"] for row in rows}) > 1 and len(rows) > 3:
            x, y = (np.array([row[key] for row in rows]) for key in ("base_accuracy", "gain"))
            name = f"R^2 (base accuracy, gain of {policy})"
            yield _over_all_cells(name, statistics.r_squared(x, y).estimate, len(rows))


@test
def unsolved_gain(claim: dict, study: Study) -> Iterator[dict]:
    """The gain in pass rate of the prompts that the base model solves in none of K samples; prompts
    are chosen by these samples (K: column `chosen_by`). The claim is that the gain lies within
    `margin` (a share) of zero."""
    for row in study.rows("difficulty_classes", claim, correct=0):
        name = f"gain, solved in 0 of {row['chosen_by']:.0f} samples"
        yield _result(row, name, _interval(row, "gain"), n="prompts")


@test
def mixed_lead(claim: dict, study: Study) -> Iterator[dict]:
    """The share of mixed groups after training among the groups of the prompts that `policy`
    chooses, minus the same share for a random choice of prompts."""
    for row in study.rows("choices_after", claim, rule=claim["policy"]):
        name = f"mixed groups, {row['rule']} - random"
        yield _result(row, name, _interval(row, "mixed_lead"), n="prompts")


# --- verdicts


def judge(claims: list[dict], study: Study) -> list[dict]:
    """Rows of claims.csv: every claim in every cell where the study has an estimate. Primary claims
    come first."""
    rows = []
    for claim in sorted(claims, key=lambda claim: not claim.get("primary")):
        is_primary = bool(claim.get("primary"))
        results = list(TESTS[claim["test"]](label_arms(claim, study.first_recipe), study))
        if is_primary:
            results = add_verdicts(results, claim)
        else:
            results = [row | {"p_holm": None, "verdict": DESCRIPTIVE} for row in results]
        columns = {key: claim[key] for key in ("id", "paper", "claim")} | {"primary": is_primary}
        for result in results:
            row = columns | result | {"population": study.population(result["model"])}
            rows.append({name: row[name] for name in COLUMNS})
    return rows


def add_verdicts(rows: list[dict], claim: dict) -> list[dict]:
    """The rows of a primary claim with `p_holm` and `verdict`. Rows that cannot be decided (`open`
    holds a reason, or there are too few replicates) are left out of Holm's correction."""
    is_decidable = [row["open"] is None and not row["seeds"] < claim["replicates"] for row in rows]
    p_values = np.array(
        [
            interval_p(row, claim.get("margin")) if decidable else np.nan
            for row, decidable in zip(rows, is_decidable)
        ]
    )
    for model in {row["model"] for row in rows}:
        is_of_model = np.array([row["model"] == model for row in rows])
        p_values[is_of_model] = statistics.holm(p_values[is_of_model])
    return [
        row | {"p_holm": float(p), "verdict": _verdict(row, claim, p)}
        for row, p in zip(rows, p_values)
    ]


def _verdict(row: dict, claim: dict, p_holm: float) -> str:
    if row["seeds"] < claim["replicates"]:
        return f"{UNDECIDED}: {row['seeds']:.0f} of {claim['replicates']} replicates"
    if row["open"]:
        return f"{UNDECIDED}: {row['open']}"
    if not p_holm < ALPHA:
        return UNDECIDED
    if "margin" in claim:
        return verdict_on_margin(row["low"], row["high"], claim["margin"])
    return verdict_on_sign(row["low"], row["high"])


def verdict_on_sign(low: float, high: float) -> str:
    """The verdict on the claim that an estimate is positive: undecided if the interval is unknown
    (both ends nan)."""
    return SUPPORTED if low > 0 else CONTRADICTED if high < 0 else UNDECIDED


def verdict_on_margin(low: float, high: float, margin: float) -> str:
    """The verdict on the claim that an estimate lies within `margin` of zero, by two one-sided
    tests (Schuirmann 1987). Each test has the level 2.5 %, because the interval is a 95 %
    interval."""
    if -margin < low and high < margin:
        return SUPPORTED
    return CONTRADICTED if low > margin or high < -margin else UNDECIDED


def interval_p(row: dict, margin: float | None) -> float:
    """Two-sided p: 1 minus the level at which the interval reaches zero. With a margin, the nearer
    end of the margin replaces zero.

    With a margin, or if the table has no p, the interval is treated as a t interval over seeds, the
    most conservative case.
    """
    if margin is None and row["p"] is not None:
        return row["p"]
    estimate, low, high = row["estimate"], row["low"], row["high"]
    distance = abs(estimate) if margin is None else abs(margin - abs(estimate))
    half = (high - low) / 2
    if half == 0:
        return 0.0 if distance > 0 else 1.0
    df = max(row["seeds"] - 1, 1)
    return float(2 * stats.t.sf(distance / half * stats.t.ppf(0.975, df), df))


# --- comparisons with a random choice


def against_random(
    claims: list[dict], study: Study, name: str, policies: dict, names: dict, others: pd.DataFrame
) -> list[dict]:
    """The rows of table against_random: the study's comparisons with a random choice.

    `name` is the study's name. `policies` and `names` are as in `random_choice.comparisons`.
    `others` holds the comparisons of all committed studies (results/reference/all/which-prompts.csv).
    """
    rows = study.tables["differences"]
    own_comparisons = (
        random_choice.comparisons(
            name, pd.DataFrame(rows), policies, names, primary_differences(claims, study)
        )
        if rows
        else []
    )
    other_rows = others[others.study != name].to_dict("records")
    return random_choice.add_verdicts(own_comparisons, other_rows)


def primary_differences(claims: list[dict], study: Study) -> dict[tuple, float]:
    """{(model, task, the two arms (policy, recipe) as a set): corrected p} of the primary claims about
    the difference of two policies on the task's own test, where the study decides them."""
    p_values = {}
    for claim in claims:
        if not claim.get("primary") or claim["test"] != "difference" or "tested" in claim:
            continue
        arms = frozenset(
            (claim[policy], claim.get(recipe, study.first_recipe))
            for policy, recipe in RECIPE_KEYS.items()
        )
        for row in judge([claim], study):
            if row["p_holm"] == row["p_holm"]:  # nan: too few replicates
                p_values[row["model"], row["task"], arms] = row["p_holm"]
    return p_values
