"""Small runs of the simulation that docs/statistics.md reports, and a comparison of the numbers on
this page with the committed tables."""

import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import simulate_coverage as simulation
import variance_components as variance
from conftest import ROOT
from hardgrpo.report import plotting
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError

COMPONENTS, COVERED, LEVELS = simulation.read_tables(ROOT / "docs")
SWAPS = COMPONENTS[COMPONENTS.eval_task == "swaps"]


def test_the_text_states_the_numbers_of_the_tables():
    text = (ROOT / "docs/statistics.md").read_text(encoding="utf-8")
    assert simulation.fill_tables(text, COMPONENTS, COVERED, LEVELS) == text, (
        "the page differs from the tables; run scripts/maintenance/simulate_coverage.py"
    )


@pytest.mark.slow
def test_the_committed_tables_equal_a_new_computation():
    """The committed tables cover four test tasks. This test repeats only the simulation of
    `swaps_hard` with 3 seeds: all 1,000 studies, with the same random numbers. (Rows of McNemar's
    test have 1 seed, because the test compares two runs.)"""
    harder = COMPONENTS[COMPONENTS.eval_task == "swaps_hard"]
    covered = pd.DataFrame(
        files.round_floats(simulation.coverage(harder, 1000, seeds_tried=(3,)), digits=6)
    )
    committed = COVERED[(COVERED.eval_task == "swaps_hard") & (COVERED.seeds == 3)].reset_index(
        drop=True
    )
    # processors round differently, which changes the results of one or two of the 1,000 studies
    pd.testing.assert_frame_equal(covered, committed, rtol=0, atol=0.002)
    levels = pd.DataFrame(
        files.round_floats(simulation.levels(harder, 1000, seeds_tried=(3,)), digits=6)
    )
    committed = LEVELS[(LEVELS.eval_task == "swaps_hard") & LEVELS.seeds.isin([1, 3])].reset_index(
        drop=True
    )
    pd.testing.assert_frame_equal(levels, committed, rtol=0, atol=0.002)


def run_program(monkeypatch, docs, *arguments):
    """Run the program on a folder of documents and return the figure that the program saves."""
    figures, save = [], plotting.save
    monkeypatch.setattr(
        plotting, "save", lambda figure, *options: (figures.append(figure), save(figure, *options))
    )
    monkeypatch.setattr(sys, "argv", ["simulate_coverage.py", "--docs", str(docs), *arguments])
    simulation.main()
    (figure,) = figures
    return figure


@pytest.fixture
def docs(tmp_path):
    for name in ("statistics.md", "variance_components.csv"):
        shutil.copy(ROOT / "docs" / name, tmp_path / name)
    return tmp_path


@pytest.mark.slow
def test_the_program_writes_the_simulated_tables_the_text_and_the_figure(docs, monkeypatch):
    figure = run_program(monkeypatch, docs, "--studies", "3")
    components, covered, levels = simulation.read_tables(docs)
    assert (
        set(covered.replications) == {3}
        and len(covered) == len(COVERED)
        and len(levels) == len(LEVELS)
    )
    text = (docs / "statistics.md").read_text(encoding="utf-8")
    assert simulation.fill_tables(text, components, covered, levels) == text
    assert (docs / "images/coverage.png").read_bytes().startswith(b"\x89PNG") and len(
        figure.axes
    ) == 4
    for axis, (target, quantity) in zip(
        figure.axes, [("B", "gain"), ("B", "difference"), ("A", "gain"), ("A", "difference")]
    ):
        assert axis.get_title() == f"{quantity}s, target {target}"
        names = simulation.METHODS[target][::-1]
        if quantity == "gain":  # only the left panel of a row has tick labels
            assert [label.get_text() for label in axis.get_yticklabels()] == list(names)
        rows = covered[
            (covered.target == target)
            & (covered.quantity == quantity)
            & covered.method.isin(simulation.METHODS[target])
        ]
        drawn = {
            (line.get_label(), names[round(height)], round(share, 6))
            for line in axis.lines
            for share, height in zip(*line.get_data())
        }
        assert drawn == {
            (f"{row.seeds} seeds", row.method, round(100 * row.coverage, 6))
            for row in rows.itertuples()
        }


