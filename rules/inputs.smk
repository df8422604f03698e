# Problems and models. Downloads must match inputs.lock. They are local jobs, because compute nodes have no internet.


localrules:
    compare_pool,
    compare_splits,
    fetch_dataset,
    fetch_model,
    fit_prompts,
    prepare_task,
    pretrain_settings,
    read_annotated,
    remove_answers,
    remove_pool_answers,
    write_solutions,


rule fetch_dataset:
    output:
        "results/inputs/{owner}--{dataset}@{revision}/manifest.json",
    log:
        "results/logs/fetch_dataset/{owner}--{dataset}@{revision}.log",
    wildcard_constraints:
        owner="[^/@]+?",
        dataset="[^/@]+",
        revision="[0-9a-f]{40}",
    container:
        IMAGE["training"]
    resources:
        lock_mode=UPDATE_INPUTS,
    message:
        "Download dataset {wildcards.owner}/{wildcards.dataset}"
    shell:
        "python scripts/inputs/fetch_dataset.py --dataset {wildcards.owner}/{wildcards.dataset} --revision {wildcards.revision}"
        " --output results/inputs/{wildcards.owner}--{wildcards.dataset}@{wildcards.revision} --lock inputs.lock"
        " {resources.lock_mode} > {log} 2>&1"


rule prepare_task:
    input:
        lambda w: [name for name, _ in parts_of(w.task, w.split)],
    output:
        "results/tasks/{task}/{split}.jsonl",
    log:
        "results/logs/prepare_task/{task}.{split}.log",
    priority: 100  # the comparison of the splits waits for it
    container:
        IMAGE["training"]
    resources:
        # Not parameters: a resource that changes does not rerun finished jobs. Grader and policies only check the data. They share a
        # resource, because another placeholder in the command would prepare all tasks again.
        grader=lambda w: f"{task_of(w.task)['grader']} {choosing_policies(w)}",
        lock_mode=UPDATE_INPUTS,
        named=lambda w: settings.sampled_task(config["tasks"], w.task),  # the name in the problems' ids
    params:
        source=lambda w: as_json(settings.source_of_split(task_of(w.task), w.split)),
        files=lambda w: [path for _, path in parts_of(w.task, w.split)],
        labelled=lambda w: "" if settings.is_labelled(task_of(w.task), w.split) else "--unlabelled",
    message:
        "Prepare the {wildcards.split} problems of {wildcards.task}"
    shell:
        "python scripts/inputs/prepare_task.py --task {resources.named} --split {wildcards.split} --source {params.source:q}"
        " --files {params.files:q} --grader {resources.grader} {params.labelled} --lock inputs.lock {resources.lock_mode}"
        " --output {output} > {log} 2>&1"


# First of all jobs that can run: it refuses test questions that the pool has, too. Its output is no input of what samples, because
# another test must not sample the pool again.
rule compare_splits:
    input:
        pool="results/tasks/{task}/train.jsonl",
        problems="results/tasks/{test}/test.jsonl",
    output:
        questions="results/tasks/{task}/contamination.{test}.csv",
        counts="results/tasks/{task}/contamination.{test}.json",
    log:
        "results/logs/compare_splits/{task}/{test}.log",
    priority: 100
    container:
        IMAGE["figures"]
    params:
        contamination=lambda w: task_of(w.task).get("contamination", "refuse"),
        code=code("inputs/compare_splits.py"),
    message:
        "Compare the test questions of {wildcards.test} with the pool of {wildcards.task}"
    shell:
        "python scripts/inputs/compare_splits.py --task {wildcards.task} --pool {input.pool} --test {wildcards.test} --problems {input.problems}"
        " --contamination {params.contamination} --output {output.questions} > {log} 2>&1"


rule compare_pool:
    input:
        "results/tasks/{task}/train.jsonl",
    output:
        questions="results/tasks/{task}/compared.csv",
        counts="results/tasks/{task}/compared.json",
    log:
        "results/logs/compare_pool/{task}.log",
    priority: 100
    container:
        IMAGE["figures"]
    params:
        code=code("inputs/compare_splits.py"),
    message:
        "Compare the questions of the pool of {wildcards.task} with each other"
    shell:
        "python scripts/inputs/compare_splits.py --task {wildcards.task} --pool {input} --output {output.questions} > {log} 2>&1"


rule fit_prompts:
    input:
        problems="results/tasks/{task}/{split}.jsonl",
        model="results/models/{model}/manifest.json",
    output:
        "results/pools/{model}/{task}/{split}.jsonl",
    log:
        "results/logs/fit_prompts/{model}/{task}.{split}.log",
    wildcard_constraints:
        model=any_of(WEIGHTED),
        task=any_of(SAMPLED),
        split="train|test",
    container:
        IMAGE["training"]
    params:
        prompt=lambda w: task_of(w.task)["prompt"],
        tokens=lambda w: task_of(w.task)["completion_tokens"],
        chat=lambda w: as_json(settings.chat(config, w.model)),
    message:
        "Fit the {wildcards.split} prompts of {wildcards.task} to the context of {wildcards.model}"
    shell:
        "python scripts/inputs/fit_prompts.py --model results/models/{wildcards.model} --problems {input.problems} --prompt {params.prompt:q}"
        " --completion-tokens {params.tokens} --chat {params.chat:q} --output {output} > {log} 2>&1"


