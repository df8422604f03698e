"""The picture of docs/which-prompts.md: the lead of each way of choosing over a random choice, in
every case (see `random_choice`) of the committed studies."""

import matplotlib.pyplot as plt
import pandas as pd

from hardgrpo.analysis import random_choice
from hardgrpo.report import plotting

COLORS = {
    random_choice.BETTER: "#009E73",
    random_choice.OPEN: "0.6",
    random_choice.WORSE: "#D55E00",
}
# {value of the column `needs`: labels that must be known before the choice}, fewest labels first
NEEDS = {
    "none": "no label",
    "sample": "a small labelled sample",
    "pool": "the labels of the whole pool",
}
LEAD_AXIS = "lead over a random choice of as many prompts (points of accuracy, 95 % intervals)"
FARTHEST = 20.0  # end of the axis in points; a lead beyond it is drawn as an arrow
ROW = 0.3  # inches


def draw(cases: pd.DataFrame, title: str, real: pd.DataFrame | None = None):
    """The figure. `cases` has the columns of docs/which-prompts.csv. `real` holds the leads of
    published models, with the columns `measure`, `way`, `model`, `runs`, `difference`, `low` and
    `high`; if None, there is no panel of these models."""
    plt.style.use(plotting.STYLE)
    groups = [
        (words, cases[cases.needs == need])
        for need, words in NEEDS.items()
        if (cases.needs == need).any()
    ]
    ways = [
        (words, way, rows)
        for words, group in groups
        for way, rows in group.groupby("way", sort=False)
    ]
    has_real = real is not None
    figure, axes = plt.subplots(1 + has_real, squeeze=False)
    axis = axes[0, 0]
    place, places, previous = 0.0, [], ways[0][0]
    for words, _, rows in ways:
        place -= 1.6 if words != previous else 1.0
        previous = words
        places.append(place)
        draw_way(axis, place, rows.sort_values("difference", ascending=False))
    set_scales(axis, places, [way for _, way, _ in ways])
    axis.set_ylim(places[-1] - 0.7, places[0] + 1.5)
    to_axis = axis.get_yaxis_transform()
    heads = {1.16: "labels", 1.30: "better", 1.41: "open", 1.53: "worse"}
    for x, head in heads.items():
        axis.text(
            x,
            places[0] + 1.0,
            head,
            transform=to_axis,
            ha="right",
            va="center",
            color="0.35",
            fontsize=7,
        )
    for place, (_, _, rows) in zip(places, ways):
        labels = plotting.format_range(rows.labels)
        axis.text(1.16, place, labels, transform=to_axis, ha="right", va="center", fontsize=8)
        for x, verdict in zip((1.30, 1.41, 1.53), COLORS):
            count = int((rows.verdict == verdict).sum())
            look = {
                "color": COLORS[verdict]
                if count and verdict != random_choice.OPEN
                else "0.35"
                if count
                else "0.75"
            }
            axis.text(
                x, place, str(count), transform=to_axis, ha="right", va="center", fontsize=8, **look
            )
    for words in dict.fromkeys(words for words, _, _ in ways):
        group_places = [place for place, (need, _, _) in zip(places, ways) if need == words]
        ends = min(group_places) - 0.5, max(group_places) + 0.5
        axis.axhspan(*ends, color="0.965", zorder=0, linewidth=0)
        text = f"needs {words}".replace("needs no label", "needs no label\nto choose").replace(
            " of the whole pool", "\nof the whole pool"
        )
        text = text.replace("a small labelled sample", "a small\nlabelled sample")
        axis.text(
            -0.75,
            sum(group_places) / len(group_places),
            text,
            transform=to_axis,
            ha="left",
            va="center",
            fontsize=7,
            color="0.25",
        )
    axis.text(
        -0.3,
        places[0] + 1.0,
        "← loses to random",
        ha="right",
        va="center",
        color=COLORS[random_choice.WORSE],
        fontsize=7,
    )
    axis.text(
        0.3,
        places[0] + 1.0,
        "beats random →",
        ha="left",
        va="center",
        color=COLORS[random_choice.BETTER],
        fontsize=7,
    )
    if has_real:
        set_heading(axis, "Small models, pretrained here")
        draw_real(axes[1, 0], real)
    set_places(figure, list(axes[:, 0]))
    figure.suptitle(title, fontsize=9, fontweight="bold", x=0.01, ha="left")
    return figure


