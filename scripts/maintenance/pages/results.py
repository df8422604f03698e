"""docs/results.md, from the committed summaries: tables for each study of HEADINGS, and the primary
claims."""

from hardgrpo.analysis import columns, statistics
from hardgrpo.analysis.formats import change, round_parts
from hardgrpo.analysis.formats import change_interval as interval
from hardgrpo.analysis.random_choice import difference_row
from hardgrpo.analysis.summaries import own_test_samples
from hardgrpo.report.tables import RECORDED_KEYS, last_checkpoints
from hardgrpo.study.model import Model
from hardgrpo.study.resolved import ResolvedStudy
from pages import configuration, greedy, recommended, tables, templates
from pages.committed import (
    CONFIRM,
    LABELS,
    ONLINE,
    RATES,
    REAL,
    RECORDINGS,
    REFERENCE,
    TRAINED,
    TRAJECTORIES,
    TRUNCATION,
    VARIANTS,
    all_claims,
    read,
)

import functools
import re
from pathlib import Path

import pandas as pd

HEADINGS = {  # {study: its heading in docs/results.md}
    CONFIRM: f"Study `{CONFIRM}`: hard or random, with enough replicates",
    REFERENCE: f"Study `{REFERENCE}`",
    TRUNCATION: f"Study `{TRUNCATION}`: what a completion limit alone does",
    VARIANTS: f"Study `{VARIANTS}`: other recipes, cheap filters, and facts",
    LABELS: f"Study `{LABELS}`: which prompts to annotate when none is annotated",
    ONLINE: f"Study `{ONLINE}`: choosing prompts while training",
    RATES: f"Study `{RATES}`: why greedy accuracy falls on arithmetic",
    REAL: f"Study `{REAL}`: a published model, trained here",
    RECORDINGS: f"Study `{RECORDINGS}`: the first paper's own completions",
    TRAJECTORIES: f"Study `{TRAJECTORIES}`: groups while a real model trains",
}
# {study: the papers whose primary claims it tests}
PAPERS_OF = {
    CONFIRM: ("HE", "LDS"),
    REFERENCE: ("HE", "LDS"),
    LABELS: ("here",),
    ONLINE: ("DAPO",),
    REAL: ("small_real",),
}
KINDS = ("finishing", "sharpening", "new_solving")
# {verdict on a claim: answer to the question that the claim asks}; other verdicts stay
ANSWERS = {"supported": "yes", "contradicted": "no"}


# --- formatted values ---


def anchor(study: str) -> str:
    """The link results.md#NAME to the study's heading."""
    return f"results.md#{configuration.anchor(HEADINGS[study])}"


def estimate(row, name: str) -> str:
    """A share of a row in points, with its interval."""
    return interval(*(getattr(row, column) for column in columns.interval(name)))


def lead(differences: pd.DataFrame, arm: tuple[str, str], minus: tuple[str, str]) -> str:
    """The difference of two arms (policy, recipe) with its interval; "" if the table does not have
    this difference."""
    row = difference_row(differences, arm, minus)
    return interval(row["difference"], row["low"], row["high"]) if row else ""


def percent(row, name: str) -> str:
    """A share of a row in per cent, with its interval if known: '14.0 [9.8, 18.2]'."""
    value, low, high = (100 * getattr(row, f"{name}{end}") for end in ("", "_low", "_high"))
    return f"{value:.1f}" + ("" if pd.isna(low) else f" [{low:.1f}, {high:.1f}]")


def population(models: dict, gains: pd.DataFrame) -> str:
    """The population of a study's results, in words. `models` is the section `models` of the
    configuration."""
    names = dict.fromkeys(gains.model)
    (seeds,), (problems,) = (
        own_test_samples(gains)[name].unique() for name in ("seeds", "problems")
    )
    if not all(Model.of(models[name]).is_pretrained for name in names):
        return f"the published model {templates.quoted(names)}; {seeds} seeds of training; {problems} test problems"
    if not all(Model.of(models[name]).has_own_bases for name in names):
        return f"the weights {templates.quoted(names)} as pretrained here; {seeds} seeds; {problems} test problems per task"
    kinds = " or ".join(f"`{name}`" for name in names)
    return f"{seeds} replicates, each with a new base model ({kinds}); {problems} test problems per task"


