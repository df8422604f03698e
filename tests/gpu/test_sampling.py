"""The kernel of TRL's loss, and sampling. The cheapest check comes first."""

import statistics

import pytest

# Largest differences of the loss kernel, see parts.compare_loss_kernel
KERNEL_DIFFERENCES = {
    "logp_to_torch": 1e-3,
    "gradient_to_torch": 1e-2,
    "logp_to_float64": 0.03,
    "gradient_to_float64": 2e-2,
}
# Largest difference between two probes in the mean log-probability of a token
PROBE_DIFFERENCE = 0.03


def mean_log_probability(rows: list[dict]) -> float:
    return statistics.fmean(row["log_probability"] for row in rows)


def test_loss_kernel(bench, note):
    """Log-probabilities and gradients of the Triton kernel are those of torch and of float64."""
    shape = ("cuda", 1024, 2560, 151_936) if bench.gpus else ("cpu", 64, 64, 1000)
    numbers = bench.part("compare_loss_kernel", *shape)
    for name, value in numbers.items():
        note(name, value)
    assert not {name for name, limit in KERNEL_DIFFERENCES.items() if numbers[name] >= limit}


def test_probe(bench, note):
    """A probe samples; its speed."""
    rows, record = bench.probe("probe", bench.small)
    note.packages = record["packages"]
    note("tokens per second", record["completion_tokens"] / record["work_seconds"])
    note("seconds to start", record["seconds"] - record["work_seconds"])
    assert len({row["completion"] for row in rows}) > 1


def test_repeated_probe(bench, note):
    """Another probe gives tokens the same log-probabilities."""
    first, _ = bench.probe("probe", bench.small)
    rows, _ = bench.probe("probe_again", bench.small)
    same = statistics.fmean(a["completion"] == b["completion"] for a, b in zip(first, rows))
    note("share of equal completions", same)
    assert abs(mean_log_probability(first) - mean_log_probability(rows)) < PROBE_DIFFERENCE


def test_probe_on_two_gpus(bench, note):
    """An engine on two GPUs gives tokens the same log-probabilities as on one."""
    if not (bench.gpus and bench.several):
        pytest.skip("needs two GPUs")
    first, _ = bench.probe("probe", bench.small)
    rows, record = bench.probe("probe_two", bench.small, gpus=2)
    note("tokens per second", record["completion_tokens"] / record["work_seconds"])
    assert abs(mean_log_probability(first) - mean_log_probability(rows)) < PROBE_DIFFERENCE
