"""docs/gpus.csv and the table of docs/gpus.md: the GPUs that each recipe needs for each model, from
the configuration and src/hardgrpo/study/memory.py."""

from hardgrpo.study import memory
from hardgrpo.study.configuration import Configuration

import pandas as pd

# {task: column of the memory that a run on the task needs}
TASKS = {"gsm8k": "GiB on each GPU, 250 tokens", "gsm8k_1024": "GiB on each GPU, 1,024 tokens"}
# recipes in bf16 for CPUs; they have no row
FOR_CPUS = ("small_lora", "small_lora_low_rate")
# {recipe: name of its columns in docs/gpus.md}
WEIGHTS_BY_RECIPE = {"as_written": "adapter", "as_written_full": "all weights"}


def table(config: dict) -> pd.DataFrame:
    """A row for each model that has GPUs and each recipe in bf16, except recipes for CPUs."""
    lines = []
    configuration = Configuration.of(config)
    for name, model in configuration.models.items():
        for recipe, training in configuration.recipes.items() if model.gpus else ():
            if training.precision != "bf16" or recipe in FOR_CPUS:
                continue
            gpus = model.training_gpus(training)
            vllm = training.generation == "vllm"
            line = {
                "model": name,
                "weights": f"{memory.parameters(model.shape) / 1e9:.2f} B",
                "recipe": recipe,
            }
            line |= {"GPUs": gpus["count"], "completions at once": gpus["micro_batch"]}
            line["vLLM"] = f"{gpus['vllm_memory'] * memory.GPU_GIB:.0f} GiB" if vllm else "none"
            line["vLLM sleeps"] = ("yes" if gpus["vllm_sleep"] else "no") if vllm else ""
            line |= {
                title: f"{memory.run_memory(model, training, configuration.tasks[task])['total']:.0f}"
                for task, title in TASKS.items()
            }
            lines.append(line)
    return pd.DataFrame(lines)


def short(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of docs/gpus.md: a row for each model, from the rows of `table` with recipes of
    WEIGHTS_BY_RECIPE."""
    memory_titles = list(TASKS.values())
    lines: dict[str, dict] = {}
    for row in rows[rows.recipe.isin(WEIGHTS_BY_RECIPE)].to_dict("records"):
        weights = WEIGHTS_BY_RECIPE[row["recipe"]]
        lines.setdefault(row["model"], {"model": row["model"], "weights": row["weights"]}).update(
            {
                f"{weights}: GPUs": row["GPUs"],
                f"{weights}: GiB on each": ", ".join(row[title] for title in memory_titles),
            }
        )
    return pd.DataFrame(lines.values())
