"""The figures of the committed studies: legible, in grey too, drawn from the summaries alone, with the
drawn values in the CSV file. Their files do not depend on the user's settings."""

import itertools
import json
import os
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import drawn_figures
import fork_server
import project_config
from command_line import format_options
from conftest import ROOT, path_of
from hardgrpo.analysis import arms, summaries
from hardgrpo.report import figures, plotting, registry
from hardgrpo.runtime import files
from hardgrpo.selection import policies
from hardgrpo.study import paths
from hardgrpo.study.resolved import resolve_study

CONFIG = project_config.config()
TRAINED = {"accuracy", "difficulty", "learnable", "training_curves"}
REACH = TRAINED | {"kinds", "pass_at_k"}
MANY_ARMS = {"difficulty", "kinds", "learnable"}
COMMITTED = {  # {study: all its figures}
    "mini": REACH | {"labels"},
    "mini_confirm": REACH,
    "mini_half": REACH,
    "mini_labels": MANY_ARMS | {"labels"},
    "mini_online": MANY_ARMS | {"rollouts"},
    "mini_rates": REACH,
    "mini_reference": REACH,
    "mini_truncation": TRAINED | {"parts"},
    "mini_variants": MANY_ARMS,
    "small_real": TRAINED | {"parts"},
    "recordings": {"accuracy", "parts", "difficulty"},
    "trajectories": {"difficulty", "trajectories"},
    "before_after": {"before_after_training"},
} | dict.fromkeys(
    ("probing", "math_probing", "math_probing_general", "math_probing_instruct"),
    {"samples_per_prompt"},
)
LABELS_OF_SHARES = {"accuracy (%)", "pass@k (%)", "learnable share of groups (%)"}
LABELS_OF_SHARES |= {f"{name} (%)" for name in ("learnable", "all wrong", "all right", "truncated")}


@cache
def study_of(name: str):
    return resolve_study(CONFIG, name)


@cache
def tables(study: str) -> dict[str, pd.DataFrame]:
    committed = files.Tables.below(ROOT / paths.reference(study))
    names = registry.summary_tables(study_of(study))
    return summaries.read_all(committed, names, study_of(study).first_recipe)


def draw(figure: str, study: str, **changed: pd.DataFrame):
    """(figure, drawn rows) from the committed tables, some of them `changed`; None if the figure is
    not drawn."""
    return figures.draw(figure, tables(study) | changed, study_of(study))


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


# --- legible


def test_every_committed_study_is_drawn_here():
    folders = {path.name for path in (ROOT / "results/reference").iterdir()}
    assert folders - {"all"} == set(COMMITTED)
    assert set().union(*COMMITTED.values()) == set(registry.FIGURES) == set(figures.ALL)


@pytest.mark.parametrize(("study", "figure"), list(itertools.product(COMMITTED, registry.FIGURES)))
def test_a_committed_study_has_its_figures_and_all_are_legible(study, figure):
    made = draw(figure, study)
    assert (made is not None) == (figure in COMMITTED[study])
    if made:
        drawn, rows = made
        assert len(rows)
        assert_legible(drawn)


MODELS = [
    "qwen2.5-math-1.5b-instruct",
    "qwen3-14b-base-recorded",
    "llama-3.2-3b-instruct",
    "phi-4-mini-instruct",
]


