"""Choose the prompts to train on, by a policy and the base model's pass rates or another measure.

    python scripts/subsets/select_subset.py --difficulty results/difficulty/tiny/swaps.csv --policy '{"rule": "hard", "budget": 0.1}' \\
        --seed 0 --output results/subsets/tiny/swaps/hard/seed0.csv

Writes a CSV file (id, pass_rate, rank), and beside it a JSON file about the choice: sizes, the pass rate at the boundary, how many
candidates tied there and how many of them the seed chose, and how many answers have been bought: those that the choice needed and those
that training needs. A policy `by` a signal (src/hardgrpo/selection/signals.py) reads --signals, which was made without answers, and
no pass rates; its CSV file has the signal instead. `by: predicted` reads --sample, too, the prompts that were annotated for the fit.

After a probe that stopped early (probe_early.py) many prompts have only bounds of their pass rate. The program then chooses the
subset if the bounds decide it, or make it as likely as the probe's confidence; the JSON file says which of the two. Otherwise it
ends with an error. With a confidence below 1 a chosen prompt may lack samples; its pass_rate is then empty, and so are the values
of the JSON file that need it.
"""

from hardgrpo.runtime import errors, files
from hardgrpo.selection import early_stopping, policies, predicted

import argparse
from pathlib import Path

import numpy as np

COLUMNS = {"id": str, "pass_rate": float}
HELD_OUT = {"held_out": int, "held_out_correct": int}  # columns where the probe held completions out
STOPPED = {"samples": int, "correct": int, "planned": int, "confidence": float}  # columns where the probe stopped early


