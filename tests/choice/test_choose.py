"""`hardgrpo choose`: what is asked, what is chosen, and that nothing is lost or paid twice."""

import csv
import json
import re
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

import hardgrpo as library
from choice_runs import (
    answer_of,
    chosen_path,
    folder,
    hardgrpo,
    no_requests,
    server,
    sum_rows,
    sums,
    write_lines,
)
from conftest import ROOT
from hardgrpo.choice import choice_options, measures, mixed
from hardgrpo.runtime.errors import UserError

ASK = ("--model", "m", "--budget", 3, "--url")


def read_lines(path):
    return [json.loads(line) for line in open(path)]


def test_prompts_with_answers_are_chosen_nearest_to_one_half(hardgrpo, server, folder):
    path = write_lines(folder / "sums.jsonl", sum_rows(20, note="kept"))
    done = hardgrpo("choose", path, *ASK, server.url, "--samples", 8)
    chosen = read_lines(chosen_path(done))
    assert chosen_path(done) == str(folder / "sums.choice/nearest_half-3.jsonl")
    # i % 5 of eight samples are wrong, so the rates are 1, 7/8, 6/8, 5/8, 4/8
    assert [row["pass_rate"] for row in chosen] == [0.5] * 3
    assert {row["note"] for row in chosen} == {"kept"}
    facts = json.loads((folder / "sums.choice/choice.json").read_text())
    assert facts["pass_rate"] == pytest.approx(0.75) and facts["never_solved"] == 0
    assert facts["always_solved"] == 0.2 and facts["samples"] == 8 and facts["chosen"] == 3
    table = list(csv.DictReader(open(folder / "sums.choice/prompts.csv")))
    assert len(table) == 20 and sum(row["chosen"] == "1" for row in table) == 3
    page = (folder / "sums.choice/choice.html").read_text()
    assert "never solved" in page and "nearest to one half" in page
    assert len(server.requests) == 20 and "grader number_lenient" in done.stdout


def test_without_answers_the_choice_is_random_and_nothing_is_sampled(hardgrpo, server, folder):
    rows = [{"question": row["question"]} for row in sum_rows(20)]
    path = write_lines(folder / "sums.jsonl", rows)
    with no_requests(server):
        done = hardgrpo("choose", path, *ASK, server.url)
    chosen = read_lines(chosen_path(done))
    assert len(chosen) == 3 and {row["answer"] for row in chosen} == {""}
    assert "nothing is sampled" in done.stdout and "--policy agreement_lowest" in done.stdout
    done = hardgrpo("choose", path, *ASK, server.url, "--policy", "agreement_lowest")
    assert len(read_lines(chosen_path(done))) == 3 and len(server.requests) == 20


def test_an_answered_prompt_is_not_offered_for_annotation(hardgrpo, folder):
    rows = sum_rows(20)
    for row in rows[:15]:
        row["answer"] = ""
    done = hardgrpo("choose", write_lines(folder / "s.jsonl", rows), "--budget", 15)
    assert {row["question"] for row in read_lines(chosen_path(done))} == {
        row["question"] for row in rows[:15]
    }
    assert "5 prompts have an answer and are left out" in done.stdout


def test_a_prompt_is_never_paid_for_twice(hardgrpo, server, folder):
    rows = sum_rows(20)
    assert (
        hardgrpo("choose", write_lines(folder / "a.jsonl", rows), *ASK, server.url).returncode == 0
    )
    (folder / "other").mkdir()
    shuffled = [{"n": i, "problem": row["question"], "gold": row["answer"]} for i, row in enumerate(rows[::-1])]  # fmt: skip
    with no_requests(server):
        path = folder / "other/b.jsonl"
        write_lines(path, shuffled)
        assert hardgrpo("choose", path, *ASK, server.url).returncode == 0
    write_lines(
        path, [{"n": 9, "problem": "Bob has 3 pens and buys 1 more?", "gold": "4"}, *shuffled]
    )
    assert hardgrpo("choose", path, *ASK, server.url).returncode == 0
    assert len(server.requests) == 21
    # four more samples of each prompt, and other settings, are new
    hardgrpo("choose", path, *ASK, server.url, "--samples", 12)
    assert len(server.requests) == 42 and server.requests[-1]["n"] == 4
    hardgrpo("choose", path, *ASK, server.url, "--temperature", 0.5)
    assert len(server.requests) == 63


