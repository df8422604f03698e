"""Cut completions to a smaller token limit, or take fewer samples of a probe, to compare two tasks
on the same samples.

To cut an evaluation, also give its graded completions (--graded); the cut completions are graded
again (--problems, --grader, --output-graded).
"""

from hardgrpo.data import completions, evaluations, tasks
from hardgrpo.runtime import errors, files, provenance


def main() -> None:
    parser = errors.parser(__doc__, "--model", "--completions", "--output")
    parser.add_argument("--completion-tokens", type=int, required=True, help="the limit to cut at")
    parser.add_argument("--samples", type=int, help="to keep, besides held-out ones (default: all)")
    parser.add_argument("--of", type=int, help="samples that are not held out, before the cut")
    parser.add_argument("--graded", help="the graded completions")
    parser.add_argument("--problems")
    parser.add_argument("--grader")
    parser.add_argument("--output-graded", help="graded completions of the cut evaluation")
    args = parser.parse_args()
    provenance.check_manifest(args.model)
    from hardgrpo.sampling import model_folders  # imported late, because the import takes seconds

    tokenizer = model_folders.load_tokenizer(args.model)
    rows = files.read_jsonl(args.completions, {"id": str, "completion": str})
    if args.graded:
        lengths = read_lengths(args.graded, rows)
    else:
        if args.samples is not None:
            rows = [row for row in rows if not args.samples <= row["sample"] < args.of]
        lengths = [(row["tokens"], row["finish_reason"]) for row in rows]
    retokenized_count = sum(
        not completions.keeps_token_count(tokenizer, row["completion"], *length)
        for row, length in zip(rows, lengths)
    )
    limit = args.completion_tokens
    cuts = [
        completions.truncate(tokenizer, row["completion"], *length, limit)
        for row, length in zip(rows, lengths)
    ]
    shortened = sum(tokens < original for (_, tokens, _), (original, _) in zip(cuts, lengths))
    if args.graded:
        problems = {problem["id"]: problem for problem in tasks.read_problems(args.problems)}
        graded = [
            evaluations.grade(
                args.grader, problems[row["id"]], row["step"], row["decoding"], row["sample"], *cut
            )
            for row, cut in zip(rows, cuts)
        ]
        evaluations.write(args.output_graded, graded)
    for row, (text, tokens, reason) in zip(rows, cuts):
        row["completion"] = text
        if args.graded:
            continue
        if tokens < row["tokens"]:
            row["log_probability"] = None  # the mean over the remaining tokens is unknown
        row |= {"tokens": tokens, "finish_reason": reason}
    files.write_jsonl(args.output, rows)
    print(f"{args.output}: {shortened} of {len(rows)} completions cut at {limit} tokens")
    if retokenized_count:
        print(
            f"{retokenized_count} completions have another number of tokens when their texts are tokenized again; their cuts may be a few tokens too early or too late"
        )


def read_lengths(graded: str, rows: list[dict]) -> list[tuple[int, str]]:
    """(tokens, finish reason) of each completion, read from its evaluation."""
    frame = evaluations.read(graded)[[*evaluations.KEY_COLUMNS, "tokens", "truncated"]]
    lengths = {
        tuple(key): (int(tokens), "length" if is_truncated else "stop")
        for *key, tokens, is_truncated in frame.itertuples(index=False)
    }
    return [lengths[tuple(row[name] for name in evaluations.KEY_COLUMNS)] for row in rows]


if __name__ == "__main__":
    errors.run(main)
