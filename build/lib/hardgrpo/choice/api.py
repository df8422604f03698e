"""`hardgrpo.choose`: the command as a function, for use with a trainer in one program."""

from collections.abc import Callable, Iterable, Sequence

from hardgrpo.choice import choice_plan
from hardgrpo.choice import choose as choices
from hardgrpo.choice.choice_options import Options
from hardgrpo.choice.choose import Choice
from hardgrpo.choice.measures import OwnGrader
from hardgrpo.choice.rows import Rows
from hardgrpo.runtime.errors import UserError


def choose(
    rows: Iterable[dict],
    policy: str | None = None,
    budget: float | int | None = None,
    server: dict | None = None,
    pass_rates: Sequence[float] | str | None = None,
    completions: Sequence[Sequence[str]] | Sequence[str] | str | None = None,
    grader: str | Callable | None = None,
    **options,
) -> Choice:
    """Choose rows to annotate or to train on.

    `rows` are dictionaries, or a `datasets.Dataset`. `policy` and `budget` are as in `hardgrpo
    choose --help`; `server` has the keys url and model, and optionally key, price, most_money and
    concurrency. Instead of a server, `pass_rates` (one for each row, or the name of a column) or
    `completions` (a list of texts for each row, the name of a column, or files). `grader` is the
    name of a grader or a reward function as for TRL. `options` are further fields of
    `choice.choose.Options`, such as samples=8.

    Returns a `Choice`: `rows` (the chosen rows with pass rate and reason), `measures`, `expected`,
    and `trainer_rows("trl")`. Raises `hardgrpo.runtime.errors.UserError` for wrong input.
    """
    rows = [dict(row) for row in rows]
    if not rows:
        raise UserError("rows: no rows; expected at least one")
    places = [f"row {number}" for number in range(1, len(rows) + 1)]
    content = Rows("rows", "list of rows", "", rows, places, write=lambda *_: None)
    if isinstance(completions, str):
        completions = [completions]
    names = None if callable(grader) else grader
    fields = Options(
        policy=policy, budget=budget, pass_rate=pass_rates, completions=completions, grader=names,
        **(server or {}), **options,
    )  # fmt: skip
    name = getattr(grader, "__name__", repr(grader))
    own = OwnGrader(name, grader, fields.right_above) if callable(grader) else None
    plan = choice_plan.prepare(content, fields, own)
    plan.check()
    return choices.run(plan)
