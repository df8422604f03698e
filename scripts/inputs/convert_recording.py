"""Convert a file that other authors published into a recording, a table of accuracies or a
trajectory in this project's format.

    python scripts/inputs/convert_recording.py --format responses --original test_responses.json \\
        --questions test.json --output results/recordings/M/T/base.jsonl.gz

--format responses: a JSON list with a list of texts for each question. Each text consists of the
prompt ("user ..."), the word "assistant" and the completion. --questions lists the questions
in the same order: JSON Lines with question and answer (if an answer contains ####, only the text
after the last #### counts), or a JSON object with answers alone, in the list `answer`. --scores
adds published pass rates (a JSON list). The output is JSON Lines: question, answer, prompt,
completions and, with --scores, published_pass_rate. If --questions has answers alone, each row's
question is its prompt, and each row also has an id: its number, counted from 0. The ids are needed,
because prompts may repeat.

--format accuracies: a JSON object with the list `checkpoint`, lists of the same length such as
`accuracy`, `pass@3` and `30 accuracy` (on the questions with a pass rate of at most 30 %), and, if
published, values of the base model such as `base accuracy`. From the pass rates in --scores, the
program counts the questions on which each value was measured; without --scores, these counts are
empty. The output is a CSV file.

--format shares: a JSON object that maps each prompt to its shares of right rollouts, one for each
epoch; --rollouts is the number of rollouts behind each share. The output is a trajectory (CSV: id,
epoch, correct, rollouts).

With --repository, --commit and --names, the program compares the files with the checksums in
--lock, and adds an entry for each file that the lock does not list. --names gives the paths that
the files of --original, --questions and --scores (in this order) have in the repository.
"""

from hardgrpo.data import inputs, recorded_accuracies, trajectory_files
from hardgrpo.runtime import errors, files

import argparse
import os
import re

MEASURE = re.compile(r"(?:(\d+) )?(accuracy|pass@\d+)")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--format", required=True, choices=["responses", "accuracies", "shares"])
    parser.add_argument("--original", required=True, help="the file as its authors published it")
    parser.add_argument(
        "--questions", help="for responses: questions and answers for --original, in the same order"
    )
    parser.add_argument(
        "--scores",
        help="published pass rates, for responses (in the order of --questions) and for accuracies",
    )
    parser.add_argument(
        "--rollouts", type=int, help="for shares: rollouts of each prompt in each epoch"
    )
    inputs.add_repository_arguments(parser)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    inputs.check_originals(
        args, [path for path in (args.original, args.questions, args.scores) if path]
    )
    if args.format == "responses":
        rows = responses(args.original, args.questions, args.scores)
        files.write_jsonl(args.output, rows)
        print(
            f"{args.output}: {sum(len(row['completions']) for row in rows)} completions of {len(rows)} questions"
        )
        return
    if args.format == "accuracies":
        columns, rows = recorded_accuracies.COLUMNS, accuracies(args.original, args.scores)
    else:
        columns, rows = trajectory_files.COLUMNS, shares(args.original, args.rollouts)
    files.write_rows(args.output, list(columns), rows)
    print(f"{args.output}: {len(rows)} rows from {args.original}")


# --- completions


