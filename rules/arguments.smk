# Inputs and arguments of the rules that probe and evaluate.


def probe_files(w):
    if (w.model, w.task) == STOPPED:
        return paths.stopped_probe(w.model, w.task)
    shards = 1 if w.model in RECORDED else task_of(w.task)["probe"]["shards"]
    return [paths.probe(w.model, w.task, shard) for shard in range(shards)]


def expected_samples(w):
    if w.model in RECORDED:
        return "--recorded"
    probe = task_of(w.task)["probe"]
    held_out = f" --held-out {probe['held_out']}" if "held_out" in probe else ""
    stopped = f" --stopped {probe['stop']['confidence']}" if (w.model, w.task) == STOPPED else ""
    return f"--samples {probe['samples']}{held_out}{stopped}"


def stop_arguments(w):
    """Arguments of a probe that stops as soon as the subset of `snakemake subset` is decided."""
    chosen, stop = config["subset"], task_of(w.task)["probe"]["stop"]
    policy = {key: value for key, value in config["policies"][chosen["policy"]].items() if key != "probed_on"}
    batch = f" --batch {stop['batch']}" if "batch" in stop else ""
    return f"--stop-for {shlex.quote(as_json([policy | {'seed': chosen['seed']}]))} --confidence {stop['confidence']}{batch}"


def evaluation_params(w):
    task = task_of(w.eval_task)
    greedy = " --greedy" if task["test"]["greedy"] else ""
    return (
        f"--samples {task['test']['samples']}{greedy} --seed {task['test']['seed']} --completion-tokens {task['completion_tokens']}"
    )


def reach_params(w):
    task = task_of(w.eval_task)
    reach = task["test"]["reach"]
    return f"--samples {reach['samples']} --seed {reach['seed']} --completion-tokens {task['completion_tokens']}"


def run_recordings(w):
    return recorded_steps(recording(w.model, w.task)["runs"][w.policy])


@functools.cache
def configured_runs():
    """The runs of the configured study. A set, because each pruning job looks its run up."""
    return frozenset(paths.runs(config, config["study"]))


def run_evaluations(w):
    """The evaluations of a run in the configured study. Pruning waits for them."""
    run = settings.run_from(w.model, w.task, w.recipe, w.policy, w.seed)
    if run not in configured_runs():
        return [f"config.yaml: studies.{config['study']} has no run {run.path}"]  # Snakemake reports this as a missing file
    return paths.evaluations_of_run(config, config["study"], run)
