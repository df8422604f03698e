# Training runs, by GRPO or SFT. The training program is not an input: only a changed specification or changed data retrain a run.

TRAINING = ("train_grpo", "train_first_round")


localrules:
    write_spec,


rule write_spec:
    output:
        f"results/training/{paths.RUN}/spec.yaml",
    log:
        f"results/logs/write_spec/{paths.RUN}.log",
    container:
        IMAGE["figures"]
    params:
        run=lambda w: as_json(Spec.from_study(config, run_of(w)).fields()),
    message:
        "Specify run {wildcards.model}/{wildcards.task}/{wildcards.recipe}/{wildcards.policy}/seed{wildcards.seed}"
    shell:
        "python scripts/training/write_spec.py --run {params.run:q} --output {output} > {log} 2>&1"


rule train_grpo:
    input:
        spec=f"results/training/{paths.RUN}/spec.yaml",
        model="results/models/{model}/manifest.json",
        problems=lambda w: paths.training_problems(config["tasks"], w.task),
        subset=lambda w: paths.subset_of_run(run_of(w), config["policies"][w.policy]),
        more=lambda w: more_of_run(w),
    output:
        checkpoints=f"results/training/{paths.RUN}/checkpoints/manifest.json",
        updates=f"results/training/{paths.RUN}/updates.csv",
        timing=f"results/training/{paths.RUN}/timing.csv",
        provenance=f"results/training/{paths.RUN}/provenance.json",
    log:
        f"results/logs/train_grpo/{paths.RUN}.log",
    container:
        IMAGE["training"]
    resources:
        **for_gpus(training_gpus),
        gpu_gib=training_gpu_memory,
        mem_mb=training_memory,
        runtime=minutes("train_grpo"),
        slurm_extra=training_warning,
        hardware=training_hardware,
        track=config["track"],
    params:
        folder=lambda w, output: os.path.dirname(output.updates),
    message:
        "Train {wildcards.model} on {wildcards.policy} prompts of {wildcards.task} by {wildcards.recipe}, seed {wildcards.seed}"
        " ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"
    shell:
        # Slurm sends SIGTERM to this shell, too. Without the trap the shell and the job would end before the state is saved.
        "trap : TERM;"
        " python scripts/training/train_grpo.py --spec {input.spec} --output {params.folder}"
        " {resources.hardware} --track {resources.track} --take-over --keep-finished 2>> {log} | (trap '' TERM; exec tee -a {log})"
