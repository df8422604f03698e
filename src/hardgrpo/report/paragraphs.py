"""Values for the paragraphs of the paper that report results. The text of these paragraphs is in
templates/paragraphs.tex.j2.

Each function for a paragraph receives `numbers` (numbers.Numbers) and returns LaTeX, or '' if the
study lacks the result. `numbers.tables` are the summaries; `numbers.add` returns the text of a
number of a row.
"""

import functools
import re
from collections.abc import Callable

import jinja2
import pandas as pd

from hardgrpo.analysis import formats, random_choice
from hardgrpo.analysis.columns import interval
from hardgrpo.analysis.summaries import own_test_rows
from hardgrpo.report import web
from hardgrpo.report.latex import escape

# The abstract lists at most FEW estimates of a claim and at most FEW gains. If a claim has more
# estimates, the abstract counts their verdicts; if there are more gains, it lists none.
FEW = 4
# The abstract names at most FEW_POLICIES policies. If there are more, it states their number.
FEW_POLICIES = 6
LEADING = "hard"
# {table: columns of the parts of a gain}
PARTS = {"kinds": ("finishing", "sharpening", "new_solving"), "parts": ("finishing", "correctness")}


# --- text ---


def fill(paragraph: str, **values) -> str:
    """The LaTeX that the Jinja macro `paragraph` of paragraphs.tex.j2 makes from `values`."""
    return tidy(getattr(_templates(), paragraph)(**values))


@functools.cache
def _templates():
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(web.TEMPLATES),
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["tex"] = escape
    return environment.get_template("paragraphs.tex.j2").module


def tidy(text: str) -> str:
    """The text with one line per paragraph, blank lines between paragraphs, single spaces, and no
    space before punctuation."""
    paragraphs = (re.sub(r"[ \n]+", " ", part).strip() for part in re.split(r"\n *\n\s*", text))
    return "\n\n".join(
        re.sub(r" ([,.;:)])", r"\1", part).replace(r" \seefigure", r"\seefigure")
        for part in paragraphs
        if part
    )


def cell(row) -> str:
    return f"{row.model}.{row.task}.{row.eval_task}.{row.arm}"


def ends(numbers, table: str, rows: pd.DataFrame, name: str, key: Callable) -> list[dict]:
    """The smallest and the largest estimate of column `name`, each as {"number": text, "arm":
    label}. The list has one entry if there is one row or if all estimates round to zero, and none
    without an estimate. `key` returns the name of a row's number.
    """
    rows = rows[rows[name].notna()]
    if not len(rows):
        return []
    if len(rows) > 1 and set(map(formats.points, rows[name])) == {"0.0"}:
        row = rows.iloc[0]
        zero = numbers.add(f"{key(row)}.every", table, row, [name], "points")
        return [{"number": zero, "arm": "every policy"}]
    extremes = [rows.loc[rows[name].idxmin()], rows.loc[rows[name].idxmax()]][: len(rows)]
    return [
        {"number": numbers.add(key(row), table, row, interval(name), "gain"), "arm": row.arm}
        for row in extremes
    ]


def part_key(name: str) -> Callable:
    """A function that returns the name of the number of part `name` of a row's gain."""
    return lambda row: f"{name}.{cell(row)}"


# --- the abstract ---


def abstract(numbers, study: dict) -> str:
    """The question and the design, each primary claim, the parts of the largest gains, and the
    population of the intervals."""
    if not study["recipe"]:
        return ""
    claims = primary_claims(numbers, ["paper", "claim"], most_rows=FEW)
    best = largest_gains(numbers)
    return fill("abstract", study=study, claims=claims, best=best, few_policies=FEW_POLICIES)


