"""`hardgrpo worth`: say whether a training was worth it, from completions before and after it.

The gain is the mean over prompts of the difference of two pass rates, with Student's t interval
over prompts. docs/statistics.md has the formula of the parts finishing and correctness.
"""

import argparse
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hardgrpo.analysis.decomposition import decompose
from hardgrpo.analysis.formats import interval, points, round_parts, signed, signed_interval
from hardgrpo.choice import recordings
from hardgrpo.choice.recordings import Columns, Recorded
from hardgrpo.choice.results import ResultFolder
from hardgrpo.data.question_ids import normalize_spaces
from hardgrpo.grading import graders
from hardgrpo.grading.proposals import propose, unreadable
from hardgrpo.grading.reasoning import CLOSING, answer_part, starts_in_reasoning
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError, first_entries, printable
from hardgrpo.runtime.interruption import say

# the kinds of a completion; the first three state an answer
CORRECT, OTHER_NOTATION, WRONG, UNREADABLE, UNFINISHED = KINDS = (
    "correct",
    "right in another notation",
    "wrong",
    "without a readable answer",
    "unfinished",
)
ANSWERED = (CORRECT, OTHER_NOTATION, WRONG)
GRADER_SAMPLE = 400  # completions that choose between the forms of an answer
LENIENT_SHARE = 0.02  # a larger share of completions in another notation gets a note
MOST_UNREADABLE = 0.9  # with a larger share of unreadable completions, nothing is compared
FEWEST_PROMPTS = 20  # with fewer prompts, the interval is not reliable
EXAMPLES, EXAMPLE_CHARACTERS = 5, 600
VERDICTS = "verdicts of the files"
ENDINGS = re.compile(r"(\.(jsonl|ndjson|jl|json|csv|tsv|txt|parquet|eval|gz|bz2|xz|zst))+$", re.I)


@dataclass
class Side:
    """A prompt's completions before or after the training. `parts` are the texts after the
    reasoning (None: the completion ends in its reasoning)."""

    recorded: Recorded
    parts: list[str | None]
    kinds: list[str] = field(default_factory=list)

    def rate(self, *kinds: str) -> float:
        return sum(kind in kinds for kind in self.kinds) / len(self.kinds)

    def example(self, is_correct: bool) -> tuple[str, str]:
        """(kind, shortened text) of the first completion that is correct, or is not."""
        index = next(i for i, kind in enumerate(self.kinds) if (kind == CORRECT) == is_correct)
        text = self.recorded.completions[index].strip()
        if len(text) > EXAMPLE_CHARACTERS:
            third = EXAMPLE_CHARACTERS // 3
            text = f"{text[:third]} […] {text[-2 * third :]}"
        return self.kinds[index], text


@dataclass
class Prompt:
    name: str
    question: str
    answer: str | None
    before: Side
    after: Side

    @property
    def gain(self) -> float:
        return self.after.rate(CORRECT) - self.before.rate(CORRECT)


def add_command(commands) -> None:
    worth = commands.add_parser(
        "worth",
        help="say whether your own training was worth it, from completions before and after it",
        description="Compare completions of the same prompts before and after a training. The files are JSON Lines, CSV or Parquet, sample logs of lm-evaluation-harness, logs of inspect_ai, or outputs of a batch API.",
    )
    worth.set_defaults(run=run)
    worth.add_argument("before", help="completions of the base model")
    worth.add_argument("after", help="completions of the trained model on the same prompts")
    worth.add_argument("--problems", help="file of ids or questions, and of answers")
    for name, cells in (
        ("id", "ids of the prompts"),
        ("question", "questions"),
        ("answer", "reference answers"),
        ("completion", "completions: a text, or a list of texts"),
    ):
        worth.add_argument(
            f"--{name}",
            metavar="COLUMN",
            help=f"column of {cells} (default: a column with a usual name)",
        )
    worth.add_argument(
        "--grader",
        choices=list(graders.GRADERS),
        help="default: the grader that reads the answers and finds answers in most completions",
    )
    worth.add_argument("--output", help="folder of the results (default: beside BEFORE)")


