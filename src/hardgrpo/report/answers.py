"""Write the page of answers of an analysis of published numbers, in Markdown, from the analysis's
summary tables.

The text for each kind of analysis is in templates/answers_{kind}.md.j2. VALUES has, for each kind,
the function that computes the values in this text.
"""

from collections.abc import Callable

import pandas as pd

from hardgrpo.analysis import claims, count_tables, formats, summaries
from hardgrpo.analysis.columns import interval
from hardgrpo.report import markdown, registry, web
from hardgrpo.runtime import files
from hardgrpo.selection import probe_sizes as probes

SHOWN_SIZES = (1, 2, 4, 8, 16, 32)


def read_tables(analysis: dict, tables: files.Tables) -> dict[str, pd.DataFrame]:
    """The summary tables of an analysis, by name."""
    return summaries.read_all(tables, registry.COUNT_TABLES[analysis["kind"]], "")


def judge(analysis: dict, tables: dict[str, pd.DataFrame]) -> list[dict]:
    """Rows of claims.csv: the claims of an analysis with their estimates and verdicts."""
    rows = {name: frame.to_dict("records") for name, frame in tables.items()}
    tasks = {analysis["prompts"]: {"completion_tokens": None, "problems": analysis["prompts"]}}
    study = claims.Study(rows, "", tasks, weaker=[], own_bases=[])
    return claims.judge([claim | {"primary": True} for claim in analysis.get("claims", [])], study)


def text(analysis: dict, tables: dict[str, pd.DataFrame]) -> str:
    """The text of the answers. `analysis` is the analysis's entry in the configuration."""
    environment = markdown.environment(web.TEMPLATES)
    environment.filters |= {"table": markdown.table, "points": points}
    template = environment.get_template(f"answers_{analysis['kind']}.md.j2")
    return template.render(analysis=analysis, **VALUES[analysis["kind"]](analysis, tables)).strip()


def points(share: float) -> str:
    """A share in per cent, as plain text."""
    return formats.change(share, sign="-")


def samples_per_prompt(analysis: dict, tables: dict[str, pd.DataFrame]) -> dict:
    """Values of answers_probe_sizes.md.j2."""
    rows = tables["probe_sizes"]
    sizes_by_file = {
        file: probes.sufficient_sizes(group.to_dict("records"))
        for file, group in rows.groupby("file", sort=False)
    }
    all_files = rows[rows.file == count_tables.ALL]
    by_rule = {
        rule: group.set_index("samples") for rule, group in all_files.groupby("rule", sort=False)
    }
    shown = {
        f"`{rule}`": group.mixed[group.index.isin(SHOWN_SIZES)].map(points)
        for rule, group in by_rule.items()
        if group.index.isin(SHOWN_SIZES).any()
    }
    sizes = pd.DataFrame(sizes_by_file.values()).map(lambda size: f"{size:.0f}".replace("nan", ""))
    pools = rows.groupby("file").pool.first()
    sizes.insert(0, "prompts", [f"{file} ({int(pools[file]):,})" for file in sizes_by_file])
    probe = min(2, analysis["probe"])
    mixed = rows.set_index(["file", "rule", "samples"]).mixed
    predicted = [
        {
            "file": file,
            "mixed": share,
            "random": mixed[file, "random", 0],
            "probe": probe,
            "probed": mixed[file, "nearest_half", probe],
        }
        for (file, rule, _), share in mixed.items()
        if rule == count_tables.PREDICTED
    ]
    return {
        "by_rule": by_rule,
        "predicted": predicted,
        "several": len(sizes) > 1,
        "sufficient": sizes_by_file[count_tables.ALL],
        "pool": int(pools[count_tables.ALL]),
        "least": probes.LEAST_IMPROVEMENT,
        "shown": pd.DataFrame(shown).T.rename(columns="K = {}".format).reset_index(names="rule"),
        "sizes": sizes,
    }


def before_after(analysis: dict, tables: dict[str, pd.DataFrame]) -> dict:
    """Values of answers_before_after.md.j2."""
    classes, choices = tables["difficulty_classes"], tables["choices_after"]
    by_rule = {row.rule: row._asdict() for row in choices.itertuples()}
    reach, counts = tables["pass_at_each_k"], tables["solved_counts"]
    first, last = (
        reach[reach.seed.isna() & (reach.k == k)].iloc[0] for k in (1, analysis["samples"])
    )
    unsolved = classes[classes.correct == 0].iloc[0]
    choice_columns = {
        "rule": [f"`{rule}`" for rule in choices.rule],
        "before %": list(map(points, choices.before)),
        "gain": changes(choices, "gain"),
        "gain minus random": changes(choices, "gain_lead"),
        "mixed before %": list(map(points, choices.mixed_before)),
        "mixed after %": shares(choices, "mixed"),
        "mixed after, minus random": changes(choices, "mixed_lead"),
    }
    return {
        "gain": lambda rule: formats.change_interval(
            *(by_rule[rule][name] for name in interval("gain"))
        ),
        "newly": f"{counts.only_after.mean():.0f}",
        "lost": f"{counts.only_before.mean():.0f}",
        "prompts": f"{int(counts.prompts.iloc[0]):,}",
        "reach": formats.change_interval(*last[interval("gain")]),
        "gain_at_1": formats.change_interval(*first[interval("gain")]),
        "base_solved": unsolved.solved_before,
        "trained_solved": unsolved.solved,
        "claims": judge(analysis, tables),
        "interval": formats.change_interval,
        "choices": pd.DataFrame(choice_columns),
        "choices_prompts": int(choices.prompts.iloc[0]),
    }


def changes(frame: pd.DataFrame, name: str) -> list[str]:
    """A column of changes with their intervals, in points; "" in a row without an estimate."""
    rows = frame[interval(name)].itertuples(index=False)
    return [formats.change_interval(*row) if formats.is_known(row[0]) else "" for row in rows]


def shares(frame: pd.DataFrame, name: str) -> list[str]:
    """A column of shares in per cent, with their intervals cut off at 0 and 100: '30.2 [27.1,
    33.2]'."""
    return [
        f"{points(share)} [{points(max(low, 0.0))}, {points(min(high, 1.0))}]"
        if formats.is_known(low, high)
        else points(share)
        for share, low, high in frame[interval(name)].itertuples(index=False)
    ]


VALUES: dict[str, Callable[[dict, dict[str, pd.DataFrame]], dict]] = {
    "probe_sizes": samples_per_prompt,
    "before_after": before_after,
}
