"""List the figures, tables and papers of a study, and the summary tables from which they are
drawn."""

import os
import re
from pathlib import Path

from snakemake.iocontainers import Wildcards

from hardgrpo.report import registry
from hardgrpo.runtime import checksums
from hardgrpo.study import claim_conditions, paths, pools
from hardgrpo.study.configuration import Configuration
from hardgrpo.study.study import RECORDED, Study
from hardgrpo.workflow.failures import WorkflowError

PAPER = "paper/main.tex.j2"  # the text of the paper over all studies
PUBLISHED = [f"{paths.PUBLISHED}/{name}.csv" for name in registry.PUBLISHED]


class Drawing:
    """Inputs and targets of the rules that make summaries, figures, tables and papers. With `draw:
    reference`, all are drawn from committed summaries, and no study is run."""

    def __init__(self, config: Configuration, studies: dict[str, Study], has_tex: bool):
        self.config, self.studies, self.has_tex = config, studies, has_tex
        self.is_from_reference = config.draw == "reference"
        name = config.study
        if self.is_from_reference and not self._committed(name):
            raise WorkflowError(
                f"draw: reference, but {self.folder(name)} has no tables; run the study:"
                f" .venv/bin/snakemake all --profile laptop --config study={name}"
            )

    # --- inputs of drawings ---

    def results(self, wildcards: Wildcards) -> list[str]:
        study = self.studies[wildcards.study]
        comparisons = pools.comparisons(study)
        tests, compared_pools = (
            [comparison[key] for comparison in comparisons] for key in ("test", "pool")
        )
        return paths.results(study) + list(dict.fromkeys(tests + compared_pools))

    def folder(self, study: str) -> str:
        return paths.reference(study) if self.is_from_reference else paths.computed(study)

    def summaries(self, wildcards: Wildcards) -> list[str]:
        """The files of a study's summary tables. Committed tables without rows have no file."""
        study = wildcards.study
        if self.is_from_reference:
            return self._committed(study)
        names = registry.summary_tables(self.studies[study])
        return [f"{paths.computed(study)}/{name}.csv" for name in names]

    def _committed(self, study: str) -> list[str]:
        names = registry.summary_tables(self.studies[study])
        return paths.existing_tables(paths.reference(study), names)

    def tables_of_text(self, path: str) -> list[str]:
        """The names of the tables that a text of the paper or of a supplement reads."""
        text = Path(path).read_text(encoding="utf-8") if Path(path).exists() else ""
        return list(dict.fromkeys(re.findall(r'\brows\("([^"]+)"', text)))

    # --- drawings of a study ---

    def drawn(self, study: str) -> list[str]:
        """The figures, and the tables with the text of the supplement, or the answers."""
        is_analysis = self.studies[study].is_analysis
        text = ["answers.md"] if is_analysis else ["tables", "supplement.tex"]
        return [f"paper/{study}/{name}" for name in ("figures", *text)]

    def worth(self, study: str) -> list[str]:
        has_runs = any(run.recipe != RECORDED for run in self.studies[study].runs)
        return [f"paper/{study}/worth.html"] if has_runs else []

    def paper(self, study: str) -> list[str]:
        return self.drawn(study) + self.worth(study)

    def pdf(self, study: str) -> list[str]:
        return (
            [f"paper/{study}/supplement.pdf"]
            if self.has_tex and not self.studies[study].is_analysis
            else []
        )

    def explorer(self, study: str) -> list[str]:
        has_completions = paths.evaluations(self.studies[study])
        return [f"paper/{study}/explorer.html"] if has_completions else []

    def agreement(self, study: str) -> list[str]:
        has_reference = paths.has_tables(paths.reference(study), ["decomposition_runs"])
        return [paths.agreement(study)] if has_reference and self.studies[study].runs else []

    def run_files(self, wildcards: Wildcards) -> list[str]:
        path = f"{paths.reference(wildcards.study)}/{checksums.NAME}"
        return [path] if Path(path).exists() else []

    # --- the paper over all studies ---

    def committed_tables(self, wildcards: Wildcards) -> list[str]:
        tables = [paths.committed_table(table) for table in self.tables_of_text(PAPER)]
        return list(dict.fromkeys([*tables, *registry.WAYS]))

    def committed_inputs(self, wildcards: Wildcards) -> list[str]:
        return self._committed(wildcards.study)

    def paper_inputs(self) -> list[str]:
        studies = dict.fromkeys(study for study, _ in self._figures_of_paper())
        return ["paper/main.tex", *(f"paper/findings/{study}" for study in studies)]

    def _figures_of_paper(self) -> list[tuple[str, str]]:
        """(study, figure) of the figures in the text of the paper over all studies."""
        text = Path(PAPER).read_text(encoding="utf-8") if Path(PAPER).exists() else ""
        return re.findall(r"\\findingfigure\{(\w+)\}\{(\w+)\}", text)

    def figures_of_paper(self, wildcards: Wildcards) -> str:
        figures = self._figures_of_paper()
        return " ".join(["--figures", *(f for study, f in figures if study == wildcards.study)])

    def one_paper(self) -> list[str]:
        return self.paper_inputs() + (["paper/paper.pdf"] if self.has_tex else [])

    # --- a study that is finished ---

    def finished(self, study: str) -> list[str]:
        """All files of a finished study; with `draw: reference`, what is drawn from its tables."""
        if self.studies[study].is_analysis:
            return self.paper(study)
        if self.is_from_reference:
            return self.paper(study) + self.pdf(study)
        results = paths.results(self.studies[study]) + self._prunings(study)
        drawn = self.paper(study) + self.pdf(study) + self.explorer(study)
        return results + drawn + self.agreement(study)

    def _prunings(self, study: str) -> list[str]:
        if self.config.keep_checkpoints == "all":
            return []
        return paths.prunings(self.studies[study], self.studies.values())

    def show_results_command(self, name: str) -> str:
        study = self.studies[name]
        if study.is_analysis:
            page = f"paper/{name}/answers.md"
            return f"cat {page}" if os.path.exists(page) else "true"
        # If only a part of the study has run, the agreement with the reference does not exist yet.
        compared = (
            []
            if self.is_from_reference
            else [path for path in self.agreement(name) if Path(path).exists()]
        )
        agreement = " ".join(["", "--agreement", *compared]) if compared else ""
        own_bases = " --own-bases" if claim_conditions.conditions(study)["own_bases"] else ""
        tex = "" if self.has_tex else " --no-tex"
        first_recipe = f" --first-recipe {study.first_recipe}"
        tables = f"{self.folder(name)}/*.csv{agreement}{own_bases}{first_recipe}{tex}"
        return f"python scripts/paper/show_results.py --study {name} --tables {tables}"
