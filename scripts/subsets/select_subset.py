"""Choose the prompts to train on, by a policy and the base model's pass rates or another measure.

    python scripts/subsets/select_subset.py --policy '{"rule": "hard", "budget": 0.1}' --seed 0 \\
        --difficulty results/difficulty/steady-seed0/arithmetic.csv --output hard.csv

The program writes a CSV file (id, pass_rate, rank), and a JSON file with the same stem about the
choice. Among other values, the JSON file holds the sizes of pool and subset, the pass rate of the
last chosen prompt (the boundary), the number of candidates tied at the boundary and how many of
them were chosen, and the number of answers to buy for the choice and for training.

If the policy chooses `by` a signal (src/hardgrpo/selection/signals.py), the program reads
--signals, which is made without answers, instead of --difficulty, and the CSV file has the signal
instead of the pass rate. For `by: predicted` the program also reads --sample, the prompts that were
annotated for the fit, and the CSV file has the predicted pass rate. With --questions, the CSV file
has only id and rank.

After a probe that stopped early (probe.py --stop-for), many prompts have only bounds of their pass
rate. The program writes the subset that full probing would choose, or ends with an error if the
samples do not decide this subset. The numbers of tied candidates are then empty.
"""

from hardgrpo.runtime import errors, files
from hardgrpo.selection import early_stopping, policies, predicted

import argparse
from pathlib import Path

COLUMNS = {"id": str, "pass_rate": float}
# Filled only if the probe has held-out completions.
HELD_OUT_COLUMNS = {"held_out": int, "held_out_correct": int}
# Used only if the probe stopped early.
PROBE_COLUMNS = {"samples": int, "correct": int, "planned": int}


def measure_held_out(difficulties: list[dict], ids: list[str]) -> dict:
    """Mean pass rate of the chosen prompts on held-out completions, and the share of the chosen
    prompts with a held-out pass rate of 0; both are None without held-out completions."""
    held_out_rates = {
        row["id"]: row["held_out_correct"] / row["held_out"]
        for row in difficulties
        if row["held_out"]
    }
    rates = [held_out_rates[prompt] for prompt in ids if prompt in held_out_rates]
    return {
        "held_out_pass_rate": sum(rates) / len(rates) if rates else None,
        "held_out_zero_share": sum(rate == 0 for rate in rates) / len(rates) if rates else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--difficulty",
        help="pass rates, and tiers if the rule needs tiers; required without --signals and --questions",
    )
    parser.add_argument(
        "--signals",
        help="file written by measure_signals.py, for policies by a signal or by predicted pass rates",
    )
    parser.add_argument(
        "--questions",
        help="the pool without answers, for rules random, random_42, all and annotated",
    )
    parser.add_argument(
        "--annotated",
        help="file written by read_annotated.py; rule `annotated` takes exactly these prompts",
    )
    parser.add_argument(
        "--besides",
        help="subset of the first round, for policies by a signal; included in the result and in the budget",
    )
    parser.add_argument(
        "--sample", help="file written by annotate_sample.py, for policies by predicted pass rates"
    )
    parser.add_argument(
        "--policy",
        required=True,
        type=files.as_object,
        help="a policy's entry in the configuration, as JSON; leave out its keys probed_on, probed_by and rounds",
    )
    parser.add_argument(
        "--seed", type=int, required=True, help="random seed for ties and random choices"
    )
    parser.add_argument("--output", required=True, help="CSV file; the JSON file has the same stem")
    args = parser.parse_args()

    files.output_path(args.output)
    policy = check_policy(args.policy)
    measure = policy.pop("by", "pass_rate")
    check_file_options(args, policy, measure)
    if measure != "pass_rate" or args.questions:
        select_by_signal(args, policy, measure)
        return
    difficulties, pass_rates = read_pass_rates(args.difficulty, policy)
    tiers = {row["id"]: row.get("tier") for row in difficulties}
    has_bounds = any(rate is None for rate in pass_rates.values())
    try:
        if has_bounds:
            subset = select_from_bounds(difficulties, policy, args.seed)
            probe_facts = {
                "probe_samples": sum(row["samples"] for row in difficulties),
                "probe_samples_in_full": sum(row["planned"] for row in difficulties),
            }
        else:
            subset = policies.select(pass_rates, seed=args.seed, tiers=tiers, **policy)
            probe_facts = {}
    except errors.UserError as error:
        raise errors.UserError(f"{args.difficulty}: {error}") from None

    chosen_rates = [pass_rates[prompt] for prompt in subset.ids]
    description = {
        "policy": args.policy,
        "seed": args.seed,
        "pool": len(pass_rates),
        "prompts": len(chosen_rates),
        "labels": policies.labels(args.policy, {}, len(pass_rates), 0, len(chosen_rates)),
        "mean_pass_rate": sum(chosen_rates) / len(chosen_rates),
        "zero_share": chosen_rates.count(0) / len(chosen_rates),
        "boundary_pass_rate": chosen_rates[-1],
        **measure_held_out(difficulties, subset.ids),
        # After a probe that stopped early, tied prompts may lack a pass rate.
        "tied": None if has_bounds else subset.tied,
        "tied_chosen": None if has_bounds else subset.tied_chosen,
    } | probe_facts
    rows = [
        {"id": prompt, "pass_rate": pass_rates[prompt], "rank": rank}
        for rank, prompt in enumerate(subset.ids, start=1)
    ]
    files.write_json(Path(args.output).with_suffix(".json"), description)
    files.write_rows(args.output, ["id", "pass_rate", "rank"], rows)
    print(
        f"{args.output}: {len(rows)} of {len(pass_rates)} prompts, mean pass rate {description['mean_pass_rate']:.3f},"
        f" {description['zero_share']:.0%} never solved, "
        + (
            f"from {description['probe_samples']} of {description['probe_samples_in_full']} samples, exactly the subset that full probing would choose"
            if has_bounds
            else f"{subset.tied_chosen} of {subset.tied} tied candidates at the boundary chosen"
        )
    )


