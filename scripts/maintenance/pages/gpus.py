"""The table of docs/gpus.md: the GPUs that each recipe needs for each model, from config.yaml and src/hardgrpo/study/memory.py."""

from hardgrpo.study import memory, settings

TASKS = ("gsm8k", "gsm8k_1024")  # 250 and 1,024 tokens


def table(config: dict) -> str:
    lines = [
        "| model | weights | recipe | GPUs | completions at once | vLLM | sleeps | GiB on each GPU, 250 tokens | 1,024 tokens |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows: dict[tuple[str, ...], list[str]] = {}  # what a recipe needs -> the recipes that need it
    for name, model in config["models"].items():
        if "gpus" not in model:
            continue
        for recipe, training in config["recipes"].items():
            if training["precision"] != "bf16":
                continue
            gpus = settings.training_gpus(config, name, recipe)
            need = [f"{memory.of_run(config, name, recipe, task)['total']:.0f}" for task in TASKS]
            sleeps = "yes" if gpus["vllm_sleep"] else "no"
            vllm = (
                f"{gpus['vllm_memory'] * memory.GPU_GIB:.0f} GiB | {sleeps}" if training.get("generation") == "vllm" else "none |"
            )
            weights = f"{memory.parameters(model['shape']) / 1e9:.2f} B"
            rows.setdefault((name, weights, str(gpus["count"]), str(gpus["micro_batch"]), vllm, *need), []).append(recipe)
    lines += [
        f"| {name} | {weights} | {', '.join(recipes)} | {' | '.join(more)} |" for (name, weights, *more), recipes in rows.items()
    ]
    return "\n".join(lines)