def test_what_a_person_typed_is_never_overwritten(hardgrpo, folder):
    (folder / "p.csv").write_text("question,answer\n" + "".join(f"How many is {n} and 2?,\n" for n in range(9)))  # fmt: skip
    path = chosen_path(hardgrpo("choose", "p.csv", "--budget", 3))
    assert chosen_path(hardgrpo("choose", "p.csv", "--budget", 3)) == path
    typed = open(path).read().replace(",,", ",77,")
    open(path, "w").write(typed)
    refused = hardgrpo("choose", "p.csv", "--budget", 3)
    assert refused.returncode == 1 and "edited" in refused.stderr and "--output" in refused.stderr
    assert chosen_path(hardgrpo("choose", "p.csv", "--budget", 4)) != path
    assert open(path).read() == typed
    shutil.copy("p.csv", "p.tsv")
    other = hardgrpo("choose", "p.tsv", "--budget", 3)
    assert other.returncode == 1 and "results of" in other.stderr and open(path).read() == typed


def test_typed_answers_are_exported_for_a_trainer(hardgrpo, folder):
    (folder / "p.csv").write_text("question\n" + "".join(f'"How many is {n}, and 2?"\n' for n in range(9)))  # fmt: skip
    path = chosen_path(hardgrpo("choose", "p.csv", "--budget", 3))
    rows = list(csv.DictReader(open(path)))
    with open("typed.csv", "w", newline="") as stream:
        table = csv.DictWriter(stream, list(rows[0]))
        table.writeheader()
        table.writerows(row | {"answer": str(i) if i else ""} for i, row in enumerate(rows))
    refused = hardgrpo("choose", "p.csv", "--budget", 3, "--format", "trl", "--output", "o")
    assert refused.returncode == 1 and "--policy all" in refused.stderr
    done = hardgrpo("choose", "typed.csv", "--policy", "all", "--format", "trl")
    assert done.returncode == 0 and "1 rows with no answer are left out" in done.stdout
    exported = read_lines(folder / "typed.choice/all.trl.jsonl")
    questions = {row["question"]: str(i) for i, row in enumerate(rows) if i}
    assert {row["prompt"][0]["content"].partition("\n")[0]: row["solution"] for row in exported} == questions  # fmt: skip


@pytest.mark.parametrize("trainer", ["trl", "verl", "prime-rl"])
def test_the_reward_function_of_a_trainer_grades_as_the_choice(hardgrpo, server, folder, trainer):
    path = write_lines(folder / "s.jsonl", sum_rows(9))
    hardgrpo("choose", path, *ASK, server.url, "--format", trainer)
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


def test_a_model_that_never_finishes_stops_the_command_after_five_prompts(hardgrpo, server, folder):
    server.answer = lambda body, number: answer_of(body, ["<think>First, I"] * body["n"], "length")
    path = write_lines(folder / "s.jsonl", sum_rows(40))
    done = hardgrpo("choose", path, *ASK, server.url)
    assert done.returncode == 1 and "--completion-tokens" in done.stderr
    assert len(server.requests) == 5 and not (folder / "s.choice").exists()


def test_answers_in_another_form_stop_the_command_after_five_prompts(hardgrpo, server, folder):
    server.answer = lambda body, number: sums(body, form="it is %s")
    path = write_lines(folder / "s.jsonl", sum_rows(40))
    done = hardgrpo("choose", path, *ASK, server.url)
    assert done.returncode == 1 and "--prompt" in done.stderr and "it is" in done.stderr
    assert len(server.requests) == 5


def test_only_the_text_after_the_reasoning_is_graded(hardgrpo, server, folder):
    forms = ["<think>\\boxed{0}</think> so \\boxed{%s}", "\\boxed{0} </think> so \\boxed{%s}"]
    for number, form in enumerate(forms):
        server.answer = lambda body, n, form=form: sums(body, form=form)
        path = write_lines(folder / f"s{number}.jsonl", sum_rows(9))
        done = hardgrpo("choose", path, *ASK, server.url, "--model", f"m{number}")
        facts = json.loads((folder / f"s{number}.choice/choice.json").read_text())
        assert done.returncode == 0 and facts["pass_rate"] > 0.7


def test_a_dry_run_sends_nothing_and_names_the_cost(hardgrpo, server, folder):
    path = write_lines(folder / "s.jsonl", sum_rows(20))
    with no_requests(server):
        done = hardgrpo("choose", path, *ASK, server.url, "--price", 1, 4, "--dry-run", "--completion-tokens", 100)  # fmt: skip
    assert "requests  20 " in done.stdout and "at most 16,000 sampled tokens" in done.stdout
    assert "; 0.0645 if every" in done.stdout and not (folder / "s.choice").exists()


