"""Draw the leads of chosen prompts over a random choice, and gains of a published model.

    python scripts/figures/draw_ways.py --cases results/reference/all/which-prompts.csv \\
        --classes results/reference/before_after/difficulty_classes.csv --output which_prompts.pdf
"""

from hardgrpo.runtime import errors, files, warm

import io


def main() -> None:
    parser = errors.parser(__doc__)
    parser.add_argument("--cases", required=True, help="results/reference/all/which-prompts.csv")
    parser.add_argument("--classes", required=True, help="table difficulty_classes")
    parser.add_argument("--output", required=True, help="the figure, as PDF")
    args = parser.parse_args()

    from hardgrpo.report import ways

    import matplotlib.pyplot as plt  # imported late: see hardgrpo.runtime.warm
    import pandas as pd

    tables = (
        pd.read_csv(io.StringIO(files.read_text(path))) for path in (args.cases, args.classes)
    )
    figure = ways.draw(*tables)
    with files.atomic(args.output) as temporary:
        figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})
    plt.close(figure)


if __name__ == "__main__":
    warm.run(main)
