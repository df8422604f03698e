"""Choose prompts of a pool to annotate or to train on: ask, measure, choose."""

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hardgrpo.choice import measures, mixed, sampling
from hardgrpo.choice.choice_options import Options
from hardgrpo.choice.choice_plan import Plan, prepare
from hardgrpo.choice.measures import Measure, OwnGrader
from hardgrpo.choice.prompts import Prompt, value_of
from hardgrpo.choice.recorded_measures import read_completions, read_pass_rates
from hardgrpo.data.row_files import Rows, stem
from hardgrpo.grading import graders
from hardgrpo.grading.rewards import score
from hardgrpo.runtime.errors import UserError, printable
from hardgrpo.runtime.interruption import say
from hardgrpo.sampling.requests import Completion
from hardgrpo.selection import policies, trainer_rows

# With fewer completions per prompt, many pass rates are equal, and ties decide. From fewer, or from
# fewer prompts, no share of mixed groups is estimated.
FEWEST_SAMPLES, FEWEST_PROMPTS = 4, 10
UNLABELLED_GRADER = "number_lenient"  # finds and compares answers without a reference
COMPARED = ("nearest_half", "middle", "hard_solvable", "hard", "easy")  # and a random choice


@dataclass
class Choice(Plan):
    """What was chosen, and why. `chosen` and `measures` have prompt ids; `reasons` has a text for
    each prompt of the pool. `expected` maps each rule to the expected share of mixed groups."""

    chosen: list[str]
    measures: dict[str, Measure]
    reasons: dict[str, str]
    samples: int | None
    expected: dict[str, float] = field(default_factory=dict)
    facts: dict = field(default_factory=dict)
    completions: dict[str, list[Completion]] = field(default_factory=dict)
    in_reasoning: bool = False  # whether the model's chat template opens the reasoning

    @property
    def own_share(self) -> float | None:
        """The expected share of mixed groups among the chosen prompts; None if unknown."""
        is_known = self.is_by_pass_rate or self.policy["rule"] == "random"
        return self.expected.get(self.policy["rule"]) if is_known else None

    @property
    def prompts(self) -> list[Prompt]:
        """The chosen prompts, in the order of the choice."""
        by_id = {prompt.id: prompt for prompt in self.pool.prompts}
        return [by_id[prompt_id] for prompt_id in self.chosen]

    @property
    def rows(self) -> list[dict]:
        """The chosen rows, with the pass rate and the reason as further columns."""
        rows = self.pool.content.rows
        return [rows[p.index] | cells for p, cells in zip(self.prompts, self.further_cells())]

    def reward(self, completions: list, solution: list, **columns) -> list[float]:
        """A reward function for TRL that grades as the pass rates were graded: 1.0 for a right
        answer, else 0.0."""
        if isinstance(self.grader, OwnGrader):
            return self.grader.function(completions=completions, solution=solution, **columns)
        texts = (text if isinstance(text, str) else text[-1]["content"] for text in completions)
        return [
            score(self.grader, text, answer, self.in_reasoning)
            for text, answer in zip(texts, solution)
        ]

    def trainer_rows(self, trainer: str) -> list[dict]:
        """The chosen prompts as the rows of a trainer (`trainer_rows.FILES`)."""
        content, rows = self.pool.content, []
        for index, (prompt, cells) in enumerate(zip(self.prompts, self.further_cells())):
            problem = {"id": prompt.id, "question": prompt.question, "answer": prompt.answer}
            measured = {name: cells[name] for name in cells if name not in ("id", "answer")}
            facts = (problem, list(prompt.messages), measured, content.rows[prompt.index])
            rows.append(trainer_rows.trainer_row(trainer, stem(content.path), index, *facts))
        return rows

    def further_cells(self) -> list[dict]:
        """The further cells of each chosen row: the id, an empty answer to fill in, the pass rate and
        the reason. Columns of the file are kept."""
        names = {name for row in self.pool.content.rows for name in row}
        prefix = lambda name: name if name not in names else f"hardgrpo_{name}"
        rates = [self.measures.get(key, Measure()).pass_rate for key in self.chosen]
        rows = []
        for key, rate in zip(self.chosen, rates):
            row: dict = {} if "id" in names else {"id": key}
            if not self.is_labelled and self.pool.columns.answer is None:
                row["answer"] = ""
            if any(rate is not None for rate in rates):
                row[prefix("pass_rate")] = rate
            rows.append(row | {prefix("chosen_because"): self.reasons[key]})
        return rows


