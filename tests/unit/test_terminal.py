"""Control characters of models, datasets and tables never reach the terminal, and a damaged
model gives an error of one line."""

import importlib
import logging
import sys

import pytest

import show_results
from conftest import ROOT
from hardgrpo.runtime import errors
from hardgrpo.runtime.errors import UserError, while_loading

HOSTILE = "a\x1b]0;PWN\x07\x9b31m\u202eb"


@pytest.fixture(autouse=True)
def excepthook(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # `errors.run` sets it


@pytest.mark.parametrize(
    "statement",
    [
        f"raise KeyError({HOSTILE!r}) from ValueError({HOSTILE!r})",
        f"raise ExceptionGroup({HOSTILE!r}, [ValueError({HOSTILE!r})])",
        f"raise type({HOSTILE!r}, (Exception,), {{}})()",
        f"error = ValueError('x'); error.add_note({HOSTILE!r}); raise error",
        f"raise errors.UserError({HOSTILE!r})",
    ],
)
def test_no_traceback_holds_a_control_character(statement, capsys):
    with pytest.raises((SystemExit, Exception)) as end:
        errors.run(lambda: exec(statement, {"errors": errors, "__name__": "program"}))
    if isinstance(end.value, SystemExit):
        print(end.value.code, file=sys.stderr)
    else:
        sys.excepthook(type(end.value), end.value, end.value.__traceback__)
    text = capsys.readouterr().err
    assert text.strip() and all(map(str.isprintable, text.splitlines()))
    assert not set(text) & set("\x1b\x07\x9b\u202e")


def test_a_table_is_shown_without_control_characters(capsys):
    show_results.show(f"{HOSTILE:<20}1.0\nnext\tline")
    printed = capsys.readouterr().out
    assert printed.count("\n") == 2 and not set(printed) & set("\x1b\x07\x9b\u202e\t")


def test_only_an_exception_of_a_loading_library_becomes_an_error_about_the_model():
    class PanicException(BaseException):
        pass

    for error in (
        ZeroDivisionError(),
        KeyError("x"),
        RecursionError(HOSTILE),
        PanicException("a\nb"),
    ):
        with pytest.raises(UserError, match="^folder: ") as refused, while_loading("folder"):
            raise error
        assert "\n" not in str(refused.value)
    for error in (KeyboardInterrupt(), SystemExit(3), UserError("mine"), MemoryError()):
        with pytest.raises(type(error)), while_loading("folder"):
            raise error


def test_the_short_log_has_progress_every_ten_percent_and_errors(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "scripts/plan/plugins")
    plugin = importlib.import_module("snakemake_logger_plugin_short")
    handler = object.__new__(plugin.LogHandler)
    handler.__post_init__()
    handler.format = lambda record: record.msg
    event = plugin.LogEvent
    for level, values in [
        (logging.INFO, {"event": event.JOB_INFO}),
        *((logging.INFO, {"event": event.PROGRESS, "done": n, "total": 240}) for n in range(241)),
        (logging.WARNING, {}),
        (logging.ERROR, {"event": event.JOB_ERROR}),
    ]:
        record = logging.makeLogRecord({"levelno": level, "msg": f"level {level}"} | values)
        handler.emit(record)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "10 % (24 of 240 jobs)" and lines[-2:] == ["level 30", "level 40"]
    assert len(lines) == 12
