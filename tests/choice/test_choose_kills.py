"""`hardgrpo choose` is one process. After Ctrl-C, SIGTERM, SIGKILL or the loss of its server, the same
command continues, and nothing is paid twice beyond the requests in flight."""

import collections
import json
import os
import pty
import random
import signal
import subprocess
import sys
import time

import pytest

from choice_runs import (
    answer_of,
    folder,
    hardgrpo,
    server,
    sum_rows,
    sums,
    write_lines,
)
from interruptible_run import KILLS

CONCURRENCY = 4


def start(folder, url, *arguments, **streams):
    command = [sys.executable, "-m", "hardgrpo.console", "choose", "s.jsonl", "--budget", "5"]
    command += ["--url", url, "--model", "m", "--concurrency", str(CONCURRENCY), *arguments]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True} | streams
    return subprocess.Popen(command, cwd=folder, start_new_session=True, **streams)


def wait_for_requests(server, number, process):
    end = time.monotonic() + 60
    while len(server.requests) < number and process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)


def slow(server, seconds=0.02, failing=0.0):
    rng = random.Random(1)

    def answer(body, number):
        time.sleep(seconds)
        return (500, {"error": "lost"}) if rng.random() < failing else sums(body)

    server.answer = answer


def most_answers_of_a_prompt(server):
    return collections.Counter(body["messages"][-1]["content"] for body in server.answered)


@pytest.mark.slow
def test_killed_at_random_the_same_command_continues(server, folder):
    write_lines(folder / "s.jsonl", sum_rows(150))
    slow(server, failing=0.2)
    rng, kills, output = random.Random(KILLS), 0, ""
    for _ in range(8 * KILLS):
        process = start(folder, server.url)
        wait_for_requests(server, len(server.requests) + rng.randrange(1, 40), process)
        if process.poll() is None:
            os.kill(process.pid, rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
            kills += 1
        output = process.communicate(timeout=60)[0]
        assert "Traceback" not in output and process.returncode != 1 or "error:" in output, output
        time.sleep(0.1)  # no process is left that sends requests
        quiet = len(server.requests)
        time.sleep(0.1)
        assert len(server.requests) == quiet
    output = start(folder, server.url).communicate(timeout=120)[0]
    assert "chosen  " in output and kills, output
    counts = most_answers_of_a_prompt(server)
    assert len(counts) == 150 and sum(counts.values()) - 150 <= kills * CONCURRENCY
    results = (folder / "s.choice/choice.json").read_text()
    before = len(server.requests)
    start(folder, server.url, "--output", "again").communicate(timeout=60)
    again = json.loads((folder / "again/choice.json").read_text())
    ignored = ("tokens", "files", "money")
    same = lambda facts: {key: value for key, value in facts.items() if key not in ignored}
    assert same(again) == same(json.loads(results)) and len(server.requests) == before


def test_ctrl_c_in_a_terminal_ends_the_command_and_its_requests(server, folder):
    write_lines(folder / "s.jsonl", sum_rows(300))
    slow(server)
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hardgrpo.console", "choose", "s.jsonl", "--budget", "5", "--url", server.url, "--model", "m"],
        cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal,
        preexec_fn=lambda: (os.setsid(), __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0)),
    )  # fmt: skip
    wait_for_requests(server, 40, process)
    os.write(controller, b"\x03")
    assert process.wait(timeout=20) == 1
    os.close(terminal)
    output = os.read(controller, 2**20).decode()
    assert "start the same command again to resume" in output and "Traceback" not in output
    done = start(folder, server.url).communicate(timeout=60)[0]
    assert "chosen  " in done and len(server.answered) <= 300 + 32


def test_a_lost_server_ends_the_command_and_the_answers_are_kept(server, folder):
    write_lines(folder / "s.jsonl", sum_rows(60))
    answered = server.answer
    server.answer = lambda body, n: answered(body, n) if n < 30 else (401, {"error": "key expired"})
    process = start(folder, server.url)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 1 and "key expired" in output and "Traceback" not in output
    server.answer = answered
    assert "chosen  " in start(folder, server.url).communicate(timeout=60)[0]
    assert len(server.answered) == 60


def test_a_second_command_waits_and_pays_nothing_twice(server, folder):
    write_lines(folder / "s.jsonl", sum_rows(60))
    slow(server, 0.3)
    first = start(folder, server.url)
    wait_for_requests(server, 8, first)
    second = start(folder, server.url, "--output", "second")
    outputs = [process.communicate(timeout=60)[0] for process in (first, second)]
    assert all("chosen  " in output for output in outputs) and "waiting" in outputs[1], outputs
    assert len(server.answered) == 60


def test_the_first_request_leaves_soon_and_the_rate_is_that_of_the_server(server, folder):
    """Not a benchmark: a command that reads or grades everything first would fail."""
    write_lines(folder / "s.jsonl", sum_rows(1000))
    server.answer = lambda body, n: answer_of(body, ["\\boxed{1}"] * body["n"])
    begin = time.monotonic()
    process = start(folder, server.url)
    wait_for_requests(server, 1, process)
    assert time.monotonic() - begin < 10
    process.kill()
    process.communicate()
