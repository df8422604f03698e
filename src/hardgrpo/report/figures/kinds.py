"""Gains split into finishing, sharpening and new solving, by policy, with 95 % intervals. The line
is the gain, the diamond the greedy gain."""

from hardgrpo.report import plotting

COLUMNS = [
    "model",
    "task",
    "eval_task",
    "policy",
    "recipe",
    "step",
    "reach_samples",
    "out_of_reach",
]
COLUMNS += [
    f"{part}{end}"
    for part in ("gain", *(name for name, *_ in plotting.KINDS), "greedy_gain")
    for end in ("", "_low", "_high")
]
COLUMNS += ["problems", "seeds"]
DIAMOND = {
    "fmt": "D",
    "markersize": 4,
    "color": "black",
    "markerfacecolor": "white",
    "capsize": 0,
    "label": "greedy gain",
}


def draw(kinds):
    frame = kinds[kinds.tier.isna()]
    return plotting.parts_panels(frame, plotting.KINDS, out_of_reach, greedy_gain), frame[COLUMNS]


def out_of_reach(group) -> str:
    return f"out of reach in {int(group.reach_samples.min())} samples: {100 * group.out_of_reach.mean():.1f} %"


def greedy_gain(axis, group) -> None:
    if group.greedy_gain.notna().any():
        plotting.series(axis, range(len(group)), group, "greedy_gain", **DIAMOND)
