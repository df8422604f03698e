"""A new table of the summaries or of the supplement, or a new figure, needs only an entry and a
function. All other parts of the project find the new table or figure through the registry."""

import shutil
import subprocess

from conftest import TEX

SUMMARY = """SUMMARIES.append("best")
"""
FIGURE = """FIGURES["best"] = Figure("Results", "The largest gains", "The largest gains, \\\\emph{drawn}.")
"""
TABLE = """TABLES["best_gain"] = Table("best", "model; task; arm; gain:signed = largest gain", r"The largest gain of each test, in a \\emph{new} table.")
"""
MAKE_SUMMARY = """

@table(f"{CELL_KEYS} gain")
def best(gains: list[dict]) -> list[dict]:
    largest = {}
    for row in gains:
        key = row["model"], row["eval_task"]
        largest[key] = max(largest.get(key, row), row, key=lambda one: one["gain"])
    return [{name: row[name] for name in ("model", "task", "eval_task", "policy", "recipe", "gain")} for row in largest.values()]
"""
MAKE_FIGURE = """

@figure
def best(best):
    figure, (axis,) = plotting.panels(1)
    axis.bar(best.eval_task, 100 * best.gain)
    return figure, best
"""


def add(world) -> None:
    world.edit("src/hardgrpo/report/registry.py", lambda text: text + SUMMARY + FIGURE)
    world.edit("src/hardgrpo/report/tables.py", lambda text: text + TABLE)
    world.edit("src/hardgrpo/analysis/completions.py", lambda text: text + MAKE_SUMMARY)
    world.edit("src/hardgrpo/report/figures.py", lambda text: text + MAKE_FIGURE)


def test_an_added_table_and_figure_appear_in_summaries_paper_and_report(finished):
    add(finished)
    planned = finished.plan()
    assert {
        "summarize",
        "write_tables",
        "plot_best",
    } <= planned.keys() and "train_grpo" not in planned
    done = finished.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    rows = (finished.folder / "results/summaries/mini/best.csv").read_text().splitlines()
    assert rows[0] == "model,task,eval_task,policy,recipe,gain" and len(rows) == 1 + 2, (
        "expected one row for each test set"
    )
    paper = finished.folder / "paper/mini"
    assert "largest gain" in (paper / "tables/best_gain.tex").read_text()
    assert "largest gain" in (paper / "tables/best_gain.html").read_text()
    assert len((paper / "tables/best_gain.csv").read_text().splitlines()) == len(rows)
    assert len((paper / "figures/best.csv").read_text().splitlines()) == len(rows)
    if TEX and shutil.which("pdftotext"):
        text = subprocess.run(
            ["pdftotext", str(paper / "supplement.pdf"), "-"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "The largest gain of each test, in a new table." in " ".join(text.split())
        assert "The largest gains, drawn." in " ".join(text.split()), (
            "the PDF must also show a new figure, which the text does not name"
        )
    report = finished.folder / "report.html"
    done = finished.snakemake("--report", str(report))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The largest gains, drawn." in report.read_text() and "best gain" in report.read_text()


def test_an_edit_of_a_module_that_is_found_by_name_plans_the_rules_that_use_it(finished):
    finished.edit("src/hardgrpo/report/tables.py", lambda text: text + "\n# another layout\n")
    assert set(finished.plan()) - {"compile_supplement", "all"} == {"write_tables"}
