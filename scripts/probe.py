"""Sample K completions a prompt from the base model, at temperature 1, and keep every one of them.

    python scripts/probe.py --model results/models/tiny --problems results/tasks/swaps/train.jsonl --prompt '{question}' \\
        --samples 10 --completion-tokens 64 --seed 1 --shard 0 --shards 1 --output results/probe/tiny/swaps/shard0.jsonl.gz
"""

import argparse
import json
import time

from hardgrpo import environments, errors, files, provenance, tasks, warm
from hardgrpo.progress import Progress


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="model folder")
    parser.add_argument("--problems", required=True)
    parser.add_argument("--prompt", required=True, help="template with {question}")
    parser.add_argument("--samples", type=int, required=True, help="K, completions a prompt")
    parser.add_argument("--completion-tokens", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--shard", type=int, default=0)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument(
        "--engine", default="transformers", choices=["transformers", "vllm", "auto"], help="auto: vLLM where it is installed"
    )
    parser.add_argument("--chat", default={}, type=json.loads, help="arguments of the chat template, as JSON")
    environments.add_gpu_arguments(parser)
    parser.add_argument("--batch", type=int, default=512, help="completions that transformers samples at once")
    parser.add_argument("--output", required=True)
    parser.add_argument("--provenance", help="JSON file to write: machine, versions, tokens, seconds")
    args = parser.parse_args()
    started = time.time()

    if args.samples < 1:
        raise errors.UserError(f"--samples is {args.samples}, expected at least 1")
    args.gpus = environments.granted_gpus(args.gpus)
    args.engine = environments.choose(args.engine, args.gpus)
    environments.use(*["vllm"] * (args.engine == "vllm"), gpus=args.gpus)
    environments.check_gpus(args.gpus, args.gpu_name, args.gpu_gib)
    from hardgrpo import engines  # after `use`, which may start this program again in another environment

    engines.fix_threads()
    provenance.check_manifest(args.model)
    problems = tasks.read_problems(args.problems, needs_answer=False)[args.shard :: args.shards]
    if not problems:
        raise errors.UserError(
            f"{args.problems}: shard {args.shard} of {args.shards} has no problems; lower the task's probe shards"
        )
    keys = [(problem, sample) for problem in problems for sample in range(args.samples)]
    requests = [
        engines.Request(
            tuple(tasks.messages(args.prompt, problem["question"])),
            engines.sample_seed("probe", args.seed, problem["id"], sample),
            temperature=1.0,
        )
        for problem, sample in keys
    ]
    with Progress(f"probe {args.output}", len(requests), "completions") as progress:
        (completions,) = engines.sample(
            args.engine, args.model, requests, args.completion_tokens, args.chat, gpus=args.gpus, batch=args.batch,
            done=lambda count, _: progress.advance(count), ready=progress.ready,
        )  # fmt: skip
    files.write_jsonl(
        args.output,
        (
            {
                "id": problem["id"],
                "sample": sample,
                "seed": request.seed,
                "completion": completion.text,
                "tokens": completion.tokens,
                "finish_reason": completion.finish_reason,
            }
            for (problem, sample), request, completion in zip(keys, requests, completions)
        ),
    )
    if args.provenance:
        tokens = sum(completion.tokens for completion in completions)
        facts = provenance.of_sampling(started, args.engine, args.gpus, len(requests), tokens, progress.seconds)
        files.write_text(args.provenance, json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    warm.run(main)
