"""Fuzzing targets: graders, signals, files and pages receive hostile completions that a model could
write. A text without the answer must never count as correct, a correct answer after hostile text
must count as correct, and texts must be read as they were written."""

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fuzzing import mutations
from fuzzing.contents import value_when_read
from hardgrpo.data import evaluations
from hardgrpo.grading import expressions, graders
from hardgrpo.report import latex
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import printable
from hardgrpo.selection import signals

# These time limits are shorter than the default; no comparison in this module needs more time.
expressions.SECONDS = 0.3

PIECES = [
    *mutations.TEXTS, "{" * 3000, "}" * 3000, "{}" * 2000, "\\boxed{" * 500, "\\boxed{}", "\\boxed{", "}", "{", "9" * 1_000_000, "-" * 5000, "1/" * 3000, "1," * 5000,
    "9^9^9^9", "9^{9^{9^{9}}}", "(10^{10})!", "\\frac{" * 400, "\\sqrt" * 400, "\\left(" * 300, "\\sum_{k=1}^{10^{9}} k", "x^{99999999}", "1e999999999", "0.(3)",
    "\\def\\x{\\x\\x}\\x", "\\input{/etc/passwd}", "\\write18{id}", "\\loop\\iftrue\\repeat", "$" * 999, "\\newcommand{\\a}{\\a}\\a", "#" * 3000, "#### " * 500,
    "\u202e7\u202c", "\u2066", "\u200f", "\u200b" * 500, "a\u0300" * 500, "\ud800", "\udcff", "\x1b[2J\x1b[31m", "\x1b]8;;http://x\x07", "\x9b31m", "\x00" * 100, "\r", "\x85", "\u2028",
    "<script>alert(1)</script>", "</script>", "]]>", "=cmd|' /C calc'!A0", "the answer is", "__import__('os').system('id')", "lambda: 0", "5 5 5", "½", "٣", "∞", "i" * 999, " " * 50_000, "\n" * 5000,
]  # fmt: skip
ANSWERS = {
    "final_word": "zebra", "final_number": "7391", "choice_letter": "(Q)", "choice_letter_lenient": "(Q)", "number_strict": "7391", "number_lenient": "7391",
    "boxed_text": "zebra", "boxed_text_plain": "zebra", "brackets": "<[({", "math_strict": "7391\\pi", "math": "7391\\pi",
}  # fmt: skip


def hostile_text(rng: random.Random, max_pieces: int = 6) -> str:
    return rng.choice(("", " ", "\n", ",")).join(
        rng.choice(PIECES) for _ in range(rng.randint(1, max_pieces))
    )


def in_box(rng: random.Random, grader: str) -> str:
    """A completion that states hostile text in the form that the grader reads."""
    return graders.GRADERS[grader].form.replace("%s", hostile_text(rng, 2))


def grades(grader: str) -> Callable:
    def check(rng, folder):
        answer = ANSWERS[grader]
        text = rng.choice(
            (hostile_text(rng), in_box(rng, grader), hostile_text(rng) + in_box(rng, grader))
        )
        grade = graders.grade(grader, text, answer)
        assert not (grade.correct or grade.strict or grade.lenient), (
            f"counted as correct: {text[:200]!r}"
        )
        assert grade.strict <= grade.lenient <= grade.readable <= grade.answered
        stated = (
            text + "\n" + graders.GRADERS[grader].form % graders.GRADERS[grader].normalise(answer)
        )
        assert graders.grade(grader, stated, answer).correct, (
            f"a correct answer counted as wrong after {text[-200:]!r}"
        )

    return check


def agreement(rng, folder):
    grader = rng.choice(("final_word", "number_lenient", "choice_letter", "math"))
    texts = [rng.choice((hostile_text(rng, 2), in_box(rng, grader))) for _ in range(4)]
    values = signals.measure(
        [{"completion": text, "tokens": 3, "log_probability": -1.0} for text in texts], grader
    )
    assert 0 <= values["agreement"] <= values["answered_share"] <= 1


def evaluation(rng, folder):
    """Reading an evaluation gives the ids and answers that were written; a lone surrogate becomes a
    question mark."""
    rows = []
    for sample in range(4):
        text = in_box(rng, "number_lenient")
        grade = graders.grade("number_lenient", text, "7391")
        rows.append(
            evaluations.row(
                0,
                {"id": f"p\n{sample},\"'", "tier": None},
                "sampled",
                sample,
                grade,
                text,
                3,
                "stop",
            )
        )
    path = str(folder / "e.csv.gz")
    with contextlib.redirect_stdout(None):
        evaluations.write(path, rows)
    read_rows = evaluations.read(path)
    assert list(read_rows.id) == [row["id"] for row in rows]
    assert [cell if isinstance(cell, str) else None for cell in read_rows.answer] == [
        value_when_read(row["answer"]) for row in rows
    ]


def lines(rng, folder):
    rows = [{"id": hostile_text(rng, 1), "completion": hostile_text(rng)} for _ in range(3)]
    files.write_jsonl(folder / "c.jsonl.gz", rows)
    read_rows = files.read_jsonl(folder / "c.jsonl.gz", {"id": str, "completion": str})
    assert read_rows == [
        {key: value_when_read(value) for key, value in row.items()} for row in rows
    ]


def terminal(rng, folder):
    line = printable(hostile_text(rng))
    assert line.isprintable() and len(line) < 20_000


def pages(rng, folder):
    """A text escaped for TeX contains no command, and a text rendered as HTML contains no tag."""
    text = hostile_text(rng, 2)[:5000]
    bare = latex.escape(text)
    for replacement in sorted(latex.CHARACTERS.values(), key=len, reverse=True):
        bare = bare.replace(replacement, "")
    assert not set(bare) & set("\\{}$&#^_~%\x00\x1b\r"), sorted(
        set(bare) & set("\\{}$&#^_~%\x00\x1b\r")
    )


@dataclass(frozen=True)
class Target:
    check: Callable
    share: float = 1.0

    def run(self, rng: random.Random, folder: Path) -> None:
        self.check(rng, folder)


TARGETS = {
    **{
        f"grader {name}": Target(grades(name), share=0.1 if name.startswith("math") else 1.0)
        for name in graders.GRADERS
    },
    "agreement": Target(agreement, share=0.1),
    "evaluation": Target(evaluation),
    "JSON Lines": Target(lines),
    "terminal": Target(terminal),
    "LaTeX and HTML": Target(pages),
}
