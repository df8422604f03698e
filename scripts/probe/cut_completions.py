"""Cut completions to a smaller limit, or take fewer of a probe, so that two tasks can be compared on the same samples.

    python scripts/probe/cut_completions.py --model results/models/wordy --completions ample.jsonl.gz --completion-tokens 60 \\
        --output tight.jsonl.gz

cuts a probe. With `--samples 1 --of 8` only the first of the eight samples that choose is kept; samples that are held out, numbered
from 8, all stay. To cut an evaluation, also give its graded completions (--graded). The cut completions are then graded again
(--problems, --grader, --output-graded).
"""

from hardgrpo.data import completions, evaluations, tasks
from hardgrpo.grading import graders
from hardgrpo.runtime import errors, files, provenance

import argparse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="model folder, for its tokenizer")
    parser.add_argument("--completions", required=True, help="file written by probe.py or evaluate.py")
    parser.add_argument("--completion-tokens", type=int, required=True, help="the smaller limit")
    parser.add_argument("--samples", type=int, help="keep this many of a prompt's samples that choose (default: all)")
    parser.add_argument("--of", type=int, help="the number of samples that choose; further ones are held out")
    parser.add_argument("--graded", help="the evaluation that the completions belong to")
    parser.add_argument("--problems")
    parser.add_argument("--grader")
    parser.add_argument("--output", required=True, help="the completions, cut")
    parser.add_argument("--output-graded", help="their evaluation")
    args = parser.parse_args()
    evaluation = [args.graded, args.problems, args.grader, args.output_graded]
    if any(evaluation) and not all(evaluation):
        parser.error("--graded, --problems, --grader and --output-graded belong together")
    if (args.samples is None) != (args.of is None) or args.samples and args.graded:
        parser.error("--samples and --of belong together, and are for a probe")

    if args.grader:
        graders.check_grader(args.grader, args.completions)
    provenance.check_manifest(args.model)
    from hardgrpo.sampling import model_folders  # takes seconds, so after the check of the arguments

    tokenizer = model_folders.load_tokenizer(args.model)
    if not args.graded:
        keys = {"id": (str, int), "completion": str, "tokens": int, "finish_reason": str}
        rows = files.read_jsonl(args.completions, keys | ({"sample": int} if args.samples else {}))
        rows = [row for row in rows if args.samples is None or not args.samples <= row["sample"] < args.of]
        lengths = [(row["tokens"], row["finish_reason"]) for row in rows]
    else:
        keys = {"step": int, "id": (str, int), "decoding": str, "sample": int, "completion": str}
        rows = files.read_jsonl(args.completions, keys)
        lengths = lengths_of(args, rows)
    odd = sum(not completions.keeps_token_count(tokenizer, row["completion"], *length) for row, length in zip(rows, lengths))
    cut = [
        completions.truncate(tokenizer, row["completion"], *length, args.completion_tokens) for row, length in zip(rows, lengths)
    ]
    shortened = sum(tokens < before for (_, tokens, _), (before, _) in zip(cut, lengths))
    if not args.graded:
        for row, (text, n, reason) in zip(rows, cut):
            if n < row["tokens"]:
                row["log_probability"] = None  # known as a mean over all tokens, not over the first ones
            row |= {"completion": text, "tokens": n, "finish_reason": reason}
        files.write_jsonl(args.output, rows)
    else:
        problems = {problem["id"]: problem for problem in tasks.read_problems(args.problems)}
        graded = []
        for row, (text, tokens, reason) in zip(rows, cut):
            problem = problems[row["id"]]
            grade = graders.grade(args.grader, text, problem["answer"])
            graded.append(evaluations.row(row["step"], problem, row["decoding"], row["sample"], grade, text, tokens, reason))
        files.write_jsonl(args.output, [row | {"completion": text} for row, (text, *_) in zip(rows, cut)])
        evaluations.write(args.output_graded, graded)
    print(f"{args.output}: {shortened} of {len(rows)} completions cut at {args.completion_tokens} tokens")
    if odd:
        print(f"{odd} of them have other tokens than the tokenizer would choose: their cut may be some tokens early or late")


def lengths_of(args: argparse.Namespace, rows: list[dict]) -> list[tuple[int, str]]:
    """(tokens, finish reason) of each completion, from its evaluation."""
    frame = evaluations.read(args.graded)
    key = ["step", "id", "decoding", "sample"]
    known = {tuple(values): (tokens, cut) for *values, tokens, cut in frame[[*key, "tokens", "truncated"]].itertuples(index=False)}
    problems = {problem["id"] for problem in tasks.read_problems(args.problems)}
    lengths = []
    for line, row in enumerate(rows, start=1):
        row["id"] = str(row["id"])
        if (found := known.pop(tuple(row[name] for name in key), None)) is None or found[0] != found[0]:
            raise errors.UserError(f"{args.completions}: row {line}: {args.graded} has no such completion; make both again")
        if row["id"] not in problems:
            raise errors.UserError(
                f"{args.completions}: row {line}: problem '{row['id']}' is not in {args.problems}; make it again"
            )
        lengths.append((int(found[0]), "length" if found[1] else "stop"))
    if known:
        raise errors.UserError(f"{args.completions}: {len(known)} completions of {args.graded} are missing; make both again")
    return lengths


if __name__ == "__main__":
    errors.run(main)
