"""`hardgrpo worth` compares completions before and after a training, in any folder."""

import argparse
import json
import re

import numpy as np
import pytest
from scipy import stats

from hardgrpo.analysis import statistics
from hardgrpo.choice import worth
from hardgrpo.runtime.errors import UserError


def boxed_sum(n):
    return f"{n} and {n} is \\boxed{{{2 * n}}}"


def rows_of(correct_samples, samples=4, form=boxed_sum):
    """Twelve prompts. Of prompt n, the first `correct_samples(n)` completions are correct."""
    return [
        {
            "id": f"q{n}",
            "question": f"What is {n} + {n}?",
            "answer": str(2 * n),
            "completions": [form(n + (k >= correct_samples(n))) for k in range(samples)],
        }
        for n in range(12)
    ]


def without(rows, *keys):
    return [{key: row[key] for key in row if key not in keys} for row in rows]


def change_row(number, **fields):
    return [row | (fields if n == number else {}) for n, row in enumerate(ROWS)]


ROWS, AFTER = rows_of(lambda n: n % 3), rows_of(lambda n: 2 + 2 * (n % 2))


@pytest.fixture
def compare(tmp_path, monkeypatch, capsys):
    """A function that runs the command, and returns (content of worth.json, page, output)."""
    monkeypatch.chdir(tmp_path)

    def run(before, after, *options, names=("before", "after"), **more_files):
        for name, rows in (dict(zip(names, (before, after))) | more_files).items():
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / f"{name}.jsonl").write_text(lines)
        parser = argparse.ArgumentParser()
        worth.add_command(parser.add_subparsers())
        args = parser.parse_args(["worth", *(f"{name}.jsonl" for name in names), *options])
        args.run(args)
        output = capsys.readouterr().out
        page = output.splitlines()[-1].removeprefix("open  ")
        return json.loads(open(page[:-4] + "json").read()), open(page).read(), output

    return run


def test_the_page_and_the_numbers(compare, tmp_path):
    before = change_row(0, completions=["<img src=x> & \\boxed{9}"])
    facts, page, output = compare(before, AFTER)
    assert output.splitlines()[-1] == f"open  {tmp_path}/before-after.worth/worth.html"
    # correct samples of four: 0, 1 or 2 before, 2 or 4 after
    assert (facts["accuracy_before"], facts["accuracy_after"]) == (0.25, 0.75)
    gains = np.array([(2 + 2 * (n % 2) - n % 3) / 4 for n in range(12)])
    low, high = stats.t.interval(0.95, 11, gains.mean(), stats.sem(gains))
    assert facts["gain"] == pytest.approx({"estimate": 0.5, "low": low, "high": high})
    assert f"+50.0 points <small>95 % interval [{100 * low:.1f}, {100 * high:.1f}]" in page
    assert "&lt;img src=x" in page and not re.search(r"<script|<img|https?:", page)
    with pytest.raises(UserError, match="holds results of .*before.jsonl, .*; name another folder"):
        compare(ROWS, AFTER, "--output", "before-after.worth", names=("a", "b"))


def test_pass_rates_of_the_same_questions_are_compared(compare):
    fewer_samples = rows_of(lambda n: 1 + n % 2, samples=2)[::-1]
    assert compare(ROWS, fewer_samples)[0]["gain"]["estimate"] == 0.5
    # ids that number the rows of two orders
    numbered = [[row | {"id": n} for n, row in enumerate(rows)] for rows in (ROWS, AFTER[::-1])]
    assert compare(*numbered)[0]["gain"]["estimate"] == 0.5


