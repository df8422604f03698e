"""The options of `hardgrpo choose`, and the policy that they name."""

import argparse
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields

from pydantic import ValidationError

from hardgrpo.grading import graders
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.study.policy import Policy

# short names of policies, as in config/policies.yaml
ALIASES = {
    "agreement_lowest": {"rule": "lowest", "by": "agreement"},
    "agreement_half": {"rule": "nearest_half", "by": "agreement"},
    "entropy_highest": {"rule": "highest", "by": "entropy"},
}


MEASURES = ("pass_rate", "agreement", "entropy", "answered_share", "mean_tokens")
# {the first option of a group: the group's title in the help}
GROUPS = {
    "budget": "what is chosen",
    "question": "the file",
    "url": "a model behind a server",
    "samples": "sampling",
    "completions": "completions or pass rates that you have",
    "grader": "grading",
}


def read_budget(text: str) -> int | float:
    """A number of prompts, or a share of the pool (10%, 0.1)."""
    with contextlib.suppress(ValueError):
        if text.endswith("%") and 0 < float(text[:-1]) <= 100:
            return float(text[:-1]) / 100
        if 0 < float(text) < 1:
            return float(text)
        if int(text) > 0:
            return int(text)
    raise argparse.ArgumentTypeError(
        f"'{text}' is neither a number of prompts nor a share such as 10%"
    )


def option(help: str, default: object = None, **settings):
    """A field of `Options`; `settings` are those of `argparse`."""
    if default not in (None, False):
        help = f"{help} (default: {default})"
    return field(default=default, metadata={"help": help} | settings)


@dataclass
class Options:
    """The options of `hardgrpo choose`."""

    budget: float | int | None = option(
        "number of prompts to choose, or a share such as 10%%", type=read_budget
    )
    policy: str | None = option(
        f"how to choose: {', '.join([*policies.RULES, *ALIASES])} (default: nearest_half with answers, else random)",
        metavar="RULE",
    )
    by: str | None = option("the measure of lowest, highest or nearest_half", choices=MEASURES)
    low: float | None = option("lowest pass rate of band (default: 0.2)", type=float)
    high: float | None = option("highest pass rate of band (default: 0.8)", type=float)
    order: str | None = option("with band and a budget: draw at random", choices=["random"])
    threshold: float | None = option("of base_wrong and base_right", type=float)
    highest_tier: float | None = option("of low_tiers", type=float)
    tier: str | None = option("column of tiers", metavar="COLUMN")
    seed: int = option("decides ties and random choices", 0, type=int)
    limit: int | None = option("try the first N prompts only", type=int, metavar="N")

    question: str | None = option(
        "column of prompts; dots lead into nested columns", metavar="COLUMN"
    )
    answer: str | None = option("column of answers", metavar="COLUMN")

    url: str | None = option("address with OpenAI's interface, usually with /v1 at its end")
    model: str | None = option("the model's name on the server")
    key: str | None = option("environment variable with the server's key", metavar="VARIABLE")
    price: tuple[float, float] | None = option(
        "prices of a million input and a million output tokens",
        nargs=2,
        type=float,
        metavar=("INPUT", "OUTPUT"),
    )
    most_money: float | None = option(
        "stop before the requests cost more; needs --price", type=float
    )
    concurrency: int | None = option("requests at the same time (default: 32)", type=int)

    samples: int = option("completions per prompt", 8, type=int)
    completion_tokens: int = option("largest number of tokens of a completion", 2048, type=int)
    temperature: float = option("sampling temperature", 1.0, type=float)
    top_p: float = option("nucleus of tokens that is sampled from", 1.0, type=float)
    system: str | None = option("system message", metavar="TEXT")
    prompt: str | None = option(
        "template around each prompt, with {question} and {COLUMN}", metavar="TEMPLATE"
    )

    # files or a column; from Python, also the texts of each row
    completions: list | None = option(
        "files of completions (own JSON Lines, lm-evaluation-harness, inspect_ai, batch outputs), or a column of the prompts' file",
        nargs="+",
        metavar="FILE",
    )
    # from Python, also a value for each row
    pass_rate: str | list[float] | None = option("column of pass rates", metavar="COLUMN")
    percent: bool = option("the pass rates are percentages", False, action="store_true")

    # from Python, also a function
    grader: str | Callable | None = option(
        f"{', '.join(graders.GRADERS)}, or FILE.py:FUNCTION with the signature of TRL's reward functions (default: the first that reads the answers)",
        metavar="GRADER",
    )
    right_above: float = option("a value of FUNCTION above this is right", 0.5, type=float)
    group: int = option(
        "rollouts per prompt in the training, for the share of mixed groups", 8, type=int
    )

    @classmethod
    def add_to(cls, parser: argparse.ArgumentParser) -> dict[str, argparse._ArgumentGroup]:
        """Add the options to a parser. Returns its groups of options by title."""
        groups = {}
        for entry in fields(cls):
            if title := GROUPS.get(entry.name):
                group = groups[title] = parser.add_argument_group(title)
            name = f"--{entry.name.replace('_', '-')}"
            group.add_argument(name, default=entry.default, **entry.metadata)
        return groups

    def check(self) -> None:
        """Raise a `UserError` for values and combinations that cannot work."""
        names = ("url", "pass_rate", "completions")
        sources = [f"--{n.replace('_', '-')}" for n in names if getattr(self, n) is not None]
        if len(sources) > 1:
            raise UserError(f"{' and '.join(sources)} exclude each other; leave one out")
        if self.url and not self.model:
            raise UserError("--url: name the server's model with --model")
        if self.most_money is not None and not self.price:
            raise UserError("--most-money: the price of a token is unknown; add --price")
        for name, least in (("samples", 1), ("completion_tokens", 1), ("group", 2), ("limit", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UserError(f"--{name.replace('_', '-')} is {value}, expected {least} or more")
        if not 0 < self.temperature <= 5 or not 0 < self.top_p <= 1:
            raise UserError(
                f"--temperature {self.temperature:g}, --top-p {self.top_p:g}: expected a temperature above 0 and up to 5, and a share above 0"
            )

    def policy_entry(self, is_labelled: bool) -> dict:
        """The policy as an entry of a configuration. Raise a `UserError` if it is incomplete."""
        name = self.policy or ("nearest_half" if is_labelled else "random")
        entry = dict(ALIASES.get(name, {"rule": name}))
        keys = ("by", "low", "high", "order", "threshold", "highest_tier")
        entry |= {key: getattr(self, key) for key in keys if getattr(self, key) is not None}
        if self.budget is not None:
            is_number = isinstance(self.budget, int)
            entry["budget"] = {"prompts": self.budget} if is_number else self.budget
        if name not in policies.RULES and name not in ALIASES:
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
