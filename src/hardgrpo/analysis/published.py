"""Compare published numbers of the papers with the same quantities of a study. Shares and gains are
fractions, not percentages."""

from pathlib import Path

import pandas as pd

from hardgrpo.analysis import statistics
from hardgrpo.analysis.formats import is_known
from hardgrpo.runtime import files

COLUMNS = ["paper", "place", "model", "task", "eval_task", "policy", "step", "quantity", "value"]
COLUMNS += ["unit", "note"]
# columns of table compared
COMPARED = ["paper", "place", "model", "task", "eval_task", "policy", "quantity", "published"]
COMPARED += ["published_low", "published_high", "here", "low", "high", "inside"]
COMPARED += ["same_when_rounded", "seeds"]
# summary tables whose numbers are compared
TABLES = ["gains", "learnable", "pass_at_k", "accuracy", "parts", "catches_up", "regressions"]
# tables that hold decisions and settings instead of numbers
NO_NUMBERS = ("readings.csv", "deviations.csv")
# optional columns of a published count: number of right answers, number of all answers
COUNTS = {"right": int, "of": int}
# {unit: the value that a share of 1 has in this unit}; numbers in other units are not compared
SCALE = {"points": 100, "percent": 100, "share": 1}


def read(folder: str | Path) -> list[dict]:
    """Rows of every table of numbers in the folder: the columns as text, and `number`, the printed
    value as a number."""
    rows = []
    for path in sorted(Path(folder).glob("*.csv")):
        if path.name not in NO_NUMBERS:
            rows += files.read_rows(path, dict.fromkeys(COLUMNS, str), COUNTS)
    texts = ({key: row[key] or "" for key in COLUMNS} for row in rows)
    return [row | text | {"number": float(text["value"])} for row, text in zip(rows, texts)]


def read_readings(folder: str | Path) -> set[tuple[str, str]]:
    """{(published task, corresponding task of this project)}."""
    rows = files.read_rows(
        Path(folder) / "readings.csv", dict.fromkeys(("published", "here", "why"), str)
    )
    return {(row["published"], row["here"]) for row in rows}


def compare(
    tables: dict[str, list[dict]], published: list[dict], readings: set[tuple[str, str]]
) -> list[dict]:
    """A row for each published number and each number of the study that measures the same quantity.

    `inside` is 1 if the published number lies within the interval of the study's number, else 0,
    and empty without an interval. `published_low` and `published_high` are the exact 95 % interval
    of a published count (Clopper and Pearson 1934), for new problems. `same_when_rounded` is 1 if
    the study's number, rounded to the printed digits, equals the published number.
    """
    measurements = study_numbers(tables)
    comparable = [row for row in published if row["unit"] in SCALE]
    rows = [
        _comparison(row, measurement)
        for row in comparable
        if row["policy"]
        for measurement in measurements
        if _matches(row, measurement, readings)
    ]
    # numbers over all cells are compared only if the gain of at least one cell is compared
    if any(row["quantity"] == "gain" for row in rows):
        rows += [
            _comparison(row, measurement)
            for row in comparable
            if not row["policy"] and row["quantity"] in ("r_squared", "largest_gain")
            for measurement in measurements
            if measurement["quantity"] == row["quantity"]
        ]
    return rows


def _matches(row: dict, measurement: dict, readings: set[tuple[str, str]]) -> bool:
    # A published number without a model matches each model, but not an average over models.
    has_any_model = row["model"] == "" and measurement["model"] != "average"
    return (
        all(row[key] == measurement[key] for key in ("quantity", "policy"))
        and (has_any_model or row["model"] == measurement["model"])
        and (row["task"] == row["eval_task"]) == (measurement["task"] == measurement["eval_task"])
        and all((row[key], measurement[key]) in readings for key in ("task", "eval_task"))
    )


def _comparison(row: dict, measurement: dict) -> dict:
    scale, low, high = SCALE[row["unit"]], measurement["low"], measurement["high"]
    value = row["number"] / scale
    step = 10.0 ** -len(row["value"].partition(".")[2])  # one unit of the last printed digit
    return {
        "paper": row["paper"],
        "place": row["place"],
        **{key: measurement[key] for key in ("model", "task", "eval_task", "policy", "quantity")},
        "published": value,
        **_exact(row),
        "here": measurement["here"],
        "low": low,
        "high": high,
        "inside": low <= value <= high if is_known(low, high) else None,
        "same_when_rounded": abs(measurement["here"] * scale - row["number"]) <= step / 2 + 1e-9,
        "seeds": measurement["seeds"],
    }


