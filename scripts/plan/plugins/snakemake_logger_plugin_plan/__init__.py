"""A logger for `snakemake -n --logger plan`: writes every planned job, with its files and resources, as a line of JSON.

Snakemake finds it when this folder is on PYTHONPATH; HARDGRPO_PLAN names the file. `scripts/plan/plan.py` uses both.
"""

import json
import os

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent


class LogHandler(LogHandlerBase):
    def __post_init__(self) -> None:
        self.stream = open(os.environ["HARDGRPO_PLAN"], "w", encoding="utf-8")

    def emit(self, record) -> None:
        if getattr(record, "event", None) != LogEvent.JOB_INFO:
            return
        resources = {name: value for name, value in record.resources.items() if isinstance(value, int | str)}
        job = {
            "rule": record.rule_name,
            "wildcards": dict(record.wildcards or {}),
            "input": [str(name) for name in record.input or []],
            "output": [str(name) for name in record.output or []],
            "threads": record.threads,
            "resources": resources,
        }
        self.stream.write(json.dumps(job) + "\n")
        self.stream.flush()

    @property
    def writes_to_stream(self) -> bool:
        return False

    @property
    def writes_to_file(self) -> bool:
        return True

    @property
    def has_filter(self) -> bool:
        return True

    @property
    def has_formatter(self) -> bool:
        return True

    @property
    def needs_rulegraph(self) -> bool:
        return False

    @property
    def baseFilename(self) -> str:  # noqa: N802 (the name of logging.FileHandler's attribute, which Snakemake asks for)
        return os.environ["HARDGRPO_PLAN"]
