"""Check before the first submission that a Slurm cluster can run all jobs of a study.

Without this check, Slurm would refuse an impossible job only when it is submitted, perhaps hours
later, or leave the job pending for ever.
"""

import functools
import getpass
import math
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hardgrpo.runtime import slurm_limits
from hardgrpo.runtime.errors import UserError
from hardgrpo.runtime.slurm_limits import minutes


@dataclass(frozen=True)
class Request:
    """The resources that a job requests."""

    rule: str
    # one name, or several separated by commas; None: the cluster's default
    partition: str | None = None
    gpus: int = 0
    gpu_name: str | None = None
    mem_mb: int = 0
    cpus: int = 1
    minutes: int = 0
    constraint: str | None = None
    account: str | None = None
    qos: str | None = None
    extra: str | None = None  # slurm_extra: further options of sbatch


@dataclass(frozen=True)
class Node:
    """The resources that a node offers to jobs."""

    cpus: int
    mem_mb: int
    # {kind: number}; "" stands for GPUs without a named kind
    gpus: dict[str, int] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()

    def count(self, gpu_name: str | None) -> int:
        """The number of GPUs of a kind, or of all kinds."""
        return self.gpus.get(gpu_name, 0) if gpu_name else sum(self.gpus.values())


@dataclass(frozen=True)
class Partition:
    """A partition with its nodes."""

    name: str
    minutes: float = math.inf
    default: bool = False
    open: bool = True
    # CPUs and memory of these nodes are capped at the partition's limits for one node
    nodes: tuple[Node, ...] = ()
    qos: str | None = None


def problems(
    requests: Iterable[Request], partitions: list[Partition], accounts: set[str] | None
) -> list[str]:
    """One line for each combination of rule, partition and resource for which the cluster cannot
    provide the requested amount.

    `accounts` are the user's accounts in lower case; None if the cluster does not list accounts.
    """
    largest: dict[tuple, tuple] = {}
    for request in requests:
        for resource, amount, text in _problems(request, partitions, accounts):
            key = (request.rule, resource, request.partition)
            largest[key] = max(
                largest.get(key, (0, "")), (amount, f"rule {request.rule}: {resource}: {text}")
            )
    return [text for _, text in largest.values()]


