"""Generate problems with known answers, and the noisy demonstrations on which `tiny` and `knowing` are pretrained.

Two families to reason about, after BIG-Bench-Hard's tracking shuffled objects and GSM8K, in our own wording:

    swaps       Alice red, Bob blue, Claire pink. At two Bob and Alice swap. At three Claire and Bob swap.
                At the end, what does Bob hold?                                                  -> pink
    arithmetic  Bob has 12 coins. Bob finds 5 more. Bob doubles the coins.
                How many coins does Bob have?                                                    -> 34

and one to look up, which no reasoning solves:

    facts       Which animal does Ida of Arle keep?                                              -> goat

A *demonstration* is a worked solution that ends in `#### answer`. With probability `slip` a step is wrong, and the following
steps use its result. A model trained on demonstrations therefore knows the task but makes mistakes, like a pretrained model.
Without slips nearly every pass rate is 0 or 1, and selection policies have nothing to choose from. A fact has no steps: its demonstration
is the answer alone, right with a probability that belongs to the fact and to the base model (`belief`).
"""

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
    """A problem, and its start and operations, from which a worked solution is made."""

    question: str
    answer: str
    tier: int | None  # number of swaps, or of arithmetic steps; a fact has none
    start: tuple
    steps: tuple
    asked: str


def draw_swaps(rng: random.Random, objects: list[int], swaps: list[int]) -> Chain:
    """People with one colour each swap in pairs. The numbers of people and of swaps are drawn from `objects` and `swaps`."""
    people = NAMES[: rng.choice(objects)]
    tier = rng.choice(swaps)
    held = dict(zip(people, rng.sample(COLOURS, len(people))))
    # Each swap has an hour, consecutive from a random start. A worked solution can then refer to "the swap at six", and a chain that is
    # longer than any in training still consists of words from training.
    first = rng.randrange(len(HOURS) - tier + 1)
    hours = HOURS[first : first + tier]
    start = tuple(held.items())
    steps = tuple((hour, *rng.sample(people, 2)) for hour in hours)
    for _, a, b in steps:
        held[a], held[b] = held[b], held[a]
    asked = rng.choice(people)
    lines = [", ".join(f"{name} {colour}" for name, colour in start) + "."]
    lines += [f"At {hour} {a} and {b} swap." for hour, a, b in steps]
    lines += [f"At the end, what does {asked} hold?"]
    return Chain(" ".join(lines), held[asked], tier, start, steps, asked)


RESTATED = ("has", "hold")  # first words of the first and the second restatement


def demonstrate_swaps(chain: Chain, rng: random.Random, slip: float, restated: tuple[float, ...] = (1.0,)) -> str:
    """Each step recalls the swap and both holdings before it states the result; a model does not learn the task without the recall.

    A holding is always a name followed by a colour, also in the question, so the model can look all of them up in the same way.
    `restated` are the shares of solutions that repeat all holdings 0, 1 or 2 times after each step; they make solutions longer.
    """
    held = dict(chain.start)
    times = rng.choices(range(len(restated)), restated)[0] if len(restated) > 1 else 0
    lines = []
    for hour, a, b in chain.steps:
        before = f"{hour} {a} {held[a]} {b} {held[b]}"
        if rng.random() >= slip:
            held[a], held[b] = held[b], held[a]
        lines.append(f"{before} : {a} {held[a]} {b} {held[b]} ;")
        lines += [f"{mark} " + " ".join(f"{name} {colour}" for name, colour in held.items()) + " ;" for mark in RESTATED[:times]]
    return " ".join(lines) + f" {chain.asked} {held[chain.asked]} #### {held[chain.asked]}"


def draw_arithmetic(rng: random.Random, steps: list[int]) -> Chain:
    """One person's count of one thing after some operations, their number drawn from `steps`. Every value stays in 0..60."""
    who, thing, tier = rng.choice(NAMES), rng.choice(THINGS), rng.choice(steps)
    value = start = rng.randint(2, 20)
    sentences, done = [f"{who} has {value} {thing}."], []
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
            sentences.append(f"{who} {kind} {amount} more.")
            step = ("+", amount)
        elif kind in ("loses", "gives"):
            amount = rng.randint(1, min(value - 1, 9))
            sentences.append(f"{who} {'loses' if kind == 'loses' else 'gives away'} {amount}.")
            step = ("-", amount)
        elif kind == "halves":
            sentences.append(f"{who} sells half.")
            step = ("/", 2)
        else:
            sentences.append(f"{who} {kind} the {thing}.")
            step = ("*", 2 if kind == "doubles" else 3)
        value = apply(step, value)
        done.append(step)
    sentences.append(f"How many {thing} does {who} have?")
    return Chain(" ".join(sentences), str(value), tier, (start,), tuple(done), who)


