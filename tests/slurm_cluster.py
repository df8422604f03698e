"""A real Slurm on one machine for tests: munge, MariaDB, slurmdbd, slurmctld and two slurmd, each a
node with a fake GPU.

Configuration, sockets, database and logs are in one folder. The daemons listen on free ports and
reach each other at 127.0.0.1. /etc/slurm is neither read nor written, so the cluster does not
affect a Slurm of this machine. The daemons are children of this process and always end with it.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = ["munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sbatch", "sacctmgr"]  # fmt: skip
PACKAGES = "munge slurmctld slurmd slurm-client slurmdbd mariadb-server"
ACCOUNT = "study"
NODES = ("node1", "node2")
GPU = "nvidia_fake_80gb"

SLURM_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
# A job that is queued again is held back for cred_expire, 120 s by default.
AuthInfo=socket={base}/munge/socket,cred_expire=15
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
EnforcePartLimits=ALL
{accounting}JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=5
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=2
KillWait=10
CompleteWait=0
InactiveLimit=0
MinJobAge=3600
SlurmctldTimeout=10
SlurmdTimeout=10
ReturnToService=2
JobRequeue=1
StateSaveLocation={base}/state
SlurmdSpoolDir={base}/spool.%n
SlurmctldPidFile={base}/slurmctld.pid
SlurmdPidFile={base}/slurmd.%n.pid
SlurmctldLogFile={base}/log/slurmctld.log
SlurmdLogFile={base}/log/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=info
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node1_port} CPUs=6 RealMemory=128000 Gres=gpu:{gpu}:1 State=UNKNOWN
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={node2_port} CPUs=6 RealMemory=128000 Gres=gpu:{gpu}:1 State=UNKNOWN
PartitionName=cpu Nodes=node[1-2] Default=YES MaxTime=2-00:00:00 DefaultTime=10 State=UP
PartitionName=gpu Nodes=node[1-2] MaxTime=1-00:00:00 DefaultTime=10 State=UP PriorityTier=1
PartitionName=urgent Nodes=node[1-2] MaxTime=60 DefaultTime=10 State=UP PriorityTier=10
"""
ACCOUNTING_CONF = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={accounting_port}
AccountingStoragePass={base}/munge/socket
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=limits
AccountingStoreFlags=job_comment
"""
DATABASE_CONF = """\
AuthType=auth/munge
AuthInfo=socket={base}/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={accounting_port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass=slurm
PidFile={base}/slurmdbd.pid
"""


def missing() -> str | None:
    """The reason why no cluster can start here; None if a cluster can start."""
    if os.geteuid():
        return "only root can start a Slurm cluster for tests"
    absent = [program for program in PROGRAMS if not find(program)]
    return f"{', '.join(absent)} not installed (Debian: {PACKAGES})" if absent else None


def find(program: str) -> str | None:
    folders = [os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"]
    return shutil.which(program, path=os.pathsep.join(folders))


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]


def end_with_parent() -> None:
    ctypes.CDLL("libc.so.6").prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Cluster:
    def __init__(self, base: Path, accounting: bool = True):
        self.base, self.accounting = base.absolute(), accounting
        self.daemons: dict[str, subprocess.Popen] = {}
        # Snakemake's job step calls srun without SLURM_CONF, so the wrapper bin/srun sets it again.
        self.env = {
            "SLURM_CONF": f"{self.base}/slurm.conf",
            "PATH": f"{self.base}/bin:{os.environ['PATH']}",
        }

    def start(self) -> None:
        for name in ("munge", "database", "state", "spool.node1", "spool.node2", "log", "bin"):
            (self.base / name).mkdir(parents=True, exist_ok=True)
        names = ("controller_port", "node1_port", "node2_port", "accounting_port", "database_port")
        settings = dict(zip(names, free_ports(5)))
        settings |= {"base": self.base, "host": socket.gethostname().split(".")[0], "gpu": GPU}
        for node in NODES:
            device = self.base / f"{node}.gpu"
            if not device.exists():  # slurmd needs a device file: here a copy of /dev/null
                os.mknod(device, 0o666 | 0o020000, os.makedev(1, 3))
        settings["accounting"] = ACCOUNTING_CONF.format(**settings) if self.accounting else ""
        self.write("slurm.conf", SLURM_CONF.format(**settings))
        gres = "".join(
            f"NodeName={node} Name=gpu Type={GPU} File={self.base}/{node}.gpu\n" for node in NODES
        )
        self.write("gres.conf", f"AutoDetect=off\n{gres}")
        self.write("slurmdbd.conf", DATABASE_CONF.format(**settings), 0o600)
        srun = f'#!/bin/sh\nSLURM_CONF={self.base}/slurm.conf exec {find("srun")} "$@"\n'
        self.write("bin/srun", srun, 0o755)
        try:
            self.start_munge()
            if self.accounting:
                self.start_accounting(settings["database_port"])
            self.start_controller()
            for node in NODES:
                self.start_node(node)
        except BaseException:
            self.stop()
            raise

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self.base / name
        path.write_text(text)
        path.chmod(mode)

    def start_munge(self) -> None:
        key = self.base / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        place = f"{self.base}/munge"
        files = [f"--{kind}-file={place}/{kind}" for kind in ("key", "pid", "seed")]
        files += [f"--log-file={self.base}/log/munged", f"--socket={place}/socket"]
        self.run("munged", "--foreground", "--force", *files)
        self.wait("munged", "munge", "-n", f"--socket={place}/socket")

    def start_accounting(self, database_port: int) -> None:
        self.start_database(database_port)
        self.run("slurmdbd", "-D")
        self.wait("slurmdbd", "sacctmgr", "-n", "show", "cluster")
        self.call("sacctmgr", "-i", "add", "cluster", "test")
        self.call("sacctmgr", "-i", "add", "account", ACCOUNT)
        self.call("sacctmgr", "-i", "add", "user", "root", f"account={ACCOUNT}")

    def start_database(self, port: int) -> None:
        folder = f"{self.base}/database"
        self.call(
            "mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={folder}",
            "--auth-root-authentication-method=normal", "--skip-test-db",
        )  # fmt: skip
        self.run(
            "mariadbd", "--no-defaults", "--user=root", f"--datadir={folder}", f"--socket={folder}/socket",
            "--bind-address=127.0.0.1", f"--port={port}", "--innodb-buffer-pool-size=128M",
            "--innodb-lock-wait-timeout=900",
        )  # fmt: skip
        self.wait("mariadbd", "mariadb-admin", "--no-defaults", f"--socket={folder}/socket", "ping")
        grant = "create user slurm@'%' identified by 'slurm'; grant all on slurm_acct_db.* to slurm@'%';"
        grant += grant.replace("'%'", "localhost")
        self.call("mariadb", "--no-defaults", f"--socket={folder}/socket", "-e", grant)

    def start_controller(self) -> None:
        self.run("slurmctld", "-D")
        self.wait("slurmctld", "sh", "-c", "scontrol ping | grep -q 'is UP'")

    def start_node(self, node: str) -> None:
        self.run("slurmd", "-D", "-N", node, name=node)
        # If the node was down, Slurm uses it again only after `scontrol` resumes the node.
        ready = f"sinfo -h -n {node} -o %T | grep -qE '^(idle|mixed|allocated)$' || {{ scontrol update nodename={node} state=resume; false; }}"
        self.wait(node, "sh", "-c", ready)

    def run(self, program: str, *arguments: str, name: str | None = None) -> None:
        """Start a daemon in the foreground, as a child that ends with this process."""
        name = name or program
        with open(self.base / "log" / f"{name}.out", "ab") as log:
            self.daemons[name] = subprocess.Popen(
                [find(program), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | self.env,
                preexec_fn=end_with_parent, start_new_session=True,
            )  # fmt: skip

    def call(self, *command: str, check: bool = True, timeout: float = 600) -> str:
        """Run a command and return its output. Slurm's commands query this cluster."""
        done = subprocess.run(
            [find(command[0]) or command[0], *command[1:]],
            env=os.environ | self.env, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def wait(self, daemon: str, *command: str, seconds: float = 60) -> None:
        """Wait until `command`, which queries the daemon, succeeds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.daemons[daemon].poll() is None:
            try:
                self.call(*command, timeout=10)
                return
            except (RuntimeError, subprocess.TimeoutExpired):
                time.sleep(0.2)
        log = (self.base / "log" / f"{daemon}.out").read_text(errors="replace")
        raise RuntimeError(f"{daemon} does not answer; its output:\n{log[-3000:]}")

    def kill(self, daemon: str) -> None:
        self.daemons[daemon].kill()
        self.daemons[daemon].wait(30)

    def jobs(self) -> list[dict]:
        """Rows of the accounting database: a row for each job of the last day."""
        names = "JobID,JobName,State,Partition,AllocTRES,Comment,TimelimitRaw,NodeList,WorkDir"
        options = ("-X", "-nP", "--delimiter=\t", f"--format={names}", "-S", "now-1days")
        table = self.call("sacct", *options)
        return [dict(zip(names.split(","), line.split("\t"))) for line in table.splitlines()]

    def running(self) -> list[str]:
        """Ids of the jobs that are queued or running."""
        return self.call("squeue", "-h", "-t", "PD,R,S,CF", "-o", "%A").split()

    def clear(self) -> None:
        """Cancel the remaining jobs of a test, and wait until they have ended."""
        end = time.monotonic() + 600
        while (remaining_jobs := self.running()) and time.monotonic() < end:
            self.call("scancel", "--full", *remaining_jobs, check=False)
            time.sleep(0.5)

    def stop(self) -> None:
        if (controller := self.daemons.get("slurmctld")) and controller.poll() is None:
            try:
                self.clear()
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"jobs may still be running: {error}", file=sys.stderr)
        for daemon in (*NODES, "slurmctld", "slurmdbd", "mariadbd", "munged"):
            process = self.daemons.get(daemon)
            if process is None or process.poll() is not None:
                continue
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def running(accounting: bool = True):
    """A cluster in a folder with a short name, because paths of Unix sockets must be short."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    cluster = Cluster(folder, accounting)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