def test_the_money_limit_holds_over_restarts_and_failures(hardgrpo, server, folder):
    def answer(body, number):
        return (503, {"error": "busy"}) if number % 5 == 4 else sums(body)

    server.answer = answer
    path = write_lines(folder / "s.jsonl", sum_rows(40))
    # a request of 8 completions of 8 tokens costs 64, at most 8 * 10 + prompt
    arguments = ("choose", path, *ASK, server.url, "--completion-tokens", 10, "--price", 0, 1e6)
    for limit in (500, 1000):
        done = hardgrpo(*arguments, "--most-money", limit)
        assert done.returncode == 1 and "--most-money" in done.stderr, done
        assert 64 * len(server.answered) <= limit < 64 * len(server.answered) + 200
    assert hardgrpo(*arguments).returncode == 0 and len(server.answered) == 40
    # another file has its own limit
    write_lines(
        folder / "t.jsonl", [{"question": f"{n} and 4?", "answer": n + 4} for n in range(3)]
    )
    done = hardgrpo("choose", "t.jsonl", *arguments[2:], "--most-money", 300)
    assert done.returncode == 0, done.stderr


# --- results that people already have


def test_pass_rates_of_a_column_need_no_server(hardgrpo, folder):
    rows = [{"problem": f"p{i}", "answer": "x", "rate": i % 9 / 8} for i in range(40)]
    path = write_lines(folder / "s.jsonl", rows)
    done = hardgrpo("choose", path, "--budget", 4, "--pass-rate", "rate")
    assert {row["rate"] for row in read_lines(chosen_path(done))} == {0.5}
    assert "by 8 completions per prompt" in done.stdout
    write_lines(folder / "s.jsonl", [row | {"rate": 100 * row["rate"]} for row in rows])
    asked = hardgrpo("choose", path, "--budget", 4, "--pass-rate", "rate")
    assert asked.returncode == 1 and "--percent" in asked.stderr and "row 2" in asked.stderr
    done = hardgrpo("choose", path, "--budget", 4, "--pass-rate", "rate", "--percent")
    assert {row["rate"] for row in read_lines(chosen_path(done))} == {50}


def test_the_band_keeps_the_prompts_within_two_rates(hardgrpo, folder):
    rows = [{"problem": f"p{i}", "answer": "x", "rate": i / 10} for i in range(11)]
    path = write_lines(folder / "s.jsonl", rows)
    done = hardgrpo("choose", path, "--policy", "band", "--pass-rate", "rate")
    assert sorted(row["rate"] for row in read_lines(chosen_path(done))) == [i / 10 for i in range(2, 9)]  # fmt: skip


def test_a_batch_file_is_written_and_its_output_read(hardgrpo, server, folder):
    path = write_lines(folder / "s.jsonl", sum_rows(20))
    done = hardgrpo("choose", path, "--model", "m", "--write-batch", "b.jsonl", "--budget", 3)
    requests = read_lines("b.jsonl")
    assert done.returncode == 0 and len(requests) == 20 and requests[0]["body"]["n"] == 8
    answers = [
        {"custom_id": request["custom_id"], "error": None, "response": {"status_code": 200, "body": sums(request["body"])}}
        for request in requests[::-1]
    ]  # fmt: skip
    answers[3] |= {"response": {"status_code": 500, "body": {"error": {"message": "overloaded"}}}}
    write_lines(folder / "out.jsonl", answers[:-1])
    done = hardgrpo("choose", path, "--budget", 3, "--completions", "out.jsonl")
    assert [row["pass_rate"] for row in read_lines(chosen_path(done))] == [0.5] * 3
    assert "2 of 20 prompts have no pass rate" in done.stdout and "overloaded" in done.stdout
    hardgrpo("choose", path, "--model", "m", "--write-batch", "again.jsonl", "--completions", "out.jsonl", "--budget", 3)  # fmt: skip
    assert {row["custom_id"] for row in read_lines("again.jsonl")} == {
        answers[3]["custom_id"],
        answers[-1]["custom_id"],
    }
    refused = hardgrpo("choose", path, "--model", "m", "--write-batch", "b.jsonl", "--budget", 3)
    assert refused.returncode == 1 and "exists" in refused.stderr


