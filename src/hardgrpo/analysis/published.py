"""Compare published numbers of the papers with the same quantities of a study. Shares and gains are
fractions, not percentages."""

import math
from pathlib import Path

from hardgrpo.analysis.formats import is_known
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

COLUMNS = [
    "paper",
    "place",
    "model",
    "task",
    "eval_task",
    "policy",
    "step",
    "quantity",
    "value",
    "unit",
    "note",
]
# tables that hold decisions, settings and sentences instead of numbers
NO_NUMBERS = ("readings.csv", "deviations.csv", "inventory.csv")
# Quantities that a study measures in every cell with runs. Whether a study has other quantities
# depends on the results of its runs.
ALWAYS = ("gain", "accuracy", "answered", "accuracy_answered")
# optional columns of a published count: number of right answers, number of all answers
COUNTS = {"right": int, "of": int}
# unit -> a share of 1 in this unit; numbers in other units are not compared
SCALE = {"points": 100, "percent": 100, "share": 1}


def read(folder: str | Path) -> list[dict]:
    """Rows of every table of numbers in the folder: the columns as text, and `number`, the printed
    value as a number."""
    rows = []
    for path in sorted(Path(folder).glob("*.csv")):
        if path.name not in NO_NUMBERS:
            for number, row in enumerate(
                files.read_rows(path, dict.fromkeys(COLUMNS, str), COUNTS), start=2
            ):
                row |= {key: row[key] or "" for key in COLUMNS}
                rows.append(row | {"number": _number(row["value"], f"{path}: row {number}")})
    if not rows:
        raise UserError(
            f"{folder}: no published numbers; get them back with: git checkout {folder}"
        )
    return rows


