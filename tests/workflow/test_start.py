"""Faults in what Snakemake reads before the Snakefile (the profile, --config and --configfile), and
a HOME that cannot be written to."""

import os
import subprocess
import sys

import pytest

from conftest import World

OVERLAY = "study: mini # für alle\n"
REFUSED = {  # (arguments, files, words of the error)
    "a key with a dot": (["--config", "subset.policy=hard"], {}, ["subset.policy=hard", "`subset: {policy: hard}`", "--configfile"]),
    "a key with dots": (["--config", "tasks.swaps.probe.samples=3"], {}, ["`tasks: {swaps: {probe: {samples: 3}}}`"]),
    "a key with a dot in the second entry": (["--config", "study=mini", "plan.gpus=4"], {}, ["plan.gpus=4", "`plan: {gpus: 4}`"]),
    "no value": (["--config", "study"], {}, ["--config study", "NAME=VALUE"]),
    "a target after --config": (["--config", "study=mini", "results/x.csv"], {}, ["results/x.csv", "target"]),
    "no name": (["--config", "=mini"], {}, ["--config =mini"]),
    "a name of one letter": (["--config", "s=mini"], {}, ["--config s=mini"]),
    "UTF-16": (["--configfile", "my.yaml"], {"my.yaml": OVERLAY.encode("utf-16")}, ["my.yaml", "UTF-16", "UTF-8"]),
    "UTF-16 without a byte order mark": (["--configfile", "my.yaml"], {"my.yaml": "study: mini".encode("utf-16-le")}, ["my.yaml", "UTF-16"]),
    "UTF-32": (["--configfile", "my.yaml"], {"my.yaml": OVERLAY.encode("utf-32")}, ["my.yaml", "UTF-8"]),
    "Latin-1": (["--configfile", "my.yaml"], {"my.yaml": OVERLAY.encode("latin-1")}, ["my.yaml", "UTF-8"]),
    "the second file": (["--configfile", "a.yaml", "b.yaml"], {"a.yaml": b"", "b.yaml": b"a: [1"}, ["b.yaml: line 1", "not valid YAML"]),
    "a folder": (["--configfile", "results"], {}, ["results", "found a folder"]),
    "no file": (["--configfile", "my.yaml"], {}, ["my.yaml", "no such file"]),
    "a template with code": (["--configfile", "my.yaml"], {"my.yaml": b"__use_yte__: true\n"}, ["my.yaml", "__use_yte__"]),
    "a profile in UTF-16": ([], {"laptop/config.yaml": "cores: all\n".encode("utf-16")}, ["laptop/config.yaml", "UTF-16"]),
    "a profile with a key twice": ([], {"laptop/config.yaml": b"cores: 1\ncores: 2\n"}, ["laptop/config.yaml", "'cores'", "twice"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return World(tmp_path_factory.mktemp("start") / "world")


@pytest.mark.parametrize("case", REFUSED)
def test_faulty_options_and_files_give_a_one_line_error(case, world):
    arguments, contents, expected = REFUSED[case]
    original_contents = {
        path: path.read_bytes() for name in contents if (path := world.folder / name).exists()
    }
    for name, content in contents.items():
        (world.folder / name).write_bytes(content)
    done = world.snakemake("-n", *arguments)
    for name in contents:
        (world.folder / name).unlink()
    for path, content in original_contents.items():
        path.write_bytes(content)
    lines = (done.stdout + done.stderr).splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert (
        done.returncode != 0
        and len(errors) == 1
        and not [line for line in lines if "Traceback" in line]
    ), lines
    assert [words for words in expected if words not in errors[0]] == [], errors


def test_a_byte_order_mark_json_and_mappings_on_the_command_line_are_accepted(world):
    (world.folder / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + OVERLAY.encode())
    (world.folder / "json.yaml").write_text('{"study": "mini_truncation"}')
    planned = world.plan(
        "--configfile",
        "bom.yaml",
        "json.yaml",
        "--config",
        "plan={gpu: h100}",
        "update_inputs=true",
    )
    assert planned["train_grpo"] == 60


def test_no_writable_home_is_needed(world):
    target = "results/tasks/swaps/questions.jsonl"
    no_home = {"HOME": "/proc/nobody", "XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": ""}
    command = [sys.executable, "-m", "snakemake", "-n", "--profile", "slurm", target]
    done = subprocess.run(
        command,
        cwd=world.folder,
        env=os.environ | no_home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    done = world.snakemake(target, env=no_home)
    assert done.returncode == 0 and (world.folder / target).exists(), done.stderr
