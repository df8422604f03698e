r"""Sample several completions per prompt from the base model, at temperature 1.

    python scripts/probe/probe.py --model results/models/steady-seed0 \
        --problems results/tasks/arithmetic/train.jsonl --prompt '{question}' --samples 10 \
        --completion-tokens 48 --seed 1 --shard 0 --shards 1 --output shard0.jsonl.gz

With --stop-for, the program grades each batch of completions (--grader), samples only until they
decide which subset full probing would choose, and then draws the remaining samples of the chosen
prompts (src/hardgrpo/selection/early_stopping.py), each with its seed of full probing.
"""

from hardgrpo.data import tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files, warm
from hardgrpo.runtime.progress import Progress
from hardgrpo.sampling import programs
from hardgrpo.selection import prompt_difficulty
from hardgrpo.study import configuration

import argparse
from collections.abc import Iterator


def main() -> None:
    parser = programs.build_parser(__doc__)
    parser.add_argument("--shard", type=int, default=0)
    parser.add_argument("--shards", type=programs.count, default=1)
    parser.add_argument(
        "--batch",
        type=programs.count,
        help="most completions at once (default: 512; with --stop-for a 64th of all, from 16 to 256)",
    )
    parser.add_argument(
        "--stop-for", type=files.as_object, help="a policy and its `seed`, as JSON; see above"
    )
    parser.add_argument("--grader", help="for --stop-for: " + ", ".join(graders.GRADERS))
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    if args.stop_for is not None:
        probe_until_decided(args)
        return
    programs.start(args)
    problems = tasks.read_problems(args.problems, needs_answer=False)[args.shard :: args.shards]
    if not problems:
        raise errors.UserError(
            f"{args.problems}: shard {args.shard} of {args.shards} has no problems; lower the task's probe shards"
        )
    requests = make_requests(args, problems)
    with Progress(f"probe {args.output}", len(requests), "completions") as progress:
        (completions,) = programs.sample(args, args.model, requests, progress, args.batch or 512)
    rows = [
        programs.probe_row(problems[index // args.samples], index % args.samples, *answer)
        for index, answer in enumerate(zip(requests, completions))
    ]
    files.write_jsonl(args.output, rows)
    programs.write_provenance(args, progress, len(rows), sum(row["tokens"] for row in rows))


def make_requests(args: argparse.Namespace, problems: list[dict]) -> list:
    return [
        programs.make_request("probe", args, problem, sample, log_probability=True)
        for problem in problems
        for sample in range(args.samples)
    ]


def probe_until_decided(args: argparse.Namespace) -> None:
    """Sample until the completions decide the subset of --stop-for."""
    policy = {key: value for key, value in args.stop_for.items() if key != "seed"}
    configuration.check_policy(policy, "--stop-for")
    graders.check_grader(args.grader)
    # As in measure_difficulty.py, the pool consists of the problems whose reference answers the
    # grader can read.
    problems = tasks.readable_problems(
        tasks.read_problems(args.problems), args.grader, args.problems
    )
    from hardgrpo.selection import early_stopping  # loads NumPy: see hardgrpo.runtime.warm

    full = len(problems) * args.samples
    batch_size = args.batch or min(256, max(16, full // 64))
    ids = [problem["id"] for problem in problems]
    scan = early_stopping.Scan(ids, args.samples, policy, args.stop_for["seed"], batch_size)
    programs.start(args)
    requests = make_requests(args, problems)
    samples: list[list[dict]] = [[] for _ in problems]  # rows of completions by problem, in order
    batches: list[list[tuple[int, int]]] = []

    def draw_batches() -> Iterator[list[int]]:
        while batch := scan.ask():
            batches.append(batch)
            yield [problem * args.samples + sample for problem, sample in batch]

    with Progress(f"probe {args.output}, at most", full, "completions") as progress:
        for completions in programs.sample(
            args, args.model, requests, progress, batch_size, parts=draw_batches()
        ):
            for (problem, sample), completion in zip(batches[-1], completions):
                request = requests[problem * args.samples + sample]
                samples[problem].append(
                    programs.probe_row(problems[problem], sample, request, completion)
                )
            for problem in {problem for problem, _ in batches[-1]}:
                row = prompt_difficulty.measure(problems[problem], samples[problem], args.grader)
                scan.tell(problem, row["correct"], row["samples"])
    drawn = int(scan.drawn.sum())
    print(
        f"{args.output}: the subset is decided after {drawn} of {full} completions ({drawn / full:.1%}), in batches of about {batch_size}",
        flush=True,
    )
    rows = [row for problem_rows in samples for row in problem_rows]
    files.write_jsonl(args.output, rows)
    tokens = sum(row["tokens"] for row in rows)
    programs.write_provenance(args, progress, drawn, tokens, stopped_early={"of": full})


if __name__ == "__main__":
    warm.run(main)
