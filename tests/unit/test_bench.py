"""The arithmetic and the table of the benchmarks. Most measurements are not tested, because they
depend on the machine."""

import csv
import importlib
import json
import os
import re
import sys
from pathlib import Path

import pytest

import benchmarks

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import bench  # noqa: E402


def test_the_order_alternates_between_pairs_and_the_ratio_is_the_median_over_pairs():
    order, project_times, baseline = [], iter([1.0, 2.0, 30.0]), iter([2.0, 1.0, 10.0])

    def take(name, values):
        order.append(name)
        return next(values)

    medians = benchmarks.measure_pairs(
        lambda: take("ours", project_times), lambda: take("baseline", baseline), 3
    )
    assert order == ["ours", "baseline", "baseline", "ours", "ours", "baseline"]
    assert medians == (2.0, 2.0, 2.0)  # ratios 0.5, 2 and 3


@pytest.mark.parametrize(
    ("measured", "baseline", "target", "met"),
    [
        (3.0, 2.0, "ratio <= 1.5", True),
        (3.1, 2.0, "ratio <= 1.5", False),
        (5.0, None, "ours >= 6", False),
        (0, 9, "", None),
    ],
)
def test_a_row_says_whether_its_target_is_met(measured, baseline, target, met):
    assert benchmarks.row("w", "s", measured, baseline, target=target)["met"] is met


@pytest.mark.parametrize(
    ("measured", "baseline", "unit", "target", "times", "label"),
    [
        (3.0, 2.0, "s", "ratio <= 3", 2.0, "1.5, at most 3"),
        (60_000, 2.0, "graded/s", "ours >= 20000", 3.0, "60,000, at least 20,000 graded/s"),
        (6.0, None, "s", "ours <= 3", 0.5, "6, at most 3 s"),
    ],
)
def test_the_figure_shows_how_many_times_better_than_its_target_each_row_is(
    measured, baseline, unit, target, times, label
):
    assert bench.compare_with_target(
        benchmarks.row("w", unit, measured, baseline, target=target)
    ) == {
        "times": times,
        "label": label,
    }


def test_a_failed_command_is_reported_with_its_error():
    with pytest.raises(benchmarks.UserError, match="failed in .*: no such thing"):
        benchmarks.run([sys.executable, "-c", "import sys; sys.exit('no such thing')"])


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this copy of the project is no git clone")
def test_a_copy_has_the_code_and_the_reference_results_but_no_results_of_runs():
    with benchmarks.clone_copy() as folder:
        assert (folder / "Snakefile").is_file() and (
            folder / "results/reference/mini/gains.csv"
        ).is_file()
        assert not (folder / "results/training").exists() and not (folder / ".snakemake").exists()
    assert not folder.exists()


