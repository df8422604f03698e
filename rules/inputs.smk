# Problems and models.


localrules:
    prepare_task,
    pretrain_settings,


rule prepare_task:
    input:
        lambda w: [f"{DATA}/{path}" for path in [task_of(w.task)["source"].get(w.split)] if isinstance(path, str)],
    output:
        "results/tasks/{task}/{split}.jsonl",
    log:
        "results/logs/prepare_task/{task}.{split}.log",
    params:
        source=lambda w: as_json(settings.source_of_split(task_of(w.task), w.split)),
        data=lambda w: DATA if task_of(w.task)["source"]["kind"] == "files" else ".",
    shell:
        "python scripts/prepare_task.py --task {wildcards.task} --split {wildcards.split} --source {params.source:q}"
        " --data {params.data:q} --output {output} > {log} 2>&1"


rule pretrain_settings:
    output:
        "results/models/{model}.settings.json",
    log:
        "results/logs/pretrain_settings/{model}.log",
    wildcard_constraints:
        model=any_of(TRAINED),
    params:
        settings=lambda w: as_json(settings.pretraining(config, w.model)),
    message:
        "Write down how {wildcards.model} is pretrained"
    shell:
        "printf '%s\\n' {params.settings:q} > {output} 2> {log}"


rule pretrain_model:
    input:
        settings="results/models/{model}.settings.json",
        exclude=lambda w: [f"results/tasks/{task}/{split}.jsonl" for task, split in settings.never_shown(config, w.model)],
    output:
        "results/models/{model}/manifest.json",
    log:
        "results/logs/pretrain_model/{model}.log",
    wildcard_constraints:
        model=any_of(TRAINED),
    threads: 2
    resources:
        mem_mb=2000,
        runtime=30,
    message:
        "Pretrain {wildcards.model} from scratch"
    shell:
        "python scripts/pretrain_model.py --model {wildcards.model} --settings {input.settings} --exclude {input.exclude}"
        " --output results/models/{wildcards.model} 2>> {log} | tee -a {log}"
