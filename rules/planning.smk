# Tell scripts/plan/plan.py the configuration and resources of this call of Snakemake.


def setting():
    """Where jobs run: the fields of `hardgrpo.planning.plans.Setting`."""
    resources, plan = workflow.resource_settings, config["plan"]
    cluster = resources.nodes is not None
    gpus = workflow.global_resources.get("gpu")
    return {
        "gpu": GPU,
        "gpus": plan["gpus"] if cluster or gpus is None else gpus.value,
        "slots": resources.nodes if cluster else resources.cores,
        "cluster": cluster,
    }


if facts_file := os.getenv("HARDGRPO_PLAN_FACTS"):  # set by scripts/plan/plan.py when it starts this dry-run
    Path(facts_file).write_text(json.dumps({"config": config, "setting": setting()}))


def plan_arguments():
    """Arguments of scripts/plan/plan.py, to plan the jobs that this call of Snakemake would run, where it would run them."""
    given = workflow.config_settings
    words = ["--profile", "laptop", "--setting", json.dumps(setting())]
    for name in given.configfiles:
        words += ["--configfile", str(name)]
    if given.config_args:
        words += ["--config", *given.config_args]
    return shlex.join(words)
