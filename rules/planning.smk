# What a plan is told of this start of Snakemake.


def setting():
    """Where jobs run, as a plan reckons with it: `hardgrpo.planning.plans.Setting`."""
    resources, plan = workflow.resource_settings, config["plan"]
    cluster = resources.nodes is not None
    gpus = workflow.global_resources.get("gpu")
    return {
        "gpu": GPU,
        "gpus": plan["gpus"] if cluster or gpus is None else gpus.value,
        "slots": resources.nodes if cluster else resources.cores,
        "cluster": cluster,
    }


if facts_file := os.getenv("HARDGRPO_PLAN_FACTS"):  # set by scripts/plan/plan.py, which asks for this dry-run
    Path(facts_file).write_text(json.dumps({"config": config, "setting": setting()}))


def plan_arguments():
    """What scripts/plan/plan.py must be told to plan what this Snakemake would run, where it would run it."""
    given = workflow.config_settings
    words = ["--profile", "laptop", "--setting", json.dumps(setting())]
    for name in given.configfiles:
        words += ["--configfile", str(name)]
    if given.config_args:
        words += ["--config", *given.config_args]
    return shlex.join(words)