def averages(accuracies: list[dict]) -> list[dict]:
    """Means over models: the accuracy of each policy, and the relative lead of `base_wrong` over
    `base_right_matched` (as many prompts, all solved by the base model). Only policies that every
    model has on the task and test are averaged. There are too few models for intervals."""
    rows: list[dict] = []
    frame = pd.DataFrame(accuracies, columns=["model", "task", "eval_task", "policy", "here"])
    for (task, test), group in frame.groupby(["task", "eval_task"], sort=False):
        by_policy = group.pivot(index="model", columns="policy", values="here")
        complete = by_policy[group.policy.unique()].dropna(axis="columns")
        if len(complete) < 2:
            continue
        keys = {"model": "average", "task": task, "eval_task": test}
        keys |= {"low": None, "high": None, "seeds": None}
        for policy in complete:
            values = {"policy": policy, "quantity": "accuracy", "here": complete[policy].mean()}
            rows.append(keys | values)
        if {"base_wrong", "base_right_matched"} <= set(
            complete
        ) and complete.base_right_matched.all():
            lead = (complete.base_wrong / complete.base_right_matched - 1).mean()
            quantity = "relative_to_base_right_matched"
            rows.append(keys | {"policy": "base_wrong", "quantity": quantity, "here": lead})
    return rows


def _exact(row: dict) -> dict:
    # imported late: statsmodels loads slowly
    from statsmodels.stats.proportion import proportion_confint

    low = high = None
    if row["right"] is not None:
        low, high = proportion_confint(row["right"], row["of"], method="beta")
    return {"published_low": low, "published_high": high}


def study_numbers(tables: dict[str, list[dict]]) -> list[dict]:
    """The study's numbers for all published quantities, with the columns model, task, eval_task,
    policy (the label of the arm), quantity, here (the study's number), low, high, seeds."""
    numbers: dict = {}

    def add(quantity: str, row: dict, column: str, policy: str | None = None) -> None:
        if not is_known(row[column]):
            return
        measurement = {
            "model": row["model"],
            "task": row["task"],
            "eval_task": row.get("eval_task", row["task"]),
            "policy": policy or row["arm"],
            "quantity": quantity,
            "here": row[column],
            "low": row.get(f"{column}_low"),
            "high": row.get(f"{column}_high"),
            "seeds": row["seeds"],
        }
        # The rows of all arms repeat the numbers of the base model. List these numbers once.
        key = tuple(measurement.values())[:5] if policy == "base" else len(numbers)
        numbers.setdefault(key, measurement)

    for row in tables["gains"]:
        if row["decoding"] == "sampled":
            add("gain", row, "gain")
    for row in tables["learnable"]:
        add("learnable", row, "learnable")
    for row in tables["pass_at_k"]:
        add(f"pass_at_{row['k']:.0f}", row, "pass")
        add(f"pass_at_{row['k']:.0f}", row, "base", "base")
    sampled = [row for row in tables["accuracy"] if row["decoding"] == "sampled"]
    arm = lambda row: tuple(row[key] for key in ("model", "task", "eval_task", "arm"))
    last_rows = {arm(row): row for row in sorted(sampled, key=lambda row: row["step"])}
    for row in [row for row in sampled if row["step"] == 0] + list(last_rows.values()):
        policy = None if row["step"] else "base"
        add("accuracy", row, "accuracy", policy)
        add("answered", row, "answered_mean", policy)
    for row in tables["parts"]:
        add("accuracy_answered", row, "base_accuracy_answered", "base")
        for quantity in ("accuracy_answered", "finishing", "correctness"):
            add(quantity, row, quantity)
        if row["gain"]:
            share = row["finishing"] / row["gain"]
            add("finishing_share", row | {"finishing_share": share}, "finishing_share")
    for row in tables["catches_up"]:
        add("steps_share", row | {"share": row["step"] / row["steps"]}, "share")
    for minuend, subtrahend in transfers(tables["gains"]):
        sides = [(row["gain"], row["gain_low"], row["gain_high"]) for row in (minuend, subtrahend)]
        names = ("transfer", "transfer_low", "transfer_high")
        row = minuend | dict(zip(names, statistics.unpaired(*sides)))
        add("transfer_difference", row, "transfer")
    for row in averages([row for row in numbers.values() if row["quantity"] == "accuracy"]):
        numbers[len(numbers)] = row
    all_cells = {"model": "", "task": "all", "eval_task": "all", "arm": "", "seeds": None}
    for row in tables["regressions"]:
        if (row["task"], row["predictor"]) == ("all", "learnable") and not row["adjusted_for"]:
            add("r_squared", all_cells | row, "r_squared")
    rows = list(numbers.values())
    largest = max(
        (row for row in rows if row["quantity"] == "gain" and row["task"] == row["eval_task"]),
        key=lambda row: row["here"],
        default=None,
    )
    return rows + ([largest | {"quantity": "largest_gain"}] if largest else [])


def transfers(gains: list[dict]) -> list[tuple[dict, dict]]:
    """Pairs of gains of the same model and arm on the same test, after training on two different
    tasks. The test belongs to neither of the two tasks."""
    rows = [candidate for candidate in gains if candidate["decoding"] == "sampled"]
    return [
        (row, minus_row)
        for row in rows
        for minus_row in rows
        if row["task"] != minus_row["task"]
        and row["eval_task"] not in (row["task"], minus_row["task"])
        if all(row[key] == minus_row[key] for key in ("model", "eval_task", "arm"))
    ]
