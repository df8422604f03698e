# Resources that jobs request: GPUs, memory, time, and the partition and account that the profile names.

SITE = [
    "slurm_account",
    "slurm_partition",
    "slurm_extra",
    "gpu_partition",
    "gpu_name",
    "constraint",
    "gpu_constraint",
    "longest_runtime",
]


def read_site():
    """The cluster's entries in the profile's default-resources, as text.

    Snakemake evaluates these entries as Python, and a partition may be called `open` or `all`. Quoted here, they stay text, also
    for the Snakemake that runs inside each job.
    """
    found = {}
    defaults = workflow.resource_settings.default_resources or {}
    for name in set(defaults) & set(SITE):
        entry = defaults[name]
        found[name] = str(entry.value if entry.raw is None else entry.raw).strip("'\"")
        defaults[name] = Resource(name, found[name], raw=repr(found[name]))
    if not re.fullmatch("[1-9][0-9]*", found.get("longest_runtime", "1")):
        raise WorkflowError(
            f"profile: default-resources: longest_runtime: '{found['longest_runtime']}' is not a number of minutes; write e.g. 1440"
        )
    return found


CLUSTER = read_site()
# The kind of GPU that walltimes and plans assume.
GPU = durations.gpu_kind(CLUSTER.get("gpu_name", "")) or config["plan"]["gpu"]


submission.start_without_arrays()
submission.allow_dashes_in_gpu_names()


def capped(minutes):
    """A runtime that the cluster allows. A training that needs longer is resumed in its next attempt."""
    return min(minutes, int(CLUSTER.get("longest_runtime", minutes)))


def for_gpus(count):
    """Resources of jobs that may use GPUs: number, kind and partition. `count` takes the wildcards and returns the number.

    A resource that is None is not set. Without GPUs gpu_model must not be set: it would request zero GPUs of that kind.
    """

    def on(gpu_entry, other_entry=None):
        return lambda w: (CLUSTER.get(gpu_entry) if count(w) else None) or CLUSTER.get(other_entry)

    return {
        "gpu": count,
        "gpu_model": on("gpu_name"),
        "cpus_per_task": lambda w: 4 * count(w) or None,
        "slurm_partition": on("gpu_partition", "slurm_partition"),
        "constraint": on("gpu_constraint", "constraint"),
        "place": lambda w: place(count(w)),
    }


def place(count):
    """A job's GPUs and partition, in words for its message."""
    gpus = f"{count} {CLUSTER.get('gpu_name', 'GPU')}" if count else "no GPU"
    partition = CLUSTER.get("gpu_partition" if count else "slurm_partition") or CLUSTER.get("slurm_partition")
    return gpus + (f" in partition {partition}" if partition else "")


def check_cluster(jobs):
    """Stop before anything is submitted if the cluster cannot run one of the jobs. Otherwise choose how to learn the states of jobs, and
    let jobs wait that Slurm does not take at once."""
    requests = [request_of(job) for job in jobs if not job.is_local] if workflow.executor_plugin.name == "slurm" else []
    if not requests:
        return
    entries = workflow.executor_settings
    seconds = entries.init_seconds_before_status_checks
    try:
        cluster.check(requests, workflow.resource_settings.nodes)
        command = cluster.status_command(entries.status_command, seconds)
    except UserError as error:
        raise WorkflowError(str(error))
    if command != entries.status_command:
        logger.info(f"The states of jobs come from {command}, because {entries.status_command} does not answer.")
        entries.status_command = command
    submission.SubmissionRetrier(workflow.scheduler._executor, seconds)


def request_of(job):
    wants = job.resources.get
    return cluster.Request(
        job.rule.name,
        wants("slurm_partition"),
        wants("gpu") or 0,
        wants("gpu_model"),
        wants("mem_mb") or 0,
        wants("cpus_per_task") or job.threads,
        wants("runtime") or 0,
        wants("constraint"),
        wants("slurm_account"),
        wants("qos") or workflow.executor_settings.qos,
        wants("slurm_extra"),
    )


def asked_gpus(count):
    """Arguments that tell a program which GPUs its job requested. The program checks first that it has them."""
    kind = CLUSTER.get("gpu_name")
    return f"--gpus {count}" + (f" --gpu-name {shlex.quote(kind)}" if count and kind else "")


def minutes(rule):
    """The walltime of a rule's jobs, as a resource: the estimate of the cost model with a margin, and more on each attempt."""

    def asked(w, attempt):
        job = durations.Job.of(rule, dict(w.items()))
        try:
            return capped(durations.walltime(config, job, GPU, attempt, calibrated()))
        except UserError as error:
            raise WorkflowError(str(error))

    return asked


@functools.cache
def calibrated():
    try:
        return calibration.read()
    except UserError as error:
        raise WorkflowError(str(error))


def sampling_gpus(w):
    return settings.gpus(config, w.model, "sampling")["count"]


def sampling_memory(w):
    """Main memory of a sampling job in MB."""
    return 64000 * sampling_gpus(w) or (2000 if w.model in PRETRAINED else 6000)


def for_sampling(rule):
    """Resources of a rule that samples completions."""
    hardware = lambda w: asked_gpus(sampling_gpus(w))
    return for_gpus(sampling_gpus) | {"mem_mb": sampling_memory, "runtime": minutes(rule), "hardware": hardware}


def sampling_params(w):
    """Arguments of a program that samples: the engine, and the arguments of the model's chat template."""
    return f"--engine {settings.engine(config, w.model)} --chat {shlex.quote(as_json(settings.chat(config, w.model)))}"


def training_entry(w):
    return settings.training_gpus(config, w.model, w.recipe)


def training_gpus(w):
    return training_entry(w)["count"]


def training_gpu_memory(w):
    """GiB that a run is estimated to need on each GPU; 0 on a CPU."""
    return math.ceil(memory.run_memory(config, w.model, w.recipe, w.task)["total"]) if training_gpus(w) else 0


def training_warning(w, attempt):
    """Slurm's option to send SIGTERM before the time limit, early enough to finish the current update and save its state."""
    seconds = min(600, 15 * minutes("train_grpo")(w, attempt))
    return " ".join(filter(None, [CLUSTER.get("slurm_extra"), f"--signal=TERM@{seconds}"]))


def training_memory(w):
    """Main memory of a training job in MB."""
    count = training_gpus(w)
    if not count:
        return 2000 if w.model in PRETRAINED else 6000
    return math.ceil(1100 * count * memory.main_memory(settings.entry(config, w.model)["shape"], config["recipes"][w.recipe]))


def training_hardware(w):
    """Arguments about the machine. They affect how a run is computed, not which run it is: as a resource they cause no rerun."""
    gpus = training_entry(w)
    asked = asked_gpus(gpus["count"])
    if not gpus["count"]:
        return asked
    sleep = " --vllm-sleep" if gpus["vllm_sleep"] else ""
    return (
        f"{asked} --micro-batch {gpus['micro_batch']} --vllm-memory {gpus['vllm_memory']}{sleep} --gpu-gib {training_gpu_memory(w)}"
    )
