# Inputs of figures, tables and papers, and which of them a study has.

TEX = next((tool for tool in ("latexmk", "tectonic") if shutil.which(tool)), None)

SUMMARY = list(registry.SUMMARIES)
PUBLISHED = [f"{paths.PUBLISHED}/{name}.csv" for name in registry.PUBLISHED]
BY_HAND = {"deviations": f"{paths.PUBLISHED}/deviations.csv"}  # tables written by hand


def drawing_only():
    """Whether all targets are figures, tables, papers or crates. Then no study is run, whatever files are in results/."""
    drawings = lambda name: name in ("figures", "paper", "crate") or (
        name.startswith("paper/") and not name.endswith("explorer.html")
    )
    asked = [str(name) for name in workflow.dag_settings.targets]
    return bool(asked) and all(map(drawings, asked))


def summarized(w):
    """Inputs of a study's summaries. When only drawing, return a file that cannot exist, so that Snakemake takes the summaries as
    they are and plans no run."""
    if drawing_only():
        return "`figures` and `paper` make no summaries: they draw finished ones"
    with_prompts = [with_prompt for _, _, with_prompt in paths.recorded_probes(config, w.study)]
    comparisons = pools.comparisons(config, w.study)
    of_pools = [comparison["pool"] for comparison in comparisons]
    of_tests = [comparison["test"] for comparison in comparisons]
    return paths.results(config, w.study) + with_prompts + list(dict.fromkeys(of_tests + of_pools))


@functools.cache
def drawn_from(study):
    """Folder of the summary tables for a study's figures and paper.

    A run draws the tables that it computes. `figures` and `paper` alone draw the tables that `draw` in the configuration names. If
    these are missing, return a path that says what to do, so that Snakemake reports it.
    """
    computed, reference = paths.computed(study), paths.reference(study)
    if not drawing_only():
        return computed
    there = {folder: paths.has_tables(folder, SUMMARY) for folder in (computed, reference)}
    wanted = {"computed": [computed], "reference": [reference], "auto": [computed, reference]}[config["draw"]]
    found = next((folder for folder in wanted if there[folder]), None)
    if found is None:
        return (
            f"{' and '.join(wanted)}: no complete summaries of study {study}; run it:"
            f" .venv/bin/snakemake all --profile laptop --config study={study}"
        )
    other = reference if found == computed else computed
    more = f"; `--config draw={'reference' if found == computed else 'computed'}` draws {other}" if there[other] else ""
    if workflow.is_main_process:
        logger.info(f"Study {study} is drawn from {found}{more}.")
    return found


def drawn(*names):
    """The named tables, as an input of a rule."""

    def files(w):
        summaries = [name for name in names if name in registry.SUMMARIES]
        judged = [f"paper/{w.study}/{name}.csv" for name in names if name in registry.JUDGED]
        return tables_of(drawn_from(w.study), summaries) + judged + [BY_HAND[name] for name in names if name in BY_HAND]

    return files


def of_all(entries):
    """Names of all tables that the given entries of the registry need."""
    return dict.fromkeys(name for entry in entries.values() for name in entry.of)


def tables_of(folder, names):
    return [folder] if ":" in folder else [f"{folder}/{name}.csv" for name in names]  # with a colon it is a message of `drawn_from`


def summaries_to_draw(w):
    """The configured study's tables. They are inputs of `figures` and `paper` themselves, because Snakemake does not report a
    missing input of a figure that already exists."""
    return tables_of(drawn_from(config["study"]), SUMMARY)


@functools.cache
def figure_names(study):
    try:
        return registry.figures_of(config, study)
    except UserError as error:
        raise WorkflowError(str(error))


def study_figures(study):
    return expand("paper/{study}/figures/{figure}.{kind}", study=study, figure=figure_names(study), kind=["pdf", "png", "csv"])


def study_tables(study):
    return expand("paper/{study}/tables/{table}.{kind}", study=study, table=registry.TABLES, kind=["tex", "csv", "html"]) + [
        f"paper/{study}/captions.tex",
        f"paper/{study}/numbers.tex",
    ]


def study_worth(study):
    """The page that says whether it was worth it, unless all runs are recorded."""
    return [f"paper/{study}/worth.html"] if any(run.recipe != "recorded" for run in paths.runs(config, study)) else []


def study_paper(study):
    """Figures, tables, the page that says whether it was worth it, and the report of the checks."""
    return study_figures(study) + study_tables(study) + study_worth(study) + [f"paper/{study}/verified.txt"]


def study_pdf(study):
    """The paper as PDF, if TeX is installed."""
    return [f"paper/{study}/paper.pdf"] if TEX else []


def study_explorer(study):
    """The explorer, if the study has completions."""
    return [f"paper/{study}/explorer.html"] if paths.evaluations(config, study) else []


def without_pdf(study):
    """Whether a study was finished without TeX. It stays finished when TeX is installed later; a message says how to make its PDF."""
    return os.path.exists(f"paper/{study}/no_pdf.txt")


def note_missing_pdf(study):
    """After each run: if the study is finished without a PDF, write a note that says how to make one."""
    note = Path(f"paper/{study}/no_pdf.txt")
    if os.path.exists(f"paper/{study}/paper.pdf"):
        note.unlink(missing_ok=True)
    elif not TEX and all(map(os.path.exists, study_paper(study) + study_explorer(study))):
        note.write_text(f"Study {study} was finished without TeX. Install TeX, then make its PDF: {make_pdf(study)}\n")


def make_pdf(study):
    return f".venv/bin/snakemake paper --profile laptop --config study={study}"


if TEX and without_pdf(config["study"]) and workflow.is_main_process:
    logger.info(f"Study {config['study']} was finished without TeX. Make its PDF now: {make_pdf(config['study'])}")


def study_agreement(study):
    """The comparison with the committed reference, if the study has runs and a reference."""
    compared = paths.runs(config, study) and paths.has_tables(paths.reference(study), ["decomposition_runs"])
    return [paths.agreement(study)] if compared else []


def show_results_command():
    study = config["study"]
    tables = f"{drawn_from(study)}/*.csv"
    # After a part of a study there is no agreement with the reference yet.
    compared = [] if drawing_only() else [path for path in study_agreement(study) if Path(path).exists()]
    agreement = " ".join(["", "--agreement", *compared]) if compared else ""
    own_bases = " --own-bases" if claim_conditions.conditions(config, study)["own_bases"] else ""
    first_recipe = settings.first_recipe(config["studies"][study])
    return f"python scripts/paper/show_results.py --study {study} --tables {tables}{agreement}{own_bases} --first-recipe {first_recipe}" + (
        "" if TEX else " --no-tex"
    )
