# Sample the base model on the pool, and measure the difficulty of each problem.


localrules:
    cut_probe,
    import_recording,
    import_trajectory,
    measure_difficulty,
    measure_difficulty_with_prompt,
    measure_signals,


rule probe:
    input:
        model="results/models/{model}/manifest.json",
        problems=pool,
    output:
        completions="results/probe/{model}/{task}/shard{shard}.jsonl.gz",
        provenance="results/provenance/probe/{model}/{task}/shard{shard}.json",
    log:
        "results/logs/probe/{model}/{task}/shard{shard}.log",
    wildcard_constraints:
        model=any_of(WEIGHTED),
        task=any_of(SAMPLED),
    container:
        IMAGE["training"]
    resources:
        **for_sampling("probe"),
    params:
        sampling=sampling_params,
        prompt=lambda w: task_of(w.task)["prompt"],
        tokens=lambda w: task_of(w.task)["completion_tokens"],
        probe=lambda w: settings.sorted_slice(task_of(w.task)["probe"]),
        samples=lambda w: settings.probe_samples(task_of(w.task)["probe"]),
    message:
        "Probe {wildcards.model} on {wildcards.task}, shard {wildcards.shard}"
        " ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"
    shell:
        "python scripts/probe/probe.py --model results/models/{wildcards.model} --problems {input.problems} --prompt {params.prompt:q}"
        " {params.sampling} {resources.hardware}"
        " --samples {params.samples} --completion-tokens {params.tokens} --seed {params.probe[seed]}"
        " --shard {wildcards.shard} --shards {params.probe[shards]} --output {output.completions}"
        " --provenance {output.provenance} 2>> {log} | tee -a {log}"


# Sample only until one subset is decided: see `probe.stop` in docs/configuration.md.
rule probe_early:
    input:
        model="results/models/{model}/manifest.json",
        problems=pool,
    output:
        completions="results/probe/{model}/{task}/stopped.jsonl.gz",
        provenance="results/provenance/probe_early/{model}/{task}.json",
    log:
        "results/logs/probe_early/{model}/{task}.log",
    wildcard_constraints:
        model=any_of(STOPPED[:1]),
        task=any_of(STOPPED[1:]),
    container:
        IMAGE["training"]
    resources:
        **for_sampling("probe_early"),
    params:
        sampling=sampling_params,
        prompt=lambda w: task_of(w.task)["prompt"],
        grader=lambda w: task_of(w.task)["grader"],
        tokens=lambda w: task_of(w.task)["completion_tokens"],
        probe=lambda w: settings.sorted_slice(task_of(w.task)["probe"]),
        stop=stop_arguments,
    message:
        "Probe {wildcards.model} on {wildcards.task} until the subset is decided"
        " ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"
    shell:
        "python scripts/probe/probe_early.py --model results/models/{wildcards.model} --problems {input.problems} --prompt {params.prompt:q}"
        " {params.sampling} {resources.hardware} --grader {params.grader}"
        " --samples {params.probe[samples]} --completion-tokens {params.tokens} --seed {params.probe[seed]} {params.stop}"
        " --output {output.completions} --provenance {output.provenance} 2>> {log} | tee -a {log}"


rule cut_probe:
    input:
        completions=lambda w: paths.probe(w.model, task_of(w.task)["cut_from"], w.shard),
        model="results/models/{model}/manifest.json",
    output:
        "results/probe/{model}/{task}/shard{shard}.jsonl.gz",
    log:
        "results/logs/cut_probe/{model}/{task}/shard{shard}.log",
    wildcard_constraints:
        model=any_of(WEIGHTED),
        task=any_of(CUT),
    container:
        IMAGE["training"]
    params:
        tokens=lambda w: task_of(w.task)["completion_tokens"],
        samples=fewer_samples,
    message:
        "Cut the probe of {wildcards.model}, shard {wildcards.shard}, at the limit of {wildcards.task}"
    shell:
        "python scripts/probe/cut_completions.py --model results/models/{wildcards.model} --completions {input.completions}"
        " --completion-tokens {params.tokens}{params.samples} --output {output} > {log} 2>&1"


