"""Turn the rows of a file into prompts: find the columns, recognise the layouts that this field
uses, build the messages that the model gets, and read the reference answers."""

import ast
import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from hardgrpo.data.question_ids import normalize_spaces, question_id
from hardgrpo.data.reference_answers import reference_of
from hardgrpo.data.row_files import Rows
from hardgrpo.data.spreadsheets import DECIMAL_COMMA
from hardgrpo.runtime.errors import RowError, UserError, first_entries, refuse_rows

# {layout: (columns that identify it, column of the prompt, column of the answer)}, the first that
# fits is taken. The columns are those of the projects' documentation and dataset cards.
LAYOUTS = {
    "verl": (("prompt", "reward_model.ground_truth"), "prompt", "reward_model.ground_truth"),
    "MMLU-Pro": (("question", "options", "answer_index"), "question", "answer"),
    "ARC": (("question", "choices", "answerKey"), "question", "answerKey"),
    "MMLU": (("question", "choices", "subject", "answer"), "question", "answer"),
    "Big-Math": (("problem", "answer", "llama8b_solve_rate"), "problem", "answer"),
    "NuminaMath-1.5": (("problem", "solution", "answer", "problem_type"), "problem", "answer"),
    "NuminaMath": (("problem", "solution", "messages", "source"), "problem", "solution"),
    "open-r1 or DeepScaleR": (("problem", "solution", "answer"), "problem", "answer"),
    "verifiers or prime-rl": (("prompt", "answer", "info"), "prompt", "answer"),
    "verifiers or prime-rl, with questions": (("question", "answer", "info"), "question", "answer"),
    "TRL, with answers": (("prompt", "solution", "answer"), "prompt", "answer"),
    "TRL": (("prompt", "solution"), "prompt", "solution"),
    "Alpaca": (("instruction", "input", "output"), "instruction", "output"),
    "Dolly": (("instruction", "context", "response"), "instruction", "response"),
    "BIG-Bench Hard": (("input", "target"), "input", "target"),
}
QUESTIONS = ("question", "prompt", "problem", "query", "instruction", "messages", "conversations")
QUESTIONS += ("doc.question", "doc.problem", "text", "input")
# the answer itself comes before worked solutions, which hold the answer at their end
ANSWERS = ("answer", "final_answer", "expected_answer", "ground_truth", "reward_model.ground_truth")
ANSWERS += ("gold_answer", "correct_answer", "reference_answer", "answerKey", "answer_key", "gold")
ANSWERS += ("correct answer", "extra_info.answer", "reference", "answers", "target", "cop")
ANSWERS += ("correct_option", "answer_index", "answer_idx", "solution", "output", "response")
ANSWERS += ("completion", "label")
OPTIONS = ("options", "choices")
# further columns of text that belong to the prompt: (before the question, after the question)
CONTEXTS, INPUTS = ("context", "passage", "article", "paragraph", "document", "story"), ("input",)
SYSTEMS = ("system", "system_prompt")
OPTION_COLUMN = re.compile(r"(?:option|opt|choice|answer|op)[ _-]?([A-Ja-j1-9])|([A-J])\)?")
ROLES = {"human": "user", "gpt": "assistant", "user": "user", "assistant": "assistant"}
ROLES |= {"system": "system", "developer": "developer"}
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
OWN_ID = re.compile(r"q[0-9a-f]{12}")
# a list of texts as NumPy prints it, without commas
PRINTED_LIST = re.compile(r"\[\s*(?:(?:'[^']*'|\"[^\"]*\")\s*)+\]")
FORMS = {
    "boxed": "End with your final answer in the form \\boxed{ANSWER}",
    "marks": "End with your final answer in the form #### ANSWER",
    "letter": "End with the letter of your answer in the form \\boxed{LETTER}",
}
PLACE = re.compile(r"(?<![A-Za-z])\{([^{}]+)\}")  # of a template; \boxed{N} is none
STATES_FORM = re.compile(r"\\?boxed|####|<answer>|Answer:|final answer", re.IGNORECASE)


@dataclass
class Prompt:
    """A prompt of the pool. `index` is its row; `question` is the text that identifies the prompt;
    `answer` is the reference answer, or None."""

    id: str
    index: int
    place: str
    question: str
    messages: tuple[dict, ...]
    answer: str | None


