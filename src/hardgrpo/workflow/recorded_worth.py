"""`hardgrpo worth`: say whether a training outside of this project was worth it, from recorded
completions before and after the training."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from hardgrpo.data import sources
from hardgrpo.grading import graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError, printable
from hardgrpo.study import paths
from hardgrpo.workflow import own_files
from hardgrpo.workflow.own_files import as_name, columns_of, find_column

ID_COLUMNS = ("id", "question_id", "prompt_id", "problem_id", "task_id", "uid", "index", "idx")
COMPLETION_COLUMNS = (
    "completions",
    "completion",
    "responses",
    "response",
    "outputs",
    "output",
    "generations",
    "generation",
    "generated_text",
    "predictions",
    "prediction",
)
TOKENS_COLUMNS = ("tokens", "completion_tokens", "output_tokens")
FINISH_COLUMNS = ("finish_reasons", "finish_reason")
# The grader is chosen by the first completion of each prompt; of many prompts, by a sample of at
# least this number of completions and fewer than twice this number.
GRADER_SAMPLE = 400
RUN, STEP = "after", 1  # policy and step of the recorded run


@dataclass
class Record:
    """A prompt's completions. `tokens` and `finish_reasons` are empty unless the file has a value
    for each completion."""

    completions: list[str]
    tokens: list[int]
    finish_reasons: list[str]


@dataclass
class Recording:
    """A file of completions: records, questions and answers, each by prompt id."""

    path: str
    records: dict[str, Record]
    questions: dict[str, str]
    answers: dict[str, str]

    @property
    def samples(self) -> int:
        """The number of completions of each prompt."""
        return len(next(iter(self.records.values())).completions)


@dataclass
class Columns:
    """The names of a file's columns. Only `id` and `completion` are in every file."""

    id: str
    completion: str
    question: str | None
    answer: str | None
    tokens: str | None
    finish: str | None


def add_command(commands) -> None:
    worth = commands.add_parser(
        "worth",
        help="say whether your own training was worth it, from completions before and after it",
    )
    worth.set_defaults(run=run)
    worth.add_argument("before", help="completions of the base model: JSON Lines, CSV or TSV")
    worth.add_argument("after", help="completions of the trained model on the same prompts")
    worth.add_argument(
        "--problems", help="file of ids, questions and answers, if the recordings have no answers"
    )
    for name, what in (
        ("id", "ids of the prompts; if there is none, the questions are the ids"),
        ("question", "questions"),
        ("answer", "reference answers"),
        ("completion", "completions: a text, or a list of texts"),
    ):
        worth.add_argument(
            f"--{name}",
            metavar="COLUMN",
            help=f"column of {what} (default: a column with a usual name)",
        )
    worth.add_argument(
        "--completion-tokens",
        type=int,
        default=512,
        help="largest number of tokens of a completion (default: %(default)s)",
    )
    worth.add_argument(
        "--grader",
        choices=list(graders.GRADERS),
        help="default: of the graders that read almost all reference answers, the one that finds an answer in the most completions",
    )


def run(args: argparse.Namespace) -> None:
    before, after = read(args.before, args), read(args.after, args)
    check_comparable(before, after)
    problems = find_problems(before, after, args)
    grader = args.grader or find_grader(problems, before, after)
    stems = [Path(path).name.partition(".")[0] for path in (args.before, args.after)]
    name = as_name("-".join(["worth", *stems]))
    samples = before.samples
    print(
        f"{len(problems)} prompts, {samples} completions of each before and after, grader {grader}",
        flush=True,
    )
    config = build_config(name, grader, samples, args.completion_tokens, stems)
    path, _ = own_files.write_configuration(config, name)
    for recording, file in ((before, "before.jsonl"), (after, f"after-{STEP}.jsonl")):
        rows = [as_row(problem, recording) for problem in problems]
        files.write_jsonl(Path(paths.CHOICES) / name / file, rows)
    page = f"paper/{name}/worth.html"
    own_files.run_workflow(path, f"{paths.computed(name)}/gains.csv", page)
    print(f"open  {own_files.ROOT / page}")


# --- recordings ---


def read(path: str, args: argparse.Namespace) -> Recording:
    """The recording in a file. Each row holds a prompt with one completion, or with all its
    completions. Raise a `UserError` if the prompts have different numbers of completions."""
    rows = read_rows(path)
    columns = find_columns(path, columns_of(rows.rows), args)
    recording = Recording(path, {}, {}, {})
    for place, row in zip(rows.places, rows.rows):
        add_row(recording, columns, place, row)
    counts = {key: len(record.completions) for key, record in recording.records.items()}
    most = max(counts.values())
    for key, count in counts.items():
        if count != most:
            raise UserError(
                f"{path}: prompt '{printable(key)}' has {count} completions, other prompts have {most}; expected the same number for every prompt:"
                " add or remove some"
            )
    for record in recording.records.values():
        if len(record.tokens) != most:
            record.tokens = []
        if len(record.finish_reasons) != most:
            record.finish_reasons = []
    return recording


