"""Write a plan as a self-contained HTML file: totals, a table, a Gantt chart, the critical path and
the jobs."""

from pathlib import Path

import jinja2

from hardgrpo.planning import plans

TEMPLATES = Path(__file__).parent
COLOURS = {  # by stage of a study, from the palette of Okabe and Ito
    "pretraining": "#CC79A7",
    "probing": "#56B4E9",
    "training": "#0072B2",
    "evaluation": "#E69F00",
    plans.LIGHT: "#999999",
}
# the chart in CSS pixels: width, height of a row, and the margins to the left of and above the bars
WIDTH, ROW, LEFT, TOP = 1080, 16, 92, 24
# The largest number of rows for jobs without a GPU: in a chart without GPUs, and in a chart with
# GPUs. If more of these jobs run at once, bars overlap.
CPU_ROWS, CPU_ROWS_BESIDE_GPUS = 24, 2
MIN_LABELLED_WIDTH = 60  # the smallest width of a bar that shows its model, in CSS pixels


def page(plan: dict, lanes: list[list[int]]) -> str:
    """The HTML page of a plan. `plan` is the content of plan.json, `lanes` the GPUs of each job."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": format_duration, "count_text": format_count}
    return environment.get_template("plan.html").render(
        plan=plan, chart=chart(plan, lanes), colours=COLOURS
    )


def chart(plan: dict, lanes: list[list[int]]) -> dict:
    """The Gantt chart's rectangles: a row for each GPU, then rows for jobs without a GPU."""
    jobs = plan["jobs"]
    end = max((job["end_hours"] for job in jobs), default=0.0) or 1.0
    scale = (WIDTH - LEFT - 8) / end
    critical = {job["number"] for job in plan["critical_path"]}
    gpus = plan["setting"]["gpus"] if any(job["gpus"] for job in jobs) else 0
    cpu_rows = CPU_ROWS_BESIDE_GPUS if gpus else CPU_ROWS
    busy_until: list[float] = []
    bars = []
    for job in sorted(jobs, key=lambda job: job["start_hours"]):
        if job["gpus"]:
            rows = lanes[job["number"]]
        else:
            free_row = next(
                (row for row, until in enumerate(busy_until) if until <= job["start_hours"] + 1e-9),
                len(busy_until),
            )
            busy_until[free_row : free_row + 1] = [job["end_hours"]]
            rows = [gpus + min(free_row, cpu_rows - 1)]
        for row in rows:
            bars.append(
                {
                    "x": LEFT + job["start_hours"] * scale,
                    "y": TOP + row * ROW,
                    "width": max((job["end_hours"] - job["start_hours"]) * scale - 0.5, 0.5),
                    "job": job,
                    "critical": job["number"] in critical,
                }
            )
    rows = gpus + min(len(busy_until), cpu_rows)
    names = [f"GPU {i}" for i in range(gpus)] + ["no GPU"] * bool(busy_until)
    return {
        "bars": bars,
        "names": [{"text": text, "y": TOP + row * ROW + ROW - 5} for row, text in enumerate(names)],
        "ticks": [{"text": format_duration(hour), "x": LEFT + hour * scale} for hour in ticks(end)],
        "width": WIDTH,
        "height": TOP + rows * ROW + 8,
        "row": ROW,
        "left": LEFT,
        "min_labelled_width": MIN_LABELLED_WIDTH,
    }


def ticks(end: float) -> list[float]:
    """The times (in hours) of the chart's ticks: multiples of a round step from 0 to `end`, usually
    four to ten."""
    steps = [1 / 60, 2 / 60, 5 / 60, 0.25, 0.5, 1, 2, 4, 8, 12, 24, 48, 96, 168, 336, 672]
    step = next(
        (step for step in steps if end / step <= 9), steps[-1] * max(1, round(end / steps[-1] / 8))
    )
    return [step * i for i in range(int(end / step) + 1)]


def format_duration(hours: float) -> str:
    """A duration with its unit: seconds, minutes, hours or days."""
    if hours == 0:
        return "0"
    if hours < 1 / 60:
        return f"{hours * 3600:.2g} s"
    if hours < 1:
        return f"{hours * 60:.3g} min"
    return f"{hours:.3g} h" if hours < 48 else f"{hours / 24:.3g} d"


def format_count(value: float) -> str:
    """A number rounded to three significant digits, with the suffix k, M or B; below 1,000, an
    integer."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        rounded = float(f"{value / size:.3g}")
        if rounded >= 1:
            return f"{rounded:,.0f} {unit}" if rounded >= 1000 else f"{rounded:g} {unit}"
    return f"{value:.0f}"
