"""`make gpu-check` where there is no GPU: the check itself, reduced, on the model of the small study."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gpu_check


def start(folder: Path, *arguments, vllm: bool = False) -> subprocess.Popen:
    environment = {name: value for name, value in os.environ.items() if vllm or name != "HARDGRPO_VLLM_PYTHON"}
    return subprocess.Popen(
        [sys.executable, "scripts/maintenance/gpu_check.py", "--models", "tiny", *map(str, arguments)],
        cwd=folder, env=environment | {"CUDA_VISIBLE_DEVICES": ""}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def check(folder: Path, *arguments, vllm: bool = False) -> subprocess.CompletedProcess:
    process = start(folder, *arguments, vllm=vllm)
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def table(report: Path) -> dict[tuple[str, str], dict]:
    """The rows of the report's first table, by stage and engine."""
    lines = [line for line in report.read_text().split("\n\n")[2].splitlines() if line.startswith("| ")]
    head, _, *rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return {(row[1], row[2]): dict(zip(head, row)) for row in rows}


def number(cell: str) -> float:
    return float(cell.replace(",", ""))


def check_numbers(rows: dict) -> None:
    for (stage, _), row in rows.items():
        assert row["result"] == "ok" and number(row["seconds"]) >= 0 and row["notes"], row
        assert stage in ("model", "agree") or number(row["tokens/s"]) > 0, row
        assert stage not in ("train", "resume") or number(row["update s"]) > 0, row


def test_every_stage_has_numbers_and_a_resumed_run_is_bit_identical(finished_world, tmp_path):
    done = check(finished_world.folder, "--cpu", "--folder", tmp_path / "scratch", "--output", tmp_path / "report.md")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = table(tmp_path / "report.md")
    assert list(rows) == [("model", "")] + [(stage, "transformers") for stage in ("probe", "train", "resume", "evaluate")]
    check_numbers(rows)
    # Not true of a run in which nothing was learned, whose notes go on.
    assert rows["resume", "transformers"]["notes"].endswith("bit-identical to those of the uninterrupted run, updates.csv as well")
    assert "base and 3 checkpoints by 1 engine" in rows["evaluate", "transformers"]["notes"]
    text = (tmp_path / "report.md").read_text()
    assert "vLLM is not installed here" in text and "says nothing about a GPU" in text
    for package in ("torch", "transformers", "trl", "peft"):
        assert re.search(rf"^\| {package} \| \d+\.\d+", text, re.MULTILINE)


@pytest.mark.vllm
def test_with_vllm_both_engines_are_compared(finished_world, tmp_path):
    arguments = ["--cpu", "--folder", tmp_path / "scratch", "--output", tmp_path / "report.md"]
    done = check(finished_world.folder, *arguments, vllm=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = table(tmp_path / "report.md")
    assert {("probe", "vllm"), ("evaluate", "vllm"), ("agree", "both"), ("train", "vllm")} < set(rows)
    check_numbers(rows)
    assert re.search(r"base \d+%, step 2 \d+%, step 4 \d+%, step 6 \d+%$", rows["agree", "both"]["notes"])


def test_a_stage_that_fails_is_shown_and_the_check_goes_on(finished, tmp_path):
    weights = finished.folder / "results/models/tiny/model.safetensors"
    os.truncate(weights, 1000)
    done = check(finished.folder, "--cpu", "--output", "report.md")
    assert done.returncode == 1
    assert done.stderr.startswith("error: 2 of 5 stages failed: tiny probe transformers, tiny train transformers;")
    assert len(done.stderr.splitlines()) == 1
    rows = table(finished.folder / "report.md")
    for stage in ("probe", "train"):
        assert "FAILED: " in rows[stage, "transformers"]["result"]
        assert "results/models/tiny/model.safetensors: truncated: 1000 bytes" in rows[stage, "transformers"]["result"]
    for stage in ("resume", "evaluate"):
        assert rows[stage, "transformers"]["result"] == "not run: needs the training"


def test_without_a_gpu_it_says_so_in_one_line(finished_world, tmp_path):
    done = check(finished_world.folder, "--folder", tmp_path / "scratch")
    assert done.returncode == 1 and not done.stdout
    assert re.fullmatch(r"error: no NVIDIA GPU is visible here .* give --cpu to try the check itself\n", done.stderr)
    assert not (tmp_path / "scratch").exists()


def test_when_its_time_is_up_nothing_is_begun_and_what_an_earlier_check_left_is_gone(finished_world, tmp_path):
    scratch = tmp_path / "scratch"
    arguments = ["--cpu", "--folder", scratch, "--minutes", 0, "--output", tmp_path / "report.md"]
    for _ in range(2):
        done = check(finished_world.folder, *arguments)
        assert done.returncode == 0, done.stderr
        assert {row["result"] for row in table(tmp_path / "report.md").values()} == {"not run: out of time"}
        assert "5 of 5 stages were not run or not finished" in done.stdout
        assert not (scratch / "runs").exists()
        (scratch / "runs/tiny").mkdir(parents=True)


def test_a_folder_of_other_things_is_left_alone(finished_world, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    done = check(finished_world.folder, "--cpu", "--folder", tmp_path)
    assert done.returncode == 1 and done.stderr.startswith(f"error: {tmp_path}: not a folder that an earlier check made")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_stopped_it_leaves_no_program_running(finished_world, tmp_path):
    process = start(finished_world.folder, "--cpu", "--folder", tmp_path / "scratch")
    for line in process.stdout:
        if "probe" in line:
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 1
    time.sleep(0.2)
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path / "scratch") not in running


def test_what_is_missed_most_comes_first():
    made = gpu_check.Check({}, Path("scratch"), "0", ["transformers", "vllm"], 0.0)
    plan = gpu_check.plan_stages(made, list(gpu_check.MODELS), ["transformers", "vllm"])
    of_tiny, of_smollm2 = ([stage[1:] for stage in plan if stage[0] == model] for model in gpu_check.MODELS)
    assert [stage for stage in of_smollm2 if stage[0] in ("train", "resume")] == [
        ("train", "vllm"),
        ("resume", "vllm"),
        ("train", "transformers"),
    ]
    assert of_tiny[-1] == ("train", "vllm") and ("resume", "transformers") in of_tiny


def test_the_memory_in_use_is_what_nvidia_smi_says(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\ncase \"$*\" in *'--id 1 '*memory.used*) echo '2048, x';; *) exit 1;; esac\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for gpu, found in (("1", {2.0}), ("2", set())):
        made = gpu_check.Check({}, Path("scratch"), gpu, [], 0.0)
        with gpu_check.sampled_memory(made):
            time.sleep(1.2)
        assert set(made.memory) == found


@pytest.mark.parametrize(
    "printed, status, expected",
    [
        ("loading\nerror: a: truncated\n", 1, "a: truncated"),
        (
            'Traceback (most recent call last):\n  File "x.py", line 1\ntorch.AcceleratorError: CUDA error: no kernel\nCompile with X\n',
            1,
            "torch.AcceleratorError: CUDA error: no kernel",
        ),
        ("step 1\rstep 2\r", -9, "step 2 (killed by signal 9)"),
        ("", 3, "exit status 3"),
    ],
)
def test_the_line_that_names_the_error_is_found(printed, status, expected):
    assert gpu_check.first_line_of_error(printed, status) == expected