def test_benchmarks_that_cannot_run_here_are_reported_and_left_out(tmp_path, monkeypatch, capsys):
    (tmp_path / "measured.py").write_text(
        "import benchmarks\n"
        "def run(options): return [benchmarks.row('a', 's', 1.5, 3.0, target='ratio <= 1'), benchmarks.row('b', 'n', 2, None)]\n"
    )
    (tmp_path / "lacking.py").write_text(
        "from benchmarks import Skipped\ndef run(options): raise Skipped('no such machine')\n"
    )
    monkeypatch.setattr(bench, "BENCHMARKS", tmp_path)
    monkeypatch.setattr(bench, "NAMES", ["lacking", "measured"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    output = tmp_path / "out"
    monkeypatch.setattr(
        sys, "argv", ["bench.py", "--only", "lacking", "measured", "--output", str(output)]
    )
    bench.main()
    printed = capsys.readouterr().out
    assert "lacking: not measured: no such machine" in printed and "met" in printed
    rows = list(csv.DictReader((output / "bench.csv").open()))
    measurements = [(row["benchmark"], row["what"], row["ratio"], row["met"]) for row in rows]
    assert measurements == [("measured", "a", "0.5", "1"), ("measured", "b", "", "")]
    assert (output / "bench.pdf").is_file() and (output / "bench.png").is_file()


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(bench.BENCHMARKS))
    yield lambda name: importlib.import_module(name)
    for name in bench.NAMES:
        sys.modules.pop(name, None)


def test_every_benchmark_can_be_imported_and_has_a_function_run(modules):
    assert len(bench.NAMES) > 3
    for name in bench.NAMES:
        assert callable(modules(name).run), name


def run_benchmark(monkeypatch, output: Path, name: str, *arguments: str) -> list[dict]:
    """The rows of a benchmark with one pair of measurements."""
    monkeypatch.setattr(
        sys,
        "argv",
        ["bench.py", "--only", name, "--repeats", "1", "--output", str(output), *arguments],
    )
    bench.main()
    return list(csv.DictReader((output / "bench.csv").open()))


def test_a_small_benchmark_of_grading_runs_to_its_end(modules, monkeypatch, tmp_path):
    grading = modules("grading")
    monkeypatch.setattr(grading, "MIN_SECONDS", 0.01)
    recorded = {
        "question": "1 + 1?",
        "answer": "2",
        "completions": [r"\boxed{2}", r"\boxed{3}", "It is 2", "1 + 1 = 2"],
    }
    folder = tmp_path / "recordings/gsm8k_hard_test/qwen3-14b"
    folder.mkdir(parents=True)
    for name in grading.RECORDINGS:
        (folder / f"{name}.jsonl").write_text(json.dumps(recorded) + "\n")
    rows = run_benchmark(monkeypatch, tmp_path / "out", "grading", "--data", str(tmp_path))
    assert len(rows) == 5 and float(rows[2]["baseline"]) == 8, "not all completions were compared"
    assert (tmp_path / "out/grading_differences.csv").is_file()


longer = pytest.mark.skipif(
    not os.environ.get("HARDGRPO_BENCH"),
    reason="set HARDGRPO_BENCH=1 to run the benchmarks that take longer",
)


@pytest.mark.slow
@longer
@pytest.mark.timeout(0)
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this copy of the project is no git clone")
def test_the_benchmark_of_planning_runs_to_its_end(modules, monkeypatch, tmp_path):
    rows = run_benchmark(monkeypatch, tmp_path, "planning")
    assert [row["unit"] for row in rows] == ["processor s"] * 3
    assert all(float(row["ours"]) > 0 and float(row["baseline"]) > 0 for row in rows)


SMALL = ("--model", "results/models/tiny")


@pytest.fixture
def after_the_demo(modules, monkeypatch, finished_world) -> Path:
    """The folder of `finished_world` stands in for a clone in which `make demo` has run. The
    benchmarks write nothing into this folder."""
    for module in (benchmarks, *map(modules, bench.NAMES)):
        monkeypatch.setattr(module, "ROOT", finished_world.folder, raising=False)
    monkeypatch.chdir(finished_world.folder)
    # these benchmarks measure only transformers, not vLLM
    monkeypatch.setenv("HARDGRPO_VLLM_PYTHON", "none")
    return finished_world.folder


@longer
@pytest.mark.timeout(0)
def test_a_small_benchmark_of_sampling_runs_to_its_end(
    after_the_demo, modules, monkeypatch, tmp_path
):
    monkeypatch.setattr(modules("sampling"), "ADAPTERS", 2)
    monkeypatch.setattr(modules("sampling"), "TASKS", ("swaps", "swaps_hard"))
    rows = run_benchmark(monkeypatch, tmp_path, "sampling", *SMALL)
    assert [row["unit"] for row in rows] == [
        "tokens/s",
        "completions",
        "completions",
        "processor s",
        "processor s",
    ]
    assert float(rows[1]["ours"]) <= float(rows[1]["baseline"]) == 8 * 2 * 4


@longer
@pytest.mark.timeout(0)
def test_a_small_benchmark_of_training_runs_to_its_end(
    after_the_demo, modules, monkeypatch, tmp_path
):
    """The benchmark measures one case: with a KL term, in micro-batches."""
    monkeypatch.setattr(modules("training"), "UPDATES", 3)
    monkeypatch.setattr(modules("training"), "CASES", [(0.04, 4, False)])
    (row,) = run_benchmark(monkeypatch, tmp_path, "training", *SMALL)
    assert row["what"].startswith("step, beta 0.04, micro-batches of 4;") and float(
        row["ours"]
    ) > 0 < float(row["baseline"])


def test_every_benchmark_is_run_to_its_end_by_a_test_of_this_file():
    calls = re.findall(r'run_benchmark\(monkeypatch, [^,]+, "(\w+)"', Path(__file__).read_text())
    assert set(bench.NAMES) <= set(calls)
