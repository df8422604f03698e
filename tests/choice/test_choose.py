"""`hardgrpo choose`: what is asked, what is chosen, and that nothing is lost or paid twice."""

import csv
import re
import shutil
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import hardgrpo as library
from choice_runs import (
    answer_of,
    choose,
    folder,
    hardgrpo,
    no_requests,
    read_lines,
    server,
    sum_rows,
    sums,
    write_lines,
)
from conftest import ROOT
from hardgrpo.choice import choice_options, measures, mixed
from hardgrpo.runtime.errors import UserError
from model_server import refusal

SUMS = sum_rows(20)
NEW_SUM = {"question": "Bob has 3 pens and buys 1 more?", "answer": "4"}
# of numbers and 2, without answers
TABLE = "question,answer\n" + "".join(f"How many is {n} and 2?,\n" for n in range(9))


@pytest.fixture
def ask(server):
    """The options that sample from the server and choose three prompts."""
    return ("--model", "m", "--budget", 3, "--url", server.url)


def test_prompts_with_answers_are_chosen_nearest_to_one_half(choose, ask, server, folder):
    done = choose(sum_rows(20, note="kept"), *ask, "--samples", 8)
    assert done.path == str(folder / "s.choice/nearest_half-3.jsonl")
    # i % 5 of eight samples are wrong, so the rates are 1, 7/8, 6/8, 5/8, 4/8
    assert done.rates == [0.5] * 3 and {row["note"] for row in done.rows} == {"kept"}
    names = ("pass_rate", "never_solved", "always_solved", "samples", "chosen")
    assert [done.facts[name] for name in names] == pytest.approx([0.75, 0, 0.2, 8, 3])
    table = list(csv.DictReader(open(folder / "s.choice/prompts.csv")))
    assert len(table) == 20 and sum(row["chosen"] == "1" for row in table) == 3
    page = (folder / "s.choice/choice.html").read_text()
    assert "never solved" in page and "nearest to one half" in page
    assert len(server.requests) == 20 and "grader number_lenient" in done.output


def test_without_answers_the_choice_is_random_and_nothing_is_sampled(choose, ask, server):
    rows = [{"question": row["question"]} for row in SUMS]
    with no_requests(server):
        done = choose(rows, *ask)
    assert len(done.rows) == 3 and {row["answer"] for row in done.rows} == {""}
    assert "nothing is sampled" in done.output and "--policy agreement_lowest" in done.output
    done = choose(rows, *ask, "--policy", "agreement_lowest")
    assert len(done.rows) == 3 and len(server.requests) == 20


def test_an_answered_prompt_is_not_offered_for_annotation(choose):
    done = choose([row | {"answer": ""} for row in SUMS[:15]] + SUMS[15:], "--budget", 15)
    assert {row["question"] for row in done.rows} == {row["question"] for row in SUMS[:15]}
    assert "5 prompts have an answer and are left out" in done.output


def test_a_prompt_is_never_paid_for_twice(choose, ask, server, folder):
    assert choose(SUMS, *ask).status == 0
    renamed = [{"n": i, "problem": row["question"], "gold": row["answer"]} for i, row in enumerate(SUMS[::-1])]  # fmt: skip
    with no_requests(server):
        assert choose(write_lines(folder / "b.jsonl", renamed), *ask).status == 0
    assert choose([NEW_SUM, *SUMS[::-1]], *ask).status == 0
    assert len(server.requests) == 21
    # four more samples of each prompt, and other settings, are new
    choose("s.jsonl", *ask, "--samples", 12)
    assert len(server.requests) == 42 and server.requests[-1]["n"] == 4
    choose("s.jsonl", *ask, "--temperature", 0.5)
    assert len(server.requests) == 63


