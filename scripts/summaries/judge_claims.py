"""Judge the papers' claims by a study's summary tables, and compare published numbers with the
study's numbers.

    python scripts/summaries/judge_claims.py --tables results/reference/mini/*.csv \\
        --claims paper/claims.yaml --published results/published \\
        --conditions '{"first_recipe": "mini", "tasks": {"arithmetic": {"completion_tokens": 48, "problems": "arithmetic"}}, "weaker": [], "own_bases": ["steady"]}' \\
        --output paper/mini

Of a study's results, the program reads only summary tables, so that a new or changed claim needs no
new training run.
--conditions is the return value of claim_conditions.conditions as JSON.
"""

from hardgrpo.report import registry
from hardgrpo.runtime import files, warm

import argparse
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    files.add_tables(parser)
    parser.add_argument("--claims", required=True)
    parser.add_argument("--published", required=True, help="folder of published numbers")
    parser.add_argument("--conditions", required=True, type=files.as_object)
    parser.add_argument(
        "--output", required=True, type=Path, help="folder for claims.csv and compared.csv"
    )
    args = parser.parse_args()

    # imported late: see hardgrpo.runtime.warm
    from hardgrpo.analysis import claims, published, summaries, verdicts

    tables = summaries.read_tables(
        args.tables,
        dict.fromkeys(name for table in registry.JUDGED.values() for name in table.of),
        args.conditions["first_recipe"],
    )
    judged = claims.judge(claims.read(args.claims), verdicts.Study(tables, **args.conditions))
    comparisons = published.compare(
        tables, published.read(args.published), published.read_readings(args.published)
    )
    for name, rows in (("claims", judged), ("compared", comparisons)):
        files.write_rows(
            args.output / f"{name}.csv", registry.JUDGED[name].columns, files.round_floats(rows)
        )
    for row in judged:
        if row["primary"]:
            print(f"{row['paper']}, {row['claim']}: {row['model']} {row['task']}: {row['verdict']}")
    descriptive = sum(not row["primary"] for row in judged)
    print(
        f"{args.output}: {descriptive} descriptive estimates; {len(comparisons)} published numbers compared with this study"
    )


if __name__ == "__main__":
    warm.run(main, may_start=False)
