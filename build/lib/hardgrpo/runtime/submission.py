"""Resubmit jobs that Slurm refuses temporarily.

Snakemake's Slurm plugin (2.8.0) reports a refused job as failed. Without this module, each refusal
would use up one of the job's retries and lengthen its next time limit, although the job never ran.
"""

import contextlib
import re
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

# Patterns of sbatch's messages if the queue already holds the largest number of jobs, if the
# controller does not answer, or if the authentication fails.
TEMPORARY = (
    r"(?:Max|Grp)SubmitJob",
    # If a permanent limit is the reason, Slurm writes the limit's name before this text. Without a
    # name, the limit may be on the number of jobs in the queue, so the refusal counts as temporary.
    r"^Batch job submission failed: Job violates accounting/QOS policy",
    "temporarily unable to accept job",
    "Resource temporarily unavailable",
    "Unable to contact slurm controller",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "controller not responding",
    "in standby mode",
    "Connection refused",
    "Connection timed out",
    "Transport endpoint is not connected",
    "authentication credential",
    "Protocol authentication error",
)
WARNING_INTERVAL_SECONDS = 600


def refusal(message: str) -> str | None:
    """The message of sbatch in one line; None if the plugin's message is not about a failed
    submission."""
    text = re.search(
        r"SLURM sbatch failed\. The error message was '(.*?)'\.\n\s+sbatch call", message, re.DOTALL
    )
    if text is None:
        return None
    return "; ".join(line.removeprefix("sbatch: error: ").strip() for line in text[1].splitlines())


def is_temporary(reason: str) -> bool:
    """Whether the same submission may succeed later."""
    return any(re.search(words, reason) for words in TEMPORARY)


class SubmissionRetrier:
    """Let an executor of the plugin resubmit a job `retry_seconds` after a temporary refusal, until
    Slurm accepts the job or Snakemake ends.

    A permanent refusal fails the job without retries.
    """

    def __init__(self, executor, retry_seconds: float):
        self.executor, self.retry_seconds = executor, retry_seconds
        self.shutting_down = threading.Event()
        self.last_warning_time = -WARNING_INTERVAL_SECONDS
        self.report = executor._report_job_error_threadsafe
        executor._report_job_error_threadsafe = self.submit_again_or_report
        executor.cancel = self.stop_retries_before(executor.cancel)
        executor.shutdown = self.stop_retries_before(executor.shutdown)

    def submit_again_or_report(self, job_info, message: str) -> None:
        """Resubmit a job after a temporary refusal; otherwise report its error to Snakemake."""
        reason = refusal(message)
        if reason and is_temporary(reason) and not self.executor.workflow.scheduler._user_kill:
            self.warn(reason)
            if not self.shutting_down.wait(self.retry_seconds):
                with contextlib.suppress(RuntimeError):  # the executor has just shut down
                    self.executor._job_submission_executor.submit(
                        self.executor.run_job, job_info.job
                    )
            return
        if reason:
            # Use up the restarts, so that Snakemake does not retry.
            job_info.job.attempt = max(job_info.job.attempt, job_info.job.restart_times + 1)
        self.report(job_info, message)

    def warn(self, reason: str) -> None:
        """Log a refusal, at most once in WARNING_INTERVAL_SECONDS."""
        if time.monotonic() - self.last_warning_time >= WARNING_INTERVAL_SECONDS:
            self.last_warning_time = time.monotonic()
            self.executor.logger.warning(
                f"Slurm takes no further job at present ({reason}):"
                f" jobs wait and are submitted again every {self.retry_seconds:g} s."
            )

    def stop_retries_before(self, end: Callable[[], None]) -> Callable[[], None]:
        """A function that stops all retries and then calls `end`."""

        def stop_and_end() -> None:
            self.shutting_down.set()
            self.executor._job_submission_executor.shutdown(wait=False, cancel_futures=True)
            end()

        return stop_and_end


def start_without_arrays() -> None:
    """Let the plugin start on a cluster without job arrays (MaxArraySize=0). The plugin refuses to
    start there, although this workflow uses no arrays."""
    plugin = sys.modules.get("snakemake_executor_plugin_slurm")
    if plugin and (array_limit := getattr(plugin, "get_max_array_size", None)):
        plugin.get_max_array_size = lambda: limit if (limit := array_limit()) >= 2 else 1000


def allow_dashes_in_gpu_names() -> None:
    """Let the plugin request GPUs whose type has a name with a dash, such as the names that Slurm
    detects itself (nvidia_a100-sxm4-80gb).

    Without this function, the plugin refuses to submit jobs that request these GPUs.
    """
    plugin = sys.modules.get("snakemake_executor_plugin_slurm")
    if not plugin or not (set_gres_string := getattr(plugin, "set_gres_string", None)):
        return

    def options_with_dash(job) -> str:
        resource, name = job.resources.get, str(job.resources.get("gpu_model") or "")
        plain_name = name.replace("-", "_")
        resources = SimpleNamespace(
            get=lambda key, default=None: (
                plain_name if key == "gpu_model" and name else resource(key, default)
            ),
            gres=resource("gres"),
        )
        return set_gres_string(SimpleNamespace(resources=resources)).replace(
            f" --gpus={plain_name}:", f" --gpus={name}:"
        )

    plugin.set_gres_string = options_with_dash