def primary_claims(numbers, keys: list[str], most_rows: float = float("inf")) -> list[dict]:
    """Primary claims, grouped by `keys`, with the numbers of their rows. If a claim has more than
    `most_rows` rows, the number of rows with each verdict takes their place."""
    table, claims = numbers.tables["claims"], []
    for names, rows in table[table.primary == 1].groupby(keys, sort=False):
        counts = {} if len(rows) <= most_rows else rows.verdict.value_counts().to_dict()
        facts = dict(zip(keys, names)) | {"models": rows.model.nunique(), "counts": counts}
        claim_rows = [] if counts else [claim_numbers(numbers, row) for row in rows.itertuples()]
        claims.append(facts | {"text": facts["claim"], "rows": claim_rows})
    return claims


def claim_numbers(numbers, row) -> dict[str, str]:
    """The texts of a claim's estimate, p ('' if unknown) and verdict, with the task and the model
    of the row."""
    key = f"claim.{row.id}.{row.model}.{row.task}"
    if row.eval_task != row.task:
        key += f".{row.eval_task}"
    p = "" if pd.isna(row.p_holm) else numbers.add(f"{key}.p", "claims", row, ["p_holm"], "p")
    estimate = numbers.add(key, "claims", row, ["estimate", "low", "high"], "gain")
    verdict = numbers.add(f"{key}.verdict", "claims", row, ["verdict"], "text")
    return {"task": row.task, "model": row.model, "estimate": estimate, "p": p, "verdict": verdict}


def largest_gains(numbers) -> list[dict]:
    """The parts of the largest gain of each model and task; [] if there are more than FEW such
    gains."""
    tables = {
        "kinds": over_all_tiers(numbers.tables["kinds"]),
        "parts": own_test_rows(numbers.tables["parts"]),
    }
    best: dict[tuple[str, str], tuple] = {}  # (model, task) -> (table, row of the largest gain)
    for table, rows in tables.items():  # `kinds` takes precedence over `parts`
        for key, group in rows.groupby(["model", "task"], sort=False):
            best.setdefault(key, (table, group.loc[group.gain.idxmax()]))
    has_several_models = len({model for model, _ in best}) > 1
    gains = []
    for table, row in best.values() if len(best) <= FEW else []:
        parts, names = [], PARTS[table]
        for place, name in enumerate(names, 1):
            # Pass all parts: the rounding of a part depends on the others, because the rounded parts
            # add up to the rounded gain.
            columns = ["gain", *interval(name)[1:], *names]
            number = numbers.add(f"made.{name}.{cell(row)}", table, row, columns, f"part {place}")
            parts.append({"number": number, "name": name.replace("_", " ")})
        gain = numbers.add(f"made.gain.{cell(row)}", table, row, ["gain"], "points")
        model = row.model if has_several_models else ""
        gains.append(
            {"task": row.task, "model": model, "arm": row.arm, "number": gain, "parts": parts}
        )
    return gains


def over_all_tiers(kinds: pd.DataFrame) -> pd.DataFrame:
    """The rows of table `kinds` over all tiers, on each task's own test."""
    return own_test_rows(kinds)[own_test_rows(kinds).tier.isna()]


# --- results ---


def judged(numbers) -> str:
    """A paragraph for each primary claim: its text, its population, and the result for each model
    and task."""
    return fill("judged", claims=primary_claims(numbers, ["paper", "claim", "population"]))


def gains(numbers) -> str:
    """A paragraph for each model and task: smallest and largest gain, sampled and greedy, and the
    verdicts on the comparisons with a random choice."""
    table, differences = (
        own_test_rows(numbers.tables["gains"]),
        own_test_rows(numbers.tables["differences"]),
    )
    cells = []
    for (model, task), group in table.groupby(["model", "task"], sort=False):
        sampled, greedy = (
            gain_ends(numbers, group[group.decoding == name]) for name in ("sampled", "greedy")
        )
        of_cell = lambda rows, model=model, task=task: rows[
            (rows.model == model) & (rows.task == task)
        ]
        cells.append(
            {
                "model": model,
                "task": task,
                "sampled": sampled,
                "greedy": greedy,
                "bases": {
                    row.decoding: base_of(numbers, row)
                    for row in group.drop_duplicates("decoding").itertuples()
                },
                "detectable": detectable_difference(numbers, of_cell(differences)),
                "against_random": against_random(of_cell(numbers.tables["against_random"])),
            }
        )
    return fill("gains", cells=cells, open_verdict=random_choice.OPEN)