def test_the_parts_of_the_gain_have_the_intervals_of_the_studies():
    random = np.random.default_rng(0)
    answered = random.binomial(8, 0.7, (2, 300))
    correct = answered * random.binomial(1, [[0.4], [0.7]], (2, 300))
    sides = [
        worth.Side(None, [], c * [worth.CORRECT] + (s - c) * [worth.WRONG] + (8 - s) * ["none"])
        for s, c in zip(answered.ravel(), correct.ravel())
    ]
    pairs = zip(sides[:300], sides[300:])
    facts = worth.summarise([worth.Prompt(str(i), "", "", *pair) for i, pair in enumerate(pairs)])
    s, c = answered / 8, correct / 8
    for name, values in zip(
        ("finishing", "correctness"), statistics.decompose_by_problem(s[0], c[0], s[1], c[1])
    ):
        part = statistics.mean_interval(values)
        expected = [part.estimate, part.low, part.high]
        assert list(facts[name].values()) == pytest.approx(expected, abs=1e-4), name


def test_drafts_within_the_reasoning_are_not_graded(compare):
    all_correct = lambda form: rows_of(lambda n: 4, form=form)
    closed = all_correct(lambda n: f"<think>x</think>{boxed_sum(n)}")
    unclosed = all_correct(lambda n: f"<think>try {boxed_sum(n)} hmm")
    facts, _, _ = compare(unclosed, closed)
    assert facts["gain"] == facts["finishing"] == {"estimate": 1, "low": None, "high": None}
    assert facts["completions"]["before"][worth.UNFINISHED] == 48
    # the chat template opens the reasoning, and half of the prompts never close it
    opened = all_correct(lambda n: ("x</think>" if n % 2 else "try ") + boxed_sum(n))
    assert compare(opened, closed)[0]["accuracy_before"] == 0.5
    truncated = [row | {"completions": ["so"], "finish_reason": "length"} for row in ROWS]
    assert compare(truncated, closed)[0]["completions"]["before"][worth.UNFINISHED] == 12


def test_the_grader_follows_the_form_of_the_completions(compare):
    marks = [rows_of(lambda n, m=m: m, form=lambda n: f"so #### {2 * n}") for m in (1, 3)]
    assert compare(*marks)[0]["gain"]["estimate"] == 0.5
    letters = [
        [row | {"answer": "ABCD"[n % 4], "completions": [form % "ABCD"[n % 4]]} for n, row in enumerate(ROWS)]
        for form in ("so \\boxed{%s}", "so \\boxed{\\text{%s}}")
    ]  # fmt: skip
    assert compare(*letters)[0]["accuracy_after"] == 1
    output = compare(*letters, "--grader", "choice_letter")[2]
    assert "rejects 12 of 24 completions only because of their notation" in output
    verdicts = [[row | {"completions": ["ANSWER: 1"], "correctness_m": [is_right]} for row in ROWS] for is_right in (False, True)]  # fmt: skip
    assert compare(*verdicts)[0]["gain"]["estimate"] == 1


def test_answers_may_be_in_one_file_or_in_a_third(compare):
    assert compare(without(ROWS, "answer", "question"), AFTER)[0]["gain"]["estimate"] == 0.5
    bare = [without(rows, "answer", "question") for rows in (ROWS, AFTER)]
    facts, page, _ = compare(*bare, "--problems", "p.jsonl", p=without(ROWS, "completions"))
    assert facts["gain"]["estimate"] == 0.5 and "What is 1 + 1?" in page


def test_prompts_that_cannot_be_compared_are_left_out_or_an_error(compare):
    for before, after, words in (
        (ROWS, AFTER[:-2], "2 of 12 prompts are only in before.jsonl: q10, q11; left out"),
        (change_row(2, question="x"), AFTER, "1 of 12 prompts have different questions in the"),
        (change_row(2, answer=None), without(AFTER, "answer"), "1 of 12 prompts have no answer"),
    ):
        assert words in compare(before, after)[2]
    texts = rows_of(lambda n: 2, form=str)
    for before, after, words in (
        (ROWS, AFTER[:3], "only 3 of 12 prompts can be compared .9 of 12 prompts are only in"),
        (without(ROWS, "answer"), without(AFTER, "answer"), "12 of 12 prompts have no answer"),
        (texts, texts, "0 of 96 completions are unfinished, and the others state no answer that"),
        (
            ROWS,
            [row | {"completions": [""]} for row in ROWS],
            "12 of 12 completions after .* empty",
        ),
    ):
        with pytest.raises(UserError, match=words):
            compare(before, after)