def choose(
    rows: Iterable[dict],
    policy: str | None = None,
    budget: float | int | None = None,
    server: dict | None = None,
    pass_rates: Sequence[float] | str | None = None,
    completions: Sequence[Sequence[str]] | Sequence[str] | str | None = None,
    **options,
) -> Choice:
    """Choose rows to annotate or to train on: the command as a function (`hardgrpo.choose`).

    `rows` are dictionaries, or a `datasets.Dataset`. `policy` and `budget` are as in `hardgrpo
    choose --help`; `server` has the keys url and model, and optionally key, price, most_money and
    concurrency. Instead of a server, `pass_rates` (one for each row, or the name of a column) or
    `completions` (a list of texts for each row, the name of a column, or files). `options` are
    further fields of `Options`, such as samples=8; `grader` may be a reward function as for TRL.

    Raises `hardgrpo.runtime.errors.UserError` for wrong input.
    """
    rows = [dict(row) for row in rows]
    if not rows:
        raise UserError("rows: no rows; expected at least one")
    places = [f"row {number}" for number in range(1, len(rows) + 1)]
    content = Rows("rows", "list of rows", "", rows, places, write=lambda *_: None)
    if isinstance(completions, str):
        completions = [completions]
    options |= {"policy": policy, "budget": budget, **(server or {})}
    plan = prepare(content, Options(pass_rate=pass_rates, completions=completions, **options))
    plan.check()
    return run(plan)


def run(plan: Plan) -> Choice:
    """Get the completions or pass rates that the plan needs, measure and choose."""
    options, facts = plan.options, {}
    results: dict[str, Measure] = {}
    completions: dict[str, list[Completion]] = {}
    grader = plan.grader or UNLABELLED_GRADER
    if options.pass_rate is not None:
        results = read_pass_rates(plan)
    elif options.completions is not None:
        results, completions, grader = read_completions(plan, grader)
    elif options.url and plan.needs_measure:
        completions, facts = sampling.sample(plan, lambda test: check_test(plan, test, grader))
        rows = plan.pool.content.rows
        results = measures.measure(plan.pool.prompts, completions, grader, rows)
    samples = min((r.samples for r in results.values() if r.samples), default=None)
    chosen, reasons = select(plan, results)
    choice = Choice(
        **vars(plan) | {"grader": grader},
        chosen=chosen,
        measures=results,
        reasons=reasons,
        samples=samples,
        facts=facts,
        completions=completions,
        in_reasoning=measures.is_in_reasoning(completions),
    )
    useless = sum(results[key].pass_rate in (0, 1) for key in chosen if key in results)
    if useless and plan.is_by_pass_rate and plan.policy["rule"] in ("nearest_half", "middle"):
        plan.pool.notes.append(
            f"{useless} of the chosen prompts are never or always solved: the budget exceeds the prompts with mixed results; lower it, or take --policy band"
        )
    if results and plan.is_labelled:
        choice.expected = compare_rules(choice, results, len(chosen))
    if isinstance(grader, OwnGrader) and grader.timeouts:
        plan.pool.notes.append(
            f"{grader.name}: {grader.timeouts} calls exceeded {measures.GRADER_SECONDS:.0f} s; their completions count as wrong"
        )
    return choice


def check_test(plan: Plan, test: dict[str, list[Completion]], grader: str | OwnGrader) -> None:
    """Raise a `UserError` if no completion of the test request is finished, or none has an answer
    that the grader reads. Otherwise report the shares."""
    prompts = [prompt for prompt in plan.pool.prompts if prompt.id in test]
    results = measures.measure(prompts, test, grader, plan.pool.content.rows)
    total = sum(result.samples for result in results.values())
    unfinished = sum(result.unfinished for result in results.values())
    answered = sum(result.answered for result in results.values())
    say(
        f"test      {len(prompts)} prompts: {total} completions, {unfinished} unfinished, {answered} with an answer that the grader reads"
    )
    example = next((c.text for group in test.values() for c in group if c.text), "")
    if unfinished == total:
        raise UserError(
            f"all {total} completions of the test request are cut off or end in their reasoning before they state an answer (--completion-tokens is {plan.options.completion_tokens}); raise --completion-tokens, or the context of the server. The other prompts were not sent"
        )
    if not answered:
        form = graders.GRADERS[grader].form % "ANSWER" if isinstance(grader, str) else "text"
        raise UserError(
            f"no completion of the test request states an answer in the form that grader {getattr(grader, 'name', grader)} reads ({form}); {unfinished} of {total} are unfinished. One ends with '{printable(example)[-120:]}'. Ask for the form with --prompt, or name another --grader"
        )


