"""`make gpu-check`: its ten checks with a small model on the CPU, and on GPUs if there are any."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from conftest import LONG_LIMIT, ROOT, World, path_of, until
from hardgrpo.runtime import errors

CHECKS = 10


def check(folder, *arguments: str, **env: str) -> subprocess.CompletedProcess:
    command = [sys.executable, path_of("gpu_check"), *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ | env
    )


def rows(world: World) -> list[dict]:
    return json.loads((world.folder / "results/gpu-check/numbers.json").read_text())["checks"]


# The tests on the CPU leave out vLLM, whose starts would take minutes.
# tests/end_to_end/test_vllm.py and test_sharded.py train with vLLM.
NO_VLLM = {"HARDGRPO_VLLM_PYTHON": "/nowhere/python"}


@pytest.mark.slow
@pytest.mark.compiler
@pytest.mark.timeout(LONG_LIMIT)
def test_the_gpu_checks_run_in_order_on_a_cpu_and_write_their_numbers(finished):
    done = check(finished.folder, "--stand-in", **NO_VLLM)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    written = rows(finished)
    assert [row["check"] for row in written] == list(range(1, CHECKS + 1)) and not [
        row for row in written if "failed" in row
    ]
    assert written[1]["numbers"] == {"left_out": "the kernel needs a GPU"}
    assert written[3]["numbers"]["base_before"] == written[3]["numbers"]["base_after"]
    assert written[5]["numbers"]["resumed_from"] >= 4
    assert all(f"check {number} of {CHECKS}" in done.stdout for number in range(1, CHECKS + 1))

    # simulate a base model that has changed
    moved = lambda text: text.replace(written[3]["numbers"]["base_after"], "0" * 64)
    finished.edit("results/gpu-check/trained/provenance.json", moved)
    done = check(finished.folder, "--stand-in", "--from", "6", **NO_VLLM)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert (
        done.stderr.startswith("error: check 6 (Interruption")
        and "the resumed run has another base model" in done.stderr
    )
    assert [row["check"] for row in rows(finished)] == [1, 2, 3, 4, 5, 6], (
        "the file must hold checks 1 to 6"
    )
    assert rows(finished)[5]["failed"] and rows(finished)[5]["numbers"]["resumed_from"] >= 4


@pytest.mark.parametrize(
    "first, last, kl, reason",
    [
        (0.0070, 0.0079, 0.0281, None),  # all numbers of this test were measured with model `tiny`
        # vLLM received the weights only before the first update
        (0.0070, 0.1959, 0.0394, "vLLM does not get the weights"),
        (0.0070, 0.0593, 0.0036, "vLLM does not get the weights"),
        # vLLM never received the weights; the learning rate is that of recipe as_written
        (0.0070, 0.0066, 0.00002, "moved too little to tell"),
        (None, None, 0.0281, None),  # without vLLM
    ],
)
def test_the_check_of_the_weight_sync_passes_or_fails_with_its_reason(
    first, last, kl, reason, monkeypatch
):
    monkeypatch.syspath_prepend(ROOT / "scripts/maintenance/gpu_checks")
    import checklist

    rows = [{"logp_difference_mean": first, "kl": 0.0}, {"logp_difference_mean": last, "kl": kl}]
    if first is None:
        rows = [{"kl": row["kl"]} for row in rows]
    run = SimpleNamespace(updates=rows)
    if reason is None:
        checklist.check_sync(run, {})
    else:
        with pytest.raises(checklist.Failed, match=reason):
            checklist.check_sync(run, {})


@pytest.mark.parametrize("scale", [1.0, 1.03])
def test_the_check_of_the_loss_kernel_notices_a_wrong_gradient(scale, monkeypatch):
    """Without a GPU, both computations use TRL's code without Triton, so only the comparison with
    float64 can notice the error."""
    monkeypatch.syspath_prepend(ROOT / "scripts/maintenance/gpu_checks")
    import checklist
    import loss_kernel

    fold = loss_kernel.chunked_logprob._backward_tile

    def backward_tile(tile, *arguments, **keywords) -> None:
        fold(tile, *arguments, **keywords)
        tile.mul_(scale)

    monkeypatch.setattr(loss_kernel.chunked_logprob, "_backward_tile", backward_tile)
    numbers = loss_kernel.compare("cpu", tokens=64, width=64, vocabulary=1000)
    if scale == 1.0:
        checklist.check_kernel_differences(numbers)
    else:
        with pytest.raises(checklist.Failed, match="gradient_to_float64 is 0.03"):
            checklist.check_kernel_differences(numbers)


@pytest.mark.parametrize("visible, gib", [("1", 8.0), ("GPU-0,1", 8.0), ("", 64.0)])
def test_peak_memory_is_measured_on_the_gpus_of_the_job(visible, gib, tmp_path, monkeypatch):
    """Without device cgroups, nvidia-smi lists the GPUs of all jobs on a node. If
    CUDA_VISIBLE_DEVICES is empty, the result is the largest memory of any of these GPUs."""
    monkeypatch.syspath_prepend(ROOT / "scripts/maintenance/gpu_checks")
    import workbench

    (tmp_path / "nvidia-smi").write_text(
        '#!/bin/sh\ncase "$*" in *--id=*1*) echo 8192;; *) echo 8192; echo 65536;; esac\n'
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with workbench.PeakMemory(1) as peak:
        until(lambda: peak.gib > 0)
    assert peak.gib == gib


@pytest.mark.parametrize("second_mib, number", [(8, 1), (900, 2)])
def test_a_gpu_counts_as_used_if_its_memory_rises(second_mib, number, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts/maintenance/gpu_checks")
    import workbench

    def use(*mib: int) -> None:
        (tmp_path / "next").write_text("#!/bin/sh\n" + "".join(f"echo {m}\n" for m in mib))
        (tmp_path / "next").chmod(0o755)
        (tmp_path / "next").replace(tmp_path / "nvidia-smi")

    use(500, 3)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with workbench.PeakMemory(2) as peak:
        assert peak.gpus_used == 0
        use(9000, second_mib)
        until(lambda: peak.gib > 8)
    assert peak.gpus_used == number


@pytest.mark.parametrize("card_gib, total_gib", [(79.6, 25.8), (140.4, 44.0)])
def test_the_estimated_memory_is_that_of_the_nodes_gpu(card_gib, total_gib, tmp_path, monkeypatch):
    """vLLM takes a share of the GPU's memory, so a run uses more memory on a larger GPU. A run used
    43.1 GiB on an H200; the estimate for a GPU of 80 GB was 25.6 GiB."""
    monkeypatch.syspath_prepend(ROOT / "scripts/maintenance/gpu_checks")
    import workbench

    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho {card_gib * 1024:.0f}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.chdir(ROOT)
    bench = workbench.Workbench(workbench.one_model("smollm2-135m"), tmp_path / "checks")
    recipe = bench.recipe("as_written", updates=6, checkpoint_every=2)
    total = bench.expected_gib("smollm2-135m", recipe, 1)["total"]
    assert total == pytest.approx(total_gib, abs=0.5)


def test_missing_requirements_of_a_check_are_reported(world):
    world.clear()
    done = check(world.folder, "--stand-in", **NO_VLLM)
    assert (
        done.returncode == 1
        and "manifest.json is missing" in done.stderr
        and "snakemake --profile laptop results/models/tiny" in done.stderr
    )
    done = check(world.folder, **NO_VLLM)
    assert (
        done.returncode == 1
        and done.stderr.count("\n") == 1
        and "is not installed" in done.stderr
        and "make gpu" in done.stderr
    )
    for number in ("0", "11"):
        assert (
            "expected a number from 1 to 10"
            in check(world.folder, "--stand-in", "--from", number, **NO_VLLM).stderr
        )


@pytest.mark.gpu
@pytest.mark.timeout(0)  # `make gpu-check` takes as long as the GPU needs
def test_the_checks_pass_on_this_machine_s_gpus():
    done = check(ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_a_failed_program_is_reported_by_its_error_and_not_by_later_messages_of_libraries(
    tmp_path, monkeypatch
):
    """NCCL prints a warning at the end of every process that has used vLLM."""
    monkeypatch.syspath_prepend(ROOT / "scripts/maintenance/gpu_checks")
    import workbench

    bench = workbench.Workbench(workbench.stand_in(), tmp_path)
    (tmp_path / "program.py").write_text(
        "import sys\nprint('error: no such kernel')\nprint('[rank0] a warning')\nsys.exit(1)\n"
    )
    with pytest.raises(workbench.Failed, match="error: no such kernel"):
        bench.run("program", tmp_path / "program.py")


def test_a_model_that_is_not_configured_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts/maintenance/gpu_checks")
    import workbench

    with pytest.raises(errors.UserError, match="smollm3.*not in config/models.yaml"):
        workbench.Workbench(workbench.one_model("smollm3"), tmp_path)
