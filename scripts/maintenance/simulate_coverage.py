"""Simulate studies with known effects to measure the coverage of intervals and the level of tests,
and to compare methods.

    python scripts/maintenance/simulate_coverage.py                    # 1,000 studies for each task, test task and number of seeds: about three minutes on one core
    python scripts/maintenance/simulate_coverage.py --estimate mini    # first estimate docs/variance_components.csv from a finished study
    python scripts/maintenance/simulate_coverage.py --draw             # draw the existing tables, simulate nothing

docs/variance_components.csv holds the variances of problems, seeds and samples (see
variance_components.py). The program writes docs/coverage.csv and docs/levels.csv, draws
docs/images/coverage.png and puts tables into docs/statistics.md.
"""

from hardgrpo.analysis import cells as cells_of_study
from hardgrpo.analysis import statistics
from hardgrpo.report import plotting
from hardgrpo.runtime import errors, files
from hardgrpo.study import load
from hardgrpo.study.resolved import ResolvedStudy
from variance_components import COLUMNS, OWN, PARTS, estimate, matrix_of, text_of

import argparse
import io
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BEGIN = "<!-- tables: made by scripts/maintenance/simulate_coverage.py; a test checks that the text is current -->"
END = "<!-- end of tables -->"
SEEDS = (3, 5, 10)

# --- simulated studies


def simulate(
    row: pd.Series, seeds: int, replications: int, rng: np.random.Generator, null: bool = False
):
    """Return (bases, runs, truths) of R simulated studies (`replications`) with the variance
    components in `row`.

    `bases` (R, S or 1, N, m) and `runs` (R, P, S, N, m) are grades (right or not), for P policies,
    S seeds, N problems and m samples. A completion is right if its latent variable is above 0. The
    latent variable is a sum of normal variables: independent noise, and one variable for each entry
    of PARTS, which is correlated between the arms. `truths` holds the expected gain of each policy
    by target: "B" (P,) for new problems and replicates, and "A" (R, P) for the problems of each
    simulated study. Under `null` all policies have the same expected accuracy.
    """
    problems, samples = int(row.problems), int(row.samples)
    rates = np.array([float(rate) for rate in str(row.accuracies).split()])
    rates = np.concatenate(
        [[row.base_accuracy], np.full_like(rates, rates.mean()) if null else rates]
    )
    covariances = {name: matrix_of(getattr(row, name)) for name in PARTS}
    shared_variance = sum(np.diag(covariances[name]) for name in PARTS if name != "replicate")
    noise_sd = np.sqrt(np.maximum(1 - shared_variance, 0.0))
    replicate_variance = np.diag(covariances["replicate"])

    def draw(name: str, *shape: int) -> np.ndarray:
        values, vectors = np.linalg.eigh(covariances[name])
        root = (vectors * np.sqrt(np.maximum(values, 0.0))).astype(np.float32)
        return rng.standard_normal((replications, *shape, len(rates)), dtype=np.float32) @ root.T

    # The noise and all parts except `replicate` have a total variance of 1: larger parts are scaled
    # down. The part `replicate` adds to this variance. `level` is multiplied by the resulting
    # standard deviation, so that the expected accuracy does not change.
    scale = np.sqrt(np.maximum(shared_variance, 1.0))
    level = stats.norm.ppf(rates) * np.sqrt(1 + replicate_variance)
    problem = draw("problem", problems) / scale
    latent = level + problem[:, None, :, None] + draw("replicate", seeds, 1, 1)
    latent = (
        latent
        + draw("problem_in_replicate", seeds, problems, 1) / scale
        + draw("number", 1, problems, samples) / scale
    )
    latent = latent + draw("number_in_replicate", seeds, problems, samples) / scale
    is_correct = latent + noise_sd * rng.standard_normal(latent.shape, dtype=np.float32) > 0
    is_correct = np.moveaxis(is_correct, -1, 1)  # (R, arms, S, N, m)

    # standard deviation of the sum of the noise and all parts except `problem`
    spread = np.sqrt(
        np.maximum(1 + replicate_variance - np.diag(covariances["problem"]) / scale**2, 1e-9)
    )
    accuracies_of_problems = stats.norm.cdf((level + problem) / spread).mean(axis=1)
    bases = is_correct[:, 0] if row.design == OWN else is_correct[:, 0, :1]
    return (
        bases,
        is_correct[:, 1:],
        {
            "B": rates[1:] - rates[0],
            "A": accuracies_of_problems[:, 1:] - accuracies_of_problems[:, :1],
        },
    )