def run(args: argparse.Namespace) -> None:
    paths = [args.before, args.after]
    stems = [ENDINGS.sub("", Path(path).name)[:100] for path in paths]
    default = Path(args.before).parent / f"{stems[0]}-{stems[1]}.worth"
    inputs = [str(Path(path).absolute()) for path in paths]
    results = ResultFolder(Path(args.output or default), inputs, "worth.json")
    results.check(["worth.html"])
    if Path(args.before).resolve() == Path(args.after).resolve():
        raise UserError(
            f"{args.before}: the same file twice; expected completions before and after"
        )
    columns = Columns(args.id, args.question, args.answer, args.completion)
    before, after = (recordings.read(path, columns) for path in paths)
    notes = [f"{side.path}: {note}" for side in (before, after) for note in side.notes]
    problems = recordings.read_prompts(args.problems, columns) if args.problems else []
    prompts = match(before, after, problems, notes)
    grader = args.grader or choose_grader(prompts, " and ".join(paths))
    prompts = grade(prompts, grader, " and ".join(paths), notes)
    summary = summarise(prompts)
    if len(prompts) < FEWEST_PROMPTS:
        notes.append(f"{len(prompts)} prompts are too few for a reliable interval; test with more")
    facts: dict = {
        name: {"path": side.path, "form": side.form, "models": sorted(side.models)}
        for name, side in (("before", before), ("after", after))
    }
    facts |= {"grader": grader} | summary | {"notes": notes}
    content = page(stems, prompts, facts)
    results.write(["worth.html"], lambda _, path: files.write_text(path, content), facts)
    for note in notes:
        say(f"note      {printable(note)}")
    say(f"prompts   {len(prompts)}, grader {grader}")
    for kind in (UNFINISHED, UNREADABLE):
        numbers = [summary["completions"][name][kind] for name in ("before", "after")]
        say(f"{kind}: {numbers[0]} completions before, {numbers[1]} after")
    gain = summary["gain"]
    change = signed_interval(gain["estimate"], gain["low"], gain["high"])
    rates = [points(summary[name]) for name in ("accuracy_before", "accuracy_after")]
    say(f"accuracy  {rates[0]} % before, {rates[1]} % after: {change} points")
    say(f"open  {results.folder.absolute() / 'worth.html'}")


# --- the prompts of both files


def match(
    before: recordings.Recording,
    after: recordings.Recording,
    problems: list[Recorded],
    notes: list[str],
) -> list[Prompt]:
    """The prompts that have completions in both files, and an answer or verdicts. The names of the
    others are added to `notes`; more than half are a `UserError`."""
    pairs = pair_up(before.prompts, after.prompts)
    references = {id(left): problem for left, problem in pair_up(before.prompts, problems)}
    texts = [[t for p in side.prompts for t in p.completions] for side in (before, after)]
    in_reasoning = list(map(starts_in_reasoning, texts))
    for side, index in ((before, 0), (after, 1)):
        if in_reasoning[1 - index] and not any(map(CLOSING.search, texts[index])):
            notes.append(
                f"{side.path}: no completion closes a reasoning, unlike those of the other file; the completions are graded as a whole"
            )
    prompts: list[Prompt] = []
    left_out: dict[str, list[str]] = defaultdict(list)
    for left, right in pairs:
        name = left.id or left.question
        reference = references.get(id(left))
        records = [left, right] + ([reference] if reference else [])
        has_reference = reference and reference.answer
        answers = [r.answer for r in ([reference] if has_reference else records) if r.answer]
        if len(set(map(normalize_spaces, answers))) > 1:
            left_out["have different answers in the two files"].append(name)
        elif not answers and not (left.correct and right.correct):
            reason = "have no answer (name its column with --answer, or a file with --problems)"
            left_out[reason].append(name)
        else:
            sides = [
                Side(side, [answer_part(text, starts) for text in side.completions])
                for side, starts in zip((left, right), in_reasoning)
            ]
            question = next(filter(None, (record.question for record in records)), name)
            prompts.append(Prompt(name, question, next(iter(answers), None), *sides))
    matched = {id(prompt) for pair in pairs for prompt in pair}
    missing = [
        [prompt.id or prompt.question for prompt in side.prompts if id(prompt) not in matched]
        for side in (before, after)
    ]
    differing = set(missing[0]) & set(missing[1])
    reason = "have different questions in the two files (correct the ids)"
    left_out[reason] = [name for name in missing[0] if name in differing]
    for side, names in zip((before, after), missing):
        left_out[f"are only in {side.path}"] = [name for name in names if name not in differing]
    most = max(len(before.prompts), len(after.prompts))
    leave_out(left_out, len(prompts), most, notes, f"{before.path} and {after.path}")
    return prompts


def pair_up(left: list[Recorded], right: list[Recorded]) -> list[tuple[Recorded, Recorded]]:
    """Pairs of prompts with the same id and no different questions, or with the same question: the
    larger number of pairs."""
    question: Callable[[Recorded], str] = lambda prompt: normalize_spaces(prompt.question or "")
    pairings = []
    for key in (lambda prompt: prompt.id, question):
        by_key = {key(prompt): prompt for prompt in reversed(right) if key(prompt)}
        pairs = [(prompt, by_key[key(prompt)]) for prompt in left if key(prompt) in by_key]
        differ = lambda a, b: a.question and b.question and question(a) != question(b)
        pairings.append([pair for pair in pairs if not differ(*pair)])
    return max(pairings, key=len)


