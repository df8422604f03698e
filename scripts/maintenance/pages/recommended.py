"""docs/which-prompts.md: the selection policy that the finished studies recommend, and the evidence
for it.

The rule below was written (commit 467b161) before the results of study `mini_labels`, to which the
rule is applied, were summarised (commit d4a1dcc). The definition of a case was narrowed afterwards
(commit 364ad6b).

- In each case (hardgrpo.analysis.random_choice) of each study whose models are pretrained here,
  every way of choosing is compared with a random choice of as many prompts. Studies share runs: a
  way that several studies compare in the same case counts once, with the result of the study with
  the most replicates. Recipes that differ only in when they save checkpoints count as one recipe.
- A way is better or worse in a case if p is below 5 % after Holm's correction over the ways of
  choosing that the study compares in the case.
- The ways that are open to a user depend on the labels that the user has before the choice: none,
  the labels of a small sample, or the labels of the whole pool. Of the open ways that were worse in
  no case and better in at least two cases, the rule recommends the way that was better in the most
  cases. If there is no such way, the rule recommends a random choice.
"""

from hardgrpo.analysis import random_choice, summaries
from hardgrpo.analysis.formats import change
from hardgrpo.analysis.formats import change_interval as interval
from hardgrpo.report.tables import recorded
from hardgrpo.report.ways import NEEDS
from hardgrpo.runtime import files
from hardgrpo.selection import policies
from hardgrpo.study import paths, settings
from pages import templates
from pages.committed import REAL

from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

CASES = 2  # minimum number of cases in which a recommended way was better
SITUATIONS = {
    "none": "No prompt is labelled",
    "sample": "A small sample can be labelled first",
    "pool": "Every prompt of the pool is labelled, and training takes a part",
}


@dataclass(frozen=True)
class Lead:
    """The lead of a way of choosing over a random choice in a case, in shares. `p` is corrected
    by Holm's method."""

    way: str  # the first policy that chooses in this way, whatever its budget (`way_of`)
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
    def verdict(self) -> str:
        return random_choice.verdict(self.difference, self.p)


def leads(root: Path, config: dict) -> list[Lead]:
    """All leads over a random choice, without repetitions, in the studies with committed summaries
    whose models are pretrained here."""
    all_leads: list[Lead] = []
    for study, entry in config["studies"].items():
        folder = root / paths.reference(study)
        are_pretrained = all(
            settings.is_pretrained(config["models"][name]) for name in entry["models"]
        )
        if are_pretrained and (folder / "differences.csv").is_file():
            all_leads += leads_of_study(
                study,
                config["policies"],
                config["recipes"],
                *(
                    pd.read_csv(folder / f"{name}.csv")
                    for name in ("differences", "spent", "gains")
                ),
            )
    return without_repetitions(all_leads)


def without_repetitions(all_leads: list[Lead]) -> list[Lead]:
    """One lead for each way in each case: the lead of the study with the most replicates."""
    largest: dict[tuple, Lead] = {}
    for lead in all_leads:
        key = (lead.way, lead.model, lead.task, lead.recipe, lead.budget)
        if key not in largest or lead.seeds > largest[key].seeds:
            largest[key] = lead
    return list(largest.values())


def leads_of_study(
    study: str,
    all_policies: dict,
    recipes: dict,
    differences: pd.DataFrame,
    spent: pd.DataFrame,
    gains: pd.DataFrame,
) -> list[Lead]:
    """The leads of a study, from its tables and from sections of the configuration."""
    labels = {
        (row.model, row.task, row.policy, row.recipe): row.labels for row in spent.itertuples()
    }
    gained = {
        (row.model, row.task, row.policy, row.recipe): row.gain
        for row in summaries.own_test_samples(gains).itertuples()
    }
    study_leads = []
    for row in random_choice.comparisons(differences, all_policies):
        policy = all_policies[row["policy"]]
        arm = row["model"], row["task"], row["policy"], row["recipe"]
        study_leads.append(
            Lead(
                way_of(all_policies, policy),
                policies.labels_before(policy),
                study,
                row["model"],
                row["task"],
                recipe_of(recipes, row["recipe"]),
                row["budget"],
                labels[arm],
                gained[arm],
                row["difference"],
                row["low"],
                row["high"],
                row["p"],
                row["seeds"],
            )  # fmt: skip
        )
    return study_leads


