# From problems to the paper: tasks -> probe -> difficulty -> subsets -> GRPO -> evaluation ->
# summaries -> figures, tables, paper.


report: "rules/report/workflow.rst"


include: "rules/common.smk"


wildcard_constraints:
    model="[^/]+",
    task="[^/]+",
    eval_task="[^/]+",
    policy="[^/]+",
    recipe="[^/]+",
    study="[^/]+",
    seed=r"\d+",
    shard=r"\d+",
    split="train|test",


rule all:
    default_target: True
    input:
        drawing.finished(project.study),
    message:
        f"Study {project.study} is complete"


rule figures:
    input:
        drawing.drawn(project.study),
    message:
        f"Figures and tables of study {project.study} are drawn from {drawing.folder(project.study)}"


rule supplement:
    input:
        drawing.paper(project.study),
        drawing.pdf(project.study),
    message:
        f"The figures, the tables and (with TeX) the supplement of study {project.study} are made"


rule paper:
    input:
        drawing.one_paper(),
    message:
        "The numbers, the figures and (with TeX) the PDF of the paper over all committed studies are made"


rule explorer:
    input:
        f"paper/{project.study}/explorer.html",
    message:
        f"The explorer of study {project.study} is made"


rule subset:
    input:
        paths.chosen_rows(project.subset, project),
        paths.trainer_rows_of(project.subset, project),
        paths.pool_comparison(project.sampled_task(project.subset.task)),
        pools.own_comparison(project, project.subset.task),
    message:
        "The subset of {config[subset][task]} is chosen"


rule inputs:
    input:
        paths.inputs(studies[project.study], studies.values()),
        inputs.converted(project.study),
    message:
        f"Everything that study {project.study} needs from the internet is here"


rule images:
    input:
        IMAGE.values(),
    container:
        None
    message:
        "The container images are built"


include: "rules/software.smk"
include: "rules/inputs.smk"
include: "rules/probe.smk"
include: "rules/subsets.smk"
include: "rules/training.smk"
include: "rules/rounds.smk"
include: "rules/evaluation.smk"
include: "rules/summaries.smk"
include: "rules/counts.smk"
include: "rules/drawing.smk"
include: "rules/paper.smk"
include: "rules/plan.smk"


onstart:
    startup.check_jobs(project, workflow, obstacle)


onsuccess:
    provenance = [
        job.output.provenance
        for job in workflow.dag.jobs
        if job.rule.name in durations.TRAINING
    ]
    states.forget(provenance, Path(paths.STATES))
    if not {"subset", "inputs", "images", "plan", "paper"} & set(workflow.dag_settings.targets):
        command = drawing.show_results_command(project.study)
        shell("{command}")  # not shell(command), which would expand the braces in the command
