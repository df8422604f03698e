# Train models by GRPO or SFT. The training program is not an input, so a change of the program does
# not retrain a run.


localrules:
    write_spec,


rule write_spec:
    output:
        f"{paths.RUN_FOLDER}/spec.yaml",
    log:
        f"results/logs/write_spec/{paths.RUN}.log",
    container:
        IMAGE["figures"]
    params:
        run=arguments.spec,
    message:
        "Write the specification of run {wildcards.model}/{wildcards.task}/{wildcards.recipe}/{wildcards.policy}/seed{wildcards.seed}"
    shell:
        "python scripts/training/write_spec.py --run {params.run:q} --output {output} > {log} 2>&1"


rule train_grpo:
    input:
        spec=f"{paths.RUN_FOLDER}/spec.yaml",
        model=paths.MANIFEST,
        problems=inputs.training_problems,
        subset=inputs.training_subset,
        extras=inputs.training_extras,
    output:
        checkpoints=f"{paths.RUN_FOLDER}/checkpoints/manifest.json",
        updates=f"{paths.RUN_FOLDER}/updates.csv",
        timing=f"{paths.RUN_FOLDER}/timing.csv",
        provenance=f"{paths.RUN_FOLDER}/provenance.json",
    log:
        f"results/logs/train_grpo/{paths.RUN}.log",
    resources:
        **machine.for_training(),
        track=config["track"],
    params:
        folder=lambda w, output: os.path.dirname(output.updates),
    message:
        "Train {wildcards.model} on {wildcards.policy} prompts of {wildcards.task} by {wildcards.recipe}, seed {wildcards.seed}"
        " ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"
    shell:
        # Slurm also sends SIGTERM to this shell. Without the trap, the shell and the job would end
        # before the state is saved.
        "trap : TERM;"
        " python scripts/training/train_grpo.py --spec {input.spec} --output {params.folder}"
        " {resources.hardware} --track {resources.track} --keep-finished 2>> {log} | (trap '' TERM; exec tee -a {log})"
