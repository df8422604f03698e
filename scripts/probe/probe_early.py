"""Sample a pool only until a subset is decided: the prompts that full probing would choose, from fewer samples.

    python scripts/probe/probe_early.py --model results/models/tiny --problems results/tasks/swaps/train.jsonl --prompt '{question}' \\
        --grader final_word --samples 10 --completion-tokens 64 --seed 1 --stop-for '[{"rule": "hard", "budget": 0.1, "seed": 0}]' \\
        --output results/probe/tiny/swaps/stopped.jsonl.gz

Every (prompt, sample) has the seed that probe.py gives it, and each prompt is sampled in order, so these completions are the first
ones of full probing. The program samples in batches and grades each batch. The next batch holds the samples that a proof of the
subset needs most (src/hardgrpo/selection/early_stopping.py). At the end the chosen prompts get the rest of their samples. With
several subsets, sampling goes on until all are decided. One job samples the whole pool, because what a prompt needs depends on all
other prompts.

Every batch is kept in a folder under --state. Its name ends in a checksum of everything that decides a completion (model, problems,
prompt, seed, token limit, engine, chat). A probe that was killed resumes from this folder, and a probe for another budget, seed of
ties, confidence, grader or K samples only what is missing. The output holds all completions of the pool that the folder has, also
those that this subset did not need: they cost nothing more and narrow the bounds.
"""

from hardgrpo.data import tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files, states, warm
from hardgrpo.runtime.progress import Progress
from hardgrpo.sampling import programs, store
from hardgrpo.selection import difficulty, early_stopping
from hardgrpo.study import paths

import itertools
from collections.abc import Iterator


def main() -> None:
    parser = programs.parser(__doc__)
    parser.add_argument("--grader", required=True, help=", ".join(graders.GRADERS))
    parser.add_argument(
        "--stop-for", required=True, type=files.as_list, help="policies, each with the seed of its ties, as a JSON list"
    )
    parser.add_argument(
        "--confidence",
        type=float,
        default=1.0,
        help="1: exactly the subset of full probing; below 1: see `probe.stop` in docs/configuration.md",
    )
    parser.add_argument("--batch", type=int, help="completions per batch (default: a 64th of full probing, from 16 to 256)")
    parser.add_argument("--state", default=paths.STATES, help="folder in which completions are kept for later probes")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    if args.samples < 1 or not 0.5 < args.confidence <= 1 or (args.batch or 1) < 1:
        raise errors.UserError(
            "expected --samples and --batch of at least 1, and --confidence above 0.5, up to 1; correct the command"
        )
    graders.check_grader(args.grader, args.output)
    # the pool is the problems that the grader can check, as in measure_difficulty.py
    problems = tasks.readable_problems(tasks.read_problems(args.problems), args.grader, args.problems)
    wants = read_wants(args.stop_for, [problem["id"] for problem in problems], args.samples)
    programs.start(args)
    full = len(problems) * args.samples
    batch = args.batch or min(256, max(16, full // 64))
    stopper = early_stopping.Stopper(wants, batch, args.confidence, in_full=True)
    requests = [
        programs.request("probe", args, problem, sample, log_probability=True)
        for problem in problems
        for sample in range(args.samples)
    ]
    numbers = {problem["id"]: number for number, problem in enumerate(problems)}
    found: list[list[dict]] = [[] for _ in problems]  # rows of each problem's completions, in order
    asked: list[list[tuple[int, int]]] = []  # batches of (problem, sample)

    def take(rows: list[dict]) -> None:
        """Grade a batch and give the counts to the stopper."""
        for row in rows:
            found[numbers[row["id"]]].append(row)
        for number in {numbers[row["id"]] for row in rows}:
            stopper.tell(number, difficulty.measure(problems[number], found[number], args.grader)["correct"], len(found[number]))

    def parts() -> Iterator[list[int]]:
        while wanted := stopper.next():
            asked.append(sorted(wanted))  # the samples of a prompt must come in order
            yield [number * args.samples + sample for number, sample in asked[-1]]

    folder, tokens = store.folder_of(args), 0
    with states.hold_lock(folder, activity="is sampling into this folder"):
        kept = store.Store(folder / "completions.jsonl")
        for rows in kept.batches():
            take([row for row in rows if row["id"] in numbers and row["sample"] < args.samples])
        resumed = sum(map(len, found))
        with Progress(f"probe {args.output}, at most", full, "completions", start=resumed) as progress:
            remaining = parts()
            if first := next(remaining, None):  # if the store has everything, no engine starts
                remaining = itertools.chain([first], remaining)
                for completions in programs.sample(args, args.model, requests, progress, batch, parts=remaining):
                    rows = [
                        programs.probe_row(problems[number], sample, requests[number * args.samples + sample], completion)
                        for (number, sample), completion in zip(asked[-1], completions)
                    ]
                    kept.add(rows)
                    take(rows)
                    tokens += sum(completion.tokens for completion in completions)
    used = sum(map(len, found))
    print(
        f"{args.output}: decided, {used} of {full} completions ({used / full:.1%}), in batches of {batch}; {resumed} were in {folder},"
        " which keeps all of them for a probe of another subset",
        flush=True,
    )
    files.write_jsonl(args.output, (row for rows in found for row in rows))
    facts = {"stopped_early": {"completions": used, "of": full, "batch": batch, "confidence": args.confidence}}
    facts |= {"resumed_from": resumed} if resumed else {}
    programs.write_provenance(args, progress, used - resumed, tokens, **facts)


def read_wants(stop_for, ids: list[str], samples: int) -> list[early_stopping.Wanted]:
    """The subsets of --stop-for."""
    entries = stop_for if isinstance(stop_for, list) else []
    if not entries or not all(isinstance(entry, dict) and {"rule", "seed"} <= set(entry) for entry in entries):
        raise errors.UserError('--stop-for: expected a JSON list like [{"rule": "hard", "budget": 0.1, "seed": 0}]')
    return [
        early_stopping.wanted(ids, samples, {key: value for key, value in entry.items() if key != "seed"}, entry["seed"])
        for entry in entries
    ]


if __name__ == "__main__":
    warm.run(main)
