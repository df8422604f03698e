r"""Read reference answers from the cells of a file."""

import re

from hardgrpo.grading.graders import last_box

# GSM8K ends a worked solution with the line '#### 72'. In other places, '####' is a heading.
FINAL_LINE = re.compile(r"####[ \t]*(\S[^\n]*)\Z")


def reference_of(value: object) -> str | None:
    r"""The reference answer in a cell: of a worked solution, the text after a final `####`, else the
    content of the last `\boxed{}`; of other cells, the text. None if the cell is empty or holds no
    single answer (an object, a list of several values)."""
    if isinstance(value, list):
        value = value[0] if len(value) == 1 else None
    # nan is the only value that differs from itself
    if value is None or value != value or isinstance(value, (list, dict, bytes)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip()
    line = FINAL_LINE.search(text)
    return (line[1].strip() if line else boxed_answer(text)) or text or None


def boxed_answer(solution: str) -> str | None:
    r"""The content of a solution's last box. MATH writes a few boxes as `\fbox{2}` or `\boxed 2`; the
    latter counts only if no box has braces."""
    without_braces = re.findall(r"\\boxed\s+([^\s$]+)", solution)
    return last_box(solution.replace("\\fbox{", "\\boxed{")) or (without_braces or [None])[-1]