def test_what_a_person_typed_is_never_overwritten(choose, folder):
    (folder / "p.csv").write_text(TABLE)
    path = choose("p.csv", "--budget", 3).path
    assert choose("p.csv", "--budget", 3).path == path
    typed = open(path).read().replace(",,", ",77,")
    open(path, "w").write(typed)
    assert choose("p.csv", "--budget", 3).is_refused("edited", "--output")
    assert choose("p.csv", "--budget", 4).path != path
    shutil.copy("p.csv", "p.tsv")
    assert choose("p.tsv", "--budget", 3).is_refused("results of")
    assert open(path).read() == typed


def test_a_result_that_is_edited_while_the_command_runs_is_kept(choose, ask, server, folder):
    path, answer = choose(SUMS, *ask).path, server.answer

    def edit(body, number):
        open(path, "w").write("edited")
        return answer(body, number)

    server.answer = edit
    assert choose(SUMS, *ask, "--samples", 9).is_refused("edited")
    assert open(path).read() == "edited" and not list((folder / "s.choice").glob(".new*"))


def test_typed_answers_are_exported_for_a_trainer(choose, folder):
    (folder / "p.csv").write_text(TABLE)
    rows = list(csv.DictReader(open(choose("p.csv", "--budget", 3).path)))
    with open("typed.csv", "w", newline="") as stream:
        table = csv.DictWriter(stream, list(rows[0]))
        table.writeheader()
        table.writerows(row | {"answer": str(i) if i else ""} for i, row in enumerate(rows))
    refused = choose("p.csv", "--budget", 3, "--format", "trl", "--output", "o")
    assert refused.is_refused("--policy all")
    done = choose("typed.csv", "--policy", "all", "--format", "trl")
    assert done.status == 0 and "1 rows with no answer are left out" in done.output
    exported = read_lines(folder / "typed.choice/all.trl.jsonl")
    questions = {row["question"]: str(i) for i, row in enumerate(rows) if i}
    assert {row["prompt"][0]["content"].partition("\n")[0]: row["solution"] for row in exported} == questions  # fmt: skip


def test_typed_answers_that_look_like_formulas_are_read_as_they_were_typed(choose, folder):
    (folder / "p.csv").write_text("question,answer\n" + "".join(f"Solve {n},-x+{n}\n" for n in range(4)))  # fmt: skip
    path = choose("p.csv", "--budget", 2, "--policy", "random").path
    assert ",'-x+" in open(path).read()
    done = choose(path, "--policy", "all", "--format", "trl")
    assert done.status == 0, done.error
    exported = read_lines(next(folder.glob("p.choice/*.choice/all.trl.jsonl")))
    assert all(row["solution"].startswith("-x+") for row in exported)


@pytest.mark.parametrize("trainer", ["trl", "verl", "prime-rl"])
def test_the_reward_function_of_a_trainer_grades_as_the_choice(choose, ask, folder, trainer):
    choose(SUMS, *ask, "--format", trainer)
    (trainer_file,) = (folder / "s.choice").glob(f"*.{trainer}.*")
    assert trainer_file.stat().st_size > 100
    code = {}
    exec((folder / "s.choice/reward.py").read_text(), code)
    texts = ["so \\boxed{1,080}", "\\boxed{7}", "<think>\\boxed{1080}"]
    replies = [[{"role": "assistant", "content": text}] for text in texts]
    rewards = {
        "trl": lambda: code["reward"](completions=replies, solution=["1080"] * 3),
        "verl": lambda: [code["compute_score"]("s", text, "1080") for text in texts],
        "prime-rl": lambda: [code["reward"](reply, "1080") for reply in replies],
    }[trainer]()
    assert rewards == [1.0, 0.0, 0.0]