def rule_of(policy: dict) -> dict:
    return {key: value for key, value in policy.items() if key != "budget"}


def way_of(all_policies: dict, policy: dict) -> str:
    """The first policy of config/policies.yaml that chooses in the same way, whatever its
    budget."""
    return next(name for name, entry in all_policies.items() if rule_of(entry) == rule_of(policy))


def recipe_of(recipes: dict, recipe: str) -> str:
    """The first recipe of config/recipes.yaml that trains in the same way, whenever it saves
    checkpoints."""
    changes = lambda entry: {
        key: value for key, value in entry.items() if key != "checkpoint_every"
    }
    return next(
        name for name, entry in recipes.items() if changes(entry) == changes(recipes[recipe])
    )


def recommended_way(all_leads: list[Lead]) -> str | None:
    """The way that the rule at the top of this file recommends; None for a random choice."""
    better = {}
    for way in dict.fromkeys(lead.way for lead in all_leads):
        verdicts = [lead.verdict for lead in all_leads if lead.way == way]
        if "worse" not in verdicts and verdicts.count("better") >= CASES:
            better[way] = verdicts.count("better")
    return max(better, key=better.get, default=None)


def cases_of(all_leads: list[Lead]) -> list[tuple]:
    return list(
        dict.fromkeys((lead.model, lead.task, lead.recipe, lead.budget) for lead in all_leads)
    )


def totals(all_leads: list[Lead]) -> list[int]:
    """[number of leads in which the way was better than a random choice, number without a shown
    difference, number in which the way was worse]."""
    verdicts = [lead.verdict for lead in all_leads]
    return [
        verdicts.count(word)
        for word in (random_choice.BETTER, random_choice.OPEN, random_choice.WORSE)
    ]


def advice(all_leads: list[Lead]) -> list[dict]:
    """For each of NEEDS (the labels before the choice): the ways that a user with these labels can
    use, and the recommended way with its cases."""
    lines = []
    for place, need in enumerate(NEEDS):
        open_leads = [lead for lead in all_leads if list(NEEDS).index(lead.needs) <= place]
        best = recommended_way(open_leads)
        best_leads = [lead for lead in open_leads if lead.way == best]
        lines.append(
            {
                "who": SITUATIONS[need],
                "needs": NEEDS[need],
                "ways": [lead.way for lead in open_leads],
                "cases": len(cases_of(open_leads)),
                "best": best,
                "cases_of_best": len(best_leads),
                "better": [lead for lead in best_leads if lead.verdict == "better"],
                "unstudied": bool(open_leads) and all(lead.needs != need for lead in open_leads),
            }
        )
    return lines


def values(root: Path, config: dict) -> dict:
    """The values that the templates which-prompts and which-tenth show."""
    all_leads = leads(root, config)
    seeds = [lead.seeds for lead in all_leads]
    return {
        "leads": all_leads,
        "totals": totals(all_leads),
        "cases": len(cases_of(all_leads)),
        "bases": [lead.model for lead in all_leads],
        "seeds": f"{min(seeds)} to {max(seeds)}",
        "least_cases": CASES,
        "advice": advice(all_leads),
    }


def title(root: Path, config: dict) -> str:
    """The title of the picture: what the rule recommends to somebody without labels."""
    best = values(root, config)["advice"][0]["best"]
    question = "Which prompts to annotate?"
    if best is None:
        return f"{question} Choose at random: no way without labels was shown to be better"
    return f"{question} Choose by {best.replace('_', ' ')}: it was shown to beat a random choice"


# Values of column `measure` of `real_models`: how a lead was measured, as the picture says it
TRAINED_APART = "trained on chosen\nprompts, tested\non other prompts"
TRAINED_HERE = "trained here on\nchosen prompts"
TRAINED_ON_ALL = "trained on the\nwhole pool, gain on\nthe chosen prompts"


