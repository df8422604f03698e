# The small tables that everything is drawn from. They are committed: `figures` and `paper` start from them.


localrules:
    summarize,
    judge_claims,


rule summarize:
    input:
        lambda w: study_results(w.study),
        lambda w: [with_prompt for _, _, with_prompt in paths.recorded_probes(config, w.study)],
    output:
        [f"results/summaries/{{study}}/{table}.csv" for table in SUMMARY],
    log:
        "results/logs/summarize/{study}.log",
    conda:
        CONDA["figures"]
    container:
        IMAGE["figures"]
    params:
        config=lambda w: as_json(paths.of_study(config, w.study)),
        code=code("summaries/summarize.py"),
    message:
        "Summarise study {wildcards.study}"
    shell:
        "python scripts/summaries/summarize.py --study {wildcards.study} --config {params.config:q}"
        " --output results/summaries/{wildcards.study} > {log} 2>&1"


rule judge_claims:
    input:
        tables=[table(name) for name in SUMMARY],
        claims="paper/claims.yaml",
        published=PUBLISHED,
    output:
        [table(name) for name in JUDGED],
    log:
        "results/logs/judge_claims/{study}.log",
    conda:
        CONDA["figures"]
    container:
        IMAGE["figures"]
    params:
        conditions=lambda w: as_json(paths.conditions(config, w.study)),
        code=code("summaries/judge_claims.py"),
    message:
        "Judge the claims and set published numbers beside those of study {wildcards.study}"
    shell:
        "python scripts/summaries/judge_claims.py --summaries results/summaries/{wildcards.study} --claims {input.claims}"
        " --published results/published --conditions {params.conditions:q} > {log} 2>&1"
