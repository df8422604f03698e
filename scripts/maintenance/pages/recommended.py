"""docs/which-prompts.md: the selection policy that the finished studies advise, and the evidence for
it.

- Every way of choosing is compared with a random choice of as many prompts, in each case of each
  study whose models are pretrained here (hardgrpo.analysis.random_choice).
- The lead of each way is pooled over its cases (hardgrpo.analysis.pooling).
- A way is advised if the interval of its pooled lead is above zero, and training was shown to raise
  accuracy (the gain's interval is above zero) in at least half of its cases. Of several such ways
  that a user can use with the labels that he has, the one with the largest pooled lead is advised.
  If there is no such way, the advice is a random choice.
"""

from hardgrpo.analysis import claims, pooling, random_choice, summaries
from hardgrpo.analysis.formats import change, change_interval
from hardgrpo.runtime import files
from hardgrpo.selection import policies
from hardgrpo.study import designs, paths
from hardgrpo.study.model import Model
from hardgrpo.study.resolved import resolve_study
from pages import committed, results, templates

from pathlib import Path

import pandas as pd

# {value of the column `needs`: labels that must be known before the choice}, fewest labels first
NEEDS = {
    "none": "no label",
    "sample": "a small labelled sample",
    "pool": "the labels of the whole pool",
}
SITUATIONS = {
    "none": "No prompt is labelled",
    "sample": "A small sample can be labelled first",
    "pool": "Every prompt of the pool is labelled, and training takes a part",
}
COLUMNS = ["way", "needs", "study", "model", "task", "recipe", "budget", "labels"]
COLUMNS += ["gain", "gain_low", "gain_high", "difference", "low", "high", "p_before_family", "p"]
COLUMNS += ["primary", "seeds", "verdict"]
BASES = "bases"  # key of a lead: {(model, seed): lead of this replicate}


def leads(root: Path, config: dict) -> list[dict]:
    """The comparison that counts of each way in each case, in the studies with committed summaries
    whose models are pretrained here. A lead has the keys COLUMNS and BASES, and for its recipe
    process (process rewards) and supervised (training on worked solutions)."""
    rows: list[dict] = []
    listed_claims = files.read_yaml(root / "paper/claims.yaml")
    for name, entry in config["studies"].items():
        folder = root / paths.reference(name)
        are_pretrained = all(
            Model.of(config["models"][model]).is_pretrained for model in entry["models"]
        )
        if are_pretrained and (folder / "differences.csv").is_file():
            tables = {
                table: pd.read_csv(folder / f"{table}.csv")
                for table in ("differences", "spent", "gains", "decomposition_runs")
            }
            judged_study = committed.read_study(root, resolve_study(config, name))
            primary = claims.primary_differences(listed_claims, judged_study)
            rows += leads_of_study(config, name, tables, primary)
    return random_choice.decide(rows)


def leads_of_study(
    config: dict, study: str, tables: dict[str, pd.DataFrame], primary: dict
) -> list[dict]:
    """The leads of a study, from its tables and the configuration."""
    arm = ["model", "task", "policy", "recipe"]
    spent = tables["spent"].set_index(arm).labels.sort_index()
    gains = summaries.own_test_samples(tables["gains"]).set_index(arm).sort_index()
    runs = summaries.own_test_rows(tables["decomposition_runs"])
    gain_of_run = runs.set_index([*arm, "seed"]).gain.sort_index()
    names = designs.names_of_ways(config["policies"], config["recipes"])
    rows = random_choice.comparisons(
        study, tables["differences"], config["policies"], names, primary
    )
    all_leads = []
    for row in rows:
        model, task, recipe = row["model"], row["task"], row["trained_by"]
        chosen = gain_of_run[model, task, row["policy"], recipe]
        at_random = gain_of_run[model, task, row["random_policy"], recipe]
        gain = gains.loc[(model, task, row["policy"], recipe)]
        settings = config["recipes"][recipe]
        all_leads.append(
            row
            | {name: gain[name] for name in ("gain", "gain_low", "gain_high")}
            | {
                "needs": policies.labels_before(config["policies"][row["policy"]]),
                "labels": spent[model, task, row["policy"], recipe],
                "process": "process" in settings,
                "supervised": settings.get("objective") == "sft",
                BASES: {(model, seed): lead for seed, lead in (chosen - at_random).items()},
            }
        )
    return all_leads


def pooled_ways(all_leads: list[dict]) -> list[dict]:
    """For each way: its leads, the pooled lead over all cases (`all`) and over the cases without
    process rewards (`plain`), the number of cases in which training was shown to raise accuracy
    (`gaining`), and whether the way is advised."""
    by_way: dict[str, list[dict]] = {}
    for lead in all_leads:
        by_way.setdefault(lead["way"], []).append(lead)
    ways = []
    for name, way_leads in by_way.items():
        way = {"way": name, "needs": way_leads[0]["needs"], "leads": way_leads}
        plain = [lead[BASES] for lead in way_leads if not lead["process"]]
        pooled = pooling.pool_leads([lead[BASES] for lead in way_leads])
        way |= {"all": pooled, "plain": pooling.pool_leads(plain) if plain else None}
        gaining = sum(lead["gain_low"] > 0 for lead in way_leads)
        is_advised = pooled.mean.low > 0 and 2 * gaining >= len(way_leads)
        ways.append(way | {"gaining": gaining, "is_advised": is_advised})
    return ways


