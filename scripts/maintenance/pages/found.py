"""The findings, from the committed summaries of the reference studies: three lines for README.md, and a longer one for each question for
docs/results.md, which names the population that it holds for."""

from hardgrpo.analysis import leads
from hardgrpo.analysis.formats import change_interval as spread
from hardgrpo.study import paths
from pages import recommended, recorded, results
from pages.results import LABELS, ONLINE, REFERENCE, TRUNCATION, at_home, lead, place, population, tight_and_ample

from pathlib import Path

import pandas as pd

ASKED = {LABELS: "Which prompts to annotate when none is annotated", ONLINE: "Choosing prompts while training"}
PAPERS = ("HE", "LDS")  # the two that disagree
KINDS = ("finishing", "sharpening", "new_solving")
OTHERS = {  # claims of the study of choosing while training, as leads, by what is trained on
    "on all prompts": {
        "beta_over_plain": "a Beta posterior over plain GRPO",
        "targeted_over_plain": "predicted pass rates over plain GRPO",
        "replay_over_plain": "predicted pass rates with replay over plain GRPO",
        "easy_first_over_plain": "easy to hard over plain GRPO",
    },
    "on a random tenth": {"prime_over_plain": "process rewards over plain GRPO"},
    "under process rewards": {
        "hard_under_prime": "the hardest tenth over a random one",
        "half_under_prime": "the tenth nearest to half right over the hardest",
    },
}


def in_three_lines(root: Path, config: dict) -> str:
    """The answer of README.md: a line for each question, and whom the numbers are about."""
    limited = results.read(root, TRUNCATION)
    tight, ample = tight_and_ample(config, limited["gains"], "gain")
    finishing, _ = tight_and_ample(config, limited["parts"], "finishing")
    leads_over_random = recommended.leads(root, config)
    better, undecided, worse = recommended.totals(leads_over_random)
    dynamic = primary(results.judged(root, config, ONLINE)["claims"], "DAPO")
    lines = [
        f"**The hardest tenth or a random tenth?** The hardest less a random one: {primary(results.of_papers(root, config), 'HE')}. Of"
        f" {len(leads_over_random)} comparisons of a policy with a random choice of as many prompts, {better} were better, {undecided} undecided,"
        f" {worse} worse ([every case](docs/which-prompts.md)).",
        f"**What is a gain made of?** With a tight completion limit *hard* gains {tight}, of which finishing is {finishing}; tested with room"
        f" to finish, the same models gain {ample} ([limits](docs/{results.anchor(TRUNCATION)})).",
        f"**Choosing prompts while training?** Dynamic sampling, which DAPO claims to be better, less plain GRPO with as many rollouts: {dynamic}"
        f" ([other selectors](docs/{results.anchor(ONLINE)})).",
    ]
    seeds = [lead.seeds for lead in leads_over_random]
    replicates = f"{min(seeds)} to {max(seeds)}"
    return "\n".join(
        [
            numbered(lines),
            "",
            f"Points of accuracy on new problems, with 95 % intervals, for small models that are pretrained here ({replicates} replicates)."
            " They show what can happen and say nothing about large models.",
        ]
    )


def numbered(lines: list[str]) -> str:
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))


def primary(found: pd.DataFrame, paper: str) -> str:
    """The estimates and verdicts on a paper's primary claim: 'swaps +3.3 [-2.6, +9.2] (undecided), ...'."""
    rows = found[(found.paper == paper) & (found.primary == 1)]
    return ", ".join(f"{place(found, row)} {spread(row.estimate, row.low, row.high)} ({row.verdict})" for row in rows.itertuples())


def confidently_wrong(root: Path) -> str:
    """The lead of the hardest prompts over a random choice, on the base model that is confidently wrong on most prompts."""
    tables = results.read(root, LABELS, "chosen")
    chosen = tables["chosen"][tables["chosen"].policy == "random"]
    most = chosen.loc[chosen.confidently_wrong.idxmax()]
    differences = at_home(tables["differences"]).query("model == @most.model and task == @most.task")
    return f"{most.task} of `{most.model}` {lead(differences, 'hard', 'random')}"


def in_short(root: Path, config: dict) -> list[str]:
    """A line for each question, with the heading of docs/results.md that has the tables."""
    tables, limited = results.read(root, REFERENCE), results.read(root, TRUNCATION)
    where, elsewhere = population(config, tables["gains"]), population(config, limited["gains"])
    tight, ample = tight_and_ample(config, limited["gains"], "gain")
    finishing, _ = tight_and_ample(config, limited["parts"], "finishing")
    over = ", ".join(f"over *{minus}* {' and '.join(lead_in_limits(config, limited, minus))}" for minus in ("random", "easy"))
    lines = [
        f"**The papers' primary claims**, and what became of them: {verdicts_on(results.of_papers(root, config))}. {results.link(REFERENCE)}",
        f"**Largest gain of {at_home(tables['gains']).policy.nunique()} policies** (not corrected for picking the largest), in points, sampled and greedy:"
        f" {by_task(tables['gains'], largest)} ({where}). {results.link(REFERENCE)}",
        f"**What it is made of**: {by_task(tables['kinds'], made_of)} ({where}). {results.link(REFERENCE)}",
        f"**What goes with hard's lead over random**: of {len(leads.PREDICTORS)} measures of the base model the one with the largest R² (the"
        f" interval of its slope is not corrected for that choice): {by_task(tables['lead_regressions'], decides)} ({where}). {results.link(REFERENCE)}",
        f"**A completion limit alone can make a gain**: policy *hard*, trained and tested under a tight limit, gains {tight} points, of which"
        f" finishing is {finishing}; tested with room it gains {ample}. Its lead, within the limit and with room: {over} ({elsewhere})."
        f" {results.link(TRUNCATION)}",
        *recorded.in_short(root),
    ]
    told: set[str] = set()  # a claim that both studies judge stands with the first alone
    for study, question in ASKED.items():
        if (root / paths.reference(study) / "gains.csv").is_file():
            found = results.judged(root, config, study)["claims"]
            found = found[~found.paper.isin(PAPERS) & ~found.id.isin(told)]
            told |= set(found.id)
            more = beside(root) if study == LABELS else others(found)
            lines.append(f"**{question}**: {verdicts_on(found)}.{more} {results.link(study)}")
    return lines


