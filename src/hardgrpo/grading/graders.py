r"""Grade completions. Probe, reward and evaluation call the same function, `grade`.

A grader extracts the answer of a completion and compares it with the reference twice: exactly
(*strict*), and ignoring differences of notation (*lenient*). One of the two counts as *correct*
(`forgiving`). *Answered*: the completion states an answer in the required form. *Readable*: the
answer is of the kind that the grader compares (a word, a number, a letter, an expression).
"""

import functools
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from hardgrpo.grading import expressions, quantities
from hardgrpo.grading.reasoning import answer_part
from hardgrpo.runtime.errors import UserError


@dataclass(frozen=True)
class Grade:
    """A grade. Strict implies lenient, lenient implies readable, readable implies answered."""

    extracted: str | None
    answered: bool = False
    correct: bool = False
    strict: bool = False
    lenient: bool = False
    readable: bool = False
    undecided: bool = False  # wrong, because the comparison exceeded its limits (expressions.py)


UNDECIDED_SHARE = 0.001  # a larger share of undecided completions is an error


@dataclass(frozen=True)
class Grader:
    """The functions of a grader: an entry of GRADERS."""

    form: str  # template of a completion that states an answer; %s stands for the answer
    extract: Callable[[str], str | None]  # returns the answer of a completion, or None
    strict: Callable[[str, str], bool]  # (reference, extracted)
    lenient: Callable[[str, str], bool | None]  # (reference, extracted); None: undecided
    # whether an extracted answer is of the kind that the grader compares
    reads: Callable[[str], bool]
    forgiving: bool = False  # whether lenient counts as correct
    # whether only the text after a model's reasoning counts; HE's released graders read everything
    after_reasoning: bool = True
    normalise: Callable[[str], str] = str.strip  # rewrites the reference answer

    @property
    def needs_math_verify(self) -> bool:
        return self.lenient is expressions.equal

    @property
    def reads_letters(self) -> bool:
        return self.reads is is_letter

    @property
    def reads_words(self) -> bool:
        """Whether any text may be an answer, such as a date."""
        return self.lenient is same_word


def grade(grader: str, completion: str, answer: str) -> Grade:
    """Grade one completion against a reference answer; `grader` is a key of GRADERS."""
    rule = GRADERS[grader]
    extracted = extract_answer(grader, completion)
    if not extracted:  # None, or an empty box
        return Grade(None)
    strict, lenient = _compare(rule, rule.normalise(answer), extracted)
    return Grade(
        extracted,
        answered=True,
        correct=bool(lenient if rule.forgiving else strict),
        strict=strict,
        lenient=bool(lenient),
        readable=bool(lenient) or rule.reads(extracted),
        undecided=lenient is None,
    )


def grade_all(
    grader: str, completions: Sequence[str], answers: Sequence[str], processes: int = 1
) -> list[Grade]:
    """Grades of completions, with `processes` helpers of Math-Verify."""
    if processes == 1 or not GRADERS[grader].needs_math_verify:
        return [grade(grader, *pair) for pair in zip(completions, answers, strict=True)]
    with ThreadPoolExecutor(processes) as threads:
        return list(threads.map(functools.partial(grade, grader), completions, answers))


def extract_answer(grader: str, completion: str) -> str | None:
    """The answer that a completion states after its reasoning, if any."""
    rule = GRADERS[grader]
    text = answer_part(completion) if rule.after_reasoning else completion
    return rule.extract(text) if text else None


def check_decided(undecided: float, completions: int, place: str) -> None:
    """Raise a `UserError` that starts with `place` if the share of undecided completions exceeds
    UNDECIDED_SHARE.

    A single undecided completion never raises the error.
    """
    if undecided > max(1, UNDECIDED_SHARE * completions):
        raise UserError(
            f"{place}: {undecided:.0f} of {completions} completions could not be graded in {expressions.SECONDS:.0f} seconds of processor time each, more than"
            f" {100 * UNDECIDED_SHARE:.1f} %; choose another grader, or raise SECONDS in src/hardgrpo/grading/expressions.py"
        )


def _compare(rule: Grader, reference: str, extracted: str) -> tuple[bool, bool | None]:
    """(strict, lenient); lenient is None if it is undecided."""
    strict = rule.strict(reference, extracted)
    return strict, strict or rule.lenient(reference, extracted)


def accepts_reference(grader: str, answer: str) -> bool:
    """Whether the grader accepts a completion that states this reference answer."""
    rule = GRADERS[grader]
    reference = rule.normalise(answer)
    result = grade(grader, rule.form % reference, answer)
    return result.correct and result.extracted == reference and rule.reads(reference)


def are_equal(grader: str, left: str, right: str) -> bool:
    """Whether two extracted answers are equal, for the agreement of samples. The relation is
    symmetric, but with grader `math` not transitive: '50%' equals both 50 and 1/2."""
    rule = GRADERS[grader]
    return left == right or any(
        _compare(rule, *pair)[rule.forgiving] for pair in ((left, right), (right, left))
    )


# --- extraction of answers ---


def word_after_marks(completion: str) -> str | None:
    """The first word after the last `####`: 'so 12 - 3 = 9 ; #### 9' -> '9'."""
    _, mark, tail = completion.rpartition("####")
    words = tail.split(maxsplit=1)
    return words[0] if mark and words else None


def number_after_marks(completion: str) -> str | None:
    """Like `word_after_marks`, but skip a colon, and join a currency sign to the word after it."""
    _, mark, tail = completion.rpartition("####")
    match = re.match(r":?\s*((?:\\?[$€£¥₹]\s*)?\S+)", tail)
    return match.group(1) if mark and match else None


