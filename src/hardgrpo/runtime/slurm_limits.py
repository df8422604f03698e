"""Limits that Slurm's accounting sets for a user's jobs: of the QOS of a job and of the associations of its account.

Slurm applies, for each kind of limit, the first of these that sets it: the QOS of the partition, the QOS of the job, the association of
the user, that of the account (https://slurm.schedmd.com/resource_limits.html).
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
QOS = ("name", "maxsubmitpu", "maxsubmitpa", "grpsubmit", "maxwall", "maxtres", "maxtrespu", "grptres")
# {column of sacctmgr: whose limit it is}
JOBS = {"maxsubmit": "user", "maxsubmitpu": "user", "maxsubmitpa": "account", "grpsubmit": "group"}  # jobs in the queue at a time
RESOURCES = {"maxtres": "job", "maxtrespu": "user", "grptres": "group"}
MB = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}


@dataclass(frozen=True)
class Level:
    """The limits that a QOS or an association sets."""

    owner: str  # for messages
    limits: dict[
        tuple[str, str], float
    ]  # {(whose limit, of what): amount}; of what: jobs, minutes, cpu, mem (MB), gres/gpu, gres/gpu:KIND


@dataclass(frozen=True)
class Accounting:
    """What `sacctmgr` says of the limits of a user."""

    qos: dict[str, Level]
    associations: dict[tuple[str, str, str], Level]  # by account, user ("": the account itself) and partition ("": all)
    default_qos: dict[str, str]  # by account

    def levels(self, account: str | None, qos: str | None, partition: str, partition_qos: str | None) -> list[Level]:
        """The levels that hold for a job, the strongest first. Without an account only QOS are known."""
        account = (account or "").lower()
        users = {user for _, user, _ in self.associations}
        keys = [(account, user, place) for user in sorted(users, reverse=True) for place in (partition, "")]
        strongest = [self.qos.get(name or "") for name in (partition_qos, qos or self.default_qos.get(account))]
        return [level for level in [*strongest, *map(self.associations.get, dict.fromkeys(keys))] if level]


def read(associations: str, qos: str, user: str, cluster: str) -> Accounting:
    """The output of `sacctmgr -nP show assoc` and `show qos` with the columns ASSOCIATION and QOS."""
    own = [
        row for row in rows(ASSOCIATION, associations) if row["cluster"].lower() == cluster.lower() and row["user"] in ("", user)
    ]
    levels = {}
    for row in own:
        owner = f"account {row['account']}" + (f" in partition {row['partition']}" if row["partition"] else "")
        levels[row["account"].lower(), row["user"], row["partition"]] = Level(owner, _limits(row))
    default_qos = {row["account"].lower(): name for row in own if row["user"] and (name := _default_qos(row))}
    return Accounting({row["name"]: Level(f"QOS {row['name']}", _limits(row)) for row in rows(QOS, qos)}, levels, default_qos)


def _default_qos(row: dict[str, str]) -> str | None:
    """The QOS of a job that names none: the association's default, its only one, or the one that every cluster has."""
    names = row["qos"].split(",")
    return row["defaultqos"] or (names[0] if len(names) == 1 else "normal" if "normal" in names else None)


def rows(columns: Sequence[str], text: str) -> list[dict[str, str]]:
    """The output of `sacctmgr -nP` with these columns."""
    return [dict(zip(columns, line.split("|"))) for line in text.splitlines() if line.count("|") == len(columns) - 1]


def _limits(row: dict[str, str]) -> dict[tuple[str, str], float]:
    limits = {(scope, "jobs"): int(row[column]) for column, scope in JOBS.items() if row.get(column, "").isdigit()}
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
    """[(rule, resource, amount, text)] of what jobs request beyond a limit, and of more jobs `at_once` in the queue than are allowed.

    `jobs`: for each job (`cluster.Request`, its levels).
    """
    beyond, queues = [], Counter()
    for request, levels in jobs:
        wanted = {"minutes": request.minutes, "cpu": request.cpus, "mem": request.mem_mb, "gres/gpu": request.gpus, "node": 1}
        wanted |= {f"gres/gpu:{request.gpu_name}": request.gpus} if request.gpu_name else {}
        effective = {}
        for level in levels:
            for kind, amount in level.limits.items():
                effective.setdefault(kind, (amount, level.owner))
        for (_, name), (most, owner) in effective.items():
            if name == "jobs":
                queues[most, owner] += 1
            elif wanted.get(name, 0) > most:
                beyond.append(_beyond(request.rule, name, wanted[name], most, owner))
    for (most, owner), count in queues.items():
        if min(count, at_once) > most:
            remedy = (
                f"set jobs: {most} in slurm/config.yaml, or fewer if you have other jobs there"
                if most
                else "name another account or QOS"
            )
            text = f"{at_once} in the queue at a time asked for, at most {most} allowed by {owner}; {remedy}"
            beyond.append(("", "jobs", -most, text))
    return beyond


def _beyond(rule: str, name: str, amount: float, most: float, owner: str) -> tuple:
    if name == "minutes":
        text = (
            f"{amount} min asked for, at most {most:.0f} allowed by {owner}; set longest_runtime: {most:.0f} in slurm/config.yaml"
        )
        return rule, "runtime", amount, text
    resource = {"cpu": "cpus_per_task", "mem": "mem_mb"}.get(name, "gpu")
    unit = {"cpu": "CPUs", "mem": "MB", "node": "nodes"}.get(name, "GPUs")
    lower = (
        "lower the model's gpus in config/models.yaml" if resource == "gpu" else f"lower it with set-resources {rule}:{resource}"
    )
    remedy = f"{lower}, or name another QOS (slurm-qos in slurm/config.yaml)"
    return rule, resource, amount, f"{amount} {unit} asked for, at most {most:.0f} allowed by {owner}; {remedy}"
