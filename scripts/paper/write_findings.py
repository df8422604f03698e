"""Check the conditions of the paper's sentences against the committed tables, and write the paper's
numbers as LaTeX macros.

    python scripts/paper/write_findings.py --text paper/main.tex --findings paper/findings.yaml \\
        --design '{...}' --output paper/findings/numbers.tex --examples paper/findings/examples.tex

The program reads the tables that paper/findings.yaml names (results/reference/STUDY/TABLE.csv),
and writes nothing if a table does not fulfil a condition. A CSV file beside the output, such as numbers.csv, lists the file, lines and column of each macro. --design holds the
entries of the configuration that the paper describes, as JSON.
"""

from hardgrpo.runtime import files, warm

import argparse
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", required=True, help="the paper's text, in LaTeX")
    parser.add_argument(
        "--findings", required=True, help="YAML file with the numbers and the sentences' conditions"
    )
    parser.add_argument("--design", required=True, type=files.as_object)
    parser.add_argument("--root", default=".", help="folder of results/reference")
    parser.add_argument("--output", required=True, help="file for the macros")
    parser.add_argument("--examples", required=True, help="file for the examples of the tasks")
    args = parser.parse_args()

    from hardgrpo.report import findings, task_examples  # imported late: see hardgrpo.runtime.warm

    entries = files.read_yaml(args.findings)
    tables = findings.Committed(args.root, args.design)
    checked = findings.check(tables, entries["claims"], files.read_text(args.text), args.text)
    rows = findings.macros(tables, entries["numbers"])
    files.write_text(args.output, findings.commands(rows))
    files.write_rows(Path(args.output).with_suffix(".csv"), findings.ORIGIN, rows)
    files.write_text(args.examples, task_examples.as_latex())
    print(f"{args.text}: {len(rows)} numbers; {checked} conditions hold")


if __name__ == "__main__":
    warm.run(main)