def _problems(request: Request, partitions: list[Partition], accounts: set[str] | None):
    if request.account and accounts is not None and request.account.lower() not in accounts:
        text = f"'{request.account}' is not among your accounts ({', '.join(sorted(accounts))}); correct slurm_account in slurm/config.yaml"
        yield "slurm_account", 0, text
    partitions_by_name = {partition.name: partition for partition in partitions}
    if request.partition:
        names = request.partition.split(",")
        entry = "gpu_partition or slurm_partition" if request.gpus else "slurm_partition"
    else:
        names = [partition.name for partition in partitions if partition.default]
        entry = "slurm_partition"
        if not names:
            text = f"not set, and the cluster has no default partition; set {entry} in slurm/config.yaml to one of {', '.join(partitions_by_name)}"
            yield "slurm_partition", 0, text
            return
    unknown_names = [name for name in names if name not in partitions_by_name]
    for name in unknown_names:
        text = f"the cluster has no partition '{name}'; correct {entry} in slurm/config.yaml (partitions: {', '.join(partitions_by_name)})"
        yield "slurm_partition", 0, text
    for name in names:
        if name in partitions_by_name and not partitions_by_name[name].open:
            text = f"'{name}' accepts no jobs at present; wait, or name another partition in slurm/config.yaml"
            yield "slurm_partition", 0, text
    if unknown_names:
        return
    place = f"in partition {','.join(names)}"
    longest = max(partitions_by_name[name].minutes for name in names)
    if request.minutes > longest:
        text = f"{request.minutes} min requested, at most {longest:.0f} allowed {place}; set longest_runtime: {longest:.0f} in slurm/config.yaml"
        yield "runtime", request.minutes, text
    nodes = [node for name in names for node in partitions_by_name[name].nodes]
    # Slurm itself checks more complex constraints
    if re.fullmatch(r"[\w.-]+(&[\w.-]+)*", request.constraint or ""):
        needed_features = set(request.constraint.split("&"))
        features = sorted(set().union(*(node.features for node in nodes)))
        nodes = [node for node in nodes if needed_features <= node.features]
        if not nodes:
            entry = "gpu_constraint or constraint" if request.gpus else "constraint"
            feature_names = ", ".join(features) or "none"
            text = f"no node {place} has '{request.constraint}' (features: {feature_names}); correct {entry} in slurm/config.yaml"
            yield "constraint", 0, text
            return
    if request.gpus and request.gpu_name and not re.fullmatch(r"[A-Za-z0-9_.-]+", request.gpu_name):
        text = (
            f"'{request.gpu_name}' has characters that Snakemake's plugin refuses (it takes letters, digits, '_', '.' and '-'); remove gpu_name from"
            " slurm/config.yaml, and choose the nodes by gpu_constraint or gpu_partition"
        )
        yield "gpu_name", 0, text
        return
    if request.gpus > 1 and re.search(r"\d+g\.\d+gb", request.gpu_name or ""):
        text = (
            f"{request.gpus} slices {request.gpu_name} requested, but CUDA shows only one MIG slice to a process; name whole GPUs in gpu_name in"
            " slurm/config.yaml, or lower `count` under `gpus` of the model in config/models.yaml"
        )
        yield "gpu", request.gpus, text
        return
    kinds = ", ".join(sorted({kind for node in nodes for kind in node.gpus if kind}))
    limits = [
        (
            "gpu",
            request.gpus,
            lambda node: node.count(request.gpu_name),
            f"{request.gpu_name} GPUs" if request.gpu_name else "GPUs",
            "correct gpu_partition or gpu_name in slurm/config.yaml, or the model's gpus in config/models.yaml"
            + (f" (GPUs of these nodes: {kinds})" if kinds else ""),
        ),
        (
            "mem_mb",
            request.mem_mb,
            lambda node: node.mem_mb,
            "MB",
            f"choose a partition with larger nodes, or lower the request with set-resources {request.rule}:mem_mb",
        ),
        (
            "cpus_per_task",
            request.cpus,
            lambda node: node.cpus,
            "CPUs",
            f"choose a partition with larger nodes, or lower the request with set-resources {request.rule}:cpus_per_task",
        ),
    ]
    exceeded = False
    for resource, amount, capacity_of, unit, advice in limits:
        capacity = max(map(capacity_of, nodes), default=0)
        if amount > capacity:
            exceeded = True
            text = f"{amount} {unit} requested on one node, at most {capacity} {place}; {advice}"
            yield resource, amount, text
    if not exceeded and not any(
        all(amount <= capacity_of(node) for _, amount, capacity_of, _, _ in limits)
        for node in nodes
    ):
        amounts = ", ".join(f"{amount} {unit}" for _, amount, _, unit, _ in limits if amount)
        text = (
            f"no single node {place} has {amounts}; lower one of these requests with set-resources"
        )
        yield "node", 0, text


def read_partitions(partitions: str, nodes: str) -> list[Partition]:
    """The cluster's partitions, from the output of `scontrol -o show partition` and `scontrol -o
    show node`."""
    cluster_nodes = [
        _node(fields) for fields in map(_fields, nodes.splitlines()) if "NodeName" in fields
    ]
    cluster_partitions = []
    for fields in map(_fields, partitions.splitlines()):
        if "PartitionName" in fields:
            name = fields["PartitionName"]
            partition_nodes = tuple(
                _allowed(node, fields) for node in cluster_nodes if name in node.partitions
            )
            # a partition in state DOWN still accepts jobs and queues them
            is_open = fields.get("State", "UP") in ("UP", "DOWN")
            qos = None if fields.get("QoS", "N/A") == "N/A" else fields["QoS"]
            cluster_partitions.append(
                Partition(
                    name,
                    minutes(fields.get("MaxTime", "")),
                    fields.get("Default") == "YES",
                    is_open,
                    partition_nodes,
                    qos,
                )
            )
    return cluster_partitions


def _allowed(node: Node, partition: dict[str, str]) -> Node:
    """The node with its CPUs and memory capped at the partition's limits for one node."""
    limits = {
        name: int(partition[name])
        for name in ("MaxCPUsPerNode", "MaxMemPerNode")
        if partition.get(name, "").isdigit()
    }
    cpus, mem_mb = limits.get("MaxCPUsPerNode", node.cpus), limits.get("MaxMemPerNode", node.mem_mb)
    return replace(node, cpus=min(cpus, node.cpus), mem_mb=min(mem_mb, node.mem_mb))


def _fields(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S*)", line))


