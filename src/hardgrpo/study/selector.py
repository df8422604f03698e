"""The selectors that choose prompts during training: their settings, with the papers' defaults (except
`replay`), and their costs in labels, memory and tokens. The methods are in `online_selectors.py`."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from hardgrpo.study.strict import MAY_CONTRADICT, Count, Share, Strict


class DynamicSelector(Strict):
    """Dynamic sampling (DAPO, arXiv 2503.14476): drop groups whose completions are all right or all
    wrong, and update the model when enough groups remain."""

    kind: Literal["dynamic"]
    """The method of selection."""

    groups: Count | None = None
    """Number of groups in an update. The default is prompts_per_update. In DAPO, a sampling step
    has three times as many prompts as an update has groups."""

    most_steps: Count = 10
    """The run stops with an error after this number of consecutive sampling steps without an
    update. The default is DAPO's 10."""


class SkipSelector(Strict):
    """GRESO (arXiv 2506.02177): before sampling, often skip prompts whose last groups were all
    right or all wrong. Sampled groups are dropped as in dynamic sampling."""

    kind: Literal["skip"]
    """The method of selection."""

    groups: Count | None = None
    """As for dynamic."""

    most_steps: Count = 10
    """As for dynamic."""

    explore: Share = 0.5
    """Initial value of a probability p. A prompt whose last n groups were all of the same kind (all
    right, or all wrong) is sampled with probability p^n. The default is 0.5."""

    step: Share = 0.01
    """Change of the probability `explore` after each sampling step, from the second epoch on. The
    default is 0.01."""

    easy: Share = 1 / 12
    """Target share of groups that are all right. The default is 1/12."""

    hard: Share = 1 / 6
    """Target share of groups that are all wrong. The default is 1/6."""

    least: Annotated[float, Field(gt=0, le=1)] = 0.01
    """Lowest probability of sampling a prompt. The default is 0.01."""


class BetaSelector(Strict):
    """MoPPS (arXiv 2507.04632): keep a Beta posterior of each prompt's pass rate, and choose the
    prompts nearest to a target pass rate by Thompson sampling."""

    kind: Literal["beta"]
    """The method of selection."""

    discount: Share = 0.5
    """Each new group of a prompt multiplies the weight of the prompt's earlier groups by this
    factor. The default is 0.5."""

    target: Share = 0.5
    """Target pass rate. The default is 0.5."""


class TargetedSelector(Strict):
    """Difficulty-targeted selection (Sun et al., arXiv 2506.05316): predict the pass rates of all
    prompts from the rollouts of anchor prompts, by attention over embeddings, and draw prompts whose
    predicted pass rates are near one half."""

    kind: Literal["targeted"]
    """The method of selection."""

    reference: Annotated[int, Field(ge=2)] = 256
    """Number of anchor prompts. The default is the paper's 256."""

    every: Annotated[int, Field(ge=2)] = 2
    """Sampling steps from one set of anchor prompts to the next. The default is the paper's 2."""

    sharpness: Annotated[float, Field(gt=0)] = 1e-3
    """Prompts are drawn with probability proportional to exp(-|predicted - 1/2| / sharpness). The default is the
    paper's 0.001."""

    replay: Annotated[int, Field(ge=0)] = 0
    """Largest number of groups of earlier sampling steps that each update also trains on. An update
    replays fewer while the buffer holds fewer. The default is 0; the paper replays as many groups
    as it samples."""

    buffer: Count = 512
    """Number of groups that are stored for replay: the newest groups whose rewards are not all
    equal. The default is the paper's 512."""


class CurriculumSelector(Strict):
    """A curriculum: go once through the sorted prompts (arXiv 2506.06632). If a run samples more
    prompts than the subset has, a prompt is sampled in several steps; if it samples fewer, some
    prompts are left out."""

    kind: Literal["curriculum"]
    """The method of selection."""

    by: Literal["tier", "pass_rate"] = "tier"
    """The measure by which prompts are sorted: the problems' own tiers (the default) or the base model's pass rates."""

    order: Literal["easy_first", "hard_first"] = "easy_first"
    """The prompts that come first: the easiest (the default) or the hardest."""


Selector = Annotated[
    DynamicSelector | SkipSelector | BetaSelector | TargetedSelector | CurriculumSelector,
    Field(discriminator="kind"),
]
SELECTORS: TypeAdapter[Selector] = TypeAdapter(Selector)
# kinds that drop groups with equal rewards, and update once enough mixed groups are available
KINDS_WITH_MIXED_GROUPS_ONLY = ("dynamic", "skip")


def with_defaults(recipe: dict) -> dict:
    """A recipe's `selector` with its defaults."""
    settings = SELECTORS.validate_python(recipe["selector"], context=MAY_CONTRADICT).model_dump()
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