def against_random(rows: pd.DataFrame) -> dict[str, list[str]]:
    """{verdict: arms} of the comparisons with a random choice of as many prompts."""
    return {verdict: list(group.arm) for verdict, group in rows.groupby("verdict", sort=False)}


def gain_ends(numbers, rows: pd.DataFrame) -> list[dict]:
    return ends(numbers, "gains", rows, "gain", lambda row: f"gain.{cell(row)}.{row.decoding}")


def base_of(numbers, row) -> str:
    """The accuracy of the base model of a row of table `gains`."""
    key = f"base.{row.model}.{row.eval_task}.{row.decoding}"
    return numbers.add(key, "gains", row, ["base_accuracy"], "points")


def detectable_difference(numbers, pairs: pd.DataFrame) -> str:
    """The smallest detectable difference; "" if unknown."""
    if not pairs.mdd.notna().any():
        return ""
    row = pairs.iloc[0]
    key = f"detectable.difference.{row.model}.{row.task}.{row.eval_task}"
    return numbers.add(key, "differences", row, ["mdd"], "points")


def made_of(numbers) -> str:
    """Finishing, sharpening and new solving of the gains on each task's own test; sound answers;
    strict and lenient grading."""
    parts, reasons = (own_test_rows(numbers.tables[name]) for name in ("parts", "reasons"))
    kinds, decomposition, cells = (
        over_all_tiers(numbers.tables["kinds"]),
        own_test_rows(numbers.tables["decomposition"]),
        [],
    )
    for (model, task), group in parts.groupby(["model", "task"], sort=False):
        cell_rows = lambda frame, model=model, task=task: frame[
            (frame.model == model) & (frame.task == task)
        ]
        values = {"model": model, "task": task, "kinds": None, "sound": None}
        values["finishing"] = ends(numbers, "parts", group, "finishing", part_key("finishing"))
        if len(rows := cell_rows(kinds)):
            values["kinds"] = kinds_of(numbers, f"{model}.{task}", rows)
        else:
            values["correctness"] = ends(
                numbers, "parts", group, "correctness", part_key("correctness")
            )
        if len(rows := cell_rows(reasons[reasons.sound_share.notna()])):
            values["sound"] = sound_of(numbers, f"{model}.{task}", rows)
        cells.append(values | {"graders": finishing_by_grader(numbers, cell_rows(decomposition))})
    return fill("made_of", cells=cells)


def kinds_of(numbers, key: str, rows: pd.DataFrame) -> dict:
    """Sharpening and new solving, and the share of problems out of reach of the base model's
    samples."""
    first_row = rows.iloc[0]
    share = numbers.add(f"out.of.reach.{key}", "kinds", first_row, ["out_of_reach"], "points")
    samples = numbers.add(f"reach.samples.{key}", "kinds", first_row, ["reach_samples"], "count")
    return {
        "sharpening": ends(numbers, "kinds", rows, "sharpening", part_key("sharpening")),
        "new_solving": ends(numbers, "kinds", rows, "new_solving", part_key("new.solving")),
        "out_of_reach": share,
        "samples": samples,
    }


def sound_of(numbers, key: str, rows: pd.DataFrame) -> dict:
    """The share of right answers in which every step is right: for the base model, and the smallest
    and the largest share after training."""
    before = numbers.add(
        f"sound.before.{key}", "reasons", rows.iloc[0], ["base_sound_share"], "points"
    )
    extremes = [rows.loc[rows.sound_share.idxmin()], rows.loc[rows.sound_share.idxmax()]]
    extremes = extremes[: len(rows)]
    after = [
        {
            "number": numbers.add(
                f"sound.after.{cell(row)}", "reasons", row, ["sound_share"], "points"
            ),
            "arm": row.arm,
        }
        for row in extremes
    ]
    return {"before": before, "after": after}


