# Which prompts of the pool are trained on.


localrules:
    select_subset,


rule select_subset:
    input:
        "results/difficulty/{model}/{task}.csv",
    output:
        subset="results/subsets/{model}/{task}/{policy}/seed{seed}.csv",
        facts="results/subsets/{model}/{task}/{policy}/seed{seed}.json",
    log:
        "results/logs/select_subset/{model}/{task}/{policy}/seed{seed}.log",
    params:
        policy=lambda w: as_json(config["policies"][w.policy]),
    message:
        "Choose subset {wildcards.policy} of {wildcards.task} for {wildcards.model}, seed {wildcards.seed}"
    shell:
        "python scripts/select_subset.py --difficulty {input} --policy {params.policy:q} --seed {wildcards.seed}"
        " --output {output.subset} > {log} 2>&1"