def test_the_committed_tables_can_be_drawn_without_simulating(docs, monkeypatch):
    for name in ("coverage.csv", "levels.csv"):
        shutil.copy(ROOT / "docs" / name, docs / name)
    run_program(monkeypatch, docs, "--draw")
    assert (docs / "images/coverage.png").is_file()
    for name in ("coverage.csv", "levels.csv", "statistics.md"):
        assert (docs / name).read_bytes() == (ROOT / "docs" / name).read_bytes()


def test_missing_tables_are_reported(docs, monkeypatch):
    with pytest.raises(UserError, match="coverage.csv: no such file"):
        run_program(monkeypatch, docs, "--draw")


@pytest.mark.parametrize("target", ["A", "B"])
def test_reported_intervals_cover_the_true_value_in_93_to_98_per_cent_of_1000_studies(target):
    reported = COVERED[(COVERED.target == target) & (COVERED.method == simulation.REPORTED[target])]
    assert set(reported.seeds) == {3, 5, 10} and set(reported.quantity) == {"gain", "difference"}
    assert (reported.replications >= 1000).all()
    assert reported.coverage.between(0.93, 0.98).all(), reported[
        ["eval_task", "seeds", "quantity", "coverage"]
    ]


def test_corrected_tests_keep_their_level():
    held = LEVELS[~LEVELS.test.str.contains("not corrected")]
    # 5 %, with a tolerance for the sampling noise of a share of 1,000 studies
    within = 0.05 + 2.58 * np.sqrt(0.05 * 0.95 / held.replications)
    assert (held.level <= within).all(), held


def test_a_small_simulation_distinguishes_intervals_that_cover_from_intervals_that_do_not():
    """Only 150 studies are simulated, so the bounds are wide: the upper bound for the bootstrap
    over seeds is above the lower bound for the reported formulas."""
    rows = pd.DataFrame(simulation.coverage(SWAPS, 150, seeds_tried=(5,), seed=3))
    of = lambda target, quantity, method: rows[
        (rows.target == target) & (rows.quantity == quantity) & (rows.method == method)
    ].coverage.item()
    for target, method in simulation.REPORTED.items():
        for quantity in ("gain", "difference"):
            assert 0.89 <= of(target, quantity, method) <= 0.995
    assert (
        of("B", "gain", "naive binomial") < 0.75
        and of("B", "gain", "bootstrap over problems") < 0.75
    )
    assert of("B", "difference", "bootstrap over seeds") < 0.92


def test_corrected_tests_keep_their_level_in_a_small_simulation():
    levels = {
        row["test"]: row["level"] for row in simulation.levels(SWAPS, 150, seeds_tried=(5,), seed=3)
    }
    assert (
        levels["paired, one comparison"] < 0.09
        and levels["paired, at least one of 6 comparisons, Holm"] < 0.13
    )
    assert (
        levels["McNemar, one comparison"] < 0.09
        and levels["McNemar, at least one of 6 comparisons, Holm"] < 0.13
    )
    assert (
        levels["paired, at least one of 6 comparisons, not corrected"]
        > levels["paired, at least one of 6 comparisons, Holm"]
    )


def test_simulated_studies_have_the_components_that_they_were_given():
    """Components that are estimated from a simulated study with many problems equal the components
    given to the simulation."""
    arms = len(SWAPS.policies.item().split()) + 1
    none = variance.text_of(np.zeros(arms * arms))
    alone = {"replicate": none, "problem_in_replicate": none, "number_in_replicate": none}
    row = next(SWAPS.assign(problems=4000, design=variance.SHARED, **alone).itertuples())
    base, runs, truths = simulation.simulate(row, 2, 1, np.random.default_rng(1))
    rates = [float(rate) for rate in row.accuracies.split()]
    assert base.mean() == pytest.approx(row.base_accuracy, abs=0.02)
    assert runs.mean(axis=(0, 2, 3, 4)) == pytest.approx(rates, abs=0.02)
    assert truths["B"] == pytest.approx(np.array(rates) - row.base_accuracy)
    assert truths["A"][0] == pytest.approx(truths["B"], abs=0.02), (
        "the true gains for the two targets differ, although the study has many problems"
    )
    latent = lambda grades, other_grades, own=False: variance.latent(
        grades.astype(float), other_grades.astype(float), own
    )
    problem, number = variance.matrix_of(row.problem), variance.matrix_of(row.number)
    assert latent(base[0, 0], base[0, 0], own=True)[0] == pytest.approx(problem[0, 0], abs=0.06)
    different_samples, same_sample = latent(runs[0, 0, 0], runs[0, 1, 1])
    assert (different_samples, same_sample - different_samples) == pytest.approx(
        (problem[1, 2], number[1, 2]), abs=0.06
    )
    different_samples, same_sample = latent(base[0, 0], runs[0, 2, 0])
    assert (different_samples, same_sample - different_samples) == pytest.approx(
        (problem[0, 3], number[0, 3]), abs=0.08
    )


