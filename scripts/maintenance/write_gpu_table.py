"""Write docs/gpus.md: what each recipe needs of each model's GPUs, from config.yaml and src/hardgrpo/study/memory.py.

python scripts/maintenance/write_gpu_table.py
"""

from pathlib import Path

import yaml

from hardgrpo.runtime import errors, files
from hardgrpo.study import memory

ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs/gpus.md"
TASKS = ("gsm8k", "gsm8k_1024")  # 250 and 1,024 tokens


def table(config: dict) -> str:
    lines = [
        "# What training needs of GPUs",
        "",
        "Estimated by `src/hardgrpo/study/memory.py` before anything is downloaded, for GPUs of 80 GB"
        f" ({memory.GPU_GIB:.1f} GiB); written by `scripts/maintenance/write_gpu_table.py`, a test compares. Weights, gradients and optimiser"
        " state are exact, activations an upper estimate; none of it has been measured on a GPU yet.",
        "",
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
            vllm = f"{gpus['vllm_memory'] * memory.GPU_GIB:.0f} GiB | {sleeps}" if training["generation"] == "vllm" else "none |"
            lines.append(
                f"| {name} | {memory.parameters(model['shape']) / 1e9:.2f} B | {recipe} | {gpus['count']} | {gpus['micro_batch']}"
                f" | {vllm} | {need[0]} | {need[1]} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    files.write_text(PATH, table(config))
    print(PATH)


if __name__ == "__main__":
    errors.run(main)
