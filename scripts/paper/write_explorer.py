"""Write the explorer of the completions of a study's base models and last checkpoints: a single HTML
file that can be opened from disk, mailed and archived.

    python scripts/paper/write_explorer.py --study mini --config '{...}' \\
        --output paper/mini/explorer.html

--config is the part of the configuration that determines the study's files (paths.study_part), as
JSON. The grades come from the evaluation files.
"""

from hardgrpo.report import explorer
from hardgrpo.runtime import errors, files
from hardgrpo.study.resolved import resolve_study


def main() -> None:
    parser = errors.parser(__doc__, "--study", "--output")
    parser.add_argument("--config", required=True, type=files.as_object)
    args = parser.parse_args()

    study = resolve_study(args.config, args.study)
    index, texts = explorer.read_study(study)
    page = explorer.page(study.title, index, texts)
    files.write_text(args.output, page)
    rows = sum(len(block["problem"]) for block in index["blocks"])
    print(
        f"{args.output}: {rows} completions of {len(index['blocks'])} evaluations, {len(page) / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    errors.run(main)
