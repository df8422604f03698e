"""Convert a file that other authors published into a recording, a table of accuracies or a
trajectory.

--format responses: a JSON list with a list of texts for each question. A text consists of the
prompt ("user ..."), the word "assistant" and the completion. --questions lists the questions in the
same order: JSON Lines with question and answer (after the last ####, if there is one), or a JSON
object with the list `answer` alone; then a row's question is its prompt, and its id its number.

--format accuracies: a JSON object with the list `checkpoint`, lists of the same length such as
`accuracy`, `pass@3` and `30 accuracy` (on the questions with a pass rate of at most 30 %), and, if
published, values of the base model such as `base accuracy`.

--format shares: a JSON object that maps each prompt to its shares of right rollouts, one for each
epoch.
"""

from hardgrpo.data import inputs, recorded_accuracies, trajectory_files
from hardgrpo.runtime import errors, files

import argparse
import re

MEASURE = re.compile(r"(?:(\d+) )?(accuracy|pass@\d+)")


def main() -> None:
    parser = errors.parser(__doc__, "--original", "--output")
    parser.add_argument("--format", required=True, choices=["responses", "accuracies", "shares"])
    parser.add_argument("--questions", help="for responses: questions and answers")
    parser.add_argument("--scores", help="a JSON list of published pass rates, to add or count")
    parser.add_argument("--rollouts", type=int, help="for shares: rollouts behind each share")
    inputs.add_repository_arguments(parser)
    args = parser.parse_args()

    paths = [path for path in (args.original, args.questions, args.scores) if path]
    inputs.check_originals(args, paths)
    try:
        rows = FORMATS[args.format](args)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise errors.UserError(
            f"{', '.join(paths)}: not of format {args.format} ({error}); get the files again from the same commit"
        ) from None
    if args.format == "responses":
        files.write_jsonl(args.output, rows)
        completions = sum(len(row["completions"]) for row in rows)
        print(f"{args.output}: {completions} completions of {len(rows)} questions")
        return
    module = recorded_accuracies if args.format == "accuracies" else trajectory_files
    files.write_rows(args.output, list(module.COLUMNS), rows)
    print(f"{args.output}: {len(rows)} rows from {args.original}")


# --- completions


def responses(args: argparse.Namespace) -> list[dict]:
    """The rows of a recording. Raise a `ValueError` if the files do not belong together."""
    texts, questions = read(args.original), read_questions(args.questions)
    scores = read(args.scores) if args.scores else [None] * len(questions)
    rows = []
    for index, ((question, answer), question_texts, score) in enumerate(
        zip(questions, texts, scores, strict=True)
    ):
        split_texts = [split_text(text, question, f"entry {index}") for text in question_texts]
        (prompt,) = {prompt for prompt, _ in split_texts}
        rows.append(
            ({} if question else {"id": f"{index:04d}"})
            | {"question": question or prompt, "answer": answer, "prompt": prompt}
            | {"completions": [completion for _, completion in split_texts]}
            | ({} if score is None else {"published_pass_rate": score})
        )
    return rows


def read_questions(path: str) -> list[tuple[str | None, str]]:
    """[(question, answer)] of a file of questions; the questions are None if it holds only answers."""
    text = files.read_user_text(path)
    if text.lstrip().startswith("{") and '"question"' not in text.split("\n", 1)[0]:
        return [(None, answer) for answer in read(path)["answer"]]
    rows = files.parse_jsonl(text, path, {"question": str, "answer": (str, int)})
    return [(row["question"], str(row["answer"]).rpartition("####")[2].strip()) for _, row in rows]


def split_text(text: str, question: str | None, place: str) -> tuple[str, str]:
    """(prompt, completion) of a text of "user" (may be missing), the prompt with the question,
    "assistant" and the completion. Chat templates differ in the line breaks around these words."""
    begin = text.find(question) if question else 0
    if begin < 0:
        raise ValueError(f"{place} does not hold its question '{question[:60]}...'")
    after = begin + len(question or "")
    for mark in ("\nassistant\n", "assistant\n\n", "assistant"):
        end = text.find(mark, after)
        if end >= 0:
            user = re.search(r"(?:\A|\n)user\n*", text[: begin or end])
            prompt = text[user.end() if user else 0 : end]
            return prompt, text[end + len(mark) :]
    raise ValueError(f"{place} has no 'assistant' after the question")


# --- numbers


def accuracies(args: argparse.Namespace) -> list[dict]:
    """The rows of published accuracies, one for each checkpoint, measure and set of questions."""
    content, rows = read(args.original), []
    scores = read(args.scores) if args.scores else None
    steps = content["checkpoint"]
    for key, values in content.items():
        if not (match := MEASURE.fullmatch(key)):
            continue
        percent = int(match[1] or 100)
        facts = {
            "measure": match[2],
            "at_most_percent": percent,
            "base": content.get(f"base {key}"),
            "problems": scores and sum(100 * score <= percent + 1e-6 for score in scores),
        }
        rows += [
            {"step": step, "value": value} | facts
            for step, value in zip(steps, values, strict=True)
        ]
    if not rows:
        raise ValueError(f"no key with accuracies, {MEASURE.pattern}")
    return rows


def shares(args: argparse.Namespace) -> list[dict]:
    """The rows of a trajectory. Raise a `ValueError` for a share that is no multiple of 1/rollouts."""
    rows = []
    for prompt, epoch_shares in read(args.original).items():
        for epoch, share in enumerate(epoch_shares):
            correct = round(share * args.rollouts)
            if not 0 <= share <= 1 or abs(share * args.rollouts - correct) > 1e-6:
                raise ValueError(
                    f"prompt '{prompt}', epoch {epoch}: {share!r} is not a multiple of 1/{args.rollouts} from 0 to 1"
                )
            facts = {"correct": correct, "rollouts": args.rollouts}
            rows.append({"id": prompt, "epoch": epoch} | facts)
    # Sort by length first, so that ids like 9 and 10 are in the order of their numbers.
    return sorted(rows, key=lambda row: (len(row["id"]), row["id"], row["epoch"]))


FORMATS = {"responses": responses, "accuracies": accuracies, "shares": shares}


def read(path: str):
    return files.parse_json(files.read_user_text(path), path, "get the file again", numbers=True)


if __name__ == "__main__":
    errors.run(main)