def test_rows_of_verl_keep_their_fields_in_the_trainers_file(choose, folder):
    rows = [
        {"data_source": "shop", "prompt": [{"role": "user", "content": f"q{i}?"}], "agent_name": "a", "rate": i % 5 / 4,
         "reward_model": {"style": "rule", "ground_truth": str(i)}, "extra_info": {"index": i, "tools_kwargs": {"x": 1}}}
        for i in range(20)
    ]  # fmt: skip
    done = choose(rows, "--budget", 2, "--pass-rate", "rate", "--format", "verl")
    assert done.status == 0, done.error
    (exported,) = (folder / "s.choice").glob("*.verl.parquet")
    row = pq.read_table(exported).to_pylist()[0]
    index = row["extra_info"]["index"]
    assert (row["data_source"], row["agent_name"], row["ability"]) == ("shop", "a", "reasoning")
    assert row["reward_model"]["ground_truth"] == str(index) and row["extra_info"]["tools_kwargs"]
    assert row["prompt"][0]["content"].startswith(f"q{index}?\n")
    assert row["extra_info"]["pass_rate"] == 0.5


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda body, _: answer_of(body, ["<think>First, I"] * body["n"], "length"), ["--completion-tokens"]),
        (lambda body, _: sums(body, form="it is %s"), ["--prompt", "it is"]),
    ],
    ids=["never finished", "in another form"],
)  # fmt: skip
def test_useless_completions_stop_the_command_after_five_prompts(
    choose, ask, server, folder, answer, words
):
    server.answer = answer
    assert choose(sum_rows(40), *ask).is_refused(*words)
    assert len(server.requests) == 5 and not (folder / "s.choice").exists()


@pytest.mark.parametrize("name", ["temperature", "top_p"])
def test_a_value_that_a_person_chose_is_never_left_out(choose, ask, server, folder, name):
    answer = server.answer
    server.answer = lambda body, number: (
        refusal(f"{name} is not supported") if name in body else answer(body, number)
    )
    refused = choose(SUMS, *ask, f"--{name.replace('_', '-')}", 0.5)
    assert refused.is_refused(name, "correct") and not (folder / "s.choice").exists()
    assert choose(SUMS, *ask).status == 0


@pytest.mark.parametrize(
    "form", ["<think>\\boxed{0}</think> so \\boxed{%s}", "\\boxed{0} </think> so \\boxed{%s}"]
)
def test_only_the_text_after_the_reasoning_is_graded(choose, ask, server, form):
    server.answer = lambda body, number: sums(body, form=form)
    assert choose(SUMS, *ask).facts["pass_rate"] > 0.7


def test_a_dry_run_sends_nothing_and_names_the_cost(choose, ask, server, folder):
    with no_requests(server):
        done = choose(SUMS, *ask, "--price", 1, 4, "--dry-run", "--completion-tokens", 100)
    assert "requests  20 " in done.output and "at most 16,000 sampled tokens" in done.output
    assert "; 0.0645 if every" in done.output and not (folder / "s.choice").exists()


def test_the_money_limit_holds_over_restarts_and_failures(choose, ask, server, folder):
    server.answer = lambda body, n: (503, {"error": "busy"}) if n % 5 == 4 else sums(body)
    # a request of 8 completions of 8 tokens costs 64, at most 8 * 10 + prompt
    arguments = (*ask, "--completion-tokens", 10, "--price", 0, 1e6)
    for limit in (500, 1000):
        assert choose(sum_rows(40), *arguments, "--most-money", limit).is_refused("--most-money")
        assert 64 * len(server.answered) <= limit < 64 * len(server.answered) + 200
    assert choose("s.jsonl", *arguments).status == 0 and len(server.answered) == 40
    # another file has its own limit
    rows = [{"question": f"{n} and 4?", "answer": n + 4} for n in range(3)]
    done = choose(write_lines(folder / "t.jsonl", rows), *arguments, "--most-money", 300)
    assert done.status == 0, done.error


# --- results that people already have


def rated(rates: list[float]) -> list[dict]:
    return [{"problem": f"p{i}", "answer": "x", "rate": rate} for i, rate in enumerate(rates)]


