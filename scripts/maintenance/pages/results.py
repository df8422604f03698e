"""The tables of docs/results.md, from the committed summaries of the reference studies."""

from hardgrpo.analysis import claims, published, summaries, verdicts
from hardgrpo.analysis.formats import MINUS, adding_up, change
from hardgrpo.analysis.formats import change_interval as spread
from hardgrpo.report import registry
from hardgrpo.report.tables import compared
from hardgrpo.runtime import files
from hardgrpo.selection import policies
from hardgrpo.study import claim_conditions, paths, settings
from pages import configuration

from pathlib import Path

import pandas as pd

REFERENCE, TRUNCATION, VARIANTS = "mini_reference", "mini_truncation", "mini_variants"
LABELS, ONLINE = "mini_labels", "mini_online"
RECORDINGS, TRAJECTORIES = "recordings", "trajectories"
HEADINGS = {  # of a study in docs/results.md
    REFERENCE: f"Study `{REFERENCE}`",
    TRUNCATION: f"Study `{TRUNCATION}`: what a completion limit alone does",
    VARIANTS: f"Study `{VARIANTS}`: other recipes, cheap filters, and facts",
    LABELS: f"Study `{LABELS}`: which prompts to annotate when none is annotated",
    ONLINE: f"Study `{ONLINE}`: choosing prompts while training",
    RECORDINGS: f"Study `{RECORDINGS}`: the first paper's own completions",
    TRAJECTORIES: f"Study `{TRAJECTORIES}`: groups while a real model trains",
}
NAMES = ("gains", "differences", "learnable", "parts", "subsets", "kinds", "lead_regressions")


def read(root: Path, study: str, *more: str) -> dict[str, pd.DataFrame]:
    return {name: pd.read_csv(root / paths.reference(study) / f"{name}.csv") for name in (*NAMES, *more)}


def anchor(study: str) -> str:
    """results.md#NAME of the study's heading."""
    return f"results.md#{configuration.anchor(HEADINGS[study])}"


def link(study: str) -> str:
    return f"[Tables]({anchor(study)})"


def judged(root: Path, config: dict, study: str) -> dict[str, pd.DataFrame]:
    """Tables `claims` and `compared`, equal to those of scripts/summaries/judge_claims.py."""
    conditions = claim_conditions.conditions(config, study)
    names = dict.fromkeys(name for table in registry.JUDGED.values() for name in table.of)
    tables = summaries.read_tables(files.Tables.below(root / paths.reference(study)), names)
    found = claims.judge(claims.read(root / "paper/claims.yaml"), verdicts.Study(tables, **conditions))
    folder = root / paths.PUBLISHED
    beside = published.compare(tables, published.read(folder), published.read_readings(folder))
    rows = {"claims": found, "compared": beside}
    return {name: pd.DataFrame(files.rounded(rows[name]), columns=registry.JUDGED[name].columns) for name in rows}


def of_papers(root: Path, config: dict) -> pd.DataFrame:
    """The papers' claims in the reference study."""
    found = judged(root, config, REFERENCE)["claims"]
    return found[found.paper != "here"]


def population(config: dict, gains: pd.DataFrame) -> str:
    """The population that a study's results hold for, in words."""
    (model,), (seeds,), (problems,) = (at_home(gains)[name].unique() for name in ("model", "seeds", "problems"))
    if settings.has_own_bases(config, model):
        return f"for new base models pretrained as `{model}` is: {seeds} replicates, each with its own; {problems} test problems per task"
    return f"for one set of weights, `{model}` as pretrained here; {seeds} seeds; {problems} test problems per task"


