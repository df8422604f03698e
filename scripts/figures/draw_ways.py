"""Draw every comparison of a way to choose prompts with a random choice of as many prompts.

    python scripts/figures/draw_ways.py --cases docs/which-prompts.csv --output which_prompts.pdf

The figure equals the figure of docs/which-prompts.md, but has no title and no panel of published
models.
"""

from hardgrpo.runtime import files, warm

import argparse
import io


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", required=True, help="docs/which-prompts.csv")
    parser.add_argument("--output", required=True, help="the figure, as PDF")
    args = parser.parse_args()

    from hardgrpo.report import ways

    import matplotlib.pyplot as plt  # imported late: see hardgrpo.runtime.warm
    import pandas as pd

    figure = ways.draw(pd.read_csv(io.StringIO(files.read_text(args.cases))), title="")
    with files.atomic(args.output) as temporary:
        figure.savefig(temporary, format="pdf", metadata={"CreationDate": None})
    plt.close(figure)


if __name__ == "__main__":
    warm.run(main, may_start=False)
