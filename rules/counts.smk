# Analyses of published numbers of right answers (config/analyses/): studies without arms, in which
# nothing is sampled or trained.


localrules:
    count_answers,
    write_answers,


ruleorder: write_answers > judge_claims


rule count_answers:
    input:
        inputs.originals,
    output:
        paths.COUNTS,
    log:
        "results/logs/count_answers/{study}.log",
    wildcard_constraints:
        study=any_of(names.analyses),
    resources:
        lock_mode=UPDATE_INPUTS,
    params:
        analysis=arguments.analysis,
        names=inputs.names_of_originals,
        code=arguments.code("inputs/count_answers.py"),
    message:
        "Count the right answers of {wildcards.study}"
    shell:
        "python scripts/inputs/count_answers.py --kind {params.analysis[kind]} --files {input:q} --samples {params.analysis[samples]}"
        " --repository {params.analysis[source][repository]} --commit {params.analysis[source][commit]} --names {params.names:q}"
        " --lock inputs.lock {resources.lock_mode} --output {output} > {log} 2>&1"


for kind, kind_tables in registry.COUNT_TABLES.items():

    rule:
        name:
            f"summarize_{kind}"
        input:
            paths.COUNTS,
        output:
            [f"results/summaries/{{study}}/{table}.csv" for table in kind_tables],
        log:
            f"results/logs/summarize_{kind}/{{study}}.log",
        wildcard_constraints:
            study=any_of(name for name in names.analyses if project.analyses[name].kind == kind),
        localrule: True
        container:
            IMAGE["figures"]
        params:
            config=arguments.study,
            code=arguments.code("summaries/summarize.py", *SUMMARY_MODULES),
        message:
            "Summarise {wildcards.study}"
        shell:
            "python scripts/summaries/summarize.py --study {wildcards.study} --config {params.config:q}"
            " --output results/summaries/{wildcards.study} > {log} 2>&1"


rule write_answers:
    input:
        drawing.summaries,
    output:
        page=report(
            "paper/{study}/answers.md",
            caption="report/answers.rst",
            category="Results",
            labels={"file": "answers"},
        ),
        claims="paper/{study}/claims.csv",
    log:
        "results/logs/write_answers/{study}.log",
    wildcard_constraints:
        study=any_of(names.analyses),
    container:
        IMAGE["figures"]
    params:
        analysis=arguments.analysis_as_json,
        code=arguments.code("paper/write_answers.py"),
    message:
        "Write the answers of {wildcards.study}"
    shell:
        "python scripts/paper/write_answers.py --tables {input} --analysis {params.analysis:q} --output paper/{wildcards.study}"
        " > {log} 2>&1"