def test_generations_of_the_file_are_used_with_their_verdicts(hardgrpo, folder):
    rows = [
        {"problem": f"p{i}", "solution": "\\boxed{1}", "answer": "1", "generations": ["\\boxed{1}"] * 4,
         "correctness_math_verify": [k < i % 5 for k in range(4)]}
        for i in range(20)
    ]  # fmt: skip
    path = write_lines(folder / "s.jsonl", rows)
    hint = hardgrpo("choose", path, "--budget", 3)
    assert hint.returncode == 1 and "--completions generations" in hint.stderr
    done = hardgrpo("choose", path, "--budget", 3, "--completions", "generations")
    assert [row["pass_rate"] for row in read_lines(chosen_path(done))] == [0.5] * 3


def test_completions_belong_to_questions(hardgrpo, folder):
    rows = [row | {"id": i} for i, row in enumerate(sum_rows(20))]
    path = write_lines(folder / "s.jsonl", rows)
    given = [row | {"completions": [f"\\boxed{{{row['answer']}}}", "\\boxed{0}"]} for row in rows]
    given[4] |= {"question": "Another question?"}
    write_lines(folder / "c.jsonl", given)
    done = hardgrpo("choose", path, "--budget", 3, "--completions", "c.jsonl")
    assert done.returncode == 0 and "row 5" in done.stdout and "K = 2" in done.stdout
    write_lines(folder / "c.jsonl", [row | {"question": f"other {row['id']}?"} for row in given])
    refused = hardgrpo("choose", path, "--budget", 3, "--completions", "c.jsonl", "--output", "o")
    assert refused.returncode == 1 and "same prompts" in refused.stderr


def test_a_function_grades_with_the_columns_of_the_row(hardgrpo, server, folder, monkeypatch):
    (folder / "own.py").write_text(
        "def reward(completions, answer, limit, **kwargs):\n"
        "    texts = [c[0]['content'] for c in completions]\n"
        "    return [0.9 if f'{{{a}}}' in t else 0.2 for t, a in zip(texts, answer)]\n"
        "def fails(completions, **kwargs):\n    raise KeyError('x')\n"
        "def slow(completions, **kwargs):\n    while True: pass\n"
    )
    path = write_lines(folder / "s.jsonl", sum_rows(20, limit=3))
    done = hardgrpo("choose", path, *ASK, server.url, "--grader", "own.py:reward")
    assert [row["pass_rate"] for row in read_lines(chosen_path(done))] == [0.5] * 3
    # the prompt is sent as it is
    assert server.requests[0]["messages"][0]["content"] == sum_rows(1)[0]["question"]
    done = hardgrpo("choose", path, *ASK, server.url, "--grader", "own.py:fails", "--output", "o")
    assert done.returncode == 1 and "row 1" in done.stderr and "KeyError" in done.stderr
    monkeypatch.setattr(measures, "GRADER_SECONDS", 0.05)
    arguments = ("--budget", 1, "--completions", "c.jsonl", "--output", "o")
    write_lines(folder / "c.jsonl", [row | {"completions": ["a", "b"]} for row in sum_rows(20)])
    done = hardgrpo("choose", path, *arguments, "--grader", "own.py:slow")
    assert done.returncode == 0 and "20 calls exceeded" in done.stdout


def test_the_defaults_are_what_the_page_of_results_recommends():
    text = (ROOT / "docs/which-prompts.md").read_text()
    labelled = re.search(r"`hardgrpo choose` chooses by `(\w+)` where the prompts have", text)[1]
    assert choice_options.Options(budget=5).policy_entry(is_labelled=True)["rule"] == labelled
    assert "**No prompt is labelled:** choose at random" in text
    assert choice_options.Options(budget=5).policy_entry(is_labelled=False)["rule"] == "random"


def test_the_page_and_the_file_of_python_are_those_of_the_command(server):
    choice = library.choose(sum_rows(20), budget=3, server={"url": server.url, "model": "m"})
    assert [row["pass_rate"] for row in choice.rows] == [0.5] * 3
    row = choice.trainer_rows("trl")[0]
    assert row["solution"] == row["answer"] and row["pass_rate"] == 0.5 and row["prompt"]
    assert choice.reward([f"\\boxed{{{row['answer']}}}", "\\boxed{0}"], [row["solution"]] * 2) == [
        1.0,
        0.0,
    ]
    rates = [i / 20 for i in range(20)]
    chosen = library.choose(sum_rows(20), budget=1, pass_rates=rates)
    assert chosen.rows[0]["pass_rate"] == 0.5
    texts = [[f"\\boxed{{{row['answer']}}}"] * (i % 3) + ["?"] for i, row in enumerate(sum_rows(9))]
    measured = library.choose(sum_rows(9), budget=2, completions=texts)
    assert {row["pass_rate"] for row in measured.rows} == {0.5}
    with pytest.raises(UserError, match="url"):
        library.choose(sum_rows(9), budget=2)