def test_pass_rates_of_a_column_need_no_server(choose):
    arguments = ("--budget", 4, "--pass-rate", "rate")
    done = choose(rated([i % 9 / 8 for i in range(40)]), *arguments)
    assert {row["rate"] for row in done.rows} == {0.5}
    assert "by 8 completions per prompt" in done.output
    percentages = rated([100 * (i % 9) / 8 for i in range(40)])
    assert choose(percentages, *arguments).is_refused("--percent", "row 2")
    assert {row["rate"] for row in choose(percentages, *arguments, "--percent").rows} == {50}


def test_the_band_keeps_the_prompts_within_two_rates(choose):
    done = choose(rated([i / 10 for i in range(11)]), "--policy", "band", "--pass-rate", "rate")
    assert sorted(row["rate"] for row in done.rows) == [i / 10 for i in range(2, 9)]


def test_a_batch_file_is_written_and_its_output_read(choose, folder):
    done = choose(SUMS, "--model", "m", "--write-batch", "b.jsonl", "--budget", 3)
    requests = read_lines("b.jsonl")
    assert done.status == 0 and len(requests) == 20 and requests[0]["body"]["n"] == 8
    answers = [
        {"custom_id": request["custom_id"], "error": None, "response": {"status_code": 200, "body": sums(request["body"])}}
        for request in requests[::-1]
    ]  # fmt: skip
    answers[3] |= {"response": {"status_code": 500, "body": {"error": {"message": "overloaded"}}}}
    write_lines(folder / "out.jsonl", answers[:-1])
    arguments = ("--budget", 3, "--completions", "out.jsonl")
    done = choose("s.jsonl", *arguments)
    assert done.rates == [0.5] * 3
    assert "2 of 20 prompts have no pass rate" in done.output and "overloaded" in done.output
    choose("s.jsonl", "--model", "m", "--write-batch", "again.jsonl", *arguments)
    missing = {row["custom_id"] for row in read_lines("again.jsonl")}
    assert missing == {answers[3]["custom_id"], answers[-1]["custom_id"]}
    refused = choose("s.jsonl", "--model", "m", "--write-batch", "b.jsonl", "--budget", 3)
    assert refused.is_refused("exists")


def test_generations_of_the_file_are_used_with_their_verdicts(choose):
    rows = [
        {"problem": f"p{i}", "solution": "\\boxed{1}", "answer": "1", "generations": ["\\boxed{1}"] * 4,
         "correctness_math_verify": [k < i % 5 for k in range(4)]}
        for i in range(20)
    ]  # fmt: skip
    assert choose(rows, "--budget", 3).is_refused("--completions generations")
    done = choose(rows, "--budget", 3, "--completions", "generations")
    assert done.rates == [0.5] * 3


def test_completions_belong_to_questions(choose, folder):
    rows = [row | {"id": i} for i, row in enumerate(SUMS)]
    given = [row | {"completions": [f"\\boxed{{{row['answer']}}}", "\\boxed{0}"]} for row in rows]
    given[4] |= {"question": "Another question?"}
    write_lines(folder / "c.jsonl", given)
    arguments = ("--budget", 3, "--completions", "c.jsonl")
    done = choose(rows, *arguments)
    assert done.status == 0 and "row 5" in done.output and "K = 2" in done.output
    write_lines(folder / "c.jsonl", [row | {"question": f"other {row['id']}?"} for row in given])
    assert choose(rows, *arguments, "--output", "o").is_refused("same prompts")


def test_completions_of_a_column_belong_to_their_row(choose):
    rows = [
        {"question": f"Which is {i}?", "A": "x", "B": "y", "answer": "A", "tries": ["\\boxed{A}"] * (i % 3) + ["\\boxed{B}"] * (2 - i % 3)}
        for i in range(30)
    ]  # fmt: skip
    done = choose(rows, "--budget", 3, "--completions", "tries", "--limit", 20)
    assert done.rates == [0.5] * 3


