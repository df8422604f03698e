"""No figure of a committed study has overlapping texts, cut-off labels, empty panels, or intervals
of shares beyond 0 and 100 %."""

import inspect
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import drawn_figures
import project_config
from conftest import ROOT
from hardgrpo.analysis import summaries
from hardgrpo.report import figures, plotting, registry
from hardgrpo.runtime import files
from hardgrpo.selection import policies
from hardgrpo.study.resolved import resolve_study

CONFIG = project_config.config()
COMMITTED = sorted(
    path.name for path in (ROOT / "results/reference").iterdir() if path.name != "all"
)
FIGURES = [
    (study, figure)
    for study in COMMITTED
    for figure in registry.figures_of(resolve_study(CONFIG, study))
]
SHARES = {"accuracy (%)", "pass@k (%)", "learnable share of groups (%)", "groups (%)"}


@cache
def policy_settings(study: str) -> dict:
    names = resolve_study(CONFIG, study).policies
    return {name: CONFIG["policies"][name] for name in names}


def draw(study: str, figure: str):
    """(figure, rows drawn) from the committed tables."""
    entry = registry.all_figures()[figure]
    tables = files.Tables.below(ROOT / "results/reference" / study)
    first_recipe = resolve_study(CONFIG, study).first_recipe
    design = entry.design(resolve_study(CONFIG, study))
    function = figures.ALL[figure]
    names = [name for name in inspect.signature(function).parameters if name not in design]
    frames = summaries.read_all(tables, names, first_recipe)
    plotting.use_policies(policy_settings(study))
    return function(**frames, **design)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize(("study", "figure"), FIGURES)
def test_a_committed_figure_is_legible(study, figure):
    drawn, rows = draw(study, figure)
    assert len(rows) and drawn_figures.faults(drawn) == []
    width, height = drawn.get_size_inches()
    assert width <= plotting.WIDE and height <= plotting.TALLEST + 0.01
    for axis in drawn.axes:
        assert not outside_shares(drawn, axis), "the interval of a share exceeds 0 or 100 %"


def outside_shares(figure, axis) -> list[float]:
    """Ends of error bars beyond 0 and 100 on an axis of shares."""
    shared = figure.get_supxlabel() in SHARES
    ends = []
    for bars in axis.containers:
        for number, is_share in (
            (0, shared or axis.get_xlabel() in SHARES),
            (1, axis.get_ylabel() in SHARES),
        ):
            if is_share and hasattr(bars, "has_yerr"):
                segments = [segment for lines in bars.lines[2] for segment in lines.get_segments()]
                ends += [end[number] for segment in segments for end in segment]
    return [end for end in ends if not -1e-9 <= end <= 100 + 1e-9]


# --- the checks find faults


def test_overlapping_texts_cut_off_texts_and_empty_panels_are_found():
    figure, (left, right) = plt.subplots(1, 2, figsize=(4, 2), layout="constrained")
    left.plot([0, 1], [0, 1])
    left.text(0.2, 0.5, "first words")
    left.text(0.22, 0.52, "second words")
    figure.text(0.98, 0.5, "words beyond the edge")
    assert drawn_figures.faults(figure) == [
        "'words beyond the edge' is cut off at the edge of the figure",
        "'first words' and 'second words' overlap",
        "panel '' is empty",
    ]


def test_slanted_names_that_overlap_are_found():
    figure, axis = plt.subplots(figsize=(4, 2), layout="constrained")
    axis.plot(range(30), range(30))
    look = {"rotation": 30, "ha": "right", "rotation_mode": "anchor", "fontsize": 8}
    axis.set_xticks(range(30), [f"agreement_lowest_{n}" for n in range(30)], **look)
    assert any("overlap" in line for line in drawn_figures.faults(figure))


# --- colours and intervals


def test_every_rule_belongs_to_a_family_and_each_family_has_its_own_hue():
    assert {rule.family for rule in policies.RULES.values()} == set(plotting.FAMILIES)
    assert len({color for color, *_ in plotting.FAMILIES.values()}) == len(plotting.FAMILIES)


def test_a_family_has_one_hue_in_every_study_and_budgets_differ_in_size_and_fill():
    hues = {}
    for study in CONFIG["studies"]:
        looks = plotting.looks(policy_settings(study))
        for name, look in looks.items():
            family = policies.RULES[CONFIG["policies"][name]["rule"]].family
            hues.setdefault(family, set()).add(look["color"])
        marks = [
            tuple(look[key] for key in ("marker", "linestyle", "markersize"))
            for look in looks.values()
        ]
        assert len(set(marks)) == len(marks), f"{study}: two policies look alike in grey print"
    assert all(len(colors) == 1 for colors in hues.values())
    looks = plotting.looks(policy_settings("trajectories"))
    assert looks["hard"]["linestyle"] != looks["hard_solvable"]["linestyle"], (
        "two policies of one hue have the same line style"
    )
    looks = plotting.looks(policy_settings("mini_labels"))
    assert looks["hard_5"]["color"] == looks["hard_2"]["color"] == looks["hard"]["color"]
    assert (
        looks["hard"]["markersize"] > looks["hard_5"]["markersize"] > looks["hard_2"]["markersize"]
    )
    assert looks["hard_5"]["markerfacecolor"] == "white"


def test_an_interval_of_a_share_beyond_0_or_100_per_cent_becomes_a_score_interval():
    share = pd.Series([0.5, 0.97, 0.02, 0.0, 1.0, 0.3])
    half = pd.Series([0.1, 0.06, 0.05, 0.01, 0.01, np.nan])
    low, high = plotting.limit_share(share, share - half, share + half)
    assert (low[0], high[0]) == (0.4, 0.6), "an interval within 0 and 100 % was changed"
    has_interval = half.notna()
    assert low[has_interval].between(0, 1).all() and high[has_interval].between(0, 1).all()
    assert (low[has_interval] <= share[has_interval]).all() and (
        share[has_interval] <= high[has_interval]
    ).all()
    # the score interval of 97 of 100 with z = 1.96: 0.9155 to 0.9897 (Newcombe 1998's formula)
    n, z = 100, 1.959964
    half_width = z * np.sqrt(0.97 * 0.03 / n)
    low, high = plotting.limit_share(
        *map(pd.Series, ([0.97], [0.97 - half_width], [0.97 + half_width]))
    )
    assert (low[0], high[0]) == pytest.approx((0.9155, 0.9897), abs=1e-4)
    assert np.isnan(plotting.limit_share(share, share - half, share + half)[0][5])


def test_arms_of_one_hue_are_adjacent_and_panels_with_mostly_equal_rows_stand_side_by_side():
    plotting.use_policies(policy_settings("mini_labels"))
    names = ["hard", "random", "hard_5", "random_5"]
    frame = pd.DataFrame({"arm": names, "policy": names})
    assert figures.by_hue(frame) == ["hard", "hard_5", "random", "random_5"]
    many = [f"arm {number}" for number in range(20)]
    assert figures.bands([many, many[:18], many[:3]]) == [[0, 1], [2]]