def select(plan: Plan, results: dict[str, Measure]) -> tuple[list[str], dict[str, str]]:
    """(ids of the chosen prompts, {id: why it was chosen or not})."""
    options, name = plan.options, plan.measure_name
    words = name.replace("_", " ")
    ids = [prompt.id for prompt in plan.pool.prompts]
    values: dict[str, float | None] = dict.fromkeys(ids, 0.0)
    if plan.needs_measure:
        values = {key: results[key].value(name) if key in results else None for key in ids}
        unmeasured = [key for key in ids if values[key] is None]
        if len(unmeasured) == len(ids):
            if name == "mean_tokens":
                raise UserError(
                    "the completions state no numbers of tokens; choose by another measure"
                )
            raise UserError(
                f"no completion has an answer that the grader reads, so {words} is unknown for every prompt; ask for the form of the answer with --prompt"
            )
        if unmeasured:
            plan.pool.notes.append(
                f"{len(unmeasured)} of {len(ids)} prompts have no {words}, and are not chosen"
            )
    tiers = {}
    for prompt in plan.pool.prompts if options.tier else ():
        cell = str(value_of(plan.pool.content.rows[prompt.index], options.tier))
        tiers[prompt.id] = float(cell) if re.fullmatch(r"\d+(\.\d+)?", cell, re.ASCII) else None
    entry = {key: value for key, value in plan.policy.items() if key != "by"}
    subset = policies.select(values, seed=options.seed, tiers=tiers, **entry)
    chosen = set(subset.ids)
    reasons = {}
    for key in ids:
        if values[key] is None:
            reasons[key] = "not measured"
            continue
        measured = f": {words} {values[key]:.3g}" if plan.needs_measure else ""
        reason = f"{plan.policy_name}{measured}"
        reasons[key] = reason if key in chosen else f"not chosen by {reason}"
    if 2 * subset.tied_chosen > len(subset.ids) and plan.needs_measure:
        plan.pool.notes.append(
            f"{subset.tied_chosen} of the chosen prompts were drawn among {subset.tied} with equal {words}; more samples tell them apart"
        )
    return subset.ids, reasons


def compare_rules(choice: Choice, results: dict[str, Measure], number: int) -> dict[str, float]:
    """{rule: expected share of mixed groups if it chooses `number` prompts}. Half of the completions
    of each prompt chooses, the other half measures (`mixed.expected_mixed`)."""
    measured = [key for key, result in results.items() if result.samples >= FEWEST_SAMPLES]
    if len(measured) < FEWEST_PROMPTS or any(results[key].correct is None for key in measured):
        return {}
    correct = np.array([results[key].correct for key in measured])
    samples = np.array([results[key].samples for key in measured])
    group, own = choice.options.group, choice.policy["rule"]
    entries = {rule: {"rule": rule, "budget": {"prompts": number}} for rule in COMPARED}
    if choice.is_by_pass_rate:
        entries[own] = {key: value for key, value in choice.policy.items() if key != "by"}
    positions = {key: position for position, key in enumerate(measured)}
    expected = {"random": mixed.mixed_share(correct, samples, group)}
    for rule, entry in entries.items():

        def choose(rates: np.ndarray, split: int, entry=entry) -> np.ndarray:
            subset = policies.select(dict(zip(measured, rates.tolist())), seed=split, **entry)
            return np.array([positions[key] for key in subset.ids])

        with contextlib.suppress(UserError):  # too few prompts qualify
            expected[rule] = mixed.expected_mixed(correct, samples, group, choose)
    return expected
