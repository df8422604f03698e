"""Summary tables of the pool: which prompts each policy chose, how hard they are, and recorded pass rates."""

import json

import pandas as pd

from hardgrpo.runtime import files
from hardgrpo.study import paths, settings


def subsets(subset_files: list[str]) -> list[dict]:
    """What each policy chose, averaged over seeds. Seeds that share a base differ only in which of the tied prompts are chosen."""
    rows = []
    for path in subset_files:
        base, task, policy = paths.choice_of(path)
        facts = json.loads(files.read_text(path))
        asked = {"rule": facts["policy"]["rule"], "budget": facts["policy"].get("budget")}
        rows.append(facts | {"model": settings.model_of(base), "task": task, "policy": policy} | asked)
    if not rows:
        return []
    numbers = [
        "pool",
        "prompts",
        "mean_pass_rate",
        "zero_share",
        "held_out_pass_rate",
        "held_out_zero_share",
        "boundary_pass_rate",
        "tied",
        "tied_chosen",
    ]
    keys = ["model", "task", "policy", "rule", "budget"]
    frame = pd.DataFrame(rows, columns=[*keys, *numbers]).astype(dict.fromkeys(numbers, float))
    grouped = frame.groupby(keys, sort=False, dropna=False)
    return (grouped[numbers].mean().assign(seeds=grouped.size()).reset_index()).to_dict("records")


def difficulty(difficulty_files: list[str], subset_files: list[str]) -> list[dict]:
    """Histogram of pass rates: the pool (mean over base models), and each subset (mean over seeds): how many problems have each pass rate."""
    read = lambda path: [row["pass_rate"] for row in files.read_rows(path, {"pass_rate": float})]
    groups: dict[tuple, list[list[float]]] = {}
    for path in difficulty_files:
        base, task = paths.pair_of(path)
        groups.setdefault((settings.model_of(base), task, "pool"), []).append(read(path))
    for path in subset_files:
        base, task, policy = paths.choice_of(path)
        groups.setdefault((settings.model_of(base), task, policy), []).append(read(path.removesuffix(".json") + ".csv"))
    rows = []
    pools = list(dict.fromkeys(key[:2] for key in groups))
    for (model, task, group), lists in sorted(groups.items(), key=lambda item: pools.index(item[0][:2])):
        rates = pd.Series([rate for one in lists for rate in one]).round(6).value_counts().sort_index() / len(lists)
        rows += [
            {"model": model, "task": task, "group": group, "pass_rate": rate, "problems": count} for rate, count in rates.items()
        ]
    return rows


def recorded_rates(probes: list[tuple[str, str, str]]) -> list[dict]:
    """Pass rates of recorded problems: as published, and graded here with the prompt and without it.

    A problem without a published rate is listed only if its two rates here differ. `probes` comes from paths.recorded_probes.
    """
    rows = []
    for shard, alone, with_prompt in probes:
        model, task = paths.pair_of(alone)
        theirs = {
            str(row["id"]): row["published_pass_rate"]
            for row in files.read_jsonl(shard, {"id": (str, int)})
            if row.get("published_pass_rate") is not None
        }
        ours = {row["id"]: row["pass_rate"] for row in files.read_rows(with_prompt, {"id": str, "pass_rate": float})}
        for row in files.read_rows(alone, {"id": str, "pass_rate": float}):
            published, with_it = theirs.get(row["id"]), ours[row["id"]]
            if published is not None or (with_it is not None and with_it != row["pass_rate"]):
                rows.append(
                    {"model": model, "task": task, "id": row["id"], "published": published}
                    | {"with_prompt": with_it, "alone": row["pass_rate"]}
                )
    return rows
