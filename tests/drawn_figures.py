"""Find faults that a reader of a drawn figure would see: overlapping texts, cut texts, empty
panels."""

import itertools
import math

from matplotlib.text import Text


def faults(figure) -> list[str]:
    """A line for each fault. Matplotlib's renderer lays out the figure first."""
    figure.draw_without_rendering()
    texts = all_texts(figure)
    boxes = [(text, text.get_window_extent()) for text in texts]
    page = figure.bbox
    messages = [
        f"'{text.get_text()}' is cut off at the edge of the figure"
        for text, box in boxes
        if box.x0 < page.x0 - 1
        or box.x1 > page.x1 + 1
        or box.y0 < page.y0 - 1
        or box.y1 > page.y1 + 1
    ]
    messages += [
        f"'{first_text.get_text()}' and '{second_text.get_text()}' overlap"
        for (first_text, box), (second_text, other_box) in itertools.combinations(boxes, 2)
        if overlap(first_text, box, second_text, other_box)
    ]
    return messages + [
        f"panel '{axis.get_title()}' is empty"
        for axis in figure.axes
        if axis.axison and axis.get_visible() and not axis.has_data()
    ]


def overlap(first_text: Text, first_box, second_text: Text, second_box) -> bool:
    """Whether two texts overlap by more than a pixel. Texts with the same slant, such as labels of
    one axis, overlap if the distance between their baselines is less than 0.8 of the font size."""
    slant = first_text.get_rotation() % 180
    if slant and slant % 90 and slant == second_text.get_rotation() % 180:
        distance = math.hypot(first_box.x1 - second_box.x1, first_box.y1 - second_box.y1)
        height = first_text.get_fontsize() * first_text.figure.dpi / 72
        return distance * math.sin(math.radians(slant)) < 0.8 * height
    width = min(first_box.x1, second_box.x1) - max(first_box.x0, second_box.x0)
    height = min(first_box.y1, second_box.y1) - max(first_box.y0, second_box.y0)
    return width > 1 and height > 1


def tick_labels(axis, side: str) -> list[Text]:
    """Labels of the visible ticks. Labels beyond the ends of the axis, which Matplotlib does not
    draw, are left out."""
    if not axis.axison:
        return []
    low, high = sorted(getattr(axis, f"get_{side}lim")())
    pairs = zip(getattr(axis, f"get_{side}ticks")(), getattr(axis, f"get_{side}ticklabels")())
    return [
        label
        for position, label in pairs
        if low <= position <= high and label.get_visible() and label.get_text().strip()
    ]


def all_texts(figure) -> list[Text]:
    """Every visible text in a figure, except labels of minor ticks."""
    ticks = {
        label for axis in figure.axes for side_axis in (axis.xaxis, axis.yaxis) for tick in [*side_axis.majorTicks, *side_axis.minorTicks]
        for label in (tick.label1, tick.label2)
    }  # fmt: skip
    hidden = {
        text
        for axis in figure.axes
        if not axis.axison
        for side_axis in (axis.xaxis, axis.yaxis)
        for text in side_axis.findobj(Text)
    }
    other_texts = [
        text
        for text in figure.findobj(Text)
        if text not in ticks | hidden and text.get_visible() and text.get_text().strip()
    ]
    return other_texts + [
        label for axis in figure.axes for side in "xy" for label in tick_labels(axis, side)
    ]