def test_completions_in_another_form_choose_the_grader_or_stop_the_command(choose, folder):
    def choose_by(texts: list[list[str]], *arguments):
        rows = [{"question": row["question"], "completions": t} for row, t in zip(SUMS, texts)]
        write_lines(folder / "c.jsonl", rows)
        return choose(SUMS, "--budget", 3, "--completions", "c.jsonl", *arguments)

    marks = [["#### " + row["answer"] if i % 2 else "#### 0", "#### 0"] for i, row in enumerate(SUMS)]  # fmt: skip
    assert choose_by(marks).rates == [0.5] * 3
    assert choose_by([["It is 3."]] * 20, "--output", "o").is_refused("It is 3.", "--grader")


def test_a_function_grades_with_the_columns_of_the_row(choose, ask, server, folder, monkeypatch):
    (folder / "own.py").write_text(
        "def reward(completions, answer, limit, **kwargs):\n"
        "    texts = [c[0]['content'] for c in completions]\n"
        "    return [0.9 if f'{{{a}}}' in t else 0.2 for t, a in zip(texts, answer)]\n"
        "def fails(completions, **kwargs):\n    raise KeyError('x')\n"
        "def slow(completions, **kwargs):\n    while True: pass\n"
    )
    done = choose(sum_rows(20, limit=3), *ask, "--grader", "own.py:reward")
    assert done.rates == [0.5] * 3
    # the prompt is sent as it is; requests of several prompts arrive in any order
    sent = {request["messages"][0]["content"] for request in server.requests}
    assert sent == {row["question"] for row in SUMS}
    done = choose("s.jsonl", *ask, "--grader", "own.py:fails", "--output", "o")
    assert done.is_refused("row 1", "KeyError")
    monkeypatch.setattr(measures, "GRADER_SECONDS", 0.05)
    write_lines(folder / "c.jsonl", [row | {"completions": ["a", "b"]} for row in SUMS])
    arguments = ("--budget", 1, "--completions", "c.jsonl", "--output", "o")
    done = choose("s.jsonl", *arguments, "--grader", "own.py:slow")
    assert done.status == 0 and "20 calls exceeded" in done.output


def test_the_defaults_are_what_the_page_of_results_recommends():
    text = (ROOT / "docs/which-prompts.md").read_text()
    labelled = re.search(r"`hardgrpo choose` chooses by `(\w+)` where the prompts have", text)[1]
    assert choice_options.Options(budget=5).policy_entry(is_labelled=True)["rule"] == labelled
    assert "**No prompt is labelled:** choose at random" in text
    assert choice_options.Options(budget=5).policy_entry(is_labelled=False)["rule"] == "random"


def test_the_page_and_the_file_of_python_are_those_of_the_command(server):
    choice = library.choose(SUMS, budget=3, server={"url": server.url, "model": "m"})
    assert [row["pass_rate"] for row in choice.rows] == [0.5] * 3
    row = choice.trainer_rows("trl")[0]
    assert row["solution"] == row["answer"] and row["pass_rate"] == 0.5 and row["prompt"]
    texts = [f"\\boxed{{{row['answer']}}}", "\\boxed{0}"]
    assert choice.reward(texts, [row["solution"]] * 2) == [1.0, 0.0]
    chosen = library.choose(SUMS, budget=1, pass_rates=[i / 20 for i in range(20)])
    assert chosen.rows[0]["pass_rate"] == 0.5
    texts = [[f"\\boxed{{{row['answer']}}}"] * (i % 3) + ["?"] for i, row in enumerate(SUMS[:9])]
    measured = library.choose(SUMS[:9], budget=2, completions=texts)
    assert {row["pass_rate"] for row in measured.rows} == {0.5}
    with pytest.raises(UserError, match="url"):
        library.choose(SUMS, budget=2)


def test_the_expected_share_of_mixed_groups_has_no_selection_bias():
    """Of prompts that all have the pass rate 0.1, those that look hard are not harder."""
    rng = np.random.default_rng(1)
    correct, samples = rng.binomial(8, 0.1, 4000), np.full(4000, 8)
    lowest = lambda rates, split: np.argsort(rates, kind="stable")[:400]
    share = mixed.expected_mixed(correct, samples, 8, lowest)
    assert share == pytest.approx(1 - 0.9**8 - 0.1**8, abs=0.08)