def _number(text: str, place: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(
            f"{place}: column 'value' is '{text}', expected a number; write it as it was printed"
        ) from None


def read_readings(folder: str | Path) -> set[tuple[str, str]]:
    """{(published task, corresponding task of this project)}."""
    rows = files.read_rows(
        Path(folder) / "readings.csv", dict.fromkeys(("published", "here", "why"), str)
    )
    return {(row["published"], row["here"]) for row in rows}


def compare(
    tables: dict[str, list[dict]], published: list[dict], readings: set[tuple[str, str]]
) -> list[dict]:
    """A row for every published number that the study also measured.

    `inside` is 1 if the published number lies within the interval of the study's number, and empty
    without an interval. `published_low` and `published_high` are the exact 95 % interval of a
    published count (Clopper and Pearson 1934), for new problems. `same_when_rounded` is 1 if the
    study's number, rounded to the printed digits, equals the published number.
    """
    measurements, rows = study_numbers(tables), []
    for row in (row for row in published if row["unit"] in SCALE and row["policy"]):
        rows += [
            _comparison(row, measurement)
            for measurement in measurements
            if _matches(row, measurement, readings)
        ]
    # compare numbers over all cells only if the gain of a cell is comparable
    if any(row["quantity"] == "gain" for row in rows):
        over_all = [
            measurement
            for measurement in measurements
            if measurement["quantity"] in ("r_squared", "largest_gain")
        ]
        for row in (row for row in published if row["unit"] in SCALE and not row["policy"]):
            rows += [
                _comparison(row, measurement)
                for measurement in over_all
                if measurement["quantity"] == row["quantity"]
            ]
    return rows


def overlap(cells: set[tuple], folder: str | Path) -> bool:
    """Whether `compare` finds a row for cells (model, task, eval_task, policy), whatever the
    results of their runs."""
    readings = read_readings(folder)
    rows = [
        row
        for row in read(folder)
        if row["unit"] in SCALE and row["policy"] and row["quantity"] in ALWAYS
    ]
    keys = ("model", "task", "eval_task", "policy")
    return any(
        _matches(row, dict(zip(keys, cell), quantity=row["quantity"]), readings)
        for row in rows
        for cell in cells
    )


def _matches(row: dict, measurement: dict, readings: set[tuple[str, str]]) -> bool:
    is_same_quantity = (
        row["quantity"] == measurement["quantity"] and row["policy"] == measurement["policy"]
    )
    # an average over models matches only another average
    any_model = row["model"] == "" and measurement["model"] != "average"
    if (
        not is_same_quantity
        or not (any_model or row["model"] == measurement["model"])
        or (row["task"] == row["eval_task"]) != (measurement["task"] == measurement["eval_task"])
    ):
        return False
    return (row["task"], measurement["task"]) in readings and (
        row["eval_task"],
        measurement["eval_task"],
    ) in readings


def _comparison(row: dict, measurement: dict) -> dict:
    value, low, high = row["number"] / SCALE[row["unit"]], measurement["low"], measurement["high"]
    step = 10.0 ** -len(row["value"].partition(".")[2])
    return (
        {key: row[key] for key in ("paper", "place")}
        | {key: measurement[key] for key in ("model", "task", "eval_task", "policy", "quantity")}
        | {"published": value, **_exact(row), "here": measurement["here"], "low": low, "high": high}
        | {"inside": low <= value <= high if is_known(low, high) else None}
        | {
            "same_when_rounded": abs(measurement["here"] * SCALE[row["unit"]] - row["number"])
            <= step / 2 + 1e-9
        }
        | {"seeds": measurement["seeds"]}
    )


def averages(accuracies: list[dict]) -> list[dict]:
    """Means over models: the accuracy of each policy, and the relative lead of `base_wrong` over
    `base_right_matched` (equally many prompts that the base model solves). Only policies that every
    model has on the task and test are averaged. There are too few models for intervals."""
    rows, cells = [], {}
    for row in accuracies:
        cells.setdefault((row["task"], row["eval_task"]), {}).setdefault(row["policy"], {})[
            row["model"]
        ] = row["here"]
    for (task, test), accuracy_by_policy in cells.items():
        models = set().union(*accuracy_by_policy.values())
        complete = {
            policy: by_model
            for policy, by_model in accuracy_by_policy.items()
            if len(models) > 1 and set(by_model) == models
        }
        columns = {
            "model": "average",
            "task": task,
            "eval_task": test,
            "low": None,
            "high": None,
            "seeds": None,
        }
        for policy, by_model in complete.items():
            rows.append(
                columns
                | {
                    "policy": policy,
                    "quantity": "accuracy",
                    "here": sum(by_model.values()) / len(models),
                }
            )
        if {"base_wrong", "base_right_matched"} <= set(complete):
            wrong_accuracy, right_accuracy = complete["base_wrong"], complete["base_right_matched"]
            leads = [
                wrong_accuracy[model] / right_accuracy[model] - 1
                for model in models
                if right_accuracy[model]
            ]
            if len(leads) == len(models):
                relative = {
                    "policy": "base_wrong",
                    "quantity": "relative_to_base_right_matched",
                    "here": sum(leads) / len(leads),
                }
                rows.append(columns | relative)
    return rows


def _exact(row: dict) -> dict:
    # imported late: every dry-run imports this module
    from statsmodels.stats.proportion import proportion_confint

    low, high = (
        (None, None)
        if row["right"] is None
        else proportion_confint(row["right"], row["of"], method="beta")
    )
    return {"published_low": low, "published_high": high}


def study_numbers(tables: dict[str, list[dict]]) -> list[dict]:
    """The study's numbers for all published quantities, with the columns model, task, eval_task,
    policy (the label of the arm), quantity, here (the study's number), low, high, seeds."""
    rows = []

    def add(quantity: str, row: dict, value: float, prefix: str | None = None, **keys) -> None:
        low, high = (row.get(f"{prefix}_{end}") if prefix else None for end in ("low", "high"))
        columns = {
            "model": row["model"],
            "task": row["task"],
            "eval_task": row.get("eval_task", row["task"]),
            "policy": row["arm"],
        }
        measurement = (
            columns
            | keys
            | {"quantity": quantity, "here": value, "low": low, "high": high, "seeds": row["seeds"]}
        )
        if is_known(value) and (
            keys.get("policy") != "base" or not any(_has_same_key(measurement, r) for r in rows)
        ):
            rows.append(measurement)

    for row in tables["gains"]:
        if row["decoding"] == "sampled":
            add("gain", row, row["gain"], "gain")
    for row in tables["learnable"]:
        add("learnable", row, row["learnable"], "learnable")
    for row in tables["pass_at_k"]:
        add(f"pass_at_{row['k']:.0f}", row, row["pass"], "pass")
        add(f"pass_at_{row['k']:.0f}", row, row["base"], policy="base")
    sampled = [row for row in tables["accuracy"] if row["decoding"] == "sampled"]
    last_rows = {_arm(row): row for row in sorted(sampled, key=lambda row: row["step"])}
    for row in [row for row in sampled if row["step"] == 0] + list(last_rows.values()):
        keys = {} if row["step"] else {"policy": "base"}
        add("accuracy", row, row["accuracy"], "accuracy", **keys)
        add("answered", row, row["answered_mean"], **keys)
    for row in tables["parts"]:
        if row.get("step") not in (None, last_rows.get(_arm(row), row).get("step")):
            continue  # an earlier checkpoint
        add("accuracy_answered", row, row["base_accuracy_answered"], policy="base")
        add("accuracy_answered", row, row["accuracy_answered"])
        add("finishing", row, row["finishing"], "finishing")
        add("correctness", row, row["correctness"], "correctness")
        if row["gain"]:
            add("finishing_share", row, row["finishing"] / row["gain"])
    for row in tables["catches_up"]:
        add("steps_share", row, row["step"] / row["steps"])
    for minuend, subtrahend in transfers(tables["gains"]):
        estimate, low, high = unpaired(minuend, subtrahend, "gain")
        add(
            "transfer_difference",
            minuend | {"transfer_low": low, "transfer_high": high},
            estimate,
            "transfer",
        )
    for row in averages(
        [measurement for measurement in rows if measurement["quantity"] == "accuracy"]
    ):
        rows.append(row)
    everywhere = {
        "model": "",
        "task": "all",
        "eval_task": "all",
        "policy": "",
        "arm": "",
        "seeds": None,
    }
    for row in tables["fit"]:
        if row["task"] == "all" and row.get("predictor", "learnable") == "learnable":
            add("r_squared", everywhere | row, row["r_squared"], "r_squared")
    largest = max(
        (row for row in rows if row["quantity"] == "gain"),
        key=lambda row: row["here"],
        default=None,
    )
    return rows + ([largest | {"quantity": "largest_gain"}] if largest else [])


def _cell(row: dict) -> tuple:
    return tuple(row[key] for key in ("model", "task", "eval_task", "policy"))


def _arm(row: dict) -> tuple:
    return tuple(row[key] for key in ("model", "task", "eval_task", "arm"))


def _has_same_key(measurement: dict, earlier: dict) -> bool:
    return measurement["quantity"] == earlier["quantity"] and _cell(measurement) == _cell(earlier)


def transfers(gains: list[dict]) -> list[tuple[dict, dict]]:
    """Pairs of gains of the same model and arm that are trained on different tasks and tested on
    the same third task."""
    rows = [candidate for candidate in gains if candidate["decoding"] == "sampled"]
    return [
        (row, minus_row)
        for row in rows
        for minus_row in rows
        if row["task"] != minus_row["task"]
        and row["eval_task"] not in (row["task"], minus_row["task"])
        if all(row[key] == minus_row[key] for key in ("model", "eval_task", "arm"))
    ]


def unpaired(minuend: dict, subtrahend: dict, name: str) -> tuple[float, float, float]:
    """(unpaired difference of the estimates of two rows, low, high). half-width^2 is the sum of the
    rows' half-widths^2.

    The interval is conservative, because the rows share problems and mostly the base model.
    """
    halves = [(row[f"{name}_high"] - row[f"{name}_low"]) / 2 for row in (minuend, subtrahend)]
    estimate, half = minuend[name] - subtrahend[name], math.hypot(*halves)
    return estimate, estimate - half, estimate + half