@dataclass
class Columns:
    """The columns of a file that are used, and what was recognised."""

    layout: str | None
    question: str
    answer: str | None
    further: list[str] = field(default_factory=list)  # they belong to the prompt
    options: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)


def value_of(row: dict, name: str | None) -> object:
    """The value of a column; dots lead into nested objects (`reward_model.ground_truth`), also into
    objects that a column holds as JSON text. None if there is none."""
    if name is None or name in row:
        return row.get(name)
    value: object = row
    for key in name.split("."):
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = json.loads(value)
            except ValueError:
                return None
        value = value.get(key) if isinstance(value, dict) else None
    return value


def column_names(rows: list[dict]) -> list[str]:
    """The columns of rows, with the columns of nested objects as `column.key`."""
    names: dict[str, None] = {}
    for row in rows:
        for name, value in row.items():
            nested = value if isinstance(value, dict) else {}
            names |= dict.fromkeys([str(name), *(f"{name}.{key}" for key in nested)])
    return list(names)


def find_column(
    path: str,
    columns: list[str],
    usual_names: tuple[str, ...],
    option: str,
    name: str | None = None,
) -> str | None:
    """The column `name` if a person named it with `option`, else the column with the first of
    `usual_names`, or None. Case is ignored. Raise a `UserError` if the column `name` is missing, or
    if two columns with a usual name differ only in case."""
    if name:
        matches = [column for column in columns if column.lower() == name.lower()]
        if name in columns or len(matches) == 1:
            return name if name in columns else matches[0]
        if name.rpartition(".")[0].partition(".")[0] in columns:  # deeper than `column_names` lists
            return name
        raise UserError(
            f"{path}: no column '{name}', which {option} names; the columns are {', '.join(columns)}"
        )
    for usual in usual_names:
        matches = [column for column in columns if column.strip().lower() == usual.lower()]
        if len(matches) > 1:
            raise UserError(
                f"{path}: the columns {' and '.join(matches)} differ only in case; name one with {option}"
            )
        if matches:
            return matches[0]
    return None


def no_column(path: str, content: str, remedy: str, columns: list[str]) -> UserError:
    """The error that the column of the `content` is unknown."""
    return UserError(
        f"{path}: which column holds the {content}? {remedy}; the columns are {', '.join(columns)}"
    )


def find_columns(content: Rows, question: str | None, answer: str | None) -> Columns:
    """The columns of a file of prompts. Raise a `UserError` if the column of the prompts is unknown
    or ambiguous."""
    path, rows = content.path, content.rows
    names = column_names(rows)
    layout = next((key for key, value in LAYOUTS.items() if set(value[0]) <= set(names)), None)
    if question or answer:
        layout = None
    if layout:
        _, question, answer = LAYOUTS[layout]
    else:
        is_question_named, is_answer_named = bool(question), bool(answer)
        question = find_column(path, names, QUESTIONS, "--question", question)
        question = names[0] if len(names) == 1 and question is None else question
        if question is None:
            raise no_column(path, "prompts", "name it with --question", names)
        if not is_question_named:
            _check_ambiguity(content, names, question, "--question")
        others = names if is_answer_named else [name for name in names if name != question]
        answer = find_column(path, others, ANSWERS, "--answer", answer)
        if not is_answer_named and answer in ANSWERS[:7]:
            _check_ambiguity(content, others, answer, "--answer")
    by_lower = {name.lower(): name for name in names if name not in (question, answer)}
    further = [by_lower[name] for name in (*SYSTEMS, *CONTEXTS, *INPUTS) if name in by_lower]
    further = [n for n in further if any(_cell_text(value_of(row, n)) for row in rows)]
    options = _option_columns(rows, names, question)
    used = {question, answer, *further, *options}
    is_used = lambda name: any(u and (u == name or u.startswith(name + ".")) for u in used)
    unused = [name for name in names if not is_used(name) and "." not in name]
    if layout is None and answer and "#### " in str(value_of(rows[0], answer)):
        layout = "GSM8K"
    return Columns(layout, question, answer, further, options, unused)


