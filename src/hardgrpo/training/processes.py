"""The processes of one training run: launch one per GPU with torchrun, and coordinate them."""

import contextlib
import datetime
import hashlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from hardgrpo.runtime import replacements
from hardgrpo.study.spec import Spec
from hardgrpo.training import recipes

LAUNCH_VARIABLE = "HARDGRPO_LAUNCHED"  # set in the processes that `launch` starts
# Environment variables that make accelerate shard weights, gradients and optimiser state over the
# processes (FSDP2, the equivalent of DeepSpeed's ZeRO-3).
FSDP_VARIABLES = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
    "FSDP_OFFLOAD_PARAMS": "false",
    "FSDP_ACTIVATION_CHECKPOINTING": "false",  # the trainer's gradient checkpointing does this
}
# Longest time that processes wait for each other: the first process checks all checkpoints before it
# resumes a run, and hashes saved states of hundreds of GB. NCCL's default is ten minutes.
TIMEOUT = datetime.timedelta(hours=3)


def launch(spec: Spec, hardware: recipes.Hardware, state: Path) -> int:
    """Start this program again as several processes, wait for them, and return 0 if they finished
    the run, else 1. Processes that stop on SIGTERM exit with 0 but leave `state`, the run's state
    folder."""
    import psutil  # comes with accelerate

    command = [sys.executable, "-m", "hardgrpo.training.launcher", "--standalone"]
    command += ["--nproc_per_node", str(hardware.processes)]
    # torchrun would kill its processes 30 seconds after SIGTERM, in the middle of an update. It starts
    # with SIGTERM blocked; its processes unblock SIGTERM, which this process forwards to them.
    command += ["--signals-to-handle", "SIGINT,SIGHUP,SIGQUIT"]
    variables = {LAUNCH_VARIABLE: "1"} | ({} if spec.training.get("adapter") else FSDP_VARIABLES)
    if not hardware.gpus:
        variables |= {"ACCELERATE_USE_CPU": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": "false"}
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    torchrun = subprocess.Popen([*command, *sys.argv], env=os.environ | variables)

    def forward_sigterm(*_) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(torchrun.pid).children()
            if not children:
                torchrun.send_signal(signal.SIGINT)
            for process in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, forward_sigterm)
    # Ctrl-C reaches torchrun, which ends its processes
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    return 1 if torchrun.wait() or state.exists() else 0


def take_free_port() -> None:
    """Set MASTER_PORT, on which vLLM beside the trainer listens, to a free port that the system
    chooses. With TRL's choice, port 29500, a second run on the machine could fail. The processes of
    `launch` have torchrun's common port."""
    if LAUNCH_VARIABLE in os.environ:
        return
    with socket.socket() as listener:
        listener.bind(("", 0))
        os.environ["MASTER_PORT"] = str(listener.getsockname()[1])


def sum_in_float32(trainer: type) -> type:
    """A class decorator of trainers: with sharded weights and arithmetic in bf16, sum gradients and
    compute log-probabilities in float32, as a run of one process does."""
    from typing_extensions import override  # comes with torch

    build_arguments = trainer._build_accelerator_args

    @override
    def build_with_policy(self, **kwargs) -> dict:
        arguments = build_arguments(self, **kwargs)
        if os.environ.get("ACCELERATE_USE_FSDP") != "true" or not self.args.bf16:
            return arguments
        import torch
        from accelerate.utils import FullyShardedDataParallelPlugin
        from torch.distributed.fsdp import MixedPrecisionPolicy

        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        plugin = FullyShardedDataParallelPlugin(mixed_precision_policy=policy)
        return arguments | {"fsdp_plugin": plugin}

    replacements.replace(trainer, "_build_accelerator_args", build_with_policy)
    return trainer


def process_seed(seed: int, rank: int) -> int:
    """The seed of a process. accelerate's seed + rank would be the seed of another run."""
    if rank == 0:
        return seed
    return int.from_bytes(hashlib.sha256(f"process:{seed}:{rank}:0".encode()).digest()[:4])


class Processes:
    """This process and the other processes of the run."""

    def __init__(self, hardware: recipes.Hardware):
        self.state = None
        if hardware.processes > 1:
            from accelerate import PartialState

            self.state = PartialState(cpu=not hardware.gpus, timeout=TIMEOUT)
        self.is_first = self.state is None or self.state.is_main_process

    def wait(self) -> None:
        """Return when every process has called this method."""
        if self.state is not None:
            self.state.wait_for_everyone()

    def any(self, flag: bool) -> bool:
        """Whether `flag` is true in at least one process. All processes must call this method."""
        if self.state is None:
            return flag
        import torch
        from accelerate.utils import reduce

        return bool(reduce(torch.tensor([float(flag)], device=self.state.device), "sum").item())

    def close(self) -> None:
        """Destroy the process group, and end all processes except the first."""
        if self.state is None:
            return
        self.state.destroy_process_group()
        if not self.is_first:  # a normal exit can crash while gloo's threads run
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
