"""Results of studies that were never run, drawn with fixed seeds: the files from which summaries are
computed. Some completions are truncated, have no answer, or are undecided between few answers."""

import random
from pathlib import Path

from hardgrpo.data import evaluations, recorded_accuracies
from hardgrpo.runtime import files
from hardgrpo.selection import policies
from hardgrpo.study import paths, pools
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.spec import Spec
from hardgrpo.study.study import Study

POOL = [f"pool{number:02d}" for number in range(40)]
TEST = [f"test{number:02d}" for number in range(12)]
TIERS = {"arithmetic": ["1", "2", "10"], "swaps": ["short", "long"]}  # others have no tiers
STEPS = (10, 30)
PROBE_SAMPLES, EPOCHS = 8, 6


def write(study: Study, config: dict) -> None:
    """Write the inputs of the summaries of a study into the current folder."""
    for base, task, seeds in study.probed_pools:
        write_pool(base, task, seeds, study)
    for run in study.runs:
        if run.recipe != "recorded":
            write_log(run, config)
    for path in paths.evaluations(study):
        write_evaluation(path)
    for path in paths.trajectories(study):
        write_trajectory(path)
    for path in paths.published_files(study):
        write_published(path)
    for comparison in pools.comparisons(study):
        counts = {"problems": 12, "equal": 1, "near": 2, "repeated": 3}
        for key in ("pool", "test"):
            files.write_json(comparison[key], counts)


def write_pool(base: str, task: str, seeds: list[int], study: Study) -> None:
    """The pass rates and the signals of a pool, and the subsets that each policy chooses by them."""
    rng = random.Random(f"pool {base} {task}")
    correct = {name: _binomial(rng, PROBE_SAMPLES, rng.choice([0, 0.3, 0.6, 1])) for name in POOL}
    rates = {name: count / PROBE_SAMPLES for name, count in correct.items()}
    files.write_rows(
        paths.difficulty(base, task),
        ["id", "pass_rate", "samples", "correct"],
        [
            {"id": name, "pass_rate": rates[name], "samples": PROBE_SAMPLES, "correct": count}
            for name, count in correct.items()
        ],
    )
    signals = {
        name: {signal: round(rng.random(), 2) for signal in policies.SIGNALS} for name in POOL
    }
    files.write_rows(
        paths.signals(base, task),
        ["id", *policies.SIGNALS],
        [{"id": name} | values for name, values in signals.items()],
    )
    for policy in study.policies:
        entry = {"rule": "random", "budget": 0.1}
        if policy in study.config.policies:
            entry = study.config.policies[policy].entry
        measure = entry.get("by", "pass_rate")
        values = rates if measure == "pass_rate" else {n: signals[n][measure] for n in POOL}
        keys = {key: value for key, value in entry.items() if key not in ("by", "probed_on")}
        for seed in seeds:
            subset = policies.select(values, seed=seed, **keys)
            write_subset(paths.subset(base, task, policy, seed), entry, seed, subset, values)


def write_subset(
    path: str, policy: dict, seed: int, subset: policies.Subset, values: dict[str, float]
) -> None:
    chosen = [values[name] for name in subset.ids]
    numbers = {
        "pool": len(POOL),
        "prompts": len(chosen),
        "mean_pass_rate": sum(chosen) / len(chosen),
    }
    numbers |= {"zero_share": chosen.count(0) / len(chosen), "boundary_pass_rate": chosen[-1]}
    numbers |= {"tied": subset.tied, "tied_chosen": subset.tied_chosen, "sample": 0}
    files.write_json(Path(path).with_suffix(".json"), {"policy": policy, "seed": seed} | numbers)
    rows = [{"id": name, "rank": rank} for rank, name in enumerate(subset.ids, start=1)]
    files.write_rows(path, ["id", "rank"], rows)