def apply(step: tuple, value: int) -> int:
    match step:
        case ("+", amount):
            return value + amount
        case ("-", amount):
            return max(0, value - amount)
        case ("*", factor):
            return value * factor
        case ("/", divisor):
            return value // divisor
    raise ValueError(f"unknown step {step!r}")


def demonstrate_arithmetic(chain: Chain, rng: random.Random, slip: dict[str, float], misconception: float = 0.0) -> str:
    """`slip` is the probability of a wrong result for each of + - * /. The following steps use the wrong value.

    With probability `misconception` a tripling is worked as a doubling, always in the same way: a model that is shown this agrees with
    itself where it is wrong.
    """

    def result(operation: str, true: int) -> int:
        return max(0, true + rng.choice((-10, -2, -1, 1, 2, 10))) if rng.random() < slip[operation] else true

    (value,) = chain.start
    lines = []
    for step in chain.steps:
        operation, operand = step
        believed = ("*", 2) if step == ("*", 3) and misconception and rng.random() < misconception else step
        after = result(operation, apply(believed, value))
        lines.append(f"{value} {operation} {operand} = {after} ;")
        value = after
    return " ".join(lines) + f" #### {value}"


# Stories of shuffled objects, in our own wording: who, what each has, one swap, the question, the things, their noun.
STORIES = (
    ("friends at a party", "is holding a {} box", "{} and {} exchange boxes", "{} is holding the",
     ("yellow", "blue", "pink", "red", "green", "white", "black", "purple", "orange", "brown"), "box"),
    ("players of a team", "starts as {}", "{} and {} change places", "{} plays as",
     ("goalkeeper", "left wing", "right wing", "striker", "sweeper", "libero", "captain", "centre half"), ""),
    ("members of a book club", "brings {}", "{} and {} trade their books", "{} goes home with",
     ("Emma", "Ulysses", "Dracula", "Candide", "Walden", "Middlemarch", "Beloved", "Germinal"), ""),
    ("dancers", "begins with partner {}", "{} and {} switch partners", "{} is dancing with",
     ("Hugo", "Ines", "Jonas", "Karla", "Liam", "Mira", "Nils", "Olga"), ""),
)  # fmt: skip
ORDER = ("First", "Then", "Finally")


def draw_shuffled_objects(rng: random.Random, objects: list[int]) -> Chain:
    """A problem like BIG-Bench-Hard's tracking shuffled objects: as many swaps as objects, and the answer is an option's letter.

    The tier is the number of objects.
    """
    who, has, swap, ask, things, noun = rng.choice(STORIES)
    tier = rng.choice(objects)
    people = NAMES[:tier]
    held = dict(zip(people, rng.sample(things, tier)))
    options = list(held.values())
    listed = [f"{name} {has.format(thing)}" for name, thing in held.items()]
    text = [f"{', '.join(people[:-1])} and {people[-1]} are {who}. {', '.join(listed[:-1])} and {listed[-1]}."]
    steps = tuple(tuple(rng.sample(people, 2)) for _ in range(tier))
    for number, (a, b) in enumerate(steps):
        held[a], held[b] = held[b], held[a]
        text.append(f"{ORDER[0] if number == 0 else ORDER[2] if number == tier - 1 else ORDER[1]}, {swap.format(a, b)}.")
    asked = rng.choice(people)
    letters = [f"({'ABCDEFG'[n]})" for n in range(tier)]
    text.append(
        f"In the end, {ask.format(asked)}\nOptions:\n"
        + "\n".join(f"{letter} {option}{f' {noun}' if noun else ''}" for letter, option in zip(letters, options))
    )
    return Chain(" ".join(text), letters[options.index(held[asked])], tier, tuple(zip(people, options)), steps, asked)


DEMONSTRATE = {"swaps": demonstrate_swaps, "arithmetic": demonstrate_arithmetic}


# --- facts -----------------------------------------------------------------------------------------------------------

KEEPERS = (
    *("Ada", "Ben", "Cara", "Dora", "Emil", "Finn", "Greta", "Hans", "Ida", "Jon", "Kira", "Leo", "Mona"),
    *("Nora", "Otto", "Paula", "Quinn", "Rosa", "Sven", "Tina", "Ulla", "Vera", "Willa", "Xenia", "Yann", "Zora"),
)
TOWNS = (
    *("Arle", "Brock", "Cray", "Dunby", "Elm", "Farn", "Gorse", "Holt", "Inver", "Jarrow", "Kell", "Lund", "Marsh"),
    *("Nesse", "Orme", "Pell", "Quay", "Rook", "Stow", "Thorn", "Upton", "Vale", "Wick", "Yarm", "Zell"),
)
ANIMALS = ("goat", "horse", "duck", "cat", "mule", "sheep", "goose", "dog", "pig", "hen")
FACTS = len(KEEPERS) * len(TOWNS)  # number of different facts
# Families that need no reasoning. A model knows only problems that it was shown, so test problems are demonstrated, too.
LOOKED_UP = ("facts",)


