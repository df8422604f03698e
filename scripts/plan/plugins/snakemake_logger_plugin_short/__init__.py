"""A logger for `snakemake --logger short`. It prints the number of finished jobs at every 10 %, and all
errors and warnings. Snakemake's complete log is in .snakemake/log/.

Snakemake finds the plugin if its parent folder is on PYTHONPATH (Makefile).
"""

import logging
import sys

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

ERRORS = (LogEvent.ERROR, LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR)
STEP = 10  # per cent


class LogHandler(LogHandlerBase):
    # filter and formatter are Snakemake's
    writes_to_stream = True
    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        self.printed_percent = 0

    def emit(self, record) -> None:
        event = getattr(record, "event", None)
        if event == LogEvent.PROGRESS:
            percent = 100 * record.done // record.total
            if percent // STEP > self.printed_percent // STEP:
                self.printed_percent = percent
                self.write(f"{percent} % ({record.done} of {record.total} jobs)")
        elif event in ERRORS or record.levelno >= logging.WARNING:
            self.write(self.format(record))

    def write(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