def _check_ambiguity(content: Rows, names: list[str], column: str, option: str) -> None:
    """Raise a `UserError` if another column may hold the prompts (or the final answers): its texts
    differ. One of two prompts may contain the other."""
    usual_names = QUESTIONS[:4] if option == "--question" else ANSWERS[:7]
    for other in (n for usual in usual_names for n in names if n.lower() == usual and n != column):
        for row, place in zip(content.rows, content.places):
            left, right = cells = [value_of(row, name) for name in (column, other)]
            if option == "--answer":
                left, right = map(reference_of, cells)
                is_equal = left == right
            else:
                is_text = isinstance(left, str) and isinstance(right, str)
                is_equal = not is_text or left in right or right in left
            if left and right and not is_equal:
                raise UserError(
                    f"{content.path}: {place}: the columns '{column}' and '{other}' hold different texts ('{left[:30]}', '{right[:30]}'); name one with {option}"
                )


def _option_columns(rows: list[dict], names: list[str], question: str) -> list[str]:
    """The columns of multiple-choice options: one column of lists or objects, or columns A, B, ..."""
    for name in names:
        if name.lower() in OPTIONS and name != question:
            if any(_as_options(value_of(row, name)) for row in rows):
                return [name]
    lettered = {}
    for name in names:
        match = OPTION_COLUMN.fullmatch(name)
        if match and name != question:
            key = (match[1] or match[2]).upper()
            lettered[LETTERS[int(key) - 1] if key.isdigit() else key] = name
    letters = "ABCDEFGHIJ"[: len(lettered)]
    return [lettered[letter] for letter in letters] if len(letters) > 1 and set(letters) == set(lettered) else []  # fmt: skip


def _as_options(value: object) -> list[tuple[str, str]]:
    """[(label, text)] of the options in a cell; [] if it holds none. Empty options are left out."""
    if isinstance(value, str):
        value = parse_text(value)
    labels: object = None
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        labels, value = value.get("label") or value.get("labels"), value["text"]
    elif isinstance(value, dict):
        labels, value = list(value), list(value.values())
    elif isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
        field = lambda entry, *names: next((entry[n] for n in names if n in entry), None)
        labels = [field(entry, "label", "key", "id") for entry in value]
        value = [field(entry, "text", "value", "content") for entry in value]
    texts = value if isinstance(value, list) else []
    if not isinstance(labels, list) or len(labels) != len(texts) or None in labels:
        labels = LETTERS
    return [(str(label), str(text)) for label, text in zip(labels, texts) if text not in (None, "")]


def parse_text(text: str) -> object:
    """The list or object that a cell of a table holds as JSON, as Python or as NumPy prints it; None
    for other texts."""
    text = re.sub(r"array\(|,?\s*dtype=\w+\)", "", text.strip())
    if PRINTED_LIST.fullmatch(text):
        return [a or b for a, b in re.findall(r"'([^']*)'|\"([^\"]*)\"", text)]
    if text[:1] in ("[", "{"):
        with contextlib.suppress(ValueError):
            return json.loads(text)
        with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return ast.literal_eval(text)
    return None


def row_options(row: dict, columns: Columns) -> list[tuple[str, str, str]]:
    """[(letter, label in the file, text)] of a row's options."""
    if len(columns.options) == 1:
        options = _as_options(value_of(row, columns.options[0]))
        return [(letter, *option) for letter, option in zip(LETTERS, options)]
    texts = [(letter, value_of(row, name)) for letter, name in zip(LETTERS, columns.options)]
    return [(letter, letter, str(text)) for letter, text in texts if text not in (None, "")]


# {how answers name options: function of an option (see `row_options`)}
READINGS: dict[str, Callable[[str, str, str], str]] = {
    "letters": lambda letter, label, text: label,
    "texts of the options": lambda letter, label, text: text,
    "numbers from 0": lambda letter, label, text: str(LETTERS.index(letter)),
    "numbers from 1": lambda letter, label, text: str(LETTERS.index(letter) + 1),
}


def letters_of_answers(rows: list[dict], columns: Columns) -> tuple[list[str | None], str]:
    """(the letter of each row's right option or None, the key of READINGS that fits the most rows).
    Numbers come first if an answer is a number."""
    answers = [value_of(row, columns.answer) for row in rows]
    options = [row_options(row, columns) for row in rows]
    names = list(READINGS)
    if any(type(answer) is int for answer in answers):
        names = names[2:] + names[:2]
    letters = {name: list(map(_letter, answers, options, [READINGS[name]] * len(rows))) for name in names}  # fmt: skip
    best = max(names, key=lambda name: sum(map(bool, letters[name])))
    return letters[best], best


