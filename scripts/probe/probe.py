"""Sample several completions per prompt from the base model, at temperature 1.

    python scripts/probe/probe.py --model results/models/steady-seed0 \\
        --problems results/tasks/arithmetic/train.jsonl --prompt '{question}' --samples 10 \\
        --completion-tokens 48 --seed 1 --shard 0 --shards 1 --output shard0.jsonl.gz
"""

from hardgrpo.data import tasks
from hardgrpo.runtime import errors, files, warm
from hardgrpo.runtime.progress import Progress
from hardgrpo.sampling import programs


def main() -> None:
    parser = programs.build_parser(__doc__)
    parser.add_argument("--shard", type=int, default=0)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument(
        "--batch", type=int, default=512, help="completions per batch of the engine transformers"
    )
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    programs.start(args)
    problems = tasks.read_problems(args.problems, needs_answer=False)[args.shard :: args.shards]
    if not problems:
        raise errors.UserError(
            f"{args.problems}: shard {args.shard} of {args.shards} has no problems; lower the task's probe shards"
        )
    keys = [(problem, sample) for problem in problems for sample in range(args.samples)]
    requests = [
        programs.make_request("probe", args, problem, sample, log_probability=True)
        for problem, sample in keys
    ]
    with Progress(f"probe {args.output}", len(requests), "completions") as progress:
        (completions,) = programs.sample(args, args.model, requests, progress, args.batch)
    rows = (
        programs.probe_row(*key, request, completion)
        for key, request, completion in zip(keys, requests, completions)
    )
    files.write_jsonl(args.output, rows)
    programs.write_provenance(
        args, progress, len(requests), sum(completion.tokens for completion in completions)
    )


if __name__ == "__main__":
    warm.run(main)
