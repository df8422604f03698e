"""Generate problems with known answers, and the noisy demonstrations on which the miniature's base
models are pretrained.

`swaps` is like BIG-Bench-Hard's `tracking_shuffled_objects`, and `arithmetic` like GSM8K; both need
reasoning. `facts` needs knowledge that reasoning cannot replace:

    swaps       Alice red, Bob blue, Claire pink. At two Bob and Alice swap. At three Claire and Bob swap.
                At the end, what does Bob hold?                                                  -> pink
    arithmetic  Bob has 12 coins. Bob finds 5 more. Bob doubles the coins.
                How many coins does Bob have?                                                    -> 34
    facts       Which animal does Ida of Arle keep?                                              -> goat

A *demonstration* is a worked solution that ends in `#### answer`. With probability `slip` a step is
wrong, and the following steps use the wrong result: without slips nearly every pass rate of a model
trained on demonstrations is 0 or 1. The demonstration of a fact is the answer alone (`belief`).
"""

import functools
import operator
import random
import re
from collections.abc import Collection
from dataclasses import dataclass

NAMES = ("Alice", "Bob", "Claire", "Dave", "Eve", "Fred", "Gina")
COLOURS = ("yellow", "blue", "pink", "red", "green", "white", "black", "purple", "orange", "brown")
HOURS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
THINGS = ("apples", "pens", "books", "coins", "cards")


@dataclass(frozen=True)
class Chain:
    """A problem, with the start and the operations from which a worked solution is made."""

    question: str
    answer: str
    tier: int | None  # number of swaps or of arithmetic steps; None for a fact
    start: tuple
    steps: tuple
    subject: str  # the person of the question


def draw_swaps(rng: random.Random, objects: list[int], swaps: list[int]) -> Chain:
    """A problem in which people hold one colour each and swap in pairs. The number of people is
    drawn from `objects`, the number of swaps from `swaps`."""
    people = NAMES[: rng.choice(objects)]
    tier = rng.choice(swaps)
    holdings = dict(zip(people, rng.sample(COLOURS, len(people))))
    # Consecutive hours from a random start: a worked solution can refer to "the swap at six", and a
    # chain that is longer than any in training still consists of words from training.
    first_hour = rng.randrange(len(HOURS) - tier + 1)
    hours = HOURS[first_hour : first_hour + tier]
    start = tuple(holdings.items())
    steps = tuple((hour, *rng.sample(people, 2)) for hour in hours)
    asked_person = rng.choice(people)
    lines = [", ".join(f"{name} {colour}" for name, colour in start) + "."]
    lines += [f"At {hour} {a} and {b} swap." for hour, a, b in steps]
    lines += [f"At the end, what does {asked_person} hold?"]
    return solve_swaps(" ".join(lines), start, steps, asked_person)


def solve_swaps(question: str, start: tuple, steps: tuple, asked_person: str) -> Chain:
    holdings = dict(start)
    for _, a, b in steps:
        holdings[a], holdings[b] = holdings[b], holdings[a]
    return Chain(question, holdings[asked_person], len(steps), start, steps, asked_person)


RESTATED = ("has", "hold")  # first words of the first and the second restatement


def demonstrate_swaps(
    chain: Chain, rng: random.Random, slip: float, restated: tuple[float, ...] = (1.0,)
) -> str:
    """A demonstration for a problem of `draw_swaps`. `slip` is the probability that a step leaves
    both holdings unchanged, `restated` are the shares of solutions that repeat all holdings 0, 1 or
    2 times after each step. Each step recalls the swap and both holdings, because a model does not
    learn the task otherwise."""
    holdings = dict(chain.start)
    restatements = rng.choices(range(len(restated)), restated)[0] if len(restated) > 1 else 0
    lines = []
    for hour, a, b in chain.steps:
        recall = f"{hour} {a} {holdings[a]} {b} {holdings[b]}"
        if rng.random() >= slip:
            holdings[a], holdings[b] = holdings[b], holdings[a]
        lines.append(f"{recall} : {a} {holdings[a]} {b} {holdings[b]} ;")
        lines += [
            f"{mark} " + " ".join(f"{name} {colour}" for name, colour in holdings.items()) + " ;"
            for mark in RESTATED[:restatements]
        ]
    answer = holdings[chain.subject]
    return f"{' '.join(lines)} {chain.subject} {answer} #### {answer}"


