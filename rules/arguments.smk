# Inputs and arguments of the rules that probe, train and evaluate.

IN_ROUNDS = [name for name, policy in config["policies"].items() if settings.has_rounds(policy)]


def pool(w):
    """The problems that a model is probed on."""
    return pools.problems(config, w.model, w.task)


def pool_questions(w):
    return pools.questions(config, w.model, w.task)


def test_problems(w):
    """The problems that a model is tested on."""
    return pools.problems(config, w.model, w.eval_task, "test")


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


def fewer_samples(w):
    """Arguments that cut a probe to the task's number of samples, if the task that it is cut from has more."""
    kept, of = (task_of(name)["probe"]["samples"] for name in (w.task, task_of(w.task)["cut_from"]))
    return "" if kept == of else f" --samples {kept} --of {of}"


def stop_arguments(w):
    """Arguments of a probe that stops as soon as the subset of `snakemake subset` is decided."""
    chosen, stop = config["subset"], task_of(w.task)["probe"]["stop"]
    policy = asked_of(chosen["policy"])
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


def run_of(w):
    return settings.run_of_path(w.model, w.task, w.recipe, w.policy, w.seed)


def more_of_run(w):
    """Further inputs of a training: worked solutions, unchosen questions, and for a second round the checkpoint to start from."""
    more = list(paths.more_inputs(w.task, config["recipes"][w.recipe]).values())
    return more + ([paths.first_round(run_of(w), "checkpoints/manifest.json")] if w.policy in IN_ROUNDS else [])


def run_evaluations(w):
    """The evaluations of a run in the configured study. Pruning waits for them."""
    run = run_of(w)
    if run not in configured_runs():
        return [f"config.yaml: studies.{config['study']} has no run {run.path}"]  # Snakemake reports this as a missing file
    return paths.evaluations_of_run(config, config["study"], run)


def probe_of(w):
    """(base, task) whose probe decides a subset."""
    policy = config["policies"][w.policy]
    return settings.probing_base(config, settings.model_of(w.model), policy, int(w.seed)), policy.get("probed_on", w.task)


def pass_rates_for(w):
    return paths.difficulty(*probe_of(w))


def chosen_by(w):
    """The files that a policy chooses by: pass rates, or signals, with the labelled sample where it predicts pass rates."""
    policy = config["policies"][w.policy]
    made = os.path.exists(paths.subset(w.model, w.task, w.policy, w.seed))  # Snakemake keeps an output whose inputs are missing
    if not made and (problem := too_small(w.policy, w.task)):
        return {"pool": problem}
    if policy.get("by", "pass_rate") == "pass_rate":
        if w.task not in config["tasks"] or settings.is_labelled(task_of(w.task)):  # the prompts of a trajectory are not a task
            return {"difficulty": pass_rates_for(w)}
        found = {"questions": paths.questions(w.task)}  # enough for rules that use no pass rates
        return found | ({"annotated": paths.annotated_problems(w.task)} if policy["rule"] == "annotated" else {})
    found = {"signals": paths.signals(*probe_of(w))}
    if policy["by"] == "predicted":
        found["sample"] = paths.subset(w.model, w.task, w.policy, w.seed, "sample.csv")
    return found


@functools.cache
def too_small(policy, task):
    """A path that does not exist and says why a pool is too small for a policy, so that Snakemake reports it; else None."""
    if task not in config["tasks"] or not workflow.is_main_process:  # the prompts of a trajectory are not a task
        return None
    problem = pool_sizes.too_small(config, policy, task)
    return problem and f"{', '.join(map(os.path.relpath, workflow.configfiles))}: {problem}"


def choosing_policies(w):
    """The argument that names the policies which choose from a task's pool."""
    policies_of_task = pool_sizes.choosing_policies(config, w.task, workflow.dag_settings.targets) if w.split == "train" else {}
    return f"--policies {shlex.quote(as_json(policies_of_task))}" if policies_of_task else ""


def check_pools(jobs):
    """Stop before anything is sampled if a pool that was prepared before is too small for a subset that is to be chosen."""
    jobs = list(jobs)
    preparing = {job.wildcards.task for job in jobs if job.rule.name == "prepare_task"}
    choosing = [job.wildcards for job in jobs if job.rule.name == "select_subset" and job.wildcards.task in config["tasks"]]
    try:
        pool_sizes.check_prepared(config, [(w.policy, w.task) for w in choosing if w.task not in preparing])
    except UserError as error:
        raise WorkflowError(str(error))


def asked_of(policy):
    """The part of a policy that the programs of scripts/subsets read. With `rounds`, the budget is that of round one."""
    asked = {key: value for key, value in config["policies"][policy].items() if key not in ("probed_on", "probed_by", "rounds")}
    return asked | ({"budget": policies.halved(asked["budget"])} if settings.has_rounds(config["policies"][policy]) else {})


def annotation_column(w):
    """The argument that adds an empty column for the answer, named as the pool's file would name it."""
    if w.what == "rows":
        return ""
    return f"--to-annotate {shlex.quote(settings.answer_column(task_of(w.task)))}"
