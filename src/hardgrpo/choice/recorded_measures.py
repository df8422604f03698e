"""Measures from results that people already have: pass rates, or files of completions."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from hardgrpo.choice import measures, recordings
from hardgrpo.choice.choice_plan import Plan
from hardgrpo.choice.measures import Measure, OwnGrader
from hardgrpo.choice.prompts import Prompt, value_of
from hardgrpo.choice.recordings import Recorded
from hardgrpo.data.question_ids import normalize_spaces
from hardgrpo.grading import proposals
from hardgrpo.runtime.errors import RowError, UserError, first_entries, printable, refuse_rows
from hardgrpo.runtime.interruption import say
from hardgrpo.sampling.requests import Completion
from hardgrpo.sampling.server_engine import is_same_model

MOST_SAMPLES = 1000  # numbers of samples that are tried to explain a column of pass rates
ROUNDING = 0.0051  # rates are rounded to two decimals or finer


def read_pass_rates(plan: Plan) -> dict[str, Measure]:
    """The measures from a column of pass rates. The number of samples is the smallest with which
    all rates are possible. Raise a `UserError` that names the rows whose value is no rate."""
    name, content = plan.options.pass_rate, plan.pool.content
    label = f"column '{name}'" if isinstance(name, str) else "the pass rate"
    if not isinstance(name, str):
        _check_length(name, len(content.rows), "pass rates")
    rates, row_errors = {}, []
    for prompt in plan.pool.prompts:
        row = content.rows[prompt.index]
        value = value_of(row, name) if isinstance(name, str) else name[prompt.index]
        if value in (None, "") or value != value:  # empty, or nan
            continue
        try:
            rate = float(value) / (100 if plan.options.percent else 1)
        except (TypeError, ValueError):
            rate = float("nan")
        if 0 <= rate <= 1:
            rates[prompt.id] = rate
            continue
        remedy = "correct it, or name another column with --pass-rate"
        if 1 < rate <= 100:
            remedy = "if these are percentages, add --percent"
        problem = f"{label} is {value!r}, expected a share from 0 to 1"
        row_errors.append(RowError(content.path, prompt.place, problem, remedy))
    refuse_rows(row_errors)
    if not rates:
        raise UserError(
            f"{content.path}: no {label} with values; name the column of pass rates with --pass-rate"
        )
    values = np.array(list(rates.values()))
    if plan.options.percent and values.max() <= 0.01 and len(values) > 1:
        raise UserError(f"{content.path}: {label} is at most 1, a share; leave --percent out")
    samples = next((n for n in range(1, MOST_SAMPLES) if explains(values, n)), MOST_SAMPLES)
    results = {prompt.id: Measure() for prompt in plan.pool.prompts}
    for prompt_id, rate in rates.items():
        correct = round(rate * samples)
        results[prompt_id] = Measure(samples, correct, correct, samples)
    return results


def explains(rates: np.ndarray, samples: int) -> bool:
    """Whether pass rates (N,) can be shares of a number of samples, rounded to two decimals."""
    counts = np.round(rates * samples)
    are_inner = ((rates > 0) == (counts > 0)) & ((rates < 1) == (counts < samples))
    return bool(are_inner.all() and np.abs(rates - counts / samples).max() < ROUNDING)


def read_completions(
    plan: Plan, grader: str | OwnGrader
) -> tuple[dict[str, Measure], dict[str, list[Completion]], str | OwnGrader]:
    """(measures, completions, grader) from files of completions, or from a column of the prompts'
    file. Verdicts of the file count, unless a person named a grader. A proposed grader is replaced
    if the completions state their answers after `####`."""
    completions, verdicts = match_completions(plan)
    texts = [c.text for group in completions.values() for c in group]
    marks, boxes = (sum(mark in text for text in texts) for mark in ("####", "\\boxed"))
    if isinstance(grader, str) and not plan.options.grader and marks > boxes:
        answers = [prompt.answer for prompt in plan.pool.prompts if prompt.answer]
        grader = proposals.propose(answers, "marks") or grader
    results = measures.measure(plan.pool.prompts, completions, grader, plan.pool.content.rows)
    for prompt_id, values in verdicts.items():
        result = results[prompt_id]
        if len(values) == result.samples and not plan.options.grader:
            result.correct = result.lenient = sum(values)
            result.answered = max(result.answered, result.correct)
    if not any(result.answered for result in results.values()):
        name = getattr(grader, "name", grader)
        raise UserError(
            f"{plan.pool.content.path}: none of the {len(texts)} completions states an answer that grader {name} reads; one ends with '{printable(''.join(texts[:1]))[-100:]}'; name another --grader"
        )
    return results, completions, grader


def match_completions(plan: Plan) -> tuple[dict[str, list[Completion]], dict[str, list[bool]]]:
    """(completions by prompt id, verdicts by prompt id) of `--completions`, matched to the prompts by
    id and question, or by row. Raise a `UserError` if most belong to other prompts, or if they are
    of another model."""
    content, sources, model = plan.pool.content, plan.options.completions, plan.options.model
    completions: dict[str, list[Completion]] = defaultdict(list)
    verdicts: dict[str, list[bool]] = defaultdict(list)
    unknown, changed = [], []
    if len(sources) and not isinstance(sources[0], str):  # the texts of each row
        _check_length(sources, len(content.rows), "lists of completions")
        for prompt in plan.pool.prompts:
            texts = sources[prompt.index]
            completions[prompt.id] = [Completion(text, 0, "stop") for text in texts]
        return completions, verdicts
    by_id = {prompt.id: prompt for prompt in plan.pool.prompts}
    by_row = dict(zip(content.places, map(by_id.get, plan.pool.ids)))
    find = _finder(plan)
    for source in sources:
        is_column = any(value_of(row, source) is not None for row in content.rows)
        if is_column:
            columns = plan.pool.columns
            own_columns = recordings.Columns(None, columns.question, columns.answer, source)
            recording = recordings.from_rows(
                content.rows, content.places, content.path, own_columns, by_row=True
            )
        else:
            recording = recordings.read(source)
        if (
            model
            and recording.models
            and not any(is_same_model(n, model) for n in recording.models)
        ):
            raise UserError(
                f"{recording.path}: completions of {', '.join(sorted(recording.models))}, but --model is {model}; name the right file"
            )
        say(f"completions {source}: {recording.form}, {len(recording.prompts)} prompts")
        plan.pool.notes.extend(f"{source}: {note}" for note in recording.notes)
        for recorded in recording.prompts:
            prompt, is_changed = (by_row.get(recorded.place), False) if is_column else find(recorded)  # fmt: skip
            if prompt is not None:
                texts = zip(recorded.completions, recorded.tokens, recorded.finish_reasons)
                completions[prompt.id] += [Completion(t, n or 0, end or "stop") for t, n, end in texts]  # fmt: skip
                verdicts[prompt.id] += recorded.correct or []
            elif not is_column:
                (changed if is_changed else unknown).append(recorded.place)
    unmatched = len(unknown) + len(changed)
    is_trial = plan.options.limit is not None
    if not completions or unmatched > len(completions) and not is_trial:
        raise UserError(
            f"{', '.join(sources)}: {unmatched} prompts are not in {content.path}; expected completions of the same prompts, with the same questions or ids"
        )
    if changed:
        plan.pool.notes.append(
            f"{len(changed)} prompts of the completions have another question than the prompt with their id, and are left out: {first_entries(changed)}"
        )
    if unknown and not is_trial:
        plan.pool.notes.append(
            f"{len(unknown)} prompts of the completions are not in the file: {first_entries(unknown)}"
        )
    return completions, verdicts


def _finder(plan: Plan):
    """A function that returns (the prompt of a recorded prompt or None, whether its question has
    changed). A question may be recorded alone or with the instructions that were sent."""
    rows, by_id, by_question = plan.pool.content.rows, {}, {}
    own_id_numbers = Counter(str(rows[prompt.index].get("id")) for prompt in plan.pool.prompts)
    for prompt in plan.pool.prompts:
        own_id = rows[prompt.index].get("id")
        by_id[prompt.id] = prompt
        if own_id not in (None, "") and own_id_numbers[str(own_id)] == 1:
            by_id[str(own_id)] = prompt
        messages = [m["content"] for m in prompt.messages if m["role"] == "user"]
        bare = value_of(rows[prompt.index], plan.pool.columns.question)
        for text in {messages[-1], prompt.question, bare if isinstance(bare, str) else ""} - {""}:
            key = normalize_spaces(text)
            by_question[key] = None if key in by_question else prompt  # None: ambiguous

    def find(recorded: Recorded) -> tuple[Prompt | None, bool]:
        prompt = by_id.get(recorded.id or "")
        if recorded.question is None:
            return prompt, False
        same = by_question.get(normalize_spaces(recorded.question))
        return same, same is None and prompt is not None

    return find


def _check_length(values: Sequence, number: int, kind: str) -> None:
    if len(values) != number:
        raise UserError(f"{len(values)} {kind} for {number} rows; expected one for each row")