def leave_out(
    left_out: dict[str, list[str]], remaining: int, total: int, notes: list[str], place: str
) -> None:
    """Add a note for each reason in {reason: names of prompts}. Raise a `UserError` if fewer than
    half of the prompts, or fewer than two, remain."""
    reasons = [
        f"{len(names)} of {total} prompts {reason}: {first_entries([name[:60] for name in names])}"
        for reason, names in left_out.items()
        if names
    ]
    if remaining < 2 or 2 * remaining < total:
        raise UserError(
            f"{place}: only {remaining} of {total} prompts can be compared ({'; '.join(reasons)}); expected completions of the same prompts, with the same ids or questions, and their answers"
        )
    notes += [f"{reason}; left out" for reason in reasons]


# --- grades


def choose_grader(prompts: list[Prompt], paths: str) -> str:
    """The grader that reads the reference answers and finds an answer in the most completions;
    VERDICTS if it finds none, but the files state verdicts. Raise a `UserError` if no grader reads
    the answers."""
    answers = [prompt.answer for prompt in prompts if prompt.answer]
    names = {propose(answers, form) for form in ("boxed", "marks")} - {None} if answers else set()
    sides = [(p.before, p.answer) for p in prompts] + [(p.after, p.answer) for p in prompts]
    pairs = [(part, answer) for side, answer in sides for part in side.parts if part and answer]
    pairs = pairs[:: max(1, len(pairs) // GRADER_SAMPLE)]
    numbers = {
        name: sum(graders.grade(name, *pair).readable for pair in pairs) for name in sorted(names)
    }
    if not any(numbers.values()) and all(side.recorded.correct for side, _ in sides):
        return VERDICTS
    if not numbers:
        raise UserError(
            f"{paths}: no grader reads the answers; the first is '{answers[0][:60]}'; name a grader with --grader"
        )
    return max(numbers, key=numbers.get)


def grade(prompts: list[Prompt], grader: str, paths: str, notes: list[str]) -> list[Prompt]:
    """Grade the completions. Return the prompts whose reference answer the grader reads; the others
    are named in `notes`. Raise a `UserError` if no completion has an answer."""
    if grader != VERDICTS:
        graders.check_grader(grader)
        indices = set(unreadable(grader, [prompt.answer or "" for prompt in prompts]))
        names = [prompts[index].name for index in sorted(indices)]
        total, prompts = len(prompts), [p for i, p in enumerate(prompts) if i not in indices]
        reason = f"have an answer that grader {grader} cannot read (name another with --grader)"
        leave_out({reason: names}, len(prompts), total, notes, paths)
    for prompt in prompts:
        for side in (prompt.before, prompt.after):
            side.kinds = [kind_of(side, i, prompt.answer, grader) for i in range(len(side.parts))]
    sides = {"before": [p.before for p in prompts], "after": [p.after for p in prompts]}
    counts = {name: Counter(k for s in group for k in s.kinds) for name, group in sides.items()}
    kinds = counts["before"] + counts["after"]
    if not any(kinds[kind] for kind in ANSWERED):
        form = graders.GRADERS[grader].form % "ANSWER" if grader in graders.GRADERS else "text"
        raise UserError(
            f"{paths}: {kinds[UNFINISHED]} of {kinds.total()} completions are unfinished, and the others state no answer that grader {grader} reads (form: {form}); name another grader with --grader"
        )
    for name, group in sides.items():
        number, total = counts[name][UNREADABLE], counts[name].total()
        if number > MOST_UNREADABLE * total:
            texts = (text for side in group for text in side.recorded.completions)
            example = next(filter(None, texts), None)
            fault = "all are empty; sample them again"
            if example:
                fault = f"one ends with '{printable(example)[-100:]}'; name another --grader"
            raise UserError(
                f"{paths}: {number} of {total} completions {name} the training state no answer that grader {grader} reads; {fault}"
            )
    if kinds[OTHER_NOTATION] > LENIENT_SHARE * kinds.total():
        lenient = [
            np.mean([side.rate(CORRECT, OTHER_NOTATION) for side in group])
            for group in sides.values()
        ]
        notes.append(
            f"grader {grader} rejects {kinds[OTHER_NOTATION]} of {kinds.total()} completions only because of their notation; if it did not, accuracy would be {points(lenient[0])} % before and {points(lenient[1])} % after (name a lenient grader with --grader)"
        )
    return prompts


def kind_of(side: Side, index: int, answer: str | None, grader: str) -> str:
    """The kind of a completion. A truncated completion without an answer is unfinished."""
    part, is_truncated = side.parts[index], side.recorded.finish_reasons[index] == "length"
    if part is None:
        return UNFINISHED
    if grader == VERDICTS:
        return CORRECT if side.recorded.correct[index] else UNFINISHED if is_truncated else WRONG
    result = graders.grade(grader, part, answer)
    if result.correct:
        return CORRECT
    if result.readable:
        return OTHER_NOTATION if result.lenient else WRONG
    return UNFINISHED if is_truncated and not result.answered else UNREADABLE


# --- statistics


def summarise(prompts: list[Prompt]) -> dict:
    """The numbers of the page: means over prompts, with Student's t intervals over prompts. The
    variances are those of the jackknife (Efron and Tibshirani 1993, ch. 11)."""
    rates = np.array(
        [
            [side.rate(*kinds) for side in (p.before, p.after) for kinds in (ANSWERED, (CORRECT,))]
            for p in prompts
        ]
    )
    means, number = rates.mean(axis=0), len(prompts)
    parts_and_gain = lambda row: (*decompose(*row), row[3] - row[1])
    estimates = parts_and_gain(means)
    left_out = (rates.sum(axis=0) - rates) / (number - 1)
    left_out = np.array(list(map(parts_and_gain, left_out)))
    errors = (number - 1) / math.sqrt(number) * left_out.std(axis=0, ddof=1)
    parts = {}
    for name, estimate, error in zip(("finishing", "correctness", "gain"), estimates, errors):
        # without any difference between prompts, an interval would suggest certainty
        half = student_t(number - 1) * error if error > 1e-12 else None
        ends = [None, None]
        if half is not None:  # a gain cannot lead below 0 or above 100 %
            least, most = (-means[1], 1 - means[1]) if name == "gain" else (-1.0, 1.0)
            ends = [float(max(estimate - half, least)), float(min(estimate + half, most))]
        parts[name] = {"estimate": float(estimate), "low": ends[0], "high": ends[1]}
    gain, low, high = parts["gain"].values()
    is_sure = low is None or low > 0 or high < 0
    return {
        "prompts": number,
        "accuracy_before": float(means[1]),
        "accuracy_after": float(means[3]),
        **parts,
        "outcome": "unclear" if not gain or not is_sure else "rose" if gain > 0 else "fell",
        "completions": {
            name: {kind: sum(getattr(p, name).kinds.count(kind) for p in prompts) for kind in KINDS}
            for name in ("before", "after")
        },
        "pass_rates": {p.name: [p.before.rate(CORRECT), p.after.rate(CORRECT)] for p in prompts},
    }


def student_t(freedom: int) -> float:
    """The quantile 0.975 of Student's t distribution with `freedom` degrees of freedom."""
    from mpmath import betainc, findroot

    tails = lambda t: betainc(freedom / 2, 0.5, 0, freedom / (freedom + t * t), regularized=True)
    return float(findroot(lambda t: tails(t) - 0.05, (1.9, 13), solver="anderson"))


# --- the page


def page(stems: list[str], prompts: list[Prompt], facts: dict) -> str:
    from hardgrpo.report import web  # imports Jinja, which takes time

    finishing, correctness = round_parts(
        facts["gain"]["estimate"],
        [facts[name]["estimate"] for name in ("finishing", "correctness")],
    )
    gained = sorted((p for p in prompts if p.gain > 0), key=lambda p: -p.gain)
    lost = sorted((p for p in prompts if p.gain < 0), key=lambda p: p.gain)
    return web.template("worth.html", Path(__file__).parent).render(
        **facts,
        stems=stems,
        points=points,
        signed=signed,
        interval=lambda entry: interval(entry["low"], entry["high"]),
        parts={"finishing": finishing, "correctness": correctness},
        bubbles=bubbles(facts["pass_rates"].values()),
        kinds=KINDS,
        gained=len(gained),
        lost=len(lost),
        examples=[("gained", gained[:EXAMPLES], False), ("lost", lost[:EXAMPLES], True)],
    )


def bubbles(rates: Iterable[list[float]]) -> list[dict]:
    """Circles for pairs of pass rates: centre (shares), radius, number of prompts."""
    numbers = Counter((round(before, 3), round(after, 3)) for before, after in rates)
    most = max(numbers.values())
    return [
        {"before": before, "after": after, "number": number, "radius": max(4, 22 * math.sqrt(number / most))}
        for (before, after), number in numbers.most_common()
    ]  # fmt: skip