def check_policy(policy) -> dict:
    """A copy of the policy. Raise a `UserError` if a key, the rule or the measure is unknown."""
    keys = set(policy) if isinstance(policy, dict) else set()
    optional_keys = (
        "budget", "threshold", "highest_tier", "low", "high", "order", "by", "calibrated_on"
    )  # fmt: skip
    if "rule" not in keys or keys - {"rule", *optional_keys}:
        keys_text = ", ".join(policy) if keys else "nothing"
        raise errors.UserError(
            f"--policy: expected the key rule, and optionally {', '.join(optional_keys)}; found {keys_text}"
        )
    for name, value, allowed in (
        ("rule", policy["rule"], policies.RULES),
        ("by", policy.get("by", "pass_rate"), policies.MEASURES),
    ):
        if not isinstance(value, str) or value not in allowed:
            raise errors.UserError(
                f"--policy: unknown {name} '{value}'; expected one of {', '.join(allowed)}"
            )
    if "calibrated_on" in policy and policy.get("by") != "predicted":
        raise errors.UserError("--policy: calibrated_on needs by: predicted; correct the policy")
    return dict(policy)


def check_file_options(args: argparse.Namespace, policy: dict, measure: str) -> None:
    """Raise a `UserError` if the policy needs a file whose option is not given, or if --questions
    is given for a rule that chooses by a measure."""
    rule = policy["rule"]
    needs_measure = policies.RULES[rule].needs_measure
    if args.questions and needs_measure:
        raise errors.UserError(
            f"--questions: rule {rule} chooses by a measure; give --difficulty or --signals"
        )
    if args.questions:
        needed = ["annotated"] if rule == "annotated" else []
    elif measure == "pass_rate":
        needed = ["difficulty"]
    elif measure == "predicted":
        needed = ["signals", "sample"]
    else:
        needed = ["signals"]
    by, alternative = (f" by {measure}", "") if needs_measure else ("", ", or give --questions")
    for option in needed:
        if getattr(args, option) is None:
            raise errors.UserError(
                f"--{option} is missing: rule {rule}{by} needs this file; add the option{'' if args.questions else alternative}"
            )