REPORTED = {"B": "reported (B)", "A": "reported (A)"}  # by target


# --- methods that compute a 95 % interval


def intervals(
    values, noise, grades, reference_grades, base_noise, rng, draws=400
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{method: (low ends (R,), high ends (R,))} of the 95 % intervals for the mean of `values` (R,
    S, N).

    `values` are the means of `grades` (R, S, N, m) over samples, minus the means of
    `reference_grades`. `noise` is the variance from sampling noise that seeds share
    (statistics.shared_noise). `base_noise` is what this variance would be if completions had
    independent random numbers and all seeds shared one base model
    (statistics.independent_base_noise).
    """
    replications, seeds, problems = values.shape
    components = statistics.components(values)
    t_half_width = lambda variance, df: stats.t.ppf(0.975, df) * np.sqrt(variance)
    total_variance = components.over_seeds + components.over_problems
    with np.errstate(invalid="ignore", divide="ignore"):
        satterthwaite = total_variance**2 / (
            components.over_seeds**2 / (seeds - 1) + components.over_problems**2 / (problems - 1)
        )
    satterthwaite = np.where(np.isfinite(satterthwaite), satterthwaite, seeds - 1)
    share = lambda x: x.mean(axis=tuple(range(1, x.ndim)))
    binomial = sum(share(x) * (1 - share(x)) / x[0].size for x in (grades, reference_grades))
    half_widths = {
        REPORTED["B"]: statistics.half_width(components),
        REPORTED["A"]: statistics.fixed_problems_half_width(components, noise),
        "1.96 for the problems": np.sqrt(
            t_half_width(components.over_seeds, seeds - 1) ** 2
            + statistics.Z**2 * components.over_problems
        ),
        "Satterthwaite": t_half_width(total_variance, satterthwaite),
        "the base's noise alone": statistics.fixed_problems_half_width(components, base_noise),
        "t over seeds": t_half_width(components.over_seeds, seeds - 1),
        "naive binomial": statistics.Z * np.sqrt(binomial),
    }
    ends = {
        name: (components.estimate - half, components.estimate + half)
        for name, half in half_widths.items()
    }

    uniform = lambda n: np.full(n, 1 / n)
    problem_weights = rng.multinomial(problems, uniform(problems), draws) / problems  # (draws, N)
    # (R, draws, S)
    seed_weights = rng.multinomial(seeds, uniform(seeds), (replications, draws)) / seeds
    by_seed = values.mean(axis=-1)
    # (R, S, draws): each seed's mean over resampled problems
    resampled_means = values @ problem_weights.T
    drawn_seeds = rng.integers(0, seeds, (replications, draws, seeds))
    drawn_resamples = rng.integers(0, draws, (replications, draws, seeds))
    bootstraps = {
        "bootstrap over problems": values.mean(axis=1) @ problem_weights.T,
        "bootstrap over seeds": (seed_weights * by_seed[:, None]).sum(axis=-1),
        "hierarchical bootstrap": resampled_means[
            np.arange(replications)[:, None, None], drawn_seeds, drawn_resamples
        ].mean(axis=-1),
        "pigeonhole bootstrap": (seed_weights * resampled_means.transpose(0, 2, 1)).sum(axis=-1),
    }
    return ends | {
        name: tuple(np.percentile(bootstrap, (2.5, 97.5), axis=1))
        for name, bootstrap in bootstraps.items()
    }


def coverage(
    components: pd.DataFrame, replications: int, seeds_tried=SEEDS, seed: int = 1
) -> list[dict]:
    """The share of each method's intervals that cover the true gain, or the true difference of two
    policies, for both targets."""
    rows = []
    for row in components.itertuples():
        for seeds in seeds_tried:
            rng = np.random.default_rng([seed, row.Index, seeds])
            results_by_method: dict[tuple, list] = {}
            for size in _batches(replications):
                base, runs, truths = simulate(row, seeds, size, rng)
                policies = runs.shape[1]
                # (R, P, S, N), (R, S or 1, N)
                rates, base_rates = runs.mean(axis=-1), base.mean(axis=-1)
                pairs = [(k, None) for k in range(policies)] + [
                    (k, (k + 1) % policies) for k in range(policies)
                ]
                for k, second_policy in pairs:
                    if second_policy is None:
                        quantity, reference, reference_rates = "gain", base, base_rates
                        base_noise = statistics.independent_base_noise(
                            base_rates, base.shape[-1]
                        ).mean(axis=-1)
                    else:
                        quantity, reference, reference_rates = (
                            "difference",
                            runs[:, second_policy],
                            rates[:, second_policy],
                        )
                        base_noise = 0.0
                    noise = statistics.shared_noise(
                        runs[:, k].astype(np.int8) - reference.astype(np.int8)
                    )
                    ends = intervals(
                        rates[:, k] - reference_rates, noise, runs[:, k], reference, base_noise, rng
                    )
                    for method, (low, high) in ends.items():
                        for target in "AB":
                            gains = truths[target]
                            truth = gains[..., k] - (
                                0 if second_policy is None else gains[..., second_policy]
                            )
                            is_covered = (low <= truth) & (truth <= high)
                            results_by_method.setdefault((quantity, target, method), []).append(
                                (is_covered.mean(), (high - low).mean(), size)
                            )
            for (quantity, target, method), results in results_by_method.items():
                is_covered, width, size = np.array(results).T
                rows.append(
                    {
                        "task": row.task,
                        "eval_task": row.eval_task,
                        "seeds": seeds,
                        "quantity": quantity,
                        "target": target,
                    }
                    | {
                        "method": method,
                        "coverage": np.average(is_covered, weights=size),
                        "width": np.average(width, weights=size),
                    }
                    | {"replications": replications}
                )
    return rows


def levels(
    components: pd.DataFrame, replications: int, seeds_tried=SEEDS, seed: int = 2
) -> list[dict]:
    """The share of tests at 5 % that reject a true hypothesis of no difference between policies.

    Paired tests: all policies have the same expected accuracy for new problems and seeds, but their
    accuracies differ by problem and seed. There is a row for a single comparison, and rows for at
    least one rejection among all comparisons, with and without Holm's correction. McNemar's tests
    have no row "not corrected". They compare two runs of the same seed by one completion per
    problem, as for greedy accuracy. The hypothesis of McNemar's test is about two runs, so these
    simulations have no variance over replicates.
    """
    rows = []
    for row in components.itertuples():
        for seeds in seeds_tried:
            rng = np.random.default_rng([seed, row.Index, seeds])
            rejections: dict[str, list] = {}
            for size in _batches(replications):
                _, runs, _ = simulate(row, seeds, size, rng, null=True)
                rates = runs.mean(axis=-1)
                pairs = [
                    (k, second_policy)
                    for second_policy in range(rates.shape[1])
                    for k in range(second_policy)
                ]
                p = np.stack(
                    [
                        statistics.p_value(
                            statistics.components(rates[:, k] - rates[:, second_policy])
                        )
                        for k, second_policy in pairs
                    ],
                    axis=1,
                )
                # With Holm's correction, at least one hypothesis is rejected if the smallest p
                # times the number of comparisons is below 5 %.
                rejections.setdefault("paired, one comparison", []).append((p < 0.05).mean(axis=1))
                rejections.setdefault(
                    f"paired, at least one of {len(pairs)} comparisons, Holm", []
                ).append(p.min(axis=1) * len(pairs) < 0.05)
                rejections.setdefault(
                    f"paired, at least one of {len(pairs)} comparisons, not corrected", []
                ).append((p < 0.05).any(axis=1))
                # Add these rows only once, because McNemar's test uses a single seed.
                if seeds == min(seeds_tried):
                    _, runs, _ = simulate(
                        row._replace(replicate=text_of(0 * matrix_of(row.replicate).ravel())),
                        1,
                        size,
                        rng,
                        null=True,
                    )
                    greedy_runs = runs[:, :, 0, :, 0]
                    mcnemar_p_values = np.array(
                        [
                            [
                                statistics.mcnemar(runs_of_seed[k], runs_of_seed[second_policy])[2]
                                for k, second_policy in pairs
                            ]
                            for runs_of_seed in greedy_runs
                        ]
                    )
                    rejections.setdefault("McNemar, one comparison", []).append(
                        (mcnemar_p_values < 0.05).mean(axis=1)
                    )
                    rejections.setdefault(
                        f"McNemar, at least one of {len(pairs)} comparisons, Holm", []
                    ).append(mcnemar_p_values.min(axis=1) * len(pairs) < 0.05)
            for test, parts in rejections.items():
                seeds_used = 1 if test.startswith("McNemar") else seeds
                columns = {
                    "task": row.task,
                    "eval_task": row.eval_task,
                    "seeds": seeds_used,
                    "test": test,
                }
                rows.append(
                    columns
                    | {"level": float(np.concatenate(parts).mean()), "replications": replications}
                )
    return rows


def _batches(replications: int, size: int = 100) -> list[int]:
    return [min(size, replications - start) for start in range(0, replications, size)]


# --- tables and figure of docs/statistics.md

FOR_BOTH = ["t over seeds", "naive binomial", "bootstrap over problems", "bootstrap over seeds"]
FOR_BOTH += ["hierarchical bootstrap", "pigeonhole bootstrap"]
METHODS = {  # target: methods
    "B": [REPORTED["B"], "1.96 for the problems", "Satterthwaite", *FOR_BOTH],
    "A": [REPORTED["A"], "the base's noise alone", *FOR_BOTH],
}
TABULATED = [
    ("B", method)
    for method in (
        REPORTED["B"],
        "Satterthwaite",
        "t over seeds",
        "naive binomial",
        "hierarchical bootstrap",
    )
]
TABULATED += [("A", method) for method in (REPORTED["A"], "the base's noise alone", "t over seeds")]


def tables(
    components: pd.DataFrame, coverage_table: pd.DataFrame, level_table: pd.DataFrame
) -> str:
    """The tables of docs/statistics.md, in Markdown."""
    head = "| trained on | tested on | replicates have | problems | samples | base % | policies % | SD over replicates, accuracy (points) | SD over replicates, lead (points) | covariance, same problem | covariance, same sample number |"
    lines = [
        "Properties of the simulated studies:",
        "",
        head,
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in components.itertuples():
        rates = [100 * float(rate) for rate in str(r.accuracies).split()]
        lines.append(
            f"| {r.task} | {r.eval_task} | {r.design} | {r.problems} | {r.samples} | {100 * r.base_accuracy:.1f} | {min(rates):.1f} to {max(rates):.1f}"
            f" | {_replicate_sd_cells(r)} | {_mean_covariance(r.problem):.2f} | +{_mean_covariance(r.number):.2f} |"
        )
    lines += [
        "",
        "Coverage of 95 % intervals in %, lowest to highest over the rows of the table above, for the two targets:",
        "",
    ]
    heads = [f"{quantity}, {seeds} seeds" for quantity in ("gain", "difference") for seeds in SEEDS]
    lines += [f"| target | method | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    for target, method in TABULATED:
        rows = coverage_table[(coverage_table.target == target) & (coverage_table.method == method)]
        cells = []
        for quantity in ("gain", "difference"):
            for seeds in SEEDS:
                shares = 100 * rows[(rows.quantity == quantity) & (rows.seeds == seeds)].coverage
                cells.append(f"{shares.min():.1f} to {shares.max():.1f}")
        name = f"**{method}**" if method in REPORTED.values() else method
        lines.append(f"| {target} | {name} | {' | '.join(cells)} |")
    lines += [
        "",
        "How often tests at 5 % find a difference where there is none, in %, lowest to highest over the same rows:",
        "",
    ]
    lines += [
        "| test | "
        + " | ".join("1 seed" if seeds == 1 else f"{seeds} seeds" for seeds in (1, *SEEDS))
        + " |",
        "|---|" + "---|" * (1 + len(SEEDS)),
    ]
    for test, rows in level_table.groupby("test", sort=False):
        levels = {
            seeds: f"{100 * group.level.min():.1f} to {100 * group.level.max():.1f}"
            for seeds, group in rows.groupby("seeds")
        }
        lines.append(
            f"| {test} | " + " | ".join(levels.get(seeds, "") for seeds in (1, *SEEDS)) + " |"
        )
    return "\n".join(lines)


def _mean_covariance(text: str) -> float:
    """The mean covariance over all pairs of policies."""
    matrix = matrix_of(text)[1:, 1:]
    return float(matrix[np.triu_indices(len(matrix), 1)].mean())


def _replicate_sd_cells(row) -> str:
    """Cells of a table: standard deviation over replicates of a policy's true accuracy, and of the
    difference of two policies, in points."""
    matrix = matrix_of(row.replicate)[1:, 1:]
    density = stats.norm.pdf(
        stats.norm.ppf(np.mean([float(rate) for rate in str(row.accuracies).split()]))
    )
    lead = max(2 * (np.diag(matrix).mean() - _mean_covariance(row.replicate)), 0.0)
    return f"{100 * density * np.sqrt(np.diag(matrix).mean()):.1f} | {100 * density * np.sqrt(lead):.1f}"


def draw(coverage_table: pd.DataFrame, path: str) -> None:
    """Coverage by method, for gains and for differences: a mark for each pair of task and test and
    each number of seeds, and a band from 93 to 98 %."""
    figure, axes = plotting.panels(4, columns=2, sharey="row")
    shades = dict(zip(SEEDS, (("o", "#D55E00"), ("s", "#0072B2"), ("^", "black"))))
    for axis, (target, quantity) in zip(
        axes, [(target, quantity) for target in "BA" for quantity in ("gain", "difference")]
    ):
        methods = METHODS[target][::-1]
        axis.axvspan(93, 98, color="0.85", zorder=0)
        for seeds, (marker, colour) in shades.items():
            selection = coverage_table[
                (coverage_table.target == target)
                & (coverage_table.quantity == quantity)
                & (coverage_table.seeds == seeds)
            ]
            selection = selection[selection.method.isin(methods)]
            height = [
                methods.index(method) + 0.22 * (SEEDS.index(seeds) - 1)
                for method in selection.method
            ]
            axis.plot(
                100 * selection.coverage,
                height,
                marker,
                color=colour,
                markersize=3,
                label=f"{seeds} seeds",
            )
        axis.set_yticks(range(len(methods)), methods)
        axis.set_xlim(20, 101)
        axis.set_title(f"{quantity}s, target {target}")
    plotting.outer_labels(axes, "coverage of 95 % intervals (%)", "")
    plotting.legend(figure, axes)
    plotting.save(figure, coverage_table, [path])


def fill_tables(
    text: str, components: pd.DataFrame, coverage_table: pd.DataFrame, level_table: pd.DataFrame
) -> str:
    """`text` of docs/statistics.md with its generated tables replaced."""
    head, tail = text.split(BEGIN)
    return f"{head}{BEGIN}\n\n{tables(components, coverage_table, level_table)}\n\n{END}{tail.split(END)[1]}"


def read_tables(docs: Path = DOCS) -> list[pd.DataFrame]:
    """(components, coverage, levels) from their files."""
    return [
        read_table(docs / f"{name}.csv") for name in ("variance_components", "coverage", "levels")
    ]


def read_table(path: Path) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(files.read_text(path)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--estimate",
        metavar="STUDY",
        help="estimate the components from a finished study with several samples and seeds",
    )
    parser.add_argument(
        "--studies",
        type=int,
        default=1000,
        help="number of simulated studies for each task, test task and number of seeds (default: %(default)s)",
    )
    parser.add_argument(
        "--draw", action="store_true", help="draw the existing tables, simulate nothing"
    )
    parser.add_argument(
        "--docs",
        type=Path,
        default=DOCS,
        help="folder of statistics.md and of the tables (CSV); the figure goes to its folder images",
    )
    args = parser.parse_args()
    if args.studies < 1:
        raise errors.UserError(f"--studies is {args.studies}, expected at least 1")

    if args.estimate:
        study = ResolvedStudy.of(load.read(ROOT), args.estimate)
        rows = files.round_floats(estimate(cells_of_study.load_cells(study)), digits=6)
        files.write_rows(args.docs / "variance_components.csv", COLUMNS, rows)
    for name, simulate_table in () if args.draw else (("coverage", coverage), ("levels", levels)):
        rows = simulate_table(read_table(args.docs / "variance_components.csv"), args.studies)
        files.write_rows(
            args.docs / f"{name}.csv", list(rows[0]), files.round_floats(rows, digits=6)
        )
    components, coverage_table, level_table = read_tables(args.docs)
    draw(coverage_table, str(args.docs / "images/coverage.png"))
    path = args.docs / "statistics.md"
    files.write_text(
        path, fill_tables(files.read_text(path), components, coverage_table, level_table)
    )
    print(
        f"{path}: {coverage_table.replications.min()} simulated studies for each number of seeds of {len(components)} pairs of task and test"
    )


if __name__ == "__main__":
    errors.run(main)
