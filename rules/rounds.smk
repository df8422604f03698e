# Annotation in two rounds: half of the budget is chosen by the base model's completions, and after half of the updates the other half by
# those of the model trained so far. One run in two jobs: the first job is the first half of the run and has its own spec,
# log and checkpoints; the second job continues its steps and its log.


localrules:
    write_first_spec,
    measure_again,
    select_again,


use rule write_spec as write_first_spec with:
    output:
        f"results/training/{paths.RUN}/first/spec.yaml",
    log:
        f"results/logs/write_first_spec/{paths.RUN}.log",
    wildcard_constraints:
        policy=any_of(IN_ROUNDS),
    params:
        run=lambda w: as_json(Spec.from_study(config, run_of(w), first=True).fields()),
    message:
        "Specify round one of {wildcards.model}/{wildcards.task}/{wildcards.recipe}/{wildcards.policy}/seed{wildcards.seed}"


use rule train_grpo as train_first_round with:
    input:
        spec=f"results/training/{paths.RUN}/first/spec.yaml",
        model="results/models/{model}/manifest.json",
        problems=lambda w: paths.training_problems(config["tasks"], w.task),
        subset="results/subsets/{model}/{task}/{policy}/seed{seed}.csv",
    output:
        checkpoints=f"results/training/{paths.RUN}/first/checkpoints/manifest.json",
        updates=f"results/training/{paths.RUN}/first/updates.csv",
        timing=f"results/training/{paths.RUN}/first/timing.csv",
        provenance=f"results/training/{paths.RUN}/first/provenance.json",
    log:
        f"results/logs/train_first_round/{paths.RUN}.log",
    wildcard_constraints:
        policy=any_of(IN_ROUNDS),
    message:
        "Train round one of {wildcards.model} on {wildcards.policy} prompts of {wildcards.task} by {wildcards.recipe},"
        " seed {wildcards.seed}"
        " ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"


rule probe_again:
    input:
        checkpoints=f"results/training/{paths.RUN}/first/checkpoints/manifest.json",
        problems=pool,
    output:
        completions=f"results/training/{paths.RUN}/first/probe.jsonl.gz",
        provenance=f"results/training/{paths.RUN}/first/probe.json",
    log:
        f"results/logs/probe_again/{paths.RUN}.log",
    wildcard_constraints:
        policy=any_of(IN_ROUNDS),
    container:
        IMAGE["training"]
    resources:
        **for_sampling("probe_again"),
    params:
        model=lambda w: Spec.from_study(config, run_of(w)).model_folder,
        sampling=sampling_params,
        prompt=lambda w: task_of(w.task)["prompt"],
        tokens=lambda w: task_of(w.task)["completion_tokens"],
        probe=lambda w: settings.sorted_slice(task_of(w.task)["probe"]),
    message:
        "Probe {wildcards.model} on {wildcards.task} after round one on {wildcards.policy} prompts by {wildcards.recipe},"
        " seed {wildcards.seed}"
        " ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"
    shell:
        "python scripts/probe/probe.py --model {params.model} --problems {input.problems} --prompt {params.prompt:q}"
        " {params.sampling} {resources.hardware}"
        " --samples {params.probe[samples]} --completion-tokens {params.tokens} --seed {params.probe[seed]} --shard 0 --shards 1"
        " --output {output.completions} --provenance {output.provenance} 2>> {log} | tee -a {log}"


rule measure_again:
    input:
        completions=f"results/training/{paths.RUN}/first/probe.jsonl.gz",
        questions=pool_questions,
    output:
        f"results/training/{paths.RUN}/first/signals.csv",
    log:
        f"results/logs/measure_again/{paths.RUN}.log",
    container:
        IMAGE["training"]
    params:
        grader=lambda w: task_of(w.task)["grader"],
        samples=lambda w: task_of(w.task)["probe"]["samples"],
    message:
        "Measure label-free signals of {wildcards.task} for {wildcards.model} after round one on {wildcards.policy} prompts,"
        " seed {wildcards.seed}"
    shell:
        "python scripts/probe/measure_signals.py --questions {input.questions} --completions {input.completions}"
        " --grader {params.grader} --samples {params.samples} --output {output} > {log} 2>&1"


rule select_again:
    input:
        signals=f"results/training/{paths.RUN}/first/signals.csv",
        besides="results/subsets/{model}/{task}/{policy}/seed{seed}.csv",
    output:
        subset=f"results/training/{paths.RUN}/second.csv",
        facts=f"results/training/{paths.RUN}/second.json",
    log:
        f"results/logs/select_again/{paths.RUN}.log",
    wildcard_constraints:
        policy=any_of(IN_ROUNDS),
    container:
        IMAGE["figures"]
    params:
        policy=lambda w: as_json(asked_of(w.policy) | {"budget": config["policies"][w.policy]["budget"]}),
    message:
        "Choose the second half of {wildcards.policy} of {wildcards.task} for {wildcards.model}, seed {wildcards.seed}"
    shell:
        "python scripts/subsets/select_subset.py --signals {input.signals} --besides {input.besides} --policy {params.policy:q}"
        " --seed {wildcards.seed} --output {output.subset} > {log} 2>&1"
