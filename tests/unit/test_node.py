"""Before a program loads libraries, it reports in one line what the node lacks, and the remedy. In
these tests, a stand-in for torch pretends that there are GPUs."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from test_recipes import SPEC

from command_line import command
from conftest import ROOT
from hardgrpo.runtime import environments, user_settings
from interruptible_run import WITHOUT_SERVER

# A stand-in for the build of torch for GPUs, with everything that the programs use before they
# load libraries. It records which GPUs are visible when CUDA starts.
TORCH = """
import json, os
from types import SimpleNamespace
def start():
    with open("cuda.log", "a") as log:
        log.write(json.dumps(os.environ.get("CUDA_VISIBLE_DEVICES")) + "\\n")
def properties(index):
    start()
    return SimpleNamespace(name="NVIDIA H100 80GB HBM3", total_memory=85_000_000_000)
cuda = SimpleNamespace(device_count=lambda: 4, get_device_properties=properties)
"""
TRAIN = command("train_grpo", spec="spec.yaml", output="out", gpus=1, gpu_gib=20)
PROBE = command("probe", model="m", problems="p", prompt="{question}", samples=1, completion_tokens=1, seed=1, gpus=1, output="o.jsonl.gz")  # fmt: skip
NOTHING_LACKS = "no manifest.json"  # the programs end because their model is missing


@pytest.fixture
def node(tmp_path) -> Path:
    """A folder of a node with GPUs."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(TORCH)
    (tmp_path / "torch/version.py").write_text("cuda: str = '13.0'\n")
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(SPEC.fields()))
    return tmp_path


def error(node: Path, program: list[str], **variables: str) -> str:
    """Run a program that must fail. Return its one line of error."""
    unset = ("CUDA_VISIBLE_DEVICES", "CC", *environments.CACHES)
    environment = {name: value for name, value in WITHOUT_SERVER.items() if name not in unset}
    environment |= {"PYTHONPATH": f"{node}:{ROOT / 'src'}", user_settings.KEEP_PYTHONPATH: "1"}
    environment |= {"TMPDIR": str(node), "SLURM_TMPDIR": ""} | variables
    done = subprocess.run(program, cwd=node, capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stdout + done.stderr
    assert done.stderr.startswith("error: ")
    return done.stderr


@pytest.mark.compiler
def test_programs_start_on_a_node_that_lacks_nothing(node):
    for program in (TRAIN, PROBE):
        assert NOTHING_LACKS in error(node, program)
    folder = node / f"hardgrpo-kernels-{os.getuid()}"
    assert {path.name for path in folder.iterdir()} == set(environments.CACHES.values())
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("visible", "expected"), [(None, "0"), ("3,1", "3"), ("GPU-5f,GPU-6a", "GPU-5f")]
)
def test_a_training_on_one_gpu_hides_the_other_gpus_before_cuda_starts(node, visible, expected):
    """If the program set CUDA_VISIBLE_DEVICES after CUDA starts, the trainer would find several
    GPUs and end with an error."""
    error(node, TRAIN, **({"CUDA_VISIBLE_DEVICES": visible} if visible else {}))
    lines = (node / "cuda.log").read_text().splitlines()
    assert {json.loads(line) for line in lines} == {expected}


def test_a_build_of_torch_for_cpus_is_reported_if_gpus_are_requested(node):
    (node / "torch/version.py").write_text("cuda: str = None\n")
    for program in (TRAIN, PROBE):
        message = error(node, program, HARDGRPO_VLLM_PYTHON="/nowhere/python")
        assert "torch for GPUs is not installed (/nowhere/python" in message
        assert "`make gpu`" in message and "take `gpus` out" in message
    python = node / "python"
    python.write_text("#!/bin/sh\nprintf 'error: started again\\n' >&2; exit 1\n")
    python.chmod(0o755)
    assert error(node, TRAIN, HARDGRPO_VLLM_PYTHON=str(python)) == "error: started again\n"


def test_only_training_needs_a_compiler(node):
    (node / "empty").mkdir()
    empty = {"PATH": str(node / "empty")}
    message = error(node, TRAIN, **empty)
    for words in ("gcc or clang is not installed", "module load gcc", "containers"):
        assert words in message
    assert "no-such-cc is not installed" in error(node, TRAIN, CC="no-such-cc")
    assert NOTHING_LACKS in error(node, PROBE, **empty), "transformers compiles no kernels"


@pytest.mark.parametrize("variable", ["TMPDIR", "TRITON_CACHE_DIR"])
def test_a_cache_that_cannot_be_written_is_reported(node, variable):
    (node / "file").write_text("")
    place = str(node / "file/cache")
    assert f"cannot read or write {place}" in error(node, TRAIN, **{variable: place})


def test_a_cache_that_others_can_write_is_not_used(node):
    folder = node / f"hardgrpo-kernels-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert "can be written by other users" in error(node, TRAIN)
