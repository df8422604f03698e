"""Outcomes of the library, printed as one line of JSON: {name: value}. unchanged.py runs this
program. Where a function of the library is renamed, this file follows; its baselines stay.

    python tests/unchanged/library.py specs
"""

import csv
import hashlib
import json
import random
import sys
import tempfile
from pathlib import Path

POOLS = 1000


def digest(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def specs() -> dict[str, str]:
    """{run: hashes of its spec.yaml and of the arguments of its trainer}"""
    from hardgrpo.study import load
    from hardgrpo.study.resolved import resolve_studies
    from hardgrpo.study.spec import Spec
    from hardgrpo.training import recipes

    outcome = {}
    path = Path(tempfile.mkdtemp()) / "spec.yaml"
    for study in resolve_studies(load.read(".")).values():
        for run in study.runs:
            if run.recipe == "recorded":
                continue
            model, recipe = study.config.model(run.base), study.config.recipes[run.recipe]
            policy = study.config.policies.get(run.policy)
            parts = {
                "model": model,
                "task": study.config.tasks[run.task],
                "recipe": recipe,
                "policy": policy,
            }
            for is_first_round in [False, True] if policy and policy.has_rounds else [False]:
                spec = Spec.of_run(run, **parts, first=is_first_round)
                spec.write(path)
                gpus = model.training_gpus(recipe)
                vllm = (gpus.micro_batch, gpus.vllm_memory, gpus.vllm_sleep) if gpus.count else ()
                hardware = recipes.Hardware(gpus.count, max(1, gpus.count), *vllm)
                is_supervised = recipe.is_supervised
                arguments = (
                    recipes.supervised_arguments if is_supervised else recipes.trainer_arguments
                )
                name = f"{study.name} {run.path}{' first round' if is_first_round else ''}"
                outcome[f"{name} spec"] = digest(path.read_text(encoding="utf-8"))
                outcome[f"{name} arguments"] = digest(arguments(spec, "output", hardware))
    return outcome


def grades() -> dict[str, str]:
    """{listed case and grader: grade}, also for graders that the case does not name"""
    from hardgrpo.grading.graders import GRADERS, grade

    outcome = {}
    for path in sorted(Path("tests/unit/grades").glob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
        for line, row in enumerate(rows, 2):
            for name, grader in GRADERS.items():
                completion = "so " + grader.form.replace("%s", row["answer"])
                result = grade(name, completion, row["reference"])
                flags = (
                    result.answered,
                    result.correct,
                    result.strict,
                    result.lenient,
                    result.readable,
                )
                outcome[f"{path.name}:{line} {name}"] = "".join(str(int(flag)) for flag in flags)
    return outcome


def selections() -> dict[str, str]:
    """{rule: hash of its choices from random pools}"""
    from hardgrpo.runtime.errors import UserError
    from hardgrpo.selection.policies import RULES, select

    outcome = {}
    for rule in RULES:
        rng = random.Random("selections")  # the same pools for every rule
        chosen = hashlib.sha256()
        for number in range(POOLS):
            size, steps = rng.randint(1, 120), rng.choice([4, 16, 1000])
            rates = {f"prompt-{n}": rng.randint(0, steps) / steps for n in range(size)}
            missing = rng.sample(sorted(rates), size // 10)
            tiers = {prompt: rng.choice([1, 2, 3, None]) for prompt in rates}
            settings = {
                "budget": rng.choice(
                    [
                        None,
                        0.1,
                        0.29,
                        0.5,
                        {"prompts": rng.randint(1, 40)},
                        {"money": 30, "label_price": 1.5},
                    ]
                ),
                "threshold": rng.choice([0.25, 0.5, 0.9]),
                "highest_tier": rng.choice([1, 2]),
                "low": rng.choice([0.1, 0.2]),
                "high": rng.choice([0.6, 0.8]),
                "order": rng.choice([None, "random"]),
            }
            if settings["budget"] is None and "budget" in RULES[rule].needs:
                chosen.update(b"refused")  # by hardgrpo.study.policy.Policy
                continue
            try:
                subset = select(
                    rates | dict.fromkeys(missing), rule, number % 7, tiers=tiers, **settings
                )
                choice = f"{subset.ids} {subset.tied} {subset.tied_chosen}"
            except UserError:
                choice = "refused"
            chosen.update(choice.encode())
        outcome[rule] = chosen.hexdigest()[:16]
    return outcome


def schedules() -> dict[str, str]:
    """{number: hash of the prompts of a random run}"""
    from hardgrpo.training.recipes import schedule_with_unlabelled

    outcome = {}
    rng = random.Random("schedules")
    for number in range(200):
        subset, unlabelled = ([f"{kind}-{n}" for n in range(rng.randint(1, 60))] for kind in "ab")
        recipe = {"updates": rng.randint(1, 50), "prompts_per_update": rng.randint(1, 16)}
        if number % 2:
            recipe["majority_share"] = rng.choice([0.25, 0.5])
        outcome[f"schedule {number}"] = digest(
            schedule_with_unlabelled(subset, unlabelled, recipe, number)
        )
    return outcome


if __name__ == "__main__":
    computed = {"specs": specs, "grades": grades, "selections": selections, "schedules": schedules}
    print(json.dumps(computed[sys.argv[1]]()))
