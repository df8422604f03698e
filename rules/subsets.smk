# Choose the prompts of the pool to train on.


localrules:
    select_subset,
    export_subset,


rule select_subset:
    input:
        lambda w: paths.difficulty(w.model, config["policies"][w.policy].get("probed_on", w.task)),
    output:
        subset="results/subsets/{model}/{task}/{policy}/seed{seed}.csv",
        facts="results/subsets/{model}/{task}/{policy}/seed{seed}.json",
    log:
        "results/logs/select_subset/{model}/{task}/{policy}/seed{seed}.log",
    conda:
        CONDA["figures"]
    container:
        IMAGE["figures"]
    params:
        policy=lambda w: as_json({key: value for key, value in config["policies"][w.policy].items() if key != "probed_on"}),
    message:
        "Choose subset {wildcards.policy} of {wildcards.task} for {wildcards.model}, seed {wildcards.seed}"
    shell:
        "python scripts/subsets/select_subset.py --difficulty {input} --policy {params.policy:q} --seed {wildcards.seed}"
        " --output {output.subset} > {log} 2>&1"


rule export_subset:
    input:
        subset="results/subsets/{model}/{task}/{policy}/seed{seed}.csv",
        facts="results/subsets/{model}/{task}/{policy}/seed{seed}.json",
        problems="results/tasks/{task}/train.jsonl",
    output:
        "results/subsets/{model}/{task}/{policy}/seed{seed}.rows.{kind}",
    log:
        "results/logs/export_subset/{model}/{task}/{policy}/seed{seed}.{kind}.log",
    wildcard_constraints:
        kind="csv|jsonl",
    conda:
        CONDA["training"]
    container:
        IMAGE["training"]
    params:
        files=lambda w: [path for _, path in parts_of(w.task, "train")],
        code=code("subsets/export_subset.py"),
    message:
        "Write the rows of subset {wildcards.policy} of {wildcards.task}"
    shell:
        "python scripts/subsets/export_subset.py --subset {input.subset} --problems {input.problems} --files {params.files:q}"
        " --output {output} 2>> {log} | tee -a {log}"
