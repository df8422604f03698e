"""Errors that a user can cause: one clear line, a nonzero exit status, nothing half-written."""

import errno
import sys
from collections.abc import Callable


class UserError(Exception):
    """What is wrong and where, what was expected, what to do. Shown without a traceback."""


# Libraries that write in native code report a full disk in their own types, with the system's words in the message.
DISK_FULL_WORDS = ("No space left on device", "File too large", "Disk quota exceeded", "os error 28", "os error 27")


def run(main: Callable[[], None]) -> None:
    """Call a program's `main`; turn what a user can cause into one line on stderr and exit status 1."""
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("error: interrupted; start the same command again to go on")
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        message = explain(error)
        if message is None:
            raise
        sys.exit(f"error: {message}")


# A GPU whose memory is full says so in torch's or vLLM's words.
GPU_FULL_WORDS = (
    "CUDA out of memory",
    "No available memory for the cache blocks",
    "Free memory on device",
    "to serve at least one request",
)


def explain(error: BaseException) -> str | None:
    """One line for a failure of the machine (disk, permissions, GPU), or None where the error is this program's own."""
    if type(error).__name__ == "OutOfMemoryError" or any(words.lower() in str(error).lower() for words in GPU_FULL_WORDS):
        return (
            f"the GPU's memory is full ({str(error).splitlines()[0]}); lower the model's micro_batch or vllm_memory (training) or the"
            " task's completion_tokens, let vLLM sleep, or give the model more GPUs in config.yaml; finished results are untouched"
        )
    if "Unsupported CPU attention configuration" in str(error):
        return f"vLLM's CPU build cannot run this model ({error}); set the model's engine to transformers"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        where = f" while writing {error.filename}" if error.filename else ""
    elif any(words in str(error) for words in DISK_FULL_WORDS):
        where = f" ({str(error).splitlines()[0]})"
    elif isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR):
        return f"cannot write {error.filename}: {error.strerror}; choose a folder that you may write to and run again"
    else:
        # A failed write inside torch.save hides its reason: look at the chain for one that tells.
        chained = error.__cause__ or error.__context__
        return explain(chained) if chained is not None else None
    return f"the disk is full{where}; finished results are untouched: free some space and run the same command again"
