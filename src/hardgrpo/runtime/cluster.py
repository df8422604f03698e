"""Check before the first job is submitted that a Slurm cluster can run all jobs of a study.

Slurm itself refuses an impossible job only when that job is submitted, perhaps hours later, or leaves it pending for ever.
"""

import getpass
import math
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field

from hardgrpo.runtime.errors import UserError


@dataclass(frozen=True)
class Request:
    """The resources that a job requests."""

    rule: str
    partition: str | None = None  # several are separated by commas; None: the cluster's default
    gpus: int = 0
    gpu_name: str | None = None
    mem_mb: int = 0
    cpus: int = 1
    minutes: int = 0
    constraint: str | None = None
    account: str | None = None


@dataclass(frozen=True)
class Node:
    cpus: int
    mem_mb: int
    gpus: dict[str, int] = field(default_factory=dict)  # number by kind; kind "" where the cluster does not name it
    features: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()

    def count(self, gpu_name: str | None) -> int:
        return self.gpus.get(gpu_name, 0) if gpu_name else sum(self.gpus.values())


@dataclass(frozen=True)
class Partition:
    name: str
    minutes: float = math.inf
    default: bool = False
    open: bool = True
    nodes: tuple[Node, ...] = ()


def problems(requests: Iterable[Request], partitions: list[Partition], accounts: set[str] | None) -> list[str]:
    """One line for each rule and resource that the cluster cannot provide. `accounts` is None if the cluster does not list them."""
    found: dict[tuple, tuple] = {}
    for request in requests:
        for resource, amount, text in _problems(request, partitions, accounts):
            key = (request.rule, resource, request.partition)
            found[key] = max(found.get(key, (0, "")), (amount, f"rule {request.rule}: {resource}: {text}"))
    return [text for _, text in found.values()]


def _problems(asked: Request, partitions: list[Partition], accounts: set[str] | None):
    if asked.account and accounts is not None and asked.account.lower() not in accounts:
        yield (
            "slurm_account",
            0,
            f"'{asked.account}' is none of your accounts ({', '.join(sorted(accounts))}); correct slurm_account in slurm/config.yaml",
        )
    known = {partition.name: partition for partition in partitions}
    if asked.partition:
        names = asked.partition.split(",")
        entry = "gpu_partition or slurm_partition" if asked.gpus else "slurm_partition"
    else:
        names = [partition.name for partition in partitions if partition.default]
        entry = "slurm_partition"
        if not names:
            yield (
                "slurm_partition",
                0,
                f"not set, and the cluster has no default; set {entry} in slurm/config.yaml to one of {', '.join(known)}",
            )
            return
    unknown = [name for name in names if name not in known]
    for name in unknown:
        yield (
            "slurm_partition",
            0,
            f"the cluster has no '{name}'; correct {entry} in slurm/config.yaml (partitions: {', '.join(known)})",
        )
    for name in names:
        if name in known and not known[name].open:
            yield "slurm_partition", 0, f"'{name}' takes no jobs at present; wait, or name another in slurm/config.yaml"
    if unknown:
        return
    where = f"in partition {','.join(names)}"
    longest = max(known[name].minutes for name in names)
    if asked.minutes > longest:
        yield (
            "runtime",
            asked.minutes,
            f"{asked.minutes} min asked for, at most {longest:.0f} allowed {where}; set longest_runtime: {longest:.0f} in slurm/config.yaml",
        )
    nodes = [node for name in names for node in known[name].nodes]
    if re.fullmatch(r"[\w.-]+(&[\w.-]+)*", asked.constraint or ""):  # Slurm checks anything more complex
        wanted = set(asked.constraint.split("&"))
        features = sorted(set().union(*(node.features for node in nodes)))
        nodes = [node for node in nodes if wanted <= node.features]
        if not nodes:
            entry = "gpu_constraint or constraint" if asked.gpus else "constraint"
            has = ", ".join(features) or "none"
            yield (
                "constraint",
                0,
                f"no node {where} has '{asked.constraint}' (features: {has}); correct {entry} in slurm/config.yaml",
            )
            return
    kinds = ", ".join(sorted({kind for node in nodes for kind in node.gpus if kind}))
    limits = [
        (
            "gpu",
            asked.gpus,
            lambda node: node.count(asked.gpu_name),
            f"{asked.gpu_name} GPUs" if asked.gpu_name else "GPUs",
            "correct gpu_partition or gpu_name in slurm/config.yaml, or the model's gpus in config.yaml"
            + (f" (kinds there: {kinds})" if kinds else ""),
        ),
        ("mem_mb", asked.mem_mb, lambda node: node.mem_mb, "MB", f"name larger nodes, or set-resources {asked.rule}:mem_mb"),
        (
            "cpus_per_task",
            asked.cpus,
            lambda node: node.cpus,
            "CPUs",
            f"name larger nodes, or set-resources {asked.rule}:cpus_per_task",
        ),
    ]
    short = False
    for resource, amount, has, unit, advice in limits:
        most = max(map(has, nodes), default=0)
        if amount > most:
            short = True
            yield resource, amount, f"{amount} {unit} asked for on one node, at most {most} {where}; {advice}"
    if not short and not any(all(amount <= has(node) for _, amount, has, _, _ in limits) for node in nodes):
        together = ", ".join(f"{amount} {unit}" for _, amount, _, unit, _ in limits if amount)
        yield "node", 0, f"no single node {where} has {together}; lower one of them with set-resources"