rule remove_answers:
    input:
        "results/tasks/{task}/train.jsonl",
    output:
        "results/tasks/{task}/questions.jsonl",
    log:
        "results/logs/remove_answers/{task}.log",
    container:
        IMAGE["figures"]
    message:
        "Write the questions of {wildcards.task} without their answers"
    shell:
        "python scripts/inputs/remove_answers.py --problems {input} --output {output} > {log} 2>&1"


use rule remove_answers as remove_pool_answers with:
    input:
        "results/pools/{model}/{task}/train.jsonl",
    output:
        "results/pools/{model}/{task}/questions.jsonl",
    log:
        "results/logs/remove_pool_answers/{model}/{task}.log",
    message:
        "Write the questions of {wildcards.task} for {wildcards.model} without their answers"


rule read_annotated:
    input:
        problems="results/tasks/{task}/train.jsonl",
        annotated=lambda w: os.path.join(DATA, task_of(w.task).get("annotated", f"config.yaml: tasks.{w.task}.annotated")),
    output:
        "results/tasks/{task}/annotated.jsonl",
    log:
        "results/logs/read_annotated/{task}.log",
    container:
        IMAGE["training"]
    params:
        column=lambda w: settings.answer_column(task_of(w.task)),
        grader=lambda w: task_of(w.task)["grader"],
    message:
        "Read the answers given to prompts of {wildcards.task}"
    shell:
        "python scripts/inputs/read_annotated.py --problems {input.problems} --annotated {input.annotated:q} --column {params.column:q}"
        " --grader {params.grader} --output {output} 2>> {log} | tee -a {log}"


# For runs of recipes with `objective: sft`.
rule write_solutions:
    input:
        lambda w: [name for name, _ in parts_of(w.task, "train")],
    output:
        "results/tasks/{task}/solutions.jsonl",
    log:
        "results/logs/write_solutions/{task}.log",
    container:
        IMAGE["training"]
    params:
        named=lambda w: settings.sampled_task(config["tasks"], w.task),  # the name in the problems' ids
        source=lambda w: as_json(settings.source_of_split(task_of(w.task), "train", with_solutions=True)),
        files=lambda w: [path for _, path in parts_of(w.task, "train")],
        grader=lambda w: task_of(w.task)["grader"],  # decides in which form a solution states the answer
    message:
        "Write the worked solutions of {wildcards.task}"
    shell:
        "python scripts/inputs/write_solutions.py --task {params.named} --source {params.source:q} --files {params.files:q}"
        " --grader {params.grader} --output {output} > {log} 2>&1"


rule fetch_model:
    output:
        "results/models/{model}/manifest.json",
    log:
        "results/logs/fetch_model/{model}.log",
    wildcard_constraints:
        model=any_of(FETCHED),
    container:
        IMAGE["training"]
    resources:
        lock_mode=UPDATE_INPUTS,
    params:
        source=lambda w: as_json(settings.entry(config, w.model)["source"]),
        data=lambda w: DATA if settings.entry(config, w.model)["source"]["kind"] == "folder" else ".",
    message:
        "Get model {wildcards.model}"
    shell:
        "python scripts/inputs/fetch_model.py --model {wildcards.model} --source {params.source:q} --data {params.data:q}"
        " --lock inputs.lock {resources.lock_mode} --output results/models/{wildcards.model} > {log} 2>&1"


rule pretrain_settings:
    output:
        "results/models/{model}.settings.json",
    log:
        "results/logs/pretrain_settings/{model}.log",
    wildcard_constraints:
        model=any_of(PRETRAINED),
    container:
        IMAGE["figures"]
    params:
        settings=lambda w: as_json(settings.pretraining(config, w.model)),
    message:
        "Write the pretraining settings of {wildcards.model}"
    shell:
        "python scripts/inputs/write_settings.py --settings {params.settings:q} --output {output} > {log} 2>&1"


rule pretrain_model:
    input:
        settings="results/models/{model}.settings.json",
        exclude=lambda w: [paths.problems(*split) for split in settings.withheld_splits(config, w.model)],
    output:
        "results/models/{model}/manifest.json",
    log:
        "results/logs/pretrain_model/{model}.log",
    wildcard_constraints:
        model=any_of(PRETRAINED),
    priority: 1  # all other jobs of this base model wait for it
    container:
        IMAGE["training"]
    resources:
        **for_gpus(lambda w: 0),
        mem_mb=2000,
        runtime=minutes("pretrain_model"),
    message:
        "Pretrain {wildcards.model} from scratch ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"
    shell:
        "python scripts/inputs/pretrain_model.py --model {wildcards.model} --settings {input.settings} --exclude {input.exclude}"
        " --output results/models/{wildcards.model} 2>> {log} | tee -a {log}"