def _node(fields: dict[str, str]) -> Node:
    gpus: dict[str, int] = {}
    # gpu:h100:4(S:0-1), gpu:4, gpu:1g.10gb:7
    for entry in re.sub(r"\([^)]*\)", "", fields.get("Gres", "")).split(","):
        name, *details = entry.split(":")
        if name == "gpu":
            count = int(details.pop()) if details and details[-1].isdigit() else 1
            kind = details[0] if details else ""
            gpus[kind] = gpus.get(kind, 0) + count
    features = fields.get("AvailableFeatures", "(null)")
    return Node(
        int(fields.get("CPUEfctv") or fields["CPUTot"]),
        int(fields["RealMemory"]) - int(fields.get("MemSpecLimit", 0)),
        gpus,
        frozenset() if features == "(null)" else frozenset(features.split(",")),
        frozenset(fields.get("Partitions", "").split(",")),
    )


def check(requests: Iterable[Request], at_once: int) -> None:
    """Raise a `UserError` if this cluster cannot run all jobs, with one line for each problem.

    `requests` holds one request for each job; at most `at_once` jobs are in the queue at a time.
    """
    if shutil.which("scontrol") is None or shutil.which("sbatch") is None:
        raise UserError(
            "profile slurm: Slurm is not on this machine (no scontrol, no sbatch); run on a login node of the cluster, or use --profile"
            " laptop"
        )
    requests, config = list(requests), read_config()
    partitions = read_partitions(
        *(_ask("scontrol", "-a", "-o", "show", kind) for kind in ("partition", "node"))
    )
    distinct = sorted(set(requests), key=str)
    with_account = any(request.account for request in distinct)
    accounts = _accounts() if with_account else None
    lines = problems(distinct, partitions, accounts) + extra_problems(distinct)
    if with_account and accounts is None and not _answers("sshare", "-U", "-n"):
        lines.append(
            "slurm_account: this cluster lists no accounts (sacctmgr, sshare); remove slurm_account from slurm/config.yaml"
        )
    if re.search("limits|safe", config.get("AccountingStorageEnforce", "")):
        lines += limit_problems(requests, partitions, config.get("ClusterName", ""), at_once)
    if lines:
        raise UserError("nothing was submitted, because the cluster cannot run all jobs:", *lines)


