"""torchrun without its error report: a process that fails prints its own error, and torchrun would add
a traceback. If a signal ends a process, this launcher prints one line with the signal's name.
"""

import signal
import sys

from torch.distributed import run
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

MEMORY_ADVICE = "if memory ran out, use a machine with more memory, request more from Slurm (set-resources train_grpo:mem_mb), or lower the model's micro_batch"


def main() -> None:
    try:
        run.main()
    except SignalException as error:
        sys.exit(f"error: stopped by {error.sigval.name}; start the same command again to resume")
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        if failure.exitcode >= 0:
            sys.exit(failure.exitcode)
        name = signal.Signals(-failure.exitcode).name
        sys.exit(
            f"error: {name} ended a process of this training; {MEMORY_ADVICE}; start the same command again to resume"
        )


if __name__ == "__main__":
    main()
