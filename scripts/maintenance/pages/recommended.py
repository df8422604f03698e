"""For docs/which-prompts.md: which selection policy the studies that have been run recommend, and how sure that is.

The rule was written in commit 467b161, before the study that asks for it (`mini_labels`, d4a1dcc) was summarised:

- A case is a base model, a task, a recipe and a budget, in whatever studies. In it every way of choosing that takes a share of the pool, by this
  task's own probe if by any, is compared with a random choice of as many prompts, by the paired difference of the gains on new test
  problems, sampled at temperature 1. Studies share runs; the same way in the same case counts once, in the study with the most
  replicates. Recipes that differ only in when they save checkpoints make the same runs.
- It is better or worse in a case where p is below 5 % after Holm's correction over the ways of choosing that are compared there.
- Of the ways that are open to somebody (no label before the choice, a small sample, or the labels of the whole pool) the one is
  recommended that was better most often and worse nowhere, if it was better in at least two cases. Otherwise a random choice is.
"""

from hardgrpo.analysis import statistics
from hardgrpo.analysis.formats import change
from hardgrpo.analysis.formats import change_interval as spread
from hardgrpo.selection import policies
from hardgrpo.study import paths, settings
from pages import results

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

LEVEL, CASES = 0.05, 2
NEEDS = {"none": "no label", "sample": "a small labelled sample", "pool": "the labels of the whole pool"}  # before the choice
WHO = {
    "none": "No prompt is labelled",
    "sample": "A small sample can be labelled first",
    "pool": "Every prompt of the pool is labelled, and training takes a part",
}


@dataclass(frozen=True)
class Lead:
    """A way of choosing against a random choice, in one case. Shares; `p` is corrected."""

    way: str  # the policy whose rule it is, of whatever budget
    needs: str
    study: str
    model: str
    task: str
    recipe: str
    budget: float
    labels: float
    gain: float
    difference: float
    low: float
    high: float
    p: float
    seeds: int

    @property
    def said(self) -> str:
        return "not told apart" if self.p >= LEVEL else "better" if self.difference > 0 else "worse"


def leads(root: Path, config: dict) -> list[Lead]:
    """All leads over random, of the studies with committed summaries; those of the same runs once."""
    found: list[Lead] = []
    for study in config["studies"]:
        folder = root / paths.reference(study)
        if (folder / "differences.csv").is_file():
            found += of_study(config, study, *(pd.read_csv(folder / f"{name}.csv") for name in ("differences", "spent", "gains")))
    return once(found)


def once(found: list[Lead]) -> list[Lead]:
    """Leads without those whose runs another study has, too, and more of them."""
    most: dict[tuple, Lead] = {}
    for one in found:
        same = (one.way, one.model, one.task, one.recipe, one.budget)
        if same not in most or one.seeds > most[same].seeds:
            most[same] = one
    return list(most.values())


def of_study(config: dict, study: str, differences: pd.DataFrame, spent: pd.DataFrame, gains: pd.DataFrame) -> list[Lead]:
    """The leads of one study, with its tables `differences`, `spent` and `gains`."""
    labels = {(row.model, row.task, row.policy): row.labels for row in spent.itertuples()}
    gained = {(row.model, row.task, row.policy): row.gain for row in results.at_home(gains).itertuples()}
    first = next(iter(settings.recipes_of(config["studies"][study])), "")
    found = []
    for (model, task), rows in differences[differences.task == differences.eval_task].groupby(["model", "task"], sort=False):
        for budget, recipe, names in cases(config, [*rows.policy, *rows.minus]):
            (random, *_) = [name for name in names if rule_of(config, name) == {"rule": "random"}]
            pairs = {name: results.against(rows, name, random) for name in names if name != random}
            pairs = {name: pair for name, pair in pairs.items() if pair is not None}
            corrected = statistics.holm([pair["p"] for pair in pairs.values()])
            for (name, pair), p in zip(pairs.items(), corrected):
                policy = policy_of(config, name)
                found.append(
                    Lead(
                        way_of(config, policy),
                        policies.labels_before(policy),
                        study,
                        model,
                        task,
                        recipe_of(config, recipe or first),
                        budget,
                        labels[model, task, name],
                        gained[model, task, name],
                        pair["difference"],
                        pair["low"],
                        pair["high"],
                        p,
                        pair["seeds"],
                    )  # fmt: skip
                )
    return found


