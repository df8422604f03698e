"""Write the problems whose prompt leaves enough of a model's context for a completion, and report
the others, which may be at most 1 %.
"""

from hardgrpo.data import tasks
from hardgrpo.runtime import errors, files, provenance, warm


def main() -> None:
    parser = errors.parser(__doc__, "--problems", "--model", "--prompt", "--output")
    parser.add_argument("--completion-tokens", type=int, required=True)
    parser.add_argument("--chat", default={}, type=files.as_object, help="for the chat template")
    args = parser.parse_args()

    provenance.check_manifest(args.model)
    problems = tasks.read_problems(args.problems, needs_answer=False)

    from hardgrpo.sampling import engines, model_folders  # import torch: see hardgrpo.runtime.warm

    conversations = [tasks.messages(args.prompt, problem["question"]) for problem in problems]
    tokenizer = model_folders.load_tokenizer(args.model)
    lengths = list(map(len, model_folders.token_ids(tokenizer, conversations, args.chat)))
    limit = engines.max_prompt_tokens(args.model, args.completion_tokens)
    max_tokens = max(lengths) if limit is None else limit
    fitting = [row for row, length in zip(problems, lengths) if length <= max_tokens]
    if len(fitting) < len(problems):
        tasks.leave_out(
            f"{args.problems}: {len(problems) - len(fitting)} of {len(problems)} prompts are too long for the context of {args.model}, which leaves {max_tokens} tokens for a prompt"
            f" beside a completion of {args.completion_tokens}",
            [
                f"'{row['id']}' ({length} tokens)"
                for row, length in zip(problems, lengths)
                if length > max_tokens
            ],
            len(problems),
            "shorten the prompts, lower the task's completion_tokens, or choose a model with a larger context",
            "these prompts are left out",
        )
    files.write_jsonl(args.output, fitting)
    print(
        f"{args.output}: {len(fitting)} of {len(problems)} prompts fit; the longest prompt of all has {max(lengths)} tokens"
    )


if __name__ == "__main__":
    warm.run(main)
