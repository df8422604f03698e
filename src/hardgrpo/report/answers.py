"""The page of answers of an analysis of published numbers, in Markdown, from its summary tables.

The text of each kind of analysis is in templates/answers_{kind}.md.j2. A function of this module with the name of the kind computes the
values of the text.
"""

from collections.abc import Callable

import jinja2
import pandas as pd

from hardgrpo.analysis import claims, count_tables, formats, summaries, verdicts
from hardgrpo.report import markdown, registry, web
from hardgrpo.runtime import files
from hardgrpo.runtime.errors import UserError
from hardgrpo.selection import probe_sizes as probes

SHOWN_SIZES = (1, 2, 4, 8, 16, 32)


def read_tables(analysis: dict, tables: files.Tables) -> dict[str, pd.DataFrame]:
    """The summary tables of an analysis, by name. Raise a `UserError` for a table without rows."""
    columns = registry.columns(*registry.COUNT_TABLES[analysis["kind"]])
    frames = summaries.read_all(tables, columns, "")
    for name, frame in frames.items():
        if frame.empty:
            raise UserError(f"{tables[name]}: no rows; run the analysis that it summarises")
    return frames


def judge(analysis: dict, tables: dict[str, pd.DataFrame]) -> list[dict]:
    """Rows of claims.csv: the claims of an analysis with their estimates and verdicts."""
    rows = {name: frame.to_dict("records") for name, frame in tables.items()}
    tasks = {analysis["prompts"]: {"completion_tokens": None, "problems": analysis["prompts"]}}
    study = verdicts.Study(rows, "", tasks, weaker=[], own_bases=[])
    return claims.judge([claim | {"primary": True} for claim in analysis.get("claims", [])], study)


def text(analysis: dict, tables: dict[str, pd.DataFrame]) -> str:
    """The answers. `analysis` is the entry in the configuration, `tables` are the summary tables by name."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(web.TEMPLATES), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"table": markdown.table, "points": points}
    template = environment.get_template(f"answers_{analysis['kind']}.md.j2")
    return template.render(analysis=analysis, **VALUES[analysis["kind"]](analysis, tables)).strip()


def points(share: float) -> str:
    """A share in per cent, as plain text."""
    return formats.change(share, sign="-")


def samples_per_prompt(analysis: dict, tables: dict[str, pd.DataFrame]) -> dict:
    """Values of answers_probe_sizes.md.j2."""
    rows = tables["probe_sizes"]
    sizes_by_file = {file: probes.sufficient_sizes(group.to_dict("records")) for file, group in rows.groupby("file", sort=False)}
    together = rows[rows.file == count_tables.ALL]
    shown = together[together.samples.isin((0, *SHOWN_SIZES))]
    columns = {
        "rule": [f"`{rule}`" for rule in shown.rule],
        "samples per prompt": [int(samples) for samples in shown.samples],
        "mixed %": list(map(points, shown.mixed)),
        "pass rate %": list(map(points, shown.pass_rate)),
        "never solved %": list(map(points, shown.never_solved)),
        "labels wasted": [f"{prompts:.0f}" for prompts in shown.unmixed_prompts],
    }
    sizes = pd.DataFrame(
        [{"prompts": f"{file} ({int(rows[rows.file == file].pool.iloc[0]):,})"} | size for file, size in sizes_by_file.items()]
    )
    by_rule = {rule: group.set_index("samples") for rule, group in together.groupby("rule", sort=False)}
    return {
        "by_rule": by_rule,
        "random": by_rule["random"].iloc[0],
        "sufficient": sizes_by_file[count_tables.ALL],
        "pool": int(together.pool.iloc[0]),
        "chosen": f"{int(together.prompts.iloc[0]):,}",
        "least": probes.LEAST_IMPROVEMENT,
        "shown": pd.DataFrame(columns),
        "sizes": sizes.astype(object),
    }


VALUES: dict[str, Callable[[dict, dict[str, pd.DataFrame]], dict]] = {"probe_sizes": samples_per_prompt}
