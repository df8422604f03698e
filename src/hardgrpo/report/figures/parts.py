"""Gains split into finishing and correctness, by arm, with 95 % intervals; the line is the
gain."""

from hardgrpo.report import arm_rows, plotting

COLUMNS = ["model", "task", "eval_task", "policy", "recipe", "step", "gain"]
COLUMNS += [f"{part}{end}" for part, *_ in plotting.PARTS for end in ("", "_low", "_high")]
COLUMNS += ["base_answered", "answered", "base_accuracy", "accuracy", "problems", "seeds"]


def draw(parts):
    return arm_rows.parts_figure(parts, plotting.PARTS, answered), parts[COLUMNS]


def answered(group) -> str:
    after = [f"{100 * share:.1f}" for share in (group.answered.min(), group.answered.max())]
    return (
        f"answered {100 * group.base_answered.iloc[0]:.1f} → {' to '.join(dict.fromkeys(after))} %"
    )
