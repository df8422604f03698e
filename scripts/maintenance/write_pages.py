"""Write the generated parts of README.md and docs/ (results, published numbers, recommended
policies, rules of policies, studies, GPUs), and config/schema.json.

    python scripts/maintenance/write_pages.py
    python scripts/maintenance/write_pages.py --figures paper      # also write the figures of the pages to docs/images

The files of FILES are generated as a whole. On other pages, generated text is between two marks,
`<!-- NAME: made by ... -->` and `<!-- end of NAME -->`. A test compares the generated text with the
output of this program.
"""

from hardgrpo.runtime import errors, files
from hardgrpo.selection import policies
from hardgrpo.study import configuration, load, paths
from pages import (
    committed,
    gpus,
    published_numbers,
    recommended,
    results,
    studies,
    templates,
)

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[2]
FIGURES = dict.fromkeys(("accuracy.png", "kinds.png"), "mini_reference") | {
    "parts.png": "mini_truncation",
    "labels.png": "mini_labels",
    "rollouts.png": "mini_online",
    "samples_per_prompt.png": "math_probing",
    "before_after_training.png": "before_after",
}


# {(file, name of a generated block): function (root, config) -> text}
BLOCKS: dict[tuple[str, str], Callable[[Path, dict], str]] = {
    ("README.md", "found"): lambda root, config: templates.fill(
        "readme",
        root,
        **results.values(root, config),
        **recommended.values(root, config),
        pooled_lead=recommended.pooled_lead,
    ),
    ("docs/which-prompts.md", "recommended"): recommended.page,
    ("docs/which-prompts.md", "samples"): published_numbers.samples_section,
    ("docs/configuration.md", "rules"): lambda root, config: rules(),
    ("docs/reproduce.md", "studies"): studies.table,
    ("docs/cluster.md", "gpus"): lambda root, config: templates.table(gpus.table(config)),
}
# {generated file: function (root, config) -> text}. The CSV tables hold shares (0.05); the pages show the
# same values in percentage points (5.0).
FILES: dict[str, Callable[[Path, dict], str]] = {
    "docs/results.md": results.page,
    "docs/published-numbers.md": published_numbers.page,
    "config/schema.json": lambda root, config: editor_schema(),
    paths.committed_table("all/claims"): lambda root, config: csv(
        committed.all_claims(root, config)
    ),
    paths.committed_table("all/which-prompts"): lambda root, config: csv(
        recommended.every_case(root, config)
    ),
    "src/hardgrpo/choice/pooled_leads.csv": lambda root, config: csv(
        recommended.pooled_table(root, config)
    ),
}


def main() -> None:
    parser = errors.parser(__doc__)
    parser.add_argument("--root", default=ROOT, type=Path, help="the project's folder")
    parser.add_argument(
        "--figures",
        type=Path,
        help="copy the figures of the pages from this folder (for example paper/), which has a folder for each study, and draw which_prompts.png",
    )
    args = parser.parse_args()
    for name, text in generate_pages(args.root).items():
        files.write_text(args.root / name, text)
        print(args.root / name)
    available = {
        figure: study
        for figure, study in FIGURES.items()
        if (args.root / paths.reference(study)).is_dir()
    }
    for figure, study in available.items() if args.figures else []:
        source = args.figures / study / "figures" / figure
        if not source.is_file():
            raise errors.UserError(
                f"{source}: no such figure; draw it with: make figures STUDY={study}"
            )
        with files.atomic(args.root / "docs/images" / figure) as temporary:
            shutil.copyfile(source, temporary)
    if args.figures:
        draw_ways(args.root)


def draw_ways(root: Path) -> None:
    """Draw docs/images/which_prompts.png."""
    from hardgrpo.report import plotting, ways  # imports matplotlib

    config = load.read(root)
    cases = recommended.every_case(root, config)
    classes = pd.read_csv(root / paths.reference("before_after") / "difficulty_classes.csv")
    figure = ways.draw(cases, classes)
    plotting.save(figure, cases, [str(root / "docs/images/which_prompts.png")])


def generate_pages(root: Path) -> dict[str, str]:
    """{file: text} of all generated files, and of all pages with generated blocks."""
    config = load.read(root)
    texts = {name: files.read_text(root / name) for name, _ in BLOCKS}
    for (name, block), make in BLOCKS.items():
        texts[name] = fill_block(texts[name], block, make(root, config), name)
    return texts | {name: make(root, config) for name, make in FILES.items()}


def rules() -> str:
    """A table of the rules of policies: the prompts that each rule takes."""
    lines = ["| rule | takes |", "|---|---|"]
    for name, rule in policies.RULES.items():
        lines.append(f"| `{name}` | {rule.description} |")
    return "\n".join(lines)


def editor_schema() -> str:
    """The JSON schema with which an editor completes, explains and checks the keys of a file. A
    file may hold a part of the configuration, so no key is required; an entry may extend another."""
    json_schema = relaxed(configuration.schema())
    for name in ("Task", "Model", "Policy", "Recipe"):
        json_schema["$defs"][name]["properties"]["extends"] = {
            "description": "The entry of this section whose values this entry takes. The values beside `extends` replace them.",
            "type": "string",
        }
    return json.dumps(json_schema, indent=1, ensure_ascii=False) + "\n"


def relaxed(part):
    """A copy of a part of the schema without required keys."""
    if isinstance(part, list):
        return [relaxed(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    # a property of an object may have one of these names; its value is then a dictionary
    annotations = ("required", "title")
    return {
        "anyOf" if key == "oneOf" else key: relaxed(value)
        for key, value in part.items()
        if key != "discriminator" and (key not in annotations or isinstance(value, dict))
    }


def csv(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, lineterminator="\n")


def fill_block(text: str, block: str, body: str, path: str) -> str:
    """`text` with `body` between the two marks of `block`."""
    begin = f"<!-- {block}: made by scripts/maintenance/write_pages.py; a test checks that the text is current -->"
    end = f"<!-- end of {block} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise errors.UserError(
            f"{path}: expected '{begin}' and '{end}' once each; put both where the block belongs"
        )
    before, after_begin = text.split(begin)
    return f"{before}{begin}\n\n{body.strip()}\n\n{end}{after_begin.split(end)[1]}"


if __name__ == "__main__":
    errors.run(main)