def read_config() -> dict[str, str]:
    """The cluster's configuration, as listed by `scontrol show config`."""
    lines = (line.partition("=") for line in _ask("scontrol", "show", "config").splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


# {the plugin's name of an option of sbatch: the setting to use instead}
REPLACEMENTS = {
    "account": "slurm_account in slurm/config.yaml",
    "partition": "slurm_partition or gpu_partition in slurm/config.yaml",
    "runtime/time limit": "longest_runtime in slurm/config.yaml",
    "node constraints": "constraint or gpu_constraint in slurm/config.yaml",
    "quality of service": "slurm-qos in slurm/config.yaml",
    "generic resources (GRES)": "gpu_name in slurm/config.yaml and the model's gpus in config/models.yaml",
    "GPU allocation": "gpu_name in slurm/config.yaml and the model's gpus in config/models.yaml",
    "memory": "set-resources RULE:mem_mb",
    "memory per CPU": "set-resources RULE:mem_mb",
    "CPUs per task": "set-resources RULE:cpus_per_task",
    "CPUs per GPU": "set-resources RULE:cpus_per_task",
    "cluster specification": "slurm_cluster in slurm/config.yaml",
}


def extra_problems(requests: Iterable[Request]) -> list[str]:
    """One line for each option in slurm_extra that Snakemake's plugin refuses because the plugin
    sets the option itself."""
    from snakemake_executor_plugin_slurm.validation import get_forbidden_slurm_options

    lines = {}
    for request in requests:
        for pattern, name in get_forbidden_slurm_options().items():
            if option := re.search(pattern, request.extra or ""):
                remedy = (
                    f"write {REPLACEMENTS[name]} instead"
                    if name in REPLACEMENTS
                    else "leave it out: the workflow sets it"
                )
                text = f"slurm_extra: '{option.group().strip(' =')}' cannot be set there, because Snakemake sets this option; {remedy}"
                lines.setdefault(name, text.replace("RULE", request.rule))
    return list(lines.values())


def limit_problems(
    requests: list[Request], partitions: list[Partition], cluster: str, at_once: int
) -> list[str]:
    """One line for each unknown QOS, and for each rule and resource whose requests exceed a limit
    of the cluster's accounting, and one line if too many jobs would be in the queue at the same
    time; no lines if sacctmgr does not answer."""
    user = getpass.getuser()
    show = functools.partial(_ask, "sacctmgr", "-nP", "show")
    columns = f"format={','.join(slurm_limits.ASSOCIATION)}"
    try:
        user_rows = show("assoc", f"user={user}", columns)
        names = {row["account"] for row in slurm_limits.rows(slurm_limits.ASSOCIATION, user_rows)}
        accounts = ",".join(sorted(names))
        account_rows = show("assoc", f"account={accounts}", "user=", columns) if accounts else ""
        qos = show("qos", f"format={','.join(slurm_limits.QOS)}")
        default_account = show("user", user, "format=defaultaccount").strip()
    except (UserError, OSError):
        return []
    accounting = slurm_limits.read_accounting(user_rows + account_rows, qos, user, cluster)
    partition_qos = {partition.name: partition.qos for partition in partitions}
    default = next((partition.name for partition in partitions if partition.default), "")

    @functools.cache
    def levels(
        account: str | None, qos: str | None, partition: str | None
    ) -> list[slurm_limits.Level]:
        name = (partition or default).partition(",")[0]
        return accounting.levels(account or default_account, qos, name, partition_qos.get(name))

    unknown_qos = sorted(
        {request.qos for request in requests if request.qos} - accounting.qos.keys()
    )
    jobs = [
        (request, levels(request.account, request.qos, request.partition)) for request in requests
    ]
    largest: dict[tuple, tuple] = {}
    for rule, resource, amount, text in slurm_limits.problems(jobs, at_once):
        largest[rule, resource] = max(
            largest.get((rule, resource), (-math.inf, "")), (amount, text)
        )
    lines = [
        f"slurm-qos: the cluster has no QOS '{name}', expected one of {', '.join(accounting.qos)}"
        for name in unknown_qos
    ]
    return lines + [
        f"rule {rule}: {resource}: {text}" if rule else f"{resource}: {text}"
        for (rule, resource), (_, text) in largest.items()
    ]


# the longest interval between two status checks of Snakemake's plugin, with a margin
STATUS_INTERVAL_SECONDS = 200


def status_command(preferred: str, first_check: int) -> str:
    """The command with which Snakemake's plugin queries the states of jobs: `preferred` (sacct or
    squeue) if this cluster supports it, else the alternative.

    `first_check`: the profile's slurm-init-seconds-before-status-checks, in seconds. Raise a
    `UserError` if neither command works.
    """
    # squeue forgets a job MinJobAge seconds after its end. The plugin falls back to sacct if
    # MinJobAge is below three times first_check.
    age = re.match(r"\d+", read_config().get("MinJobAge", ""))
    needed_seconds = max(STATUS_INTERVAL_SECONDS, 3 * first_check)
    sacct = "sacct -X -n -P --clusters all --format=JobIDRaw,State --name=hardgrpo"
    is_usable = {
        "sacct": lambda: _answers(*sacct.split()),
        "squeue": lambda: age is not None and int(age.group()) >= needed_seconds,
    }
    for command in sorted(is_usable, key=lambda command: command != preferred):
        if is_usable[command]():
            return command
    raise UserError(
        f"this cluster has no accounting of jobs (sacct), and its squeue forgets a job {age.group() if age else '?'} s after the job's"
        f" end, so that Snakemake might wait for ever; ask the administrators for MinJobAge={needed_seconds} or for accounting"
    )


def _answers(*command: str) -> bool:
    """Whether a command succeeds."""
    try:
        _ask(*command)
    except (UserError, OSError):
        return False
    return True


def _ask(*command: str) -> str:
    """The output of a command of Slurm. Raise a `UserError` if the command fails or does not answer
    within 60 s."""
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{' '.join(command)}: no answer in 60 s; see whether the cluster has a problem, and start again later"
        ) from None
    if process.returncode:
        message = (process.stderr or process.stdout).strip().replace("\n", "; ")
        raise UserError(
            f"{' '.join(command)}: {message}; check that this machine reaches Slurm, and start again"
        )
    return process.stdout


def _accounts() -> set[str] | None:
    """The accounts that this user may charge; None if the cluster does not list them."""
    try:
        output = _ask(
            "sacctmgr", "-nP", "show", "assoc", f"user={getpass.getuser()}", "format=account"
        )
    except (UserError, OSError):
        return None
    return {line.strip().lower() for line in output.splitlines() if line.strip()} or None
