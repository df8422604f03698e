"""The table of docs/cluster.md: the GPUs and the memory that each model needs, from the configuration and
src/hardgrpo/study/memory.py."""

from hardgrpo.study import memory
from hardgrpo.study.configuration import Configuration

import pandas as pd

TASKS = ("gsm8k", "gsm8k_1024")  # with completions of at most 250 and 1,024 tokens
RECIPES = {"as_written": "adapter", "as_written_full": "all weights"}


def table(config: dict) -> pd.DataFrame:
    """A row for each model that has GPUs."""
    lines, configuration = [], Configuration.of(config)
    for name, model in configuration.models.items():
        if not model.gpus:
            continue
        line = {"model": name, "weights": f"{memory.parameters(model.shape) / 1e9:.2f} B"}
        for recipe, weights in RECIPES.items():
            training = configuration.recipes[recipe]
            line[f"{weights}: GPUs"] = model.training_gpus(training)["count"]
            line[f"{weights}: GiB on each"] = ", ".join(
                f"{memory.run_memory(model, training, configuration.tasks[task])['total']:.0f}"
                for task in TASKS
            )
        lines.append(line)
    return pd.DataFrame(lines)
