"""The options of `hardgrpo choose`, and the policy that they name."""

import re
from dataclasses import dataclass

from pydantic import ValidationError

from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import policies
from hardgrpo.study.policy import Policy

# short names of policies, as in config/policies.yaml
ALIASES = {
    "agreement_lowest": {"rule": "lowest", "by": "agreement"},
    "agreement_half": {"rule": "nearest_half", "by": "agreement"},
    "entropy_highest": {"rule": "highest", "by": "entropy"},
}


@dataclass
class Options:
    """The options of `hardgrpo choose`; see its help."""

    budget: float | int | None = None  # a number of prompts, or a share of the pool
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
        sources = [name for name, value in sources.items() if value is not None]
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
