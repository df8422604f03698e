"""Compare published numbers of the papers with the same quantities of a study. Shares and gains are
fractions, not percentages."""

from pathlib import Path

from hardgrpo.analysis.formats import is_known
from hardgrpo.runtime import files

COLUMNS = ["paper", "place", "model", "task", "eval_task", "policy", "step", "quantity", "value"]
COLUMNS += ["unit", "note"]
# columns of table compared
COMPARED = ["paper", "place", "model", "task", "eval_task", "policy", "quantity", "published"]
COMPARED += ["published_low", "published_high", "here", "low", "high", "inside"]
COMPARED += ["same_when_rounded", "seeds"]
# summary tables whose numbers are compared
TABLES = ["gains", "learnable", "pass_at_k", "accuracy", "parts"]
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
    return [
        _comparison(row, measurement)
        for row in published
        if row["unit"] in SCALE
        for measurement in measurements
        if _matches(row, measurement, readings)
    ]


def _matches(row: dict, measurement: dict, readings: set[tuple[str, str]]) -> bool:
    return (
        all(row[key] == measurement[key] for key in ("quantity", "policy"))
        and row["model"] in ("", measurement["model"])  # without a model, for each model
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

    def add(
        quantity: str, row: dict, value: float, prefix: str | None = None, policy: str | None = None
    ) -> None:
        if not is_known(value):
            return
        low, high = (row.get(f"{prefix}_{end}") if prefix else None for end in ("low", "high"))
        measurement = {
            "model": row["model"],
            "task": row["task"],
            "eval_task": row.get("eval_task", row["task"]),
            "policy": policy or row["arm"],
            "quantity": quantity,
            "here": value,
            "low": low,
            "high": high,
            "seeds": row["seeds"],
        }
        # The rows of all arms repeat the numbers of the base model. List these numbers once.
        key = tuple(measurement.values())[:5] if policy == "base" else len(numbers)
        numbers.setdefault(key, measurement)

    for row in tables["gains"]:
        if row["decoding"] == "sampled":
            add("gain", row, row["gain"], "gain")
    for row in tables["learnable"]:
        add("learnable", row, row["learnable"], "learnable")
    for row in tables["pass_at_k"]:
        add(f"pass_at_{row['k']:.0f}", row, row["pass"], "pass")
        add(f"pass_at_{row['k']:.0f}", row, row["base"], policy="base")
    sampled = [row for row in tables["accuracy"] if row["decoding"] == "sampled"]
    arm = lambda row: tuple(row[key] for key in ("model", "task", "eval_task", "arm"))
    last_rows = {arm(row): row for row in sorted(sampled, key=lambda row: row["step"])}
    for row in [row for row in sampled if row["step"] == 0] + list(last_rows.values()):
        policy = None if row["step"] else "base"
        add("accuracy", row, row["accuracy"], "accuracy", policy)
        add("answered", row, row["answered_mean"], policy=policy)
    for row in tables["parts"]:
        add("accuracy_answered", row, row["base_accuracy_answered"], policy="base")
        add("accuracy_answered", row, row["accuracy_answered"])
        add("finishing", row, row["finishing"], "finishing")
        add("correctness", row, row["correctness"], "correctness")
        if row["gain"]:
            add("finishing_share", row, row["finishing"] / row["gain"])
    return list(numbers.values())
