# Write the summary tables, the verdicts on claims, and the agreement with the reference.


# modules of the functions that make summary tables, which summarize.py loads by name
SUMMARY_MODULES = [f"analysis/{module}" for module in summary_tables.MODULES]


localrules:
    summarize,
    judge_claims,
    compare_with_reference,


rule summarize:
    input:
        drawing.results,
    output:
        [f"results/summaries/{{study}}/{table}.csv" for table in registry.SUMMARIES],
    log:
        "results/logs/summarize/{study}.log",
    container:
        IMAGE["figures"]
    params:
        config=arguments.study,
        code=arguments.code("summaries/summarize.py", *SUMMARY_MODULES),
    message:
        "Summarise study {wildcards.study}"
    shell:
        "python scripts/summaries/summarize.py --study {wildcards.study} --config {params.config:q}"
        " --output results/summaries/{wildcards.study} > {log} 2>&1"


rule judge_claims:
    input:
        tables=drawing.summaries,
        claims="paper/claims.yaml",
        published=PUBLISHED,
        comparisons=registry.COMPARISONS,
    output:
        [f"paper/{{study}}/{table}.csv" for table in registry.JUDGED],
    log:
        "results/logs/judge_claims/{study}.log",
    container:
        IMAGE["figures"]
    params:
        conditions=arguments.conditions,
        policies=arguments.compared_policies,
        code=arguments.code("summaries/judge_claims.py"),
    message:
        "Judge the claims and the ways of choosing of study {wildcards.study}"
    shell:
        "python scripts/summaries/judge_claims.py --tables {input.tables} --claims {input.claims}"
        " --published results/published --conditions {params.conditions:q} --study {wildcards.study} --policies {params.policies:q}"
        " --comparisons {input.comparisons} --output paper/{wildcards.study} > {log} 2>&1"


rule compare_with_reference:
    input:
        runs="results/summaries/{study}/decomposition_runs.csv",
        reference="results/reference/{study}/decomposition_runs.csv",
        files=drawing.run_files,
    output:
        paths.AGREEMENT,
    log:
        "results/logs/compare_with_reference/{study}.log",
    container:
        IMAGE["figures"]
    params:
        code=arguments.code("summaries/compare_with_reference.py"),
        files=lambda w, input: f"--run-files {input.files}" if input.files else "",
    message:
        "Compare study {wildcards.study} with its reference"
    shell:
        "python scripts/summaries/compare_with_reference.py --tables {input.runs}"
        " --reference {input.reference} {params.files} --output {output} > {log} 2>&1"
