"""What choosing prompts while training costs: a selector's own work in a sampling step, and a step with it, beside an update of plain GRPO.

The selector's own work (asking, being told, writing its state) is measured for a pool of 10,000 prompts, against the seconds of an update
of the finished miniature's model, which is small: on a larger one the share is smaller. Sampling steps with a selector and plain updates are
trained in alternating pairs, over the miniature's whole pool. A step with process rewards also trains the reward model. Embedding the
pool, which `targeted` does once per run, has a row of its own.
"""

import benchmarks
from benchmarks import compared, from_demo, program
from hardgrpo.runtime import files
from hardgrpo.selection import online_selectors

import functools
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import yaml
from training import ENVIRONMENT, UPDATES

POOL, WIDTH, STEPS = 10_000, 96, 200
PROCESS = {"weight": 1.0, "beta": 0.05, "learning_rate": 4.0e-4, "max_grad_norm": 1.0}
SELECTORS = {
    "dynamic": {"kind": "dynamic", "groups": 6},
    "skip": {"kind": "skip", "groups": 6},
    "beta": {"kind": "beta"},
    "targeted": {"kind": "targeted", "reference": 16, "every": 6},
    "targeted with replay": {"kind": "targeted", "reference": 16, "every": 6, "replay": 8, "buffer": 16},
    "curriculum": {"kind": "curriculum"},
}


def run(options) -> list[dict]:
    made, _ = from_demo("results/training/tiny*/*/mini/random/seed*/spec.yaml", f"{options.model}/manifest.json")
    rows, repeats = [], max(1, options.repeats // 2)
    with benchmarks.scratch() as temporary:
        plain = spec(made, Path(temporary) / "plain.yaml", {})
        update = functools.cache(functools.partial(seconds, plain))
        for name, selector in SELECTORS.items():
            own = functools.partial(own_work, selector)
            rows.append(compared(f"the work of {name} for {POOL:,} prompts; an update", "s", own, update, 3, "ratio <= 0.05"))
        rows.append(
            compared(f"embedding {POOL:,} prompts, once a run; an update", "s", lambda: embedding(made, options.model), update, 1)
        )
        recipes = {name: {"selector": keys} for name, keys in SELECTORS.items()} | {"process rewards": {"process": PROCESS}}
        for name, keys in recipes.items():
            with_it = functools.partial(seconds, spec(made, Path(temporary) / f"{name.replace(' ', '_')}.yaml", keys))
            rows.append(
                compared(f"a sampling step with {name}; plain GRPO's", "s", with_it, functools.partial(seconds, plain), repeats)
            )
    return rows


def spec(made: Path, path: Path, keys: dict) -> Path:
    """The specification of a run of the miniature, over its whole pool, with more keys in its recipe."""
    content = yaml.safe_load(made.read_text(encoding="utf-8"))
    content["training"] |= {"updates": UPDATES, "checkpoint_every": UPDATES} | keys
    ids = [problem["id"] for problem in files.read_jsonl(benchmarks.ROOT / content["problems"], {"id": str})]
    content["subset"] = str(path.with_suffix(".csv"))
    files.write_rows(content["subset"], ["id"], [{"id": identity} for identity in ids])
    path.write_text(yaml.safe_dump(content))
    return path


def seconds(spec: Path) -> float:
    """Mean seconds of a sampling step, the first one left out."""
    with tempfile.TemporaryDirectory(dir=spec.parent) as folder:
        command = program("train_grpo", "--spec", spec, "--output", f"{folder}/run", "--state", f"{folder}/state")
        benchmarks.run(command, **ENVIRONMENT)
        steps = files.read_rows(f"{folder}/run/timing.csv", {"step": int, "seconds": float})
    return statistics.mean(step["seconds"] for step in steps[1:])


def embedding(made: Path, model: str) -> float:
    """Seconds to embed POOL prompts: those of the miniature, repeated."""
    from hardgrpo.data import tasks
    from hardgrpo.training.online_trainer import embed_prompts

    from transformers import AutoModelForCausalLM, AutoTokenizer

    content = yaml.safe_load(made.read_text(encoding="utf-8"))
    questions = [problem["question"] for problem in files.read_jsonl(benchmarks.ROOT / content["problems"], {"question": str})]
    rows = {f"p{i}": {"prompt": tasks.messages(content["prompt"], questions[i % len(questions)])} for i in range(POOL)}
    loaded, tokenizer = AutoModelForCausalLM.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    started = time.perf_counter()
    embed_prompts(loaded, tokenizer, rows, content["chat"])
    return time.perf_counter() - started


def own_work(selector: dict) -> float:
    """Mean seconds that the selector itself takes in a sampling step."""
    ids = [f"p{i}" for i in range(POOL)]
    embeddings = online_selectors.standardise(np.random.Generator(np.random.PCG64(0)).normal(size=(POOL, WIDTH)))
    rng = random.Random(0)
    pool = online_selectors.Pool(ids, {i: rng.random() for i in ids}, embeddings)
    recipe = {"updates": STEPS, "prompts_per_update": 8, "group_size": 8, "selector": selector}
    online_selectors.predict_pass_rates(embeddings, np.arange(4), np.array([0.0, 0.5, 0.5, 1.0]))  # imports what it needs once
    started, made = time.perf_counter(), online_selectors.make(recipe, pool, 0)
    for step in range(1, STEPS + 1):
        room = 8
        while room:
            asked = made.ask(step, room)
            made.tell(step, asked, [rng.randrange(9) / 8 for _ in asked.ids])
            room -= len(asked.ids)
        json.dumps(made.state())
    return (time.perf_counter() - started) / STEPS
