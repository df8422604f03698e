"""Summary tables of the pool: which prompts each policy chose, how hard they are, and recorded pass rates."""

import json

import pandas as pd

from hardgrpo.runtime import files


def subsets(paths: list[str]) -> list[dict]:
    """What each policy chose, averaged over seeds. Seeds differ only in which of the tied prompts are chosen."""
    rows = []
    for path in paths:
        model, task, policy = path.split("/")[-4:-1]
        facts = json.loads(files.read_text(path))
        asked = {"rule": facts["policy"]["rule"], "budget": facts["policy"].get("budget")}
        rows.append(facts | {"model": model, "task": task, "policy": policy} | asked)
    if not rows:
        return []
    frame = pd.DataFrame(rows)
    numbers = ["pool", "prompts", "mean_pass_rate", "zero_share", "boundary_pass_rate", "tied", "tied_chosen"]
    grouped = frame.groupby(["model", "task", "policy", "rule", "budget"], sort=False, dropna=False)
    return (grouped[numbers].mean().assign(seeds=grouped.size()).reset_index()).to_dict("records")


def difficulty(paths: list[str], subset_paths: list[str]) -> list[dict]:
    """Histogram of pass rates: the pool, and each subset (mean over seeds): how many problems have each pass rate."""
    rows = []
    for path in paths:
        model, task = path.removesuffix(".csv").split("/")[-2:]
        pool = [row["pass_rate"] for row in files.read_rows(path, {"pass_rate": float})]
        groups = {"pool": [pool]}
        for subset in subset_paths:
            if subset.split("/")[-4:-2] == [model, task]:
                chosen = files.read_rows(subset.removesuffix(".json") + ".csv", {"pass_rate": float})
                groups.setdefault(subset.split("/")[-2], []).append([row["pass_rate"] for row in chosen])
        for group, lists in groups.items():
            rates = pd.Series([rate for one in lists for rate in one]).round(6).value_counts().sort_index() / len(lists)
            rows += [
                {"model": model, "task": task, "group": group, "pass_rate": rate, "problems": count}
                for rate, count in rates.items()
            ]
    return rows


def recorded_rates(probes: list[tuple[str, str, str]]) -> list[dict]:
    """Pass rates of recorded problems: as published, and graded here with the prompt and without it.

    A problem without a published rate is listed only if its two rates here differ. `probes` comes from paths.recorded_probes.
    """
    rows = []
    for shard, alone, with_prompt in probes:
        model, task = alone.removesuffix(".csv").split("/")[-2:]
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
