"""The picture of README.md and of the paper: leads over a random choice of small models that are
trained on a chosen tenth, and, apart from them, gains of a published model that was trained on all
prompts."""

import matplotlib.pyplot as plt
import pandas as pd

from hardgrpo.report import plotting

TENTH = 0.1
# (label, ways that belong to the group, colour)
GROUPS = (
    ("hardest tenth", ("hard",), "#D55E00"),
    (
        "tenth nearest\nto one half",
        ("middle", "nearest_half", "agreement_half", "predicted_half", "half_by_small"),
        "#0072B2",
    ),
    ("easiest tenth", ("easy",), "#009E73"),
)
FARTHEST = 15.0  # end of the axis in points; a lead beyond it is drawn as an arrow


def draw(cases: pd.DataFrame, classes: pd.DataFrame):
    """The figure. `cases` has the columns of results/reference/all/which-prompts.csv, `classes` those of
    results/reference/before_after/difficulty_classes.csv."""
    plt.style.use(plotting.STYLE)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(plotting.WIDE, 3.6), gridspec_kw={"width_ratios": [1.6, 1]}
    )
    draw_leads(left, cases[cases.budget == TENTH])
    draw_gains(right, classes)
    figure.subplots_adjust(left=0.13, right=0.985, top=0.86, bottom=0.17, wspace=0.56)
    return figure


def draw_leads(axis, cases: pd.DataFrame) -> None:
    """Draw a row for each comparison, filled if the interval excludes zero, and the number of such
    rows at the right."""
    row, places = 0, {}
    for label, ways, colour in GROUPS:
        group = 100 * cases[cases.way.isin(ways)][["difference", "low", "high"]]
        group = group.sort_values("difference")
        places[label] = row + (len(group) - 1) / 2
        for lead in group.itertuples():
            is_resolved = lead.low > 0 or lead.high < 0
            if abs(lead.difference) > FARTHEST:
                end, marker = (FARTHEST, ">") if lead.difference > 0 else (-FARTHEST, "<")
                axis.plot([0.97 * end], [row], marker, color=colour, markersize=4)
                axis.text(0.93 * end, row, f"{lead.difference:.0f}", color=colour, fontsize=7,
                          va="center", ha="right" if end > 0 else "left")  # fmt: skip
            else:
                ends = [max(lead.low, -FARTHEST), min(lead.high, FARTHEST)]
                strength = 0.9 if is_resolved else 0.4
                axis.plot(ends, [row, row], color=colour, linewidth=1.1, alpha=strength)
                fill = colour if is_resolved else "white"
                axis.plot([lead.difference], [row], "o", markersize=3.5, color=colour,
                          markerfacecolor=fill)  # fmt: skip
            row += 1
        above, below = (group.low > 0).sum(), (group.high < 0).sum()
        axis.text(FARTHEST + 0.6, places[label], f"{above} above,\n{below} below,\nof {len(group)}",
                  color=colour, fontsize=7, va="center")  # fmt: skip
        row += 3
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_xlim(-FARTHEST, FARTHEST)
    axis.invert_yaxis()
    axis.set_yticks(list(places.values()), list(places))
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False)
    axis.spines["left"].set_visible(False)
    axis.set_xlabel("lead over a random tenth\n(points of accuracy, 95 % intervals)")
    axis.set_title(
        "Small models, trained here on a chosen tenth:\na row is a comparison with a random tenth",
        loc="left",
        fontsize=8,
    )


def draw_gains(axis, classes: pd.DataFrame) -> None:
    """Draw the gain in pass rate against the pass rate before training."""
    before = 100 * classes.correct / classes.chosen_by
    axis.fill_between(
        before, 100 * classes.gain_low, 100 * classes.gain_high, color="0.4", alpha=0.25
    )
    axis.plot(before, 100 * classes.gain, "o-", color="0.2", markersize=3)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("right before training (%)\n")
    axis.set_ylabel("gain in pass rate (points)")
    axis.set_title(
        "Qwen2.5-0.5B, trained by others\non all prompts, not on a choice", loc="left", fontsize=8
    )
