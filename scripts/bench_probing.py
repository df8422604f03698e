"""What early-stopped probing saves: samples against full probing and against the fewest that any method could need.

    python scripts/bench_probing.py --recordings FOLDER --output rows.csv

FOLDER holds recordings/ (see README); without it only the simulated pool is measured. A row: what is measured, ours and the
baseline it is set against (numbers of samples), their ratio, the ratio that it should stay below, the share of full probing.
Every subset is compared with that of full probing; an exact one that differs ends the benchmark with an error, of those with a confidence
`differing` is the share of prompts that full probing would not have chosen.
"""

import argparse
from pathlib import Path

import numpy as np

from hardgrpo import early_stopping, errors, files, grading, policies

COLUMNS = ["name", "ours", "baseline", "ratio", "target", "share_of_full", "batches", "filled", "differing"]
RECORDING = "recordings/shuffled_objects_seven/qwen3-4b/train.jsonl"
HARD = {"rule": "hard", "budget": 0.1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", help="folder that holds recordings/")
    parser.add_argument("--seeds", type=int, default=10, help="orders of ties on the recording")
    parser.add_argument("--output", help="CSV file")
    args = parser.parse_args()
    found = rows(args.recordings, args.seeds)
    if args.output:
        files.write_rows(args.output, COLUMNS, found)
    print(
        f"{'':64} {'ours':>8} {'fewest':>8} {'ratio':>6} {'target':>6} {'of full':>8} {'batches':>8} {'filled':>7} {'differing':>9}"
    )
    for row in found:
        target = f"{row['target']:.2f}" if row["target"] else ""
        print(
            f"{row['name']:64} {row['ours']:8.0f} {row['baseline']:8.0f} {row['ratio']:6.3f} {target:>6} {row['share_of_full']:8.1%}"
            f" {row['batches']:8.1f} {row['filled']:7.0%} {row['differing']:9.1%}"
        )


def rows(recordings: str | None, seeds: int = 10) -> list[dict]:
    """All measurements, means over the seeds of the ties."""
    found = []
    if recordings:
        path = Path(recordings) / RECORDING
        outcomes, where = recorded(path), "Qwen3-4B recording"
        for batch, target in ((1, 1.005), (16, 1.4)):
            found.append(measure(f"{where}, hardest 10 %, batches of {batch}", outcomes, HARD, range(seeds), batch, target))
        for policy in (
            {"rule": "easy", "budget": 0.1},
            {"rule": "hard_solvable", "budget": 0.1},
            {"rule": "base_wrong", "threshold": 0.25},
        ):
            name = " ".join(map(str, policy.values()))
            found.append(measure(f"{where}, {name}, batches of 16", outcomes, policy, range(seeds), 16))
        found.append(
            measure(f"{where}, hardest 10 %, all {seeds} seeds at once, of 16", outcomes, HARD, range(seeds), 16, together=True)
        )
        found.append(measure(f"{where}, hardest 10 %, of 16, confidence 0.95", outcomes, HARD, range(seeds), 16, confidence=0.95))
    pool, where = simulated(), "7,473 prompts like GSM8K"
    found.append(measure(f"{where}, hardest 10 %, batches of 256", pool, HARD, [0], 256, 1.2))
    found.append(measure(f"{where}, hardest 10 %, of 256, confidence 0.95", pool, HARD, [0], 256, confidence=0.95))
    return found


def measure(
    name: str, outcomes: np.ndarray, policy: dict, seeds, batch: int, target=None, confidence: float = 1.0, together: bool = False
) -> dict:
    """Replay early-stopped probing on known outcomes (prompts, K). With `together` one probe serves all seeds, and the fewest samples
    of the one that needs most stand for the baseline, which is less than all need together."""
    ids = [str(place) for place in range(len(outcomes))]
    prompts, samples = outcomes.shape
    rates = {identity: int(row.sum()) / samples for identity, row in zip(ids, outcomes)}
    wants = [early_stopping.wanted(ids, samples, policy, seed) for seed in seeds]
    fewest = [early_stopping.oracle(want, outcomes) for want in wants]
    groups = [wants] if together else [[want] for want in wants]
    drawn = batches = differing = chosen_in_all = 0
    for group in groups:
        stopper = early_stopping.Stopper(group, batch, confidence)
        batches += early_stopping.replay(stopper, outcomes)
        drawn += int(stopper.drawn.sum())
        for want in group:
            chosen, _ = early_stopping.choose(want, stopper.correct, stopper.drawn, confidence)
            expected = policies.select(rates, seed=want.seed, **policy)
            wrong = len(set(chosen.ids) - set(expected.ids))
            differing, chosen_in_all = differing + wrong, chosen_in_all + len(chosen.ids)
            if confidence == 1 and set(chosen.ids) != set(expected.ids):
                raise errors.UserError(f"{name}, seed {want.seed}: the subset is not that of full probing")
    baseline = max(fewest) if together else sum(fewest) / len(groups)
    ours = drawn / len(groups)
    return {
        "name": name,
        "ours": ours,
        "baseline": baseline,
        "ratio": ours / baseline,
        "target": target,
        "share_of_full": ours / outcomes.size,
        "batches": batches / len(groups),
        "filled": drawn / (batches * batch),
        "differing": differing / chosen_in_all,
    }


def simulated() -> np.ndarray:
    """A pool of GSM8K's size, K = 5, whose pass rates are spread like Beta(0.187, 0.187): 36 % of the prompts are never solved."""
    rng = np.random.default_rng(0)
    return rng.random((7473, 5)) < rng.beta(0.187, 0.187, 7473)[:, None]


def recorded(path: Path) -> np.ndarray:
    """Outcomes (prompts, K) of a recording of choices."""
    rows = files.read_jsonl(path, {"completions": list, "answer": str})
    return np.array([[grading.grade("choice_letter", text, row["answer"]).correct for text in row["completions"]] for row in rows])


if __name__ == "__main__":
    errors.run(main)
