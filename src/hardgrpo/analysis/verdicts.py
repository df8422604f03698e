"""What a claim is judged by: the rows in its scope, and the verdict that an interval gives at this scale.

- supported: the interval lies where the claim says; contradicted: it lies on the other side; undecided: otherwise.
- Where the table corrects its p for the number of comparisons (Holm), p_holm must be at most 0.05 as well.
- A claim about policies needs two seeds: one run of each says nothing about another run. What a gain is made of can be said of one.
- That two policies are equal is not shown by an interval that holds zero: it must lie within a stated margin.
"""

from dataclasses import dataclass

from scipy import stats

SUPPORTED, CONTRADICTED, UNDECIDED = "supported", "contradicted", "undecided"
ALPHA = 0.05
TESTED = ("same", "other", "roomier", "tighter")
ONLY = ("model", "task", "eval_task")


@dataclass(frozen=True)
class Study:
    """The tables (rows by name) and what of the configuration decides which rows a claim is about.

    `tasks`: by name {"completion_tokens": int, "problems": a name that tasks over the same problems share};
    `weaker`: the tasks and models with the weaker signal.
    """

    tables: dict[str, list[dict]]
    tasks: dict[str, dict]
    weaker: list[str]

    def rows(self, table: str, claim: dict, **values) -> list[dict]:
        """Rows of a table in the claim's scope, with the given values."""
        found = [row for row in self.tables.get(table, []) if in_scope(row, claim, self.tasks)]
        return [row for row in found if all(row.get(key) == value for key, value in values.items())]

    def cells(self, table: str, claim: dict) -> list[tuple]:
        return list(dict.fromkeys(cell_of(row) for row in self.rows(table, claim)))


def cell_of(row: dict) -> tuple:
    return row["model"], row["task"], row.get("eval_task", row["task"])


def relation(task: str, eval_task: str, tasks: dict[str, dict]) -> str:
    """How what a run is tested on relates to what it was trained on: a word of TESTED; "alike" for another grader or prompt."""
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
    """Of an estimate that the claim says is positive; nan is not known, and what is not known decides nothing."""
    if p_holm is not None and p_holm > ALPHA:
        return UNDECIDED
    return SUPPORTED if low > 0 else CONTRADICTED if high < 0 else UNDECIDED


def within(low: float, high: float, margin: float) -> str:
    """Of a difference that the claim says is nothing: two one-sided tests (at 2.5 %, for the interval is a 95 % one)."""
    if -margin < low and high < margin:
        return SUPPORTED
    return CONTRADICTED if low > margin or high < -margin else UNDECIDED


def result(cell: tuple, test: str, interval: tuple, seeds, n, said: str, p_holm=None) -> dict:
    model, task, eval_task = cell
    estimate, low, high = interval
    return {"model": model, "task": task, "eval_task": eval_task, "test": test, "estimate": estimate, "low": low, "high": high} | {
        "p_holm": p_holm, "seeds": seeds, "n": n, "verdict": said
    }  # fmt: skip


def about_policies(said: str, seeds) -> str:
    return said if seeds and seeds > 1 else UNDECIDED


def interval_of(row: dict, name: str, sign: int = 1) -> tuple[float, float, float]:
    ends = sorted((sign * row[f"{name}_low"], sign * row[f"{name}_high"]))
    return sign * row[name], *ends


def widened(interval: tuple, seeds, comparisons: int) -> tuple[float, float, float]:
    """A 95 % interval as one of several (Bonferroni), as if all of its width were a t term over seeds: the widest it can be."""
    estimate, low, high = interval
    degrees = max((seeds or 2) - 1, 1)
    factor = float(stats.t.ppf(1 - 0.025 / comparisons, degrees) / stats.t.ppf(0.975, degrees))
    return estimate, estimate - factor * (estimate - low), estimate + factor * (high - estimate)


def known_or(value, otherwise=None):
    return otherwise if value is None or value != value else value
