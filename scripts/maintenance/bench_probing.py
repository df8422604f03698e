"""What early-stopped probing saves: samples against full probing and against the fewest that any method could need.

    python scripts/maintenance/bench_probing.py --recordings FOLDER --output rows.csv

FOLDER holds recordings/ (see README); without it only the simulated pool is measured. A row: what is measured, ours and the
baseline it is set against (numbers of samples), their ratio, the ratio that it should stay below, the share of full probing.
Rows "decided only" stop when the subset is decided. Those "as the program" are in the mode of probe_early.py, in which at confidence 1
the chosen prompts then get all their samples; their baseline is the cheapest proof with all samples of the chosen in it. Every subset is
compared with that of full probing; an exact one that differs ends the benchmark with an error. With a confidence, `wrong` is the share of
the chosen prompts that full probing would not have chosen, `missed` the share of what it would have chosen that is not among them.
"""

import argparse
from pathlib import Path

import numpy as np

from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files
from hardgrpo.selection import early_stopping, policies

COLUMNS = ["name", "ours", "baseline", "ratio", "target", "share_of_full", "batches", "filled", "wrong", "missed"]
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
        f"{'':104} {'ours':>8} {'baseline':>8} {'ratio':>6} {'target':>6} {'of full':>8} {'batches':>8} {'filled':>7} {'wrong':>6}"
        f" {'missed':>6}"
    )
    for row in found:
        target = f"{row['target']:.2f}" if row["target"] else ""
        print(
            f"{row['name']:104} {row['ours']:8.0f} {row['baseline']:8.0f} {row['ratio']:6.3f} {target:>6} {row['share_of_full']:8.1%}"
            f" {row['batches']:8.1f} {row['filled']:7.0%} {row['wrong']:6.1%} {row['missed']:6.1%}"
        )


HARD_HALF = {"rule": "hard", "budget": 0.5}
OTHERS = [{"rule": "easy", "budget": 0.1}, {"rule": "hard_solvable", "budget": 0.1}, HARD_HALF]
OTHERS += [{"rule": rule, "threshold": 0.25} for rule in policies.SPLIT]


def rows(recordings: str | None, seeds: int = 10) -> list[dict]:
    """All measurements, means over the seeds of the ties."""
    found = []
    if recordings:
        outcomes, where = recorded(Path(recordings) / RECORDING), "Qwen3-4B recording"
        for batch, target in ((1, 1.005), (16, 1.4)):
            found.append(measure(where, outcomes, HARD, range(seeds), batch, target))
        found.append(measure(where, outcomes, HARD, range(seeds), 16, together=True))
        for policy in (HARD, *OTHERS):
            found.append(measure(where, outcomes, policy, range(seeds), 16, program=True))
        for policy in (HARD, HARD_HALF, OTHERS[3]):
            found.append(measure(where, outcomes, policy, range(seeds), 16, confidence=0.95, program=True))
    pool, where = simulated(), "7,473 prompts like GSM8K"
    found.append(measure(where, pool, HARD, [0], 256, 1.2))
    for policy in (HARD, HARD_HALF, *OTHERS[3:]):
        found.append(measure(where, pool, policy, [0], 256, program=True))
    for policy in (HARD, HARD_HALF, OTHERS[3]):
        found.append(measure(where, pool, policy, [0], 256, confidence=0.95, program=True))
    return found


def measure(
    where: str,
    outcomes: np.ndarray,
    policy: dict,
    seeds,
    batch: int,
    target: float | None = None,
    confidence: float = 1.0,
    together: bool = False,
    program: bool = False,
) -> dict:
    """Replay early-stopped probing on known outcomes (prompts, K), as the `program` does it or until all is decided.

    With `together` one probe serves all seeds; its baseline is the fewest for the one that needs most, which is less than all of them
    need. Otherwise it is the fewest samples that prove a subset, mean over the seeds.
    """
    name = f"{where}, {' '.join(map(str, policy.values()))}, {f'batches of {batch}' if batch > 1 else 'one at a time'}, "
    name += "as the program" if program else "decided only"
    name += (
        f", confidence {confidence}" * (confidence < 1)
        + f", {len(seeds)} seeds at once, against the seed that needs most" * together
    )
    ids = [str(place) for place in range(len(outcomes))]
    samples = outcomes.shape[1]
    rates = {identity: int(row.sum()) / samples for identity, row in zip(ids, outcomes)}
    wants = [early_stopping.wanted(ids, samples, policy, seed) for seed in seeds]
    subsets = {want.seed: set(policies.select(rates, seed=want.seed, **policy).ids) for want in wants}
    fewest = []
    for want in wants:
        given = (
            np.isin(ids, list(subsets[want.seed])) * samples * (program and confidence == 1)
        )  # samples that the baseline has anyway
        fewest.append(int(given.sum()) + early_stopping.oracle(want, outcomes, given))
    groups = [wants] if together else [[want] for want in wants]
    drawn = batches = wrong = missed = chosen_in_all = 0
    for group in groups:
        stopper = early_stopping.Stopper(group, batch, confidence, in_full=program)
        batches += early_stopping.replay(stopper, outcomes)
        drawn += int(stopper.drawn.sum())
        for want in group:
            chosen = set(early_stopping.choose(want, stopper.correct, stopper.drawn, confidence)[0].ids)
            expected = subsets[want.seed]
            wrong, missed = wrong + len(chosen - expected), missed + len(expected - chosen)
            chosen_in_all += len(chosen)
            if confidence == 1 and chosen != expected:
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
        "wrong": wrong / chosen_in_all,
        "missed": missed / sum(map(len, subsets.values())),
    }


def simulated() -> np.ndarray:
    """A pool of GSM8K's size, K = 5, whose pass rates are spread like Beta(0.187, 0.187): 36 % of the prompts are never solved."""
    rng = np.random.default_rng(0)
    return rng.random((7473, 5)) < rng.beta(0.187, 0.187, 7473)[:, None]


def recorded(path: Path) -> np.ndarray:
    """Outcomes (prompts, K) of a recording of choices."""
    rows = files.read_jsonl(path, {"completions": list, "answer": str})
    return np.array([[graders.grade("choice_letter", text, row["answer"]).correct for text in row["completions"]] for row in rows])


if __name__ == "__main__":
    errors.run(main)
