"""Compare this project's grading of recorded GSM8K completions with Math-Verify: the speed and the
grades.

Math-Verify gives each completion two grades: of the whole completion, as in most programs that use
Math-Verify, and of the last box alone. grading_differences.csv lists the completions for which this
project's grade differs from at least one of these two grades, with the reason if it is known. The
speed of Math-Verify is measured on every eighth completion, read as a whole.
"""

from benchmarks import Skipped, compare, row
from hardgrpo.grading import expressions, graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

import functools
import logging
import time
from collections.abc import Callable

RECORDINGS = ("base", "checkpoint-400")
MIN_SECONDS = 0.5  # A measurement grades all its completions again until this time has passed.
DIFFERENCES = [
    "recording",
    "question",
    "reference",
    "extracted",
    "ours",
    "math_verify",
    "math_verify_box",
    "why",
]


def run(options) -> list[dict]:
    expressions.check_installed()
    folder = f"{options.data}/recordings/gsm8k_hard_test/qwen3-14b"
    try:
        recorded = {
            name: files.read_jsonl(
                f"{folder}/{name}.jsonl", {"completions": list, "answer": (str, int)}
            )
            for name in RECORDINGS
        }
    except UserError as error:
        raise Skipped(
            f"{error}; --data or HARDGRPO_DATA names the folder that holds recordings/"
        ) from None
    texts = [
        (name, row["question"], text, str(row["answer"]))
        for name in RECORDINGS
        for row in recorded[name]
        for text in row["completions"]
    ]
    pairs = [(text, answer) for *_, text, answer in texts]
    grade_text, grade_box = math_verify_graders()

    rows = []
    for grader in ("number_strict", "number_lenient"):
        project_speed = functools.partial(speed, functools.partial(graders.grade, grader), pairs)
        math_verify_speed = functools.partial(speed, grade_text, pairs[::8])
        name = f"completions, {grader}, against Math-Verify"
        rows.append(
            compare(
                name, "graded/s", project_speed, math_verify_speed, options.repeats, "ours >= 20000"
            )
        )

    logging.disable(logging.CRITICAL)  # Math-Verify logs each text that it cannot read
    differences = []
    for name, question, text, answer in texts:
        grade = graders.grade("number_lenient", text, answer)
        text_grade, box_grade = grade_text(text, answer), grade_box(text, answer)
        if {grade.correct} != {text_grade, box_grade}:
            reason = explain_difference(grade, text_grade, box_grade)
            values = (
                name,
                question,
                answer,
                grade.extracted,
                grade.correct,
                text_grade,
                box_grade,
                reason,
            )
            differences.append(dict(zip(DIFFERENCES, values)))
    logging.disable(logging.NOTSET)
    files.write_rows(options.output / "grading_differences.csv", DIFFERENCES, differences)
    unexplained = sum(not difference["why"] for difference in differences)
    box_differences = sum(
        difference["ours"] != difference["math_verify_box"] for difference in differences
    )
    rows.append(
        row(
            "completions whose grade differs from Math-Verify's (text or box); all",
            "completions",
            len(differences),
            len(texts),
        )
    )
    rows.append(
        row(
            "completions whose grade differs from Math-Verify's (box); all",
            "completions",
            box_differences,
            len(texts),
        )
    )
    name = "differences without an explanation; all differences"
    return [*rows, row(name, "completions", unexplained, len(differences), target="ours == 0")]


def speed(grade: Callable, pairs: list[tuple[str, str]]) -> float:
    """Completions graded per second of processor time. The time of child processes is not measured,
    because the grading of numbers starts no child process."""
    rounds, seconds = 0, 0.0
    while seconds < MIN_SECONDS:
        started = time.process_time()  # unlike wall time, independent of other processes
        for pair in pairs:
            grade(*pair)
        seconds += time.process_time() - started
        rounds += 1
    return rounds * len(pairs) / seconds


def math_verify_graders() -> tuple[Callable, Callable]:
    """Two functions (text, reference) -> whether the answer is correct, by Math-Verify with its
    defaults but without its time limits. The first function grades the whole completion, the second
    its last box."""
    from math_verify import parse, verify

    def grade_text(text: str, reference: str) -> bool:
        return verify(
            parse(reference, parsing_timeout=None),
            parse(text, parsing_timeout=None),
            timeout_seconds=None,
        )

    def grade_box(text: str, reference: str) -> bool:
        content = graders.last_box(text)
        return content is not None and grade_text(rf"\boxed{{{content}}}", reference)

    return grade_text, grade_box


def explain_difference(grade: graders.Grade, text_grade: bool, box_grade: bool) -> str:
    """Why the grades of a completion differ, if one of the known reasons applies; else ""."""
    if not grade.answered and text_grade and not box_grade:
        return "cut off before its answer; Math-Verify takes a number of a step for the answer"
    if grade.correct and "°" in (grade.extracted or "") and not box_grade:
        return "Math-Verify does not read the degree sign as a unit"
    return ""
