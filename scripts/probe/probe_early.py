"""Sample a pool until the samples decide which subset full probing would choose.

    python scripts/probe/probe_early.py --model results/models/steady-seed0 \\
        --problems results/tasks/arithmetic/train.jsonl --prompt '{question}' \\
        --grader final_number --samples 10 --completion-tokens 48 --seed 1 \\
        --stop-for '[{"rule": "hard", "budget": 0.1, "seed": 0}]' --output stopped.jsonl.gz

With --confidence below 1, the program stops earlier: as soon as a guess of the subset is expected
to reach this precision and recall.

A completion has the same seed as in probe.py, and the samples of a prompt are drawn in order of
their numbers. The completions of a prompt are therefore the first that full probing would sample,
except where rounding depends on the batch size, and except for a model behind a server.

The program samples in batches and grades each batch. The next batch contains the samples that are
most needed to decide the subset (src/hardgrpo/selection/early_stopping.py). At the end, the
remaining samples of the chosen prompts are drawn, unless --confidence is below 1. With several
subsets, the program samples until all subsets are decided. One job samples the complete pool,
because the samples that a prompt needs depend on all other prompts.

Every batch is stored in a folder under --state. The folder's name ends in a checksum of the model,
the problems, the prompt, the seed, the token limit, the engine, the number format (--precision) and
the arguments of the chat template. A killed probe resumes from this folder. A later probe with
another budget, seed of ties, confidence, grader or number of samples uses the stored completions
and samples only missing completions. The output contains all stored completions of the pool with
numbers below --samples, including completions that an earlier probe drew for another subset,
because they narrow the bounds of pass rates at no cost.
"""

from hardgrpo.data import tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files, states, warm
from hardgrpo.runtime.progress import Progress
from hardgrpo.sampling import programs, store
from hardgrpo.selection import prompt_difficulty

import itertools
from collections.abc import Iterator


def main() -> None:
    parser = programs.build_parser(__doc__)
    parser.add_argument("--grader", required=True, help=", ".join(graders.GRADERS))
    parser.add_argument(
        "--stop-for",
        required=True,
        type=files.as_list,
        help="JSON list of policies, each with a `seed` that breaks ties",
    )
    parser.add_argument(
        "--confidence",
        type=float,
        default=1.0,
        help="1: choose exactly the subset of full probing; below 1: see `probe.stop` in docs/configuration.md",
    )
    parser.add_argument(
        "--batch",
        type=int,
        help="largest number of completions in a batch (default: a 64th of all completions, at least 16 and at most 256)",
    )
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    is_batch_wrong = args.batch is not None and args.batch < 1
    if args.samples < 1 or not 0.5 < args.confidence <= 1 or is_batch_wrong:
        raise errors.UserError(
            "expected --samples and --batch of at least 1, and --confidence above 0.5 and at most 1; correct the command"
        )
    graders.check_grader(args.grader, args.output)
    # As in measure_difficulty.py, the pool consists of the problems whose reference answers the
    # grader can read.
    problems = tasks.readable_problems(
        tasks.read_problems(args.problems), args.grader, args.problems
    )
    from hardgrpo.selection import early_stopping  # loads NumPy: see hardgrpo.runtime.warm

    targets = read_targets(args.stop_for, [problem["id"] for problem in problems], args.samples)
    programs.start(args)
    full = len(problems) * args.samples
    batch_size = args.batch or min(256, max(16, full // 64))
    stopper = early_stopping.Stopper(targets, batch_size, args.confidence, completes_subset=True)
    requests = [
        programs.make_request("probe", args, problem, sample, log_probability=True)
        for problem in problems
        for sample in range(args.samples)
    ]
    numbers = {problem["id"]: number for number, problem in enumerate(problems)}
    samples_by_problem: list[list[dict]] = [[] for _ in problems]  # rows of completions, in order
    batches: list[list[tuple[int, int]]] = []  # batches of (problem, sample)

    def grade_batch(rows: list[dict]) -> None:
        """Grade a batch and report the counts to the stopper."""
        for row in rows:
            samples_by_problem[numbers[row["id"]]].append(row)
        for number in {numbers[row["id"]] for row in rows}:
            stopper.tell(
                number,
                prompt_difficulty.measure(
                    problems[number], samples_by_problem[number], args.grader
                )["correct"],
                len(samples_by_problem[number]),
            )

    def draw_batches() -> Iterator[list[int]]:
        while batch := stopper.ask():
            batches.append(sorted(batch))  # the samples of each prompt must be in order
            yield [number * args.samples + sample for number, sample in batches[-1]]

    folder, tokens = store.probe_folder(args), 0
    with states.hold_lock(folder, activity="is sampling into this folder"):
        completion_store = store.Store(folder / "completions.jsonl")
        for rows in completion_store.batches():
            grade_batch(
                [row for row in rows if row["id"] in numbers and row["sample"] < args.samples]
            )
        resumed = sum(map(len, samples_by_problem))
        with Progress(
            f"probe {args.output}, at most", full, "completions", start=resumed
        ) as progress:
            remaining_batches = draw_batches()
            # Start an engine only if a sample is missing.
            if first_batch := next(remaining_batches, None):
                remaining_batches = itertools.chain([first_batch], remaining_batches)
                for completions in programs.sample(
                    args, args.model, requests, progress, batch_size, parts=remaining_batches
                ):
                    rows = [
                        programs.probe_row(
                            problems[number],
                            sample,
                            requests[number * args.samples + sample],
                            completion,
                        )
                        for (number, sample), completion in zip(batches[-1], completions)
                    ]
                    completion_store.add(rows)
                    grade_batch(rows)
                    tokens += sum(completion.tokens for completion in completions)
    drawn = sum(map(len, samples_by_problem))
    print(
        f"{args.output}: stopped after {drawn} of {full} completions ({drawn / full:.1%}), in batches of at most {batch_size}; {resumed} of the {drawn} are from an"
        f" earlier run; {folder} keeps all completions for a probe that decides another subset",
        flush=True,
    )
    files.write_jsonl(args.output, (row for rows in samples_by_problem for row in rows))
    provenance_fields = {
        "stopped_early": {
            "completions": drawn,
            "of": full,
            "batch": batch_size,
            "confidence": args.confidence,
        }
    }
    provenance_fields |= {"resumed_from": resumed} if resumed else {}
    programs.write_provenance(args, progress, drawn - resumed, tokens, **provenance_fields)


def read_targets(stop_for, ids: list[str], samples: int) -> list:
    """The target subsets of --stop-for. Raise a `UserError` if the option is not a list of policies
    with seeds, or if a probe for one of the policies cannot stop early."""
    from hardgrpo.selection import early_stopping

    entries = stop_for if isinstance(stop_for, list) else []
    if not entries or not all(
        isinstance(entry, dict) and {"rule", "seed"} <= set(entry) for entry in entries
    ):
        raise errors.UserError(
            '--stop-for: expected a JSON list like [{"rule": "hard", "budget": 0.1, "seed": 0}]'
        )
    return [
        early_stopping.target_subset(
            ids,
            samples,
            {key: value for key, value in entry.items() if key != "seed"},
            entry["seed"],
        )
        for entry in entries
    ]


if __name__ == "__main__":
    warm.run(main)
