# Choose the prompts of the pool to train on.


localrules:
    annotate_sample,
    select_subset,
    export_subset,
    format_subset,


rule select_subset:
    input:
        unpack(inputs.measures),
    output:
        subset=f"{paths.SUBSET}.csv",
        facts=f"{paths.SUBSET}.json",
    log:
        "results/logs/select_subset/{model}/{task}/{policy}/seed{seed}.log",
    container:
        IMAGE["figures"]
    params:
        policy=arguments.policy,
        measures=arguments.named_inputs,
    message:
        "Choose subset {wildcards.policy} of {wildcards.task} for {wildcards.model}, seed {wildcards.seed}"
    shell:
        "python scripts/subsets/select_subset.py {params.measures} --policy {params.policy:q} --seed {wildcards.seed}"
        " --output {output.subset} > {log} 2>&1"


# For policies with `by: predicted`: draw the prompts that are annotated before the policy chooses.
rule annotate_sample:
    input:
        questions=inputs.questions_to_choose_from,
        difficulty=inputs.pass_rates,
    output:
        f"{paths.SUBSET}.sample.csv",
    log:
        "results/logs/annotate_sample/{model}/{task}/{policy}/seed{seed}.log",
    container:
        IMAGE["figures"]
    params:
        share=lambda w: project.policies[w.policy].calibrated_on,
    message:
        "Draw the prompts of {wildcards.task} that are annotated to predict pass rates, seed {wildcards.seed}"
    shell:
        "python scripts/subsets/annotate_sample.py --questions {input.questions} --share {params.share} --seed {wildcards.seed}"
        " --difficulty {input.difficulty} --output {output} > {log} 2>&1"


rule export_subset:
    input:
        subset=f"{paths.SUBSET}.csv",
        facts=f"{paths.SUBSET}.json",
        problems=paths.POOL_PROBLEMS,
    output:
        f"{paths.SUBSET}.{{content}}.{{kind}}",
    log:
        "results/logs/export_subset/{model}/{task}/{policy}/seed{seed}.{content}.{kind}.log",
    wildcard_constraints:
        content="rows|to_annotate",
        kind="csv|tsv|jsonl",
    params:
        files=inputs.solution_files,
        answer=arguments.annotation_column,
        code=arguments.code("subsets/export_subset.py"),
    message:
        "Write the source rows of the prompts in subset {wildcards.policy} of {wildcards.task}"
    shell:
        "python scripts/subsets/export_subset.py --subset {input.subset} --facts {input.facts} --problems {input.problems}"
        " --files {params.files:q} {params.answer} --output {output} 2>> {log} | tee -a {log}"


rule format_subset:
    input:
        subset=f"{paths.SUBSET}.csv",
        problems=inputs.training_problems,
    output:
        f"{paths.SUBSET}.{{trainer}}.{{kind}}",
    log:
        "results/logs/format_subset/{model}/{task}/{policy}/seed{seed}.{trainer}.{kind}.log",
    wildcard_constraints:
        trainer=any_of(trainer_rows.FILES),
        kind=any_of(trainer_rows.FILES.values()),
    params:
        prompt=arguments.prompt,
        code=arguments.code("subsets/format_subset.py"),
    message:
        "Write subset {wildcards.policy} of {wildcards.task} for {wildcards.trainer}"
    shell:
        "python scripts/subsets/format_subset.py --subset {input.subset} --problems {input.problems} --prompt {params.prompt:q}"
        " --task {wildcards.task} --format {wildcards.trainer} --output {output} 2>> {log} | tee -a {log}"
