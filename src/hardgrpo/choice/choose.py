"""Choose prompts of a pool to annotate or to train on: read, ask, measure, choose."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from hardgrpo.choice import measures, mixed, recordings, sampling
from hardgrpo.choice.measures import Measure, OwnGrader
from hardgrpo.choice.prompts import Pool, Prompt, add_instructions, read_pool, value_of
from hardgrpo.choice.rows import Rows
from hardgrpo.data.question_ids import normalize_spaces
from hardgrpo.grading import graders, proposals
from hardgrpo.runtime.errors import RowError, UserError, first_entries, printable, refuse_rows
from hardgrpo.runtime.interruption import say
from hardgrpo.sampling.requests import Completion
from hardgrpo.sampling.server_engine import read_address
from hardgrpo.selection import policies, trainer_rows
from hardgrpo.study.policy import Policy

# short names of policies, as in config/policies.yaml
ALIASES = {
    "agreement_lowest": {"rule": "lowest", "by": "agreement"},
    "agreement_half": {"rule": "nearest_half", "by": "agreement"},
    "entropy_highest": {"rule": "highest", "by": "entropy"},
}
FEWEST_SAMPLES = 4  # with fewer samples per prompt, many pass rates are equal, and ties decide
FEWEST_PROMPTS = 10  # with fewer measured prompts, no share of mixed groups is estimated
MOST_RATE_SAMPLES = 256  # numbers of samples that are tried to explain a column of pass rates
UNLABELLED_GRADER = "number_lenient"  # finds and compares answers without a reference
COMPARED = ("random", "nearest_half", "middle", "hard_solvable", "hard", "easy")


@dataclass
class Options:
    """The options of `hardgrpo choose`; see its help."""

    budget: float | int | None = None
    policy: str | None = None
    by: str | None = None
    low: float | None = None
    high: float | None = None
    order: str | None = None
    threshold: float | None = None
    highest_tier: float | None = None
    tier: str | None = None
    seed: int = 0
    question: str | None = None
    answer: str | None = None
    limit: int | None = None
    prompt: str | None = None
    system: str | None = None
    grader: str | None = None
    right_above: float = 0.5
    url: str | None = None
    model: str | None = None
    key: str | None = None
    price: tuple[float, float] | None = None
    most_money: float | None = None
    concurrency: int | None = None
    samples: int = 8
    completion_tokens: int = 2048
    temperature: float = 1.0
    top_p: float = 1.0
    pass_rate: str | list[float] | None = None  # a column, or a value for each row
    percent: bool = False
    completions: list | None = None  # files or a column, or the texts of each row
    group: int = 8

    def check(self) -> None:
        """Raise a `UserError` for values and combinations that cannot work."""
        sources = {
            "--url": self.url,
            "--pass-rate": self.pass_rate,
            "--completions": self.completions,
        }
        given = [name for name, value in sources.items() if value]
        if len(given) > 1:
            raise UserError(f"{' and '.join(given)} exclude each other; leave one out")
        if self.url and not self.model:
            raise UserError("--url: name the server's model with --model")
        if self.most_money is not None and not self.price:
            raise UserError("--most-money: the price of a token is unknown; add --price")
        for name, least in (("samples", 1), ("completion_tokens", 1), ("group", 2), ("limit", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UserError(f"--{name.replace('_', '-')} is {value}, expected {least} or more")
        if not 0 < self.temperature <= 5 or not 0 < self.top_p <= 1:
            raise UserError("expected --temperature in (0, 5] and --top-p in (0, 1]")

    def policy_entry(self, is_labelled: bool) -> dict:
        """The policy as an entry of a configuration. Raise a `UserError` if it is incomplete."""
        name = self.policy or ("nearest_half" if is_labelled else "random")
        entry = dict(ALIASES.get(name, {"rule": name}))
        keys = ("by", "low", "high", "order", "threshold", "highest_tier")
        entry |= {key: getattr(self, key) for key in keys if getattr(self, key) is not None}
        if self.budget is not None:
            whole = float(self.budget).is_integer() and self.budget >= 1
            entry["budget"] = {"prompts": int(self.budget)} if whole else self.budget
        if name not in policies.RULES and name not in ALIASES or entry.get("by") == "predicted":
            raise UserError(
                f"--policy {name}: expected one of {', '.join([*policies.RULES, *ALIASES])}"
            )
        try:
            Policy(**entry)
        except ValidationError as error:
            detail = error.errors()[0]
            place = ".".join(map(str, detail["loc"][:1]))
            problems = detail.get("ctx", {}).get("problems") or [(place, detail["msg"])]
            key, problem = problems[0]
            problem = re.sub("; (add it, e.g.|remove it).*", "", problem)
            missing = re.search("needs '(\\w+)'", problem)
            option = (key or missing[1]).replace("_", "-")
            raise UserError(f"--policy {name}: {problem}; see the option --{option}") from None
        return entry


@dataclass
class Choice:
    """What was chosen, and why. `chosen` and `measures` have prompt ids; `reasons` has a text for
    each prompt of the pool. `expected` maps each rule to the expected share of mixed groups."""

    options: Options
    pool: Pool
    policy: dict
    grader: str | None
    labelled: bool
    chosen: list[str]
    measures: dict[str, Measure]
    reasons: dict[str, str]
    samples: int | None
    expected: dict[str, float] = field(default_factory=dict)
    facts: dict = field(default_factory=dict)
    completions: dict[str, list[Completion]] = field(default_factory=dict)

    @property
    def policy_name(self) -> str:
        return self.options.policy or self.policy["rule"]

    @property
    def prompts(self) -> list[Prompt]:
        """The chosen prompts, in the order of the choice."""
        by_id = {prompt.id: prompt for prompt in self.pool.prompts}
        return [by_id[prompt_id] for prompt_id in self.chosen]

    @property
    def rows(self) -> list[dict]:
        """The chosen rows, with the pass rate and the reason as further columns."""
        rows, columns = self.pool.content.rows, self.columns()
        return [
            rows[prompt.index] | {name: values[i] for name, values in columns.items()}
            for i, prompt in enumerate(self.prompts)
        ]

    def reward(self, completions: list, solution: list, **columns) -> list[float]:
        """A reward function for TRL that grades as the pass rates were graded: 1.0 for a right
        answer, else 0.0."""
        texts = [text if isinstance(text, str) else text[-1]["content"] for text in completions]
        grades = [graders.grade(self.grader, text, str(a)) for text, a in zip(texts, solution)]
        return [float(grade.correct) for grade in grades]

    def trainer_rows(self, trainer: str) -> list[dict]:
        """The chosen prompts as the rows of a trainer (`trainer_rows.FILES`)."""
        rows = []
        for index, prompt in enumerate(self.prompts):
            problem = {"id": prompt.id, "question": prompt.question, "answer": prompt.answer}
            rate = self.measures[prompt.id].pass_rate if prompt.id in self.measures else None
            reasons = {"pass_rate": rate, "chosen_because": self.reasons[prompt.id]}
            source = Path(self.pool.content.path).name.partition(".")[0]
            row = trainer_rows.trainer_row(
                trainer,
                source,
                index,
                problem,
                list(prompt.messages),
                reasons,
                self.pool.content.rows[prompt.index],
            )
            rows.append(trainer_rows.without_surrogates(row))
        return rows

    def columns(self) -> dict[str, list]:
        """The columns that the chosen rows get: the id, an empty answer to fill in, the pass rate
        and the reason. Columns of the file are kept."""
        names = set(self.pool.content.rows[0])
        prefix = lambda name: name if name not in names else f"hardgrpo_{name}"
        columns: dict[str, list] = {}
        if "id" not in names:
            columns["id"] = list(self.chosen)
        if not self.labelled and self.pool.columns.answer is None:
            columns["answer"] = [""] * len(self.chosen)
        rates = [
            self.measures[key].pass_rate if key in self.measures else None for key in self.chosen
        ]
        if any(rate is not None for rate in rates):
            columns[prefix("pass_rate")] = rates
        columns[prefix("chosen_because")] = [self.reasons[key] for key in self.chosen]
        return columns


def prepare(content: Rows, options: Options, function: OwnGrader | None = None) -> "Plan":
    """Read the prompts and decide how they are graded and chosen, before anything is asked.
    `function` grades the completions, if given."""
    options.check()
    pool = read_pool(content, options.question, options.answer, options.limit)
    grader: str | OwnGrader | None = function or options.grader
    if isinstance(grader, str) and grader not in graders.GRADERS:
        grader = measures.load_grader(grader, options.right_above)
    own = isinstance(grader, OwnGrader)
    states_marks = any("####" in prompt.question for prompt in pool.prompts[:20])
    form = "marks" if states_marks else "boxed"
    answered = [prompt for prompt in pool.prompts if prompt.answer]
    is_labelled = bool(own or options.pass_rate) or 2 * len(answered) >= len(pool.prompts)
    if is_labelled and answered and not grader:
        grader = _propose(pool, answered, form)
    if is_labelled and answered and not own and not options.pass_rate:
        _leave_out_unreadable(pool, answered, grader)
    elif not is_labelled and answered:
        pool.notes.append(f"{len(answered)} prompts have an answer and are left out")
        pool.prompts = [prompt for prompt in pool.prompts if not prompt.answer]
    if isinstance(grader, str) and graders.GRADERS[grader].form.startswith("####"):
        form = "marks"
    if isinstance(grader, str) and grader.startswith("choice_letter"):
        form = "letter"
    add_instructions(pool, options.prompt, options.system, None if own else form)
    policy = options.policy_entry(is_labelled)
    if options.limit and isinstance(policy.get("budget"), dict):  # a trial of the first prompts
        policy["budget"]["prompts"] = min(policy["budget"]["prompts"], len(pool.prompts))
    return Plan(options, pool, grader, is_labelled, policy)


def _propose(pool: Pool, answered: list[Prompt], form: str) -> str:
    answers = [prompt.answer for prompt in answered]
    grader = proposals.propose(answers, form)
    if grader is None:
        unreadable = proposals.unreadable("math" if form == "boxed" else "final_word", answers)
        example = answered[unreadable[0] if unreadable else 0]
        raise UserError(
            f"{pool.content.path}: no grader reads the answers in column '{pool.columns.answer}' (for example {example.place}: '{printable(example.answer)[:60]}'); name another column with --answer, a grader with --grader, or a function with --grader FILE.py:FUNCTION"
        )
    return grader


def _leave_out_unreadable(pool: Pool, answered: list[Prompt], grader: str) -> None:
    unreadable = proposals.unreadable(grader, [prompt.answer for prompt in answered])
    missing = [prompt for prompt in pool.prompts if not prompt.answer]
    for prompts, problem in (
        (missing, "no answer"),
        ([answered[i] for i in unreadable], f"an answer that {grader} cannot read"),
    ):
        if prompts:
            example = f" ('{printable(prompts[0].answer)[:40]}')" if prompts[0].answer else ""
            pool.notes.append(
                f"{len(prompts)} rows with {problem} are left out: {first_entries([prompt.place for prompt in prompts])}{example}"
            )
    left_out = {prompt.id for prompt in missing} | {answered[i].id for i in unreadable}
    pool.prompts = [prompt for prompt in pool.prompts if prompt.id not in left_out]
    if len(unreadable) > max(1, len(answered) // 10):
        place, answer = answered[unreadable[0]].place, answered[unreadable[0]].answer
        raise UserError(
            f"{pool.content.path}: grader {grader} cannot read {len(unreadable)} of {len(answered)} answers, the first in {place}: '{printable(answer)[:60]}'; name another grader with --grader"
        )


@dataclass
class Plan:
    """What `run` will do: the pool, the grader (None if nothing is graded) and the policy."""

    options: Options
    pool: Pool
    grader: str | OwnGrader | None
    labelled: bool
    policy: dict

    @property
    def needs_measure(self) -> bool:
        return policies.RULES[self.policy["rule"]].needs_measure

    @property
    def measure_name(self) -> str:
        return self.policy.get("by", "pass_rate")

    @functools.cached_property
    def sampling(self) -> sampling.Sampling:
        options = self.options
        return sampling.Sampling(
            options.model or "",
            options.samples,
            options.completion_tokens,
            options.temperature,
            options.top_p,
        )

    @functools.cached_property
    def address(self):
        options = self.options
        settings = {"url": options.url, "key": options.key, "most_money": options.most_money}
        settings |= {"concurrency": options.concurrency}
        if options.price:
            settings["price"] = dict(zip(("input", "output"), options.price))
        return read_address({key: value for key, value in settings.items() if value is not None})

    def check(self) -> None:
        """Raise a `UserError` if the policy cannot choose from this pool, before anything is paid."""
        options, rule = self.options, self.policy["rule"]
        if not self.pool.prompts:
            raise UserError(f"{self.pool.content.path}: no prompts are left to choose from")
        if "budget" in self.policy:
            policies.subset_size(self.policy["budget"], len(self.pool.prompts))
        by_rate = self.needs_measure and self.measure_name == "pass_rate"
        if by_rate and not self.labelled:
            raise UserError(
                f"--policy {rule} needs answers, and {self.pool.content.path} has none (or name their column with --answer); without answers choose random, or try agreement_lowest"
            )
        if (
            self.needs_measure
            and not by_rate
            and (options.pass_rate or isinstance(self.grader, OwnGrader))
        ):
            raise UserError(
                f"--by {self.measure_name} needs the texts of completions and a grader of this project; leave --pass-rate or --grader out"
            )
        if self.needs_measure and not (options.url or options.completions or options.pass_rate):
            hint = next(
                (
                    name
                    for name in self.pool.columns.unused
                    if "generation" in name or name == "completions"
                ),
                None,
            )
            raise UserError(
                f"--policy {rule} needs completions: name a server with --url and --model, or files with --completions, or a column with --pass-rate"
                + (f"; the file has the column '{hint}': --completions {hint}" if hint else "")
            )
        if "tier" in rule and not options.tier:
            raise UserError(f"--policy {rule}: name the column of tiers with --tier")
        if options.url:
            _ = self.address


def run(plan: Plan) -> Choice:
    """Get the completions or pass rates that the plan needs, measure and choose."""
    options, facts = plan.options, {}
    results: dict[str, Measure] = {}
    completions: dict[str, list[Completion]] = {}
    grader = plan.grader or UNLABELLED_GRADER
    rows = plan.pool.content.rows
    if options.pass_rate:
        results = read_pass_rates(plan)
    elif options.completions:
        results, completions = read_completions(plan, grader)
    elif options.url and plan.needs_measure:
        check = lambda test: check_test(plan, test, grader)
        completions, facts = sampling.sample(plan.pool.prompts, plan.sampling, plan.address, check)
    if completions and not results:
        results = measures.measure(plan.pool.prompts, completions, grader, rows)
    sizes = [result.samples for result in results.values() if result.samples]
    samples = min(sizes) if sizes else None
    chosen, reasons = select(plan, results)
    choice = Choice(
        options,
        plan.pool,
        plan.policy,
        grader if isinstance(grader, str) else grader.name,
        plan.labelled,
        chosen,
        results,
        reasons,
        samples,
        facts=facts,
        completions=completions,
    )
    useless = sum(results[key].pass_rate in (0, 1) for key in chosen if key in results)
    if useless and plan.policy["rule"] in ("nearest_half", "middle"):
        plan.pool.notes.append(
            f"{useless} of the chosen prompts are never or always solved: the budget exceeds the prompts with mixed results; lower it, or take --policy band"
        )
    if results and plan.labelled:
        choice.expected = compare_rules(plan, results, len(chosen))
    if isinstance(grader, OwnGrader) and grader.timeouts:
        plan.pool.notes.append(
            f"{grader.name}: {grader.timeouts} calls exceeded {measures.GRADER_SECONDS:.0f} s; their completions count as wrong"
        )
    return choice


def check_test(plan: Plan, test: dict[str, list[Completion]], grader: str | OwnGrader) -> None:
    """Raise a `UserError` if no completion of the test request is finished, or none has an answer
    that the grader reads. Otherwise report the shares."""
    prompts = [prompt for prompt in plan.pool.prompts if prompt.id in test]
    results = measures.measure(prompts, test, grader, plan.pool.content.rows, with_codes=False)
    total = sum(result.samples for result in results.values())
    unfinished = sum(result.unfinished for result in results.values())
    answered = sum(result.answered for result in results.values())
    say(
        f"test      {len(prompts)} prompts: {total} completions, {unfinished} unfinished, {answered} with an answer that the grader reads"
    )
    example = next((c.text for group in test.values() for c in group if c.text), "")
    if unfinished == total:
        raise UserError(
            f"all {total} completions of the test request are cut off or end in their reasoning before they state an answer (--completion-tokens is {plan.options.completion_tokens}); raise --completion-tokens, and the context of the server if it cuts them off earlier. The other prompts were not sent"
        )
    if not answered:
        form = graders.GRADERS[grader].form % "ANSWER" if isinstance(grader, str) else "text"
        raise UserError(
            f"no completion of the test request states an answer in the form that grader {getattr(grader, 'name', grader)} reads ({form}); {unfinished} of {total} are unfinished. One ends with '{printable(example)[-120:]}'. Ask for the form with --prompt, name another --grader, or raise --completion-tokens"
        )


def read_pass_rates(plan: Plan) -> dict[str, Measure]:
    """The measures from a column of pass rates. The number of samples is the smallest with which
    all rates are possible. Raise a `UserError` that names the rows whose value is no rate."""
    name, path, rows = plan.options.pass_rate, plan.pool.content.path, plan.pool.content.rows
    rates, errors = {}, []
    for prompt in plan.pool.prompts:
        row = rows[prompt.index]
        value = value_of(row, name) if isinstance(name, str) else name[prompt.index]
        try:
            rate = float(value) / (100 if plan.options.percent else 1)
        except (TypeError, ValueError):
            rate = float("nan")
        if value not in (None, "") and not 0 <= rate <= 1:
            remedy = "correct it, or name another column with --pass-rate"
            if 1 < rate <= 100:
                remedy = "if these are percentages, add --percent"
            errors.append(
                RowError(
                    path,
                    prompt.place,
                    f"'{name}' is {value!r}, expected a share from 0 to 1",
                    remedy,
                )
            )
        elif value not in (None, ""):
            rates[prompt.id] = rate
    if not rates and not errors:
        raise UserError(
            f"{path}: no column '{name}' with values; name the column of pass rates with --pass-rate"
        )
    refuse_rows(errors)
    if not plan.options.percent and len(rates) > 1 and set(rates.values()) <= {0.0, 1.0}:
        plan.pool.notes.append(f"all values of '{name}' are 0 or 1, as with one sample per prompt")
    values = np.array(list(rates.values()))
    samples = next(
        (
            k
            for k in range(1, MOST_RATE_SAMPLES + 1)
            if np.abs(values * k - np.round(values * k)).max() < 0.0051 * k / 2 + 1e-6
            and np.abs(values - np.round(values * k) / k).max() < 0.0051
        ),
        MOST_RATE_SAMPLES,
    )
    results = {prompt.id: Measure() for prompt in plan.pool.prompts}
    for prompt_id, rate in rates.items():
        correct = round(rate * samples)
        results[prompt_id] = Measure(samples, correct, correct, samples)
    return results


def read_completions(
    plan: Plan, grader: str | OwnGrader
) -> tuple[dict[str, Measure], dict[str, list[Completion]]]:
    """(measures, completions) from files of completions, or from a column of the prompts' file.
    Completions are matched to prompts by id and question. Raise a `UserError` if they belong to
    other prompts or another model."""
    completions, verdicts = match_completions(plan)
    results = measures.measure(plan.pool.prompts, completions, grader, plan.pool.content.rows)
    for prompt_id, correct in verdicts.items():
        result = results[prompt_id]
        result.correct = result.lenient = sum(correct)
        result.answered = max(result.answered, result.correct)
    return results, completions


def match_completions(plan: Plan) -> tuple[dict[str, list[Completion]], dict[str, list[bool]]]:
    """({prompt id: completions}, {prompt id: verdicts that the file states})."""
    prompts, rows = plan.pool.prompts, plan.pool.content.rows
    by_id = {prompt.id: prompt for prompt in prompts}
    own_ids = {
        str(rows[prompt.index]["id"]): prompt
        for prompt in prompts
        if rows[prompt.index].get("id") not in (None, "")
    }
    by_question = _by_question(prompts)
    completions: dict[str, list[Completion]] = {}
    verdicts: dict[str, list[bool]] = {}
    changed, unknown, total = [], [], 0
    files = plan.options.completions or []
    if files and not isinstance(files[0], str):  # the texts of each row
        texts = {prompt.id: files[prompt.index] for prompt in prompts}
        group = lambda texts: [Completion(text, 0, "stop") for text in texts]
        return {prompt_id: group(entries) for prompt_id, entries in texts.items()}, {}
    for name in files:
        if any(value_of(row, name) is not None for row in rows):
            content = plan.pool.content
            columns = recordings.Columns(question=plan.pool.columns.question, completion=name)
            recording = recordings.from_rows(content.rows, content.places, content.path, columns)
        else:
            recording = recordings.read(name)
        models = {model for model in recording.models if plan.options.model}
        if models and not any(
            plan.options.model.rpartition("/")[2].lower() in model.lower() for model in models
        ):
            raise UserError(
                f"{name}: completions of {', '.join(sorted(models))}, but --model is {plan.options.model}; leave --model out, or name the right file"
            )
        for recorded in recording.prompts:
            total += 1
            prompt = by_id.get(recorded.id or "") or own_ids.get(recorded.id or "")
            if recorded.question is not None:
                same = by_question.get(normalize_spaces(recorded.question))
                if prompt and same is not prompt and same is not None:
                    changed.append(recorded.place)
                    continue
                if prompt and same is None and prompt.id != recorded.id:
                    changed.append(recorded.place)
                    continue
                prompt = same or prompt
            if prompt is None:
                unknown.append(recorded.place)
                continue
            known = completions.setdefault(prompt.id, [])
            for text, reason, tokens in zip(
                recorded.completions, recorded.finish_reasons, recorded.tokens
            ):
                known.append(Completion(text, tokens or 0, reason or "stop"))
            if recorded.correct is not None:
                verdicts.setdefault(prompt.id, []).extend(recorded.correct)
        say(f"completions {name}: {recording.form}, {len(recording.prompts)} prompts")
        plan.pool.notes.extend(f"{name}: {note}" for note in recording.notes)
        if changed:
            plan.pool.notes.append(
                f"{name}: {len(changed)} prompts have another question than the prompt with their id, and are left out: {first_entries(changed)}"
            )
    if not completions or 2 * len(unknown) > total:
        raise UserError(
            f"{', '.join(plan.options.completions)}: {len(unknown) + len(changed)} of {total} prompts are not in {plan.pool.content.path}; expected completions of the same prompts, with the same questions or ids"
        )
    if unknown:
        plan.pool.notes.append(f"{len(unknown)} prompts of the completions are not in the file")
    return completions, verdicts


def _by_question(prompts: list[Prompt]) -> dict[str, Prompt]:
    """{text: prompt}, for the question alone and for the whole user message with instructions."""
    index: dict[str, Prompt] = {}
    for prompt in prompts:
        user = [m["content"] for m in prompt.messages if m["role"] == "user"]
        for text in (user[-1], prompt.question):
            index[normalize_spaces(text)] = prompt
    return index


def select(plan: Plan, results: dict[str, Measure]) -> tuple[list[str], dict[str, str]]:
    """(ids of the chosen prompts, {id: why it was chosen or not})."""
    options, name = plan.options, plan.measure_name
    ids = [prompt.id for prompt in plan.pool.prompts]
    values: dict[str, float | None] = dict.fromkeys(ids, 0.0)
    if plan.needs_measure:
        values = {key: results[key].value(name) if key in results else None for key in ids}
        unmeasured = [key for key in ids if values[key] is None]
        if len(unmeasured) == len(ids):
            raise UserError(
                f"no completion has an answer that the grader reads, so {name.replace('_', ' ')} is unknown for every prompt; ask for the form of the answer with --prompt, name another --grader, or raise --completion-tokens"
            )
        if unmeasured:
            plan.pool.notes.append(
                f"{len(unmeasured)} of {len(ids)} prompts have no {name.replace('_', ' ')}, and are not chosen"
            )
    tiers = None
    if options.tier:
        cells = {
            p.id: value_of(plan.pool.content.rows[p.index], options.tier) for p in plan.pool.prompts
        }
        tiers = {
            key: float(cell) if str(cell).replace(".", "", 1).isdigit() else None
            for key, cell in cells.items()
        }
    entry = {key: value for key, value in plan.policy.items() if key != "by"}
    subset = policies.select(values, seed=options.seed, tiers=tiers, **entry)
    chosen = set(subset.ids)
    reasons = {}
    for key in ids:
        measured = (
            f"{name.replace('_', ' ')} {values[key]:.3g}"
            if plan.needs_measure and values[key] is not None
            else ""
        )
        rule = ": ".join(filter(None, [options.policy or plan.policy["rule"], measured]))
        reasons[key] = (
            rule
            if key in chosen
            else f"not chosen by {rule}"
            if values[key] is not None
            else "not measured"
        )
    if 2 * subset.tied_chosen > len(subset.ids) and plan.needs_measure:
        plan.pool.notes.append(
            f"{subset.tied_chosen} of the chosen prompts were drawn among {subset.tied} with equal {name.replace('_', ' ')}; more samples tell them apart"
        )
    return subset.ids, reasons


def compare_rules(plan: Plan, results: dict[str, Measure], number: int) -> dict[str, float]:
    """{rule: expected share of mixed groups if it chooses `number` prompts}. Half of the completions
    of each prompt chooses, the other half measures (`mixed.expected_mixed`)."""
    measured = [key for key, result in results.items() if result.samples >= 2]
    if len(measured) < FEWEST_PROMPTS or any(results[key].correct is None for key in measured):
        return {}
    correct = np.array([results[key].correct for key in measured])
    samples = np.array([results[key].samples for key in measured])
    own = plan.policy["rule"]
    names = (
        [*COMPARED, own] if plan.measure_name == "pass_rate" and plan.needs_measure else COMPARED
    )
    expected = {}
    for rule in dict.fromkeys(names):
        entry = plan.policy if rule == own else {"rule": rule, "budget": {"prompts": number}}
        if rule == "random" and own != "random":
            expected[rule] = mixed.mixed_share(correct, samples, plan.options.group)
            continue
        choose = _chooser(measured, {key: value for key, value in entry.items() if key != "by"})
        try:
            share = mixed.expected_mixed(correct, samples, plan.options.group, choose)
        except UserError:  # too few prompts qualify
            continue
        if share is not None:
            expected[rule] = share
    return expected


def _chooser(ids: list[str], entry: dict) -> Callable[[np.ndarray, int], np.ndarray]:
    positions = {key: position for position, key in enumerate(ids)}

    def choose(rates: np.ndarray, split: int) -> np.ndarray:
        subset = policies.select(dict(zip(ids, rates.tolist())), seed=split, **entry)
        return np.array([positions[key] for key in subset.ids])

    return choose
