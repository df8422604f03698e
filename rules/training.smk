# Training runs, by GRPO or SFT. The training program is not an input: only a changed specification or changed data retrain a run.

TRAINING = ("train_grpo", "train_first_round")


localrules:
    write_spec,


rule write_spec:
    output:
        "results/training/{model}/{task}/{recipe}/{policy}/seed{seed}/spec.yaml",
    log:
        "results/logs/write_spec/{model}/{task}/{recipe}/{policy}/seed{seed}.log",
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
        spec="results/training/{model}/{task}/{recipe}/{policy}/seed{seed}/spec.yaml",
        model="results/models/{model}/manifest.json",
        problems=lambda w: paths.trained_on(config, w.task),
        subset=lambda w: paths.subset_of_run(config, run_of(w)),
        more=lambda w: more_of_run(w),
    output:
        checkpoints="results/training/{model}/{task}/{recipe}/{policy}/seed{seed}/checkpoints/manifest.json",
        updates="results/training/{model}/{task}/{recipe}/{policy}/seed{seed}/updates.csv",
        timing="results/training/{model}/{task}/{recipe}/{policy}/seed{seed}/timing.csv",
        provenance="results/training/{model}/{task}/{recipe}/{policy}/seed{seed}/provenance.json",
    log:
        "results/logs/train_grpo/{model}/{task}/{recipe}/{policy}/seed{seed}.log",
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
