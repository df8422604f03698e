"""The output of `make audit`. A stand-in returns the results of pip-audit."""

import json
import subprocess
import sys

import pytest

import audit_locks
from hardgrpo.runtime.errors import UserError

VULNERABILITY = {
    "id": "PYSEC-1",
    "aliases": ["CVE-2025-1"],
    "fix_versions": ["2.0"],
    "description": "\x1b[31m",
}


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """Make two locks that are audited, and a third lock that is not audited. The fixture is
    {audited lock: result of pip-audit}. A result is (exit status, stdout, stderr), or the list of
    packages."""
    (tmp_path / "envs").mkdir()
    for name in ("pip", "gpu", "torch-cpu"):
        (tmp_path / f"envs/{name}.lock").touch()
    monkeypatch.setattr(audit_locks, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["audit_locks.py"])
    reports = {
        "pip": [{"name": "pip", "version": "26.3", "vulns": []}],
        "gpu": [{"name": "torch", "version": "1.0", "vulns": []}],
    }

    def run(command, **_):
        answer = reports[command[-1].rpartition("/")[2].removesuffix(".lock")]
        status, out, err = (
            answer
            if isinstance(answer, tuple)
            else (0, json.dumps({"dependencies": answer, "fixes": []}), "")
        )
        return subprocess.CompletedProcess(command, status, out, err)

    monkeypatch.setattr(audit_locks.subprocess, "run", run)
    return reports


def test_locks_without_vulnerabilities_are_counted(answers, capsys):
    answers["gpu"].append({"name": "odd", "skip_reason": "not there"})
    audit_locks.main()
    assert capsys.readouterr().out.splitlines() == [
        "not audited: odd",
        f"{audit_locks.datetime.datetime.now(audit_locks.datetime.UTC).date()}: 2 packages of 2 locks, 0 known vulnerabilities, 1 packages not audited",
    ]


def test_a_vulnerability_is_an_error_that_names_its_lock_and_fix(answers, capsys):
    answers["gpu"][0]["vulns"] = [VULNERABILITY]
    with pytest.raises(UserError, match="1 known vulnerabilities"):
        audit_locks.main()
    assert (
        capsys.readouterr().out == "envs/gpu.lock: torch 1.0: PYSEC-1, CVE-2025-1; fixed in 2.0\n"
    )


def test_vulnerabilities_are_printed_even_if_the_audit_of_a_later_lock_fails(answers, capsys):
    answers["pip"][0]["vulns"] = [VULNERABILITY]
    answers["gpu"] = (1, "", "Traceback\nProxyError: refused")
    with pytest.raises(UserError, match="run `make audit` where"):
        audit_locks.main()
    assert "envs/pip.lock: pip 26.3: PYSEC-1" in capsys.readouterr().out


@pytest.mark.parametrize(
    "answer",
    [
        [{"name": "pip", "skip_reason": "not found"}],
        [],
        (1, "", "Traceback\nProxyError: refused"),
        (1, "[]", "x"),
        (2, "{}", ""),
    ],
)
def test_an_unreachable_database_gives_an_error_that_names_the_remedy(answers, answer):
    answers["pip"] = answer
    answers["gpu"] = None  # the program ends before it audits this lock
    with pytest.raises(UserError, match="run `make audit` where"):
        audit_locks.main()
