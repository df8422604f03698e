"""Simulate studies with known effects: do intervals cover the truth, do tests hold their level, and how do other methods compare?

    python scripts/maintenance/simulate_coverage.py                    # 1,000 studies of each test: about three minutes on one core
    python scripts/maintenance/simulate_coverage.py --estimate mini    # first estimate docs/variance_components.csv from a finished study
    python scripts/maintenance/simulate_coverage.py --draw             # draw the existing tables, simulate nothing

docs/variance_components.csv says how problems, seeds and samples vary (see `estimate`). The program writes docs/coverage.csv and
docs/levels.csv, draws docs/images/coverage.png from them and puts their tables into docs/statistics.md.
"""

from hardgrpo.analysis import cells as cells_of_study
from hardgrpo.analysis import statistics
from hardgrpo.report import plotting
from hardgrpo.runtime import errors, files
from hardgrpo.study import load
from variance_components import COLUMNS, OWN, PARTS, estimate, matrix_of, text_of

import argparse
import io
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BEGIN, END = "<!-- tables: made by scripts/maintenance/simulate_coverage.py; a test compares -->", "<!-- end of tables -->"
SEEDS = (3, 5, 10)

# --- simulated studies ---------------------------------------------------------------------------------------------


def simulate(row: pd.Series, seeds: int, replications: int, rng: np.random.Generator, null: bool = False):
    """R studies (`replications`) with the components of `row`: (bases (R, S or 1, N, m), runs (R, P, S, N, m), truths), for P policies,
    S seeds, N problems and m samples.

    A completion is right if its latent variable is above 0: the sum of the normal parts in PARTS, each with its covariances between the
    arms, and of noise of this completion alone. `truths` are the expected gains of each policy: for new problems and replicates
    ("B", (P,)), and for each replication's problems ("A", (R, P)). Under `null` all policies have the same expected accuracy.
    """
    problems, samples = int(row.problems), int(row.samples)
    rates = np.array([float(rate) for rate in str(row.accuracies).split()])
    rates = np.concatenate([[row.base_accuracy], np.full_like(rates, rates.mean()) if null else rates])
    covariances = {name: matrix_of(getattr(row, name)) for name in PARTS}
    shared = sum(np.diag(covariances[name]) for name in PARTS if name != "replicate")
    own, moved = np.sqrt(np.maximum(1 - shared, 0.0)), np.diag(covariances["replicate"])

    def draw(name: str, *shape: int) -> np.ndarray:
        values, vectors = np.linalg.eigh(covariances[name])
        root = (vectors * np.sqrt(np.maximum(values, 0.0))).astype(np.float32)
        return rng.standard_normal((replications, *shape, len(rates)), dtype=np.float32) @ root.T

    # All parts but the replicate's are scaled to a total variance of at most 1. The replicate's part comes on top; `level` makes up for
    # it, so that the expected accuracy stays.
    scale = np.sqrt(np.maximum(shared, 1.0))
    level = stats.norm.ppf(rates) * np.sqrt(1 + moved)
    problem = draw("problem", problems) / scale
    latent = level + problem[:, None, :, None] + draw("replicate", seeds, 1, 1)
    latent = latent + draw("problem_in_replicate", seeds, problems, 1) / scale + draw("number", 1, problems, samples) / scale
    latent = latent + draw("number_in_replicate", seeds, problems, samples) / scale
    right = latent + own * rng.standard_normal(latent.shape, dtype=np.float32) > 0
    right = np.moveaxis(right, -1, 1)  # (R, arms, S, N, m)

    spread = np.sqrt(
        np.maximum(1 + moved - np.diag(covariances["problem"]) / scale**2, 1e-9)
    )  # standard deviation of all parts but the problems'
    here = stats.norm.cdf((level + problem) / spread).mean(axis=1)
    bases = right[:, 0] if row.design == OWN else right[:, 0, :1]
    return bases, right[:, 1:], {"B": rates[1:] - rates[0], "A": here[:, 1:] - here[:, :1]}


REPORTED = {"B": "reported (B)", "A": "reported (A)"}  # by target


# --- methods: each gives the half-width, or the ends, of a 95 % interval --------------------------------------------