def test_the_expected_share_of_mixed_groups_has_no_selection_bias():
    """Of prompts that all have the pass rate 0.1, those that look hard are not harder."""
    import numpy as np

    rng = np.random.default_rng(1)
    correct, samples = rng.binomial(8, 0.1, 4000), np.full(4000, 8)
    lowest = lambda rates, split: np.argsort(rates, kind="stable")[:400]
    share = mixed.expected_mixed(correct, samples, 8, lowest)
    assert share == pytest.approx(1 - 0.9**8 - 0.1**8, abs=0.08)


# --- wrong calls and input: one line that names the file, the place and the remedy


@pytest.mark.parametrize(
    ("rows", "arguments", "words"),
    [
        ([{"a": 1, "b": 2}], [], ["which column", "--question", "a, b"]),
        (sum_rows(3), ["--question", "q"], ["no column 'q'", "--question"]),
        (sum_rows(3), ["--answer", "gold"], ["no column 'gold'", "--answer"]),
        ([{"question": "x", "Question": "y", "answer": "1"}], [], ["differ only in case", "--question"]),
        ([{"question": "one", "prompt": "two"}], [], ["row 1", "hold different texts"]),
        ([{"question": "x", "answer": "1", "final_answer": "2"}], [], ["row 1", "--answer"]),
        ([{"question": "x"}, {"question": " "}], [], ["row 2", "empty"]),
        ([{"question": "x"}, {"question": None}], [], ["row 2", "empty"]),
        ([{"messages": [{"role": "system", "content": "x"}]}], [], ["row 1", "no message of a user"]),
        ([{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}], [], ["row 1", "image_url"]),
        ([{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [1], "content": ""}]}], [], ["row 1", "tool call"]),
        (sum_rows(3), ["--budget", "0.5"], ["--url"]),
        (sum_rows(3), ["--budget", "7", "--policy", "random"], ["pool has 3"]),
        (sum_rows(3), ["--policy", "band", "--low", "0.9"], ["--policy band", "low"]),
        (sum_rows(3), ["--policy", "nowhere"], ["expected one of"]),
        (sum_rows(3), ["--policy", "lowest", "--budget", "1"], ["--by"]),
        (sum_rows(3), ["--pass-rate", "rate", "--budget", "1"], ["no column 'rate'"]),
        (sum_rows(3), ["--url", "http://x", "--budget", "1"], ["--model"]),
        (sum_rows(3), ["--url", "http://x", "--model", "m", "--most-money", "1", "--budget", "1"], ["--price"]),
        (sum_rows(3), ["--url", "http://x", "--model", "m", "--key", "gsk_secret", "--budget", "1"], ["key"]),
        (sum_rows(3), ["--grader", "no.py:f", "--budget", "1"], ["FILE.py:FUNCTION"]),
        (sum_rows(3), ["--completions", "no.jsonl", "--budget", "1"], ["no.jsonl", "no such file"]),
        ([{"question": f"q{i}", "answer": "a ^ {" if i else "x = {{"} for i in range(3)], ["--budget", "1"], ["row 1", "--grader"]),
        ([{"question": f"q{i}"} for i in range(3)], ["--budget", "1", "--policy", "hard"], ["needs answers"]),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_in_one_line(hardgrpo, folder, rows, arguments, words):
    path = write_lines(folder / "s.jsonl", rows)
    done = hardgrpo("choose", path, *arguments)
    assert done.returncode == 1 and "\n" not in done.stderr, done
    assert all(word in done.stderr for word in words), done.stderr
    assert not (folder / "s.choice").exists() and "secret" not in done.stderr + done.stdout