def cases(config: dict, arms: list[str]) -> list[tuple[float, str, list[str]]]:
    """(budget, recipe or '', arms) of each case that has a random choice and another one."""
    found: dict[tuple, list[str]] = {}
    for arm in dict.fromkeys(arms):
        policy = policy_of(config, arm)
        if isinstance(policy.get("budget"), float) and "probed_on" not in policy:
            found.setdefault((policy["budget"], arm.partition(", ")[2]), []).append(arm)
    kept = {case: names for case, names in found.items() if {"rule": "random"} in [rule_of(config, name) for name in names]}
    return [(*case, names) for case, names in kept.items() if len(names) > 1]


def policy_of(config: dict, arm: str) -> dict:
    return config["policies"][arm.partition(", ")[0]]


def rule_of(config: dict, arm: str) -> dict:
    return {key: value for key, value in policy_of(config, arm).items() if key != "budget"}


def way_of(config: dict, policy: dict) -> str:
    """The first policy of config.yaml that chooses in the same way, of whatever budget."""
    same = lambda one: {key: value for key, value in one.items() if key != "budget"}
    return next(name for name, one in config["policies"].items() if same(one) == same(policy))


def recipe_of(config: dict, recipe: str) -> str:
    """The first recipe of config.yaml that trains in the same way, whenever it saves checkpoints."""
    same = lambda one: {key: value for key, value in one.items() if key != "checkpoint_every"}
    return next(name for name, one in config["recipes"].items() if same(one) == same(config["recipes"][recipe]))


def recommended(found: list[Lead]) -> str | None:
    """The way that the rule at the top of this file recommends of these leads; None: a random choice."""
    better = {}
    for way in dict.fromkeys(one.way for one in found):
        said = [one.said for one in found if one.way == way]
        if "worse" not in said and said.count("better") >= CASES:
            better[way] = said.count("better")
    return max(better, key=better.get, default=None)


def cases_of(found: list[Lead]) -> list[tuple]:
    return list(dict.fromkeys((one.model, one.task, one.recipe, one.budget) for one in found))


def counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def in_one_line(root: Path, config: dict) -> str:
    """What is recommended, by what is labelled before the choice, and how often any way was better than a random choice."""
    found, best = leads(root, config), {}
    for asked, kept in by_need(found):
        way = recommended(kept)
        of = [one for one in kept if one.way == way]
        better = [one for one in of if one.said == "better"]
        recipes = " and ".join(dict.fromkeys(f"`{one.recipe}`" for one in better))
        gains = " and ".join(change(one.gain) for one in better)
        by = (
            f"(better than a random choice in {len(better)} of {len(of)} cases, all with recipe {recipes}, where it gained {gains})"
        )
        said = f"[`{way}`](docs/configuration.md#what-a-rule-takes) {by}" if way else "a random one"
        best.setdefault(said, []).append(NEEDS[asked])
    said = "; ".join(f"with {' or '.join(labelled)}, {way}" for way, labelled in best.items())
    better, same, worse = totals(found)
    return (
        f"{said[0].upper()}{said[1:]}. All comparisons with a random choice: {better} better, {same} not told apart, {worse} worse."
    )


def totals(found: list[Lead]) -> list[int]:
    """In how many cases a way was better than a random choice, not told apart, worse."""
    said = [one.said for one in found]
    return [said.count(word) for word in ("better", "not told apart", "worse")]


