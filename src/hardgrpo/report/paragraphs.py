"""The paragraphs of a study's paper that depend on its results. Every number is a macro of numbers.py.

Each function gets `numbers`, whose `tables` are the summaries and whose `add` makes a macro of a row, and returns LaTeX, or '' where the
study has no such result. A paragraph says what was found; the table beside it lists all numbers.
"""

from collections.abc import Callable

import pandas as pd

from hardgrpo.analysis.columns import interval
from hardgrpo.report.latex import escape
from hardgrpo.report.tables.gains import at_home

FEW = 4  # the abstract tells up to so many estimates one by one; it counts or omits more
LEADING, RIVAL = "hard", "random"


def cell(row) -> str:
    return f"{row.model}.{row.task}.{row.eval_task}.{row.arm}"


def listed(items: list[str]) -> str:
    return ", ".join(items)


def joined(items: list[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def span(numbers, table: str, rows: pd.DataFrame, name: str, key: Callable) -> str:
    """'+1.2 [0.4, 2.0] (hard) to +7.0 [...] (random)': the least and the largest estimate of a column, or the only one.

    `key` gives the name of a row's macro.
    """
    rows = rows[rows[name].notna()]
    ends = [rows.loc[rows[name].idxmin()], rows.loc[rows[name].idxmax()]] if len(rows) else []
    ends = ends[:1] if len(rows) == 1 else ends
    said = [f"{numbers.add(key(row), table, row, interval(name), 'gain')} ({escape(row.arm)})" for row in ends]
    return " to ".join(said)


def named(prefix: str) -> Callable:
    return lambda row: f"{prefix}.{cell(row)}"


# --- the abstract ------------------------------------------------------------------------------------------------------


def abstract(numbers, study: dict) -> str:
    """What was asked and run, each paper's primary claim, what the largest gains are made of, and what the intervals hold for."""
    if not study["recipe"]:
        return ""
    base = ", each with a base model that was pretrained for it" if study["own_bases"] else ""
    sentences = [
        rf"We ask which share of a pool of prompts to annotate for GRPO, and compare the policies \result{{policies}} on \result{{tasks}}"
        rf" with \result{{seeds}} replicates{base}."
    ]
    claims = numbers.tables["claims"]
    for (paper, claim), rows in claims[claims.primary == 1].groupby(["paper", "claim"], sort=False):
        said = "" if paper == "here" else f" ({escape(paper)})"
        sentences.append(f"That {escape(claim)}{said} is {verdicts(numbers, rows)}.")
    sentences += [made_of_in_short(numbers), holds_for(study)]
    return " ".join(filter(None, sentences))


def verdicts(numbers, rows: pd.DataFrame) -> str:
    """'contradicted on swaps (-1.7 [...] points) and undecided on arithmetic (...)', or how many pairs of model and task have each verdict."""
    if len(rows) > FEW:
        counts = [f"{number} {verdict}" for verdict, number in rows.verdict.value_counts().items()]
        return f"of {len(rows)} pairs of model and task {joined(counts)}"
    several = rows.model.nunique() > 1
    said = []
    for row in rows.itertuples():
        where = f"{escape(row.task)}" + (f" for {escape(row.model)}" if several else "")
        estimate, _, verdict = claim_numbers(numbers, row)
        said.append(f"{verdict} on {where} ({estimate} points)")
    return joined(said)


def claim_numbers(numbers, row) -> tuple[str, str, str]:
    """Macros of a claim's estimate, p and verdict; no p where there is none."""
    key = f"claim.{row.id}.{row.model}.{row.task}"
    p = "" if pd.isna(row.p_holm) else numbers.add(f"{key}.p", "claims", row, ["p_holm"], "p")
    estimate = numbers.add(key, "claims", row, ["estimate", "low", "high"], "gain")
    return estimate, p, numbers.add(f"{key}.verdict", "claims", row, ["verdict"], "text")


def made_of_in_short(numbers) -> str:
    """What the largest gain of each task is made of, in a sentence; '' for more than FEW tasks."""
    kinds = _whole(numbers.tables["kinds"])
    rows, names = (
        (kinds, ("finishing", "sharpening", "new_solving"))
        if len(kinds)
        else (at_home(numbers.tables["parts"]), ("finishing", "correctness"))
    )
    best = [group.loc[group.gain.idxmax()] for _, group in rows.groupby(["model", "task"], sort=False)]
    if not best or len(best) > FEW:
        return ""
    table = "kinds" if len(kinds) else "parts"
    said = []
    for row in best:
        parts = []
        for place, name in enumerate(names, 1):
            columns = ["gain", *interval(name)[1:], *names]  # all parts: rounded, they add up
            parts.append(
                f"{numbers.add(f'made.{name}.{cell(row)}', table, row, columns, f'part {place}')} {name.replace('_', ' ')}"
            )
        gain = numbers.add(f"made.gain.{cell(row)}", table, row, ["gain"], "points")
        whose = f" for {escape(row.model)}" if rows.model.nunique() > 1 else ""
        said.append(f"on {escape(row.task)}{whose} the {gain} points of {escape(row.arm)} are {joined(parts)}")
    return "Of the largest gains, " + "; ".join(said) + "."


def holds_for(study: dict) -> str:
    if study["own_bases"]:
        return "The intervals are for new base models of this kind, new seeds and new problems like these; they say nothing about large models."
    return r"The intervals are for these models (\result{models}), new seeds and new problems; they say nothing about another base model."


# --- results -----------------------------------------------------------------------------------------------------------


def judged(numbers) -> str:
    """A paragraph for each paper's primary claim: what it says, whom the answer holds for, and what was found on each task."""
    claims = numbers.tables["claims"]
    paragraphs = []
    for (paper, claim, population), group in claims[claims.primary == 1].groupby(["paper", "claim", "population"], sort=False):
        said = []
        for row in group.itertuples():
            estimate, p, verdict = claim_numbers(numbers, row)
            said.append(f"{escape(row.task)} ({escape(row.model)}) {estimate}{f' ($p${p})' if p else ''}, {verdict}")
        who = "This project" if paper == "here" else paper
        paragraphs.append(rf"\textbf{{{who}}} claims: {escape(claim)}. In points, for {escape(population)}: {'; '.join(said)}.")
    return "\n\n".join(paragraphs)


def gains(numbers) -> str:
    """A paragraph a model and task: least and largest gain, sampled and greedy, and the differences between policies that are resolved."""
    table, differences = at_home(numbers.tables["gains"]), at_home(numbers.tables["differences"])
    paragraphs = []
    for (model, task), group in table.groupby(["model", "task"], sort=False):
        sampled, greedy = (group[group.decoding == name] for name in ("sampled", "greedy"))
        text = ""
        if len(sampled):
            text = rf"\textbf{{{escape(task)}}} ({escape(model)}, \result{{base.{model}.{task}.sampled}}\,\% before): {_gained(numbers, sampled)} points"
        if len(greedy):
            before = rf"\result{{base.{model}.{task}.greedy}}\,\% before"
            text += (
                f"; greedy accuracy ({before}) " if text else rf"\textbf{{{escape(task)}}} ({escape(model)}, greedy, {before}): "
            )
            text += f"changes by {_gained(numbers, greedy)}" if len(sampled) else f"{_gained(numbers, greedy)} points"
        paragraphs.append(f"{text}. {_resolved(differences[(differences.model == model) & (differences.task == task)])}".strip())
    return "\n\n".join(paragraphs)


def _gained(numbers, rows: pd.DataFrame) -> str:
    return span(numbers, "gains", rows, "gain", lambda row: f"gain.{cell(row)}.{row.decoding}")


def _resolved(pairs: pd.DataFrame) -> str:
    """Which differences between policies are resolved after Holm's correction, and which difference would have been found."""
    if not len(pairs):
        return ""
    found = []
    for row in pairs[pairs.p_holm < 0.05].itertuples():
        better, worse = (row.arm, row.minus_arm) if row.difference > 0 else (row.minus_arm, row.arm)
        found.append(rf"{escape(better)} over {escape(worse)} ($p$\result{{p.{cell(row)}.{row.minus_arm}}})")
    text = f"Resolved after Holm's correction: {listed(found)}." if found else "No difference between policies is resolved."
    if pairs.mdd.notna().any():
        row = pairs.iloc[0]
        key = f"detectable.difference.{row.model}.{row.task}.{row.eval_task}"
        text += rf" A difference of \result{{{key}}} points would have been found in four of five such studies."
    return text


def made_of(numbers) -> str:
    """Finishing, sharpening and new solving of the gains on each task's own test; right for the right reason; the two graders."""
    parts, kinds, reasons = (at_home(numbers.tables[name]) for name in ("parts", "kinds", "reasons"))
    kinds, paragraphs = _whole(kinds), []
    for (model, task), group in parts.groupby(["model", "task"], sort=False):
        same = lambda frame, model=model, task=task: frame[(frame.model == model) & (frame.task == task)]
        text = rf"\textbf{{{escape(task)}}} ({escape(model)}): finishing is {span(numbers, 'parts', group, 'finishing', named('finishing'))} points"
        if len(of_kind := same(kinds)):
            lost = numbers.add(f"out.of.reach.{model}.{task}", "kinds", of_kind.iloc[0], ["out_of_reach"], "points")
            samples = numbers.add(f"reach.samples.{model}.{task}", "kinds", of_kind.iloc[0], ["reach_samples"], "count")
            text += f", sharpening {span(numbers, 'kinds', of_kind, 'sharpening', named('sharpening'))}, and new solving "
            text += f"{span(numbers, 'kinds', of_kind, 'new_solving', named('new.solving'))}. Out of reach of {samples} samples of the base are {lost}\\,\\% of the problems"
        else:
            text += f", and correctness {span(numbers, 'parts', group, 'correctness', named('correctness'))}"
        if len(of_reason := same(reasons[reasons.sound_share.notna()])):
            before = numbers.add(f"sound.before.{model}.{task}", "reasons", of_reason.iloc[0], ["base_sound_share"], "points")
            ends = [of_reason.loc[of_reason.sound_share.idxmin()], of_reason.loc[of_reason.sound_share.idxmax()]]
            after = [
                f"{numbers.add(f'sound.after.{cell(row)}', 'reasons', row, ['sound_share'], 'points')}\\,\\% ({escape(row.arm)})"
                for row in ends
            ]
            text += f". Every step is right in {before}\\,\\% of the right answers before, and in {' to '.join(after)} after"
        paragraphs.append(text + "." + _by_grader(numbers, same(at_home(numbers.tables["decomposition"]))))
    return "\n\n".join(paragraphs)


def _by_grader(numbers, rows: pd.DataFrame) -> str:
    """Finishing of the largest gain by the strict and the lenient grader, where they differ."""
    rows = rows[rows.tier.isna() & (rows.step == rows.groupby("arm").step.transform("max"))]
    task = rows[rows.grading == "task"]
    if not len(task):
        return ""
    best = rows[rows.arm == task.loc[task.gain.idxmax()].arm].set_index("grading", drop=False)
    if abs(best.finishing["strict"] - best.finishing["lenient"]) < 0.0005:
        return ""
    said = [
        f"{numbers.add(f'finishing.{name}.{cell(best.loc[name])}', 'decomposition', best.loc[name], interval('finishing'), 'gain')} by the {name} grader"
        for name in ("strict", "lenient")
    ]
    return f" Of the gain of {escape(best.arm.iloc[0])}, finishing is {joined(said)}."


def leads(numbers) -> str:
    """Which property of the base model explains the lead of `hard` over `random` best, by R^2 over base models."""
    table = at_home(numbers.tables["lead_regressions"])
    table = table[(table.policy == LEADING) & (table.minus == RIVAL)]
    paragraphs = []
    for (model, task), group in table.groupby(["model", "task"], sort=False, dropna=False):
        best = group.loc[group.r_squared.idxmax()]
        several = table.model.nunique() > 1
        key, where = (f"lead.{model}.{task}", f"{task} ({model})") if several else (f"lead.{task}", task)
        slope = numbers.add(f"{key}.slope", "lead_regressions", best, interval("slope"), "slope")
        explained = numbers.add(f"{key}.explained", "lead_regressions", best, ["r_squared"], "r squared")
        p = numbers.add(f"{key}.p", "lead_regressions", best, ["p"], "p")
        points = numbers.add(f"{key}.points", "lead_regressions", best, ["points"], "count")
        about = {
            "base_accuracy": "accuracy",
            "greedy_gap": "gap between greedy and sampled accuracy",
            "zero_share": "share of the pool never solved",
            "mixed_share": "share of the pool solved sometimes",
        }
        paragraphs.append(
            rf"\textbf{{{escape(where)}}}: over {points} base models the lead of {LEADING} over {RIVAL} goes closest with the base's"
            f" {about[best.predictor]}: {slope} points per point ($R^2=$ {explained}, $p${p}, not corrected for the four lines tried)."
        )
    return "\n\n".join(paragraphs)


def explained(numbers) -> str:
    """R^2 of learnable share and of length, over all cells."""
    table = numbers.tables["regressions"]
    table = table[(table.task == "all") & table.adjusted_for.isna()]
    alone = {row.predictor: row for row in table.itertuples()}
    if not {"learnable", "tokens"} <= set(alone):
        return ""
    learnable, tokens = (
        numbers.add(f"explained.{name}", "regressions", alone[name], ["r_squared"], "r squared") for name in ("learnable", "tokens")
    )
    cells = numbers.add("explained.cells", "regressions", alone["learnable"], ["cells"], "count")
    return (
        f"Over {cells} cells (model, task, arm) the learnable share explains the gain with $R^2=$ {learnable} and the mean"
        f" length of the trained model's completions with $R^2=$ {tokens}. Cells share base models and problems, so that there is no interval."
    )


def elsewhere(numbers) -> str:
    """Gains on other test sets than the task's own."""
    table = numbers.tables["gains"]
    table = table[(table.task != table.eval_task) & (table.decoding == "sampled")]
    return " ".join(
        rf"Trained on {escape(task)} and tested on {escape(test)} ({escape(model)}, \result{{base.{model}.{test}.sampled}}\,\%"
        f" before): {_gained(numbers, group)} points."
        for (model, task, test), group in table.groupby(["model", "task", "eval_task"], sort=False)
    )


def overlaps(numbers) -> str:
    """Which test questions stand in a pool or are near one, and which questions of a pool were repeated."""
    sentences = []
    for row in numbers.tables["contamination"].itertuples():
        key = f"{row.task}.{row.eval_task}"
        equal, near, problems = (
            numbers.add(f"{name}.{key}", "contamination", row, [name], "count") for name in ("equal", "near", "problems")
        )
        text = f"{equal} of the {problems} test questions of {escape(row.eval_task)} are in the pool of {escape(row.task)}, {near} are near one of it"
        if row.repeated and row.task == row.eval_task:
            text += f", and {numbers.add(f'repeated.{row.task}', 'contamination', row, ['repeated'], 'count')} questions that the pool had twice were left out"
        sentences.append(text)
    return f"{'; '.join(sentences)}." if sentences else ""


def limits_compared(numbers, cut_from: dict[str, str]) -> str:
    """Tasks that differ only in the completion limit: the gains under each limit, and how much of them is finishing."""
    parts, sentences = numbers.tables["parts"], []
    for tight, ample in cut_from.items():
        for trained in (tight, ample):
            for model, group in parts[parts.task == trained].groupby("model", sort=False):
                for test in (tight, ample):
                    rows = group[group.eval_task == test]
                    if not len(rows):
                        continue
                    answered = rf"\result{{base.answered.{cell(rows.iloc[0])}}}"
                    sentences.append(
                        f"Trained on {escape(trained)} and tested on {escape(test)} ({escape(model)}, {answered}\\,\\% answered before), finishing is"
                        f" {span(numbers, 'parts', rows, 'finishing', named('finishing'))} and correctness"
                        f" {span(numbers, 'parts', rows, 'correctness', named('correctness'))} points."
                    )
    return " ".join(sentences)


def unsolved(numbers) -> str:
    """How many of the hardest prompts the base model never solved, by the samples that chose them and by others."""
    table, sentences = numbers.tables["subsets"], []
    for row in table[table.policy == LEADING].itertuples():
        key = f"{row.model}.{row.task}.{row.policy}"
        text = rf"{escape(row.task)} ({escape(row.model)}) \result{{zero.{key}}}\,\%"
        if not pd.isna(row.held_out_zero_share):
            text += f", and {numbers.add(f'zero.held.out.{key}', 'subsets', row, ['held_out_zero_share'], 'points')}\\,\\% in as many other samples"
        sentences.append(text)
    return "; ".join(sentences)


def followed(numbers) -> str:
    """Recorded training runs: the policies with the largest and the smallest learnable share over all later epochs, and `hard` and `all`."""
    table, paragraphs = numbers.tables["trajectories"], []
    for (model, prompts), group in table[table.stretch.isna()].groupby(["model", "task"], sort=False):
        shares = group.set_index("policy").mixed
        shown = dict.fromkeys([shares.idxmax(), *shares.index.intersection(["all", "hard"]), shares.idxmin()])
        said = [rf"{escape(policy)} \result{{mixed.{model}.{prompts}.{policy}}}\,\%" for policy in shown]
        text = rf"\textbf{{{escape(model)}}}. Share of groups that are learnable in the later epochs, of the prompts that a policy chooses:"
        text += f" {listed(said)}"
        text += r"\seefigure{trajectories}\seetable{trajectories}."
        if "all" in shares:
            text += rf" Of all prompts \result{{never.solved.{model}.{prompts}.all}}\,\% are never solved in the first epochs."
        moved = [
            rf"{escape(policy)} \result{{mixed.first.{model}.{prompts}.{policy}}} and \result{{mixed.last.{model}.{prompts}.{policy}}}\,\%"
            for policy in ("hard", "easy")
            if policy in shares
        ]
        if moved:
            text += f" In the first and in the last stretch of these epochs it is {listed(moved)}."
        paragraphs.append(text)
    return "\n\n".join(paragraphs)


def _whole(kinds: pd.DataFrame) -> pd.DataFrame:
    """Rows over all tiers, on each task's own test."""
    return at_home(kinds)[at_home(kinds).tier.isna()]