def draw_arithmetic(rng: random.Random, steps: list[int]) -> Chain:
    """A problem about the number of things that a person has after some operations. The number of
    operations is drawn from `steps`; every value is in 1..60."""
    person, thing, tier = rng.choice(NAMES), rng.choice(THINGS), rng.choice(steps)
    value = start = rng.randint(2, 20)
    sentences, operations = [f"{person} has {value} {thing}."], []
    for _ in range(tier):
        choices = []
        if value <= 51:
            choices += ["buys", "finds"]
        if value >= 4:
            choices += ["loses", "gives"]
            choices += ["halves"] if value % 2 == 0 else []
        choices += ["doubles"] if value <= 30 else []
        choices += ["triples"] if value <= 20 else []
        kind = rng.choice(choices)
        if kind in ("buys", "finds"):
            amount = rng.randint(2, 9)
            sentences.append(f"{person} {kind} {amount} more.")
            step = ("+", amount)
        elif kind in ("loses", "gives"):
            amount = rng.randint(1, min(value - 1, 9))
            sentences.append(f"{person} {'loses' if kind == 'loses' else 'gives away'} {amount}.")
            step = ("-", amount)
        elif kind == "halves":
            sentences.append(f"{person} sells half.")
            step = ("/", 2)
        else:
            sentences.append(f"{person} {kind} the {thing}.")
            step = ("*", 2 if kind == "doubles" else 3)
        value = apply(step, value)
        operations.append(step)
    sentences.append(f"How many {thing} does {person} have?")
    return Chain(" ".join(sentences), str(value), tier, (start,), tuple(operations), person)


def apply(step: tuple, value: int) -> int:
    sign, operand = step
    if sign == "-":
        return max(0, value - operand)
    return {"+": operator.add, "*": operator.mul, "/": operator.floordiv}[sign](value, operand)


def demonstrate_arithmetic(
    chain: Chain, rng: random.Random, slip: dict[str, float], misconception: float = 0.0
) -> str:
    """A demonstration for a problem of `draw_arithmetic`. `slip` maps each operation (+ - * /) to
    the probability of a wrong result. With probability `misconception`, a tripling is worked as a
    doubling: a systematic mistake, the same in many samples."""

    def result(operation: str, true: int) -> int:
        if rng.random() >= slip[operation]:
            return true
        return max(0, true + rng.choice((-10, -2, -1, 1, 2, 10)))

    (value,) = chain.start
    lines = []
    for step in chain.steps:
        operation, operand = step
        worked_step = step
        if step == ("*", 3) and misconception and rng.random() < misconception:
            worked_step = ("*", 2)
        next_value = result(operation, apply(worked_step, value))
        lines.append(f"{value} {operation} {operand} = {next_value} ;")
        value = next_value
    return " ".join(lines) + f" #### {value}"


DEMONSTRATE = {"swaps": demonstrate_swaps, "arithmetic": demonstrate_arithmetic}


# --- facts

KEEPERS = (
    "Ada", "Ben", "Cara", "Dora", "Emil", "Finn", "Greta", "Hans", "Ida", "Jon", "Kira", "Leo", "Mona",
    "Nora", "Otto", "Paula", "Quinn", "Rosa", "Sven", "Tina", "Ulla", "Vera", "Willa", "Xenia", "Yann",
    "Zora",
)  # fmt: skip
TOWNS = (
    "Arle", "Brock", "Cray", "Dunby", "Elm", "Farn", "Gorse", "Holt", "Inver", "Jarrow", "Kell", "Lund",
    "Marsh", "Nesse", "Orme", "Pell", "Quay", "Rook", "Stow", "Thorn", "Upton", "Vale", "Wick", "Yarm",
    "Zell",
)  # fmt: skip
ANIMALS = ("goat", "horse", "duck", "cat", "mule", "sheep", "goose", "dog", "pig", "hen")
FACTS = len(KEEPERS) * len(TOWNS)  # number of different facts
# Families that need no reasoning. A model can solve only demonstrated problems of these families,
# so test problems are demonstrated, too.
MEMORISED = ("facts",)


def draw_fact(rng: random.Random, world: int) -> Chain:
    """A problem about the animal that a person keeps. The answer is drawn uniformly, with a
    generator that depends only on the keeper and on the set of facts, `world`."""
    keeper = f"{rng.choice(KEEPERS)} of {rng.choice(TOWNS)}"
    answer = random.Random(f"fact:{world}:{keeper}").choice(ANIMALS)
    return Chain(f"Which animal does {keeper} keep?", answer, None, (), (), keeper)