def cells_like(base, runs):
    """Cells for S replicates, N problems and m completions, one cell for each policy. `runs` holds
    the grades of the trained models (policies, S, N, m). `base` holds the grades of the base
    models: (S, N, m), or (1, N, m) for a shared base model."""
    keys = {"model": "m", "task": "t", "eval_task": "t"}
    return [
        SimpleNamespace(
            **keys,
            policy=f"p{i}",
            is_first_recipe=True,
            steps=lambda: [5],
            grades=lambda step, run_grades=run_grades: run_grades if step else base,
        )
        for i, run_grades in enumerate(runs)
    ]


@pytest.mark.parametrize("shape", [(1, 5, 3), (3, 1, 3), (3, 5, 1)])
def test_a_study_with_one_replicate_problem_or_sample_has_no_variance_components(shape):
    grades = np.random.default_rng(0).integers(0, 2, size=(2, *shape))
    with pytest.raises(UserError, match="at least two of each"):
        variance.estimate(cells_like(grades[0], grades))


@pytest.mark.slow
@pytest.mark.parametrize("design", [variance.SHARED, variance.OWN])
def test_variance_components_are_recovered_from_a_simulated_study(design):
    row = next(SWAPS.itertuples())._replace(problems=3000, design=design)
    arms = len(row.policies.split()) + 1
    parts = {
        "replicate": 0.02 + 0.005 * np.eye(arms),
        "problem_in_replicate": 0.05 + 0.02 * np.eye(arms),
    }
    # A base model that all replicates share does not vary over replicates. If each replicate has
    # its own base model, a problem that is hard for the base model of a replicate is, in part, also hard
    # for the models trained from it.
    if design == variance.SHARED:
        parts["number_in_replicate"] = variance.matrix_of(row.number_in_replicate)
        for matrix in parts.values():
            matrix[0, :] = matrix[:, 0] = 0.0
    row = row._replace(**{name: variance.text_of(matrix.ravel()) for name, matrix in parts.items()})
    bases, runs, truths = simulation.simulate(row, 8, 1, np.random.default_rng(1))
    assert bases.shape[1] == (8 if design == variance.OWN else 1)
    (estimated,) = variance.estimate(cells_like(bases[0].astype(int), runs[0].astype(int)))
    assert estimated["design"] == design and estimated["base_accuracy"] == pytest.approx(
        row.base_accuracy, abs=0.08
    )
    for name in variance.PARTS:
        matrix, true_matrix = (
            variance.matrix_of(estimated[name]),
            variance.matrix_of(getattr(row, name)),
        )
        assert np.abs(matrix - true_matrix).max() < 0.09, name
        assert np.linalg.eigvalsh(matrix).min() > -1e-6, name


@pytest.mark.slow
def test_intervals_cover_if_each_replicate_has_its_own_base():
    """Only 150 studies are simulated, so the bounds are wide. In `problem_in_replicate`, the effects
    of a problem on any two models of a replicate (the base model, or the model trained with a
    policy) have correlation 1/2."""
    row = SWAPS.assign(design=variance.OWN)
    arms = len(row.policies.item().split()) + 1
    row["replicate"] = variance.text_of((0.03 + 0.01 * np.eye(arms)).ravel())
    row["problem_in_replicate"] = variance.text_of((0.05 + 0.05 * np.eye(arms)).ravel())
    rows = simulation.coverage(row, 150, seeds_tried=(3, 10), seed=3)
    for result in rows:
        if result["method"] in simulation.REPORTED.values():
            assert 0.89 <= result["coverage"] <= 0.995, result