def intervals(values, noise, right, against, base_noise, rng, draws=400) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Ends (R,) of each method's interval for the mean of `values` (R, S, N): how `right` (R, S, N, m) differs from `against`.

    `noise` is the sampling noise that seeds share (statistics.shared_noise), `base_noise` the same with independent random numbers.
    """
    replications, seeds, problems = values.shape
    found = statistics.components(values)
    t = lambda variance, df: stats.t.ppf(0.975, df) * np.sqrt(variance)
    total = found.over_seeds + found.over_problems
    with np.errstate(invalid="ignore", divide="ignore"):
        satterthwaite = total**2 / (found.over_seeds**2 / (seeds - 1) + found.over_problems**2 / (problems - 1))
    satterthwaite = np.where(np.isfinite(satterthwaite), satterthwaite, seeds - 1)
    share = lambda x: x.mean(axis=tuple(range(1, x.ndim)))
    binomial = sum(share(x) * (1 - share(x)) / x[0].size for x in (right, against))
    halves = {
        REPORTED["B"]: statistics.half_width(found),
        REPORTED["A"]: statistics.fixed_problems_half_width(found, noise),
        "1.96 for the problems": np.sqrt(t(found.over_seeds, seeds - 1) ** 2 + statistics.Z**2 * found.over_problems),
        "Satterthwaite": t(total, satterthwaite),
        "the base's noise alone": statistics.fixed_problems_half_width(found, base_noise),
        "t over seeds": t(found.over_seeds, seeds - 1),
        "naive binomial": statistics.Z * np.sqrt(binomial),
    }
    ends = {name: (found.estimate - half, found.estimate + half) for name, half in halves.items()}

    uniform = lambda n: np.full(n, 1 / n)
    of_problems = rng.multinomial(problems, uniform(problems), draws) / problems  # (draws, N)
    of_seeds = rng.multinomial(seeds, uniform(seeds), (replications, draws)) / seeds  # (R, draws, S)
    by_seed = values.mean(axis=-1)
    bank = values @ of_problems.T  # (R, S, draws): each seed's mean over resampled problems
    drawn = rng.integers(0, seeds, (replications, draws, seeds))
    entry = rng.integers(0, draws, (replications, draws, seeds))
    boots = {
        "bootstrap over problems": values.mean(axis=1) @ of_problems.T,
        "bootstrap over seeds": (of_seeds * by_seed[:, None]).sum(axis=-1),
        "hierarchical bootstrap": bank[np.arange(replications)[:, None, None], drawn, entry].mean(axis=-1),
        "pigeonhole bootstrap": (of_seeds * bank.transpose(0, 2, 1)).sum(axis=-1),
    }
    return ends | {name: tuple(np.percentile(boot, (2.5, 97.5), axis=1)) for name, boot in boots.items()}


def coverage(components: pd.DataFrame, replications: int, seeds_tried=SEEDS, seed: int = 1) -> list[dict]:
    """How often each method's interval covers the true gain, or the true difference of two policies, for both targets."""
    rows = []
    for row in components.itertuples():
        for seeds in seeds_tried:
            rng = np.random.default_rng([seed, row.Index, seeds])
            held: dict[tuple, list] = {}
            for size in _batches(replications):
                base, runs, truths = simulate(row, seeds, size, rng)
                policies = runs.shape[1]
                rates, base_rates = runs.mean(axis=-1), base.mean(axis=-1)  # (R, P, S, N), (R, S or 1, N)
                pairs = [(k, None) for k in range(policies)] + [(k, (k + 1) % policies) for k in range(policies)]
                for k, other in pairs:
                    if other is None:
                        quantity, minus, minus_rates, against = "gain", base, base_rates, base
                        base_noise = statistics.independent_base_noise(base_rates, base.shape[-1]).mean(axis=-1)
                    else:
                        quantity, minus, minus_rates, against = "difference", runs[:, other], rates[:, other], runs[:, other]
                        base_noise = 0.0
                    noise = statistics.shared_noise(runs[:, k].astype(np.int8) - minus.astype(np.int8))
                    ends = intervals(rates[:, k] - minus_rates, noise, runs[:, k], against, base_noise, rng)
                    for method, (low, high) in ends.items():
                        for target in "AB":
                            gains = truths[target]
                            truth = gains[..., k] - (0 if other is None else gains[..., other])
                            inside = (low <= truth) & (truth <= high)
                            held.setdefault((quantity, target, method), []).append((inside.mean(), (high - low).mean(), size))
            for (quantity, target, method), found in held.items():
                inside, width, size = np.array(found).T
                rows.append(
                    {"task": row.task, "eval_task": row.eval_task, "seeds": seeds, "quantity": quantity, "target": target}
                    | {"method": method, "coverage": np.average(inside, weights=size), "width": np.average(width, weights=size)}
                    | {"replications": replications}
                )
    return rows


