"""docs/results.md, from the committed summaries: a section for each study of HEADINGS, with a table of its
supplement, and the primary claims."""

from hardgrpo.analysis import columns, statistics, summaries
from hardgrpo.analysis.formats import change_interval as interval
from hardgrpo.analysis.formats import points, round_parts
from hardgrpo.analysis.random_choice import difference_row
from hardgrpo.analysis.summaries import own_test_rows, own_test_samples
from hardgrpo.report import registry, tables
from hardgrpo.report.markdown import table
from hardgrpo.runtime import files
from hardgrpo.study import designs, paths
from hardgrpo.study.model import Model
from hardgrpo.study.resolved import ResolvedStudy
from pages import recommended, templates
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
    judged,
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
SHOWN_POLICIES = ["hard", "middle", "random", "easy"]
SHORT = 30  # tokens
# {verdict on a claim: answer to the question that the claim asks}; other verdicts stay
ANSWERS = {"supported": "yes", "contradicted": "no"}


# --- formatted values ---


def estimate(row, name: str) -> str:
    """A share of a row in points, with its interval."""
    return interval(*(getattr(row, column) for column in columns.interval(name)))


def lead(differences: pd.DataFrame, arm: tuple[str, str], minus: tuple[str, str]) -> str:
    """The difference of two arms (policy, recipe) with its interval; "" if the table does not have
    this difference."""
    row = difference_row(differences, arm, minus)
    return interval(row["difference"], row["low"], row["high"]) if row else ""


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


def shown(root: Path, config: dict, study: str, name: str) -> str:
    """A table of a study's supplement in Markdown, without columns that hold one value."""
    resolved = ResolvedStudy.of(config, study)
    frames = summaries.read_all(
        files.Tables.below(root / paths.reference(study)), registry.SUMMARIES, resolved.first_recipe
    )
    frames["compared"] = judged(root, resolved)["compared"]
    _, columns = tables.make(name, frames, designs.design(resolved))
    frame = tables.to_frame(columns)
    return table(frame.loc[:, [len(set(values)) > 1 for _, values in frame.items()]])


def gains_by_policy(gains: pd.DataFrame, decodings: list[str]) -> str:
    """The gains of hard, middle, random and easy prompts, in a row for each base model, task, recipe
    and decoding, in Markdown. A column of names that holds one value is left out."""
    frame = own_test_rows(gains)
    frame = frame[frame.policy.isin(SHOWN_POLICIES) & frame.decoding.isin(decodings)]
    keys = ["model", "task", "recipe", "decoding"]
    names = [name for name in keys if frame[name].nunique() > 1]
    lines = []
    for decoding in decodings:
        for key, rows in frame[frame.decoding == decoding].groupby(keys, sort=False):
            line = {name: value for name, value in zip(keys, key) if name in names}
            line["base %"] = points(rows.base_accuracy.iloc[0])
            by_policy = {row.policy: estimate(row, "gain") for row in rows.itertuples()}
            lines.append(line | {name: by_policy.get(name, "") for name in SHOWN_POLICIES})
    gain_rows = pd.DataFrame(lines)
    return table(gain_rows.loc[:, (gain_rows != "").any()])


def bases_by_limit(tables: dict[str, pd.DataFrame]) -> list:
    """A row of the table `parts` for each test: how often the base model answers and is right."""
    return list(tables["parts"].drop_duplicates("eval_task").itertuples())


def recorded_gains(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Gains of the recorded runs with their finishing, in descending order of finishing."""
    keys = ["model", "task", "eval_task", "policy", "recipe", "step"]
    gains = tables["gains"][tables["gains"].decoding == "sampled"][[*keys, "gain_low", "gain_high"]]
    rows = tables["parts"].merge(gains, on=keys).sort_values("finishing", ascending=False)
    lines = []
    for row in rows.itertuples():
        finishing, _ = round_parts(row.gain, [row.finishing, row.correctness])
        lines.append(
            {
                "model": model_of(row.model),
                "test": row.eval_task,
                "gain": estimate(row, "gain"),
                "finishing": interval(finishing, row.finishing_low, row.finishing_high),
            }
        )
    return pd.DataFrame(lines)


def collapsed(runs: pd.DataFrame) -> dict[str, int]:
    """The numbers of runs whose whole completions are short, and whose completions mostly do not
    end, after training. `runs` is table decomposition_runs of study `small_real`."""
    untruncated = runs[runs.eval_task == "gsm8k_small"]
    short, endless = untruncated.tokens < SHORT, untruncated.truncated > 0.5
    return {
        "runs": len(untruncated),
        "short": short.sum(),
        "endless": endless.sum(),
        "tokens": SHORT,
    }


def greedy_contrast(mcnemar: pd.DataFrame) -> str:
    """The greedy gain of `random` with recipe `mini_100_quarter` minus the greedy gain with
    `mini_100`: the comparison that study `mini_rates` named before its runs. The interval is for new
    base models on the same problems."""
    rows = mcnemar.query(
        "policy == 'random' and minus == 'random' and recipe == 'mini_100' and minus_recipe == 'mini_100_quarter'"
    )
    estimate = statistics.seeds_interval(-rows.difference.to_numpy())
    return interval(estimate.estimate, estimate.low, estimate.high)


def recorded_leads(table: pd.DataFrame, task: str, policy: str, minus: str) -> dict:
    """{model: row with the accuracy of the run on `policy` minus that of the run on `minus`}, on
    all questions: means of the last checkpoints."""
    frame = tables.recorded_accuracies(table)
    rows = frame[
        (frame.task == task)
        & (frame.policy == policy)
        & (frame.minus == minus)
        & (frame.questions == "all")
    ]
    graded = rows[rows.grading != "lenient"]
    leads = {model_of(row.model): row for row in graded.itertuples()}
    # sorted by the number of parameters in the model's name
    return dict(sorted(leads.items(), key=lambda lead: float(re.search(r"([\d.]+)b", lead[0])[1])))


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
    tight = next(task for task in study.task_names if study.tasks[task].cut_from)
    rows = frame[(frame.policy == "hard") & (frame.task == tight)].set_index("eval_task")
    return [rows.loc[test] for test in (tight, study.tasks[tight].cut_from)]


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
        "greedy_contrast": greedy_contrast(studies[RATES]["mcnemar"]),
        "rates_bases": int(studies[RATES]["gains"].seeds.max()),
    }


def page(root: Path, config: dict) -> str:
    content = values(root, config)
    studies = content["studies"]
    return templates.fill(
        "results",
        **content,
        shown=functools.partial(shown, root, config),
        which=recommended.short_finding(root, config),
        best=largest_gains(studies[REFERENCE]),
        bases_by_limit=bases_by_limit(studies[TRUNCATION]),
        gains=lambda study: gains_by_policy(
            studies[study]["gains"], ["sampled"] if study == VARIANTS else ["sampled", "greedy"]
        ),
        collapsed=collapsed(studies[REAL]["decomposition_runs"]),
        real_lead=lead(
            own_test_samples(studies[REAL]["differences"]),
            ("hard", "small_lora"),
            ("random", "small_lora"),
        ),
        wrong=studies[LABELS]["chosen"].query("policy == 'random'"),
        rollouts=" or ".join(
            f"{rollouts:.0f}" for rollouts in studies[ONLINE]["spent"].rollouts.unique()
        ),
        probe=" or ".join(sorted(probe_completions(config["tasks"], studies[ONLINE]["chosen"]))),
    )
