"""How a claim is judged: the rows in its scope, and the verdict that an interval gives.

- supported: the interval lies where the claim says; contradicted: it lies on the other side; undecided: otherwise.
- Where the table corrects p for the number of comparisons (Holm), p_holm must be at most 0.05, too.
- A claim about policies needs two seeds, because one run says nothing about another run. A claim about the parts of a gain needs one.
- An interval that holds zero does not show that two policies are equal: it must lie within a stated margin.
"""

from dataclasses import dataclass

from scipy import stats

SUPPORTED, CONTRADICTED, UNDECIDED = "supported", "contradicted", "undecided"
ALPHA = 0.05
TESTED = ("same", "other", "roomier", "tighter")
ONLY = ("model", "task", "eval_task")


@dataclass(frozen=True)
class Study:
    """The tables (rows by name), and the settings that decide which rows a claim is about.

    `tasks` is {name: {"completion_tokens": int, "problems": a name that tasks over the same problems share}}. `weaker` lists the
    tasks and models with the weaker signal.
    """

    tables: dict[str, list[dict]]
    tasks: dict[str, dict]
    weaker: list[str]

    def rows(self, table: str, claim: dict, **values) -> list[dict]:
        """Rows of a table in the claim's scope, with the given values."""
        found = [row for row in self.tables.get(table, []) if in_scope(row, claim, self.tasks)]
        return [row for row in found if all(row.get(key) == value for key, value in values.items())]

    def by_cell(self, table: str, claim: dict) -> dict[tuple, list[dict]]:
        """Rows of a table in the claim's scope, by cell."""
        found: dict[tuple, list[dict]] = {}
        for row in self.rows(table, claim):
            found.setdefault(cell_of(row), []).append(row)
        return found


def cell_of(row: dict) -> tuple:
    return row["model"], row["task"], row.get("eval_task", row["task"])


def relation(task: str, eval_task: str, tasks: dict[str, dict]) -> str:
    """How the test relates to the task that was trained on: a word of TESTED; "alike" if only the grader or the prompt differs."""
    if task == eval_task:
        return "same"
    one, other = tasks[task], tasks[eval_task]
    if one["problems"] != other["problems"]:
        return "other"
    limits = one["completion_tokens"], other["completion_tokens"]
    return "alike" if limits[0] == limits[1] else "roomier" if limits[1] > limits[0] else "tighter"


def in_scope(row: dict, claim: dict, tasks: dict[str, dict]) -> bool:
    _, task, eval_task = cell = cell_of(row)
    only = claim.get("only", {})
    if any(value not in only.get(key, [value]) for key, value in zip(ONLY, cell)):
        return False
    return claim.get("tested", "same") == "any" or relation(task, eval_task, tasks) == claim.get("tested", "same")


def verdict(low: float, high: float, p_holm: float | None = None) -> str:
    """The verdict on a claim that an estimate is positive. Unknown ends (nan) leave the claim undecided."""
    if p_holm is not None and p_holm > ALPHA:
        return UNDECIDED
    return SUPPORTED if low > 0 else CONTRADICTED if high < 0 else UNDECIDED


def within(low: float, high: float, margin: float) -> str:
    """The verdict on a claim that a difference is zero: two one-sided tests, at 2.5 % because the interval is a 95 % one."""
    if -margin < low and high < margin:
        return SUPPORTED
    return CONTRADICTED if low > margin or high < -margin else UNDECIDED


def result(cell: tuple, test: str, interval: tuple, seeds, n, said: str, p_holm=None) -> dict:
    names = ("model", "task", "eval_task", "estimate", "low", "high")
    return dict(zip(names, (*cell, *interval))) | {"test": test, "p_holm": p_holm, "seeds": seeds, "n": n, "verdict": said}


def about_policies(said: str, seeds) -> str:
    return said if seeds and seeds > 1 else UNDECIDED


def interval_of(row: dict, name: str, sign: int = 1) -> tuple[float, float, float]:
    ends = sorted((sign * row[f"{name}_low"], sign * row[f"{name}_high"]))
    return sign * row[name], *ends


def widened(interval: tuple, seeds, comparisons: int) -> tuple[float, float, float]:
    """A 95 % interval corrected for several comparisons (Bonferroni). All of its width is treated as a t term over seeds: the widest case."""
    estimate, low, high = interval
    degrees = max((seeds or 2) - 1, 1)
    factor = float(stats.t.ppf(1 - 0.025 / comparisons, degrees) / stats.t.ppf(0.975, degrees))
    return estimate, estimate - factor * (estimate - low), estimate + factor * (high - estimate)


def known_or(value, otherwise=None):
    return otherwise if value is None or value != value else value