def test_the_command_is_a_program(folder):
    done = subprocess.run(
        [sys.executable, "-m", "hardgrpo.console", "choose", "nothing.csv"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.startswith("error: nothing.csv: no such file")
    assert done.stderr.count("\n") == 1


# --- mistakes of earlier versions


def test_rows_of_verl_keep_their_fields_in_the_trainers_file(hardgrpo, folder):
    rows = [
        {"data_source": "shop", "prompt": [{"role": "user", "content": f"q{i}?"}], "agent_name": "a", "rate": i % 5 / 4,
         "reward_model": {"style": "rule", "ground_truth": str(i)}, "extra_info": {"index": i, "tools_kwargs": {"x": 1}}}
        for i in range(20)
    ]  # fmt: skip
    path = write_lines(folder / "s.jsonl", rows)
    done = hardgrpo("choose", path, "--budget", 2, "--pass-rate", "rate", "--format", "verl")
    assert done.returncode == 0, done.stderr
    (exported,) = (folder / "s.choice").glob("*.verl.parquet")
    row = pq.read_table(exported).to_pylist()[0]
    index = row["extra_info"]["index"]
    assert (row["data_source"], row["agent_name"], row["ability"]) == ("shop", "a", "reasoning")
    assert row["reward_model"]["ground_truth"] == str(index) and row["extra_info"]["tools_kwargs"]
    assert row["prompt"][0]["content"].startswith(f"q{index}?\n") and row["extra_info"]["pass_rate"] == 0.5  # fmt: skip


def test_a_result_that_is_edited_while_the_command_runs_is_kept(hardgrpo, server, folder):
    path = write_lines(folder / "s.jsonl", sum_rows(9))
    chosen = chosen_path(hardgrpo("choose", path, *ASK, server.url))
    answer = server.answer

    def edit(body, number):
        open(chosen, "w").write("edited")
        return answer(body, number)

    server.answer = edit
    done = hardgrpo("choose", path, *ASK, server.url, "--samples", 9)
    assert done.returncode == 1 and "edited" in done.stderr and open(chosen).read() == "edited"
    assert not list((folder / "s.choice").glob(".new*"))


def test_typed_answers_that_look_like_formulas_are_read_as_they_were_typed(hardgrpo, folder):
    (folder / "p.csv").write_text("question,answer\n" + "".join(f"Solve {n},-x+{n}\n" for n in range(4)))  # fmt: skip
    path = chosen_path(hardgrpo("choose", "p.csv", "--budget", 2, "--policy", "random"))
    assert ",'-x+" in open(path).read()
    done = hardgrpo("choose", path, "--policy", "all", "--format", "trl")
    assert done.returncode == 0, done.stderr
    exported = read_lines(next(folder.glob("p.choice/*.choice/all.trl.jsonl")))
    assert all(row["solution"].startswith("-x+") for row in exported)


@pytest.mark.parametrize(("budget", "number"), [("100%", 20), ("10%", 2), ("0.1", 2), ("1", 1)])
def test_a_budget_is_a_number_or_a_share(hardgrpo, folder, budget, number):
    path = write_lines(folder / "s.jsonl", sum_rows(20))
    done = hardgrpo("choose", path, "--budget", budget, "--policy", "random")
    assert len(read_lines(chosen_path(done))) == number


def test_completions_of_a_column_belong_to_their_row(hardgrpo, folder):
    rows = [
        {"question": f"Which is {i}?", "A": "x", "B": "y", "answer": "A", "tries": ["\\boxed{A}"] * (i % 3) + ["\\boxed{B}"] * (2 - i % 3)}
        for i in range(30)
    ]  # fmt: skip
    path = write_lines(folder / "s.jsonl", rows)
    done = hardgrpo("choose", path, "--budget", 3, "--completions", "tries", "--limit", 20)
    assert [row["pass_rate"] for row in read_lines(chosen_path(done))] == [0.5] * 3


def test_completions_in_another_form_choose_the_grader_or_stop_the_command(hardgrpo, folder):
    rows = sum_rows(20)
    path = write_lines(folder / "s.jsonl", rows)
    texts = [["#### " + row["answer"], "#### 0"] if i % 2 else ["#### 0"] * 2 for i, row in enumerate(rows)]  # fmt: skip
    write_lines(folder / "c.jsonl", [{"question": r["question"], "completions": t} for r, t in zip(rows, texts)])  # fmt: skip
    done = hardgrpo("choose", path, "--budget", 3, "--completions", "c.jsonl")
    assert [row["pass_rate"] for row in read_lines(chosen_path(done))] == [0.5] * 3
    write_lines(folder / "c.jsonl", [{"question": row["question"], "completions": ["It is 3."]} for row in rows])  # fmt: skip
    done = hardgrpo("choose", path, "--budget", 3, "--completions", "c.jsonl", "--output", "o")
    assert done.returncode == 1 and "It is 3." in done.stderr and "--grader" in done.stderr
