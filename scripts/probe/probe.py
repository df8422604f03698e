"""Sample K completions a prompt from the base model, at temperature 1, and keep every one of them.

    python scripts/probe/probe.py --model results/models/tiny --problems results/tasks/swaps/train.jsonl --prompt '{question}' \\
        --samples 10 --completion-tokens 64 --seed 1 --shard 0 --shards 1 --output results/probe/tiny/swaps/shard0.jsonl.gz
"""

import json
import time

from hardgrpo.data import tasks
from hardgrpo.runtime import errors, files, provenance, warm
from hardgrpo.runtime.progress import Progress
from hardgrpo.sampling import programs


def main() -> None:
    parser = programs.parser(__doc__)
    parser.add_argument("--shard", type=int, default=0)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--batch", type=int, default=512, help="completions that transformers samples at once")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    started = time.time()

    if args.samples < 1:
        raise errors.UserError(f"--samples is {args.samples}, expected at least 1")
    engines = programs.start(args)
    provenance.check_manifest(args.model)
    problems = tasks.read_problems(args.problems, needs_answer=False)[args.shard :: args.shards]
    if not problems:
        raise errors.UserError(
            f"{args.problems}: shard {args.shard} of {args.shards} has no problems; lower the task's probe shards"
        )
    keys = [(problem, sample) for problem in problems for sample in range(args.samples)]
    requests = [programs.request("probe", args, problem, sample) for problem, sample in keys]
    with Progress(f"probe {args.output}", len(requests), "completions") as progress:
        (completions,) = engines.sample(
            args.engine, args.model, requests, args.completion_tokens, args.chat, gpus=args.gpus, batch=args.batch,
            done=lambda count, _: progress.advance(count), ready=progress.ready,
        )  # fmt: skip
    rows = (programs.probe_row(*key, request, completion) for key, request, completion in zip(keys, requests, completions))
    files.write_jsonl(args.output, rows)
    if args.provenance:
        tokens = sum(completion.tokens for completion in completions)
        facts = provenance.of_sampling(started, args.engine, args.gpus, len(requests), tokens, progress.seconds)
        files.write_text(args.provenance, json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    warm.run(main)