def levels(components: pd.DataFrame, replications: int, seeds_tried=SEEDS, seed: int = 2) -> list[dict]:
    """How often a test at 5 % finds a difference between policies if there is none.

    Paired: all policies have the same expected accuracy for new problems and seeds, but differ by problem and seed. The level is
    that of one comparison, and of any in the family, with and without Holm's correction. McNemar: two greedy runs of the same seed.
    Its hypothesis is about two runs, so here seeds have no effect.
    """
    rows = []
    for row in components.itertuples():
        for seeds in seeds_tried:
            rng = np.random.default_rng([seed, row.Index, seeds])
            found: dict[str, list] = {}
            for size in _batches(replications):
                _, runs, _ = simulate(row, seeds, size, rng, null=True)
                rates = runs.mean(axis=-1)
                pairs = [(k, other) for other in range(rates.shape[1]) for k in range(other)]
                p = np.stack(
                    [statistics.p_value(statistics.components(rates[:, k] - rates[:, other])) for k, other in pairs], axis=1
                )
                # Holm rejects a hypothesis if the smallest p times the number of comparisons is below 5 %.
                found.setdefault("paired, one comparison", []).append((p < 0.05).mean(axis=1))
                found.setdefault(f"paired, any of {len(pairs)}, Holm", []).append(p.min(axis=1) * len(pairs) < 0.05)
                found.setdefault(f"paired, any of {len(pairs)}, not corrected", []).append((p < 0.05).any(axis=1))
                if seeds == min(seeds_tried):  # once is enough: McNemar uses one seed
                    _, runs, _ = simulate(
                        row._replace(replicate=text_of(0 * matrix_of(row.replicate).ravel())), 1, size, rng, null=True
                    )
                    single = runs[:, :, 0, :, 0]
                    exact = np.array([[statistics.mcnemar(one[k], one[other])[2] for k, other in pairs] for one in single])
                    found.setdefault("McNemar, one comparison", []).append((exact < 0.05).mean(axis=1))
                    found.setdefault(f"McNemar, any of {len(pairs)}, Holm", []).append(exact.min(axis=1) * len(pairs) < 0.05)
            for test, parts in found.items():
                used = 1 if test.startswith("McNemar") else seeds
                of = {"task": row.task, "eval_task": row.eval_task, "seeds": used, "test": test}
                rows.append(of | {"level": float(np.concatenate(parts).mean()), "replications": replications})
    return rows


def _batches(replications: int, size: int = 100) -> list[int]:
    return [min(size, replications - done) for done in range(0, replications, size)]


# --- tables and figure of docs/statistics.md -----------------------------------------------------------------------

FOR_BOTH = ["t over seeds", "naive binomial", "bootstrap over problems", "bootstrap over seeds"]
FOR_BOTH += ["hierarchical bootstrap", "pigeonhole bootstrap"]
SHOWN = {  # target: methods
    "B": [REPORTED["B"], "1.96 for the problems", "Satterthwaite", *FOR_BOTH],
    "A": [REPORTED["A"], "the base's noise alone", *FOR_BOTH],
}
TABULATED = [
    ("B", method) for method in (REPORTED["B"], "Satterthwaite", "t over seeds", "naive binomial", "hierarchical bootstrap")
]
TABULATED += [("A", method) for method in (REPORTED["A"], "the base's noise alone", "t over seeds")]


