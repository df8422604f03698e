"""One style for all figures: colour-blind safe, readable in grey and at column width, vector and raster alike."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
import pandas as pd  # noqa: E402

from . import files  # noqa: E402
from .errors import UserError  # noqa: E402

# Okabe and Ito's colours, with markers and dashes of their own so that grey print keeps the policies apart.
STYLES = {
    "hard": {"color": "#D55E00", "marker": "o", "linestyle": "-"},
    "middle": {"color": "#0072B2", "marker": "s", "linestyle": "--"},
    "random": {"color": "#000000", "marker": "^", "linestyle": ":"},
    "easy": {"color": "#009E73", "marker": "D", "linestyle": "-."},
}
OTHERS = [
    {"color": color, "marker": marker, "linestyle": "-"}
    for color, marker in [("#CC79A7", "v"), ("#56B4E9", "P"), ("#E69F00", "X"), ("#666666", "*")]
]
PANEL_INCHES = (3.3, 2.6)


def style(policy: str, policies: list[str]) -> dict:
    others = [name for name in policies if name not in STYLES]
    return STYLES[policy] if policy in STYLES else OTHERS[others.index(policy) % len(OTHERS)]


def panels(count: int, columns: int = 2, width: float = 1.0):
    """A figure with `count` panels and the list of their axes."""
    columns = min(count, columns)
    rows = -(-count // columns)
    plt.rcParams.update(
        {
            "font.size": 8,
            "axes.titlesize": 8,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.linewidth": 0.4,
            "grid.alpha": 0.5,
            "legend.frameon": False,
            "lines.linewidth": 1.3,
            "lines.markersize": 4,
            "pdf.fonttype": 42,
            "savefig.dpi": 200,
        }
    )
    figure, axes = plt.subplots(
        rows, columns, figsize=(PANEL_INCHES[0] * columns * width, PANEL_INCHES[1] * rows), squeeze=False, layout="constrained"
    )
    flat = list(axes.flat)
    for axis in flat[count:]:
        axis.remove()
    return figure, flat[:count]


def legend(figure, axes) -> None:
    """One legend above all panels, each entry once: inside a panel it would hide what it explains."""
    entries = {}
    for axis in axes:
        for handle, text in zip(*axis.get_legend_handles_labels()):
            entries.setdefault(text, handle)
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=min(len(entries), 6))


def save(figure, paths: list[str]) -> None:
    """Write the figure to each path, complete or not at all, without the time of drawing in it."""
    for path in paths:
        with files.atomic(path) as temporary:
            kind = path.rsplit(".", 1)[1]
            figure.savefig(temporary, format=kind, metadata={"CreationDate": None} if kind == "pdf" else {"Software": None})


def read_table(path: str, columns: list[str], empty: bool = False) -> pd.DataFrame:
    """A summary table with at least `columns` and one row (none, where `empty` allows it)."""
    files.read_rows(path, dict.fromkeys(columns, str))
    frame = pd.read_csv(path, dtype={"model": str, "task": str, "eval_task": str, "policy": str, "id": str})
    if frame.empty and not empty:
        raise UserError(f"{path}: no rows to draw; run the study that it summarises")
    return frame


def label(model: str, task: str, models: int) -> str:
    return f"{task}" if models == 1 else f"{model}, {task}"
