"""The explorer of completions in a browser: its numbers equal the numbers in the evaluation files,
its links work, and completions are shown as plain text."""

from urllib.parse import quote

import pytest

from explorer_pages import WatchedPage, percent, summary_rows

pytestmark = pytest.mark.chromium


def sampled(rows):
    """The rows that the page shows before a decoding is chosen."""
    return rows[rows.decoding == "sampled"]


def test_the_numbers_equal_those_of_the_evaluation_files(study, watched):
    watched.open(study.url)
    rows = sampled(study.rows)
    assert watched.cells("#summary") == summary_rows(rows)
    assert watched.text("#pager b") == "150 problems"
    problems = watched.cells("#problems")
    assert len(problems) == 100
    for cells in problems:
        problem_id = cells[0].split("\n")[0]
        problem_rows = rows[rows.id == problem_id]
        is_base = problem_rows.policy == "base model"
        runs, base = (
            problem_rows[~is_base],
            problem_rows[is_base & (problem_rows.decoding == "sampled")],
        )
        rate, up, down = (
            base.correct.mean(),
            (runs.correct > runs.base_correct).sum(),
            (runs.correct < runs.base_correct).sum(),
        )
        tier = "–" if problem_rows.tier.isna().all() else f"{problem_rows.tier.iloc[0]:.0f}"
        assert cells[1:] == [
            problem_rows.test.iloc[0],
            tier,
            f"{rate:.2f}",
            str(len(problem_rows)),
            percent(problem_rows.correct),
            str(up),
            str(down),
        ]


