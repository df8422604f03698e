"""Write the text of a study's supplement and its tables: as LaTeX and HTML (in percentage points,
with intervals) and as CSV (shares, all digits).

    python scripts/paper/write_supplement.py --text paper/supplement.tex.j2 --design '{...}' \\
        --tables results/reference/mini/*.csv paper/mini/*.csv results/published/deviations.csv \\
        --output paper/mini

--design is the study's design (designs.design), as JSON. --output is the folder for tables/,
captions.tex (of tables and figures), supplement.tex, and numbers.csv, which lists the file, line and
column of each number of the text. src/hardgrpo/report/tables.py lists the tables.
"""

from hardgrpo.runtime import errors, files, warm

from pathlib import Path


def main() -> None:
    parser = errors.parser(__doc__)
    parser.add_argument("--text", required=True, help="the template of the text, in LaTeX")
    parser.add_argument("--design", required=True, type=files.as_object)
    files.add_tables(parser)
    parser.add_argument("--output", required=True, type=Path)
    args = parser.parse_args()

    # imported late: see hardgrpo.runtime.warm
    from hardgrpo.analysis import arms, summaries
    from hardgrpo.report import figures, latex, paper, registry, tables

    names = [*registry.SUMMARIES, *registry.JUDGED, "deviations"]
    frames = summaries.read_all(args.tables, names, args.design["first_recipe"])
    folder = next(iter(args.tables.values())).parent
    path_of = lambda name: str(args.tables.get(name, folder / f"{name}.csv"))
    captions = []
    for name, table in tables.TABLES.items():
        rows, columns = tables.make(name, frames, args.design)
        title = f"{args.design['study']}: {name.replace('_', ' ')}"
        path = f"{args.output}/tables/{name}"
        files.write_text(f"{path}.csv", arms.drop_labels(rows).to_csv(index=False))
        files.write_text(f"{path}.tex", tables.to_latex(columns))
        if len(rows):
            files.write_text(f"{path}.html", tables.to_html(title, columns, table.caption))
        source = latex.source("src/hardgrpo/report/tables.py", [path_of(table.source)])
        captions.append(latex.caption("table", name, table.caption, source))
    for name, caption in registry.FIGURES.items():
        shown = list(map(path_of, figures.sources(name)))
        source = latex.source("src/hardgrpo/report/figures.py", shown)
        captions.append(latex.caption("figure", name, caption, source))
    files.write_text(args.output / "captions.tex", "".join(captions))
    text = paper.Paper(".", args.design, args.tables)
    files.write_text(args.output / "supplement.tex", text.fill(args.text))
    files.write_rows(args.output / "numbers.csv", paper.ORIGIN, text.origins)
    print(f"{args.output}: {len(tables.TABLES)} tables, a text with {len(text.origins)} numbers")


if __name__ == "__main__":
    warm.run(main)
