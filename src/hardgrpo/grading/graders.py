r"""Grade completions. Probe, reward and evaluation all call `grade`, so they agree.

A grader sees the completion alone, never the prompt. It extracts the answer and compares it with the reference twice: to the
letter (*strict*) and with notation forgiven (*lenient*). A grade holds both results; the grader's name decides which of them is
*correct*. *Answered*: the completion states an answer in the requested form. *Readable*: the answer is of the kind that the
grader compares (a word, a number, one letter, a mathematical expression).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from hardgrpo.grading import expressions, quantities
from hardgrpo.grading.quantities import is_number as is_number  # whether a reference answer is exactly one number
from hardgrpo.runtime.errors import UserError, first_entries


@dataclass(frozen=True)
class Grade:
    """strict implies lenient, lenient implies readable, readable implies answered. correct equals strict or equals lenient.

    undecided: the comparison took too long. The completion counts as wrong, although it may be right.
    """

    extracted: str | None
    answered: bool
    correct: bool
    strict: bool
    lenient: bool
    readable: bool
    undecided: bool = False


UNDECIDED_SHARE = 0.001  # a study with more undecided completions stops


@dataclass(frozen=True)
class Grader:
    form: str  # a completion that states an answer, with %s in its place
    extract: Callable[[str], str | None]  # the answer of a completion, or None
    strict: Callable[[str, str], bool]  # (reference, extracted)
    lenient: Callable[[str, str], bool | None]  # None: undecided
    reads: Callable[[str], bool]  # whether an extracted answer is of the kind that the grader compares
    forgiving: bool = False  # whether lenient counts as correct
    reference: Callable[[str], str] = str.strip  # turns the data's answer into the form that is compared


def grade(grader: str, completion: str, answer: str) -> Grade:
    """Grade one completion against a reference answer; `grader` is a key of GRADERS."""
    chosen = GRADERS[grader]
    extracted = chosen.extract(completion)
    if not extracted:  # an empty box states nothing
        return Grade(None, answered=False, correct=False, strict=False, lenient=False, readable=False)
    strict, lenient = _compare(chosen, chosen.reference(answer), extracted)
    correct = lenient if chosen.forgiving else strict
    if lenient is None:
        return Grade(extracted, True, correct=False, strict=False, lenient=False, readable=chosen.reads(extracted), undecided=True)
    return Grade(extracted, True, correct, strict, lenient, readable=lenient or chosen.reads(extracted))


def check_decided(undecided: float, completions: int, what: str) -> None:
    """Raise a `UserError` if more than UNDECIDED_SHARE of some completions are undecided (a single one may be)."""
    if undecided > max(1, UNDECIDED_SHARE * completions):
        raise UserError(
            f"{what}: {undecided:.0f} of {completions} completions could not be graded in {expressions.SECONDS[-1]:.0f} seconds of"
            f" processor time each; at most {100 * UNDECIDED_SHARE:.1f} % may be; look at their answers (column undecided), then give"
            " SECONDS in src/hardgrpo/grading/expressions.py more time or choose another grader for the task, and run again"
        )


def _compare(chosen: Grader, reference: str, extracted: str) -> tuple[bool, bool | None]:
    """(strict, lenient); lenient is None if it is undecided. An answer that is right to the letter is also right with notation forgiven."""
    strict = chosen.strict(reference, extracted)
    return strict, strict or chosen.lenient(reference, extracted)


def readable(grader: str, answer: str) -> bool:
    """Whether the grader accepts a completion that states this reference answer. Checks the data."""
    chosen = GRADERS[grader]
    reference = chosen.reference(answer)
    stated = grade(grader, chosen.form % reference, answer)
    return stated.correct and stated.extracted == reference and chosen.reads(reference)


def same(grader: str, left: str, right: str) -> bool:
    """Whether two extracted answers are equal, for agreement among samples, where there is no reference.

    Symmetric, but not transitive, because Math-Verify rounds decimals.
    """
    chosen = GRADERS[grader]
    return any(_compare(chosen, *pair)[chosen.forgiving] for pair in ((left, right), (right, left)))


# --- where the answer stands ---------------------------------------------------------------------------------------


def after_marks(completion: str) -> str | None:
    """The first word after the last `####`, the form of GSM8K's solutions: 'so 12 - 3 = 9 ; #### 9' -> '9'."""
    _, mark, tail = completion.rpartition("####")
    words = tail.split(maxsplit=1)
    return words[0] if mark and words else None


