# Get problems and models. A download must match its entry in inputs.lock, unless update_inputs is
# true. Downloads are local jobs, because many compute nodes have no internet.


localrules:
    compare_pool,
    compare_splits,
    convert_accuracies,
    convert_recording,
    convert_trajectory,
    fetch_dataset,
    fetch_model,
    fetch_original,
    fit_prompts,
    prepare_task,
    read_annotated,
    remove_answers,
    write_solutions,


# Download a file that other authors published. If the folder `data` has a copy, other rules read the
# copy, and this rule does not run.
rule fetch_original:
    output:
        "results/originals/{owner}--{repository}@{commit}/{name}",
    log:
        "results/logs/fetch_original/{owner}--{repository}@{commit}/{name}.log",
    wildcard_constraints:
        owner="[^/@]+?",
        repository="[^/@]+",
        commit="[0-9a-f]{7,40}",
        name=r".+\.(jsonl?|csv|tsv|parquet)",
    resources:
        lock_mode=UPDATE_INPUTS,
    params:
        section="repositories",
    message:
        "Download {wildcards.name} of {wildcards.owner}/{wildcards.repository}"
    shell:
        "python scripts/inputs/fetch_original.py --section {params.section} --entry {wildcards.owner}/{wildcards.repository}@{wildcards.commit}"
        " --name {wildcards.name:q} --lock inputs.lock {resources.lock_mode} --output {output:q} > {log:q} 2>&1"


use rule fetch_original as fetch_dataset with:
    output:
        "results/inputs/{owner}--{repository}@{commit}/{name}",
    log:
        "results/logs/fetch_dataset/{owner}--{repository}@{commit}/{name}.log",
    params:
        section="datasets",


rule convert_recording:
    input:
        unpack(inputs.original_recording),
    output:
        paths.RECORDING,
    log:
        "results/logs/convert_recording/{model}/{task}/{part}.log",
    wildcard_constraints:
        model=any_of(names.recorded),
        part=r"probe|base|[^/]+/checkpoint-\d+",
    resources:
        lock_mode=UPDATE_INPUTS,
    params:
        format="responses",
        files=arguments.named_inputs,
        names=lambda w: list(inputs.original_names(w).values()),
        repository=arguments.original_repository,
        code=arguments.code("inputs/convert_recording.py"),
    message:
        "Convert the completions of {wildcards.model} on {wildcards.task}: {wildcards.part}"
    shell:
        "python scripts/inputs/convert_recording.py --format {params.format} {params.files} {params.repository} --names {params.names:q}"
        " --lock inputs.lock {resources.lock_mode} --output {output} > {log} 2>&1"


use rule convert_recording as convert_accuracies with:
    input:
        unpack(inputs.original_accuracies),
    output:
        paths.PUBLISHED_ACCURACIES,
    log:
        "results/logs/convert_accuracies/{model}/{task}/{policy}.log",
    params:
        format="accuracies",
        names=lambda w: list(inputs.accuracies_names(w).values()),
    message:
        "Convert the published accuracies of {wildcards.model} on {wildcards.task}, trained on {wildcards.policy} prompts"


use rule convert_recording as convert_trajectory with:
    input:
        original=inputs.original_trajectory,
    output:
        paths.CONVERTED_TRAJECTORY,
    log:
        "results/logs/convert_trajectory/{model}.log",
    wildcard_constraints:
        model=any_of(names.trajectories),
    params:
        format=lambda w: f"shares --rollouts {project.models[w.model].source.rollouts}",
        names=lambda w: project.models[w.model].source.file,
    message:
        "Convert the trajectory of {wildcards.model}"


rule prepare_task:
    input:
        inputs.source_files,
    output:
        paths.PROBLEMS,
    log:
        "results/logs/prepare_task/{task}.{split}.log",
    priority: 100  # compare_splits waits for this rule
    resources:
        # These values are resources, because a changed resource does not rerun finished jobs. The
        # grader and the policies do not affect the output: the program only uses them to check the
        # data. Do not split resource `grader` into two: a new placeholder changes the shell command,
        # and Snakemake would prepare finished tasks again.
        grader=arguments.grader_and_policies,
        lock_mode=UPDATE_INPUTS,
        named=arguments.task_in_ids,
    params:
        source=arguments.source,
        files=inputs.source_files,
        labelled=arguments.unlabelled,
    message:
        "Prepare the {wildcards.split} problems of {wildcards.task}"
    shell:
        "python scripts/inputs/prepare_task.py --task {resources.named} --split {wildcards.split} --source {params.source:q}"
        " --files {params.files:q} --grader {resources.grader} {params.labelled} --lock inputs.lock {resources.lock_mode}"
        " --output {output} > {log} 2>&1"


rule compare_pool:
    input:
        pool=paths.POOL_PROBLEMS,
    output:
        questions=f"{paths.POOL_COMPARISON}.csv",
        counts=f"{paths.POOL_COMPARISON}.json",
    log:
        "results/logs/compare_pool/{task}.log",
    priority: 100
    container:
        IMAGE["figures"]
    params:
        test="",
        code=arguments.code("inputs/compare_splits.py"),
    message:
        "Compare the questions of the pool of {wildcards.task} with each other"
    shell:
        "python scripts/inputs/compare_splits.py --task {wildcards.task} --pool {input.pool} {params.test} --output {output.questions} > {log} 2>&1"