def held_out(difficulties: list[dict], chosen: list[str]) -> dict:
    """Mean pass rate and share of zeros of the chosen prompts, by held-out completions; None without any."""
    of = {row["id"]: row["held_out_correct"] / row["held_out"] for row in difficulties if row["held_out"]}
    rates = [of[name] for name in chosen if name in of]
    return {
        "held_out_pass_rate": sum(rates) / len(rates) if rates else None,
        "held_out_zero_share": sum(rate == 0 for rate in rates) / len(rates) if rates else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--difficulty", help="pass rates, for policies by pass rate")
    parser.add_argument("--signals", help="file written by measure_signals.py, for policies by a signal or by predicted pass rates")
    parser.add_argument("--questions", help="the pool without answers, for rules random, all and annotated")
    parser.add_argument("--annotated", help="file written by read_annotated.py; policy `annotated` takes exactly these prompts")
    parser.add_argument("--besides", help="subset of an earlier round, for policies by a signal: it stays and counts in the budget")
    parser.add_argument("--sample", help="file written by annotate_sample.py, for policies by predicted pass rates")
    parser.add_argument("--policy", required=True, type=files.as_object, help="a policy of the configuration, as JSON")
    parser.add_argument("--seed", type=int, required=True, help="decides ties and random choices")
    parser.add_argument("--output", required=True, help="CSV file; the JSON file is written beside it")
    args = parser.parse_args()

    files.output_path(args.output)
    policy = checked_policy(args.policy)
    by = policy.pop("by", "pass_rate")
    if by != "pass_rate" or args.questions:
        select_by_signal(args, policy, by)
        return
    difficulties, pass_rates = read_pass_rates(args.difficulty, policy)
    tiers = {row["id"]: row.get("tier") for row in difficulties}
    stopped = any(rate is None for rate in pass_rates.values())
    try:
        if stopped:
            subset, facts_of_probe = select_from_bounds(difficulties, policy, args.seed)
        else:
            subset, facts_of_probe = policies.select(pass_rates, seed=args.seed, tiers=tiers, **policy), {}
    except errors.UserError as error:
        raise errors.UserError(f"{args.difficulty}: {error}") from None

    chosen = [pass_rates[i] for i in subset.ids]
    known = None not in chosen
    facts = {
        "policy": args.policy,
        "seed": args.seed,
        "pool": len(pass_rates),
        "prompts": len(chosen),
        "labels": policies.labels(args.policy, {}, len(pass_rates), 0, len(chosen)),
        "mean_pass_rate": sum(chosen) / len(chosen) if known else None,
        "zero_share": sum(rate == 0 for rate in chosen) / len(chosen) if known else None,
        "boundary_pass_rate": chosen[-1] if known else None,
        **held_out(difficulties, subset.ids),
        # After a probe that stopped early, other prompts may have no pass rate that could be tied.
        "tied": None if stopped else subset.tied,
        "tied_chosen": None if stopped else subset.tied_chosen,
    } | facts_of_probe
    rows = [{"id": i, "pass_rate": pass_rates[i], "rank": rank} for rank, i in enumerate(subset.ids, start=1)]
    files.write_json(Path(args.output).with_suffix(".json"), facts)
    files.write_rows(args.output, ["id", "pass_rate", "rank"], rows)
    print(
        f"{args.output}: {len(rows)} of {len(pass_rates)} prompts, "
        + (f"mean pass rate {facts['mean_pass_rate']:.3f}, {facts['zero_share']:.0%} never solved, " if known else "")
        + (
            f"from {facts['probe_samples']} of {facts['probe_samples_in_full']} samples, {facts['certainty']}"
            if stopped
            else f"{subset.tied_chosen} of {subset.tied} tied candidates at the boundary chosen"
        )
    )


def checked_policy(policy) -> dict:
    """A copy of the policy. Raise a `UserError` for unknown keys and values."""
    keys = set(policy) if isinstance(policy, dict) else set()
    known = {"rule", "budget", "threshold", "highest_tier", "by", "calibrated_on"}
    if "rule" not in keys or keys - known:
        found = ", ".join(policy) if keys else "nothing"
        raise errors.UserError(f"--policy: expected rule, and budget, threshold, highest_tier, by or calibrated_on; found {found}")
    for name, value, allowed in (
        ("rule", policy["rule"], policies.RULES),
        ("by", policy.get("by", "pass_rate"), policies.MEASURES),
    ):
        if value not in allowed:
            raise errors.UserError(f"--policy: unknown {name} '{value}'; expected one of {', '.join(allowed)}")
    return dict(policy)


def read_pass_rates(path: str, policy: dict) -> tuple[list[dict], dict[str, float | None]]:
    """Rows of a difficulty file, and pass rates by id; None where a probe that stopped early left samples out."""
    columns = COLUMNS | ({"tier": float} if policies.is_by_tier(policy["rule"]) else {})
    difficulties = files.read_rows(path, columns, STOPPED | HELD_OUT)
    pass_rates: dict[str, float | None] = {}
    for number, row in enumerate(difficulties, start=2):
        is_open = row["planned"] is not None and row["samples"] is not None and row["samples"] < row["planned"]
        if not is_open and row["pass_rate"] is None or row["pass_rate"] is not None and not 0 <= row["pass_rate"] <= 1:
            raise errors.UserError(f"{path}: row {number}: pass_rate is {row['pass_rate']}, expected a share in 0..1")
        if row["id"] is None or row["id"] in pass_rates:
            raise errors.UserError(f"{path}: row {number}: id '{row['id'] or ''}' is empty or stands there twice; name each row")
        pass_rates[row["id"]] = row["pass_rate"]
    return difficulties, pass_rates


def select_by_signal(args: argparse.Namespace, policy: dict, by: str) -> None:
    """Choose by a signal, by pass rates predicted from all signals, or (--questions) without a measure, and write both files. The
    pool's answers are never read."""
    path = args.questions or args.signals
    if args.questions:
        rows = files.read_jsonl(path, {"id": str})
    else:
        rows = files.read_rows(path, {"id": str} | dict.fromkeys(policies.SIGNALS, float))
        for number, row in enumerate(rows, start=2):
            wrong = next((name for name in policies.SHARES if row.get(name) is not None and not 0 <= row[name] <= 1), None)
            if wrong:
                raise errors.UserError(f"{path}: row {number}: {wrong} is {row[wrong]}, expected a share in 0..1; measure it again")
    found = {row["id"]: {name: row.get(name) for name in policies.SIGNALS} for row in rows}
    if len(found) < len(rows) or None in found:
        raise errors.UserError(f"{path}: an id is empty or stands there twice; name each row")
    share, sample = policy.pop("calibrated_on", None), {}
    try:
        if args.questions:
            values, by = dict.fromkeys(found, 0.0), None
            if policy["rule"] == "annotated":
                subset = policies.Subset([row["id"] for row in files.read_jsonl(args.annotated, {"id": str})], 0, 0)
            else:
                subset = policies.select(values, seed=args.seed, **policy)
        elif by == "predicted":
            sample = read_sample(args.sample, found)
            values = predicted.pass_rates(found, sample)
            subset = beside(sample, values, policy, args.seed)
        else:
            values = {name: row[by] for name, row in found.items()}
            before = chosen_before(args.besides, values)
            subset = beside(before, values, policy, args.seed) if before else policies.select(values, seed=args.seed, **policy)
    except errors.UserError as error:
        raise errors.UserError(f"{path}: {by or policy['rule']}: {error}") from None
    chosen = [values[name] for name in subset.ids]
    facts = {
        "policy": args.policy,
        "seed": args.seed,
        "pool": len(found),
        "prompts": len(chosen),
        "labels": policies.labels(args.policy, {}, len(found), len(sample), len(chosen)),
        "sample": None if share is None else len(sample),
        "mean": sum(chosen) / len(chosen) if by else None,
        "boundary": chosen[-1] if by else None,
        "tied": subset.tied,
        "tied_chosen": subset.tied_chosen,
    }
    files.write_json(Path(args.output).with_suffix(".json"), facts)
    ranked = [{"id": name, "rank": rank} | ({by: values[name]} if by else {}) for rank, name in enumerate(subset.ids, start=1)]
    files.write_rows(args.output, ["id", *([by] if by else []), "rank"], ranked)
    print(
        f"{args.output}: {len(ranked)} of {len(found)} prompts, {facts['labels']} answers to buy"
        + (f", mean {by} {facts['mean']:.3f}" if by else "")
    )


def read_sample(path: str, pool: dict) -> dict[str, float]:
    """The pass rates of prompts of the pool that were annotated before."""
    found = {row["id"]: row["pass_rate"] for row in files.read_rows(path, COLUMNS)}
    wrong = next((name for name, rate in found.items() if name not in pool or rate is None or not 0 <= rate <= 1), None)
    if wrong is not None or not found:
        what = f"'{wrong}' is not in the pool, or its pass rate is no share" if found else "it has no rows"
        raise errors.UserError(f"{path}: {what}; annotate the sample again")
    return found


def chosen_before(path: str | None, values: dict[str, float]) -> dict[str, float]:
    """The prompts that an earlier round has chosen, with their current signal values."""
    if path is None:
        return {}
    ids = [row["id"] for row in files.read_rows(path, {"id": str})]
    unknown = next((name for name in ids if name not in values), None)
    if unknown:
        raise errors.UserError(f"{path}: id '{unknown}' is not in the pool; choose the first round again")
    return {name: values[name] for name in ids}


def beside(sample: dict[str, float], values: dict[str, float], policy: dict, seed: int) -> policies.Subset:
    """The prompts of `sample`, whose labels are paid for, and as many others as the rest of the budget pays for."""
    left = policies.subset_size(policy["budget"], len(values)) - len(sample)
    if left < 1:
        raise errors.UserError(policies.spent_on_sample(policy["budget"], len(sample)))
    others = {name: value for name, value in values.items() if name not in sample}
    subset = policies.select(others, seed=seed, **policy | {"budget": left / len(others)})
    return policies.Subset([*sample, *subset.ids], subset.tied, subset.tied_chosen)


def select_from_bounds(rows: list[dict], policy: dict, seed: int) -> tuple[policies.Subset, dict]:
    """The subset of full probing, from the counts of a probe that stopped early, and facts for the JSON file."""
    remedy = (
        "the probe stopped early, for another subset; take `stop` out of the task's probe in the configuration to probe in full"
    )
    planned, confidence = rows[0]["planned"], rows[0]["confidence"]
    for number, row in enumerate(rows, start=2):
        counts = [row["correct"], row["samples"], row["planned"], row["confidence"]]
        if None in counts or not 0 <= row["correct"] <= row["samples"] <= planned or counts[2:] != [planned, confidence]:
            raise errors.UserError(f"row {number}: correct, samples, planned or confidence do not fit each other; measure it again")
    if not policies.RULES[policy["rule"]].by_bounds:
        raise errors.UserError(
            f"policy rule {policy['rule']} needs every pass rate, but not every prompt has all its samples: {remedy}"
        )
    correct, drawn = (np.array([row[name] for row in rows]) for name in ("correct", "samples"))
    want = early_stopping.wanted([row["id"] for row in rows], planned, policy, seed)
    found = early_stopping.choose(want, correct, drawn, confidence)
    if found is None:
        raise errors.UserError(f"policy rule {policy['rule']}, seed {seed}: the samples do not decide this subset: {remedy}")
    subset, certain = found
    by_id = {row["id"]: row for row in rows}
    short = [i for i in subset.ids if by_id[i]["samples"] < planned]
    if short and confidence >= 1:  # the probe was for another subset, so the order of this one is undecided
        raise errors.UserError(f"'{short[0]}' is chosen but has {by_id[short[0]]['samples']} of {planned} samples: {remedy}")
    said = (
        "the subset that full probing gives from the same completions, for certain"
        if certain
        else f"by the pool's own spread of pass rates, full probing is expected to choose at least {confidence:.4g} of these prompts, and"
        f" at least {confidence:.4g} of what it chooses to be among them"
    )
    return subset, {
        "certainty": said + ("; samples of some are missing, so that their order is a guess" if short else ""),
        "confidence": 1.0 if certain else confidence,
        "probe_samples": int(drawn.sum()),
        "probe_samples_in_full": planned * len(rows),
    }


if __name__ == "__main__":
    errors.run(main)