def number_after_marks(completion: str) -> str | None:
    """Like `after_marks`, but a colon that touches the marks is left out, and a currency sign belongs to its number."""
    _, mark, tail = completion.rpartition("####")
    match = re.match(r":?\s*((?:\\?[$€£¥₹]\s*)?\S+)", tail)
    return match.group(1) if mark and match else None


def last_box(completion: str) -> str | None:
    r"""The content of the last complete `\boxed{...}`, braces balanced: '\boxed{\frac{1}{2}}' -> '\frac{1}{2}'."""
    closes, open_braces = {}, []
    for brace in re.finditer("[{}]", completion):
        if brace.group() == "{":
            open_braces.append(brace.start())
        elif open_braces:
            closes[open_braces.pop()] = brace.start()
    start = len(completion)
    while (start := completion.rfind("\\boxed{", 0, start)) >= 0:
        begin = start + len("\\boxed")
        if begin in closes:
            return completion[begin + 1 : closes[begin]].strip()
    return None


# --- when an answer is the reference, and whether it can be read ---------------------------------------------------


def same_text(reference: str, extracted: str) -> bool:
    """Compare choices like the first paper's released code: for the reference '(B)', '(B)' is right and a bare 'B' is wrong."""
    return reference == extracted


def same_word(reference: str, extracted: str) -> bool:
    return reference.strip(" .,;").casefold() == extracted.strip(" .,;").casefold()


LETTER_ALONE, LETTER_IN_BRACKETS = re.compile(r"\(?([A-Za-z])\)?\.?"), re.compile(r"[(\[]?(.*?)[)\]]?", re.DOTALL)


def same_letter(reference: str, extracted: str) -> bool:
    r"""'(B)', 'B', 'b.', '**B**' and '\text{(B)}' are the same choice. Anything but one letter is wrong."""
    return _letter(extracted) is not None and _letter(extracted) == _letter(reference)


def is_letter(text: str) -> bool:
    return _letter(text) is not None


def _letter(text: str) -> str | None:
    if len(text) > quantities.LONGEST_NUMBER:
        return None
    if not (letter := LETTER_ALONE.fullmatch(text)):
        inner = LETTER_IN_BRACKETS.fullmatch(quantities.remove_marks(quantities.to_latex(text)))
        letter = inner and LETTER_ALONE.fullmatch(quantities.remove_marks(inner[1]))
    return letter[1].upper() if letter else None


def same_integer(reference: str, extracted: str) -> bool:
    """Compare like the first paper's released code on GSM8K: Python's `int()` of the box's content."""
    try:
        return "_" not in extracted and int(extracted) == int(reference)  # int('52_8') is 528, but 52_8 is a number in base 8
    except ValueError:
        return False


def same_number(reference: str, extracted: str) -> bool:
    """Whether both are the same exact number. Separators, currency, units and kinds of fractions do not matter."""
    value = quantities.number(extracted)
    return value is not None and value == quantities.number(reference)


def reads_number(extracted: str) -> bool:
    return quantities.number(extracted) is not None


def whole_number(answer: str) -> str:
    """Write a reference that is a whole number with digits alone: '1,080' becomes 1080."""
    value = quantities.number(answer)
    return answer.strip() if value is None or value.denominator != 1 else str(value)


MARKS, BOX = ("#### %s", after_marks), (r"\boxed{%s}", last_box)
WORD = Grader(*MARKS, same_text, same_word, reads=bool)
LETTER = Grader(*BOX, same_text, same_letter, reads=is_letter)
NUMBER = Grader(*BOX, same_integer, same_number, reads=reads_number, reference=whole_number)
MATH = Grader(*BOX, expressions.same_text, expressions.equal, reads=expressions.parses)

GRADERS: dict[str, Grader] = {
    "final_word": replace(WORD, forgiving=True),
    "final_number": replace(NUMBER, form=MARKS[0], extract=number_after_marks, forgiving=True),
    "choice_letter": LETTER,
    "choice_letter_lenient": replace(LETTER, forgiving=True),
    "number_strict": NUMBER,
    "number_lenient": replace(NUMBER, forgiving=True),
    "math_strict": MATH,
    "math": replace(MATH, forgiving=True),
}


def check_grader(name: str, *paths: str) -> None:
    """Raise a `UserError` if there is no such grader, or if a package that it needs is not installed. `paths` are the files that this
    process grades; the error about grading that takes too long names them."""
    if name not in GRADERS:
        raise UserError(f"unknown grader '{name}'; expected one of {', '.join(GRADERS)}")
    if name.startswith("math"):
        expressions.check_installed()
    expressions.usage.subject = first_entries(paths) or "grading"
