"""The supplement's tables that compare the study with published claims, numbers and settings."""

import pandas as pd

from hardgrpo.analysis.claims import LOG_ODDS
from hardgrpo.analysis.formats import MINUS, hundredths, points, probability, with_interval
from hardgrpo.report.table_columns import (
    BREAK,
    R_SQUARED,
    Cell,
    Column,
    P,
    key_columns,
    numbers,
    seeds,
    text,
    with_95,
)
from hardgrpo.selection import policies
from hardgrpo.study.settings import RECIPE_DEFAULTS


def published_column(frame: pd.DataFrame, compared: pd.DataFrame, quantity: str) -> list[Column]:
    """A list with the column of the rows' published numbers; an empty list if no row has one."""
    rows = compared[compared.quantity == quantity]
    published = {(r.model, r.task, r.policy): r.published for r in rows.itertuples()}
    values = [published.get((r.model, r.task, r.arm)) for r in frame.itertuples()]
    if all(value is None for value in values):
        return []
    return [numbers("published %", ["" if value is None else points(value) for value in values])]


def compared(compared: pd.DataFrame):
    rows = list(compared.itertuples())
    published = [with_interval(r.published, r.published_low, r.published_high) for r in rows]
    local = [with_interval(r.here, r.low, r.high) for r in rows]
    return compared, [
        *key_columns(compared, "model", "eval_task", "policy"),
        text(compared, "quantity", "quantity", lambda value: value.replace("_", " ")),
        text(compared, "place", "from", note="from: {}"),
        numbers("published %", published),
        numbers(with_95("here %"), local),
        seeds(compared),
    ]


def claims(claims: pd.DataFrame):
    tests = [
        task if test == task or pd.isna(test) else f"{task}, tested on {test}"
        for task, test in zip(claims.task, claims.eval_task)
    ]
    estimates = [
        format_estimate(row.test, row.estimate, row.low, row.high) for row in claims.itertuples()
    ]
    p_holm = [
        probability(p) if primary else "" for p, primary in zip(claims.p_holm, claims.primary)
    ]
    breakable_name = lambda value: "" if pd.isna(value) else breakable(value)
    models = (
        [text(claims, "model", "model", breakable_name, "model {}", 0.10)]
        if claims.model.notna().any()
        else []
    )
    return claims, [
        text(claims, "paper", "paper"),
        *models,
        text(claims, "population", "holds for", note="for {}", width=0.10),
        text(claims, "claim", "claim", width=0.20),
        Column("on", [breakable(name) for name in tests], width=0.12),
        text(claims, "test", "estimate of", format_test, width=0.14),
        numbers(with_95(("estimate, pp or ", R_SQUARED)), estimates, width=0.13),
        numbers((P, " (Holm)"), p_holm),
        text(claims, "verdict", "verdict", width=0.10),
    ]


def format_estimate(test: str, estimate: float, low: float, high: float) -> str:
    """The text of an estimate: in points for shares and differences of shares, unscaled for R^2
    and log odds."""
    is_unscaled = test.startswith(("R^2", LOG_ODDS))
    return (hundredths if is_unscaled else with_interval)(estimate, low, high)


def breakable(name: str) -> str:
    """A name with BREAK after hyphens and underscores."""
    return name.replace("_", f"_{BREAK}").replace("-", f"-{BREAK}")


def format_test(test: str) -> Cell:
    head, *parts = breakable(test.replace(" - ", f" {MINUS} ")).split("R^2")
    return (head, *(cell for part in parts for cell in (R_SQUARED, part)))


def deviations(study: dict, deviations: pd.DataFrame):
    frame = deviations.assign(here=[own_setting(study, key) for key in deviations.key])
    headers = {
        "written": "as written",
        "july": "code of July 2025",
        "later": "later code",
        "here": "run here",
    }
    minus_signs = lambda value: str(value).replace(" - ", f" {MINUS} ")
    setting_columns = [
        text(frame, name, header, minus_signs, width=0.19) for name, header in headers.items()
    ]
    return frame, [text(frame, "what", "what", width=0.15), *setting_columns]


def own_setting(study: dict, key: str) -> str:
    """The study's setting for a key of `deviations.csv`, as text."""
    uses_released_rules = any(policies.RULES[rule].is_released for rule in study["rules"])
    pass_rate_owner = (
        "each replicate's own base model's" if study["own_bases"] else "the model's own"
    )
    settings = {
        "ties": "the order of the dataset"
        if uses_released_rules
        else "broken at random, by the seed",
        "hardest": "sorted by pass rate" if uses_released_rules else "lowest pass rates",
        "middle": "the central ranks"
        if uses_released_rules
        else "nearest to the median, within the quartiles",
        "random": "shuffled by seed 42" if uses_released_rules else "by the seed",
        "pass_rates": pass_rate_owner,
        "prompts": "see the task in config/tasks.yaml",
        "test_questions": "the whole test set",
        "top_k": "none",
        "test_base": "as in training",
        "graded": "the completion alone",
        "seeds": f"{study['seeds']}",
        "fused": "on four matrices: q, k and v together, gate and up together, and two others",
        "graders": ", ".join(study["graders"]),
        "completion_tokens": ", ".join(
            f"{tokens} ({task})" for task, tokens in study["completion_tokens"].items()
        ),
        "probe_samples": f"{study['probe_samples']}",
        "test_samples": f"mean of {study['test_samples']} at temperature 1, last checkpoint",
    }
    if pd.isna(key):
        return "see the task in config/tasks.yaml"
    if key in settings:
        return settings[key]
    if not study["recipe"]:
        return "not trained here"
    value = study["recipe"].get(key, RECIPE_DEFAULTS.get(key))
    if isinstance(value, dict):
        return ", ".join(
            f"{name} {entry if isinstance(entry, str) else f'{entry:g}'}"
            for name, entry in value.items()
        )
    return "none" if value is None else f"{value}"
