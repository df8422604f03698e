"""Questions that a pool and a test share, repeated questions of a split, and the programs' messages
about them."""

import csv
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardgrpo.data import contamination
from hardgrpo.data.question_ids import question_id
from hardgrpo.runtime import files
from in_process import check_refusal, prepare_task, run
from text_tables import rows_of

WORDS = sum(
    rows_of(
        "train | station | bridge | river | village | mill | harvest | garden | lantern | ladder"
    ),
    [],
)


def sentence(seed: int, words: int = 20) -> str:
    generator = random.Random(seed)
    return " ".join(f"{generator.choice(WORDS)}{generator.randrange(1000)}" for _ in range(words))


# --- which questions are equal


SPELLINGS = """
what is 2+2 | What  is\t2 + 2 ? | WHAT IS 2 + 2?! | “What is 2+2?” | What is\u00a02+2… | What is $2+2$? | what is ２+2
"""
OTHER_QUESTIONS = """
What is 3 - 4? | What is 3 + 4?
What is -4? | What is 4?
What is 3.5? | What is 35?
What is .5? | What is 5? | What is 5!?
What is n! for n = 3? | What is n for n = 3?
What is (1+2)*3? | What is 1+2*3?
What is x - y? | What is x y?
What is 12? | What is 1 2?
??? | !!!
"""


def test_case_spaces_and_punctuation_do_not_make_another_question():
    (spellings,) = rows_of(SPELLINGS)
    assert set(map(contamination.normalize, spellings)) == {contamination.normalize("What is 2+2?")}


def test_signs_digits_and_symbols_make_another_question():
    for questions in rows_of(OTHER_QUESTIONS):
        assert len(set(map(contamination.normalize, questions))) == len(questions), questions


@given(st.text(min_size=1).filter(str.strip))
def test_normalizing_twice_changes_nothing_more(question):
    normalized = contamination.normalize(question)
    assert contamination.normalize(normalized) == normalized or not any(
        character.isalnum() for character in normalized
    )


def test_a_hyphen_between_words_is_punctuation_and_between_numbers_a_sign():
    assert contamination.normalize("A well-known town – old") == contamination.normalize(
        "a well known town old"
    )
    assert contamination.normalize("10-4") != contamination.normalize("10 4")


# --- which questions are near


def by_hand(question: str, other_question: str, n: int) -> float:
    runs = [
        {tuple(text.split()[i : i + n]) for i in range(len(text.split()) - n + 1)}
        for text in (question, other_question)
    ]
    return len(runs[0] & runs[1]) / min(map(len, runs))


def test_a_question_with_a_changed_number_is_near_with_the_share_computed_by_hand():
    question = "alpha beta gamma delta epsilon zeta eta theta iota 5 lambda mu nu xi omicron pi rho sigma tau upsilon phi chi psi omega"
    changed_question = question.replace("5", "7")
    (match,) = contamination.find_matches([question], [sentence(1), changed_question])
    assert (match.reference_index, match.equal, match.kind == "near") == (1, False, True)
    assert match.share == by_hand(question, changed_question, contamination.NGRAM_WORDS)


def test_a_long_question_is_compared_by_longer_runs():
    parts = [sentence(seed, 10) for seed in range(24)]
    question = " ".join(parts[:12])
    shares_runs_of_ten = " ".join(part for pair in zip(parts[:12], parts[12:]) for part in pair)
    (match,) = contamination.find_matches([question], [question + " " + sentence(99)])
    assert match.kind == "near" and not match.equal
    assert contamination.find_matches([question], [shares_runs_of_ten]) == [], (
        "questions that share only runs of ten words match, although thirteen are required"
    )


def test_a_short_question_within_a_longer_question_is_near_in_both_directions():
    question, around = sentence(1), f"{sentence(2, 60)} {sentence(1)} {sentence(3, 19)}"
    assert contamination.find_matches([question], [around])[0].share == 1.0
    assert contamination.find_matches([around], [question])[0].share == 1.0


def test_questions_that_share_only_a_template_do_not_match():
    template = "{} and {} play a game in which each of them holds a ball of some colour and they swap them again and again until the end"
    questions = [template.format(sentence(seed, 1), sentence(-seed, 1)) for seed in range(1, 60)]
    assert contamination.find_matches(questions[:20], questions[20:]) == []
    assert contamination.find_matches(questions) == []


def test_each_question_has_at_most_one_match_which_is_the_best_of_all():
    generator = random.Random(5)
    pool = [sentence(seed, generator.randrange(8, 40)) for seed in range(60)]
    tests = [
        " ".join(generator.choice(pool).split()[generator.randrange(6) :]) for _ in range(40)
    ] + [pool[0].upper(), "short one"]
    matches = contamination.find_matches(tests, pool)
    assert len({match.index for match in matches}) == len(matches)
    for index, text in enumerate(tests):
        shares = [
            0 if len(text.split()) < 8 else by_hand(text.casefold(), pool_question, 8)
            for pool_question in pool
        ]
        match = next((match for match in matches if match.index == index), None)
        assert (match.share if match else 0) == pytest.approx(max(shares))


def test_compared_with_itself_a_list_gives_each_pair_once():
    question = sentence(1, 30)
    (match,) = contamination.find_matches([sentence(2), question, question + " more", sentence(3)])
    assert (match.index, match.reference_index) == (2, 1)
    assert [
        (m.index, m.reference_index, m.equal)
        for m in contamination.find_matches([question, sentence(2), question.upper()])
    ] == [(2, 0, True)]