def responses(original: str, questions_path: str | None, scores_path: str | None) -> list[dict]:
    """The rows of a recording. Raise a `UserError` if the lists have different lengths, if a text
    does not contain its question, or if the texts of a question have different prompts."""
    if questions_path is None:
        raise errors.UserError(
            "--questions is missing; --format responses needs the file of the questions"
        )
    texts = read_list(original, list, "a list of texts for each question")
    questions = read_questions(questions_path)
    scores = read_scores(scores_path) if scores_path else [None] * len(questions)
    for path, values in ((original, texts), (scores_path, scores)):
        if len(values) != len(questions):
            raise errors.UserError(
                f"{path}: {len(values)} entries, but {questions_path} has {len(questions)} questions; expected one entry for each question: get both"
                " files from the same commit"
            )
    rows = []
    for index, (question, answer) in enumerate(questions):
        place = f"{original}: entry {index} (counted from 0)"
        if not texts[index] or not all(isinstance(text, str) for text in texts[index]):
            raise errors.UserError(
                f"{place}: expected a list of at least one text; get the file again"
            )
        split_texts = [
            split_text(text, question, f"{place}, text {number}")
            for number, text in enumerate(texts[index])
        ]
        prompts = list(dict.fromkeys(prompt for prompt, _ in split_texts))
        if len(prompts) > 1:
            raise errors.UserError(
                f"{place}: its texts have {len(prompts)} different prompts, expected one; get the file again"
            )
        row = (
            {"question": question, "answer": answer}
            if question
            else {"id": f"{index:04d}", "question": prompts[0], "answer": answer}
        )
        row |= {"prompt": prompts[0], "completions": [completion for _, completion in split_texts]}
        rows.append(row | ({} if scores[index] is None else {"published_pass_rate": scores[index]}))
    return rows


def read_questions(path: str) -> list[tuple[str | None, str]]:
    """[(question, answer)] of a file of questions. The questions are None if the file holds only
    answers."""
    text = files.read_user_text(path)
    if text.lstrip().startswith("{") and '"question"' not in text.split("\n", 1)[0]:
        content = files.parse_json(
            text,
            path,
            "expected JSON Lines with question and answer, or a JSON object with the list `answer`",
        )
        if not isinstance(content.get("answer"), list) or not all(
            isinstance(answer, str) for answer in content["answer"]
        ):
            raise errors.UserError(
                f"{path}: has no list `answer` of texts; expected the answers in the order of the completions"
            )
        return [(None, answer) for answer in content["answer"]]
    rows = files.parse_jsonl(text, path, {"question": str, "answer": (str, int)})
    return [(row["question"], str(row["answer"]).rpartition("####")[2].strip()) for _, row in rows]


def split_text(text: str, question: str | None, place: str) -> tuple[str, str]:
    """(prompt, completion) of a text that consists of "user", the prompt with the question,
    "assistant" and the completion. "user" may be missing. Chat templates differ in the line breaks
    around these words."""
    begin = text.find(question) if question else 0
    if begin < 0:
        raise errors.UserError(
            f"{place}: does not hold its question '{question[:60]}...'; the files belong to different questions"
        )
    after = begin + len(question or "")
    for mark in ("\nassistant\n", "assistant\n\n", "assistant"):
        end = text.find(mark, after)
        if end >= 0:
            user = re.search(r"(?:\A|\n)user\n*", text[: begin or end])
            prompt = text[user.end() if user else 0 : end]
            return prompt, text[end + len(mark) :]
    raise errors.UserError(
        f"{place}: has no 'assistant' after the question; expected the prompt, this word and the completion"
    )


# --- numbers


def accuracies(original: str, scores_path: str | None) -> list[dict]:
    """The rows of a table of published accuracies: a row for each checkpoint, measure and set of
    questions."""
    content, rows = read_object(original), []
    scores = read_scores(scores_path) if scores_path else None
    steps = content.get("checkpoint")
    if (
        not isinstance(steps, list)
        or not steps
        or not all(type(step) is int and step >= 0 for step in steps)
    ):
        raise errors.UserError(
            f"{original}: has no list `checkpoint` with the number of updates (0 or more) of each checkpoint; get the file again"
        )
    for key, values in content.items():
        if not (match := MEASURE.fullmatch(key)):
            continue
        base = content.get(f"base {key}")
        is_list = isinstance(values, list) and len(values) == len(steps)
        if not is_list or not all(
            is_share(value) for value in [*values, 0 if base is None else base]
        ):
            raise errors.UserError(
                f"{original}: '{key}': expected {len(steps)} shares from 0 to 1, one for each checkpoint, and a share from 0 to 1 in 'base {key}' (if present); get the file again"
            )
        percent = int(match[1] or 100)
        problems = (
            None if scores is None else sum(100 * score <= percent + 1e-6 for score in scores)
        )
        facts = {
            "measure": match[2],
            "at_most_percent": percent,
            "base": base,
            "problems": problems,
        }
        rows += [{"step": step, "value": value} | facts for step, value in zip(steps, values)]
    if not rows:
        raise errors.UserError(
            f"{original}: has no key with accuracies ({MEASURE.pattern}); found {errors.printable(errors.first_entries([str(key)[:60] for key in content]))}; correct the file's name in the configuration"
        )
    return rows


