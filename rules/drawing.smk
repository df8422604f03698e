# What figures, tables and papers are drawn from, and which of them a study has.

TEX = next((tool for tool in ("latexmk", "tectonic") if shutil.which(tool)), None)

# Tables of a summary; the ones that need training runs are empty for recorded completions.
SUMMARY = [
    "accuracy",
    "gains",
    "differences",
    "mcnemar",
    "parts",
    "decomposition",
    "decomposition_runs",
    "sentences",
    "pass_at_k",
    "learnable",
    "curves",
    "fit",
    "regressions",
    "tiers",
    "reach",
    "parity",
    "budgets",
    "subsets",
    "difficulty",
    "published",
]
PUBLISHED = [
    f"results/published/{name}.csv"
    for name in (
        "base_wrong",
        "gains",
        "learnable",
        "lengths",
        "limits",
        "out_of_distribution",
        "readings",
        "recordings",
        "yardsticks",
    )
]
JUDGED = ["claims", "compared"]  # tables made from those
# The paper's tables, and the summary tables that they are written from.
TABLES = [
    "gain",
    "learnable",
    "weaker_signal",
    "out_of_distribution",
    "transfer",
    "differences",
    "parts",
    "graders",
    "tier_parts",
    "tiers",
    "reach",
    "subsets",
    "budgets",
    "regressions",
    "single_samples",
    "compared",
    "claims",
    "deviations",
]
NUMBERED = ["gains", "differences", "learnable", "parts", "subsets", "regressions", "claims", "sentences"]
TABULATED = [
    "gains",
    "learnable",
    "compared",
    "pass_at_k",
    "tiers",
    "differences",
    "decomposition",
    "parts",
    "mcnemar",
    "reach",
    "subsets",
    "budgets",
    "regressions",
    "claims",
]


def drawing_only():
    """Whether nothing but figures, tables and papers is asked for. Then no study is run, whatever lies in results/."""
    drawings = lambda name: name in ("figures", "paper") or (name.startswith("paper/") and not name.endswith("explorer.html"))
    asked = [str(name) for name in workflow.dag_settings.targets]
    return bool(asked) and all(map(drawings, asked))


def summarized(w):
    """What a study's summaries are made from. Where only drawing is asked for this names a file that cannot exist, so that
    Snakemake takes the summaries as they are and never asks for a run."""
    if drawing_only():
        return "`figures` and `paper` make no summaries: they draw finished ones"
    return paths.results(config, w.study) + [with_prompt for _, _, with_prompt in paths.recorded_probes(config, w.study)]


@functools.cache
def drawn_from(study):
    """Folder of the summary tables that a study's figures and paper are drawn from.

    A run draws what it has computed. `figures` and `paper` alone draw what `draw` in the configuration says; where that is not
    there, the path says what to do and Snakemake reports it as missing.
    """
    computed, reference = paths.computed(study), paths.reference(study)
    if not drawing_only():
        return computed
    there = {folder: paths.has_tables(folder, SUMMARY) for folder in (computed, reference)}
    wanted = {"computed": [computed], "reference": [reference], "auto": [computed, reference]}[config["draw"]]
    found = next((folder for folder in wanted if there[folder]), None)
    if found is None:
        return f"{' and '.join(wanted)}: no complete summaries of study {study}; run it: snakemake all --profile laptop --config study={study}"
    other = reference if found == computed else computed
    more = f"; `--config draw={'reference' if found == computed else 'computed'}` draws {other}" if there[other] else ""
    if workflow.is_main_process:
        logger.info(f"Study {study} is drawn from {found}{more}.")
    return found


def drawn(*names):
    """The summary tables that something is drawn from, as an input of its rule."""

    return lambda w: tables_of(drawn_from(w.study), names)


def tables_of(folder, names):
    return [folder] if ":" in folder else [f"{folder}/{name}.csv" for name in names]  # with a colon it says what is missing


def summaries_to_draw(w):
    """The tables that the configured study is drawn from: `figures` and `paper` ask for them themselves, because Snakemake does
    not report a missing input of figures that are there already."""
    return tables_of(drawn_from(config["study"]), SUMMARY)


def judged(name):
    return f"paper/{{study}}/{name}.csv"


# Summary tables that a figure is drawn from, the section of the report that it stands in, and what it is called there.
FIGURES = {
    "pipeline": (["subsets", "parity", "accuracy"], "Design", "From the pool to the results"),
    "difficulty": (["difficulty"], "Design", "Difficulty of the pool and of the subsets"),
    "accuracy": (["accuracy"], "Results", "Accuracy by checkpoint"),
    "parts": (["parts"], "What the gains are made of", "Finishing and correctness"),
    "truncation": (["parts"], "What the gains are made of", "Tight limit and room"),
    "lengths": (["curves"], "What the gains are made of", "Completion length over training"),
    "learnable": (
        ["gains", "learnable", "accuracy", "regressions"],
        "What explains the gains",
        "Learnable share and completion length",
    ),
    "tiers": (["tiers"], "Results", "Gain by difficulty tier"),
    "transfer": (["gains"], "Results", "Trained on one task, tested on another"),
    "budget": (["gains", "subsets"], "Results", "Gain by share of the pool"),
    "compared": (["compared"], "Published numbers", "Published against measured here"),
}