def real_models(root: Path) -> pd.DataFrame:
    """The leads of published models over a random choice of as many prompts, from the committed
    tables of the studies `recordings` and `before_after` (published runs) and `small_real` (trained
    here). The columns are those of the argument `real` of ways.draw."""
    rows = []
    recorded_runs = pd.read_csv(root / paths.reference("recordings") / "recorded_runs.csv")
    last = recorded.last_checkpoints(recorded_runs)
    last = last[(last["minus"] == "random_42") & (last.questions == "all")]
    for row in last[last.grading != "lenient"].itertuples():
        ends = {
            "difference": row.difference,
            "low": row.difference_low,
            "high": row.difference_high,
        }
        keys = {"measure": TRAINED_APART, "way": row.policy, "model": row.model}
        rows.append(keys | {"runs": row.seeds} | ends)
    differences = pd.read_csv(root / paths.reference(REAL) / "differences.csv")
    for row in summaries.own_test_samples(differences).itertuples():
        if row.minus == "random":
            ends = {
                "difference": row.difference,
                "low": row.difference_low,
                "high": row.difference_high,
            }
            model = row.model.removesuffix("-instruct-bf16")
            keys = {"measure": TRAINED_HERE, "way": row.policy, "model": model}
            rows.append(keys | {"runs": row.seeds} | ends)
    choices = pd.read_csv(root / paths.reference("before_after") / "choices_after.csv")
    for row in choices[choices.gain_lead.notna()].itertuples():
        ends = {"difference": row.gain_lead, "low": row.gain_lead_low, "high": row.gain_lead_high}
        keys = {"measure": TRAINED_ON_ALL, "way": row.rule, "model": row.model}
        rows.append(keys | {"runs": row.seeds} | ends)
    return pd.DataFrame(rows)


def short_finding(root: Path, config: dict) -> str:
    """A finding of docs/results.md: how often a way of choosing was better than a random choice,
    and the recommendation."""
    content = values(root, config)
    lines_by_way: dict[str | None, list[dict]] = {}
    for line in content["advice"]:
        lines_by_way.setdefault(line["best"], []).append(line)
    return templates.fill(
        "which-tenth",
        **content,
        grouped=lines_by_way,
    )


def page(root: Path, config: dict) -> str:
    """The generated part of docs/which-prompts.md: the advice, a table of ways, and a table of the
    leads that are better or worse than a random choice."""
    content = values(root, config)
    ways = []
    for way in dict.fromkeys(lead.way for lead in content["leads"]):
        way_leads = [lead for lead in content["leads"] if lead.way == way]
        rule = ", ".join(
            f"{key}: {value}" for key, value in rule_of(config["policies"][way]).items()
        )
        ways.append(
            [
                f"`{way}`",
                f"`{rule}`",
                NEEDS[way_leads[0].needs],
                ", ".join(map(str, totals(way_leads))),
            ]
        )
    columns = [
        "way of choosing",
        "[rule](configuration.md#what-a-rule-takes)",
        "needed before the choice",
        "cases: better, no difference shown, worse",
    ]
    resolved_cases = [
        case_row(lead) for lead in content["leads"] if lead.verdict != random_choice.OPEN
    ]
    return templates.fill(
        "which-prompts",
        **content,
        ways_table=pd.DataFrame(ways, columns=columns),
        cases_table=pd.DataFrame(resolved_cases),
    )


def case_row(lead: Lead) -> dict[str, str]:
    return {
        "study": lead.study,
        "base model, task": f"{lead.model}, {lead.task}",
        "recipe": lead.recipe,
        "share chosen": f"{100 * lead.budget:g} %",
        "way of choosing": lead.way,
        "labels": f"{lead.labels:.0f}",
        "gain": change(lead.gain),
        "lead over random": interval(lead.difference, lead.low, lead.high),
        "after Holm's correction": lead.verdict,
    }


def every_case(root: Path, config: dict) -> pd.DataFrame:
    """The table docs/which-prompts.csv: every lead with its verdict. Accuracies are shares."""
    return pd.DataFrame(
        files.round_floats(
            [asdict(lead) | {"verdict": lead.verdict} for lead in leads(root, config)]
        )
    )
