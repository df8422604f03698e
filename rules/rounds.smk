# Annotation in two rounds: half of the subset is chosen by completions of the base model. After half
# of the updates, the other half is chosen by completions of the model trained so far. Two jobs train
# a run. The first job trains the first half of the run, and has its own spec, log and checkpoints.
# The second job continues from the last checkpoint of the first job: its updates.csv and timing.csv
# begin with the rows of the first job.


localrules:
    write_first_spec,
    measure_again,
    select_again,


use rule write_spec as write_first_spec with:
    output:
        f"{paths.RUN_FOLDER}/first/spec.yaml",
    log:
        f"results/logs/write_first_spec/{paths.RUN}.log",
    wildcard_constraints:
        policy=any_of(names.policies_in_rounds),
    params:
        run=arguments.first_spec,
    message:
        "Write the specification of round one of {wildcards.model}/{wildcards.task}/{wildcards.recipe}/{wildcards.policy}/seed{wildcards.seed}"


use rule train_grpo as train_first_round with:
    input:
        spec=f"{paths.RUN_FOLDER}/first/spec.yaml",
        model=paths.MANIFEST,
        problems=inputs.training_problems,
        subset=f"{paths.SUBSET}.csv",
    output:
        checkpoints=f"{paths.RUN_FOLDER}/first/checkpoints/manifest.json",
        updates=f"{paths.RUN_FOLDER}/first/updates.csv",
        timing=f"{paths.RUN_FOLDER}/first/timing.csv",
        provenance=f"{paths.RUN_FOLDER}/first/provenance.json",
    log:
        f"results/logs/train_first_round/{paths.RUN}.log",
    wildcard_constraints:
        policy=any_of(names.policies_in_rounds),
    message:
        "Train round one of {wildcards.model} on {wildcards.policy} prompts of {wildcards.task} by {wildcards.recipe},"
        " seed {wildcards.seed}"
        " ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"


rule probe_again:
    input:
        checkpoints=f"{paths.RUN_FOLDER}/first/checkpoints/manifest.json",
        problems=inputs.pool,
    output:
        completions=f"{paths.RUN_FOLDER}/first/probe.jsonl.gz",
        provenance=f"{paths.RUN_FOLDER}/first/probe.json",
    log:
        f"results/logs/probe_again/{paths.RUN}.log",
    wildcard_constraints:
        policy=any_of(names.policies_in_rounds),
    resources:
        **machine.for_sampling("probe_again"),
    params:
        model=arguments.first_checkpoint,
        sampling=arguments.sampling,
        prompt=arguments.prompt,
        tokens=arguments.completion_tokens,
        probe=arguments.probe,
    message:
        "Probe {wildcards.model} on {wildcards.task} after round one of {wildcards.recipe} on {wildcards.policy} prompts,"
        " seed {wildcards.seed}"
        " ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"
    shell:
        "python scripts/probe/probe.py --model {params.model} --problems {input.problems} --prompt {params.prompt:q}"
        " {params.sampling} {resources.hardware}"
        " --samples {params.probe[samples]} --completion-tokens {params.tokens} --seed {params.probe[seed]} --shard 0 --shards 1"
        " --output {output.completions} --provenance {output.provenance} 2>> {log} | tee -a {log}"


use rule measure_signals as measure_again with:
    input:
        completions=f"{paths.RUN_FOLDER}/first/probe.jsonl.gz",
        questions=inputs.pool_questions,
    output:
        f"{paths.RUN_FOLDER}/first/signals.csv",
    log:
        f"results/logs/measure_again/{paths.RUN}.log",
    params:
        samples=lambda w: f"--samples {project.tasks[w.task].probe.samples}",
    message:
        "Measure label-free signals of {wildcards.task} for {wildcards.model} after round one on {wildcards.policy} prompts,"
        " seed {wildcards.seed}"


use rule select_subset as select_again with:
    input:
        signals=f"{paths.RUN_FOLDER}/first/signals.csv",
        besides=f"{paths.SUBSET}.csv",
    output:
        subset=f"{paths.RUN_FOLDER}/second.csv",
        facts=f"{paths.RUN_FOLDER}/second.json",
    log:
        f"results/logs/select_again/{paths.RUN}.log",
    wildcard_constraints:
        policy=any_of(names.policies_in_rounds),
    params:
        policy=arguments.second_policy,
    message:
        "Choose the second half of subset {wildcards.policy} of {wildcards.task} for {wildcards.model}, seed {wildcards.seed}"
