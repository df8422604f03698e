"""Grading of recorded GSM8K completions: speed against Math-Verify on the same texts, and every grade that differs.

Math-Verify reads the whole completion, as in most programs that use it. Grades are also compared with those of Math-Verify on the
last box alone. grading_differences.csv lists the differences, with the reason where one is found.
"""

from benchmarks import Skipped, compared, row
from hardgrpo.grading import expressions, graders
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

import functools
import logging
import time
from collections.abc import Callable

RECORDINGS = ("base", "checkpoint-400")
ENOUGH = 0.5  # seconds that one measurement should take at least
DIFFERENCES = ["recording", "question", "reference", "extracted", "ours", "math_verify", "math_verify_box", "why"]


def run(options) -> list[dict]:
    expressions.check_installed()
    folder = f"{options.data}/recordings/gsm8k_hard_test/qwen3-14b"
    try:
        recorded = {
            name: files.read_jsonl(f"{folder}/{name}.jsonl", {"completions": list, "answer": (str, int)}) for name in RECORDINGS
        }
    except UserError as error:
        raise Skipped(f"{error}; --data or HARDGRPO_DATA names the folder that holds recordings/") from None
    texts = [
        (name, row["question"], text, str(row["answer"]))
        for name in RECORDINGS
        for row in recorded[name]
        for text in row["completions"]
    ]
    pairs = [(text, answer) for *_, text, answer in texts]
    whole, box = math_verify_readings()

    rows = []
    for grader in ("number_strict", "number_lenient"):
        ours = functools.partial(speed, functools.partial(graders.grade, grader), pairs)
        name, theirs = f"completions, {grader}, against Math-Verify", functools.partial(speed, whole, pairs[::8])
        rows.append(compared(name, "graded/s", ours, theirs, options.repeats, "ours >= 20000"))

    logging.disable(logging.CRITICAL)  # Math-Verify logs each text that it cannot read
    differing = []
    for name, question, text, answer in texts:
        grade, theirs, boxed = graders.grade("number_lenient", text, answer), whole(text, answer), box(text, answer)
        if {grade.correct} != {theirs, boxed}:
            why = explain(grade, theirs, boxed)
            values = (name, question, answer, grade.extracted, grade.correct, theirs, boxed, why)
            differing.append(dict(zip(DIFFERENCES, values)))
    logging.disable(logging.NOTSET)
    files.write_rows(options.output / "grading_differences.csv", DIFFERENCES, differing)
    unexplained = sum(not one["why"] for one in differing)
    at_box = sum(one["ours"] != one["math_verify_box"] for one in differing)
    rows.append(row("grades unlike Math-Verify's on the text, of all", "completions", len(differing), len(texts)))
    rows.append(row("grades unlike Math-Verify's on the box, of all", "completions", at_box, len(texts)))
    name = "differences that nothing explains, of these"
    return [*rows, row(name, "completions", unexplained, len(differing), target="ours == 0")]


def speed(grade: Callable, pairs: list[tuple[str, str]]) -> float:
    """Completions graded per second of processor time, without helper processes, which the grading of numbers does not need."""
    rounds, seconds = 0, 0.0
    while seconds < ENOUGH:
        started = time.process_time()  # the same on a busy machine
        for pair in pairs:
            grade(*pair)
        seconds += time.process_time() - started
        rounds += 1
    return rounds * len(pairs) / seconds


def math_verify_readings() -> tuple[Callable, Callable]:
    """Two functions (text, reference) -> correct, by Math-Verify with its defaults: on the whole completion, on its last box."""
    from math_verify import parse, verify

    def whole(text: str, reference: str) -> bool:
        return verify(parse(reference, parsing_timeout=None), parse(text, parsing_timeout=None), timeout_seconds=None)

    def box(text: str, reference: str) -> bool:
        found = graders.last_box(text)
        return found is not None and whole(rf"\boxed{{{found}}}", reference)

    return whole, box


def explain(grade: graders.Grade, theirs: bool, boxed: bool) -> str:
    """Why a grade differs, if the completion shows it; else an empty text."""
    if not grade.answered and theirs and not boxed:
        return "cut off before it answered; Math-Verify takes a number of the working for its answer"
    if grade.correct and "°" in (grade.extracted or "") and not boxed:
        return "Math-Verify does not read the degree sign as a unit"
    return ""
