"""Judge the papers' claims by a study's summary tables, and compare published numbers, and a random
choice of as many prompts, with the study's numbers.

    python scripts/summaries/judge_claims.py --tables results/reference/mini/*.csv \\
        --claims paper/claims.yaml --published results/published \\
        --study mini --policies '{"policies": {...}, "names": {...}}' --comparisons results/reference/all/which-prompts.csv \\
        --conditions '{"first_recipe": "mini", "tasks": {"arithmetic": {"completion_tokens": 48, "problems": "arithmetic"}}, "weaker": [], "own_bases": ["steady"]}' \\
        --output paper/mini

Of a study's results, the program reads only summary tables, so that a new or changed claim needs no
new training run.
--conditions is the return value of claim_conditions.conditions as JSON. --policies has the arguments
`policies` and `names` of random_choice.comparisons. --comparisons holds the comparisons of all
committed studies, with which those of this study are families (see random_choice).
"""

from hardgrpo.runtime import errors, files, warm

from pathlib import Path


def main() -> None:
    parser = errors.parser(__doc__, "--claims", "--study", "--comparisons")
    files.add_tables(parser)
    parser.add_argument("--published", required=True, help="folder of published numbers")
    parser.add_argument("--conditions", required=True, type=files.as_object)
    parser.add_argument("--policies", required=True, type=files.as_object)
    parser.add_argument(
        "--output",
        required=True,
        type=Path,
        help="folder for claims.csv, compared.csv and against_random.csv",
    )
    args = parser.parse_args()

    # imported late: see hardgrpo.runtime.warm
    from hardgrpo.analysis import claims, published, random_choice, summaries

    import pandas as pd

    tables = summaries.read_tables(
        args.tables,
        dict.fromkeys([*claims.TABLES, *published.TABLES]),
        args.conditions["first_recipe"],
    )
    listed_claims = files.read_yaml(args.claims)
    study = claims.Study(tables, **args.conditions)
    judged = claims.judge(listed_claims, study)
    against_random = claims.against_random(
        listed_claims, study, args.study, **args.policies, others=pd.read_csv(args.comparisons)
    )
    comparisons = published.compare(
        tables, published.read(args.published), published.read_readings(args.published)
    )
    against_random = [{name: row[name] for name in random_choice.COLUMNS} for row in against_random]
    for name, columns, rows in (
        ("claims", claims.COLUMNS, judged),
        ("compared", published.COMPARED, comparisons),
        ("against_random", random_choice.COLUMNS, against_random),
    ):
        files.write_rows(args.output / f"{name}.csv", columns, files.round_floats(rows))
    for row in judged:
        if row["primary"]:
            print(f"{row['paper']}, {row['claim']}: {row['model']} {row['task']}: {row['verdict']}")
    descriptive = sum(not row["primary"] for row in judged)
    print(
        f"{args.output}: {descriptive} descriptive estimates; {len(comparisons)} published numbers compared with this study"
    )


if __name__ == "__main__":
    warm.run(main)