def find_columns(path: str, columns: list[str], args: argparse.Namespace) -> Columns:
    """The columns of a recording. If no column holds ids, the questions serve as ids. Raise a
    `UserError` if the column of completions or the column of ids is missing."""
    completion = find_column(path, columns, args.completion, COMPLETION_COLUMNS)
    question = find_column(path, columns, args.question, own_files.QUESTION_COLUMNS)
    id_column = find_column(path, columns, args.id, ID_COLUMNS) or question
    if completion is None or id_column is None:
        what, option = ("completions", "--completion") if completion is None else ("ids", "--id")
        raise UserError(
            f"{path}: which column holds the {what}? name it with {option}; the columns are {', '.join(map(str, columns))}"
        )
    # a column such as `response` may hold the completions instead of the answers
    answer_columns = tuple(name for name in own_files.ANSWER_COLUMNS if name != completion)
    if args.answer:  # only one of the files needs this column
        answer = args.answer if args.answer in columns else None
    else:
        answer = find_column(path, columns, None, answer_columns)
    if answer in (completion, question, id_column):
        answer = None
    tokens = find_column(path, columns, None, TOKENS_COLUMNS)
    finish = find_column(path, columns, None, FINISH_COLUMNS)
    return Columns(id_column, completion, question, answer, tokens, finish)


def add_row(recording: Recording, columns: Columns, place: str, row: dict) -> None:
    """Add a row of the file to a recording. Raise a `UserError` that names the row's `place` if the
    row is invalid."""
    key = text_of(row.get(columns.id))
    if not key:
        raise UserError(f"{recording.path}, {place}: '{columns.id}' is empty; every row needs it")
    texts = as_list(row.get(columns.completion))
    if not texts or not all(isinstance(text, str) for text in texts):
        raise UserError(
            f"{recording.path}, {place}: '{columns.completion}' is {printable(json.dumps(row.get(columns.completion)))[:60]};"
            " expected a text, or a list of texts"
        )
    record = recording.records.setdefault(key, Record([], [], []))
    record.completions += texts
    record.tokens += token_counts(row.get(columns.tokens), len(texts))
    record.finish_reasons += [
        str(reason) for reason in as_list(row.get(columns.finish)) if reason not in (None, "")
    ]
    for values, column in (
        (recording.questions, columns.question),
        (recording.answers, columns.answer),
    ):
        value = text_of(row.get(column)) if column else ""
        if value and values.setdefault(key, value) != value:
            raise UserError(
                f"{recording.path}, {place}: '{column}' of prompt '{printable(key)}' differs from that of an earlier row; correct the ids"
            )


def read_rows(path: str) -> sources.Rows:
    if not Path(path).is_file():
        raise UserError(f"{path}: no such file; expected JSON Lines, CSV or TSV")
    return sources.read(path)


def as_list(value: object) -> list:
    return value if isinstance(value, list) else [value]


def text_of(value: object) -> str:
    return "" if value is None else str(value).strip()


def token_counts(value: object, completions: int) -> list[int]:
    """The numbers of tokens in a cell of a row, or [] if the cell does not hold one whole number
    for each completion of the row. `completions` is the number of completions."""
    texts = [str(entry) for entry in as_list(value)]
    is_complete = len(texts) == completions and all(map(str.isdecimal, texts))
    return [int(text) for text in texts] if is_complete else []


def check_comparable(before: Recording, after: Recording) -> None:
    """Raise a `UserError` unless both recordings have the same prompts and numbers of
    completions."""
    for recording, reference in ((after, before), (before, after)):
        if missing := [key for key in reference.records if key not in recording.records]:
            raise UserError(
                f"{recording.path}: {len(missing)} of {len(reference.records)} prompts of {reference.path} are missing, the first is"
                f" '{printable(missing[0])[:60]}'; expected completions of the same prompts with the same ids in both files"
            )
    if before.samples != after.samples:
        raise UserError(
            f"{after.path}: {after.samples} completions of each prompt, but {before.samples} in {before.path}; expected the same number in both files:"
            " sample the missing completions, or remove some"
        )


def find_problems(before: Recording, after: Recording, args: argparse.Namespace) -> list[dict]:
    """[{id, question, answer}] of the recorded prompts, in the order of `before`. Raise a
    `UserError` if a prompt has no answer, two different answers, or different questions in the two
    recordings. The questions of --problems are used only where the recordings have none."""
    questions, answers, places = dict(after.questions), dict(after.answers), [after.path]
    for key, question in before.questions.items():
        if questions.setdefault(key, question) != question:
            raise UserError(
                f"{after.path}: the question of prompt '{printable(key)}' differs from that in {before.path}; correct the ids"
            )
    answers_of_files = [(before.path, before.answers)]
    if args.problems:
        problem_questions, problem_answers = read_problems(args.problems, args)
        questions = problem_questions | questions
        answers_of_files.append((args.problems, problem_answers))
    for path, file_answers in answers_of_files:
        places.append(path)
        for key, value in file_answers.items():
            if key in before.records and value and answers.setdefault(key, value) != value:
                raise UserError(
                    f"{path}: the answer of prompt '{printable(key)}' is '{printable(value)[:40]}', elsewhere '{printable(answers[key])[:40]}';"
                    " expected the same answer in all files"
                )
    if missing := [key for key in before.records if key not in answers]:
        raise UserError(
            f"{before.path}: {len(missing)} of {len(before.records)} prompts have no answer in {', '.join(dict.fromkeys(places[::-1]))}, the first is"
            f" '{printable(missing[0])[:60]}'; name the column of answers with --answer, or a file of answers with --problems"
        )
    return [
        {"id": key, "question": questions.get(key, key), "answer": answers[key]}
        for key in before.records
    ]