def _letter(answer: object, options: list[tuple[str, str, str]], key_of: Callable) -> str | None:
    fold = lambda text: normalize_spaces(text).casefold()
    text = reference_of(answer)
    key = fold(text.strip("() .")) if text else None
    return next((option[0] for option in options if fold(key_of(*option)) == key), None)


# --- messages


def read_messages(value: object, path: str, place: str) -> tuple[list[dict], str]:
    """(the messages of a chat in a cell without a last reply of the assistant, this reply). Raise a
    `RowError` if the cell is no chat of texts with a message of a user."""
    error = lambda problem, remedy: RowError(path, place, problem, remedy)
    take_out = "take the row out, or name a column of texts with --question"
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        value = value["messages"]
    if isinstance(value, str) and re.match(r"\s*\[\s*\{", value):
        value = parse_text(value) or value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if value is None or isinstance(value, str) and not value.strip():
        raise error("the prompt is empty", "fill it in, or take the row out")
    if isinstance(value, str):
        return [{"role": "user", "content": value}], ""
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise error(f"the prompt is a {type(value).__name__}, expected text or a chat", take_out)
    messages = []
    for number, entry in enumerate(value, start=1):
        role = ROLES.get(str(entry.get("role", entry.get("from"))).lower())
        text = entry.get("content", entry.get("value"))
        if entry.get("tool_calls") or role is None:
            problem = f"message {number} has a tool call or the role '{entry.get('role')}'"
            raise error(f"{problem}; only texts of system, user and assistant are sent", take_out)
        if isinstance(text, list):
            kinds = {str(part.get("type")) for part in text if isinstance(part, dict)} - {"text"}
            if kinds or not all(isinstance(part, dict) for part in text):
                problem = f"message {number} holds {', '.join(sorted(kinds)) or 'no text'}"
                raise error(f"{problem}; only texts can be sent", take_out)
            text = "".join(str(part.get("text") or "") for part in text)
        if not isinstance(text, str):
            raise error(f"message {number} has no text", take_out)
        messages.append({"role": role, "content": text})
    has_reply = messages and messages[-1]["role"] == "assistant"
    reply = messages.pop()["content"] if has_reply else ""
    if not any(message["role"] == "user" and message["content"].strip() for message in messages):
        raise error("the prompt has no message of a user", take_out)
    return messages, reply


def question_of(messages: list[dict]) -> str:
    """The text that identifies a prompt: all messages but the instructions of the system."""
    return "\n".join(message["content"] for message in messages if message["role"] != "system")


@dataclass
class Pool:
    """The prompts of a file, the id of the prompt in each row, and what was left out, in words."""

    content: Rows
    columns: Columns
    prompts: list[Prompt]
    ids: list[str]
    notes: list[str]


def read_pool(content: Rows, question: str | None, answer: str | None, limit: int | None) -> Pool:
    """The prompts of a file, before instructions are added (`add_instructions`). Repeated prompts
    are left out. Raise a `UserError` that names the rows that are no prompts."""
    columns = find_columns(content, question, answer)
    rows, places = content.rows[:limit], content.places[:limit]
    notes, errors, chats, replies = [], [], [], []
    for row, place in zip(rows, places):
        try:
            messages, reply = read_messages(value_of(row, columns.question), content.path, place)
            chats.append(_chat(row, messages, columns, content.path, place))
            replies.append(reply)
        except RowError as error:
            errors.append(error)
    refuse_rows(errors)
    answers = _read_answers(content.path, rows, replies, columns, notes)
    if content.has_decimal_comma and any(a and DECIMAL_COMMA.fullmatch(a) for a in answers):
        notes.append("decimal commas: an answer such as 3,5 is read as 3.5")
        is_decimal = re.compile(r"[+-]?\d+,\d+").fullmatch
        answers = [a and (a.replace(",", ".") if is_decimal(a) else a) for a in answers]
    prompts: dict[str, Prompt] = {}
    repeated, edited, ids = [], [], []
    for index, (row, place, chat, answer) in enumerate(zip(rows, places, chats, answers)):
        key = question_id("\n".join(message["content"] for message in chat))
        ids.append(key)
        if OWN_ID.fullmatch(str(row.get("id"))) and row["id"] != key:
            edited.append(place)
            continue
        prompt = Prompt(key, index, place, question_of(chat), tuple(chat), answer)
        earlier = prompts.setdefault(key, prompt)
        if earlier is not prompt:
            differs = answer and earlier.answer and answer != earlier.answer
            repeated.append(f"{place}{' with another answer' if differs else ''}")
    if edited:
        notes.append(
            f"{len(edited)} rows have the id of another question, so their question has changed, and are left out: {first_entries(edited)}"
        )
    if repeated:
        notes.append(f"{len(repeated)} repeated prompts are left out: {first_entries(repeated)}")
    return Pool(content, columns, list(prompts.values()), ids, notes)


