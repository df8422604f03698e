"""Files and options that Snakemake reads before the Snakefile: the profile, --config and
--configfile; and the user's HOME."""

import os
import subprocess
import sys

import pytest

from conftest import World

OVERLAY = "study: mini # für alle\n"
REFUSED = {  # (arguments, files, words of the error)
    "a key with a dot": (["--config", "subset.policy=hard"], {}, ["subset.policy=hard", "`subset: {policy: hard}`", "--configfile"]),
    "a key with dots": (["--config", "tasks.swaps.probe.samples=3"], {}, ["`tasks: {swaps: {probe: {samples: 3}}}`"]),
    "a key with a dot after another": (["--config", "study=mini", "plan.gpus=4"], {}, ["plan.gpus=4", "`plan: {gpus: 4}`"]),
    "no value": (["--config", "study"], {}, ["--config study", "NAME=VALUE"]),
    "a target after --config": (["--config", "study=mini", "results/x.csv"], {}, ["results/x.csv", "target"]),
    "no name": (["--config", "=mini"], {}, ["--config =mini"]),
    "a name of one letter": (["--config", "s=mini"], {}, ["--config s=mini"]),
    "UTF-16": (["--configfile", "my.yaml"], {"my.yaml": OVERLAY.encode("utf-16")}, ["my.yaml", "UTF-16", "UTF-8"]),
    "UTF-16 without a mark": (["--configfile", "my.yaml"], {"my.yaml": b"study: mini".decode().encode("utf-16-le")}, ["my.yaml", "UTF-16"]),
    "UTF-32": (["--configfile", "my.yaml"], {"my.yaml": OVERLAY.encode("utf-32")}, ["my.yaml", "UTF-8"]),
    "Latin-1": (["--configfile", "my.yaml"], {"my.yaml": OVERLAY.encode("latin-1")}, ["my.yaml", "UTF-8"]),
    "the second file": (["--configfile", "a.yaml", "b.yaml"], {"a.yaml": b"", "b.yaml": b"a: [1"}, ["b.yaml: line 1", "not valid YAML"]),
    "a folder": (["--configfile", "results"], {}, ["results", "found a folder"]),
    "no file": (["--configfile", "my.yaml"], {}, ["my.yaml", "no such file"]),
    "a program": (["--configfile", "my.yaml"], {"my.yaml": b"__use_yte__: true\n"}, ["my.yaml", "__use_yte__"]),
    "a profile in UTF-16": ([], {"laptop/config.yaml": "cores: all\n".encode("utf-16")}, ["laptop/config.yaml", "UTF-16"]),
    "a profile with a key twice": ([], {"laptop/config.yaml": b"cores: 1\ncores: 2\n"}, ["laptop/config.yaml", "'cores'", "twice"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return World(tmp_path_factory.mktemp("start") / "world")


@pytest.mark.parametrize("case", REFUSED)
def test_entries_that_give_snakemake_a_traceback_give_a_one_line_error(case, world):
    arguments, written, expected = REFUSED[case]
    before = {path: path.read_bytes() for name in written if (path := world.folder / name).exists()}
    for name, content in written.items():
        (world.folder / name).write_bytes(content)
    done = world.snakemake("-n", *arguments)
    for name in written:
        (world.folder / name).unlink()
    for path, content in before.items():
        path.write_bytes(content)
    lines = (done.stdout + done.stderr).splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert (
        done.returncode != 0
        and len(errors) == 1
        and not [line for line in lines if "Traceback" in line]
    ), lines
    assert [words for words in expected if words not in errors[0]] == [], errors


def test_what_snakemake_can_read_is_read(world):
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


def test_a_home_that_cannot_be_written_does_not_matter(world):
    target, nobody = (
        "results/tasks/swaps/questions.jsonl",
        {"HOME": "/proc/nobody", "XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": ""},
    )
    # simulate a compute node
    command = [sys.executable, "-m", "snakemake", "-n", "--profile", "slurm", target]
    done = subprocess.run(
        command,
        cwd=world.folder,
        env=os.environ | nobody,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    done = world.snakemake(target, env=nobody)
    assert done.returncode == 0 and (world.folder / target).exists(), done.stderr