def shares(original: str, rollouts: int | None) -> list[dict]:
    """The rows of a trajectory. Raise a `UserError` for a share that is not a multiple of
    1/rollouts from 0 to 1."""
    if rollouts is None or rollouts < 2:
        raise errors.UserError(
            "--rollouts is missing or below 2; give the number of rollouts behind each share"
        )
    rows = []
    for prompt, epoch_shares in read_object(original).items():
        if not isinstance(epoch_shares, list) or not epoch_shares:
            raise errors.UserError(
                f"{original}: prompt '{prompt}': expected a list of shares, one for each epoch"
            )
        for epoch, share in enumerate(epoch_shares):
            if not is_share(share) or abs(share * rollouts - round(share * rollouts)) > 1e-6:
                raise errors.UserError(
                    f"{original}: prompt '{prompt}', epoch {epoch}: {share!r} is not a multiple of 1/{rollouts} from 0 to 1; correct --rollouts"
                    " (`rollouts` in the configuration), or get the file again"
                )
            rows.append(
                {
                    "id": prompt,
                    "epoch": epoch,
                    "correct": round(share * rollouts),
                    "rollouts": rollouts,
                }
            )
    # Sort by length first, so that ids like 9 and 10 are in the order of their numbers.
    return sorted(rows, key=lambda row: (len(row["id"]), row["id"], row["epoch"]))


def read_scores(path: str) -> list[float]:
    """Published pass rates. Raise a `UserError` for a value that is not a share."""
    scores = read_list(path, (int, float), "a pass rate for each question")
    wrong = next((index for index, score in enumerate(scores) if not is_share(score)), None)
    if wrong is not None:
        raise errors.UserError(
            f"{path}: entry {wrong} (counted from 0) is {scores[wrong]:g}, expected a pass rate from 0 to 1; get the file again"
        )
    return scores


def is_share(value) -> bool:
    """Whether a value of a JSON file is a number from 0 to 1."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


# --- JSON


def read_object(path: str) -> dict:
    """The JSON object in a file."""
    return _read(path, dict, "a JSON object")


def read_list(path: str, kind: type | tuple, form: str) -> list:
    """The JSON list in a file. Raise a `UserError` for an entry that is not of type `kind`."""
    values = _read(path, list, f"a JSON list with {form}")
    wrong = next(
        (
            index
            for index, value in enumerate(values)
            if not isinstance(value, kind) or isinstance(value, bool)
        ),
        None,
    )
    if wrong is not None:
        raise errors.UserError(
            f"{path}: entry {wrong} (counted from 0) is of kind {type(values[wrong]).__name__}; expected {form}"
        )
    return values


def _read(path: str, kind: type, form: str):
    """The content of a JSON file. Raise a `UserError` for an empty file and for content that is not
    of type `kind`."""
    if os.path.exists(path) and os.path.getsize(path) == 0:
        raise errors.UserError(
            f"{path}: is empty (0 bytes), expected {form}; get the file again, or leave the file out if its authors published an empty file"
        )
    content = files.parse_json(
        files.read_user_text(path), path, f"expected {form}; get the file again", numbers=True
    )
    if not isinstance(content, kind):
        raise errors.UserError(f"{path}: expected {form}, found {type(content).__name__}")
    return content


if __name__ == "__main__":
    errors.run(main)
