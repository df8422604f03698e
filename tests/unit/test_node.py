"""Before a program loads libraries, it reports in one line what the node lacks, and the remedy. In
these tests, a stand-in for torch pretends that there are GPUs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from test_recipes import SPEC

from conftest import ROOT, path_of
from hardgrpo.runtime import environments, user_settings
from interruptible_run import WITHOUT_SERVER

# A stand-in for the build of torch for GPUs, with everything that the programs use before they
# load libraries. It records which GPUs are visible when CUDA starts.
TORCH = """
import json, os
from types import SimpleNamespace
def start():
    with open({log!r}, "a") as log:
        log.write(json.dumps(os.environ.get("CUDA_VISIBLE_DEVICES")) + "\\n")
def properties(index):
    start()
    return SimpleNamespace(name="NVIDIA H100 80GB HBM3", total_memory=85_000_000_000)
cuda = SimpleNamespace(device_count=lambda: 4, get_device_properties=properties)
"""


class Node:
    """A node with GPUs. `train` and `probe` start a program. If the node lacks nothing, the program
    ends because its model is missing."""

    def __init__(self, folder: Path):
        self.folder, self.log = folder, folder / "cuda.log"
        self.torch()
        (folder / "spec.yaml").write_text(yaml.safe_dump(SPEC.fields()))

    def torch(self, built: str = "'13.0'") -> None:
        (self.folder / "torch").mkdir(exist_ok=True)
        (self.folder / "torch/__init__.py").write_text(TORCH.format(log=str(self.log)))
        (self.folder / "torch/version.py").write_text(
            f"from typing import Optional\ncuda: Optional[str] = {built}\n"
        )

    def run(self, program: str, *arguments, **env: str) -> str:
        """Run a program that must fail. Return its one line of error."""
        inherited = {
            name: value
            for name, value in WITHOUT_SERVER.items()
            if name not in ("CUDA_VISIBLE_DEVICES", "CC", *environments.CACHES)
        }
        settings = {
            "PYTHONPATH": f"{self.folder}:{ROOT / 'src'}",
            user_settings.KEEP_PYTHONPATH: "1",
            "TMPDIR": str(self.folder),
            "SLURM_TMPDIR": "",
        }
        done = subprocess.run(
            [sys.executable, path_of(program), *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env=inherited | settings | env,
        )
        assert (
            done.returncode == 1
            and done.stderr.count("\n") == 1
            and done.stderr.startswith("error: ")
        ), done.stdout + done.stderr
        return done.stderr

    def train(self, *arguments, **env: str) -> str:
        return self.run(
            "train_grpo",
            "--spec",
            "spec.yaml",
            "--output",
            "out",
            "--gpus",
            "1",
            "--gpu-gib",
            "20",
            *arguments,
            **env,
        )

    def probe(self, **env: str) -> str:
        options = {
            "--model": "m",
            "--problems": "p",
            "--prompt": "{question}",
            "--samples": 1,
            "--completion-tokens": 1,
            "--seed": 1,
        }
        return self.run(
            "probe",
            *(str(part) for pair in options.items() for part in pair),
            "--gpus",
            "1",
            "--output",
            "o.jsonl.gz",
            **env,
        )


@pytest.fixture
def gpu_node(tmp_path) -> Node:
    return Node(tmp_path)


@pytest.mark.compiler
def test_programs_start_on_a_node_that_lacks_nothing(gpu_node):
    for message in (gpu_node.train(), gpu_node.probe()):
        assert "no manifest.json" in message
    cache_folder = gpu_node.folder / f"hardgrpo-kernels-{os.getuid()}"
    assert {path.name for path in cache_folder.iterdir()} == set(
        environments.CACHES.values()
    ) and cache_folder.stat().st_mode & 0o077 == 0


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("visible", "expected"), [(None, "0"), ("2", "2"), ("3,1", "3"), ("GPU-5f,GPU-6a", "GPU-5f")]
)
def test_a_training_on_one_gpu_hides_the_other_gpus_before_cuda_starts(gpu_node, visible, expected):
    """If the program set CUDA_VISIBLE_DEVICES after CUDA starts, the trainer would find several
    GPUs and end with an error."""
    gpu_node.train(**({"CUDA_VISIBLE_DEVICES": visible} if visible else {}))
    assert {json.loads(line) for line in gpu_node.log.read_text().splitlines()} == {expected}


def test_a_build_of_torch_for_cpus_is_reported_if_gpus_are_requested(gpu_node):
    gpu_node.torch(built="None")
    nowhere = {"HARDGRPO_VLLM_PYTHON": "/nowhere/python"}
    for message in (gpu_node.train(**nowhere), gpu_node.probe(**nowhere)):
        assert (
            "torch for GPUs is not installed (/nowhere/python" in message
            and "`make gpu`" in message
            and "take `gpus` out" in message
        )
    (gpu_node.folder / "python").write_text(
        "#!/bin/sh\nprintf 'error: started again\\n' >&2; exit 1\n"
    )
    (gpu_node.folder / "python").chmod(0o755)
    assert (
        gpu_node.train(HARDGRPO_VLLM_PYTHON=str(gpu_node.folder / "python"))
        == "error: started again\n"
    )


def test_only_training_needs_a_compiler(gpu_node):
    empty_folder = gpu_node.folder / "empty"
    empty_folder.mkdir()
    message = gpu_node.train(PATH=str(empty_folder))
    assert (
        "gcc or clang is not installed" in message
        and "module load gcc" in message
        and "containers" in message
    )
    assert "no-such-cc is not installed" in gpu_node.train(CC="no-such-cc")
    assert "no manifest.json" in gpu_node.probe(PATH=str(empty_folder)), (
        "a probe needs a compiler, although transformers samples without compiled kernels"
    )


@pytest.mark.parametrize("variable", ["TMPDIR", "SLURM_TMPDIR", *environments.CACHES])
def test_a_cache_that_cannot_be_written_is_reported(gpu_node, variable):
    (gpu_node.folder / "file").write_text("")
    place = str(gpu_node.folder / "file/cache")
    assert f"cannot read or write {place}" in gpu_node.train(**{variable: place})


def test_a_cache_that_others_can_write_is_not_used(gpu_node):
    folder = gpu_node.folder / f"hardgrpo-kernels-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert "can be written by other users" in gpu_node.train()