@pytest.mark.parametrize(("samples", "is_known"), [(2, False), (3, False), (4, True)])
def test_the_expected_share_of_mixed_groups_needs_four_completions(samples, is_known):
    texts = [[f"\\boxed{{{row['answer']}}}", *["\\boxed{0}"] * (samples - 1)] for row in SUMS]
    choice = library.choose(SUMS, budget=3, completions=texts)
    assert (choice.own_share is not None) == is_known


@pytest.mark.parametrize(("budget", "number"), [("100%", 20), ("10%", 2), ("0.1", 2), ("1", 1)])
def test_a_budget_is_a_number_or_a_share(choose, budget, number):
    assert len(choose(SUMS, "--budget", budget, "--policy", "random").rows) == number


# --- wrong calls and input: one line that names the file, the place and the remedy

SERVER = ["--url", "http://x", "--budget", "1"]


@pytest.mark.parametrize(
    ("rows", "arguments", "words"),
    [
        ([{"a": 1, "b": 2}], [], ["which column", "--question", "a, b"]),
        (SUMS, ["--question", "q"], ["no column 'q'", "--question"]),
        (SUMS, ["--answer", "gold"], ["no column 'gold'", "--answer"]),
        ([{"question": "x", "Question": "y", "answer": "1"}], [], ["differ only in case", "--question"]),
        ([{"question": "one", "prompt": "two"}], [], ["row 1", "hold different texts"]),
        ([{"question": "x", "answer": "1", "final_answer": "2"}], [], ["row 1", "--answer"]),
        ([{"question": "x"}, {"question": " "}], [], ["row 2", "empty"]),
        ([{"question": "x"}, {"question": None}], [], ["row 2", "empty"]),
        ([{"messages": [{"role": "system", "content": "x"}]}], [], ["row 1", "no message of a user"]),
        ([{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}], [], ["row 1", "image_url"]),
        ([{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [1], "content": ""}]}], [], ["row 1", "tool call"]),
        (SUMS, ["--budget", "0.5"], ["--url"]),
        (SUMS, ["--budget", "27", "--policy", "random"], ["pool has 20"]),
        (SUMS, ["--policy", "band", "--low", "0.9"], ["--policy band", "low"]),
        (SUMS, ["--policy", "nowhere"], ["expected one of"]),
        (SUMS, ["--policy", "lowest", "--budget", "1"], ["--by"]),
        (SUMS, ["--pass-rate", "rate", "--budget", "1"], ["no column 'rate'"]),
        (SUMS, SERVER, ["--model"]),
        (SUMS, [*SERVER, "--model", "m", "--most-money", "1"], ["--price"]),
        (SUMS, [*SERVER, "--model", "m", "--key", "gsk_secret"], ["key"]),
        (SUMS, ["--grader", "no.py:f", "--budget", "1"], ["FILE.py:FUNCTION"]),
        (SUMS, ["--completions", "no.jsonl", "--budget", "1"], ["no.jsonl", "no such file"]),
        ([{"question": f"q{i}", "answer": "a ^ {" if i else "x = {{"} for i in range(3)], ["--budget", "1"], ["row 1", "--grader"]),
        ([{"question": f"q{i}"} for i in range(3)], ["--budget", "1", "--policy", "hard"], ["needs answers"]),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_in_one_line(choose, folder, rows, arguments, words):
    done = choose(rows, *arguments)
    assert done.is_refused(*words), done.error
    assert not (folder / "s.choice").exists() and "secret" not in done.error + done.output


def test_the_command_is_a_program(folder):
    done = subprocess.run(
        [sys.executable, "-m", "hardgrpo.console", "choose", "nothing.csv"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.startswith("error: nothing.csv: no such file")
    assert done.stderr.count("\n") == 1