# --- the programs


def test_questions_of_a_few_characters_and_empty_lists_have_no_match():
    assert contamination.find_matches(["a", "b"], ["c"]) == []
    assert contamination.find_matches(["a"], []) == []
    assert contamination.find_matches([]) == []


def problem(problem_id: str, question: str, answer: str | None = "1") -> dict:
    return {"id": problem_id, "question": question, "answer": answer}


def compare(folder, pool: list[dict], test: list[dict], *options: str):
    files.write_jsonl(folder / "train.jsonl", pool)
    files.write_jsonl(folder / "test.jsonl", test)
    return run(
        folder, "compare_splits", *options, task="mine", pool="train.jsonl", test="mine",
        problems="test.jsonl", output="C.csv",
    )  # fmt: skip


POOL = [problem(f"p{i}", sentence(i)) for i in range(10)]


def test_a_test_question_of_the_pool_is_refused_and_named(tmp_path):
    test = [
        problem("t0", sentence(100)),
        problem("t1", sentence(3).upper() + "?"),
        problem("t2", sentence(4)),
    ]
    done = compare(tmp_path, POOL, test)
    check_refusal(done, "2 of 3", "'t1' ('p3')", "'t2' ('p4')", "contamination")
    assert not (tmp_path / "C.csv").exists() and not (tmp_path / "C.json").exists()
    assert "'t2' ('p4')" in done.stdout, "the log does not list every question that is in the pool"


def test_contaminated_questions_are_counted_and_listed_if_the_task_says_report(tmp_path):
    test = [
        problem("t0", sentence(100)),
        problem("t1", sentence(3).upper() + "?"),
        problem("t2", sentence(5) + " indeed"),
    ]
    done = compare(tmp_path, POOL, test, "--contamination", "report")
    assert done.returncode == 0, done.stderr
    keys = dict.fromkeys(("id", "other_split", "other_id", "match"), str)
    rows = [tuple(row[key] for key in keys) for row in files.read_rows(tmp_path / "C.csv", keys)]
    assert rows == [("t1", "train", "p3", "equal"), ("t2", "train", "p5", "near")]
    counts = json.loads((tmp_path / "C.json").read_text())
    assert (counts["problems"], counts["equal"], counts["near"]) == (3, 1, 1)
    assert "1 are in the pool, 1 are near" in done.stdout


def test_a_test_that_is_the_pool_is_refused_whatever_the_task_says(tmp_path):
    test = [problem(f"t{i}", sentence(i)) for i in range(10)]
    done = compare(tmp_path, POOL, test, "--contamination", "report")
    assert done.returncode == 1 and "10 of 10" in done.stderr and not (tmp_path / "C.csv").exists()


def prepare(folder, rows: list[tuple[str, str]], **options):
    with open(folder / "mine.csv", "w", newline="") as stream:
        csv.writer(stream).writerows([("question", "answer"), *rows])
    return prepare_task(folder, "mine.csv", **options)


def test_the_first_of_equal_questions_stays_in_the_pool_and_the_others_are_reported(tmp_path):
    rows = [("How many?", "3"), ("What else?", "5"), ("how  many", "3.0"), ("HOW MANY?", "3")]
    done = prepare(tmp_path, rows, grader="number_lenient")
    assert done.returncode == 0, done.stderr
    problems = files.read_jsonl(tmp_path / "P.jsonl", {"id": str, "question": str})
    assert [row["question"] for row in problems] == ["How many?", "What else?"]
    assert (
        problems[0]["repeated_as"] == [question_id("how many"), question_id("HOW MANY?")]
        and "repeated_as" not in problems[1]
    )
    assert "2 questions" in done.stdout and question_id("HOW MANY?") in done.stdout
    compared = run(tmp_path, "compare_splits", task="mine", pool="P.jsonl", output="C.csv")
    assert compared.returncode == 0 and json.loads((tmp_path / "C.json").read_text()) == {
        "problems": 2,
        "repeated": 2,
        "near": 0,
    }
    assert (
        f"train,{question_id('how many')},train,{question_id('How many?')},repeated,1.0"
        in (tmp_path / "C.csv").read_text()
    )


def test_a_test_split_keeps_and_reports_equal_questions(tmp_path):
    done = prepare(
        tmp_path,
        [("How many?", "3"), ("how many", "3")],
        grader="number_lenient",
        split="test",
    )
    assert done.returncode == 0 and len(files.read_jsonl(tmp_path / "P.jsonl", {"id": str})) == 2
    assert "1 questions" in done.stdout


@pytest.mark.parametrize("split", ["train", "test"])
def test_equal_questions_with_different_answers_are_an_error_that_names_the_rows(tmp_path, split):
    rows = [(f"Question {i % 5}?", str(i)) for i in range(20)]
    done = prepare(tmp_path, rows, grader="number_lenient", split=split)
    check_refusal(done, "15 pairs", "mine.csv", "row 2 ('0')", "row 7 ('5')", ", ...")
    assert not (tmp_path / "P.jsonl").exists()


def test_repeated_questions_without_answers_are_left_out(tmp_path):
    done = prepare(tmp_path, [("How many?", ""), ("how many", "")], unlabelled=True)
    assert done.returncode == 0 and len(files.read_jsonl(tmp_path / "P.jsonl", {"id": str})) == 1
