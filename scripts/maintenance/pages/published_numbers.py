"""docs/published-numbers.md, and the section on samples per prompt in docs/which-prompts.md:
results of the analyses of published numbers of right answers."""

from hardgrpo.report import answers, registry
from hardgrpo.runtime import files
from hardgrpo.study import paths
from pages import templates

from pathlib import Path

PROBING, BEFORE_AFTER = "probing", "before_after"


def page(root: Path, config: dict) -> str:
    """The page docs/published-numbers.md: the results of all analyses with committed tables."""
    analyses = {
        name: analysis
        for name, analysis in config["analyses"].items()
        if (root / paths.reference(name)).is_dir()
    }
    texts = {
        name: answers.text(analysis, tables(root, name, analysis))
        for name, analysis in analyses.items()
    }
    figures = {
        name: list(registry.COUNT_FIGURES[analysis["kind"]]) for name, analysis in analyses.items()
    }
    return templates.fill("published-numbers", analyses=analyses, texts=texts, figures=figures)


def samples_section(root: Path, config: dict) -> str:
    """The section of docs/which-prompts.md on the number of samples per prompt, in Markdown."""
    analysis = config["analyses"][PROBING]
    return templates.fill(
        "samples",
        analysis=analysis,
        **answers.samples_per_prompt(analysis, tables(root, PROBING, analysis)),
        points=answers.points,
    )


def tables(root: Path, name: str, analysis: dict) -> dict:
    """{name: committed summary table} of an analysis."""
    return answers.read_tables(analysis, files.Tables.below(root / paths.reference(name)))
