# Sample the base model on the pool, and measure the difficulty of each problem.


localrules:
    cut_probe,
    import_recording,
    import_trajectory,
    measure_difficulty,
    measure_signals,


rule probe:
    input:
        model=paths.MANIFEST,
        problems=inputs.pool,
    output:
        completions=paths.PROBE,
        provenance="results/provenance/probe/{model}/{task}/shard{shard}.json",
    log:
        "results/logs/probe/{model}/{task}/shard{shard}.log",
    wildcard_constraints:
        model=any_of(names.sampled),
        task=any_of(names.sampled_tasks),
    resources:
        **machine.for_sampling("probe"),
    params:
        sampling=arguments.sampling,
        prompt=arguments.prompt,
        tokens=arguments.completion_tokens,
        probe=arguments.probe,
        samples=arguments.probed_samples,
    message:
        "Probe {wildcards.model} on {wildcards.task}, shard {wildcards.shard}"
        " ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"
    shell:
        "python scripts/probe/probe.py --model results/models/{wildcards.model} --problems {input.problems} --prompt {params.prompt:q}"
        " {params.sampling} {resources.hardware}"
        " --samples {params.samples} --completion-tokens {params.tokens} --seed {params.probe[seed]}"
        " --shard {wildcards.shard} --shards {params.probe[shards]} --output {output.completions}"
        " --provenance {output.provenance} 2>> {log} | tee -a {log}"


# Sample only until the subset is decided. See `hardgrpo keys tasks.NAME.probe.stop`.
rule probe_early:
    input:
        model=paths.MANIFEST,
        problems=inputs.pool,
    output:
        completions=paths.STOPPED_PROBE,
        provenance="results/provenance/probe_early/{model}/{task}.json",
    log:
        "results/logs/probe_early/{model}/{task}.log",
    wildcard_constraints:
        model=any_of(names.stopped_probe[:1]),
        task=any_of(names.stopped_probe[1:]),
    resources:
        **machine.for_sampling("probe_early"),
    params:
        sampling=arguments.sampling,
        prompt=arguments.prompt,
        grader=arguments.grader,
        tokens=arguments.completion_tokens,
        probe=arguments.probe,
        stop=arguments.stop,
    message:
        "Probe {wildcards.model} on {wildcards.task} until the subset is decided"
        " ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"
    shell:
        "python scripts/probe/probe.py --model results/models/{wildcards.model} --problems {input.problems} --prompt {params.prompt:q}"
        " {params.sampling} {resources.hardware} --grader {params.grader}"
        " --samples {params.probe[samples]} --completion-tokens {params.tokens} --seed {params.probe[seed]} {params.stop}"
        " --output {output.completions} --provenance {output.provenance} 2>> {log} | tee -a {log}"


rule cut_probe:
    input:
        completions=inputs.longer_probe,
        model=paths.MANIFEST,
    output:
        paths.PROBE,
    log:
        "results/logs/cut_probe/{model}/{task}/shard{shard}.log",
    wildcard_constraints:
        model=any_of(names.sampled),
        task=any_of(names.tasks_with_cut_completions),
    params:
        tokens=arguments.completion_tokens,
        samples=arguments.fewer_samples,
    message:
        "Cut the probe of {wildcards.model}, shard {wildcards.shard}, at the limit of {wildcards.task}"
    shell:
        "python scripts/probe/cut_completions.py --model results/models/{wildcards.model} --completions {input.completions}"
        " --completion-tokens {params.tokens}{params.samples} --output {output} > {log} 2>&1"


rule import_recording:
    input:
        recording=inputs.recorded_probe,
        problems=paths.POOL_PROBLEMS,
    output:
        "results/probe/{model}/{task}/shard0.jsonl.gz",
    log:
        "results/logs/import_recording/{model}/{task}.log",
    wildcard_constraints:
        model=any_of(names.recorded),
    params:
        code=arguments.code("probe/import_recording.py"),
    message:
        "Import the recorded completions of {wildcards.model} on {wildcards.task}"
    shell:
        "python scripts/probe/import_recording.py --recording {input.recording:q} --problems {input.problems} --output {output} > {log} 2>&1"


rule measure_difficulty:
    input:
        completions=inputs.probe,
        problems=inputs.pool,
    output:
        paths.DIFFICULTY,
    log:
        "results/logs/measure_difficulty/{model}/{task}.log",
    wildcard_constraints:
        task=any_of(names.tasks),  # the prompts of a trajectory are no task
    params:
        grader=arguments.grader,
        samples=arguments.expected_samples,
        code=arguments.recording_code,
    message:
        "Measure the difficulty of {wildcards.task} for {wildcards.model}"
    shell:
        "python scripts/probe/measure_difficulty.py --problems {input.problems} --completions {input.completions}"
        " --grader {params.grader} {params.samples} --output {output} > {log} 2>&1"


# Policies whose key `by` names another measure than the pass rate choose by these signals, which are
# computed without reference answers.
rule measure_signals:
    input:
        completions=inputs.probe,
        questions=inputs.pool_questions,
    output:
        paths.SIGNALS,
    log:
        "results/logs/measure_signals/{model}/{task}.log",
    params:
        grader=arguments.grader,
        samples=arguments.expected_samples,
    message:
        "Measure label-free signals of {wildcards.task} for {wildcards.model}"
    shell:
        "python scripts/probe/measure_signals.py --questions {input.questions} --completions {input.completions}"
        " --grader {params.grader} {params.samples} --output {output} > {log} 2>&1"


rule import_trajectory:
    input:
        inputs.recorded_trajectory,
    output:
        difficulty=paths.DIFFICULTY,
        later=paths.TRAJECTORY,
    log:
        "results/logs/import_trajectory/{model}/{task}.log",
    wildcard_constraints:
        model=any_of(names.trajectories),
        task=any_of(names.trajectory_prompts),
    params:
        epochs=lambda w: project.models[w.model].source.chosen_from,
        code=arguments.code("probe/import_trajectory.py"),
    message:
        "Import the trajectory of {wildcards.model}"
    shell:
        "python scripts/probe/import_trajectory.py --trajectory {input:q} --chosen-from {params.epochs} --difficulty {output.difficulty}"
        " --later {output.later} > {log} 2>&1"