def set_places(figure, axes: list) -> None:
    """Set the size of the figure and the places of the panels, so that all rows are ROW inches
    high, with space for words and counts beside the panels."""
    heights = [ROW * (axis.get_ylim()[1] - axis.get_ylim()[0]) for axis in axes]
    # inches: `top` for the title and a heading, `between` for ticks, axis label and heading, and
    # `bottom` for ticks and axis label
    top, between, bottom = 0.3 if len(axes) == 1 else 0.55, 0.85, 0.45
    figure_height = top + sum(heights) + between * (len(axes) - 1) + bottom
    figure.set_size_inches(plotting.WIDE, figure_height)
    end = figure_height - top
    for axis, height in zip(axes, heights):
        axis.set_position([0.33, (end - height) / figure_height, 0.43, height / figure_height])
        end -= height + between


def set_scales(axis, places: list[float], ways: list[str]) -> None:
    """Set the axis of leads, and write the names of the ways at their places on the y axis."""
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_xlim(-FARTHEST, FARTHEST)
    axis.set_yticks(places, [way.replace("_", " ") for way in ways])
    axis.tick_params(axis="y", length=0, labelsize=8)
    axis.grid(visible=False)
    axis.spines["left"].set_visible(False)
    axis.set_xlabel(LEAD_AXIS)


def draw_real(axis, real: pd.DataFrame) -> None:
    """Draw the panel of published models: a row for each way of choosing, in groups by measure,
    with the model and its number of runs at the right."""
    to_axis, place = axis.get_yaxis_transform(), 0.0
    places = []
    beside = {"transform": to_axis, "va": "center", "fontsize": 7}
    for measure, rows in real.groupby("measure", sort=False):
        first = place = place - 1.6
        for row in rows.itertuples():
            low, middle, high = (100 * value for value in (row.low, row.difference, row.high))
            if abs(middle) > FARTHEST:
                draw_arrow(axis, place, middle, {"color": "0.25"})
            else:
                ends = [max(low, -FARTHEST), min(high, FARTHEST)]
                axis.plot(ends, [place, place], color="0.25", linewidth=1.2)
                axis.plot([middle], [place], "o", color="0.25", markersize=4)
            runs = "one run each" if row.runs == 1 else f"{row.runs:.0f} runs"
            model = row.model.removesuffix("-recorded")
            axis.text(1.03, place, f"{model}, {runs}", color="0.25", ha="left", **beside)
            places.append(place)
            place -= 1.0
        place += 1.0
        axis.axhspan(place - 0.5, first + 0.5, color="0.965", zorder=0, linewidth=0)
        axis.text(-0.75, (place + first) / 2, measure, color="0.25", ha="left", **beside)
    set_scales(axis, places, list(real.way))
    axis.set_ylim(min(places) - 0.7, max(places) + 0.9)
    set_heading(axis, "Published models")


def set_heading(axis, text: str) -> None:
    axis.set_title(text, loc="left", fontsize=8, fontweight="bold")


def draw_arrow(axis, y: float, lead: float, look: dict) -> None:
    """Draw an arrow at the edge of the axis for a lead beyond FARTHEST."""
    edge, marker = (FARTHEST, ">") if lead > 0 else (-FARTHEST, "<")
    axis.plot([0.985 * edge], [y], marker=marker, markersize=5, clip_on=False, **look)


def draw_way(axis, place: float, rows: pd.DataFrame) -> None:
    """Draw a dot with its interval for each case: coloured if the way is better or worse than a
    random choice, hollow if the trained model is no better than its base model. A lead beyond
    FARTHEST is an arrow without interval."""
    for index, row in enumerate(rows.itertuples()):
        y = place + plotting.spread(index, len(rows), 0.7)
        is_decided = row.verdict != random_choice.OPEN
        look = {"color": COLORS[row.verdict], "zorder": 3 if is_decided else 2}
        low, middle, high = (100 * value for value in (row.low, row.difference, row.high))
        if abs(middle) > FARTHEST:
            draw_arrow(axis, y, middle, look)
            continue
        axis.plot(
            [max(low, -FARTHEST), min(high, FARTHEST)],
            [y, y],
            linewidth=1.6 if is_decided else 0.8,
            **look,
        )
        fill = "white" if row.gain <= 0 else look["color"]
        axis.plot(
            [middle], [y], "o", markersize=5 if is_decided else 3, markerfacecolor=fill, **look
        )