def _chat(row: dict, messages: list[dict], columns: Columns, path: str, place: str) -> list[dict]:
    """The messages with the further columns and the options of the row."""
    if "<image>" in messages[-1]["content"] and any(row.get(name) for name in ("image", "images")):
        raise RowError(
            path, place, "the prompt shows an image", "only texts are sent; take the row out"
        )
    text = messages[-1]["content"]
    for name in columns.further:
        further = _cell_text(value_of(row, name))
        if not further:
            continue
        if name.lower() in SYSTEMS:
            messages.insert(0, {"role": "system", "content": further})
        elif name.lower() in CONTEXTS:
            text = f"{further}\n\n{text}"
        else:
            text = f"{text}\n{further}"
    for letter, _, option in row_options(row, columns):
        has_letter = re.match(rf"\(?{letter}[).:]", option)
        text += f"\n{option}" if has_letter else f"\n{letter}. {option}"
    messages[-1] = messages[-1] | {"content": text}
    return messages


def _cell_text(value: object) -> str:
    """The text or number in a cell as text; "" for other values."""
    is_text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return str(value).strip() if is_text and value == value else ""


def _read_answers(
    path: str, rows: list[dict], replies: list[str], columns: Columns, notes: list[str]
) -> list[str | None]:
    if columns.options and columns.answer:
        letters, reading = letters_of_answers(rows, columns)
        filled = sum(reference_of(value_of(row, columns.answer)) is not None for row in rows)
        if 2 * sum(map(bool, letters)) < filled:
            raise UserError(
                f"{path}: most answers in column '{columns.answer}' are none of the options in {', '.join(columns.options)}; name the right column with --answer, or remove the columns that are no options"
            )
        notes.append(f"multiple choice: the answers are read as {reading}")
        return letters
    if columns.answer:
        return [reference_of(value_of(row, columns.answer)) for row in rows]
    # a chat may end with a worked solution
    stated = [text if "####" in text or "\\boxed" in text else None for text in replies]
    if any(replies):
        notes.append(
            f"the assistant's last messages are not sent; {sum(map(bool, stated))} of {len(rows)} state an answer (#### or \\boxed)"
        )
    return [reference_of(text) for text in stated]


def add_instructions(
    pool: Pool, template: str | None, system: str | None, form: str | None
) -> None:
    """Put the prompts of `pool` into `template` ({question}, and {COLUMN} for columns of the file),
    and add `system`. Without a template, the line FORMS[form] is added to prompts that do not say
    how to state the answer."""
    rows = pool.content.rows
    if template is not None and "{question}" not in template:
        raise UserError("--prompt: no {question} in the template; write where the prompt stands")
    for name in PLACE.findall(template or ""):
        if name == pool.columns.answer:
            raise UserError(f"--prompt: {{{name}}} is the column of the answers; leave it out")
        if name != "question" and name not in column_names(rows):
            raise UserError(
                f"--prompt: no column '{name}'; the columns are {', '.join(column_names(rows))}"
            )
    for prompt in pool.prompts:
        messages = [dict(message) for message in prompt.messages]
        last = max(i for i, message in enumerate(messages) if message["role"] == "user")
        text = messages[last]["content"]
        if template is not None:
            cell = lambda match, row=rows[prompt.index], text=text: (
                text if match[1] == "question" else str(value_of(row, match[1]))
            )
            text = PLACE.sub(cell, template)
        elif form and not any(STATES_FORM.search(message["content"]) for message in messages):
            text = f"{text}\n{FORMS[form]}"
        messages[last]["content"] = text
        if system is not None:
            others = [message for message in messages if message["role"] != "system"]
            messages = [{"role": "system", "content": system}, *others]
        prompt.messages = tuple(messages)