def tables(components: pd.DataFrame, covered: pd.DataFrame, found: pd.DataFrame) -> str:
    head = "| trained on | tested on | replicates have | problems | samples | base % | policies % | SD over replicates (points) | of a lead | same problem | same number |"
    lines = ["What the simulated studies are like:", "", head, "|---|---|---|---|---|---|---|---|---|---|---|"]
    for r in components.itertuples():
        rates = [100 * float(rate) for rate in str(r.accuracies).split()]
        lines.append(
            f"| {r.task} | {r.eval_task} | {r.design} | {r.problems} | {r.samples} | {100 * r.base_accuracy:.1f} | {min(rates):.1f} to {max(rates):.1f}"
            f" | {_points(r)} | {_between(r.problem):.2f} | +{_between(r.number):.2f} |"
        )
    lines += ["", "Coverage of 95 % intervals in %, lowest to highest of these tests, for the two targets:", ""]
    heads = [f"{quantity}, {seeds} seeds" for quantity in ("gain", "difference") for seeds in SEEDS]
    lines += [f"| target | method | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    for target, method in TABULATED:
        rows = covered[(covered.target == target) & (covered.method == method)]
        cells = []
        for quantity in ("gain", "difference"):
            for seeds in SEEDS:
                shares = 100 * rows[(rows.quantity == quantity) & (rows.seeds == seeds)].coverage
                cells.append(f"{shares.min():.1f} to {shares.max():.1f}")
        name = f"**{method}**" if method in REPORTED.values() else method
        lines.append(f"| {target} | {name} | {' | '.join(cells)} |")
    lines += ["", "How often tests at 5 % find a difference where there is none, in %, lowest to highest:", ""]
    lines += [
        "| test | " + " | ".join("1 seed" if seeds == 1 else f"{seeds} seeds" for seeds in (1, *SEEDS)) + " |",
        "|---|" + "---|" * (1 + len(SEEDS)),
    ]
    for test, rows in found.groupby("test", sort=False):
        levels = {seeds: f"{100 * of.level.min():.1f} to {100 * of.level.max():.1f}" for seeds, of in rows.groupby("seeds")}
        lines.append(f"| {test} | " + " | ".join(levels.get(seeds, "") for seeds in (1, *SEEDS)) + " |")
    return "\n".join(lines)


def _between(text: str) -> float:
    """The mean covariance of two policies."""
    matrix = matrix_of(text)[1:, 1:]
    return float(matrix[np.triu_indices(len(matrix), 1)].mean())


def _points(row) -> str:
    """Standard deviation over replicates of a policy's true accuracy, and of the difference of two, in points."""
    matrix = matrix_of(row.replicate)[1:, 1:]
    density = stats.norm.pdf(stats.norm.ppf(np.mean([float(rate) for rate in str(row.accuracies).split()])))
    lead = max(2 * (np.diag(matrix).mean() - _between(row.replicate)), 0.0)
    return f"{100 * density * np.sqrt(np.diag(matrix).mean()):.1f} | {100 * density * np.sqrt(lead):.1f}"


def draw(covered: pd.DataFrame, path: str) -> None:
    """Coverage by method, for gains and for differences: a mark for each test and number of seeds, and a band from 93 to 98 %."""
    figure, axes = plotting.panels(4, columns=2, sharey="row")
    shades = dict(zip(SEEDS, (("o", "#D55E00"), ("s", "#0072B2"), ("^", "black"))))
    for axis, (target, quantity) in zip(axes, [(target, quantity) for target in "BA" for quantity in ("gain", "difference")]):
        methods = SHOWN[target][::-1]
        axis.axvspan(93, 98, color="0.85", zorder=0)
        for seeds, (marker, colour) in shades.items():
            of = covered[(covered.target == target) & (covered.quantity == quantity) & (covered.seeds == seeds)]
            of = of[of.method.isin(methods)]
            height = [methods.index(method) + 0.22 * (SEEDS.index(seeds) - 1) for method in of.method]
            axis.plot(100 * of.coverage, height, marker, color=colour, markersize=3, label=f"{seeds} seeds")
        axis.set_yticks(range(len(methods)), methods)
        axis.set_xlim(20, 101)
        axis.set_title(f"{quantity}s, target {target}")
    plotting.outer_labels(axes, "coverage of 95 % intervals (%)", "")
    plotting.legend(figure, axes)
    plotting.save(figure, covered, [path])


def filled(text: str, components: pd.DataFrame, covered: pd.DataFrame, found: pd.DataFrame) -> str:
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{tables(components, covered, found)}\n\n{END}{rest.split(END)[1]}"


def rounded(rows: list[dict]) -> list[dict]:
    return [{key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in row.items()} for row in rows]


def read(docs: Path = DOCS) -> list[pd.DataFrame]:
    """(components, coverage, levels) from their files."""
    return [read_table(docs / f"{name}.csv") for name in ("variance_components", "coverage", "levels")]


def read_table(path: Path) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(files.read_text(path)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--estimate", metavar="STUDY", help="estimate the components from a finished study with several samples and seeds"
    )
    parser.add_argument("--studies", type=int, default=1000, help="simulated studies of each test (default: %(default)s)")
    parser.add_argument("--draw", action="store_true", help="draw the existing tables, simulate nothing")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder of statistics.md; tables and figure are written here, too")
    args = parser.parse_args()
    if args.studies < 1:
        raise errors.UserError(f"--studies is {args.studies}, expected at least 1")

    if args.estimate:
        config = load.read(ROOT)
        if args.estimate not in config["studies"]:
            raise errors.UserError(f"--estimate {args.estimate}: no such study; config/studies has {', '.join(config['studies'])}")
        rows = rounded(estimate(cells_of_study.load_cells(config, args.estimate)))
        files.write_rows(args.docs / "variance_components.csv", COLUMNS, rows)
    for name, simulated in () if args.draw else (("coverage", coverage), ("levels", levels)):
        rows = simulated(read_table(args.docs / "variance_components.csv"), args.studies)
        files.write_rows(args.docs / f"{name}.csv", list(rows[0]), rounded(rows))
    components, covered, found = read(args.docs)
    draw(covered, str(args.docs / "images/coverage.png"))
    path = args.docs / "statistics.md"
    files.write_text(path, filled(files.read_text(path), components, covered, found))
    print(f"{path}: {covered.replications.min()} simulated studies of each of {len(components)} tests")


if __name__ == "__main__":
    errors.run(main)
