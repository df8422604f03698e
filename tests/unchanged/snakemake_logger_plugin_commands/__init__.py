"""A logger for `snakemake -n --logger commands`: writes every planned job with its files and its
shell command as a line of JSON to the file that UNCHANGED_JOBS names."""

import json
import os

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent


class LogHandler(LogHandlerBase):
    writes_to_file = has_filter = has_formatter = True
    writes_to_stream = needs_rulegraph = False

    def __post_init__(self) -> None:
        self.baseFilename = os.environ["UNCHANGED_JOBS"]  # Snakemake reads this attribute

    def emit(self, record) -> None:
        if getattr(record, "event", None) != LogEvent.JOB_INFO:
            return
        job = {
            "rule": record.rule_name,
            "wildcards": dict(record.wildcards or {}),
            "input": [str(name) for name in record.input or []],
            "output": [str(name) for name in record.output or []],
            "command": record.shellcmd,
        }
        with open(self.baseFilename, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(job) + "\n")
