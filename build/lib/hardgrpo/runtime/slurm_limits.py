"""Limits of Slurm's accounting for a user's jobs, set by the QOS of a job and the associations of
its account.

For each kind of limit, Slurm applies the limit of the first of these levels that sets one: the QOS
of the partition, the QOS of the job, the user's association, the account's association
(https://slurm.schedmd.com/resource_limits.html).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ASSOCIATION = (
    "cluster",
    "account",
    "user",
    "partition",
    "maxsubmit",
    "grpsubmit",
    "maxwall",
    "maxtres",
    "grptres",
    "defaultqos",
    "qos",
)
QOS = (
    "name",
    "maxsubmitpu",
    "maxsubmitpa",
    "grpsubmit",
    "maxwall",
    "maxtres",
    "maxtrespu",
    "grptres",
)
# {column of sacctmgr: scope of its limit}, for limits on jobs in the queue and on their resources
JOBS = {"maxsubmit": "user", "maxsubmitpu": "user", "maxsubmitpa": "account", "grpsubmit": "group"}
RESOURCES = {"maxtres": "job", "maxtrespu": "user", "grptres": "group"}
MB = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}


@dataclass(frozen=True)
class Level:
    """The limits that a QOS or an association sets."""

    owner: str  # for messages
    # {(scope, quantity): amount}. Scope: job, user, account or group; quantity: jobs, minutes, or a
    # resource of Slurm, such as mem (in MB), cpu, node, gres/gpu or gres/gpu:KIND
    limits: dict[tuple[str, str], float]


@dataclass(frozen=True)
class Accounting:
    """The limits of a user, as listed by `sacctmgr`."""

    qos: dict[str, Level]
    # by account, user ("": the account itself) and partition ("": all)
    associations: dict[tuple[str, str, str], Level]
    default_qos: dict[str, str]  # by account

    def levels(
        self, account: str | None, qos: str | None, partition: str, partition_qos: str | None
    ) -> list[Level]:
        """The levels that apply to a job, in order of precedence. Without an account, only levels
        of QOS are included."""
        account = (account or "").lower()
        users = {user for _, user, _ in self.associations}
        keys = [
            (account, user, name)
            for user in sorted(users, reverse=True)  # the user's association before the account's
            for name in (partition, "")
        ]
        levels = [
            self.qos.get(partition_qos or ""),
            self.qos.get(qos or self.default_qos.get(account) or ""),
            *map(self.associations.get, dict.fromkeys(keys)),
        ]
        return [level for level in levels if level]


def read_accounting(associations: str, qos: str, user: str, cluster: str) -> Accounting:
    """The limits in the output of `sacctmgr -nP show assoc` and `show qos` with the columns
    ASSOCIATION and QOS."""
    user_rows = [
        row
        for row in rows(ASSOCIATION, associations)
        if row["cluster"].lower() == cluster.lower() and row["user"] in ("", user)
    ]
    levels = {}
    for row in user_rows:
        owner = f"account {row['account']}" + (
            f" in partition {row['partition']}" if row["partition"] else ""
        )
        levels[row["account"].lower(), row["user"], row["partition"]] = Level(owner, _limits(row))
    default_qos = {
        row["account"].lower(): name
        for row in user_rows
        if row["user"] and (name := _default_qos(row))
    }
    return Accounting(
        {row["name"]: Level(f"QOS {row['name']}", _limits(row)) for row in rows(QOS, qos)},
        levels,
        default_qos,
    )


def _default_qos(row: dict[str, str]) -> str | None:
    """The QOS of a job that requests none: the association's default, else the association's only
    QOS, else `normal`. None if the association does not allow `normal`."""
    names = row["qos"].split(",")
    if row["defaultqos"] or len(names) == 1:
        return row["defaultqos"] or names[0]
    return "normal" if "normal" in names else None


def rows(columns: Sequence[str], text: str) -> list[dict[str, str]]:
    """The rows in the output of `sacctmgr -nP` with these columns."""
    return [
        dict(zip(columns, line.split("|")))
        for line in text.splitlines()
        if line.count("|") == len(columns) - 1
    ]


def _limits(row: dict[str, str]) -> dict[tuple[str, str], float]:
    limits = {
        (scope, "jobs"): int(row[column])
        for column, scope in JOBS.items()
        if row.get(column, "").isdigit()
    }
    for column, scope in RESOURCES.items():  # cpu=4,mem=16G,gres/gpu:h100=2
        for name, amount, unit in re.findall(r"([^=,]+)=([\d.]+)([KMGTP]?)", row.get(column, "")):
            limits[scope, name] = float(amount) * MB[unit]
    return limits | ({("job", "minutes"): minutes(row["maxwall"])} if row["maxwall"] else {})


def minutes(limit: str) -> float:
    """A time limit as Slurm writes it (1-12:00:00, 02:00:00, UNLIMITED) in minutes."""
    parts = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", limit)
    if parts is None:
        return float("inf")
    days, hours, mins, seconds = (int(part or 0) for part in parts.groups())
    return days * 1440 + hours * 60 + mins + seconds / 60


def problems(jobs: Iterable[tuple], at_once: int) -> list[tuple]:
    """[(rule, resource, amount, text)] for each limit that a request exceeds, and for each exceeded
    limit on the number of jobs in the queue.

    `jobs` holds (`cluster.Request`, its levels) for each job; `at_once` is the largest number of
    jobs that are in the queue at the same time.
    """
    excesses, queues = [], Counter()
    for request, levels in jobs:
        requested = {
            "minutes": request.minutes,
            "cpu": request.cpus,
            "mem": request.mem_mb,
            "gres/gpu": request.gpus,
            "node": 1,
        }
        requested |= {f"gres/gpu:{request.gpu_name}": request.gpus} if request.gpu_name else {}
        effective = {}
        for level in levels:
            for kind, amount in level.limits.items():
                effective.setdefault(kind, (amount, level.owner))
        # the same limit for two scopes (a user, the whole account) counts a job once
        queues.update(
            {(limit, owner) for (_, name), (limit, owner) in effective.items() if name == "jobs"}
        )
        for (_, name), (limit, owner) in effective.items():
            if name == "jobs":
                continue
            if requested.get(name, 0) > limit:
                excesses.append(_excess(request.rule, name, requested[name], limit, owner))
    for (limit, owner), count in queues.items():
        if (submitted := min(count, at_once)) > limit:
            remedy = (
                f"set jobs: {limit} in slurm/config.yaml, or to a lower number if you have other jobs in the queue"
                if limit
                else "name another account or QOS"
            )
            text = f"{submitted} jobs requested in the queue at the same time, at most {limit} allowed by {owner}; {remedy}"
            excesses.append(("", "jobs", -limit, text))
    return excesses


def _excess(rule: str, name: str, amount: float, limit: float, owner: str) -> tuple:
    if name == "minutes":
        text = f"{amount} min requested, at most {limit:.0f} allowed by {owner}; set longest_runtime: {limit:.0f} in slurm/config.yaml"
        return rule, "runtime", amount, text
    resource = {"cpu": "cpus_per_task", "mem": "mem_mb", "node": "nodes"}.get(name, "gpu")
    unit = {"cpu": "CPUs", "mem": "MB", "node": "nodes"}.get(name, "GPUs")
    another = "name another QOS (slurm-qos in slurm/config.yaml)"
    remedy = {
        "gpu": f"lower the model's gpus in config/models.yaml, or {another}",
        "nodes": f"{another} or another account",  # a job needs one node
    }.get(resource, f"lower the request with set-resources {rule}:{resource}, or {another}")
    text = f"{amount} {unit} requested, at most {limit:.0f} allowed by {owner}; {remedy}"
    return rule, resource, amount, text
