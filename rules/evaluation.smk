# Evaluate base models and checkpoints on test splits. Every completion is graded and kept.


localrules:
    cut_evaluation,
    grade_recorded_base,
    grade_recorded_run,
    prune_checkpoints,


rule evaluate_base:
    input:
        model="results/models/{model}/manifest.json",
        problems=inputs.test_problems,
    output:
        graded="results/evaluation/{model}/base/{eval_task}.csv.gz",
        completions="results/evaluation/{model}/base/{eval_task}.jsonl.gz",
        provenance="results/provenance/evaluation/{model}/base/{eval_task}.json",
    log:
        "results/logs/evaluate_base/{model}/{eval_task}.log",
    wildcard_constraints:
        model=any_of(names.sampled),
        eval_task=any_of(names.sampled_tasks),
    resources:
        **machine.for_sampling("evaluate_base"),
    params:
        checkpoints="",
        sampling=arguments.sampling,
        prompt=arguments.prompt,
        grader=arguments.grader,
        conditions=arguments.test,
    message:
        "Evaluate base model {wildcards.model} on {wildcards.eval_task}"
        " ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"
    shell:
        "python scripts/evaluation/evaluate.py --model results/models/{wildcards.model} {params.checkpoints} {params.sampling}"
        " {resources.hardware} --problems {input.problems}"
        " --prompt {params.prompt:q} --grader {params.grader} {params.conditions}"
        " --output {output.graded} --completions {output.completions} --provenance {output.provenance} 2>> {log} | tee -a {log}"


# Sample the base model more often, to find the problems within its reach:
# `hardgrpo keys tasks.NAME.test.reach`.
use rule evaluate_base as sample_reach with:
    output:
        graded="results/evaluation/{model}/reach/{eval_task}.csv.gz",
        completions="results/evaluation/{model}/reach/{eval_task}.jsonl.gz",
        provenance="results/provenance/evaluation/{model}/reach/{eval_task}.json",
    log:
        "results/logs/sample_reach/{model}/{eval_task}.log",
    resources:
        **machine.for_sampling("sample_reach"),
    params:
        conditions=arguments.reach,
    message:
        "Find the problems of {wildcards.eval_task} within reach of {wildcards.model}"
        " ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"


use rule evaluate_base as evaluate_run with:
    input:
        model="results/models/{model}/manifest.json",
        checkpoints=f"{paths.RUN_FOLDER}/checkpoints/manifest.json",
        problems=inputs.test_problems,
    output:
        graded=f"results/evaluation/{paths.RUN}/{{eval_task}}.csv.gz",
        completions=f"results/evaluation/{paths.RUN}/{{eval_task}}.jsonl.gz",
        provenance=f"results/provenance/evaluation/{paths.RUN}/{{eval_task}}.json",
    log:
        f"results/logs/evaluate_run/{paths.RUN}/{{eval_task}}.log",
    resources:
        **machine.for_sampling("evaluate_run"),
    params:
        checkpoints=arguments.checkpoints,
    message:
        "Evaluate the checkpoints of {wildcards.model}/{wildcards.task}/{wildcards.policy}/seed{wildcards.seed} by {wildcards.recipe}"
        " on {wildcards.eval_task}"
        " ({resources.place}, {resources.mem_mb} MB, up to {resources.runtime} min)"


rule cut_evaluation:
    input:
        graded=inputs.longer_grades,
        completions=inputs.longer_completions,
        model="results/models/{model}/manifest.json",
        problems="results/tasks/{eval_task}/test.jsonl",
    output:
        graded="results/evaluation/{model}/{run}/{eval_task}.csv.gz",
        completions="results/evaluation/{model}/{run}/{eval_task}.jsonl.gz",
    log:
        "results/logs/cut_evaluation/{model}/{run}/{eval_task}.log",
    wildcard_constraints:
        model=any_of(names.sampled),
        run=r"base|reach|.+/seed\d+",
        eval_task=any_of(names.tasks_with_cut_completions),
    params:
        tokens=arguments.completion_tokens,
        grader=arguments.grader,
    message:
        "Cut the completions of {wildcards.model}/{wildcards.run} at the limit of {wildcards.eval_task} and grade them"
    shell:
        "python scripts/probe/cut_completions.py --model results/models/{wildcards.model} --completions {input.completions}"
        " --graded {input.graded} --problems {input.problems} --grader {params.grader} --completion-tokens {params.tokens}"
        " --output {output.completions} --output-graded {output.graded} > {log} 2>&1"


rule prune_checkpoints:
    input:
        checkpoints=f"{paths.RUN_FOLDER}/checkpoints/manifest.json",
        evaluations=inputs.run_evaluations,
    output:
        f"{paths.RUN_FOLDER}/pruned.json",
    log:
        f"results/logs/prune_checkpoints/{paths.RUN}.log",
    container:
        IMAGE["figures"]
    params:
        folder=lambda w, input: os.path.dirname(input.checkpoints),
    message:
        "Remove the weights of all checkpoints except the last of {wildcards.model}/{wildcards.task}/{wildcards.policy}/seed{wildcards.seed}"
        " by {wildcards.recipe}"
    shell:
        "python scripts/evaluation/prune_checkpoints.py --checkpoints {params.folder} --output {output} > {log} 2>&1"


rule grade_recorded_base:
    input:
        recordings=inputs.recorded_base,
        problems="results/tasks/{eval_task}/test.jsonl",
    output:
        graded="results/evaluation/{model}/base/{eval_task}.csv.gz",
        completions="results/evaluation/{model}/base/{eval_task}.jsonl.gz",
    log:
        "results/logs/grade_recording/{model}/base/{eval_task}.log",
    wildcard_constraints:
        model=any_of(names.recorded),
    params:
        steps=[0],
        grader=arguments.grader,
        code=arguments.code("evaluation/grade_recording.py"),
    message:
        "Grade the recorded completions of base model {wildcards.model} on {wildcards.eval_task}"
    shell:
        "python scripts/evaluation/grade_recording.py --problems {input.problems} --recordings {input.recordings:q} --steps {params.steps}"
        " --grader {params.grader} --output {output.graded} --completions {output.completions} > {log} 2>&1"


use rule grade_recorded_base as grade_recorded_run with:
    input:
        recordings=inputs.recorded_checkpoints,
        problems="results/tasks/{eval_task}/test.jsonl",
    output:
        graded="results/evaluation/{model}/{task}/recorded/{policy}/seed{seed}/{eval_task}.csv.gz",
        completions="results/evaluation/{model}/{task}/recorded/{policy}/seed{seed}/{eval_task}.jsonl.gz",
    log:
        "results/logs/grade_recording/{model}/{task}/{policy}/seed{seed}/{eval_task}.log",
    params:
        steps=lambda w: list(inputs.recorded_steps(w)),
    message:
        "Grade the recorded checkpoints of {wildcards.model} trained on {wildcards.policy} prompts"
