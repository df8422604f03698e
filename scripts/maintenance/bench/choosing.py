"""The cost of choosing prompts during training: the time of a selector's work in a sampling step,
and of a complete sampling step with a selector. Both are compared with an update of plain GRPO.

The selector's work (choosing prompts, receiving rewards, writing its state) is measured for a pool
of 10,000 prompts, relative to the seconds of an update of the miniature's model. The ratio is
smaller for larger models. Complete sampling steps with a selector and updates of plain GRPO are
timed in alternating pairs, in runs on all prompts of the miniature's pool. A step with process
rewards also trains the reward model. Embedding the pool, which `targeted` does once per run, has
its own row.
"""

import benchmarks
from benchmarks import compare, from_demo
from hardgrpo.runtime import files
from hardgrpo.selection import online_selectors
from hardgrpo.study.spec import Spec

import functools
import json
import random
import time
from pathlib import Path

import numpy as np
from training import UPDATES, step_seconds

POOL, WIDTH, STEPS = 10_000, 96, 200
PROCESS = {"weight": 1.0, "beta": 0.05, "learning_rate": 4.0e-4, "max_grad_norm": 1.0}
SELECTORS = {
    "dynamic": {"kind": "dynamic", "groups": 6},
    "skip": {"kind": "skip", "groups": 6},
    "beta": {"kind": "beta"},
    "targeted": {"kind": "targeted", "reference": 16, "every": 6},
    "targeted with replay": {
        "kind": "targeted",
        "reference": 16,
        "every": 6,
        "replay": 8,
        "buffer": 16,
    },
    "curriculum": {"kind": "curriculum"},
}


def run(options) -> list[dict]:
    demo_spec, _ = from_demo(
        "results/training/*/*/mini/random/seed*/spec.yaml", f"{options.model}/manifest.json"
    )
    rows, repeats = [], max(1, options.repeats // 2)
    with benchmarks.scratch() as temporary:
        plain_spec = write_spec(demo_spec, Path(temporary) / "plain.yaml", {})
        update_seconds = functools.cache(functools.partial(step_seconds, plain_spec))
        for name, selector in SELECTORS.items():
            selector_seconds = functools.partial(selector_work_seconds, selector)
            rows.append(
                compare(
                    f"selector {name}, {POOL:,} prompts, compared with an update",
                    "s",
                    selector_seconds,
                    update_seconds,
                    3,
                    "ratio <= 0.05",
                )
            )
        rows.append(
            compare(
                f"embedding {POOL:,} prompts (once per run), compared with an update",
                "s",
                lambda: embedding_seconds(demo_spec, options.model),
                update_seconds,
                1,
            )
        )
        recipes = {name: {"selector": keys} for name, keys in SELECTORS.items()} | {
            "process rewards": {"process": PROCESS}
        }
        for name, keys in recipes.items():
            recipe_step_seconds = functools.partial(
                step_seconds,
                write_spec(demo_spec, Path(temporary) / f"{name.replace(' ', '_')}.yaml", keys),
            )
            rows.append(
                compare(
                    f"a sampling step with {name}, compared with plain GRPO",
                    "s",
                    recipe_step_seconds,
                    functools.partial(step_seconds, plain_spec),
                    repeats,
                )
            )
    return rows


def write_spec(demo_spec: Path, path: Path, keys: dict) -> Path:
    """Write the specification of a run on all prompts of the miniature's pool, with `keys` added to
    the recipe. Return the path of the specification."""
    problems = files.read_jsonl(benchmarks.ROOT / Spec.read(str(demo_spec)).problems, {"id": str})
    subset = str(path.with_suffix(".csv"))
    files.write_rows(subset, ["id"], [{"id": problem["id"]} for problem in problems])
    return benchmarks.write_spec(demo_spec, path, UPDATES, keys, subset=subset)


def embedding_seconds(demo_spec: Path, model: str) -> float:
    """Seconds to embed POOL prompts: the prompts of the miniature, repeated."""
    from hardgrpo.data import tasks
    from hardgrpo.training.online_trainer import embed_prompts

    from transformers import AutoModelForCausalLM, AutoTokenizer

    spec = Spec.read(str(demo_spec))
    questions = [
        problem["question"]
        for problem in files.read_jsonl(benchmarks.ROOT / spec.problems, {"question": str})
    ]
    rows = {
        f"p{i}": {"prompt": tasks.messages(spec.prompt, questions[i % len(questions)])}
        for i in range(POOL)
    }
    language_model = AutoModelForCausalLM.from_pretrained(model)
    tokenizer = AutoTokenizer.from_pretrained(model)
    start_time = time.perf_counter()
    embed_prompts(language_model, tokenizer, rows, spec.chat)
    return time.perf_counter() - start_time


def selector_work_seconds(settings: dict) -> float:
    """Mean seconds of a selector's work in a sampling step."""
    ids = [f"p{i}" for i in range(POOL)]
    embeddings = online_selectors.standardise(
        np.random.Generator(np.random.PCG64(0)).normal(size=(POOL, WIDTH))
    )
    rng = random.Random(0)
    pool = online_selectors.Pool(ids, {name: rng.random() for name in ids}, embeddings)
    recipe = {"updates": STEPS, "prompts_per_update": 8, "group_size": 8, "selector": settings}
    online_selectors.predict_pass_rates(
        embeddings, np.arange(4), np.array([0.0, 0.5, 0.5, 1.0])
    )  # imports modules before the measurement
    start_time = time.perf_counter()
    selector = online_selectors.make(recipe, pool, 0)
    for step in range(1, STEPS + 1):
        missing_prompts = 8
        while missing_prompts:
            batch = selector.ask(step, missing_prompts)
            selector.tell(step, batch, [rng.randrange(9) / 8 for _ in batch.ids])
            missing_prompts -= len(batch.ids)
        json.dumps(selector.state())
    return (time.perf_counter() - start_time) / STEPS
