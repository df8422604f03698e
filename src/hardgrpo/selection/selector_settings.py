"""Settings of a recipe's `selector`: defaults, and costs in labels, memory and tokens. Selectors
are in `online_selectors.py`."""

DEFAULTS = {  # default values of optional keys, from the papers (except `replay`)
    # `groups` is the number of groups per update; None: as many as a sampling step samples
    "dynamic": {"groups": None, "most_steps": 10},
    "skip": {
        "groups": None,
        "most_steps": 10,
        "explore": 0.5,
        "step": 0.01,
        "easy": 1 / 12,
        "hard": 1 / 6,
        "least": 0.01,
    },
    "beta": {"discount": 0.5, "target": 0.5},
    "targeted": {"reference": 256, "every": 2, "sharpness": 1e-3, "replay": 0, "buffer": 512},
    "curriculum": {"by": "tier", "order": "easy_first"},
}
# kinds that drop groups with equal rewards, and update once enough mixed groups are available
KINDS_WITH_MIXED_GROUPS_ONLY = ("dynamic", "skip")


def with_defaults(recipe: dict) -> dict:
    """A recipe's `selector` with its defaults."""
    settings = DEFAULTS[recipe["selector"]["kind"]] | recipe["selector"]
    if "groups" in settings:
        settings["groups"] = settings["groups"] or recipe["prompts_per_update"]
    return settings


def max_labels(recipe: dict, pool: int) -> int:
    """Upper bound of the number of labels of a run: the largest number of prompts that it can
    sample."""
    return min(pool, recipe["updates"] * recipe["prompts_per_update"])


def new_groups_per_step(recipe: dict) -> list[int]:
    """Number of new groups to train on in each sampling step of a cycle of selector `targeted`,
    which starts with the groups of anchor prompts."""
    settings, step_groups = with_defaults(recipe), recipe["prompts_per_update"]
    anchors_left = [settings["reference"] - step * step_groups for step in range(settings["every"])]
    return [step_groups - min(step_groups, max(0, anchors)) for anchors in anchors_left]


def largest_update(recipe: dict) -> float:
    """Groups of the largest update, divided by the groups of a sampling step; at least 1."""
    settings, step_groups = with_defaults(recipe), recipe["prompts_per_update"]
    groups = settings.get("groups", step_groups)
    if settings["kind"] == "targeted":
        groups = max(new_groups_per_step(recipe)) + settings["replay"]
    return max(1.0, groups / step_groups)


def trained_share(recipe: dict) -> float:
    """Upper bound of the number of tokens that updates train on, divided by the number of sampled
    tokens. Groups of anchor prompts do not count; replayed groups count again."""
    settings = with_defaults(recipe)
    if settings["kind"] != "targeted":
        return 1.0
    new_groups = new_groups_per_step(recipe)
    trained_groups = sum(groups + settings["replay"] for groups in new_groups if groups)
    return trained_groups / (recipe["prompts_per_update"] * len(new_groups))
