"""Check what a recipe of config.yaml asks for. Part of `checks`: every function yields (place in config.yaml, what is wrong)."""

from collections.abc import Iterator

from hardgrpo.selection import selectors
from hardgrpo.study.settings import OF_GRPO, is_supervised, majority_share


def contradictions(recipe: dict, place: str) -> Iterator[tuple[str, str]]:
    if recipe["updates"] % recipe["checkpoint_every"]:
        yield (
            f"{place}.checkpoint_every",
            f"{recipe['checkpoint_every']} does not divide updates ({recipe['updates']}), so the last update would have no"
            " checkpoint; change one of them",
        )
    if recipe["base"] == "nf4" and not recipe.get("adapter"):
        yield f"{place}.base", "weights held in 4 bits cannot be trained themselves; add an adapter or choose fp32"
    if recipe["base"] == "bf16" and not recipe.get("adapter"):
        yield (
            f"{place}.base",
            "weights that are trained are held in 32 bits, because updates are smaller than a step of bf16; choose fp32 (with precision:"
            " bf16 for arithmetic in bf16), or add an adapter",
        )
    if recipe["base"] != "fp32" and recipe["precision"] == "fp32":
        yield (
            f"{place}.precision",
            f"a base held as {recipe['base']} computes in bf16, so that this arithmetic would not be fp32; choose bf16, or base: fp32",
        )
    yield from _keys_of_objective(recipe, place)
    yield from _majority_share(recipe, f"{place}.majority_share")
    yield from _online(recipe, place)
    if recipe["base"] == "nf4" and recipe.get("generation") == "vllm":
        yield (
            f"{place}.generation",
            "vLLM cannot follow an adapter that is merged into 4-bit weights; choose transformers, or base: bf16",
        )
    if recipe.get("importance_correction") and recipe.get("generation") != "vllm":
        yield (
            f"{place}.importance_correction",
            "belongs to generation: vllm; other rollouts are sampled with the trainer's own probabilities: remove it",
        )


def _keys_of_objective(recipe: dict, place: str) -> Iterator[tuple[str, str]]:
    """Keys that a recipe lacks, or has although its objective has no use for them."""
    for key in OF_GRPO:
        if is_supervised(recipe) and key in recipe:
            yield f"{place}.{key}", "belongs to GRPO, and this recipe trains on worked solutions (objective: sft); remove it"
        if not is_supervised(recipe) and key not in recipe:
            yield place, f"'{key}' is missing, which GRPO needs; add it, or set objective: sft"


def _majority_share(recipe: dict, place: str) -> Iterator[tuple[str, str]]:
    """Why a recipe cannot take a share of its prompts from those that were not chosen."""
    share, whole = majority_share(recipe), recipe["prompts_per_update"]
    if share and recipe.get("reward") != "correct":
        yield place, "belongs to reward: correct; with another reward no prompt needs a label: remove it"
    elif share and not 0 < round(share * whole) < whole:
        yield (
            place,
            f"{share} of {whole} prompts an update are {round(share * whole)}; choose a share that leaves some of both kinds",
        )


def _online(recipe: dict, place: str) -> Iterator[tuple[str, str]]:
    """Contradictions in a recipe that has a selector or process rewards."""
    for key in ("selector", "process"):
        if recipe.get(key) and is_supervised(recipe):
            yield f"{place}.{key}", "belongs to GRPO, and this recipe trains on worked solutions (objective: sft); remove it"
        if recipe.get(key) and majority_share(recipe):
            yield f"{place}.majority_share", f"cannot be combined with {key}; remove one of them"
    if recipe.get("process") and recipe.get("temperature") != 1:
        yield f"{place}.process", "token rewards need the model's own probabilities, those at temperature 1; set temperature: 1"
    if recipe.get("process") and recipe.get("reward") == "majority":
        yield f"{place}.process", "the reward model learns from right and wrong answers; set reward: correct"
    if recipe.get("process") and (recipe.get("adapter") or {}).get("dropout"):
        yield f"{place}.process", "with dropout the reward model and the base would differ by chance alone; set adapter.dropout: 0"
    if not recipe.get("selector") or is_supervised(recipe):
        return
    chosen, room = selectors.with_defaults(recipe), recipe["prompts_per_update"]
    if chosen["kind"] in selectors.FILLS and chosen["groups"] > room * chosen["most_steps"]:
        yield (
            f"{place}.selector.groups",
            f"{chosen['most_steps']} sampling steps of {room} prompts cannot fill it; lower it, or raise most_steps",
        )
    if chosen["kind"] == "targeted":
        if chosen["reference"] >= room * chosen["every"]:
            yield (
                f"{place}.selector.reference",
                f"{chosen['every']} sampling steps of {room} prompts leave nothing to train on beside {chosen['reference']} references; lower it, or"
                " raise every",
            )
        if chosen["replay"] and recipe.get("generation") != "vllm" and (recipe.get("adapter") or {}).get("dropout"):
            yield (
                f"{place}.selector.replay",
                "a replay is corrected by the probabilities with which its group was sampled, and with dropout these are not"
                " recorded; set adapter.dropout: 0",
            )
        if chosen["replay"] > chosen["buffer"]:
            yield f"{place}.selector.replay", f"a buffer of {chosen['buffer']} groups cannot give {chosen['replay']}; raise buffer"
