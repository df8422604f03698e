"""What Snakemake reads before the Snakefile (--config and --configfile), and a HOME that cannot be
written to."""

import os
import subprocess
import sys

import pytest

from conftest import World


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return World(tmp_path_factory.mktemp("start") / "world")


def test_a_byte_order_mark_json_and_mappings_on_the_command_line_are_accepted(world):
    (world.folder / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + "study: mini # für alle\n".encode())
    (world.folder / "json.yaml").write_text('{"study": "mini_truncation"}')
    settings = ("--configfile", "bom.yaml", "json.yaml", "--config", "plan={gpu: h100}")
    planned = world.plan(*settings, "update_inputs=true")
    assert planned["train_grpo"] == 60


def test_no_writable_home_is_needed(world):
    target = "results/tasks/swaps/questions.jsonl"
    no_home = {"HOME": "/proc/nobody", "XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": ""}
    command = [sys.executable, "-m", "snakemake", "-n", "--profile", "slurm", target]
    environment = os.environ | no_home
    done = subprocess.run(
        command, cwd=world.folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    done = world.snakemake(target, env=no_home)
    assert done.returncode == 0 and (world.folder / target).exists(), done.stderr
