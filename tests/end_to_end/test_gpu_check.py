"""The checks of `make gpu-check`, with models of two layers on the CPU."""

import csv
import os
import runpy
import subprocess
import sys

import pytest

from conftest import LONG_LIMIT, ROOT
from hardgrpo.runtime import files


@pytest.fixture(autouse=True)
def checks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests/gpu")


def check(folder, *options: str) -> subprocess.CompletedProcess:
    """Run the checks without vLLM, whose starts would take minutes: tests/end_to_end/test_vllm.py and
    test_sharded.py train with vLLM."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(ROOT / "tests/gpu"),
        "-x",
        "--timeout=0",
        *options,
    ]
    env = os.environ | {"GPU_CHECK": "cpu", "HARDGRPO_VLLM_PYTHON": "/nowhere/python"}
    command += [f"--confcutdir={ROOT / 'tests/gpu'}", f"--rootdir={ROOT}", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=env)


@pytest.mark.nightly
@pytest.mark.timeout(LONG_LIMIT)
def test_the_checks_pass_on_a_cpu_and_note_their_numbers_beside_the_plan_s(tmp_path):
    done = check(tmp_path)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    with open(tmp_path / "results/gpu-check/numbers.csv", encoding="utf-8") as stream:
        rows = {(row["check"], row["number"]): row for row in csv.DictReader(stream)}
    update = rows["test_training", "seconds of an update"]
    assert float(update["measured"]) > 0 and float(update["planned"]) > 0
    assert update["device"] == "CPU" and "trl" in update["versions"]

    # simulate a base model that has changed
    path = tmp_path / "results/gpu-check/trained/provenance.json"
    record = files.read_json(path)
    files.write_json(path, record | {"base_sha256": "0" * 64})
    done = check(tmp_path, "-k", "test_kill")
    assert done.returncode == 1 and "base_sha256" in done.stdout, done.stdout


@pytest.mark.parametrize(
    "first, last, kl, reason",
    [
        (0.0070, 0.0079, 0.0281, None),  # all numbers of this test were measured with model `tiny`
        # vLLM received the weights only before the first update
        (0.0070, 0.0959, 0.0394, "vLLM does not get the weights"),
        (0.0070, 0.0593, 0.0036, "vLLM does not get the weights"),
        # vLLM never received the weights; the learning rate is that of recipe as_written
        (0.0070, 0.0066, 0.00002, "moved too little to tell"),
    ],
)
def test_the_check_of_the_weight_sync_passes_or_fails_with_its_reason(first, last, kl, reason):
    import test_training

    updates = [{"logp_difference_mean": first, "kl": 0.0}, {"logp_difference_mean": last, "kl": kl}]
    if reason is None:
        test_training.check_sync(updates)
    else:
        with pytest.raises(AssertionError, match=reason):
            test_training.check_sync(updates)


@pytest.mark.parametrize("scale", [1.0, 1.03])
def test_the_check_of_the_loss_kernel_notices_a_wrong_gradient(scale, monkeypatch):
    """Without a GPU, both computations use TRL's code without Triton, so only the comparison with
    float64 can notice the error."""
    import parts
    import test_sampling
    from trl.kernels import chunked_logprob

    fold = chunked_logprob._backward_tile

    def backward_tile(tile, *arguments, **keywords) -> None:
        fold(tile, *arguments, **keywords)
        tile.mul_(scale)

    monkeypatch.setattr(chunked_logprob, "_backward_tile", backward_tile)
    numbers = parts.compare_loss_kernel("cpu", 64, 64, 1000)
    limits = test_sampling.KERNEL_DIFFERENCES
    faults = {name for name, limit in limits.items() if numbers[name] >= limit}
    assert faults == (set() if scale == 1.0 else {"gradient_to_float64"})


@pytest.mark.parametrize("card_gib, total_gib", [(79.6, 25.8), (140.4, 44.0)])
def test_the_planned_memory_is_that_of_the_nodes_gpu(card_gib, total_gib, tmp_path, monkeypatch):
    """vLLM takes a share of the GPU's memory, so a run uses more memory on a larger GPU. A run used
    43.1 GiB on an H200; the estimate for a GPU of 80 GB was 25.6 GiB."""
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho {card_gib * 1024:.0f}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    bench = runpy.run_path(str(ROOT / "tests/gpu/conftest.py"))["Bench"]()
    recipe = bench.recipe("as_written", updates=6, checkpoint_every=2)
    total = bench.planned_gib("smollm2-135m", recipe, 1)["total"]
    assert total == pytest.approx(total_gib, abs=0.5)
