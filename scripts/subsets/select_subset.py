r"""Choose the prompts to train on, by a policy and the base model's pass rates or another measure.

    python scripts/subsets/select_subset.py --policy '{"rule": "hard", "budget": 0.1}' --seed 0 \
        --difficulty results/difficulty/steady-seed0/arithmetic.csv --output hard.csv

The program writes a CSV file (id, measure, rank), and a JSON file with the same stem about the
choice: sizes of pool and subset, the pass rate of the last chosen prompt (the boundary), the number
of candidates tied at the boundary and how many of them were chosen, and the number of answers to
buy. With --questions, the CSV file has no measure.

After a probe that stopped early (probe.py --stop-for), many prompts have only bounds of their pass
rate. The program writes the subset that full probing would choose, or ends with an error if the
samples do not decide it.
"""

from hardgrpo.runtime import errors, files
from hardgrpo.selection import early_stopping, policies, predicted
from hardgrpo.study import configuration

import argparse
from pathlib import Path

COLUMNS = {"id": str, "pass_rate": float}
# Filled only if the probe has held-out completions, or (the last three) stopped early.
FURTHER_COLUMNS = dict.fromkeys(
    ("held_out", "held_out_correct", "samples", "correct", "planned"), int
)


def main() -> None:
    parser = errors.parser(__doc__, "--output")
    pool = parser.add_mutually_exclusive_group(required=True)
    pool.add_argument("--difficulty", help="pass rates, and tiers if the rule needs tiers")
    pool.add_argument("--signals", help="for policies by a signal or by predicted pass rates")
    pool.add_argument("--questions", help="the pool, for rules that need no measure")
    parser.add_argument("--annotated", help="the prompts that rule `annotated` takes")
    parser.add_argument("--besides", help="subset of the first round, included in the budget")
    parser.add_argument("--sample", help="pass rates of annotate_sample.py, to predict the others")
    parser.add_argument(
        "--policy",
        required=True,
        type=files.as_object,
        help="a policy as JSON, without its keys probed_on, probed_by and rounds",
    )
    parser.add_argument("--seed", type=int, required=True, help="for ties and random choices")
    args = parser.parse_args()

    configuration.check_policy(args.policy, "--policy")
    policy = dict(args.policy)
    by, sample_share = policy.pop("by", "pass_rate"), policy.pop("calibrated_on", None)
    measure = None if args.questions else by
    path = args.questions or args.difficulty or args.signals
    rows = read_pool(path, measure, policy["rule"])
    try:
        values, sample, subset = choose(args, rows, measure, policy)
    except errors.UserError as error:
        raise errors.UserError(f"{path}: {error}") from None

    chosen_values = [values[prompt] for prompt in subset.ids]
    # The measure of a prompt of the first round may be unknown after the training on this prompt.
    has_mean = measure is not None and None not in chosen_values
    mean = sum(chosen_values) / len(chosen_values) if has_mean else None
    # After a probe that stopped early, tied prompts may lack a pass rate.
    has_bounds = measure == "pass_rate" and None in values.values()
    facts = {"sample": None if sample_share is None else len(sample), "mean": mean}
    if measure == "pass_rate":
        facts = {
            "mean_pass_rate": mean,
            "zero_share": chosen_values.count(0) / len(chosen_values),
            "boundary_pass_rate": chosen_values[-1],
            **measure_held_out(rows, subset.ids),
        }
    description = {
        "policy": args.policy,
        "seed": args.seed,
        "pool": len(values),
        "prompts": len(subset.ids),
        "labels": policies.labels(args.policy, {}, len(values), len(sample), len(subset.ids)),
        **facts,
        "tied": None if has_bounds else subset.tied,
        "tied_chosen": None if has_bounds else subset.tied_chosen,
    }
    if has_bounds:
        description["probe_samples"] = sum(row["samples"] for row in rows)
        description["probe_samples_in_full"] = sum(row["planned"] for row in rows)
    files.write_json(Path(args.output).with_suffix(".json"), description)
    columns = ["id", measure, "rank"] if measure else ["id", "rank"]
    files.write_rows(
        args.output,
        columns,
        [
            {"id": prompt, "rank": rank} | ({measure: values[prompt]} if measure else {})
            for rank, prompt in enumerate(subset.ids, start=1)
        ],
    )
    print(
        f"{args.output}: {len(subset.ids)} of {len(values)} prompts, {description['labels']} answers to buy"
        + (f", mean {measure.replace('_', ' ')} {mean:.3f}" if has_mean else "")
    )


