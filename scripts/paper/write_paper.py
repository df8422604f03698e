"""Fill the text of the paper over all studies from committed tables.

    python scripts/paper/write_paper.py --text paper/main.tex.j2 --design '{...}' \\
        --output paper/main.tex --origins paper/findings/numbers.csv

The program writes nothing if a table does not support a sentence. --origins lists the file, lines and
column of each number. --design holds the entries of the configuration that the paper describes, as
JSON.
"""

from hardgrpo.runtime import errors, files, warm


def main() -> None:
    parser = errors.parser(__doc__)
    parser.add_argument("--text", required=True, help="the template of the paper, in LaTeX")
    parser.add_argument("--design", required=True, type=files.as_object)
    parser.add_argument("--output", required=True, help="file for the filled text")
    parser.add_argument("--origins", required=True, help="file for the origins of the numbers")
    args = parser.parse_args()

    from hardgrpo.report import paper  # imported late: see hardgrpo.runtime.warm

    filled = paper.Paper(".", args.design)
    files.write_text(args.output, filled.fill(args.text))
    files.write_rows(args.origins, paper.ORIGIN, filled.origins)
    print(f"{args.text}: {len(filled.origins)} numbers; all sentences hold")


if __name__ == "__main__":
    warm.run(main)
