# The small tables that everything is drawn from. They are committed: `figures` and `paper` start from them.


localrules:
    summarize,


rule summarize:
    input:
        lambda w: study_results(w.study),
        lambda w: [with_prompt for _, _, with_prompt in layout.recorded_probes(config, w.study)],
    output:
        [f"results/summaries/{{study}}/{table}.csv" for table in SUMMARY],
    log:
        "results/logs/summarize/{study}.log",
    conda:
        CONDA["figures"]
    container:
        IMAGE["figures"]
    params:
        config=lambda w: as_json(layout.of_study(config, w.study)),
        code=code("summarize.py", "hardgrpo/summaries.py", "hardgrpo/statistics.py", "hardgrpo/evaluations.py", "hardgrpo/files.py"),
    message:
        "Summarise study {wildcards.study}"
    shell:
        "python scripts/summarize.py --study {wildcards.study} --config {params.config:q}"
        " --output results/summaries/{wildcards.study} > {log} 2>&1"
