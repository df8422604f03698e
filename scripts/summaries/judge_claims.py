"""Judge the papers' claims by a study's summaries, and set the published numbers beside the study's.

    python scripts/summaries/judge_claims.py --tables results/summaries/mini/*.csv --claims paper/claims.yaml --published results/published \\
        --conditions '{"tasks": {"swaps": {"completion_tokens": 48, "problems": "swaps"}, ...}, "weaker": ["arithmetic"]}'

Writes claims.csv and compared.csv, from summary tables alone: a claim that is added or changed needs no run.
--conditions is layout.conditions as JSON.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

from hardgrpo.analysis import claims, published, summaries
from hardgrpo.runtime import errors, files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    files.add_tables(parser)
    parser.add_argument("--claims", required=True)
    parser.add_argument("--published", required=True, help="folder of published numbers")
    parser.add_argument("--conditions", required=True, type=json.loads)
    parser.add_argument("--output", required=True, help="folder of claims.csv and compared.csv")
    args = parser.parse_args()

    folder = Path(args.output)
    tables = summaries.read_tables(args.tables, claims.TABLES)
    study = claims.Study(tables, args.conditions["tasks"], args.conditions["weaker"])
    judged = claims.judge(claims.read(args.claims), study)
    compared = published.compare(tables, published.read(args.published), published.read_readings(args.published))
    files.write_rows(folder / "claims.csv", claims.COLUMNS, files.rounded(judged))
    files.write_rows(folder / "compared.csv", published.COMPARED, files.rounded(compared))
    counts = Counter(row["verdict"] for row in judged)
    said = ", ".join(f"{counts[word]} {word}" for word in (claims.SUPPORTED, claims.CONTRADICTED, claims.UNDECIDED))
    print(f"{folder}: {said}; {len(compared)} published numbers were measured here")


if __name__ == "__main__":
    errors.run(main)
