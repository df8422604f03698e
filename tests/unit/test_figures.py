"""Each figure is drawn from summaries alone, shows the values of the CSV file that is saved with
it, fits its page, and is readable in grey."""

import json
import os
import shutil
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import draw_figure
import drawn_figures
import fake_tables
import fork_server
import project_config
from command_line import format_options
from conftest import ROOT, path_of
from hardgrpo.analysis import arms
from hardgrpo.analysis.columns import ARM
from hardgrpo.analysis.formats import points
from hardgrpo.report import figures, plotting, registry
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.study.resolved import resolve_study

CONFIG = project_config.config()
MINI = ROOT / "results/reference/mini_reference"
OF_MINI = [
    "difficulty",
    "accuracy",
    "parts",
    "learnable",
    "groups",
    "lengths",
]


def draw(figure: str, study: str, summaries, folder, monkeypatch, kinds=("csv",)):
    """Run draw_figure.py. Return the figure, which stays open, and the rows of its CSV file."""
    figures, design = [], registry.all_figures()[figure].design(resolve_study(CONFIG, study))
    paths = [str(folder / f"{figure}.{kind}") for kind in kinds]
    monkeypatch.setattr(plotting.plt, "close", figures.append)
    arguments = format_options(
        tables=list(files.Tables.below(summaries).values()),
        design=json.dumps(design),
        output=paths,
    )
    arguments += [
        "--first-recipe",
        resolve_study(CONFIG, study).first_recipe,
    ]
    names = resolve_study(CONFIG, study).policies
    policies = {name: CONFIG["policies"][name] for name in names}
    arguments += ["--policies", json.dumps(policies)]
    monkeypatch.setattr(sys, "argv", ["draw_figure.py", "--figure", figure, *arguments])
    draw_figure.main()
    return figures[0], pd.read_csv(folder / f"{figure}.csv")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A function that returns the folder of a study's made-up tables. The first call for a study
    writes the tables."""
    written = {}

    def of(study):
        if study not in written:
            written[study] = tmp_path_factory.mktemp(study)
            fake_tables.write(CONFIG, study, written[study])
        return written[study]

    return of


def test_drawing_a_figure_twice_gives_equal_files(tmp_path, monkeypatch):
    content = []
    for _ in range(2):
        draw("parts", "mini_reference", MINI, tmp_path, monkeypatch, ("pdf", "png", "csv"))
        content.append(
            [(tmp_path / f"parts.{kind}").read_bytes() for kind in ("pdf", "png", "csv")]
        )
    assert content[0] == content[1]


# --- the CSV file of a figure has the drawn values


def widths(axes) -> list[float]:
    """Widths of all horizontal bars in the given panels, sorted."""
    return sorted(patch.get_width() for axis in axes for patch in axis.patches)


def heights(axes) -> list[float]:
    """Heights of all points with error bars in the given panels, sorted."""
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
        ("budget", "budget", widths, lambda rows: 100 * rows.gain),
        ("lengths", "mini_reference", heights, lambda rows: [*rows.tokens_mean, *(100 * rows.truncated_share)]),
    ],
)  # fmt: skip
def test_points_and_bars_are_the_values_of_the_rows(
    figure, study, drawn_values, values, tables, tmp_path, monkeypatch
):
    drawn, rows = draw(figure, study, tables(study), tmp_path, monkeypatch)
    assert drawn_values(drawn.axes) == pytest.approx(sorted(values(rows)))


@pytest.mark.parametrize(
    "study, points_of_lines",
    [("mini_reference", {}), ("mini_labels", {"swaps": 18, "arithmetic": 27})],
)
def test_figure_learnable_draws_the_gains_of_its_rows_and_a_line_for_tasks_with_at_least_ten_points(
    study, points_of_lines, tmp_path, monkeypatch
):
    drawn, rows = draw(
        "learnable", study, ROOT / f"results/reference/{study}", tmp_path, monkeypatch
    )
    points = rows[rows.drawn == "point"]
    assert heights(drawn.axes) == pytest.approx(sorted(100 * points.gain))
    assert set(rows.panel) == {"learnable"}, (
        "a panel of lengths is drawn, although lengths within a task differ by less than a token"
    )
    lines = rows[rows.drawn == "line"]
    assert dict(zip(lines.task, lines.cells)) == points_of_lines


def test_bars_of_figure_parts_are_its_rows_and_add_up_to_the_drawn_gain(tmp_path, monkeypatch):
    drawn, rows = draw("parts", "mini_reference", MINI, tmp_path, monkeypatch)
    assert widths(drawn.axes) == pytest.approx(
        sorted([*(100 * rows.finishing), *(100 * rows.correctness)])
    )
    assert np.allclose(rows.finishing + rows.correctness, rows.gain)
    lines = [
        segment[0][0]
        for axis in drawn.axes
        for collection in axis.collections
        for segment in collection.get_segments()
        if len(collection.get_paths()) == 4
    ]
    assert set(np.round(100 * rows.gain, 6)) <= set(np.round(lines, 6))


def test_bars_of_figure_kinds_are_its_rows_and_its_diamonds_are_the_greedy_gains(
    tables, tmp_path, monkeypatch
):
    drawn, rows = draw("kinds", "mini_reference", tables("mini_reference"), tmp_path, monkeypatch)
    parts = [name for name, *_ in plotting.KINDS]
    assert widths(drawn.axes) == pytest.approx(
        sorted(100 * value for name in parts for value in rows[name])
    )
    assert np.allclose(sum(rows[name] for name in parts), rows.gain)
    diamonds = [
        line.get_xdata() for axis in drawn.axes for line in axis.lines if line.get_marker() == "D"
    ]
    assert np.sort(np.concatenate(diamonds)) == pytest.approx(np.sort(100 * rows.greedy_gain))


def test_figure_ahead_shows_the_lead_of_hard_over_each_policy_with_the_same_recipe(
    tables, tmp_path, monkeypatch
):
    folder = tmp_path / "tables"
    shutil.copytree(tables("variants"), folder)
    paired = pd.read_csv(folder / "differences.csv", dtype=str)
    # the first row becomes the lead of the other policy over `hard`
    paired.loc[0, ["policy", "minus"]] = paired.loc[0, ["minus", "policy"]].to_list()
    paired.to_csv(folder / "differences.csv", index=False)
    drawn, rows = draw("ahead", "variants", folder, tmp_path, monkeypatch)
    recipes = resolve_study(CONFIG, "variants").recipes
    assert set(rows.recipe) == set(recipes)
    assert set(rows[rows.recipe == recipes[0]].minus) == {"random", "hard_solvable", "nearest_half"}
    assert set(rows[rows.recipe != recipes[0]].minus) == {"random"}
    last, first = rows[rows.step == rows.step.max()], paired.loc[0]
    turned = last[(last.minus == first.policy) & (last.recipe == first.recipe)].iloc[0]
    assert (turned.lead, turned.lead_low) == pytest.approx(
        (-float(first.difference), -float(first.difference_high))
    )
    assert heights(drawn.axes) == pytest.approx(sorted(100 * rows.lead))
    titles = [axis.get_title() for axis in drawn.axes]
    assert len(titles) == len(recipes) and "gsm8k, dr_grpo" in titles[1]


def test_each_of_several_models_has_its_own_mark(tables, tmp_path, monkeypatch):
    drawn, rows = draw("learnable", "paper", tables("paper"), tmp_path, monkeypatch)
    marks = {
        line.get_marker()
        for line in drawn.axes[0].lines
        if line.get_marker() not in ("None", "_", "|")
    }
    assert len(marks) == rows[rows.drawn == "point"].model.nunique() == 4
    assert {text.get_text() for text in drawn.legends[0].get_texts()} >= set(
        CONFIG["studies"]["paper"]["models"]
    )


def test_figure_rollouts_sorts_arms_by_their_labels_and_shows_the_gain_at_every_checkpoint(
    tables, tmp_path, monkeypatch
):
    drawn, rows = draw("rollouts", "mini_online", tables("mini_online"), tmp_path, monkeypatch)
    gains = pd.read_csv(tables("mini_online") / "gains.csv")
    gains = gains[(gains.eval_task == gains.task) & (gains.decoding == "sampled")]
    last = rows[rows.gain_low.notna()]
    assert sorted(zip(last.task, last.policy, last.recipe)) == sorted(
        zip(gains.task, gains.policy, gains.recipe)
    ), "each arm must have one interval, at its last checkpoint"
    last = arms.add_labels(last, resolve_study(CONFIG, "mini_online").first_recipe)
    needed = last.groupby("arm").labels.mean()
    order = [label.get_text() for label in drawn.axes[0].get_yticklabels()]
    assert [needed[name] for name in order] == sorted(needed), (
        "the arm with the fewest labels is not at the top"
    )
    for task, axis in zip(("swaps", "arithmetic"), drawn.axes):
        group = rows[rows.task == task]
        ends = last[last.task == task].set_index("arm").loc[order]
        drawn_ends = [
            end
            for bars in axis.containers
            for end in zip(bars.lines[0].get_ydata(), bars.lines[0].get_xdata())
        ]
        assert sorted(drawn_ends) == [
            (place, pytest.approx(100 * gain)) for place, gain in enumerate(ends.gain)
        ]
        (gain_axis,) = axis.child_axes
        assert [label.get_text() for label in gain_axis.get_yticklabels()] == [
            f"{count:,.0f}" for count in ends.labels
        ]
        grey = axis.collections[0].get_offsets()[:, 0]
        assert sorted(grey) == pytest.approx(sorted(100 * group[group.gain_low.isna()].gain))
    half = rows[rows.step == rows.step.max() / 2]
    assert set(half.rollouts) == {19200 / 2}, "half of the updates do not use half of the rollouts"


def test_figure_truncation_has_four_panels_on_one_scale_and_prints_each_gain(
    tables, tmp_path, monkeypatch
):
    drawn, rows = draw(
        "truncation", "mini_truncation", tables("mini_truncation"), tmp_path, monkeypatch
    )
    assert len(drawn.axes) == 4 and len({axis.get_xlim() for axis in drawn.axes}) == 1
    assert "60 tokens" in drawn.axes[0].get_title() and "192 tokens" in drawn.axes[1].get_title()
    assert len(rows) == 2 * 4 + 2 * 6, (
        "expected 4 arms in each panel of training under the tight limit, and 6 arms in each panel"
        " of training under the ample limit: the same 4, and 2 that choose by the probe under the"
        " tight limit"
    )
    texts = [text.get_text() for axis in drawn.axes for text in axis.texts]
    assert sorted(texts) == sorted(points(gain, "+") for gain in rows.gain)


# --- messages about figures without rows


@pytest.mark.parametrize("figure", registry.FIGURES)
def test_a_table_without_rows_is_a_one_line_error_and_no_figure_is_written(
    figure, tables, tmp_path, monkeypatch
):
    for path in tables("mini").glob("*.csv"):
        (tmp_path / path.name).write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(
        UserError, match=r"\.csv: no rows to draw; run the study that this table summarises"
    ):
        draw(figure, "mini", tmp_path, tmp_path / "figures", monkeypatch)
    assert not (tmp_path / "figures").exists()


# --- readable: in grey, at the width of a column, with the longest names and the largest studies


def test_no_two_policies_share_both_marker_and_line_style():
    names = [*plotting.FAMILIES, *(f"other {n}" for n in range(32))]
    looks = [plotting.style(name, names) for name in names]
    assert len({(look["marker"], look["linestyle"]) for look in looks}) == len(names)
    with pytest.raises(
        UserError, match="more policies in one figure than combinations of marker and line style"
    ):
        plotting.style("one more", [*names, "one more"])


STUDIES = {
    "mini_reference": [*OF_MINI, "kinds", "pass_at_k"],
    "mini_truncation": [*OF_MINI, "truncation"],
    "paper": OF_MINI,
    "budget": ["accuracy", "parts", "budget"],
    "limits": [*OF_MINI, "kinds", "pass_at_k"],
    "truncation": ["accuracy", "parts", "learnable"],
    "recordings": ["accuracy", "parts", "difficulty"],
    "trajectories": ["trajectories", "difficulty"],
    "mini_online": ["rollouts", "learnable", "accuracy", "kinds"],
    "online": ["rollouts"],
}


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_every_figure_fits_its_page(study, tables, tmp_path, monkeypatch):
    for figure in STUDIES[study]:
        drawn, _ = draw(figure, study, tables(study), tmp_path, monkeypatch)
        assert_fits(drawn, figure)


def assert_fits(drawn, figure: str) -> None:
    drawn.draw_without_rendering()
    width, height = drawn.get_size_inches()
    assert width in (plotting.COLUMN, plotting.WIDE) and height <= plotting.TALLEST + 0.01, figure
    texts = drawn_figures.all_texts(drawn)
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    assert min(text.get_fontsize() for text in texts) >= 7, figure
    for words, box in boxes:
        assert drawn.bbox.x0 - 2 <= box.x0 and box.x1 <= drawn.bbox.x1 + 2, (
            f"{figure}: '{words}' is cut off at a side"
        )
        assert drawn.bbox.y0 - 2 <= box.y0 and box.y1 <= drawn.bbox.y1 + 2, (
            f"{figure}: '{words}' is cut off at the top or bottom"
        )
    for axis in drawn.axes:
        ticks = [
            label.get_window_extent()
            for label in drawn_figures.tick_labels(axis, "x")
            if not label.get_rotation()
        ]
        for tick, next_tick in zip(ticks[:-1], ticks[1:]):
            assert tick.x1 < next_tick.x0 or abs(tick.y0 - next_tick.y0) > 5, (
                f"{figure}: labels of the x axis run into each other"
            )
    titles = [axis.title.get_window_extent() for axis in drawn.axes if axis.get_title()]
    for i, title in enumerate(titles):
        assert not any(title.overlaps(earlier_title) for earlier_title in titles[:i]), (
            f"{figure}: titles run into each other"
        )


def test_the_final_lead_of_an_arm_is_at_the_last_step_of_its_recipe():
    cell = {"model": "m", "task": "t", "eval_task": "t", "problems": 9, "seeds": 3}
    steps = {
        ("hard", "short"): 50,
        ("random", "short"): 50,
        ("hard", "long"): 100,
        ("random", "long"): 100,
    }
    gains = pd.DataFrame(
        [
            cell | dict(zip(ARM, arm)) | {"decoding": "sampled", "step": step}
            for arm, step in steps.items()
        ]
    )
    pair = lambda recipe: cell | {
        "policy": "hard", "recipe": recipe, "minus": "random", "minus_recipe": recipe, "difference": 0.1, "difference_low": 0.0, "difference_high": 0.2, "p": 0.05,
    }  # fmt: skip
    differences = arms.add_labels(pd.DataFrame([pair("short"), pair("long")]), "short")
    leads = figures.lead_rows(
        pd.DataFrame(columns=[*differences, "what", "at"]), differences, gains
    )
    assert list(leads.step) == [50, 100]


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
    outputs = [f"parts.{kind}" for kind in ("pdf", "png", "csv")]
    arguments = format_options(figure="parts", tables=list(MINI.glob("*.csv")), output=outputs)
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
        environment |= {
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT / "src"),
            "HARDGRPO_WARM": "off",
        }
        environment |= {name: value.format(folder=folder) for name, value in variables.items()}
        done = fork_server.run(path_of("draw_figure"), arguments, folder, environment)
        assert done.returncode == 0, f"{case}: {done.stderr}"
        content[case] = [(folder / name).read_bytes() for name in outputs]
    assert [case for case in content if content[case] != content["none"]] == []
