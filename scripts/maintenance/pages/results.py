"""docs/results.md, from the committed summaries: a section for each finished study, and the primary
claims. The template reads single rows itself (`templates.fill`)."""

from hardgrpo.analysis import statistics, summaries
from hardgrpo.analysis.formats import change_interval as interval
from hardgrpo.analysis.formats import points, round_parts
from hardgrpo.analysis.summaries import own_test_rows, own_test_samples
from hardgrpo.report import registry, tables
from hardgrpo.report.markdown import table
from hardgrpo.report.paper import Paper, by, each
from hardgrpo.runtime import files
from hardgrpo.study import designs, paths
from hardgrpo.study.model import Model
from hardgrpo.study.resolved import resolve_study
from pages import templates
from pages.committed import TRAINED

import functools
import re
from pathlib import Path

import pandas as pd

# {study: the papers whose primary claims it tests}
PAPERS_OF = {
    "mini_confirm": ["HE", "LDS"],
    "mini_reference": ["HE", "LDS"],
    "mini_half": ["mini_half"],
    "mini_labels": ["here"],
    "mini_online": ["DAPO"],
    "small_real": ["small_real"],
}
SHOWN_POLICIES = ["hard", "middle", "random", "easy"]
# {verdict on a claim: answer to the question that the claim asks}; other verdicts stay
ANSWERS = {"supported": "yes", "contradicted": "no"}
estimate = templates.estimate


def values(root: Path, config: dict) -> dict:
    """The values that the templates of README.md and docs/results.md show."""
    read = Paper(root, {}).rows
    recorded_table = recorded_gains(read("recordings/gains"), read("recordings/parts"))
    return {
        "populations": {
            study: population(config["models"], read(f"{study}/gains")) for study in TRAINED
        },
        "claims": primary_claims(read),
        "primary": lambda study, paper: estimates(primary(read, study, paper)),
        "verdicts": lambda study, paper: by_verdict(primary(read, study, paper)),
        "recorded_leads": functools.partial(recorded_leads, read("recordings/recorded_runs")),
        "recorded_table": recorded_table,
        "finishing": recorded_table.iloc[0],
        "confirm_p": p_corrected_over_tasks(primary(read, "mini_confirm", "HE")),
        "by_task": lambda study, claim: estimates(read("all/claims", study=study, id=claim)),
        "greedy_contrast": greedy_contrast(read("mini_rates/mcnemar")),
    }


def page(root: Path, config: dict) -> str:
    read = Paper(root, {}).rows
    return templates.fill(
        "results",
        root,
        **values(root, config),
        shown=functools.partial(shown, root, config),
        gains=lambda study, *decodings, policies=SHOWN_POLICIES: gains_by_policy(
            read(f"{study}/gains"), decodings, policies
        ),
        probe=probe_completions(config["tasks"], read("mini_online/chosen")),
    )


# --- claims


def primary(read, study: str, papers: str | list[str]) -> pd.DataFrame:
    """The rows of the primary claims of a paper, or of several, in a study."""
    return read("all/claims", study=study, paper=papers, primary=True)


def place(rows: pd.DataFrame, row: pd.DataFrame) -> str:
    """The task of a claim's row, with the base model if the claim has rows of several base models
    for this task and test."""
    task, test = row.task.item(), row.test.item()
    models = rows[(rows.task == task) & (rows.test == test)].model.nunique()
    return task if models == 1 else f"{task} of {row.model.item()}"


def estimates(rows: pd.DataFrame) -> str:
    """The estimates of a claim: 'arithmetic -0.8 [-2.2, +0.5], swaps ...'."""
    rows = rows[rows.estimate.notna()]
    return ", ".join(f"{place(rows, row)} {estimate(row, 'estimate')}" for row in each(rows))


def by_verdict(rows: pd.DataFrame) -> str:
    """The answers of a claim by task: 'undecided on arithmetic and swaps'."""
    answers = rows.assign(answer=rows.verdict.map(lambda verdict: ANSWERS.get(verdict, verdict)))
    return "; ".join(
        f"{answer} on {' and '.join(dict.fromkeys(group.task))}"
        for (answer,), group in by(answers, "answer")
    )


def primary_claims(read) -> pd.DataFrame:
    """The rows of the primary claims, from the studies that test them."""
    lines = []
    for study, papers in PAPERS_OF.items():
        for (paper, claim), rows in by(primary(read, study, papers), "paper", "claim"):
            for row in each(rows):
                line = {"paper": paper, "claim": claim, "task": row.task.item()}
                line["base models, replicates"] = f"`{row.model.item()}`, {row.seeds.item():.0f}"
                line["estimate"] = estimate(row, "estimate")
                lines.append(line | {"verdict": row.verdict.item()})
                paper = claim = ""
    return pd.DataFrame(lines)