def write_log(run, config: dict) -> None:
    """The specification of a run, its training log and its wall times."""
    rng, recipe = random.Random(run.path), config["recipes"][run.recipe]
    checked = Configuration.of(config)
    Spec.of_run(
        run,
        model=checked.models[run.model],
        task=checked.tasks[run.task],
        recipe=checked.recipes[run.recipe],
        policy=checked.policies[run.policy],
    ).write(paths.training(run, "spec.yaml"))
    rows = []
    for step in range(1, STEPS[-1] + 1):
        prompts, right = recipe["prompts_per_update"], rng.randint(0, 2)
        rollouts, learnable = prompts * recipe["group_size"], rng.randint(0, prompts - 2)
        row = {"step": step, "prompts": prompts, "rollouts": rollouts, "undecided_share": 0}
        row |= {"tokens_mean": 60 - step + rng.randint(0, 9), "truncated_share": 0.25}
        row |= {"reward_mean": right / prompts, "learnable_share": learnable / prompts}
        row |= {"all_right_share": right / prompts}
        if "selector" in recipe:
            kept = learnable * recipe["group_size"]
            row |= {"kept": kept, "replayed": 4, "thrown_away": rollouts - kept}
            row |= {"labels": prompts, "trained": int(kept > 0)}
        rows.append(row)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    files.write_rows(paths.training(run, "updates.csv"), columns, rows)
    seconds = [{"seconds": rng.randint(10, 30)} for _ in range(3)]
    files.write_rows(paths.training(run, "timing.csv"), ["seconds"], seconds)


def write_evaluation(path: str) -> None:
    """The graded completions of a base model (step 0), of its reach samples, or of a run."""
    sampler, test = str(Path(path).parent), Path(path).name.removesuffix(".csv.gz")
    kind, rng = Path(sampler).name, random.Random(path)
    steps = (0,) if kind in ("base", "reach") else STEPS
    samples = [("sampled", number) for number in range(8 if kind == "reach" else 4)]
    samples += [] if kind == "reach" else [("greedy", 0)]
    rows = []
    for step in steps:
        for number, name in enumerate(TEST):
            difficulty = random.Random(f"{test} {name}").random()
            tiers = TIERS.get(test, [None])
            for decoding, sample in samples:
                answered = rng.random() < 0.6 + 0.01 * step
                right = answered and rng.random() < (1 - difficulty) * (0.6 + 0.01 * step)
                row = {"step": step, "id": name, "tier": tiers[number % len(tiers)]}
                row |= {"decoding": decoding, "sample": sample, "undecided": 0}
                row |= {"answered": int(answered), "correct": int(right)}
                row |= {"strict": int(right and rng.random() < 0.9)}
                row |= {"lenient": int(right or rng.random() < 0.05)}
                row |= {"sound": int(right and rng.random() < 0.7) if test in TIERS else None}
                row |= {"truncated": int(not answered), "tokens": rng.randint(5, 60)}
                row |= {"answer": "right" if right else rng.choice("ab") if answered else None}
                rows.append(row)
    files.write_rows(path, evaluations.COLUMNS, rows)


def write_trajectory(path: str) -> None:
    rng = random.Random(path)
    rows = [
        {"id": name, "epoch": epoch, "correct": _binomial(rng, 8, epoch / 10), "rollouts": 8}
        for name in POOL
        for epoch in range(2, EPOCHS)
    ]
    files.write_rows(path, ["id", "epoch", "correct", "rollouts"], rows)


def write_published(path: str) -> None:
    rng = random.Random(path)
    rows = [
        {"step": step, "measure": "accuracy", "at_most_percent": share, "problems": 20}
        | {"value": rng.randint(50, 90) / 100, "base": 0.5}
        for step in STEPS
        for share in (30, 100)
    ]
    files.write_rows(path, list(recorded_accuracies.COLUMNS), rows)


def write_counts(path: str, analysis: dict) -> None:
    """The numbers of right answers that an analysis of published numbers reads."""
    rng, samples = random.Random(path), analysis["samples"]
    seeds = 5 if analysis["kind"] == "before_after" else 0
    rows = []
    for name in POOL:
        rate = rng.choice([0, 0.2, 0.5, 1])
        row = {"file": "a" if name < POOL[20] else "b", "id": name, "samples": samples}
        row |= {"correct": _binomial(rng, samples, rate)}
        rates = [min(1, rate + rng.random() / 5) for _ in range(seeds)]
        row |= {f"correct_{n}": _binomial(rng, samples, rate) for n, rate in enumerate(rates, 1)}
        rows.append(row)
    files.write_rows(path, list(rows[0]), rows)


def _binomial(rng: random.Random, trials: int, rate: float) -> int:
    return sum(rng.random() < rate for _ in range(trials))