def with_models(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table for each of MODELS, if the table has models."""
    if "model" not in frame or frame.model.isna().all():
        return frame
    return pd.concat([frame.assign(model=name) for name in MODELS], ignore_index=True)


@pytest.mark.slow
@pytest.mark.parametrize("figure", sorted(REACH))
def test_a_figure_of_four_models_with_long_names_is_legible(figure):
    changed = {name: with_models(frame) for name, frame in tables("mini_reference").items()}
    drawn, _ = draw(figure, "mini_reference", **changed)
    assert_legible(drawn)


def assert_legible(figure) -> None:
    assert drawn_figures.faults(figure) == []
    width, height = figure.get_size_inches()
    assert width in (plotting.COLUMN, plotting.WIDE) and height <= plotting.TALLEST + 0.01
    assert min(text.get_fontsize() for text in drawn_figures.all_texts(figure)) >= 7
    for axis in figure.axes:
        assert not outside_shares(figure, axis), "an interval exceeds 0 or 100 %"


def outside_shares(figure, axis) -> list[float]:
    """Ends of error bars beyond 0 and 100 on an axis of shares."""
    shared = figure.get_supxlabel() in LABELS_OF_SHARES
    ends = []
    for bars in axis.containers:
        for number, is_share in (
            (0, shared or axis.get_xlabel() in LABELS_OF_SHARES),
            (1, axis.get_ylabel() in LABELS_OF_SHARES),
        ):
            if is_share and hasattr(bars, "has_yerr"):
                segments = [segment for lines in bars.lines[2] for segment in lines.get_segments()]
                ends += [end[number] for segment in segments for end in segment]
    return [end for end in ends if not -1e-9 <= end <= 100 + 1e-9]


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


# --- the CSV file of a figure has the drawn values


def widths(axes) -> list[float]:
    """Widths of all horizontal bars, sorted."""
    return sorted(patch.get_width() for axis in axes for patch in axis.patches)


def heights(axes) -> list[float]:
    """Heights of all points with error bars, sorted."""
    return sorted(
        y
        for axis in axes
        for bars in axis.containers
        if hasattr(bars, "has_yerr")
        for y in bars.lines[0].get_ydata()
    )


@pytest.mark.parametrize(
    ("figure", "study", "drawn_values", "values"),
    [
        ("accuracy", "mini", heights, lambda rows: 100 * rows.accuracy),
        ("training_curves", "mini_reference", heights,
         lambda rows: [*rows.tokens_mean, *(100 * rows.truncated_share), *(100 * rows.learnable_share)]),
        ("parts", "mini_truncation", widths, lambda rows: [*(100 * rows.finishing), *(100 * rows.correctness)]),
        ("kinds", "mini_reference", widths,
         lambda rows: [100 * value for name, *_ in plotting.KINDS for value in rows[name]]),
        ("learnable", "mini_reference", heights, lambda rows: 100 * rows.gain),
    ],
)  # fmt: skip
def test_points_and_bars_are_the_values_of_the_rows(figure, study, drawn_values, values):
    drawn, rows = draw(figure, study)
    assert drawn_values(drawn.axes) == pytest.approx(sorted(values(rows)))


def test_parts_add_up_to_the_drawn_gain_and_diamonds_are_greedy_gains():
    drawn, rows = draw("parts", "mini_truncation")
    assert np.allclose(rows.finishing + rows.correctness, rows.gain)
    lines = [
        segment[0][0]
        for axis in drawn.axes
        for collection in axis.collections
        for segment in collection.get_segments()
        if len(collection.get_paths()) in (4, 6)  # numbers of arms in the panels
    ]
    assert set(np.round(100 * rows.gain, 6)) <= set(np.round(lines, 6))
    drawn, rows = draw("kinds", "mini_reference")
    assert np.allclose(sum(rows[name] for name, *_ in plotting.KINDS), rows.gain)
    diamonds = [
        line.get_xdata() for axis in drawn.axes for line in axis.lines if line.get_marker() == "D"
    ]
    assert np.sort(np.concatenate(diamonds)) == pytest.approx(np.sort(100 * rows.greedy_gain))


def test_figure_rollouts_sorts_arms_by_their_labels_and_shows_the_gain_at_every_checkpoint():
    drawn, rows = draw("rollouts", "mini_online")
    gains = summaries.own_test_samples(tables("mini_online")["gains"])
    last = rows[rows.gain_low.notna()]
    keys = ["task", "policy", "recipe"]
    assert sorted(zip(*map(last.get, keys))) == sorted(zip(*map(gains.get, keys))), (
        "each arm must have one interval, at its last checkpoint"
    )
    last = arms.add_labels(last, study_of("mini_online").first_recipe)
    needed = last.groupby("arm").labels.mean()
    order = [label.get_text() for label in drawn.axes[0].get_yticklabels()]
    assert [needed[name] for name in order] == sorted(needed), (
        "the arm with the fewest labels is not at the top"
    )
    axis, group = drawn.axes[0], rows[rows.task == "swaps"]
    ends = last[last.task == "swaps"].set_index("arm").loc[order]
    drawn_ends = [
        end
        for bars in axis.containers
        for end in zip(bars.lines[0].get_ydata(), bars.lines[0].get_xdata())
    ]
    assert sorted(drawn_ends) == [
        (place, pytest.approx(100 * gain)) for place, gain in enumerate(ends.gain)
    ]
    (number_axis,) = axis.child_axes
    assert [label.get_text() for label in number_axis.get_yticklabels()] == [
        f"{count:,.0f}" for count in ends.labels
    ]
    grey = axis.collections[0].get_offsets()[:, 0]
    assert sorted(grey) == pytest.approx(sorted(100 * group[group.gain_low.isna()].gain))
    last_step = last.set_index(keys).step
    parts = rows.step / [last_step[key] for key in zip(*map(rows.get, keys))]
    assert parts.min() < 1 and np.allclose(rows.rollouts, last.rollouts.iloc[0] * parts)


def test_the_panels_of_parts_have_one_scale():
    drawn, _ = draw("parts", "mini_truncation")
    assert len(drawn.axes) == 4 and len({axis.get_xlim() for axis in drawn.axes}) == 1


def test_a_figure_without_rows_is_not_drawn():
    for study in ("mini_labels", "mini_online", "mini_truncation", "trajectories", "probing"):
        empty = {name: frame[:0] for name, frame in tables(study).items()}
        assert all(draw(name, study, **empty) is None for name in COMMITTED[study])


# --- colours and intervals


def test_no_two_policies_share_both_marker_and_line_style():
    plotting.use_policies({})
    names = [*plotting.FAMILIES, *(f"other {n}" for n in range(32))]
    looks = [plotting.style(name) for name in names]
    assert len({(look["marker"], look["linestyle"]) for look in looks}) == len(names)


def test_a_family_has_one_hue_in_every_study_and_policies_differ_in_grey_print():
    assert {rule.family for rule in policies.RULES.values()} == set(plotting.FAMILIES)
    assert len({color for color, *_ in plotting.FAMILIES.values()}) == len(plotting.FAMILIES)
    for study in map(study_of, CONFIG["studies"]):
        rules = figures.rules_of(study)
        plotting.use_policies(rules)
        looks = [plotting.style(name) for name in rules]
        families = [policies.RULES[rule].family for rule in rules.values()]
        assert [look["color"] for look in looks] == [
            plotting.FAMILIES[name][0] for name in families
        ]
        marks = {(look["marker"], look["linestyle"]) for look in looks}
        assert len(marks) == len(looks), f"{study.name}: two policies look alike in grey print"


def test_an_interval_of_a_share_beyond_0_or_100_per_cent_becomes_a_score_interval():
    share = pd.Series([0.5, 0.97, 0.02, 0.0, 1.0, 0.3])
    half = pd.Series([0.1, 0.06, 0.05, 0.01, 0.01, np.nan])
    low, high = plotting.limit_share(share, share - half, share + half)
    assert (low[0], high[0]) == (0.4, 0.6), "an interval within 0 and 100 % was changed"
    known = half.notna()
    assert low[known].between(0, share[known]).all() and high[known].between(share[known], 1).all()
    assert np.isnan(low[5])
    # the score interval of 97 of 100 with z = 1.96: 0.9155 to 0.9897 (Newcombe 1998's formula)
    half = 1.959964 * np.sqrt(0.97 * 0.03 / 100)
    low, high = plotting.limit_share(*map(pd.Series, ([0.97], [0.97 - half], [0.97 + half])))
    assert (low[0], high[0]) == pytest.approx((0.9155, 0.9897), abs=1e-4)


def test_arms_of_one_hue_are_adjacent_and_panels_with_mostly_equal_rows_stand_side_by_side():
    plotting.use_policies(figures.rules_of(study_of("mini_labels")))
    names = ["hard", "random", "hard_5", "random_5"]
    frame = pd.DataFrame({"arm": names, "policy": names})
    assert figures.by_hue(frame) == ["hard", "hard_5", "random", "random_5"]
    many = [f"arm {number}" for number in range(20)]
    assert figures.bands([many, many[:18], many[:3]]) == [[0, 1], [2]]


# --- figures do not depend on the user's settings

RC = b"text.usetex: True\nsavefig.dpi: 33\nfont.family: serif\nfigure.facecolor: red\n"
# (environment variables, files in the folder that is both HOME and the working directory)
SETTINGS = {
    "none": ({}, {}),
    "a backend that no longer exists, and a matplotlibrc at each path that is read": (
        {"MPLBACKEND": "gtk2", "MATPLOTLIBRC": "{folder}/rc", "MPLCONFIGDIR": "{folder}/mpl"},
        {"rc": RC, "mpl/matplotlibrc": RC, ".config/matplotlib/matplotlibrc": RC, "matplotlibrc": RC},
    ),
    "a matplotlibrc that is not text": ({}, {"matplotlibrc": b"\xff\xfe\x00"}),
}  # fmt: skip


@pytest.mark.slow
def test_figures_do_not_depend_on_the_users_settings(tmp_path):
    arguments = format_options(
        study="mini_reference",
        config=json.dumps(paths.study_part(study_of("mini_reference"))),
        tables=list((ROOT / "results/reference/mini_reference").glob("*.csv")),
        figures="kinds",
        output="figures",
    )
    content = {}
    for case, (variables, written) in SETTINGS.items():
        folder = tmp_path / case
        folder.mkdir()
        for name, text in written.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text)
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MPL", "MATPLOTLIB", "XDG"))
        }
        environment |= {"HOME": str(folder), "PYTHONPATH": f"{ROOT}/src", "HARDGRPO_WARM": "off"}
        environment |= {name: value.format(folder=folder) for name, value in variables.items()}
        done = fork_server.run(path_of("draw_figures"), arguments, folder, environment)
        assert done.returncode == 0, f"{case}: {done.stderr}"
        content[case] = {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}
    assert content["none"].keys() == {"kinds.pdf", "kinds.png", "kinds.csv"}
    assert [case for case in content if content[case] != content["none"]] == []