def p_corrected_over_tasks(rows: pd.DataFrame) -> str:
    """The p-values of a claim that has one row for each task, with Holm's correction over the
    tasks. Each kind of base model must have only one task: `p_holm` is corrected over the tasks of
    one kind, so with one task it is uncorrected."""
    corrected = statistics.holm(rows.p_holm.to_numpy())
    return ", ".join(f"{task} {p:.2g}" for task, p in zip(rows.task, corrected))


# --- studies


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


def shown(root: Path, config: dict, study: str, name: str) -> str:
    """A table of a study's supplement in Markdown, without columns that hold one value."""
    resolved = resolve_study(config, study)
    frames = summaries.read_all(
        files.Tables.below(root / paths.reference(study)), registry.SUMMARIES, resolved.first_recipe
    )
    _, columns = tables.make(name, frames, designs.design(resolved))
    return table(tables.to_frame(columns, are_constant_shown=False))


def gains_by_policy(gains: pd.DataFrame, decodings: list[str], policies: list[str]) -> str:
    """The gains of `policies`, in a row for each base model, task, recipe and decoding, in Markdown.
    A column of names that holds one value is left out."""
    frame = own_test_rows(gains)
    frame = frame[frame.policy.isin(policies) & frame.decoding.isin(decodings)]
    frame = frame.sort_values(
        "decoding", key=lambda names: names.map(decodings.index), kind="stable"
    )
    texts = {
        "base %": frame.base_accuracy.map(points),
        "gain": [estimate(row, "gain") for row in each(frame)],
    }
    keys = ["model", "task", "recipe", "decoding"]
    lines = frame.assign(**texts).set_index([*keys, "base %", "policy"]).gain
    lines = lines.unstack(fill_value="", sort=False).reset_index()
    names = [name for name in keys if lines[name].nunique() > 1]
    return table(lines[[*names, "base %", *(name for name in policies if name in lines)]])


def probe_completions(tasks: dict, chosen: pd.DataFrame) -> str:
    """The numbers of completions in probes of the whole pool of each task, without repetitions."""
    pools = chosen[chosen.policy == "pool"].itertuples()
    counts = {f"{tasks[row.task]['probe']['samples'] * row.pool:.0f}" for row in pools}
    return " or ".join(sorted(counts))


def greedy_contrast(mcnemar: pd.DataFrame) -> str:
    """The greedy gain of `random` with recipe `mini_100_quarter` minus the greedy gain with
    `mini_100`: the comparison that study `mini_rates` named before its runs. The interval is for new
    base models on the same problems."""
    rows = mcnemar.query(
        "policy == 'random' and minus == 'random' and recipe == 'mini_100' and minus_recipe == 'mini_100_quarter'"
    )
    return interval(*vars(statistics.seeds_interval(-rows.difference.to_numpy())).values())


# --- recorded runs


def model_of(name: str) -> str:
    """The model of a recording, without the suffix of recorded models."""
    return name.removesuffix("-recorded").removesuffix("-trajectory")


def recorded_gains(gains: pd.DataFrame, parts: pd.DataFrame) -> pd.DataFrame:
    """Gains of the recorded runs with their finishing, in descending order of finishing."""
    keys = ["model", "task", "eval_task", "policy", "recipe", "step"]
    sampled = gains[gains.decoding == "sampled"][[*keys, "gain_low", "gain_high"]]
    lines = []
    for row in parts.merge(sampled, on=keys).sort_values("finishing", ascending=False).itertuples():
        finishing, _ = round_parts(row.gain, [row.finishing, row.correctness])
        line = {"model": model_of(row.model), "test": row.eval_task}
        line["gain"] = interval(row.gain, row.gain_low, row.gain_high)
        line["finishing"] = interval(finishing, row.finishing_low, row.finishing_high)
        lines.append(line)
    return pd.DataFrame(lines)


def recorded_leads(runs: pd.DataFrame, task: str, policy: str, minus: str) -> dict[str, str]:
    """{model: the accuracy of the run on `policy` minus that of the run on `minus`}, on all
    questions: means of the last checkpoints."""
    frame = tables.recorded_accuracies(runs)
    rows = frame.query(
        "task == @task and policy == @policy and minus == @minus and questions == 'all' and grading != 'lenient'"
    )
    leads = {model_of(row.model.item()): estimate(row, "difference") for row in each(rows)}
    # sorted by the number of parameters in the model's name
    return dict(sorted(leads.items(), key=lambda lead: float(re.search(r"([\d.]+)b", lead[0])[1])))