def figure_names(study):
    """Figures that the study has something for, by the configuration alone: recordings may lack trained runs, or the pool's probe."""
    plan, runs, trained = config["studies"][study], paths.runs(config, study), paths.updates(config, study)
    tests = {(run.task, test) for run in runs for test in paths.eval_tasks(config, study, run.task, run.model)}
    budgets = [
        (p["rule"], p["budget"]) for p in map(config["policies"].get, plan["policies"]) if "budget" in p and "probed_on" not in p
    ]
    wanted = {
        "pipeline": True,
        "difficulty": paths.probed(config, study),
        "accuracy": runs,
        "parts": runs,
        "truncation": cut_tests(study),
        "learnable": trained,
        "lengths": trained,
        "tiers": any(has_tiers(test) for _, test in tests),
        "transfer": any(task != test for task, test in tests),
        "budget": trained and len(set(budgets)) > len({rule for rule, _ in budgets}),
        "compared": runs and is_published(study, frozenset(runs)),
    }
    return [name for name, something in wanted.items() if something]


def has_tiers(task):
    """Whether problems of a task have a difficulty of their own; of a user's rows that is known only when they are read."""
    return task_of(task)["source"]["kind"] == "generated" or task_of(task)["source"].get("format") in ("gsm8k", "choices", "math")


def cut_tests(study):
    """{test: completion limit} of tests that judge the same completions, cut and whole, where runs are tested on both."""
    limits = {}
    for model, task in {(run.model, run.task) for run in paths.runs(config, study)}:
        tests = paths.eval_tasks(config, study, task, model)
        limits |= {
            name: task_of(name)["completion_tokens"]
            for cut in tests
            if task_of(cut).get("cut_from") in tests
            for name in (cut, task_of(cut)["cut_from"])
        }
    return limits


@functools.cache
def is_published(study, runs):
    """Whether a paper printed a number of a cell of the study: only then is there something to compare."""
    cells = {
        (run.model, run.task, test, policy)
        for run in runs
        for test in paths.eval_tasks(config, study, run.task, run.model)
        for policy in (settings.arm(config["studies"][study], run), "base")
    }
    try:
        return published.overlap(cells, "results/published")
    except UserError as error:
        raise WorkflowError(str(error))


def figure_design(figure):
    """The arguments of a figure's program that come from the configuration, as a parameter of its rule."""
    arguments = {
        "pipeline": lambda w: f"--study {shlex.quote(as_json(settings.described(config, w.study)))}",
        "truncation": lambda w: f"--limits {shlex.quote(as_json(cut_tests(w.study)))}",
    }
    return arguments.get(figure, "")


def study_figures(study):
    return expand("paper/{study}/figures/{figure}.{kind}", study=study, figure=figure_names(study), kind=["pdf", "png", "csv"])


def study_tables(study):
    return expand("paper/{study}/tables/{table}.{kind}", study=study, table=TABLES, kind=["tex", "csv", "html"]) + [
        f"paper/{study}/numbers.tex"
    ]


def study_paper(study):
    """All that is drawn, and the report of what was verified."""
    return study_figures(study) + study_tables(study) + [f"paper/{study}/verified.txt"]


def study_pdf(study):
    """The paper as PDF, where a TeX is installed."""
    return [f"paper/{study}/paper.pdf"] if TEX else []


def without_pdf(study):
    """Whether a study was finished without TeX: it stays finished when a TeX is installed, and says how to make its PDF."""
    return os.path.exists(f"paper/{study}/no_pdf.txt")


def note_missing_pdf(study):
    """After each run: a note that says how to make the PDF, where the study is finished without one."""
    note = Path(f"paper/{study}/no_pdf.txt")
    if os.path.exists(f"paper/{study}/paper.pdf"):
        note.unlink(missing_ok=True)
    elif not TEX and all(map(os.path.exists, [*study_paper(study), f"paper/{study}/explorer.html"])):
        note.write_text(f"Study {study} was finished without TeX. Install TeX, then make its PDF: {make_pdf(study)}\n")


def make_pdf(study):
    return f"snakemake paper --profile laptop --config study={study}"


if TEX and without_pdf(config["study"]) and workflow.is_main_process:
    logger.info(f"Study {config['study']} was finished without TeX. Make its PDF now: {make_pdf(config['study'])}")


def study_agreement(study):
    """The comparison with the committed reference of the same study, where there is one."""
    return [paths.agreement(study)] if paths.has_tables(paths.reference(study), ["decomposition_runs"]) else []


def show_results_command():
    study = config["study"]
    tables = f"{drawn_from(study)}/*.csv"
    agreement = "" if drawing_only() else " ".join(["", "--agreement", *study_agreement(study)]) * bool(study_agreement(study))
    return f"python scripts/paper/show_results.py --study {study} --tables {tables}{agreement}" + ("" if TEX else " --no-tex")