rule import_recording:
    input:
        recording=lambda w: f"{DATA}/{recording(w.model, w.task)['probe']}",
        problems="results/tasks/{task}/train.jsonl",
    output:
        "results/probe/{model}/{task}/shard0.jsonl.gz",
    log:
        "results/logs/import_recording/{model}/{task}.log",
    wildcard_constraints:
        model=any_of(RECORDED),
    container:
        IMAGE["training"]
    params:
        code=code("probe/import_recording.py"),
    message:
        "Import the recorded completions of {wildcards.model} on {wildcards.task}"
    shell:
        "python scripts/probe/import_recording.py --recording {input.recording:q} --problems {input.problems} --output {output} > {log} 2>&1"


rule measure_difficulty:
    input:
        completions=probe_files,
        problems=pool,
    output:
        "results/difficulty/{model}/{task}.csv",
    log:
        "results/logs/measure_difficulty/{model}/{task}.log",
    wildcard_constraints:
        task=any_of(config["tasks"]),
    container:
        IMAGE["training"]
    params:
        grader=lambda w: task_of(w.task)["grader"],
        samples=expected_samples,
        # Only for recordings does changed code rerun this job: for other models every training would follow.
        code=lambda w: code("probe/measure_difficulty.py") if w.model in RECORDED else "",
    message:
        "Measure the difficulty of {wildcards.task} for {wildcards.model}"
    shell:
        "python scripts/probe/measure_difficulty.py --problems {input.problems} --completions {input.completions}"
        " --grader {params.grader} {params.samples} --output {output} > {log} 2>&1"


use rule measure_difficulty as measure_difficulty_with_prompt with:
    output:
        "results/difficulty/{model}/{task}.with_prompt.csv",
    log:
        "results/logs/measure_difficulty/{model}/{task}.with_prompt.log",
    wildcard_constraints:
        model=any_of(RECORDED),
        task=any_of(config["tasks"]),
    params:
        samples="--recorded --grade-prompt-too",
    message:
        "Grade {wildcards.model} on {wildcards.task} like the released code: prompt and completion together"


# Policies without labels choose by these signals, and by no file that was made with a reference answer.
rule measure_signals:
    input:
        completions=probe_files,
        questions=pool_questions,
    output:
        "results/signals/{model}/{task}.csv",
    log:
        "results/logs/measure_signals/{model}/{task}.log",
    container:
        IMAGE["training"]
    params:
        grader=lambda w: task_of(w.task)["grader"],
        samples=expected_samples,
    message:
        "Measure label-free signals of {wildcards.task} for {wildcards.model}"
    shell:
        "python scripts/probe/measure_signals.py --questions {input.questions} --completions {input.completions}"
        " --grader {params.grader} {params.samples} --output {output} > {log} 2>&1"


rule import_trajectory:
    input:
        lambda w: f"{DATA}/{TRAJECTORIES[w.model]['file']}",
    output:
        difficulty="results/difficulty/{model}/{task}.csv",
        later="results/trajectories/{model}/{task}.csv",
    log:
        "results/logs/import_trajectory/{model}/{task}.log",
    wildcard_constraints:
        model=any_of(TRAJECTORIES),
        task=any_of(source["prompts"] for source in TRAJECTORIES.values()),
    container:
        IMAGE["training"]
    params:
        epochs=lambda w: TRAJECTORIES[w.model]["chosen_from"],
        code=code("probe/import_trajectory.py"),
    message:
        "Import the trajectory of {wildcards.model}"
    shell:
        "python scripts/probe/import_trajectory.py --trajectory {input:q} --chosen-from {params.epochs} --difficulty {output.difficulty}"
        " --later {output.later} > {log} 2>&1"
