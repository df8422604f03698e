"""A logger for `snakemake -n --logger plan` that writes every planned job with its files and its
shell command as a line of JSON.

Snakemake finds the plugin if its parent folder is on PYTHONPATH. HARDGRPO_PLAN is the file to
write. `scripts/plan/plan.py` sets both.
"""

import json
import os

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent


class LogHandler(LogHandlerBase):
    writes_to_file = has_filter = has_formatter = True
    writes_to_stream = needs_rulegraph = False

    def __post_init__(self) -> None:
        # Snakemake reads the log's path from this attribute, which logging.FileHandler also has.
        self.baseFilename = os.environ["HARDGRPO_PLAN"]
        self.stream = open(self.baseFilename, "w", encoding="utf-8")

    def emit(self, record) -> None:
        if getattr(record, "event", None) != LogEvent.JOB_INFO:
            return
        job = {
            "rule": record.rule_name,
            "wildcards": dict(record.wildcards or {}),
            "input": [str(name) for name in record.input or []],
            "output": [str(name) for name in record.output or []],
            "threads": record.threads,
            "command": record.shellcmd,
        }
        self.stream.write(json.dumps(job) + "\n")
        self.stream.flush()