def read_pass_rates(path: str, policy: dict) -> tuple[list[dict], dict[str, float | None]]:
    """(rows of a difficulty file, pass rates by id). A pass rate is None if the probe stopped
    before all samples of the prompt were drawn."""
    columns = COLUMNS | ({"tier": float} if policies.is_by_tier(policy["rule"]) else {})
    difficulties = files.read_rows(path, columns, PROBE_COLUMNS | HELD_OUT_COLUMNS)
    pass_rates: dict[str, float | None] = {}
    for number, row in enumerate(difficulties, start=2):
        is_open = (
            row["planned"] is not None
            and row["samples"] is not None
            and row["samples"] < row["planned"]
        )
        if (
            not is_open
            and row["pass_rate"] is None
            or row["pass_rate"] is not None
            and not 0 <= row["pass_rate"] <= 1
        ):
            raise errors.UserError(
                f"{path}: row {number}: pass_rate is {row['pass_rate']}, expected a share in 0..1"
            )
        if row["id"] is None or row["id"] in pass_rates:
            raise errors.UserError(
                f"{path}: row {number}: id '{row['id'] or ''}' is empty or occurs twice; give each row its own id"
            )
        pass_rates[row["id"]] = row["pass_rate"]
    return difficulties, pass_rates


def select_by_signal(args: argparse.Namespace, policy: dict, measure: str) -> None:
    """Choose by a signal, by pass rates predicted from all signals, or (--questions) without a
    measure, and write the CSV and the JSON file. The pool's answers are not read."""
    path = args.questions or args.signals
    if args.questions:
        rows = files.read_jsonl(path, {"id": str})
    else:
        rows = files.read_rows(path, {"id": str} | dict.fromkeys(policies.SIGNALS, float))
        for number, row in enumerate(rows, start=2):
            shares = {
                signal: row[signal] for signal in policies.SHARES if row.get(signal) is not None
            }
            for signal, share in shares.items():
                if not 0 <= share <= 1:
                    raise errors.UserError(
                        f"{path}: row {number}: {signal} is {share}, expected a share in 0..1; measure the signals again"
                    )
    signals = {row["id"]: {signal: row.get(signal) for signal in policies.SIGNALS} for row in rows}
    if len(signals) < len(rows) or None in signals:
        raise errors.UserError(f"{path}: an id is empty or occurs twice; give each row its own id")
    sample_share, sample = policy.pop("calibrated_on", None), {}
    try:
        if args.questions:
            values, measure = dict.fromkeys(signals, 0.0), None
            if policy["rule"] == "annotated":
                annotated = [row["id"] for row in files.read_jsonl(args.annotated, {"id": str})]
                if unknown := [prompt for prompt in annotated if prompt not in values]:
                    raise errors.UserError(
                        f"{args.annotated}: id '{unknown[0]}' is not in the pool; read the annotated file again"
                    )
                subset = policies.Subset(annotated, 0, 0)
            else:
                subset = policies.select(values, seed=args.seed, **policy)
        elif measure == "predicted":
            sample = read_sample(args.sample, signals)
            values = predicted.predict_pass_rates(signals, sample)
            subset = select_in_addition(sample, values, policy, args.seed)
        else:
            values = {prompt: row[measure] for prompt, row in signals.items()}
            first_round = read_first_round(args.besides, values)
            if first_round:
                subset = select_in_addition(first_round, values, policy, args.seed)
            else:
                subset = policies.select(values, seed=args.seed, **policy)
    except errors.UserError as error:
        raise errors.UserError(f"{path}: {measure or policy['rule']}: {error}") from None
    chosen_values = [values[prompt] for prompt in subset.ids]
    # The measure of a prompt of the first round may be unknown after the training on this prompt.
    has_mean = measure is not None and None not in chosen_values
    description = {
        "policy": args.policy,
        "seed": args.seed,
        "pool": len(signals),
        "prompts": len(chosen_values),
        "labels": policies.labels(args.policy, {}, len(signals), len(sample), len(chosen_values)),
        "sample": None if sample_share is None else len(sample),
        "mean": sum(chosen_values) / len(chosen_values) if has_mean else None,
        "boundary": chosen_values[-1] if measure else None,
        "tied": subset.tied,
        "tied_chosen": subset.tied_chosen,
    }
    files.write_json(Path(args.output).with_suffix(".json"), description)
    rows = [{"id": prompt, "rank": rank} for rank, prompt in enumerate(subset.ids, start=1)]
    if measure:
        rows = [row | {measure: values[row["id"]]} for row in rows]
    files.write_rows(args.output, ["id", *([measure] if measure else []), "rank"], rows)
    print(
        f"{args.output}: {len(rows)} of {len(signals)} prompts, {description['labels']} answers to buy"
        + (f", mean {measure} {description['mean']:.3f}" if has_mean else "")
    )