def advice(ways: list[dict]) -> list[dict]:
    """For each of NEEDS (the labels before the choice): the ways that a user with these labels can
    use, and the advised way (`best`), None for a random choice."""
    lines = []
    for place, need in enumerate(NEEDS):
        usable = [way for way in ways if list(NEEDS).index(way["needs"]) <= place]
        advised = [way for way in usable if way["is_advised"]]
        best = max(advised, key=lambda way: way["all"].mean.estimate, default=None)
        line = {"who": SITUATIONS[need], "needs": NEEDS[need], "best": best}
        lines.append(line | {"ways": [way["way"] for way in usable]})
    return lines


def values(root: Path, config: dict) -> dict:
    """The values that the templates which-prompts, which-tenth and readme show."""
    all_leads = leads(root, config)
    ways = pooled_ways(all_leads)
    seeds = [lead["seeds"] for lead in all_leads]
    cases = {tuple(lead[key] for key in random_choice.CASE) for lead in all_leads}
    return {
        "leads": all_leads,
        "ways": {way["way"]: way for way in ways},
        "cases": len(cases),
        "bases": [lead["model"] for lead in all_leads],
        "seeds": f"{min(seeds)} to {max(seeds)}",
        "advice": advice(ways),
        "hard_leads": lambda task: range_of_leads(all_leads, "hard", task),
    }  # fmt: skip


def range_of_leads(all_leads: list[dict], way: str, task: str) -> str:
    """The least and the largest lead of a way on a task, in the cases with a tenth of the pool and
    GRPO with rewards of the outcome."""
    differences = [
        lead["difference"]
        for lead in all_leads
        if (lead["way"], lead["task"], lead["budget"]) == (way, task, 0.1)
        and not lead["process"]
        and not lead["supervised"]
    ]
    return f"{change(min(differences))} to {change(max(differences))}"


def pooled_lead(pooled: pooling.PooledLead | None) -> str:
    return "" if pooled is None else change_interval(*vars(pooled.mean).values())


def page(root: Path, config: dict) -> str:
    """The generated part of docs/which-prompts.md: the advice, a table of ways, and a table of the
    leads that are better or worse than a random choice."""
    content = values(root, config)
    resolved_cases = [
        case_row(lead) for lead in content["leads"] if lead["verdict"] != random_choice.OPEN
    ]
    return templates.fill(
        "which-prompts",
        root,
        **results.values(root, config),
        **content,
        pooled_lead=pooled_lead,
        ways_table=pd.DataFrame(map(way_row, content["ways"].values())),
        cases_table=pd.DataFrame(resolved_cases),
    )


def way_row(way: dict) -> dict[str, str]:
    low, high = way["all"].new_case
    return {
        "way": f"`{way['way']}`",
        "labels": way["needs"],
        "cases": f"{len(way['leads'])}",
        "mean lead": pooled_lead(way["all"]),
        "new case (90 %)": f"{change(low)} to {change(high)}" if low == low else "",
        "without process rewards": pooled_lead(way["plain"]),
        "gains": f"{way['gaining']} of {len(way['leads'])}",
    }


def case_row(lead: dict) -> dict[str, str]:
    """The share of the pool is shown unless it is a tenth."""
    share = "" if lead["budget"] == 0.1 else f", {100 * lead['budget']:g} %"
    return {
        "way": f"`{lead['way']}`",
        "verdict": lead["verdict"],
        "case": f"{lead['model']}, {lead['task']}, {lead['recipe']}{share}",
        "gain": change(lead["gain"]),
        "lead over random": change_interval(lead["difference"], lead["low"], lead["high"]),
        "study": lead["study"],
    }


def every_case(root: Path, config: dict) -> pd.DataFrame:
    """The table results/reference/all/which-prompts.csv: every comparison with its verdict. Accuracies are shares."""
    return pd.DataFrame(files.round_floats(leads(root, config)), columns=COLUMNS)


def pooled_table(root: Path, config: dict) -> pd.DataFrame:
    """The table src/hardgrpo/choice/pooled_leads.csv, which `hardgrpo choose` prints from: the
    pooled lead of each way, as shares."""
    rows = [
        {"way": way["way"], "cases": way["all"].cases, "lead": way["all"].mean.estimate}
        | {"low": way["all"].mean.low, "high": way["all"].mean.high}
        for way in pooled_ways(leads(root, config))
    ]
    return pd.DataFrame(files.round_floats(rows))