def others(found: pd.DataFrame) -> str:
    """Of the study of choosing while training: the other differences that it asks for, without a verdict, and the rollouts saved."""

    def said(claim: str) -> str:
        rows = found[(found.id == claim) & found.estimate.notna()]
        return ", ".join(f"{row.task} {spread(row.estimate, row.low, row.high)}" for row in rows.itertuples())

    leads = "; ".join(
        f"{where}, " + "; ".join(f"{what}: {said(claim)}" for claim, what in claims.items()) for where, claims in OTHERS.items()
    )
    return (
        f" Other leads, without a verdict: {leads}. How many rollouts replay saves, in per cent, to be as accurate as plain GRPO is at"
        f" its end, where both get there (interval over new seeds): {said('replay_saves_time') or 'nowhere'}."
    )


def beside(root: Path) -> str:
    """Of the study of labels: the leads over a random choice of what needs the labels of the whole pool."""
    tables, said = results.read(root, LABELS, "chosen"), []
    differences, chosen = at_home(tables["differences"]), tables["chosen"]
    for policy in ("hard", "nearest_half"):
        places = differences.groupby(["model", "task"], sort=False)
        said.append(
            f"*{policy}* " + ", ".join(f"{task} of {model} {lead(rows, policy, 'random')}" for (model, task), rows in places)
        )
    wrong = ", ".join(
        f"{100 * row.confidently_wrong:.0f} % on {row.task} of {row.model}"
        for row in chosen[chosen.policy == "random"].itertuples()
    )
    return (
        f" Chosen with the labels of the whole pool, less a random choice, before Holm's correction ([after it](which-prompts.md)): {'; '.join(said)}. Of randomly chosen"
        f" prompts the base is confidently wrong (at least half of its samples agree, at most a fifth is right) on {wrong}."
    )


def by_task(frame: pd.DataFrame, said) -> str:
    frame = frame[frame.task == frame.eval_task]
    return "; ".join(f"{task}, {said(group)}" for task, group in frame.groupby("task", sort=False)) or "not measured"


def largest(gains: pd.DataFrame) -> str:
    """'*middle* +11.1 [+8.5, +13.7], greedy +0.2 [-1.6, +2.0]'."""
    sampled = gains[gains.decoding == "sampled"]
    best = sampled.loc[sampled.gain.idxmax()]
    (greedy,) = gains[(gains.decoding == "greedy") & (gains.policy == best.policy)].itertuples()
    figures = [spread(row.gain, row.gain_low, row.gain_high) for row in (best, greedy)]
    fallen = gains[gains.decoding == "greedy"].gain
    beside = (
        f" (greedy accuracy fell under every policy, by {-100 * fallen.max():.1f} to {-100 * fallen.min():.1f})"
        if (fallen < 0).all()
        else ""
    )
    return f"*{best.policy}* {figures[0]}, greedy {figures[1]}{beside}"


def made_of(kinds: pd.DataFrame) -> str:
    """The parts of the largest gain, and how much is out of reach."""
    whole = kinds[kinds.tier.isna()]
    best = whole.loc[whole.gain.idxmax()]
    parts = [f"{name.replace('_', ' ')} {spread(best[name], best[f'{name}_low'], best[f'{name}_high'])}" for name in KINDS]
    return (
        f"*{best.policy}*: {', '.join(parts)}, where {100 * best.out_of_reach:.0f} % of the problems are out of reach of"
        f" {best.reach_samples:.0f} samples"
    )


def decides(regressions: pd.DataFrame) -> str:
    """The closest of the lines for the lead of hard over random."""
    lines = regressions[(regressions.policy == "hard") & (regressions.minus == "random")]
    best = lines.loc[lines.r_squared.idxmax()]
    return (
        f"*{leads.PREDICTORS[best.predictor]}*, {best.slope:+.2f} [{best.slope_low:+.2f}, {best.slope_high:+.2f}] points per point, R²"
        f" {best.r_squared:.2f}"
    )


def lead_in_limits(config: dict, tables: dict[str, pd.DataFrame], minus: str) -> list[str]:
    """The lead of `hard` over another policy, both trained under the tight limit: tested under that limit, and with room."""
    frame = tables["differences"]
    return tight_and_ample(config, frame[frame.minus == minus], "difference")


def verdicts_on(found: pd.DataFrame) -> str:
    """Each primary claim, with its verdict on each task and whom that holds for."""
    said = []
    for (paper, claim, holds_for), rows in found[found.primary == 1].groupby(["paper", "claim", "population"], sort=False):
        verdict = ", ".join(
            f"{row.verdict} on {place(found, row)} ({spread(row.estimate, row.low, row.high)})" for row in rows.itertuples()
        )
        kinds = ", ".join(dict.fromkeys(f"`{name}`" for name in rows.model))
        said.append(
            f"{'' if paper == 'here' else f'{paper}, '}“{claim}”: {verdict}; for {holds_for} ({kinds}), {rows.seeds.max():.0f} replicates"
        )
    return "; ".join(said) or "the study decides none"