def last_box(completion: str) -> str | None:
    r"""The content of the last complete `\boxed{...}`, braces balanced: '\boxed{\frac{1}{2}}' ->
    '\frac{1}{2}'."""
    closing_of, open_braces = {}, []
    for brace in re.finditer("[{}]", completion):
        if brace.group() == "{":
            open_braces.append(brace.start())
        elif open_braces:
            closing_of[open_braces.pop()] = brace.start()
    start = len(completion)
    while (start := completion.rfind("\\boxed{", 0, start)) >= 0:
        opening = start + len("\\boxed")
        if opening in closing_of:
            return completion[opening + 1 : closing_of[opening]].strip()
    return None


def line_of_last_box(completion: str) -> str | None:
    r"""The text between the last `\boxed{` and the last closing brace of its line, because answers
    may have unpaired braces: '\boxed{] }}' -> '] }'."""
    _, mark, tail = completion.rpartition("\\boxed{")
    content, brace, _ = tail.partition("\n")[0].rpartition("}")
    return content.strip() if mark and brace else None


# --- comparisons, and kinds of answers ---


def same_text(reference: str, extracted: str) -> bool:
    """Whether both texts are equal, as in HE's released code for choices."""
    return reference == extracted


def same_word(reference: str, extracted: str) -> bool:
    r"""Whether both are the same words, or the same letter: 'Paris', '**paris**' and
    '\text{“Paris”}.' are equal, as in `quantities.normalise_words`."""
    return quantities.normalise_words(reference) == quantities.normalise_words(
        extracted
    ) or same_letter(reference, extracted)


def same_characters(reference: str, extracted: str) -> bool:
    """Whether both texts are equal except for case, white space, and surrounding ',', '.', ';'."""
    left, right = ("".join(text.split()).strip(".,;").casefold() for text in (reference, extracted))
    return left == right


OPTIONAL_BRACKETS = re.compile(r"[(\[{]?(.*?)[)\]}]?", re.DOTALL)


def same_letter(reference: str, extracted: str) -> bool:
    r"""Whether both are the same letter: '(B)', 'B', 'b.', '**B**' and '\text{(B)}' are equal."""
    return _letter(extracted) is not None and _letter(extracted) == _letter(reference)


def is_letter(text: str) -> bool:
    """Whether an answer is one letter, as in `same_letter`."""
    return _letter(text) is not None


def _letter(text: str) -> str | None:
    inner = OPTIONAL_BRACKETS.fullmatch(quantities.normalise_words(text))[1]
    letter = quantities.normalise_words(inner)
    return letter if re.fullmatch("[a-z]", letter) else None


IGNORED_BESIDE_BRACKETS = re.compile(r"\\(?:text|left|right|mathrm)\b|[\\$\s]")


def same_brackets(reference: str, extracted: str) -> bool:
    r"""Whether both are the same sequence of brackets. White space and LaTeX are ignored: '] }',
    ']}' and '\]\}' are equal."""
    return IGNORED_BESIDE_BRACKETS.sub("", reference) == IGNORED_BESIDE_BRACKETS.sub("", extracted)


def are_brackets(extracted: str) -> bool:
    """Whether an answer consists only of brackets."""
    return bool(re.fullmatch(r"[][(){}<>]+", IGNORED_BESIDE_BRACKETS.sub("", extracted)))


def same_integer(reference: str, extracted: str) -> bool:
    """Whether both are equal under Python's `int()`, as in HE's released code for GSM8K."""
    try:
        # int('52_8') is 528, but 52_8 is a number in base 8
        return "_" not in extracted and int(extracted) == int(reference)
    except ValueError:
        return False


def same_number(reference: str, extracted: str) -> bool:
    """Whether both are exactly the same number, in any notation that `quantities` reads."""
    value = quantities.read_number(extracted)
    return value is not None and value == quantities.read_number(reference)


def reads_number(extracted: str) -> bool:
    """Whether an answer is exactly one number."""
    return quantities.read_number(extracted) is not None


def normalise_integer(answer: str) -> str:
    """Write an integer reference as plain digits ('1,080' becomes '1080')."""
    value = quantities.read_number(answer)
    return answer.strip() if value is None or value.denominator != 1 else str(value)


MARKS, BOX = ("#### %s", word_after_marks), (r"\boxed{%s}", last_box)
WORD = Grader(*MARKS, same_text, same_word, reads=bool)
LETTER = Grader(*BOX, same_text, same_letter, reads=is_letter)
NUMBER = Grader(*BOX, same_integer, same_number, reads=reads_number, normalise=normalise_integer)
MATH = Grader(*BOX, expressions.same_text, expressions.equal, reads=expressions.parses)

GRADERS: dict[str, Grader] = {
    "final_word": replace(WORD, forgiving=True),
    "final_number": replace(NUMBER, form=MARKS[0], extract=number_after_marks, forgiving=True),
    "choice_letter": replace(LETTER, after_reasoning=False),
    "choice_letter_lenient": replace(LETTER, forgiving=True),
    "boxed_text": Grader(*BOX, same_text, same_word, reads=bool, forgiving=True),
    # the grades of the recorded study do not change
    "boxed_text_plain": Grader(
        *BOX, same_text, same_characters, reads=bool, forgiving=True, after_reasoning=False
    ),
    "brackets": Grader(
        r"\boxed{%s}",
        line_of_last_box,
        same_text,
        same_brackets,
        reads=are_brackets,
        forgiving=True,
    ),
    "number_strict": replace(NUMBER, after_reasoning=False),
    "number_lenient": replace(NUMBER, forgiving=True),
    "math_strict": MATH,
    "math": replace(MATH, forgiving=True),
}


def check_grader(name: str) -> None:
    if name not in GRADERS:
        raise UserError(f"unknown grader '{name}'; expected one of {', '.join(GRADERS)}")
    if GRADERS[name].needs_math_verify:
        expressions.check_installed()
