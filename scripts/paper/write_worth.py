"""Write the page "Was it worth it?": the gain, its parts and its cost, for each arm of a study.

    python scripts/paper/write_worth.py --tables results/reference/mini/*.csv --study '{...}' \\
        --output paper/mini/worth.html \\
        --prices '{"gpu_hour": 2.5, "gpus": {"steady": {"mini": 0}}, "label": {"half": 2}}'

--study is the study's design (designs.design). --prices holds the prices of GPUs and labels and the
number of GPUs of each model and recipe (designs.prices). Both are JSON.
"""

from hardgrpo.runtime import errors, files, warm


def main() -> None:
    parser = errors.parser(__doc__, "--output")
    files.add_tables(parser)
    parser.add_argument("--study", required=True, type=files.as_object)
    parser.add_argument("--prices", required=True, type=files.as_object)
    args = parser.parse_args()

    from hardgrpo.analysis import summaries  # imported late: see hardgrpo.runtime.warm
    from hardgrpo.report import worth

    tables = summaries.read_all(args.tables, worth.TABLES, args.study["first_recipe"])
    files.write_text(args.output, worth.page(args.study, tables, args.prices))
    print(f"{args.output}: costs of {len(tables['spent'])} rows (model, task and arm)")


if __name__ == "__main__":
    warm.run(main)