def at_home(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of sampled completions, tested on the task that was trained on."""
    frame = frame[frame.task == frame.eval_task]
    return frame[frame.decoding == "sampled"] if "decoding" in frame else frame


def tight_and_ample(config: dict, frame: pd.DataFrame, name: str) -> list[str]:
    """An estimate of policy `hard`, trained under the tight limit: tested under that limit, and with room."""
    tight = next(task for task in config["studies"][TRUNCATION]["tasks"] if "cut_from" in config["tasks"][task])
    rows = frame[(frame.policy == "hard") & (frame.task == tight)].set_index("eval_task")
    found = [rows.loc[test] for test in (tight, config["tasks"][tight]["cut_from"])]
    return [spread(row[name], row[f"{name}_low"], row[f"{name}_high"]) for row in found]


def in_full(root: Path, config: dict) -> str:
    """Tables: gains of the ten-seed miniature, the claims that it decides, and the two completion limits."""
    tables, found = read(root, REFERENCE), of_papers(root, config)
    gains = at_home(tables["gains"])
    seeds = int(gains.seeds.iloc[0])
    lines = [
        f"## {HEADINGS[REFERENCE]}",
        "",
        f"As `make demo`'s study `mini`, with {seeds} replicates, one more task and longer runs. All numbers are"
        f" {population(config, tables['gains'])}.",
        "",
        "![Accuracy by checkpoint and policy, with 95 % intervals](images/accuracy.png)",
        "",
        f"Gain in points after {int(gains.step.iloc[0])} updates, with its 95 % interval, sampled at temperature 1 and greedy. *Learnable %*"
        " is measured during training, *p̂ = 0 %* is the share of the subset that the base model never solved in its probe.",
        "",
        "| task | policy | base % (greedy %) | gain | greedy gain | finishing | sharpening | new solving | learnable % | p̂ = 0 % |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in gains.itertuples():
        same = lambda name, row=row: tables[name][(tables[name].task == row.task) & (tables[name].policy == row.policy)]
        kind = same("kinds").query("eval_task == task and tier.isna()").iloc[0]
        greedy = same("gains").query("eval_task == task and decoding == 'greedy'").iloc[0]
        parts = adding_up(row.gain, [kind.finishing, kind.sharpening, kind.new_solving])
        lines.append(
            f"| {row.task} | {row.policy} | {100 * row.base_accuracy:.1f} ({100 * greedy.base_accuracy:.1f}) | {spread(row.gain, row.gain_low, row.gain_high)} "
            f"| {spread(greedy.gain, greedy.gain_low, greedy.gain_high)} | {' | '.join(change(part, '-') for part in parts)} "
            f"| {100 * same('learnable').learnable.iloc[0]:.1f} | {100 * same('subsets').zero_share.iloc[0]:.1f} |"
        )
    lines += [
        "",
        "![Every gain split into finishing, sharpening and new solving](images/kinds.png)",
        "",
        "What goes with the lead: each point is a base model.",
        "",
        "![The lead of hard over other policies against what the base model is like](images/leads.png)",
    ]
    lines += [
        "",
        "The papers' claims. Each paper has one primary claim, named before the study was run; only it gets a verdict, after Holm's"
        " correction over the tasks. All other rows are descriptive. Points with 95 % intervals; R² and log odds as they are.",
        "",
        *claimed(found),
    ]
    lines += ["", *limits(config, read(root, TRUNCATION)), "", *variants(config, read(root, VARIANTS))]
    if (root / paths.reference(LABELS) / "gains.csv").is_file():
        lines += ["", *labels(root, config)]
    if (root / paths.reference(ONLINE) / "gains.csv").is_file():
        lines += ["", *online(root, config)]
    return "\n".join(lines)


def limits(config: dict, tables: dict[str, pd.DataFrame]) -> list[str]:
    """The same runs tested under two completion limits."""
    parts = tables["parts"]
    tests = list(dict.fromkeys(parts.task))
    base = {test: parts[parts.eval_task == test].iloc[0] for test in tests}
    said = ", ".join(
        f"{100 * row.base_accuracy:.1f} % right and {100 * row.base_answered:.1f} % answered on {test}"
        for test, row in base.items()
    )
    lines = [
        f"## {HEADINGS[TRUNCATION]}",
        "",
        f"Base models that write the same solution short or long ({said}: the same problems under a tight limit and with room)."
        f" All numbers are {population(config, tables['gains'])}. Points, finishing and correctness add up to the gain.",
        "",
        "![Gain by policy and limit, split into finishing and correctness](images/truncation.png)",
        "",
        "| trained on | policy | " + " | ".join(f"gain on {test} | finishing | correctness" for test in tests) + " |",
        "|---|---|" + "---|---|---|" * len(tests),
    ]
    for (task, policy), group in parts.groupby(["task", "policy"], sort=False):
        cells = []
        for test in tests:
            row = group[group.eval_task == test].iloc[0]
            finishing, correctness = adding_up(row.gain, [row.finishing, row.correctness])
            cells += [f"{change(row.gain)}", spread(finishing, row.finishing_low, row.finishing_high)]
            cells.append(spread(correctness, row.correctness_low, row.correctness_high))
        lines.append(f"| {task} | {policy} | {' | '.join(cells)} |")
    lines += [
        "",
        "The mechanism is built in: the study shows that a limit suffices. It does not show that a limit did this in any other study.",
    ]
    return lines


def variants(config: dict, tables: dict[str, pd.DataFrame]) -> list[str]:
    """Other recipes and other choices on one task, and three policies on facts."""
    gains, differences = at_home(tables["gains"]), at_home(tables["differences"])
    first, *others = settings.recipes_of(config["studies"][VARIANTS])
    (seeds,), (problems,) = gains.seeds.unique(), gains.problems.unique()
    lines = [
        f"## {HEADINGS[VARIANTS]}",
        "",
        f"Recipe `{first}` and one change at a time ({', '.join(f'`{name}`' for name in others)}), prompts chosen by one sample or by"
        f" whether the base model is wrong, and *facts*, which no reasoning finds. All numbers are for new base models pretrained as"
        f" {' and '.join(f'`{model}`' for model in dict.fromkeys(gains.model))} are: {seeds} replicates, each with its own; {problems} test"
        " problems a task. Points with 95 % intervals; *lead* is over *random* by the same recipe.",
        "",
        "| base, task | recipe | policy | gain | lead |",
        "|---|---|---|---|---|",
    ]
    for row in gains.itertuples():
        policy, _, recipe = row.policy.partition(", ")
        same = differences[(differences.model == row.model) & (differences.task == row.task)]
        lines.append(
            f"| {row.model}, {row.task} | {recipe or first} | {policy} | {spread(row.gain, row.gain_low, row.gain_high)}"
            f" | {lead(same, row.policy, ', '.join(filter(None, ['random', recipe])))} |"
        )
    return lines


def labels(root: Path, config: dict) -> list[str]:
    """Gains against the labels that they took, what was chosen, and the claims that the study decides."""
    tables = read(root, LABELS, "spent", "chosen")
    gains, differences, found = at_home(tables["gains"]), at_home(tables["differences"]), judged(root, config, LABELS)["claims"]
    (seeds,), (problems,) = gains.seeds.unique(), gains.problems.unique()
    lines = [
        f"## {HEADINGS[LABELS]}",
        "",
        "*Labels* are all that a run buys: those that its policy needs before it chooses, and those of the prompts that it trains on. *Lead* is"
        " over a random choice of as many prompts. *Mixed* and *confidently wrong* are shares of the chosen prompts, by samples that did not"
        f" choose them. All numbers are for new base models pretrained as {', '.join(f'`{model}`' for model in dict.fromkeys(gains.model))}"
        f" are: {seeds} replicates, each with its own; {problems} test problems per task. `misled` was shown that to triple is to double, and is"
        " confidently wrong where a problem triples. Points with 95 % intervals.",
        "",
        "![Gain against labels bought](images/labels.png)",
        "",
        "| base, task | policy | labels | gain | lead | mixed % | confidently wrong % |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in gains.itertuples():
        policy, _, recipe = row.policy.partition(", ")
        at = lambda name, arm, row=row: tables[name][
            (tables[name].model == row.model) & (tables[name].task == row.task) & (tables[name].policy == arm)
        ].iloc[0]
        same = differences[(differences.model == row.model) & (differences.task == row.task)]
        chosen = at("chosen", policy)
        lines.append(
            f"| {row.model}, {row.task} | {row.policy} | {at('spent', row.policy).labels:.0f} | {spread(row.gain, row.gain_low, row.gain_high)}"
            f" | {lead(same, row.policy, random_of(config, policy))} | {100 * chosen.mixed:.0f} | {100 * chosen.confidently_wrong:.0f} |"
        )
    lines += ["", *claimed(found[found.paper == "here"])]
    return lines


def online(root: Path, config: dict) -> list[str]:
    """Gains at equal rollouts, what they took, and the claims that the study decides."""
    tables = read(root, ONLINE, "spent", "rollouts", "time_to_target", "chosen")
    gains, differences, found = at_home(tables["gains"]), at_home(tables["differences"]), judged(root, config, ONLINE)["claims"]
    first = settings.recipes_of(config["studies"][ONLINE])[0]
    lines = [
        f"## {HEADINGS[ONLINE]}",
        "",
        "All runs sample equally many rollouts while they train, kept or thrown away. *Probe* counts the completions of a probe besides, for a policy that"
        " goes by them; in two rounds there are two probes. *Labels* are all that a run buys: those that its policy needs before it"
        f" chooses, and those of the prompts that it trains on: all that were chosen, but with a selector, or on all prompts, only those that it samples. *Lead* is over `random` by `{first}`, plain GRPO on a random tenth. *Rollouts to"
        f" `{first}`* are those with which an arm first was as accurate as `{first}` on the same prompts is at its end, per cent of those with which `{first}`"
        " first was; a dash where it, or too many of the draws of seeds, never was. All numbers are"
        f" {population(config, gains)}. Points with 95 % intervals.",
        "",
        "![Gain at equal rollouts, and the labels that each arm needed](images/rollouts.png)",
        "",
        f"| task | policy | recipe | rollouts | probe | labels | gain | lead | thrown away % | rollouts to `{first}` % |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in gains.itertuples():
        policy, _, recipe = row.policy.partition(", ")

        def at(name: str, row=row) -> dict:
            table = tables[name]
            own = table[(table.model == row.model) & (table.task == row.task) & (table.policy == row.policy)]
            return own.iloc[0].to_dict() if len(own) else {}

        same = differences[(differences.model == row.model) & (differences.task == row.task)]
        thrown, until = at("rollouts").get("thrown_away_share"), at("time_to_target")
        pool = tables["chosen"].query("policy == 'pool' and model == @row.model and task == @row.task").pool.iloc[0]
        lines.append(
            f"| {row.task} | {policy} | {recipe or first} | {at('spent')['rollouts']:.0f} | {probed(config, row.task, policy) * pool:.0f} | {at('spent')['labels']:.0f} | {spread(row.gain, row.gain_low, row.gain_high)}"
            f" | {lead(same, row.policy, 'random')} | {'' if thrown is None else f'{100 * thrown:.0f}'}"
            f" | {share_of(until) if until else ''} |"
        )
    lines += ["", *claimed(found)]
    return lines


def probed(config: dict, task: str, policy: str) -> int:
    """How many completions of every prompt of the pool a policy needs before it has chosen."""
    rule = config["policies"][policy]
    return config["tasks"][task]["probe"]["samples"] * rule.get("rounds", 1) * policies.RULES[rule["rule"]].needs_measure


def share_of(until: dict) -> str:
    """The rollouts to the target, per cent, with their interval; a dash for what is infinite."""
    value, low, high = (
        "–" if pd.isna(until[name]) else f"{100 * until[name]:.0f}" for name in ("share", "share_low", "share_high")
    )
    return value if value == low == high == "–" else f"{value} [{low}, {high}]"


def random_of(config: dict, policy: str) -> str:
    """The random choice of as many prompts."""
    same = {"rule": "random", "budget": config["policies"][policy].get("budget")}
    return next(name for name, one in config["policies"].items() if one == same)


def claimed(found: pd.DataFrame) -> list[str]:
    """A table of claims with their estimates and verdicts."""
    lines = ["| paper | holds for | task | claim | estimate of | estimate | verdict |", "|---|---|---|---|---|---|---|"]
    for row in found.itertuples():
        task = place(found, row) + ("" if row.task == row.eval_task else f" → {row.eval_task}")
        figure = compared.shown(row.test, row.estimate, row.low, row.high).replace(MINUS, "-")
        test = row.test.replace("R^2", "R²")
        lines.append(f"| {row.paper} | {row.population} | {task} | {row.claim} | {test} | {figure} | {row.verdict} |")
    return lines


def place(found: pd.DataFrame, row) -> str:
    """The task of a claim's row; with its base model where the claims are about several."""
    models = found[(found.task == row.task) & (found.test == row.test)].model.nunique()
    return row.task if models == 1 else f"{row.task} of {row.model}"


def lead(differences: pd.DataFrame, policy: str, minus: str) -> str:
    """The difference of two policies with its interval; empty where it is of a policy to itself."""
    found = against(differences, policy, minus)
    return spread(found["difference"], found["low"], found["high"]) if found else ""


def against(differences: pd.DataFrame, policy: str, minus: str) -> dict | None:
    """The row of two policies (difference, low, high, p, seeds), which the table has in one direction; None where it has it in neither."""
    for one, other, sign in ((policy, minus, 1), (minus, policy, -1)):
        for row in differences[(differences.policy == one) & (differences.minus == other)].itertuples():
            low, high = sorted((sign * row.difference_low, sign * row.difference_high))
            return {"difference": sign * row.difference, "low": low, "high": high, "p": row.p, "seeds": row.seeds}
    return None