def in_short(root: Path, config: dict) -> str:
    """A line: how often a policy was better than a random choice."""
    found = leads(root, config)
    better, same, worse = totals(found)
    best: dict[str, list[str]] = {}
    for asked, kept in by_need(found):
        way = recommended(kept)
        of = [one for one in kept if one.way == way]
        better_in = [one for one in of if one.said == "better"]
        recipes = " and ".join(f"`{name}`" for name in dict.fromkeys(one.recipe for one in better_in))
        led = " and ".join(f"{change(one.difference)} at a gain of {change(one.gain)}" for one in better_in)
        by = f" (it led a random choice in {len(better_in)} of {len(of)} cases, all with recipe {recipes}, in points by {led})"
        best.setdefault(f"`{way}`{by}" if way else "a random choice", []).append(NEEDS[asked])
    said = "; ".join(f"with {' or '.join(labelled)}, {way}" for way, labelled in best.items())
    bases, seeds = ", ".join(dict.fromkeys(f"`{one.model}`" for one in found)), [one.seeds for one in found]
    return (
        f"**Which tenth?** {len({one.way for one in found})} ways of choosing, each compared with a random choice of as many prompts, in {len(cases_of(found))} cases:"
        f" {better} comparisons better, {same} not told apart, {worse} worse (for base models pretrained as {bases} are, {min(seeds)} to {max(seeds)} replicates). Recommended so far, by the rule of"
        f" [which-prompts](which-prompts.md): {said}. [Every case](which-prompts.md)"
    )


def by_need(found: list[Lead]) -> list[tuple[str, list[Lead]]]:
    """What must be labelled before the choice, and the leads of the ways that are then open."""
    known = list(NEEDS)
    return [(asked, [one for one in found if known.index(one.needs) <= place]) for place, asked in enumerate(known)]


def page(root: Path, config: dict) -> str:
    found = leads(root, config)
    lines = []
    for asked, kept in by_need(found):
        who, best = WHO[asked], recommended(kept)
        ways = ", ".join(f"`{name}`" for name in dict.fromkeys(one.way for one in kept))
        if best:
            of = [one for one in kept if one.way == best]
            better = [one for one in of if one.said == "better"]
            where = "; ".join(
                f"{one.task} of {one.model} with recipe `{one.recipe}`, by {change(one.difference)} at a gain of {change(one.gain)}"
                for one in better
            )
            said = f"choose by `{best}`: better than a random choice in {len(better)} of {len(of)} cases ({where}; in points), worse in none"
        elif not ways:
            said = "choose at random: no study has asked for anything else"
        else:
            said = f"choose at random; of {ways} none was better in {CASES} cases or more and worse in none ({counted(len(cases_of(kept)), 'case')})"
        if kept and not any(one.needs == asked for one in kept):
            said += f"; nothing that needs {NEEDS[asked]} has been studied"
        lines.append(f"- **{who}:** {said}.")
    bases = dict.fromkeys(one.model for one in found)
    lines += [
        "",
        f"That is from {len(cases_of(found))} cases, with base models pretrained as {', '.join(f'`{name}`' for name in bases)} are,"
        f" {min(one.seeds for one in found)} to {max(one.seeds for one in found)} replicates each; some cases share base models. *Not told"
        " apart* is no evidence of being equal: few replicates find large leads only. Points; brackets hold 95 % intervals for one"
        " comparison.",
        "",
        "| way of choosing | its [rule](configuration.md#what-a-rule-takes) | needs before | better, not told apart, worse |",
        "|---|---|---|---|",
    ]
    for way in dict.fromkeys(one.way for one in found):
        of = [one for one in found if one.way == way]
        counts = totals(of)
        rule = ", ".join(f"{key}: {value}" for key, value in rule_of(config, way).items())
        lines.append(f"| `{way}` | `{rule}` | {NEEDS[of[0].needs]} | {', '.join(map(str, counts))} |")
    lines += [
        "",
        "Every case. *Labels* are all that a run bought, before the choice and for training; a random choice buys those of its prompts.",
        "",
        "| study | base, task | recipe | chosen | way of choosing | labels | its gain | lead over random | after Holm's correction |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        lines.append(
            f"| {one.study} | {one.model}, {one.task} | {one.recipe} | {100 * one.budget:g} % | {one.way} | {one.labels:.0f}"
            f" | {change(one.gain)} | {spread(one.difference, one.low, one.high)} | {one.said} |"
        )
    return "\n".join(lines)
