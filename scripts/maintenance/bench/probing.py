"""Number of samples that early-stopped probing draws, compared with the smallest number of samples
whose outcomes determine the same subset (the cheapest proof), and with full probing.

The benchmark replays known outcomes: of the Qwen3-4B recording, if it exists, and of a simulated
pool. In rows "decided only", probing stops when the subset is decided. In rows "as the program",
probing follows probe_early.py, which at confidence 1 then draws the remaining samples of the chosen
prompts; the cheapest proof then also includes these samples. Every subset is compared with the
subset of full probing. With confidence 1, the benchmark fails if the subsets differ. With a lower
confidence, a row counts the chosen prompts that full probing would not choose.
"""

from benchmarks import row
from hardgrpo.grading import graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import early_stopping, policies

from pathlib import Path

import numpy as np

RECORDING = "recordings/shuffled_objects_seven/qwen3-4b/train.jsonl"
SEEDS = range(10)  # each seed orders the ties of the recording differently
HARD, HARD_HALF = {"rule": "hard", "budget": 0.1}, {"rule": "hard", "budget": 0.5}
SPLIT = [
    {"rule": rule, "threshold": 0.25} for rule in ("base_wrong", "base_right", "base_right_matched")
]
EASIER = [{"rule": "easy", "budget": 0.1}, {"rule": "hard_solvable", "budget": 0.1}]


def run(options) -> list[dict]:
    rows = []
    path = Path(options.data) / RECORDING
    if path.is_file():
        pool = ("Qwen3-4B recording", read_outcomes(path), SEEDS)
        rows += measure(*pool, HARD, 1, "ratio <= 1.005") + measure(*pool, HARD, 16, "ratio <= 1.4")
        rows += measure(*pool, HARD, 16, together=True)
        rows += measure_program(*pool, [HARD, *EASIER, HARD_HALF, *SPLIT], 16)
    else:
        print(f"probing: no {RECORDING} in {options.data}, so only the simulated pool is measured")
    pool = ("7,473 prompts like GSM8K", simulate_pool(7473), [0])
    return (
        rows
        + measure(*pool, HARD, 256, "ratio <= 1.2")
        + measure_program(*pool, [HARD, HARD_HALF, *SPLIT], 256)
    )


def measure_program(
    pool_name: str, outcomes: np.ndarray, seeds, policies_measured: list[dict], batch: int
) -> list[dict]:
    """Rows "as the program": with confidence 1 for all policies, with 0.95 for three policies."""
    exact = [
        measure(pool_name, outcomes, seeds, policy, batch, program=True)
        for policy in policies_measured
    ]
    likely = [
        measure(pool_name, outcomes, seeds, policy, batch, program=True, confidence=0.95)
        for policy in (HARD, HARD_HALF, SPLIT[0])
    ]
    return sum(exact + likely, [])


def measure(
    pool_name: str,
    outcomes: np.ndarray,
    seeds,
    policy: dict,
    batch: int,
    target="",
    confidence=1.0,
    together=False,
    program=False,
) -> list[dict]:
    """Rows of early-stopped probing on known outcomes, of shape (prompts, samples). With `program`,
    probing follows probe_early.py; else it stops when the subset is decided. The first row's
    baseline is the fewest samples that prove a subset, averaged over the seeds. With `together`, a
    single probe decides the subsets of all seeds, and the baseline is the largest of the seeds'
    fewest samples: no probe that decides all these subsets needs fewer."""
    name = f"{pool_name}, {' '.join(map(str, policy.values()))}, {f'batches of {batch}' if batch > 1 else 'one at a time'}, "
    name += "as the program" if program else "decided only"
    name += f", confidence {confidence}" if confidence < 1 else ""
    name += f", {len(seeds)} seeds at once, against the seed that needs most" if together else ""
    ids, samples = [str(place) for place in range(len(outcomes))], outcomes.shape[1]
    rates = {problem_id: int(row.sum()) / samples for problem_id, row in zip(ids, outcomes)}
    decisions = [early_stopping.target_subset(ids, samples, policy, seed) for seed in seeds]
    subsets = {
        decision.seed: set(policies.select(rates, seed=decision.seed, **policy).ids)
        for decision in decisions
    }
    fewest = []
    # The baseline includes all samples of the chosen prompts if the program draws them.
    for decision in decisions:
        samples_of_subset = (
            np.isin(ids, list(subsets[decision.seed])) * samples * (program and confidence == 1)
        )
        fewest.append(
            int(samples_of_subset.sum())
            + early_stopping.oracle_samples(decision, outcomes, samples_of_subset)
        )
    groups = [decisions] if together else [[decision] for decision in decisions]
    samples_drawn = wrong_count = chosen_in_all = 0
    for group in groups:
        stopper = early_stopping.Stopper(group, batch, confidence, completes_subset=program)
        early_stopping.simulate(stopper, outcomes)
        samples_drawn += int(stopper.drawn.sum())
        for decision in group:
            subset = set(
                early_stopping.choose(decision, stopper.correct, stopper.drawn, confidence)[0].ids
            )
            wrong_count += len(subset - subsets[decision.seed])
            chosen_in_all += len(subset)
            if confidence == 1 and subset != subsets[decision.seed]:
                raise UserError(
                    f"{name}, seed {decision.seed}: the subset differs from that of full probing"
                )
    mean_samples_drawn = samples_drawn / len(groups)
    cheapest = max(fewest) if together else sum(fewest) / len(groups)
    rows = [row(f"{name}; cheapest proof", "samples", mean_samples_drawn, cheapest, target=target)]
    rows.append(row(f"{name}; all", "samples", mean_samples_drawn, float(outcomes.size)))
    if confidence < 1:
        rows.append(
            row(
                f"{name}: chosen prompts that full probing does not choose; all chosen prompts",
                "prompts",
                wrong_count / len(groups),
                chosen_in_all / len(groups),
            )
        )
    return rows


def simulate_pool(prompts: int) -> np.ndarray:
    """Outcomes, of shape (prompts, 5), of a pool like that of GSM8K: pass rates are drawn from
    Beta(0.187, 0.187), so that about 36 % of the prompts have no right sample."""
    rng = np.random.default_rng(0)
    return rng.random((prompts, 5)) < rng.beta(0.187, 0.187, prompts)[:, None]


def read_outcomes(path: Path) -> np.ndarray:
    """Outcomes, of shape (prompts, samples), of a recording whose answers are letters of
    choices."""
    rows = files.read_jsonl(path, {"completions": list, "answer": str})
    return np.array(
        [
            [
                graders.grade("choice_letter", text, row["answer"]).correct
                for text in row["completions"]
            ]
            for row in rows
        ]
    )
