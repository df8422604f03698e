r"""Write the problems whose prompt leaves enough of a model's context for a completion, and report
the others, which may be at most 1 %.

    python scripts/inputs/fit_prompts.py --model results/models/tiny \
        --problems results/tasks/swaps/train.jsonl --prompt '{question}' --completion-tokens 64 \
        --output results/pools/tiny/swaps/train.jsonl
"""

from hardgrpo.data import tasks
from hardgrpo.runtime import errors, files, provenance, warm
from hardgrpo.sampling.requests import Request


def main() -> None:
    parser = errors.parser(__doc__, "--problems", "--output")
    parser.add_argument("--model", required=True, help="folder of the model")
    parser.add_argument("--prompt", required=True, help="template with {question}")
    parser.add_argument("--completion-tokens", type=int, required=True)
    parser.add_argument(
        "--chat", default={}, type=files.as_object, help="arguments of the chat template, as JSON"
    )
    args = parser.parse_args()

    provenance.check_manifest(args.model)
    problems = tasks.read_problems(args.problems, needs_answer=False)

    from hardgrpo.sampling import engines  # imports torch: see hardgrpo.runtime.warm

    requests = [
        Request(tuple(tasks.messages(args.prompt, problem["question"])), seed=0, temperature=1.0)
        for problem in problems
    ]
    lengths = [
        len(prompt)
        for prompt in engines.tokenize(engines.load_tokenizer(args.model), requests, args.chat)
    ]
    max_tokens = engines.max_prompt_tokens(args.model, args.completion_tokens)
    too_long = [
        (problem, length)
        for problem, length in zip(problems, lengths)
        if max_tokens is not None and length > max_tokens
    ]
    if too_long:
        tasks.leave_out(
            f"{args.problems}: {len(too_long)} of {len(problems)} prompts are too long for the context of {args.model}, which leaves {max_tokens} tokens for a prompt"
            f" beside a completion of {args.completion_tokens}",
            [f"'{problem['id']}' ({length} tokens)" for problem, length in too_long],
            len(problems),
            "shorten the prompts, lower the task's completion_tokens, or choose a model with a larger context",
            "these prompts are left out",
        )
    too_long_ids = {problem["id"] for problem, _ in too_long}
    files.write_jsonl(
        args.output, [problem for problem in problems if problem["id"] not in too_long_ids]
    )
    print(
        f"{args.output}: {len(problems) - len(too_long_ids)} of {len(problems)} prompts fit; the longest prompt of all has {max(lengths)} tokens"
    )


if __name__ == "__main__":
    warm.run(main)
