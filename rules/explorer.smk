# Write one HTML file that shows the completions of a study's base models and last checkpoints side
# by side. Completions that only measure the reach of a base model are left out.


localrules:
    write_explorer,


rule write_explorer:
    input:
        inputs.texts,
    output:
        report(
            "paper/{study}/explorer.html",
            caption="report/explorer.rst",
            category="Completions",
            labels={"file": "explorer of completions"},
        ),
    log:
        "results/logs/write_explorer/{study}.log",
    container:
        IMAGE["figures"]
    params:
        config=arguments.study,
        code=arguments.code("paper/write_explorer.py"),
    message:
        "Write the explorer of completions ({wildcards.study})"
    shell:
        "python scripts/paper/write_explorer.py --study {wildcards.study} --config {params.config:q}"
        " --output {output} > {log} 2>&1"
