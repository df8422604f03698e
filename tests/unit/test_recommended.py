"""The recommended way of choosing prompts follows from the committed comparisons with a random
choice, by the rule in the docstring of pages/recommended.py."""

from dataclasses import replace

import pandas as pd
import pytest

import project_config
from conftest import ROOT
from hardgrpo.report import ways
from pages import recommended

POLICIES = {
    "random": {"rule": "random", "budget": 0.1},
    "random_5": {"rule": "random", "budget": 0.05},
    "hard": {"rule": "hard", "budget": 0.1},
    "unsure": {"rule": "lowest", "by": "agreement", "budget": 0.1},
    "unsure_5": {"rule": "lowest", "by": "agreement", "budget": 0.05},
    "all": {"rule": "all"},
}
RECIPES = {
    "short": {"updates": 5},
    "long": {"updates": 9},
    "short_curve": {"updates": 5, "checkpoint_every": 1},
}
CONFIG = {
    "policies": POLICIES,
    "recipes": RECIPES,
    "studies": {"s": {"arms": [{"policy": "random", "recipe": ["short", "long"]}]}},
}
COLUMNS = [
    "model",
    "task",
    "eval_task",
    "policy",
    "recipe",
    "minus",
    "minus_recipe",
    "difference",
    "difference_low",
    "difference_high",
    "p",
    "seeds",
]


def table(*rows: tuple) -> list[recommended.Lead]:
    """Leads made from (policy, minus, difference, p, and the recipe if it is not "short"), for one
    model and task."""
    pairs = [
        ((row[0], recipe), (row[1], recipe), row[2], row[3])
        for row in rows
        for recipe in (row[4] if len(row) > 4 else "short",)
    ]
    differences = [
        ("m", "t", "t", *arm, *minus, value, value - 0.01, value + 0.02, p, 10)
        for arm, minus, value, p in pairs
    ]
    differences += [
        ("m", "t", "other", *arm, *minus, -value, 0, 0, p, 10) for arm, minus, value, p in pairs
    ]
    arms = dict.fromkeys(arm for pair in pairs for arm in pair[:2])
    spent = [("m", "t", *arm, 50 if "unsure" in arm[0] else 500) for arm in arms]
    gains = [
        ("m", "t", eval_task, *arm, "sampled", 0.25 if eval_task == "t" else 0.5)
        for arm in arms
        for eval_task in ("t", "other")
    ]
    return recommended.leads_of_study(
        "s",
        CONFIG["policies"],
        CONFIG["recipes"],
        pd.DataFrame(differences, columns=COLUMNS),
        pd.DataFrame(spent, columns=["model", "task", "policy", "recipe", "labels"]),
        pd.DataFrame(
            gains, columns=["model", "task", "eval_task", "policy", "recipe", "decoding", "gain"]
        ),
    )


def test_a_lead_is_over_random_with_the_same_budget_and_recipe_whichever_arm_is_subtracted():
    cases = table(
        ("hard", "random", 0.03, 0.2),
        ("random", "unsure", 0.04, 0.001),
        ("hard", "unsure", 0.05, 0.001),
        ("unsure_5", "random_5", 0.06, 0.03),
        ("all", "random", 0.5, 1e-9),
        ("unsure", "random", 0.01, 0.6, "long"),
    )
    leads = {(case.way, case.budget, case.recipe): case for case in cases}
    assert set(leads) == {
        ("hard", 0.1, "short"),
        ("unsure", 0.1, "short"),
        ("unsure", 0.05, "short"),
        ("unsure", 0.1, "long"),
    }
    unsure = leads["unsure", 0.1, "short"]
    assert (unsure.difference, unsure.low, unsure.high) == pytest.approx((-0.04, -0.06, -0.03))
    assert (unsure.needs, unsure.labels, unsure.verdict) == ("none", 50, "worse")
    assert leads["hard", 0.1, "short"].needs == "pool" and leads["hard", 0.1, "short"].labels == 500


def test_holm_corrects_for_the_comparisons_of_one_case():
    cases = table(
        ("hard", "random", 0.03, 0.04),
        ("unsure", "random", 0.04, 0.03),
        ("unsure_5", "random_5", 0.06, 0.03),
    )
    assert [(case.way, case.verdict) for case in cases] == [
        ("hard", "no difference shown"), ("unsure", "no difference shown"), ("unsure", "better"),
    ]  # fmt: skip


