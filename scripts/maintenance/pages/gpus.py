"""The table of docs/gpus.md: the GPUs that each recipe needs for each model, from config.yaml and src/hardgrpo/study/memory.py."""

from hardgrpo.study import memory

TASKS = ("gsm8k", "gsm8k_1024")  # 250 and 1,024 tokens


def table(config: dict) -> str:
    lines = [
        "| model | weights | recipe | GPUs | completions at once | vLLM | sleeps | GiB on each GPU, 250 tokens | 1,024 tokens |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, model in config["models"].items():
        if "gpus" not in model:
            continue
        for recipe, training in config["recipes"].items():
            if training["precision"] != "bf16":
                continue
            gpus = model["gpus"]["adapter" if training.get("adapter") else "full"]
            need = [f"{memory.of_run(config, name, recipe, task)['total']:.0f}" for task in TASKS]
            sleeps = "yes" if gpus["vllm_sleep"] else "no"
            vllm = (
                f"{gpus['vllm_memory'] * memory.GPU_GIB:.0f} GiB | {sleeps}" if training.get("generation") == "vllm" else "none |"
            )
            lines.append(
                f"| {name} | {memory.parameters(model['shape']) / 1e9:.2f} B | {recipe} | {gpus['count']} | {gpus['micro_batch']}"
                f" | {vllm} | {need[0]} | {need[1]} |"
            )
    return "\n".join(lines)
