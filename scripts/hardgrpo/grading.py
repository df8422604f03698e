"""The one grader: probe, reward and evaluation all call `grade`, so they cannot drift apart.

A verdict is (extracted answer, answered?, correct?). It looks at the completion alone, never at the prompt. *Answered*
means that the completion holds an answer in the form that was asked for, whether or not it can be read as a number.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from .errors import UserError


@dataclass(frozen=True)
class Verdict:
    extracted: str | None
    answered: bool
    correct: bool


def grade(grader: str, completion: str, answer: str) -> Verdict:
    """Grade one completion against a reference answer; `grader` is a key of GRADERS."""
    extract, equal = GRADERS[grader]
    extracted = extract(completion)
    return Verdict(extracted, extracted is not None, extracted is not None and equal(extracted, answer))


def readable(grader: str, answer: str) -> bool:
    """Whether the grader would accept a completion that states this reference answer (a check on the data)."""
    return GRADERS[grader][1](answer, answer)


# --- where the answer stands ---------------------------------------------------------------------------------------


def after_marks(completion: str) -> str | None:
    """The first word after the last `####`, as in GSM8K's solutions: 'so 12 - 3 = 9 ; #### 9' -> '9'."""
    _, mark, tail = completion.rpartition("####")
    words = tail.split()
    return words[0] if mark and words else None


def last_box(completion: str) -> str | None:
    r"""The content of the last complete `\boxed{...}`, braces balanced: '\boxed{\frac{1}{2}}' -> '\frac{1}{2}'."""
    start = len(completion)
    while (start := completion.rfind("\\boxed{", 0, start)) >= 0:
        depth, begin = 0, start + len("\\boxed")
        for end in range(begin, len(completion)):
            depth += {"{": 1, "}": -1}.get(completion[end], 0)
            if depth == 0:
                return completion[begin + 1 : end].strip()
    return None


# --- when two answers are the same ---------------------------------------------------------------------------------


def same_word(extracted: str, answer: str) -> bool:
    return extracted.strip(" .,;").casefold() == answer.strip().casefold()


def same_text(extracted: str, answer: str) -> bool:
    """As the first paper's released code compares choices: '(B)' is right where '(B)' is asked for, a bare 'B' is not."""
    return extracted == answer.strip()


def same_letter(extracted: str, answer: str) -> bool:
    """'(B)', 'B', 'b.' and '\\text{(B)}' are the same choice; anything that is not one letter is wrong."""
    return _letter(extracted) is not None and _letter(extracted) == _letter(answer)


def _letter(text: str) -> str | None:
    plain = re.sub(r"\\(?:text|mathrm|mathbf|textbf)\{([^}]*)\}", r"\1", text).strip()
    found = re.fullmatch(r"\(?([A-Za-z])\)?\.?", plain)
    return found.group(1).upper() if found else None


def same_integer(extracted: str, answer: str) -> bool:
    """As the first paper's released code grades GSM8K: Python's `int()` of the box's content, nothing forgiven."""
    try:
        return int(extracted) == int(answer)
    except ValueError:
        return False


def same_number(extracted: str, answer: str) -> bool:
    r"""Everything but digits, point and minus is dropped first: '\$70,000', '18.0 cm' and '70000' read as numbers."""
    left, right = _number(extracted), _number(answer)
    return left is not None and left == right


def _number(text: str) -> Fraction | None:
    kept = re.sub(r"[^0-9.\-]", "", text).rstrip(".")
    try:
        return Fraction(kept)
    except (ValueError, ZeroDivisionError):
        return None


Extract = Callable[[str], str | None]
Equal = Callable[[str, str], bool]

GRADERS: dict[str, tuple[Extract, Equal]] = {
    "final_word": (after_marks, same_word),
    "final_number": (after_marks, same_number),
    "choice_letter": (last_box, same_text),
    "choice_letter_lenient": (last_box, same_letter),
    "number_strict": (last_box, same_integer),
    "number_lenient": (last_box, same_number),
}


def check_grader(name: str) -> None:
    if name not in GRADERS:
        raise UserError(f"unknown grader '{name}'; expected one of {', '.join(GRADERS)}")
