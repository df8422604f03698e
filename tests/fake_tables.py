"""Made-up summary tables of any configured study, with the columns and keys of real tables, to draw
figures of studies that were never run."""

import random

from hardgrpo.analysis import summary_tables
from hardgrpo.report import registry
from hardgrpo.runtime import files
from hardgrpo.study.model import model_of
from hardgrpo.study.resolved import resolve_study

STEPS = 6  # checkpoints of a run after step 0


def write(config: dict, study: str, folder) -> None:
    """Write every table that a figure is drawn from."""
    rng = random.Random(study)
    study = resolve_study(config, study)
    runs = study.runs
    arms = list(dict.fromkeys((run.model, run.task, run.policy, run.recipe) for run in runs))
    cells = [(m, t, test, *arm) for m, t, *arm in arms for test in study.eval_tasks(t, m)]
    recorded = all(run.recipe == "recorded" for run in runs)  # also True if the study has no runs
    seeds = 1 if recorded and runs else len(study.seeds)

    def interval(name: str, value: float, half_width: float, has_bounds: bool = True) -> dict:
        return {
            name: value,
            f"{name}_low": value - half_width if has_bounds else None,
            f"{name}_high": value + half_width if has_bounds else None,
        }

    tables = {name: [] for name in registry.SUMMARIES}
    for model, task, test, policy, recipe in cells:
        keys = {"model": model, "task": task, "eval_task": test, "policy": policy, "recipe": recipe}
        count = {"problems": 150, "samples": 4, "seeds": seeds}
        tight = config["tasks"][test].get("cut_from") is not None
        base, gain = (
            (0.3 if tight else 0.85),
            (rng.uniform(0.1, 0.5) if tight else rng.uniform(-0.06, 0.08)),
        )
        finishing = gain * (0.9 if tight else 0.1)
        for step in range(STEPS + 1):
            tokens = 200 - 20 * step + rng.uniform(-9, 9)
            tables["accuracy"].append(
                keys | {"decoding": "sampled", "step": 50 * step} | interval("accuracy", base + gain * step / STEPS, 0.04)
                | {"answered_mean": 0.9, "truncated_mean": 0.1, "tokens_mean": tokens} | count
            )  # fmt: skip
        last = keys | {"step": 50 * STEPS, "base_accuracy": base}
        tables["gains"].append(
            last | {"decoding": "sampled"} | interval("gain", gain, 0.03) | count
        )
        tables["parts"].append(
            last | {"gain": gain} | interval("finishing", finishing, 0.03) | interval("correctness", gain - finishing, 0.04)
            | {"base_answered": 0.35 if tight else 1.0, "answered": 0.9, "accuracy": base + gain} | count
        )  # fmt: skip
        kinds = interval("finishing", finishing, 0.02) | interval(
            "sharpening", gain - finishing - 0.01, 0.03
        )
        kinds |= (
            interval("new_solving", 0.01, 0.01)
            | interval("greedy_gain", gain / 2, 0.04)
            | interval("gain", gain, 0.03)
        )
        tables["kinds"].append(last | kinds | {"reach_samples": 64, "out_of_reach": 0.2} | count)
        for k in (1, 2, 4):
            tables["pass_at_k"].append(
                last | {"k": k, "base": base} | interval("pass", base + gain, 0.04) | count
            )
        for k in (1, 2, 4, 8, 16, 32, 64) if (policy, recipe) == arms[0][2:] else ():
            curve = interval("pass", 0.85 + k / 640, 0.03) | interval("sound", 0.5 + k / 200, 0.03)
            tables["base_pass_at_k"].append(
                {"model": model, "eval_task": test, "k": k} | curve | count
            )
        for minus in study.policies if policy == "hard" else ():
            if minus != "hard" and (model, task, test, minus, recipe) in cells:
                pair = keys | {
                    "minus": minus,
                    "minus_recipe": recipe,
                    "problems": 150,
                    "seeds": seeds,
                }
                lead = pair | interval("difference", rng.gauss(0, 0.03), 0.04)
                tables["differences"].append(lead)
                tables["paired"] += [
                    lead | {"what": "checkpoint", "at": 50 * step} for step in range(1, STEPS)
                ]
    for model, task, policy, recipe in arms if not recorded else ():
        keys = {"model": model, "task": task, "policy": policy, "recipe": recipe}
        tables["learnable"].append(
            keys
            | interval("learnable", rng.uniform(0.1, 0.9), 0.05)
            | {"updates": 300, "seeds": seeds}
        )
        for step in range(1, 21):
            curve = {"first": 15 * step - 14, "step": 15 * step, "seeds": seeds}
            shares = {"truncated_share": 0.5 / step, "learnable_share": 0.4}
            shares |= {"all_right_share": 0.02 * step, "all_wrong_share": 0.6 - 0.02 * step}
            for name, value in (
                {"tokens_mean": 200 - 5 * step + rng.uniform(-5, 5)} | shares
            ).items():
                curve |= interval(name, value, 0.1 * value, seeds > 1)
            tables["curves"].append(keys | curve)
        spent = {"rollouts": 19200, "labels": rng.choice([750, 7473]), "updates": 300}
        tables["spent"].append(keys | spent | {"seeds": seeds})
    for model, prompts in study.trajectory_prompts:
        for policy in study.policies:
            for stretch in (None, *range(1, 11)):
                mixed, wrong = rng.uniform(0.1, 0.6), rng.uniform(0.0, 0.4)
                begin, end = (0.0, 1.0) if stretch is None else ((stretch - 1) / 10, stretch / 10)
                shares = {
                    "mixed": mixed,
                    "all_wrong": wrong,
                    "all_right": 1 - mixed - wrong,
                    "pass_rate": 0.5,
                }
                row = {
                    "model": model,
                    "task": prompts,
                    "policy": policy,
                    "stretch": stretch,
                    "begin": begin,
                    "end": end,
                }
                row |= {
                    key: value
                    for name, share in shares.items()
                    for key, value in interval(name, share, 0.03).items()
                }
                tables["trajectories"].append(
                    row | {"never_solved": 0.2, "epochs": 5, "prompts": 110, "seeds": seeds}
                )
    for model, task in dict.fromkeys(
        (model_of(base), task) for base, task, _ in study.probed_pools
    ):
        pool = [
            {"model": model, "task": task, "group": "pool", "pass_rate": n / 10, "problems": 100}
            for n in range(11)
        ]
        tables["difficulty"] += pool
        for policy in study.policies:
            entry = config["policies"][policy]
            share = entry.get("budget", 1)
            description = {
                "rule": entry["rule"],
                "budget": entry.get("budget"),
                "pool": 1100,
                "prompts": 1100 * share,
                "seeds": seeds,
            }
            tables["subsets"].append({"model": model, "task": task, "policy": policy} | description)
            start = rng.randrange(8)
            tables["difficulty"] += [
                row | {"group": policy, "problems": 30} for row in pool[start : start + 3]
            ]
    for task in ["all", *study.tasks] if not recorded else ():
        for predictor in ("learnable", "tokens", "both"):
            slope = {"learnable": 0.1, "tokens": -0.001}.get(predictor)
            tables["regressions"].append(
                {"task": task, "predictor": predictor, "slope": slope, "cells": 8}
                | interval("r_squared", 0.5, 0.3)
            )
    for name in registry.SUMMARIES:
        columns = summary_tables.all_tables()[name].columns
        files.write_rows(
            folder / f"{name}.csv",
            columns,
            [{key: row.get(key) for key in columns} for row in tables[name]],
        )