def read_pool(path: str, measure: str | None, rule: str) -> list[dict]:
    if measure is None:
        if policies.RULES[rule].needs_measure:
            raise errors.UserError(
                f"--questions: rule {rule} chooses by a measure; give --difficulty or --signals"
            )
        return [{"id": row["id"]} for row in files.read_jsonl(path, {"id": str})]
    if measure == "pass_rate":
        columns = COLUMNS | ({"tier": float} if policies.is_by_tier(rule) else {})
        return files.read_rows(path, columns, FURTHER_COLUMNS)
    return files.read_rows(path, {"id": str} | dict.fromkeys(policies.SIGNALS, float))


def choose(
    args: argparse.Namespace, rows: list[dict], measure: str | None, policy: dict
) -> tuple[dict[str, float | None], dict[str, float], policies.Subset]:
    """(measure of each prompt of the pool, pass rates of the annotated sample, subset)."""
    sample: dict[str, float] = {}
    if measure is None:
        values = {row["id"]: 0.0 for row in rows}
        if policy["rule"] == "annotated":
            annotated = [row["id"] for row in files.read_jsonl(args.annotated, {"id": str})]
            return values, sample, policies.Subset(annotated, 0, 0)
    elif measure == "predicted":
        sample = {row["id"]: row["pass_rate"] for row in files.read_rows(args.sample, COLUMNS)}
        values = predicted.predict_pass_rates({row["id"]: row for row in rows}, sample)
    else:
        values = {row["id"]: row[measure] for row in rows}
    if measure == "pass_rate" and None in values.values():
        return values, sample, select_from_bounds(rows, policy, args.seed)
    included = sample
    if args.besides:
        included = {
            row["id"]: values[row["id"]] for row in files.read_rows(args.besides, {"id": str})
        }
    if included:
        return values, sample, select_in_addition(included, values, policy, args.seed)
    tiers = {row["id"]: row.get("tier") for row in rows}
    return values, sample, policies.select(values, seed=args.seed, tiers=tiers, **policy)


def measure_held_out(rows: list[dict], ids: list[str]) -> dict:
    """Mean pass rate of the chosen prompts on held-out completions, and the share of them with a
    held-out pass rate of 0; None without held-out completions."""
    held_out_rates = {
        row["id"]: row["held_out_correct"] / row["held_out"] for row in rows if row["held_out"]
    }
    rates = [held_out_rates[prompt] for prompt in ids if prompt in held_out_rates]
    mean = lambda values: sum(values) / len(values) if values else None
    return {
        "held_out_pass_rate": mean(rates),
        "held_out_zero_share": mean([rate == 0 for rate in rates]),
    }


def select_in_addition(
    included: dict[str, float], values: dict[str, float], policy: dict, seed: int
) -> policies.Subset:
    """All prompts of `included`, whose labels are paid for, and as many others as the remaining
    budget allows."""
    size = policies.subset_size(policy["budget"], len(values))
    policies.check_rest(policy["budget"], size, len(included))
    candidates = {prompt: value for prompt, value in values.items() if prompt not in included}
    remaining_share = (size - len(included)) / len(candidates)
    subset = policies.select(candidates, seed=seed, **policy | {"budget": remaining_share})
    return policies.Subset([*included, *subset.ids], subset.tied, subset.tied_chosen)


def select_from_bounds(rows: list[dict], policy: dict, seed: int) -> policies.Subset:
    """The subset that full probing would choose, from the counts of a probe that stopped early."""
    ids = [row["id"] for row in rows]
    scan = early_stopping.Scan(ids, rows[0]["planned"], policy, seed)
    for prompt, row in enumerate(rows):
        scan.tell(prompt, row["correct"], row["samples"])
    if scan.ask():
        raise errors.UserError(
            f"policy rule {policy['rule']}, seed {seed}: the probe stopped when it had decided another subset; take `stop` out of the task's probe in the configuration to probe in full"
        )
    return scan.subset()


if __name__ == "__main__":
    errors.run(main)