def place(rows: pd.DataFrame, row) -> str:
    """The task of a claim's row, with the base model if the claim has rows of several base models
    for this task and test."""
    models = rows[(rows.task == row.task) & (rows.test == row.test)].model.nunique()
    return row.task if models == 1 else f"{row.task} of {row.model}"


def model_of(name: str) -> str:
    """The model of a recording, without the suffix of recorded models."""
    return name.removesuffix("-recorded").removesuffix("-trajectory")


def random_of(all_policies: dict, policy: str) -> str:
    """The policy that chooses at random, with the budget of `policy`."""
    random_entry = {"rule": "random", "budget": all_policies[policy].get("budget")}
    return next(name for name, entry in all_policies.items() if entry == random_entry)


# --- the table of each study ---


def primary_claims(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the primary claims, from the studies that test them."""
    lines = []
    for study, papers in PAPERS_OF.items():
        study_rows = rows[(rows.study == study) & rows.paper.isin(papers) & (rows.primary == 1)]
        for (paper, claim), claim_rows in study_rows.groupby(["paper", "claim"], sort=False):
            for row in claim_rows.itertuples():
                kind = f"`{row.model}`, {row.seeds:.0f}"
                lines.append(
                    [
                        paper,
                        claim,
                        place(claim_rows, row).partition(" of ")[0],
                        kind,
                        estimate_of(row),
                        row.verdict,
                    ]
                )
                paper = claim = ""
    return pd.DataFrame(
        lines, columns=["paper", "claim", "task", "base models, replicates", "estimate", "verdict"]
    )


def estimate_of(row) -> str:
    return interval(row.estimate, row.low, row.high)


def gains_and_kinds(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    lines = []
    for row in own_test_samples(tables["gains"]).itertuples():
        arm_rows = lambda name, row=row: tables[name][
            (tables[name].task == row.task) & (tables[name].policy == row.policy)
        ]
        kind = arm_rows("kinds").query("eval_task == task and tier.isna()").iloc[0]
        greedy = arm_rows("gains").query("eval_task == task and decoding == 'greedy'").iloc[0]
        parts = round_parts(row.gain, [kind[name] for name in KINDS])
        lines.append(
            {
                "task": row.task,
                "policy": row.policy,
                "base % (greedy %)": f"{100 * row.base_accuracy:.1f} ({100 * greedy.base_accuracy:.1f})",
                "gain": estimate(row, "gain"),
                "greedy gain": estimate(greedy, "gain"),
            }
            | {name.replace("_", " "): change(part) for name, part in zip(KINDS, parts)}
            | {
                "learnable %": f"{100 * arm_rows('learnable').learnable.iloc[0]:.1f}",
                "p̂ = 0 %": f"{100 * arm_rows('subsets').zero_share.iloc[0]:.1f}",
            }
        )
    return pd.DataFrame(lines)


def gains_by_limit(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    lines = []
    for (task, policy), group in tables["parts"].groupby(["task", "policy"], sort=False):
        line = {"trained on": task, "policy": policy}
        for test in tables["parts"].eval_task.unique():
            row = group[group.eval_task == test].iloc[0]
            finishing, _ = round_parts(row.gain, [row.finishing, row.correctness])
            line[f"gain on {test}"] = change(row.gain)
            line[f"of which finishing, {test}"] = interval(
                finishing, row.finishing_low, row.finishing_high
            )
        lines.append(line)
    return pd.DataFrame(lines)


def bases_by_limit(tables: dict[str, pd.DataFrame]) -> list:
    """A row of the table `parts` for each test: how often the base model answers and is right."""
    return list(tables["parts"].drop_duplicates("eval_task").itertuples())


def gains_in_parts(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """A row for each arm and test, of formatted values: shares answered and right before and after
    training, gain, finishing and correctness. `tables` are those of a study with one recipe."""
    keys = ["model", "task", "eval_task", "policy", "recipe"]
    gain_intervals = tables["gains"].query("decoding == 'sampled'")[
        [*keys, "gain_low", "gain_high"]
    ]
    lines = []
    for row in tables["parts"].merge(gain_intervals, on=keys).itertuples():
        finishing, correctness = round_parts(row.gain, [row.finishing, row.correctness])
        lines.append(
            {
                "tested on": row.eval_task,
                "policy": row.policy,
                "answered %": f"{100 * row.base_answered:.1f} → {100 * row.answered:.1f}",
                "right %": f"{100 * row.base_accuracy:.1f} → {100 * row.accuracy:.1f}",
                "gain": estimate(row, "gain"),
                "finishing": interval(finishing, row.finishing_low, row.finishing_high),
                "correctness": interval(correctness, row.correctness_low, row.correctness_high),
            }
        )
    return pd.DataFrame(lines).sort_values(["tested on", "policy"], ignore_index=True)


def completions_of_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each run, of formatted values before and after training: mean length of the
    completions, and shares cut off, answered and right. `rows` has a row of decomposition_runs.csv
    for each run."""
    by_run = pd.DataFrame({"policy": rows.policy, "seed": rows.seed})
    for head, column, scale in (
        ("mean tokens", "tokens", 1),
        ("cut off %", "truncated", 100),
        ("answered %", "answered", 100),
        ("right %", "accuracy", 100),
    ):
        pairs = zip(scale * rows[f"base_{column}"], scale * rows[column])
        by_run[head] = [f"{before:.0f} → {after:.0f}" for before, after in pairs]
    return by_run


def gains_by_recipe(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    gains, differences = own_test_samples(tables["gains"]), own_test_samples(tables["differences"])
    lines = []
    for row in gains[gains.policy != "random"].itertuples():
        task_differences = differences[
            (differences.model == row.model) & (differences.task == row.task)
        ]
        leads_over_random = lead(task_differences, (row.policy, row.recipe), ("random", row.recipe))
        lines.append([row.task, row.recipe, row.policy, estimate(row, "gain"), leads_over_random])
    return pd.DataFrame(lines, columns=["task", "recipe", "policy", "gain", "lead over random"])


def gains_by_labels(study: ResolvedStudy, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The arms that choose as many prompts as policy `random`, with gain and lead for each base
    model and task. `tables` are the tables of `study`."""
    gains, spent = own_test_samples(tables["gains"]), tables["spent"]
    differences = own_test_samples(tables["differences"])
    lines: dict[tuple, dict] = {}
    for row in gains.itertuples():
        if random_of(study.policies, row.policy) != "random":
            continue
        cell = lambda frame, row=row: frame[(frame.model == row.model) & (frame.task == row.task)]
        arm = row.policy, row.recipe
        labels = cell(spent).query("policy == @row.policy and recipe == @row.recipe").labels.iloc[0]
        line = lines.setdefault(
            arm, {"policy": row.policy, "recipe": row.recipe, "labels": f"{labels:.0f}"}
        )
        line[f"gain, {row.task} of {row.model}"] = change(row.gain)
        line[f"lead, {row.task} of {row.model}"] = lead(
            cell(differences), arm, ("random", study.first_recipe)
        )
    return pd.DataFrame(lines.values())


def gains_by_selector(first_recipe: str, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Every arm with its gain, and its lead over plain GRPO (`first_recipe`) on the prompts of the
    same policy."""
    gains, spent = own_test_samples(tables["gains"]), tables["spent"]
    differences = own_test_samples(tables["differences"])
    lines: dict[tuple, dict] = {}
    for row in gains.itertuples():
        arm = row.policy, row.recipe
        line = lines.setdefault(arm, {"policy": row.policy, "recipe": row.recipe, "labels": []})
        line["labels"].append(
            spent.query(
                "task == @row.task and policy == @row.policy and recipe == @row.recipe"
            ).labels.iloc[0]
        )
        line[f"gain, {row.task}"] = change(row.gain)
        line[f"lead, {row.task}"] = lead(
            differences[differences.task == row.task], arm, (row.policy, first_recipe)
        )
    for line in lines.values():
        line["labels"] = ", ".join(dict.fromkeys(f"{labels:.0f}" for labels in line["labels"]))
    return pd.DataFrame(lines.values())


def recorded_gains(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Gains of the recorded runs with their finishing, in descending order of finishing."""
    keys = ["model", "task", "eval_task", "policy", "recipe", "step"]
    gains = tables["gains"][tables["gains"].decoding == "sampled"][[*keys, "gain_low", "gain_high"]]
    rows = (
        tables["parts"]
        .merge(gains, on=keys)
        .sort_values("finishing", kind="stable", ignore_index=True)[::-1]
    )
    lines = []
    for row in rows.itertuples():
        finishing, _ = round_parts(row.gain, [row.finishing, row.correctness])
        lines.append(
            {
                "model": model_of(row.model),
                "test": row.eval_task,
                "trained on": row.policy,
                "updates": row.step,
                "problems": row.problems,
                "base answered %": f"{100 * row.base_answered:.1f}",
                "gain": estimate(row, "gain"),
                "finishing": interval(finishing, row.finishing_low, row.finishing_high),
            }
        )
    return pd.DataFrame(lines)


def recorded_contrasts(table: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of recorded runs minus the accuracy of other runs: means of the last five
    checkpoints, on all and on hard questions, by the task's grader or as published.

    A published accuracy is left out if the run's completions are available.
    """
    keys, last = RECORDED_KEYS[:5], last_checkpoints(table)
    last["shown"] = [estimate(row, "difference") for row in last.itertuples()]
    by_questions = last.pivot(index=keys, columns="questions", values="shown").reindex(
        columns=["all", "hard"]
    )
    own_grader = last[
        (last.questions == "all") & (last.grading != "lenient") & (last.minus != "base")
    ]
    frame = own_grader.merge(by_questions, on=keys)
    return pd.DataFrame(
        {
            "model": frame.model.map(model_of),
            "test": frame.task,
            "run": frame.policy,
            "minus run": frame.minus,
            "grading": frame.grading,
            "accuracy %, minus run → run": [
                f"{100 * row.minus_value:.1f} → {100 * row.value:.1f}" for row in frame.itertuples()
            ],
            "difference": frame["all"],
            "on hard questions": frame["hard"].fillna(""),
        }
    )


def recorded_leads(table: pd.DataFrame, task: str, policy: str, minus: str) -> dict:
    """{model: row with the accuracy of the run on `policy` minus that of the run on `minus`}, on
    all questions: means of the last checkpoints."""
    last = last_checkpoints(table)
    rows = last[
        (last.task == task)
        & (last.policy == policy)
        & (last.minus == minus)
        & (last.questions == "all")
    ]
    graded = rows[rows.grading != "lenient"]
    leads = {model_of(row.model): row for row in graded.itertuples()}
    # sorted by the number of parameters in the model's name
    return dict(sorted(leads.items(), key=lambda lead: float(re.search(r"([\d.]+)b", lead[0])[1])))


def recorded_groups(table: pd.DataFrame) -> pd.DataFrame:
    """Shares of learnable, all right and all wrong groups in the later epochs of the recorded run,
    by policy. Policies choose by the earlier epochs."""
    lines = []
    for row in table[table.stretch.isna()].itertuples():
        policy_rows = table[table.policy == row.policy]
        stretches = policy_rows[policy_rows.stretch.notna()].sort_values("stretch").mixed
        lines.append(
            {
                "policy": row.policy,
                "prompts": f"{policy_rows.prompts.max():.0f}",
                "learnable %": percent(row, "mixed"),
                "all right %": percent(row, "all_right"),
                "all wrong %": percent(row, "all_wrong"),
                "learnable %, first to last tenth of the later epochs": f"{100 * stretches.iloc[0]:.1f} to {100 * stretches.iloc[-1]:.1f}",
            }
        )
    return pd.DataFrame(lines)


def probe_completions(tasks: dict, chosen: pd.DataFrame) -> set[str]:
    """The numbers of completions in probes of the whole pool of each task, without repetitions."""
    pools = chosen[chosen.policy == "pool"].itertuples()
    return {f"{tasks[row.task]['probe']['samples'] * row.pool:.0f}" for row in pools}


# --- findings ---


def largest_gains(tables: dict[str, pd.DataFrame]) -> list[dict]:
    """The policy with the largest gain on each task, with its sharpening and its greedy gain."""
    best = []
    for task, sampled in own_test_samples(tables["gains"]).groupby("task", sort=False):
        row = sampled.loc[sampled.gain.idxmax()]
        arm_rows = lambda name, row=row: tables[name].query(
            "task == @row.task and eval_task == task and policy == @row.policy"
        )
        (greedy,) = arm_rows("gains").query("decoding == 'greedy'").itertuples()
        (kind,) = arm_rows("kinds").query("tier.isna()").itertuples()
        best.append(
            {
                "task": task,
                "policy": row.policy,
                "gain": estimate(row, "gain"),
                "sharpening": estimate(kind, "sharpening"),
                "greedy": estimate(greedy, "gain"),
            }
        )
    return best


def under_limits(study: ResolvedStudy, frame: pd.DataFrame) -> list[pd.Series]:
    """Two rows of policy `hard`, trained under the tight limit: tested under the tight limit, and
    under the larger limit. `frame` is a table of `study`."""
    tight = next(task for task in study.task_names if "cut_from" in study.tasks[task])
    rows = frame[(frame.policy == "hard") & (frame.task == tight)].set_index("eval_task")
    return [rows.loc[test] for test in (tight, study.tasks[tight]["cut_from"])]


def primary(rows: pd.DataFrame, study: str, paper: str) -> str:
    """The estimates of a paper's primary claim, such as 'arithmetic -0.8 [-2.2, +0.5], swaps
    ...'."""
    rows = primary_rows(rows, study, paper)
    return ", ".join(f"{place(rows, row)} {estimate_of(row)}" for row in rows.itertuples())


def primary_rows(rows: pd.DataFrame, study: str, paper: str) -> pd.DataFrame:
    return rows[(rows.study == study) & (rows.paper == paper) & (rows.primary == 1)]


def p_corrected_over_tasks(rows: pd.DataFrame) -> str:
    """The p-values of a claim that has one row for each task, with Holm's correction over the
    tasks. Each kind of base model must have only one task: `p_holm` is corrected over the tasks of
    one kind, so with one task it is uncorrected."""
    corrected = statistics.holm(rows.p_holm.to_numpy())
    return ", ".join(f"{task} {p:.2g}" for task, p in zip(rows.task, corrected))


def by_verdict(verdicts: dict[str, str], preposition: str) -> str:
    """The names by verdict: {'arithmetic': 'undecided', 'swaps': 'undecided'} with preposition 'on'
    gives 'undecided on arithmetic and swaps'."""
    groups: dict[str, list[str]] = {}
    for name, verdict in verdicts.items():
        groups.setdefault(verdict, []).append(name)
    return "; ".join(
        f"{verdict} {preposition} {' and '.join(names)}" for verdict, names in groups.items()
    )


def by_task(rows: pd.DataFrame, study: str, claim: str) -> str:
    """The estimates of a claim: 'arithmetic -0.2 [-1.3, +1.0], swaps -1.7 [-3.0, -0.3]'."""
    rows = rows[(rows.study == study) & (rows.id == claim) & rows.estimate.notna()]
    return ", ".join(f"{row.task} {estimate_of(row)}" for row in rows.itertuples())


def values(root: Path, config: dict) -> dict:
    """The values that the templates of README.md and docs/results.md show."""
    studies = {
        study: read(
            root,
            study,
            "spent",
            "chosen",
            "trajectories",
            "recorded_runs",
            "mcnemar",
            "decomposition_runs",
        )
        for study in HEADINGS
    }
    limited, rows = studies[TRUNCATION], all_claims(root, config)
    truncation = ResolvedStudy.of(config, TRUNCATION)
    leads = {
        minus: under_limits(truncation, limited["differences"].query("minus == @minus"))
        for minus in ("random", "easy")
    }
    (tight, _) = under_limits(truncation, limited["parts"])
    recorded_rows = functools.partial(recorded_leads, studies[RECORDINGS]["recorded_runs"])
    return {
        "headings": HEADINGS,
        "anchors": {study: anchor(study) for study in HEADINGS},
        "populations": {
            study: population(config["models"], studies[study]["gains"]) for study in TRAINED
        },
        "studies": studies,
        "claims": primary_claims(rows),
        "primary": lambda study, paper: primary(rows, study, paper),
        "verdicts": lambda study, paper: by_verdict(
            {
                row.task: ANSWERS.get(row.verdict, row.verdict)
                for row in primary_rows(rows, study, paper).itertuples()
            },
            "on",
        ),
        "recorded_leads": lambda *names: {
            model: estimate(row, "difference") for model, row in recorded_rows(*names).items()
        },
        "recorded_table": (recorded_table := recorded_gains(studies[RECORDINGS])),
        "finishing": recorded_table.iloc[0],
        "confirm_p": p_corrected_over_tasks(primary_rows(rows, CONFIRM, "HE")),
        "by_task": lambda study, claim: by_task(rows, study, claim),
        "limit": {
            "gain": [estimate(row, "gain") for row in under_limits(truncation, limited["gains"])],
            "finishing": estimate(tight, "finishing"),
            "over_random": [estimate(row, "difference") for row in leads["random"]],
            "over_easy": [estimate(row, "difference") for row in leads["easy"]],
        },
    } | greedy.values(studies)


def page(root: Path, config: dict) -> str:
    content = values(root, config)
    studies = content["studies"]
    real_runs = (
        studies[REAL]["decomposition_runs"]
        .query("eval_task == 'gsm8k_small' and grading == 'task'")
        .reset_index(drop=True)
    )
    return templates.fill(
        "results",
        **content,
        which=recommended.short_finding(root, config),
        best=largest_gains(studies[REFERENCE]),
        bases_by_limit=bases_by_limit(studies[TRUNCATION]),
        reference_table=gains_and_kinds(studies[REFERENCE]),
        confirm_table=gains_and_kinds(studies[CONFIRM]),
        steady_gains={
            row.decoding: estimate(row, "gain")
            for row in studies[CONFIRM]["gains"]
            .query("model == 'steady' and policy == 'random' and eval_task == task")
            .itertuples()
        },
        limit_table=gains_by_limit(studies[TRUNCATION]),
        real_table=gains_in_parts(studies[REAL]),
        real_lead=lead(
            own_test_samples(studies[REAL]["differences"]),
            ("hard", "small_lora"),
            ("random", "small_lora"),
        ),
        run_table=completions_of_runs(real_runs),
        worse_runs=(real_runs.gain < 0).sum(),
        recipe_table=gains_by_recipe(studies[VARIANTS]),
        label_table=gains_by_labels(ResolvedStudy.of(config, LABELS), studies[LABELS]),
        wrong=studies[LABELS]["chosen"].query("policy == 'random'"),
        selector_table=gains_by_selector(
            ResolvedStudy.of(config, ONLINE).first_recipe, studies[ONLINE]
        ),
        rollouts=" or ".join(
            f"{rollouts:.0f}" for rollouts in studies[ONLINE]["spent"].rollouts.unique()
        ),
        probe=" or ".join(sorted(probe_completions(config["tasks"], studies[ONLINE]["chosen"]))),
        rates_table=greedy.gains(studies[RATES]),
        margins_table=greedy.margins(root),
        contrast_table=recorded_contrasts(studies[RECORDINGS]["recorded_runs"]),
        group_table=recorded_groups(studies[TRAJECTORIES]["trajectories"]),
        published=tables.same_in_paper(root, config),
    )
