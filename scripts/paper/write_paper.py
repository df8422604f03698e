"""Fill the text of the paper over all studies from committed tables, and draw its figure of the
leads over a random choice.

    python scripts/paper/write_paper.py --text paper/main.tex.j2 --design '{...}' \\
        --output paper/main.tex --origins paper/findings/numbers.csv \\
        --figure paper/findings/which_prompts.pdf

--design holds the parts of the configuration that the text describes, as JSON. --origins lists the
file, lines and column of each number. Nothing is written if a table does not support a sentence.
"""

from hardgrpo.runtime import errors, files, warm


def main() -> None:
    parser = errors.parser(__doc__, "--output")
    parser.add_argument("--text", required=True, help="the template of the text, in LaTeX")
    parser.add_argument("--design", required=True, type=files.as_object)
    parser.add_argument("--origins", required=True, help="file for the origins of the numbers")
    parser.add_argument("--figure", required=True, help="file for the figure, as PDF")
    args = parser.parse_args()

    # imported late: see hardgrpo.runtime.warm
    from hardgrpo.analysis import summaries
    from hardgrpo.report import paper, plotting, registry, ways

    text = paper.Paper(".", args.design)
    files.write_text(args.output, text.fill(args.text))
    files.write_rows(args.origins, paper.ORIGIN, text.origins)
    cases, classes = (summaries.read(path) for path in registry.WAYS)
    plotting.save(ways.draw(cases, classes), cases, [args.figure])
    print(f"{args.output}: {len(text.origins)} numbers; all sentences hold")


if __name__ == "__main__":
    warm.run(main)