def test_a_way_that_is_worse_anywhere_or_better_only_once_is_not_recommended():
    better_twice = table(("unsure", "random", 0.04, 0.001), ("unsure_5", "random_5", 0.06, 0.001))
    once = table(("hard", "random", 0.09, 0.001))
    worse = table(("unsure", "random", -0.04, 0.001, "long"))
    assert recommended.recommended_way(better_twice + once) == "unsure"
    assert recommended.recommended_way(once) is None and recommended.recommended_way([]) is None
    assert recommended.recommended_way(better_twice + once + worse) is None


def test_runs_that_two_studies_share_count_once():
    few, many = (
        [replace(case, study=study, seeds=seeds) for case in table(("hard", "random", 0.03, 0.2))]
        for study, seeds in (("a", 5), ("b", 10))
    )
    longer = table(("hard", "random", 0.03, 0.2, "long"))
    assert (
        recommended.without_repetitions(few + many + longer)
        == many + longer
        == recommended.without_repetitions(many + longer + few)
    )
    with_checkpoints = table(("hard", "random", 0.03, 0.2, "short_curve"))
    assert [case.recipe for case in with_checkpoints] == ["short"], (
        "runs that differ only in the times of checkpoints must count as one"
    )


def test_the_page_recommends_policies_without_labels_and_with_all_labels(monkeypatch, tmp_path):
    cases = table(
        ("unsure", "random", 0.04, 0.001),
        ("unsure_5", "random_5", 0.06, 0.001),
        ("hard", "random", 0.09, 0.2),
    )
    monkeypatch.setattr(recommended, "leads", lambda root, config: cases)
    page = recommended.page(tmp_path, CONFIG)
    assert (
        "**No prompt is labelled:** choose by `unsure`, which was worse in no case and better in 2 of 2 cases:"
        " t of m with recipe `short` (lead +4.0, gain +25.0 points); t of m with recipe `short` (lead +6.0, gain +25.0 points).\n"
    ) in page
    assert (
        "with no label or a small labelled sample or the labels of the whole pool, `unsure`. `unsure` is better than a random choice in 2 of 2"
        " cases; these 2 cases have recipe `short` and leads of +4.0 (gain +25.0) and +6.0 (gain +25.0) points."
        in recommended.short_finding(tmp_path, CONFIG)
    )
    assert page.count(". No way that needs a small labelled sample has been studied") == 1
    assert "| `hard` | `rule: hard` | the labels of the whole pool | 0, 1, 0 |" in page
    assert "| s | m, t | short | 5 % | unsure | 50 | +25.0 | +6.0 [+5.0, +8.0] | better |" in page
    monkeypatch.setattr(
        recommended,
        "leads",
        lambda root, config: cases[-1:] if cases[-1].way == "hard" else cases[:1],
    )
    page = recommended.page(tmp_path, CONFIG)
    assert "choose at random. None of `" in page and "(compared in 1 case)" in page


def test_the_figure_shows_the_recommendation_and_counts_cases_without_a_shown_difference():
    """The picture in README.md shows every case, including leads outside the axis."""
    config, root = project_config.config(), ROOT
    cases = recommended.every_case(root, config)
    best = recommended.values(root, config)["advice"][0]["best"]
    title = recommended.title(root, config)
    assert ("at random" in title) == (best is None)
    figure = ways.draw(cases, title, recommended.real_models(ROOT))
    axis, real_axis = figure.axes
    texts = [text.get_text() for text in axis.texts]
    for way, rows in cases.groupby("way"):
        assert way.replace("_", " ") in [label.get_text() for label in axis.get_yticklabels()]
        assert str((rows.verdict == "no difference shown").sum()) in texts
    dots = [line for line in axis.lines if line.get_marker() in ("o", "<", ">")]
    assert len(dots) == len(cases) and figure.get_suptitle() == title
    renderer = figure.canvas.get_renderer()
    texts = [
        text
        for figure_axis in figure.axes
        for text in [*figure_axis.texts, *figure_axis.get_yticklabels()]
    ]
    boxes = [text.get_window_extent(renderer) for text in texts]
    frame = figure.bbox
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes), "a text is cut off"
    assert not [1 for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)], "texts overlap"
    real = recommended.real_models(root)
    real_dots = [line.get_xdata()[0] for line in real_axis.lines if line.get_marker() == "o"]
    assert real_dots == pytest.approx(list(100 * real.difference)) and len(real_dots) > 1
    real_texts = [text.get_text() for text in real_axis.texts]
    assert sum("one run each" in text for text in real_texts) == (real.runs == 1).sum() > 0