def draw_fact(rng: random.Random, world: int) -> Chain:
    """Which animal somebody keeps. The answer is drawn uniformly, by a seed made of `world` and the keeper alone."""
    keeper = f"{rng.choice(KEEPERS)} of {rng.choice(TOWNS)}"
    answer = random.Random(f"fact:{world}:{keeper}").choice(ANIMALS)
    return Chain(f"Which animal does {keeper} keep?", answer, None, (), (), keeper)


def belief(chain: Chain, base: int, known: list[float], misconception: float) -> dict[str, float]:
    """{answer: probability that a demonstration of this fact states it}, for the base model of pretraining seed `base`.

    The probability of the right answer is drawn for each fact from the beta distribution with parameters `known`. A share
    `misconception` of the rest goes to one wrong answer, drawn for each fact; what remains is spread evenly over all wrong ones.
    """
    own = random.Random(f"belief:{base}:{chain.question}")
    right = own.betavariate(*known)
    wrong = [animal for animal in ANIMALS if animal != chain.answer]
    shown = {chain.answer: right} | dict.fromkeys(wrong, (1 - right) * (1 - misconception) / len(wrong))
    shown[own.choice(wrong)] += (1 - right) * misconception
    return shown


def demonstrate_fact(chain: Chain, rng: random.Random, base: int, known: list[float], misconception: float) -> str:
    """The answer alone, drawn by the probabilities of `belief`."""
    shown = belief(chain, base, known, misconception)
    return f"#### {rng.choices(list(shown), list(shown.values()))[0]}"


# --- the steps of a solution -----------------------------------------------------------------------------------------


def read_swaps(question: str) -> Chain:
    """Parse and solve a question of `draw_swaps`."""
    start = re.findall(r"(\w+) (\w+)", question.partition(".")[0])
    steps = re.findall(r"At (\w+) (\w+) and (\w+) swap\.", question)
    (asked,) = re.findall(r"what does (\w+) hold", question)
    held = dict(start)
    for _, a, b in steps:
        held[a], held[b] = held[b], held[a]
    return Chain(question, held[asked], len(steps), tuple(start), tuple(steps), asked)


OPERATIONS = (  # (pattern of a sentence, operation, operand if the pattern captures none)
    (r"(?:buys|finds) (\d+) more\.", "+", 0), (r"(?:loses|gives away) (\d+)\.", "-", 0),
    (r"sells half\.", "/", 2), (r"doubles the", "*", 2), (r"triples the", "*", 3),
)  # fmt: skip


def read_arithmetic(question: str) -> Chain:
    """Parse and solve a question of `draw_arithmetic`."""
    who, value = re.match(r"(\w+) has (\d+)", question).groups()
    steps, value = [], int(value)
    start = value
    for sentence in re.findall(rf"{who} (?!has)(.+?(?:\.|$))", question.rpartition("How many")[0]):
        steps += [
            (sign, int(found[1]) if found.re.groups else by)
            for pattern, sign, by in OPERATIONS
            if (found := re.match(pattern, sentence))
        ]
    for step in steps:
        value = apply(step, value)
    return Chain(question, str(value), len(steps), (start,), tuple(steps), who)


def solutions(family: str, question: str) -> set[str] | None:
    """The worked solutions of a question without a wrong step: for swaps one for each number of restatements. None for a family
    without worked solutions, such as facts, which have no steps."""
    rng = random.Random(0)  # has no effect: slip is 0
    if family == "swaps":
        chain = read_swaps(question)
        return {demonstrate_swaps(chain, rng, 0.0, (0.0,) * times + (1.0,)) for times in range(len(RESTATED) + 1)}
    if family == "arithmetic":
        return {demonstrate_arithmetic(read_arithmetic(question), rng, dict.fromkeys("+-*/", 0.0))}
    return None


def vocabulary(families: Collection[str] = ()) -> list[str]:
    """Every word and sign of questions and demonstrations. Digits are separate, see training/pretraining.py.

    Words of facts are included only if `families` has facts, so that the token ids of other models do not depend on them.
    """
    sentences = (
        ", . At and swap the end what does hold ? has buys finds more loses gives away sells half doubles "
        "triples How many have : ; + - * / = #### Answer"
    )
    words = [*NAMES, *COLOURS, *HOURS, *THINGS, *sentences.split()]
    return words + (["Which", "animal", "of", "keep", *KEEPERS, *TOWNS, *ANIMALS] if "facts" in families else [])
