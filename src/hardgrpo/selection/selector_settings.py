"""A recipe's `selector` in the configuration: defaults, and the cost in labels, memory and tokens. `online_selectors.py` implements it."""

DEFAULTS = {  # of the keys that a selector may leave out; the papers' values
    "dynamic": {"groups": None, "most_steps": 10},  # groups: those of an update, as many as a sampling step samples
    "skip": {"groups": None, "most_steps": 10, "explore": 0.5, "step": 0.01, "easy": 1 / 12, "hard": 1 / 6, "least": 0.01},
    "beta": {"discount": 0.5, "target": 0.5},
    "targeted": {"reference": 256, "every": 2, "sharpness": 1e-3, "replay": 0, "buffer": 512},
    "curriculum": {"by": "tier", "order": "easy_first"},
}
FILLS = ("dynamic", "skip")  # drop groups without a learning signal, and update once enough others are there


def with_defaults(recipe: dict) -> dict:
    """A recipe's `selector` with its defaults."""
    chosen = DEFAULTS[recipe["selector"]["kind"]] | recipe["selector"]
    return chosen | {"groups": chosen["groups"] or recipe["prompts_per_update"]} if "groups" in chosen else chosen


def most_labels(recipe: dict, pool: int) -> int:
    """Upper bound of the labels that a run needs: one for each prompt of the pool that it samples."""
    return min(pool, recipe["updates"] * recipe["prompts_per_update"])


def fresh_groups(recipe: dict) -> list[int]:
    """How many new groups each sampling step of a cycle of `targeted` may train on: references are not trained on."""
    chosen, room = with_defaults(recipe), recipe["prompts_per_update"]
    left = [chosen["reference"] - place * room for place in range(chosen["every"])]
    return [room - min(room, max(0, references)) for references in left]


def largest_update(recipe: dict) -> float:
    """Groups of the largest update divided by the groups of a sampling step; at least 1, the ratio of plain GRPO."""
    chosen, room = with_defaults(recipe), recipe["prompts_per_update"]
    groups = chosen.get("groups", room)
    if chosen["kind"] == "targeted":
        groups = max(fresh_groups(recipe)) + chosen["replay"]
    return max(1.0, groups / room)


def trained_share(recipe: dict) -> float:
    """Upper bound of tokens trained on per token sampled. References are not trained on; replayed groups are trained on again."""
    chosen, room = with_defaults(recipe), recipe["prompts_per_update"]
    if chosen["kind"] != "targeted":
        return 1.0
    fresh = fresh_groups(recipe)
    return sum(groups + chosen["replay"] for groups in fresh if groups) / (room * len(fresh))