def read_problems(path: str, args: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """({id: question}, {id: answer}) of the file of problems. If no column holds ids, the questions
    serve as ids. Raise a `UserError` if the column of ids or the column of answers is missing."""
    rows = read_rows(path).rows
    columns = columns_of(rows)
    question_option = args.question if args.question in columns else None
    id_option = args.id if args.id in columns else None
    question = find_column(path, columns, question_option, own_files.QUESTION_COLUMNS)
    answer = find_column(path, columns, args.answer, own_files.ANSWER_COLUMNS)
    id_column = find_column(path, columns, id_option, ID_COLUMNS) or question
    if id_column is None or answer is None:
        raise UserError(
            f"{path}: expected a column of ids or questions (such as {ID_COLUMNS[0]} or {own_files.QUESTION_COLUMNS[0]}; --id or --question can name it) and"
            f" a column of answers (--answer can name it); the columns are {', '.join(map(str, columns))}"
        )
    return (
        texts_by_id(path, rows, id_column, question) if question else {},
        texts_by_id(path, rows, id_column, answer),
    )


def texts_by_id(path: str, rows: list[dict], id_column: str, column: str) -> dict[str, str]:
    """{id: text of `column`}, without empty cells; `id_column` is the column of ids. Raise a
    `UserError` if an id has two different texts."""
    texts: dict[str, str] = {}
    for row in rows:
        name, text = text_of(row.get(id_column)), text_of(row.get(column))
        if text and texts.setdefault(name, text) != text:
            raise UserError(
                f"{path}: column '{printable(column)}' has two values for '{printable(name)[:60]}'; keep one"
            )
    return texts


def find_grader(problems: list[dict], before: Recording, after: Recording) -> str:
    """The grader that finds an answer in the most completions, among the graders that read almost
    all reference answers. Raise a `UserError` if there is no such grader, or if none of them finds
    an answer."""
    answers = [problem["answer"] for problem in problems]
    candidates = list(own_files.readers(answers))
    if "number_lenient" in candidates:
        candidates.append("final_number")
    if not candidates:
        raise UserError(
            f"{before.path}: {own_files.NO_GRADER}; the first answer is {answers[0][:60]!r}; name a grader with --grader"
        )
    pairs = [
        (recording.records[key].completions[0], answer)
        for recording in (before, after)
        for key, answer in zip(before.records, answers)
    ][:: max(1, 2 * len(answers) // GRADER_SAMPLE)]
    answered = {
        name: sum(graders.grade(name, *pair).answered for pair in pairs) for name in candidates
    }
    grader = max(candidates, key=answered.get)
    if not answered[grader]:
        forms = " or ".join(
            dict.fromkeys(graders.GRADERS[name].form % "ANSWER" for name in candidates)
        )
        raise UserError(
            f"{before.path}, {after.path}: none of {len(pairs)} completions states an answer in a form that a grader knows; expected {forms}; name a grader with --grader"
        )
    return grader


def as_row(problem: dict, recording: Recording) -> dict:
    """A row of a recording in this project's format."""
    record = recording.records[problem["id"]]
    row = problem | {"completions": record.completions}
    row |= {"tokens": record.tokens} if record.tokens else {}
    return row | ({"finish_reasons": record.finish_reasons} if record.finish_reasons else {})


def build_config(name: str, grader: str, samples: int, limit: int, stems: list[str]) -> dict:
    """The configuration of a study whose only run is recorded."""
    recordings = {"base": "before.jsonl", "runs": {RUN: "after-{step}.jsonl"}}
    return {
        "data": f"{paths.CHOICES}/{name}",
        "study": name,
        "tasks": {
            name: {
                "source": {"kind": "files", "test": "before.jsonl"},
                "prompt": "{question}",
                "grader": grader,
                "completion_tokens": limit,
                "probe": {"samples": samples, "shards": 1, "seed": 1},
                "test": {"samples": samples, "greedy": False, "seed": 2},
            }
        },
        "models": {"own": {"source": {"kind": "recorded", "recordings": {name: recordings}}}},
        "policies": {RUN: {"rule": "all"}},
        "studies": {
            name: {
                "title": " and ".join(stems),
                "models": ["own"],
                "tasks": [name],
                "arms": [{"policy": [RUN]}],
                "seeds": [0],
            }
        },
    }