FILTERS = [
    ({"test": "u"}, lambda r: r.test == "u"),
    ({"policy": "hard"}, lambda r: r.policy == "hard"),
    ({"policy": "(base)"}, lambda r: r.policy == "base model"),
    ({"seed": "1"}, lambda r: r.model_path.str.endswith("seed1")),
    ({"tier": "2"}, lambda r: r.tier == 2),
    ({"decoding": "greedy"}, lambda r: r.decoding == "greedy"),
    ({"decoding": "all"}, lambda r: r.id.notna()),
    ({"grade": "correct"}, lambda r: r.correct == 1),
    ({"grade": "wrong"}, lambda r: (r.correct == 0) & (r.answered == 1)),
    ({"grade": "unanswered"}, lambda r: r.answered == 0),
    ({"grade": "truncated"}, lambda r: r.truncated == 1),
    ({"change": "up"}, lambda r: (r.correct > r.base_correct) & (r.policy != "base model")),
    ({"change": "down"}, lambda r: (r.correct < r.base_correct) & (r.policy != "base model")),
    ({"policy": "easy", "seed": "0", "change": "either", "test": "t", "tier": "1"},
     lambda r: (r.model_path == "m/t/r/easy/seed0") & (r.correct != r.base_correct) & (r.test == "t") & (r.tier == 1)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "matches"),
    FILTERS,
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_filters_show_exactly_the_matching_completions(study, watched, values, matches):
    watched.open(study.url)
    watched.filter(**values)
    decoded_rows = study.rows if "decoding" in values else sampled(study.rows)
    rows = decoded_rows[matches(decoded_rows)]
    assert watched.cells("#summary") == summary_rows(rows)
    assert watched.text("#pager b") == f"{rows.id.nunique()} problem" + "s" * (
        rows.id.nunique() != 1
    )
    watched.page.locator("#clear").click()
    watched.wait_until_ready()
    assert watched.cells("#summary") == summary_rows(sampled(study.rows))


def test_problems_are_filtered_by_pass_rate(study, watched):
    watched.open(study.url + "#p=zero")
    is_base = (study.rows.policy == "base model") & (study.rows.decoding == "sampled")
    rates = study.rows[is_base].groupby("id").correct.mean()
    assert watched.text("#pager b") == f"{(rates == 0).sum()} problems"


def test_text_is_found_in_questions_and_in_completions(study, watched):
    watched.open(study.url)
    watched.page.locator("#filter-search").fill("NUMBER 17?")
    watched.page.keyboard.press("Enter")
    watched.page.locator("html[data-ready*=search]").wait_for(state="attached")
    of_problem = sampled(study.rows[study.rows.id.str.endswith("-017")])
    assert watched.cells("#summary") == summary_rows(of_problem)
    watched.open(study.url + "#decoding=all&search=" + quote("Hard/SEED1 step 10 greedy"))
    of_completions = study.rows.completion.str.startswith("m/t/r/hard/seed1 step 10 greedy")
    assert watched.cells("#summary") == summary_rows(study.rows[of_completions])
    watched.open(study.url + "#search=" + quote("step 5"))
    assert "No completion passes all filters." in watched.text("#problems"), (
        "the page shows a completion of an earlier checkpoint"
    )


def test_a_link_restores_the_selection_and_the_back_button_undoes_each_step(
    study, watched, chromium
):
    watched.open(study.url)
    watched.filter(test="t", policy="hard", change="up")
    watched.page.locator("#problems tbody tr").nth(3).click()
    watched.wait_until_ready()
    watched.page.locator(".pairs tbody a").last.click()
    watched.wait_until_ready()
    main_text, address = watched.page.locator("main").inner_text(), watched.page.url
    second_page = WatchedPage(chromium)
    second_page.open(address)
    assert second_page.page.locator("main").inner_text() == main_text
    assert second_page.page.locator("#filter-change").input_value() == "up"
    second_page.page.close()
    assert not second_page.messages

    (problem_id,) = {part for part in [watched.text("#detail h2")] if part.startswith("t-")}
    chosen = watched.page.locator(".pairs tr.chosen td").all_inner_texts()
    row = sampled(study.rows)[
        (study.rows.id == problem_id)
        & (study.rows.policy == "hard")
        & (study.rows.correct > study.rows.base_correct)
    ].iloc[-1]
    assert chosen[0] == f"hard, seed {row.model_path[-1]}" and chosen[1:3] == [
        row.decoding,
        str(row["sample"]),
    ]
    sides = {side: watched.text(f"[data-side={side}]") for side in ("base", "checkpoint")}
    base = study.rows[(study.rows.id == problem_id) & (study.rows.policy == "base model")]
    base = base[(base.decoding == row.decoding) & (base["sample"] == row["sample"])].iloc[0]
    for side, side_row in (("base", base), ("checkpoint", row)):
        assert side_row.completion in sides[side] and f"{side_row.tokens} tokens" in sides[side]
    assert (
        "correct · answer read: n" in sides["checkpoint"]
        and "after 10 updates" in sides["checkpoint"]
    )
    assert ("cut off at the limit" in sides["base"]) == bool(base.truncated)

    for step in ("row", "open", "change", "policy", "test"):
        assert f"{step}=" in watched.page.url
        watched.page.go_back()
        watched.wait_until_ready()
        assert f"{step}=" not in watched.page.url
    assert watched.cells("#summary") == summary_rows(sampled(study.rows))


def test_a_link_to_what_the_study_does_not_have_shows_no_completion(study, watched):
    watched.open(study.url + "#policy=%3Cb%3Enone&open=m/t/nothing&page=99")
    assert watched.text("#problems tbody") == "No completion passes all filters."
    watched.open(study.url + "#test=u&open=m/t/nothing&grade=nothing&page=99")
    assert watched.cells("#summary") == summary_rows(sampled(study.rows[study.rows.test == "u"]))
    assert watched.page.locator("#detail").is_hidden()


def test_keys_move_between_problems_completions_and_pages(study, watched):
    watched.open(study.url + "#test=t")
    watched.press("j")
    assert watched.text("#detail h2") == "t-000"
    watched.press("j")
    watched.press("j")
    watched.press("k")
    assert watched.text("#detail h2") == "t-001"
    assert watched.text("#detail .pager span").startswith("completion 1 of 15")
    watched.press("n")
    watched.press("n")
    watched.press("p")
    assert watched.text("#detail .pager span").startswith("completion 2 of 15")
    watched.press("]")
    assert "page 2 of 2" in watched.text("#pager") and len(watched.cells("#problems")) == 30
    watched.press("[")
    assert "page 1 of 2" in watched.text("#pager")
    watched.press("Escape")
    assert watched.page.locator("#detail").is_hidden()
    watched.press("/")
    watched.page.keyboard.type("j")
    assert watched.page.locator("#filter-search").input_value() == "j", (
        "letters typed into the search field ran commands"
    )


def test_the_page_fits_on_paper_and_in_windows_of_several_widths(study, watched):
    row = quote("t/r/hard/0/sampled/1", safe="")
    watched.open(study.url + f"#open={quote('m/t/t-000', safe='')}&row={row}")
    for width, media, scheme in [
        (1400, "screen", "light"),
        (1000, "screen", "dark"),
        (700, "print", "dark"),
    ]:
        watched.page.set_viewport_size({"width": width, "height": 900})
        watched.page.emulate_media(media=media, color_scheme=scheme)
        assert watched.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), (
            width,
            media,
        )
        assert watched.page.locator("[data-side=checkpoint] .text").is_visible()


def test_a_link_to_a_greedy_completion_shows_the_completion(study, watched):
    row = quote("t/r/hard/0/greedy/0", safe="")
    watched.open(study.url + f"#open={quote('m/t/t-000', safe='')}&row={row}")
    assert "· greedy ·" in watched.text("[data-side=checkpoint]")
