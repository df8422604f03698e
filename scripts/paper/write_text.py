"""Fill the text of the paper over all studies, or of a study's supplement, from tables.

    python scripts/paper/write_text.py --text paper/main.tex.j2 --design '{...}' \\
        --output paper/main.tex --origins paper/findings/numbers.csv
    python scripts/paper/write_text.py --text paper/supplement.tex.j2 --design '{...}' \\
        --tables results/reference/mini/*.csv paper/mini/*.csv \\
        --output paper/mini/supplement.tex --origins paper/mini/numbers.csv

The program writes nothing if a table does not support a sentence. --origins lists the file, lines and
column of each number. --design holds the parts of the configuration that the text describes, as JSON: for a
supplement, the study's design. The paper reads committed tables, a supplement the --tables.
"""

from hardgrpo.runtime import errors, files, warm


def main() -> None:
    parser = errors.parser(__doc__, "--output")
    parser.add_argument("--text", required=True, help="the template of the text, in LaTeX")
    parser.add_argument("--design", required=True, type=files.as_object)
    files.add_tables(parser, required=False)
    parser.add_argument("--origins", required=True, help="file for the origins of the numbers")
    args = parser.parse_args()

    from hardgrpo.report import paper  # imported late: see hardgrpo.runtime.warm

    filled = paper.Paper(".", args.design, args.tables)
    files.write_text(args.output, filled.fill(args.text))
    files.write_rows(args.origins, paper.ORIGIN, filled.origins)
    print(f"{args.output}: {len(filled.origins)} numbers; all sentences hold")


if __name__ == "__main__":
    warm.run(main)
