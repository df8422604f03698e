"""Choose the prompts to train on, by a policy and the base model's pass rates.

    python scripts/subsets/select_subset.py --difficulty results/difficulty/tiny/swaps.csv --policy '{"rule": "hard", "budget": 0.1}' \\
        --seed 0 --output results/subsets/tiny/swaps/hard/seed0.csv

Writes a CSV file (id, pass_rate, rank), and beside it a JSON file about the choice: sizes, the pass rate at the boundary, how many
candidates tied there and how many of them the seed chose. After a probe that stopped early (probe_early.py) many prompts have only
bounds of their pass rate. The program then chooses the subset if the bounds decide it, or make it as likely as the probe's
confidence, and the JSON file says which of the two; otherwise it ends with an error. With a confidence below 1 a chosen prompt may
lack samples; its pass_rate is then empty, and so are the values of the JSON file that need it.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from hardgrpo.runtime import errors, files
from hardgrpo.selection import early_stopping, policies

COLUMNS = {"id": str, "pass_rate": float}
HELD_OUT = {"held_out": int, "held_out_correct": int}  # columns where the probe held completions out
STOPPED = {"samples": int, "correct": int, "planned": int, "confidence": float}  # columns where the probe stopped early


def held_out(difficulties: list[dict], chosen: list[str]) -> dict:
    """How difficult the chosen prompts are by completions that did not choose them; empty where none were held out."""
    of = {row["id"]: row["held_out_correct"] / row["held_out"] for row in difficulties if row["held_out"]}
    rates = [of[name] for name in chosen if name in of]
    return {
        "held_out_pass_rate": sum(rates) / len(rates) if rates else None,
        "held_out_zero_share": sum(rate == 0 for rate in rates) / len(rates) if rates else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--difficulty", required=True)
    parser.add_argument("--policy", required=True, type=json.loads, help="a policy of config.yaml, as JSON")
    parser.add_argument("--seed", type=int, required=True, help="decides ties and random choices")
    parser.add_argument("--output", required=True, help="CSV file; the JSON file is written beside it")
    args = parser.parse_args()

    keys = set(args.policy) if isinstance(args.policy, dict) else set()
    if "rule" not in keys or keys - {"rule", "budget", "threshold", "highest_tier"}:
        found = ", ".join(args.policy) if keys else "nothing"
        raise errors.UserError(f"--policy: expected rule, and budget, threshold or highest_tier; found {found}")
    if args.policy["rule"] not in policies.RULES:
        raise errors.UserError(f"--policy: unknown rule '{args.policy['rule']}'; expected one of {', '.join(policies.RULES)}")
    by_tier = args.policy["rule"] in policies.TIERED
    difficulties = files.read_rows(
        args.difficulty, COLUMNS | ({"tier": float} if by_tier else {}), {"measured_by": str} | STOPPED | HELD_OUT
    )
    pass_rates: dict[str, float] = {}
    for number, row in enumerate(difficulties, start=2):
        is_open = row["planned"] is not None and row["samples"] is not None and row["samples"] < row["planned"]
        if not is_open and row["pass_rate"] is None or row["pass_rate"] is not None and not 0 <= row["pass_rate"] <= 1:
            raise errors.UserError(f"{args.difficulty}: row {number}: pass_rate is {row['pass_rate']}, expected a share in 0..1")
        if row["id"] is None or row["id"] in pass_rates:
            raise errors.UserError(
                f"{args.difficulty}: row {number}: id '{row['id'] or ''}' is empty or stands there twice; name each row"
            )
        pass_rates[row["id"]] = row["pass_rate"]
    tiers = {row["id"]: row.get("tier") for row in difficulties}
    stopped = any(rate is None for rate in pass_rates.values())
    try:
        if stopped:
            subset, facts_of_probe = select_from_bounds(difficulties, args.policy, args.seed)
        else:
            subset, facts_of_probe = policies.select(pass_rates, seed=args.seed, tiers=tiers, **args.policy), {}
    except errors.UserError as error:
        raise errors.UserError(f"{args.difficulty}: {error}") from None

    chosen = [pass_rates[i] for i in subset.ids]
    known = None not in chosen
    facts = {
        "measured_by": difficulties[0].get("measured_by") or "reference",
        "policy": args.policy,
        "seed": args.seed,
        "pool": len(pass_rates),
        "prompts": len(chosen),
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
    if policy["rule"] not in policies.BY_BOUNDS:
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