def finishing_by_grader(numbers, rows: pd.DataFrame) -> dict | None:
    """The part *finishing* of the largest gain, by the strict and by the lenient grader; None if
    the two numbers differ by less than 0.05 points, or if there are no rows."""
    task_rows = rows[rows.grading == "task"]
    if not len(task_rows):
        return None
    best_arm = task_rows.loc[task_rows.gain.idxmax()].arm
    best = rows[rows.arm == best_arm].set_index("grading", drop=False)
    if abs(best.finishing["strict"] - best.finishing["lenient"]) < 0.0005:
        return None
    finishing = {
        name: numbers.add(
            f"finishing.{name}.{cell(row)}", "decomposition", row, interval("finishing"), "gain"
        )
        for name, row in (("strict", best.loc["strict"]), ("lenient", best.loc["lenient"]))
    }
    return {"arm": best.arm.iloc[0]} | finishing


def overlaps(numbers) -> str:
    """Number of test questions that equal or are near a question of a pool, and number of repeated
    questions of a pool."""
    rows = []
    for row in numbers.tables["contamination"].itertuples():
        counts = {
            name: numbers.add(
                f"{name}.{row.task}.{row.eval_task}", "contamination", row, [name], "count"
            )
            for name in ("equal", "near", "problems")
        }
        repeated = ""
        if row.repeated and row.task == row.eval_task:
            repeated = numbers.add(
                f"repeated.{row.task}", "contamination", row, ["repeated"], "count"
            )
        rows.append({"task": row.task, "test": row.eval_task, "repeated": repeated} | counts)
    return fill("overlaps", rows=rows)


def unsolved(numbers) -> str:
    """Share of the hardest prompts that the base model never solved: in the samples that chose the
    prompts, and in held-out samples."""
    table, rows = numbers.tables["subsets"], []
    for row in table[table.policy == LEADING].itertuples():
        key, held_out = f"{row.model}.{row.task}.{row.policy}", ""
        if not pd.isna(row.held_out_zero_share):
            held_out = numbers.add(
                f"zero.held.out.{key}", "subsets", row, ["held_out_zero_share"], "points"
            )
        share = numbers.add(f"zero.{key}", "subsets", row, ["zero_share"], "points")
        rows.append({"task": row.task, "model": row.model, "share": share, "held_out": held_out})
    return fill("unsolved", rows=rows)


def followed(numbers) -> str:
    """Recorded training runs: the learnable shares of policies `all` and `hard`, and the largest
    and the smallest learnable share of any policy, over all later epochs (the epochs that no policy
    chooses by); and the shares of `hard` and `easy` in the first and in the last stretch of these
    epochs."""
    table, runs = numbers.tables["trajectories"], []
    for (model, prompts), group in table.groupby(["model", "task"], sort=False):
        share = lambda name, row, model=model, prompts=prompts: numbers.add(
            f"{name}.{model}.{prompts}.{row.policy}",
            "trajectories",
            row,
            interval("mixed"),
            "interval",
        )
        whole = group[group.stretch.isna()].set_index("policy", drop=False)
        mixed = whole.mixed
        policies = dict.fromkeys(
            [mixed.idxmax(), *mixed.index.intersection(["all", "hard"]), mixed.idxmin()]
        )
        trends = []
        for policy in ("hard", "easy"):
            stretches = group[(group.policy == policy) & group.stretch.notna()]
            if policy in mixed:
                (first,) = stretches[stretches.begin == 0].itertuples()
                (last,) = stretches[stretches.end == 1].itertuples()
                ends_of_run = share("mixed.first", first), share("mixed.last", last)
                trends.append((policy, *ends_of_run))
        never = ""
        if "all" in mixed:
            key = f"never.solved.{model}.{prompts}.all"
            never = numbers.add(key, "trajectories", whole.loc["all"], ["never_solved"], "points")
        shares = {policy: share("mixed", whole.loc[policy]) for policy in policies}
        runs.append({"model": model, "shares": shares, "never_solved": never, "trends": trends})
    return fill("followed", runs=runs)
