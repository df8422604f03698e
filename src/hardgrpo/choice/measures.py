"""Grade the completions of prompts, and measure each prompt."""

import asyncio
import importlib.util
import inspect
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hardgrpo.choice.prompts import Prompt
from hardgrpo.grading import graders
from hardgrpo.grading.reasoning import answer_part, starts_in_reasoning
from hardgrpo.runtime.errors import UserError, printable
from hardgrpo.sampling.requests import Completion
from hardgrpo.selection import signals

GRADER_SECONDS = 30.0  # time limit of a person's grader for the completions of one prompt


@dataclass
class Measure:
    """Counts of a prompt's completions. `correct` and `lenient` are None without a reference
    answer. `unfinished`: ended by the limit or within the reasoning, without an answer. `codes`
    number the different answers (-1: none); empty if unknown."""

    samples: int = 0
    correct: int | None = None
    lenient: int | None = None
    answered: int = 0
    unfinished: int = 0
    tokens: float | None = None
    codes: list[int] = field(default_factory=list)

    @property
    def pass_rate(self) -> float | None:
        return self.correct / self.samples if self.samples and self.correct is not None else None

    def value(self, name: str) -> float | None:
        """The measure `name` of `policies.MEASURES`; None if unknown. Without any answer, agreement
        and entropy are unknown."""
        if not self.samples:
            return None
        if name in ("agreement", "entropy"):
            has_answers = max(self.codes, default=-1) >= 0
            return signals.signals_of_answers(self.codes)[name] if has_answers else None
        return {
            "pass_rate": self.pass_rate,
            "answered_share": self.answered / self.samples,
            "mean_tokens": self.tokens,
        }.get(name)


def measure(
    prompts: list[Prompt],
    completions: dict[str, list[Completion]],
    grader: "str | OwnGrader",
    rows: list[dict],
) -> dict[str, Measure]:
    """{prompt id: its measure}. `grader` is a key of GRADERS or a person's function; `rows` are the
    rows of the file, which the function receives."""
    in_reasoning = is_in_reasoning(completions)
    measures = {}
    for prompt in prompts:
        group = completions.get(prompt.id, [])
        parts = [answer_part(completion.text, in_reasoning) for completion in group]
        if isinstance(grader, OwnGrader):
            result = _by_function(prompt, group, parts, grader, rows[prompt.index])
        else:
            result = _by_rule(prompt, group, parts, grader)
        tokens = [completion.tokens for completion in group if completion.tokens]
        result.tokens = sum(tokens) / len(tokens) if tokens else None
        measures[prompt.id] = result
    return measures


def is_in_reasoning(completions: dict[str, list[Completion]]) -> bool:
    """`starts_in_reasoning` for the completions that the limit did not cut off."""
    groups = completions.values()
    return starts_in_reasoning(
        c.text for group in groups for c in group if c.finish_reason != "length"
    )


def _by_rule(
    prompt: Prompt, group: list[Completion], parts: list[str | None], grader: str
) -> Measure:
    result = Measure(samples=len(group))
    if prompt.answer is not None:
        result.correct = result.lenient = 0
    for completion, part in zip(group, parts):
        text = part or ""
        if prompt.answer is None:
            answered = bool(graders.extract_answer(grader, text))
        else:
            grade = graders.grade(grader, text, prompt.answer)
            answered = grade.readable
            result.correct += grade.correct
            result.lenient += grade.lenient
        result.answered += answered
        result.unfinished += not answered and (part is None or completion.finish_reason == "length")
    result.codes = signals.answer_codes([part or "" for part in parts], grader)
    return result


def _by_function(
    prompt: Prompt, group: list[Completion], parts: list[str | None], grader: "OwnGrader", row: dict
) -> Measure:
    values = grader.grade(prompt, [part or "" for part in parts], row) if group else []
    finished = [
        part is not None and completion.finish_reason != "length"
        for completion, part in zip(group, parts)
    ]
    correct = sum(value > grader.right_above for value in values)
    answered = sum(done or value > grader.right_above for done, value in zip(finished, values))
    return Measure(len(group), correct, correct, answered, len(group) - answered)


# --- a person's own grader


@dataclass
class OwnGrader:
    """A function with the signature of TRL's reward functions. A value above `right_above` counts
    as right. `timeouts` counts calls that exceeded the time limit; their completions are wrong."""

    name: str
    function: Callable
    right_above: float = 0.5
    timeouts: int = 0

    def grade(self, prompt: Prompt, texts: list[str], row: dict) -> list[float]:
        """The rewards of a prompt's completions. The function receives all at once, and the columns
        of the row as lists, as TRL does. Raise a `UserError` that names the row."""
        is_chat = not isinstance(row.get("prompt"), str)
        replies = [[{"role": "assistant", "content": text}] if is_chat else text for text in texts]
        columns = {key: [value] * len(texts) for key, value in row.items() if key != "prompt"}
        prompts = [list(prompt.messages) if is_chat else row["prompt"]] * len(texts)
        arguments = columns | {"prompts": prompts, "completions": replies}
        arguments |= {"completion_ids": [None] * len(texts), "trainer_state": None}
        parameters = inspect.signature(self.function).parameters.values()
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            arguments = {key: arguments[key] for key in arguments if key in {p.name for p in parameters}}  # fmt: skip
        try:
            with time_limit(GRADER_SECONDS):
                values = self.function(**arguments)
                if inspect.isawaitable(values):
                    values = asyncio.run(values)
        except TimeoutError:
            self.timeouts += 1
            return [0.0] * len(texts)
        except (Exception, SystemExit) as error:
            raise UserError(
                f"{self.name}: it fails for {prompt.place} of the prompts ({type(error).__name__}: {printable(error)[:200]}); correct the function"
            ) from None
        try:
            rewards = [float("nan") if value is None else float(value) for value in values]
        except (TypeError, ValueError):
            rewards = []
        if len(rewards) != len(texts):
            raise UserError(
                f"{self.name}: it returns {str(values)[:80]!r} for {prompt.place} of the prompts; expected a list of {len(texts)} numbers, one for each completion"
            )
        return rewards


def own_grader(name: str | Callable, right_above: float) -> OwnGrader:
    """A function, or the function FUNCTION of FILE.py, which `name` (FILE.py:FUNCTION) names."""
    if callable(name):
        return OwnGrader(getattr(name, "__name__", repr(name)), name, right_above)
    path, _, function_name = name.rpartition(":")
    if not path.endswith(".py") or not Path(path).is_file():
        raise UserError(
            f"--grader {name}: expected one of {', '.join(graders.GRADERS)}, or FILE.py:FUNCTION with a file that exists"
        )
    specification = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(specification)
    sys.path.insert(0, str(Path(path).absolute().parent))
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(
            f"{path}: it cannot be loaded ({type(error).__name__}: {printable(error)[:200]}); correct the file"
        ) from None
    finally:
        sys.path.pop(0)
    function = getattr(module, function_name, None)
    if not callable(function):
        raise UserError(f"{path}: no function '{function_name}'; name one that the file defines")
    return OwnGrader(name, function, right_above)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise a `TimeoutError` in the block after this time. Works in the main thread only; elsewhere
    there is no limit."""

    def stop(*_) -> None:
        raise TimeoutError

    try:
        previous = signal.signal(signal.SIGALRM, stop)
    except ValueError:  # not the main thread
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