def belief(
    chain: Chain, base: int, beta_parameters: list[float], misconception: float
) -> dict[str, float]:
    """{answer: probability that a demonstration of this fact states it}, for the base model of
    pretraining seed `base`. The probability p of the right answer is drawn from the beta
    distribution. Of 1 - p, the share `misconception` goes to one random wrong answer, and the
    remainder evenly to all wrong answers."""
    fact_rng = random.Random(f"belief:{base}:{chain.question}")
    right_probability = fact_rng.betavariate(*beta_parameters)
    wrong_answers = [animal for animal in ANIMALS if animal != chain.answer]
    probabilities = {chain.answer: right_probability} | dict.fromkeys(
        wrong_answers, (1 - right_probability) * (1 - misconception) / len(wrong_answers)
    )
    probabilities[fact_rng.choice(wrong_answers)] += (1 - right_probability) * misconception
    return probabilities


def demonstrate_fact(
    chain: Chain, rng: random.Random, base: int, beta_parameters: list[float], misconception: float
) -> str:
    probabilities = belief(chain, base, beta_parameters, misconception)
    return f"#### {rng.choices(list(probabilities), list(probabilities.values()))[0]}"


# --- steps of a solution


def read_swaps(question: str) -> Chain:
    """Parse and solve a question of `draw_swaps`."""
    start = re.findall(r"(\w+) (\w+)", question.partition(".")[0])
    steps = re.findall(r"At (\w+) (\w+) and (\w+) swap\.", question)
    (asked_person,) = re.findall(r"what does (\w+) hold", question)
    return solve_swaps(question, tuple(start), tuple(steps), asked_person)


OPERATIONS = (  # (pattern of a sentence, operation, operand if the pattern captures none)
    (r"(?:buys|finds) (\d+) more\.", "+", 0), (r"(?:loses|gives away) (\d+)\.", "-", 0),
    (r"sells half\.", "/", 2), (r"doubles the", "*", 2), (r"triples the", "*", 3),
)  # fmt: skip


def read_arithmetic(question: str) -> Chain:
    """Parse and solve a question of `draw_arithmetic`."""
    person, value = re.match(r"(\w+) has (\d+)", question).groups()
    steps, start = [], int(value)
    for sentence in re.findall(
        rf"{person} (?!has)(.+?(?:\.|$))", question.rpartition("How many")[0]
    ):
        steps += [
            (sign, int(match[1]) if match.re.groups else operand)
            for pattern, sign, operand in OPERATIONS
            if (match := re.match(pattern, sentence))
        ]
    value = functools.reduce(lambda value, step: apply(step, value), steps, start)
    return Chain(question, str(value), len(steps), (start,), tuple(steps), person)


def solutions(family: str, question: str) -> set[str] | None:
    """All worked solutions of a question that have no wrong step; None for facts."""
    rng = random.Random(0)  # without effect, because slip is 0
    if family == "swaps":
        chain = read_swaps(question)
        return {
            demonstrate_swaps(chain, rng, 0.0, (0.0,) * restatements + (1.0,))
            for restatements in range(len(RESTATED) + 1)
        }
    if family == "arithmetic":
        return {demonstrate_arithmetic(read_arithmetic(question), rng, dict.fromkeys("+-*/", 0.0))}
    return None


def is_sound(problem: dict, completion: str) -> bool | None:
    """Whether the steps of a completion are those of a demonstration without wrong steps; None if
    the steps of the problem, a row of a task's file, cannot be checked."""
    kind, _, details = str(problem.get("source")).partition(":")
    if kind != "generated":
        return None
    sound_texts = _words_of_solutions(details.partition(":")[0], problem["question"])
    return None if sound_texts is None else tuple(completion.split()) in sound_texts


@functools.lru_cache(maxsize=10_000)
def _words_of_solutions(family: str, question: str) -> set | None:
    texts = solutions(family, question)
    return None if texts is None else {tuple(text.split()) for text in texts}


def vocabulary(families: Collection[str] = ()) -> list[str]:
    """All words and signs, without digits, of the prompts and demonstrations; words of facts only if
    `families` has facts, so that they change no token id of other models."""
    sentences = (
        ", . At and swap the end what does hold ? has buys finds more loses gives away sells half doubles "
        "triples How many have : ; + - * / = #### Answer"
    )
    words = [*NAMES, *COLOURS, *HOURS, *THINGS, *sentences.split()]
    if "facts" in families:
        words += ["Which", "animal", "of", "keep", *KEEPERS, *TOWNS, *ANIMALS]
    return words