def read_sample(path: str, pool: dict) -> dict[str, float]:
    """The pass rates of the annotated sample of the pool, by id."""
    sample = {row["id"]: row["pass_rate"] for row in files.read_rows(path, COLUMNS)}
    invalid = next(
        (
            prompt
            for prompt, rate in sample.items()
            if prompt not in pool or rate is None or not 0 <= rate <= 1
        ),
        None,
    )
    if invalid is not None or not sample:
        problem = (
            f"'{invalid}' is not in the pool, or its pass rate is not a number from 0 to 1"
            if sample
            else "it has no rows"
        )
        raise errors.UserError(f"{path}: {problem}; annotate the sample again")
    return sample


def read_first_round(path: str | None, values: dict[str, float]) -> dict[str, float]:
    """The prompts that the first round chose, with their current signal values; empty without a
    path."""
    if path is None:
        return {}
    ids = [row["id"] for row in files.read_rows(path, {"id": str})]
    if unknown := [prompt for prompt in ids if prompt not in values]:
        raise errors.UserError(
            f"{path}: id '{unknown[0] or ''}' is not in the pool; choose the first round again"
        )
    return {prompt: values[prompt] for prompt in ids}


def select_in_addition(
    included: dict[str, float], values: dict[str, float], policy: dict, seed: int
) -> policies.Subset:
    """All prompts of `included`, whose labels are already paid for, and as many other prompts as
    the remaining budget allows."""
    remaining_size = policies.subset_size(policy["budget"], len(values)) - len(included)
    if remaining_size < 1:
        raise errors.UserError(policies.spent_budget_message(policy["budget"], len(included)))
    candidates = {prompt: value for prompt, value in values.items() if prompt not in included}
    subset = policies.select(
        candidates, seed=seed, **policy | {"budget": remaining_size / len(candidates)}
    )
    return policies.Subset([*included, *subset.ids], subset.tied, subset.tied_chosen)


def select_from_bounds(rows: list[dict], policy: dict, seed: int) -> policies.Subset:
    """The subset that full probing would choose, from the counts of a probe that stopped early."""
    remedy = "the probe stopped when it had decided another subset; take `stop` out of the task's probe in the configuration to probe in full"
    if not policies.RULES[policy["rule"]].by_bounds:
        raise errors.UserError(
            f"policy rule {policy['rule']} needs every pass rate, but not every prompt has all its samples: {remedy}"
        )
    ids = [row["id"] for row in rows]
    scan = early_stopping.Scan(ids, rows[0]["planned"], policy, seed)
    for prompt, row in enumerate(rows):
        scan.tell(prompt, row["correct"], row["samples"])
    if scan.ask():
        raise errors.UserError(
            f"policy rule {policy['rule']}, seed {seed}: the samples do not decide this subset: {remedy}"
        )
    return scan.subset()


if __name__ == "__main__":
    errors.run(main)