# This rule fails if all test questions are also in the pool. It also fails if some are, unless the
# task sets `contamination: report`. The priority starts the rule before ready jobs of other rules. No
# sampling rule depends on its output: the pool would be sampled again for each new test set.
use rule compare_pool as compare_splits with:
    input:
        pool=paths.POOL_PROBLEMS,
        problems="results/tasks/{test}/test.jsonl",
    output:
        questions=f"{paths.CONTAMINATION}.csv",
        counts=f"{paths.CONTAMINATION}.json",
    log:
        "results/logs/compare_splits/{task}/{test}.log",
    params:
        test=lambda w, input: f"--test {w.test} --problems {input.problems}"
        f" --contamination {project.tasks[w.task].contamination or 'refuse'}",
    message:
        "Compare the test questions of {wildcards.test} with the pool of {wildcards.task}"


rule fit_prompts:
    input:
        problems=paths.PROBLEMS,
        model=paths.MANIFEST,
    output:
        paths.POOL,
    log:
        "results/logs/fit_prompts/{model}/{task}.{split}.log",
    wildcard_constraints:
        model=any_of(names.sampled),
        task=any_of(names.sampled_tasks),
    params:
        prompt=arguments.prompt,
        tokens=arguments.completion_tokens,
        chat=arguments.chat,
    message:
        "Select the {wildcards.split} prompts of {wildcards.task} that fit into the context of {wildcards.model}"
    shell:
        "python scripts/inputs/fit_prompts.py --model results/models/{wildcards.model} --problems {input.problems} --prompt {params.prompt:q}"
        " --completion-tokens {params.tokens} --chat {params.chat:q} --output {output} > {log} 2>&1"


rule remove_answers:
    input:
        "results/{pool}/train.jsonl",
    output:
        "results/{pool}/questions.jsonl",
    log:
        "results/logs/remove_answers/{pool}.log",
    wildcard_constraints:
        pool="(tasks|pools/[^/]+)/[^/]+",
    container:
        IMAGE["figures"]
    message:
        "Write the questions of {wildcards.pool} without their answers"
    shell:
        "python scripts/inputs/remove_answers.py --problems {input} --output {output} > {log} 2>&1"


rule read_annotated:
    input:
        problems=paths.POOL_PROBLEMS,
        annotated=inputs.annotated_rows,
    output:
        paths.ANNOTATED,
    log:
        "results/logs/read_annotated/{task}.log",
    params:
        column=arguments.answer_column,
        grader=arguments.grader,
    message:
        "Read the annotators' answers to prompts of {wildcards.task}"
    shell:
        "python scripts/inputs/read_annotated.py --problems {input.problems} --annotated {input.annotated:q} --column {params.column:q}"
        " --grader {params.grader} --output {output} 2>> {log} | tee -a {log}"


# For runs of recipes with `objective: sft`.
rule write_solutions:
    input:
        inputs.solution_files,
    output:
        paths.SOLUTIONS,
    log:
        "results/logs/write_solutions/{task}.log",
    params:
        named=arguments.task_in_ids,
        source=arguments.solution_source,
        files=inputs.solution_files,
        grader=arguments.grader,  # determines the form in which a solution states the answer
    message:
        "Write the worked solutions of {wildcards.task}"
    shell:
        "python scripts/inputs/write_solutions.py --task {params.named} --source {params.source:q} --files {params.files:q}"
        " --grader {params.grader} --output {output} > {log} 2>&1"


rule fetch_model:
    output:
        paths.MANIFEST,
    log:
        "results/logs/fetch_model/{model}.log",
    wildcard_constraints:
        model=any_of(names.fetched),
    resources:
        lock_mode=UPDATE_INPUTS,
    params:
        source=arguments.model_source,
        data=arguments.model_parent,
    message:
        "Get model {wildcards.model}"
    shell:
        "python scripts/inputs/fetch_model.py --model {wildcards.model} --source {params.source:q} --data {params.data:q}"
        " --lock inputs.lock {resources.lock_mode} --output results/models/{wildcards.model} > {log} 2>&1"


rule pretrain_model:
    input:
        inputs.hidden_problems,
    output:
        paths.MANIFEST,
    log:
        "results/logs/pretrain_model/{model}.log",
    wildcard_constraints:
        model=any_of(names.pretrained),
    priority: 1  # all other jobs of this base model wait for the weights
    resources:
        **machine.for_pretraining(),
    params:
        settings=arguments.pretraining,
    message:
        "Pretrain {wildcards.model} from scratch ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"
    shell:
        "python scripts/inputs/pretrain_model.py --model {wildcards.model} --settings {params.settings:q} --exclude {input}"
        " --output results/models/{wildcards.model} 2>> {log} | tee -a {log}"