def read_partitions(partitions: str, nodes: str) -> list[Partition]:
    """The cluster, from the output of `scontrol -o show partition` and `scontrol -o show node`."""
    members = [_node(fields) for fields in map(_fields, nodes.splitlines()) if "NodeName" in fields]
    found = []
    for fields in map(_fields, partitions.splitlines()):
        if "PartitionName" in fields:
            name = fields["PartitionName"]
            inside = tuple(node for node in members if name in node.partitions)
            is_open = fields.get("State", "UP") in ("UP", "DOWN")  # a partition that is DOWN still queues jobs
            found.append(Partition(name, minutes(fields.get("MaxTime", "")), fields.get("Default") == "YES", is_open, inside))
    return found


def _fields(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S*)", line))


def _node(fields: dict[str, str]) -> Node:
    gpus: dict[str, int] = {}
    for entry in re.sub(r"\([^)]*\)", "", fields.get("Gres", "")).split(","):  # gpu:h100:4(S:0-1), gpu:4, gpu:1g.10gb:7
        name, *rest = entry.split(":")
        if name == "gpu":
            count = int(rest.pop()) if rest and rest[-1].isdigit() else 1
            kind = rest[0] if rest else ""
            gpus[kind] = gpus.get(kind, 0) + count
    features = fields.get("AvailableFeatures", "(null)")
    return Node(
        int(fields.get("CPUEfctv") or fields["CPUTot"]),
        int(fields["RealMemory"]) - int(fields.get("MemSpecLimit", 0)),
        gpus,
        frozenset() if features == "(null)" else frozenset(features.split(",")),
        frozenset(fields.get("Partitions", "").split(",")),
    )


def minutes(limit: str) -> float:
    """A time limit as Slurm writes it (1-12:00:00, 02:00:00, UNLIMITED)."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", limit)
    if found is None:
        return math.inf
    days, hours, mins, seconds = (int(part or 0) for part in found.groups())
    return days * 1440 + hours * 60 + mins + seconds / 60


def check(requests: Iterable[Request]) -> None:
    """Raise a `UserError` with one line for each request that this cluster cannot satisfy."""
    if shutil.which("scontrol") is None or shutil.which("sbatch") is None:
        raise UserError(
            "profile slurm: Slurm is not on this machine (no scontrol, no sbatch); run on a login node of the cluster, or use --profile"
            " laptop"
        )
    partitions = read_partitions(*(_ask("scontrol", "-a", "-o", "show", what) for what in ("partition", "node")))
    requests = set(requests)
    accounts = _accounts() if any(request.account for request in requests) else None
    found = problems(sorted(requests, key=str), partitions, accounts)
    if found:
        raise UserError("nothing was submitted, because the cluster cannot run all jobs:", *found)


def _ask(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(f"{' '.join(command)}: no answer in 60 s; ask the cluster's status page, and start again later") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().replace("\n", "; ")
        raise UserError(f"{' '.join(command)}: {said}; check that this machine reaches Slurm, and start again")
    return done.stdout


def _accounts() -> set[str] | None:
    """The accounts that this user may charge; None if the cluster does not list them."""
    try:
        told = _ask("sacctmgr", "-nP", "show", "assoc", f"user={getpass.getuser()}", "format=account")
    except (UserError, OSError):
        return None
    return {line.strip().lower() for line in told.splitlines() if line.strip()} or None
