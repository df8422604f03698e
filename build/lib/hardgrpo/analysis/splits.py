"""Summary table of contamination: the numbers of a study's test questions that are also in its
training pools."""

from hardgrpo.runtime import files


def contamination(comparisons: list[dict]) -> list[dict]:
    """A row for each of `comparisons`, the return value of `pools.comparisons`."""
    rows = []
    for comparison in comparisons:
        pool, test = files.read_json(comparison["pool"]), files.read_json(comparison["test"])
        rows.append(
            {
                "task": comparison["task"],
                "eval_task": comparison["eval_task"],
                "pool": pool["problems"],
                "repeated": pool["repeated"],
                "near_in_pool": pool["near"],
                "problems": test["problems"],
                "equal": test["equal"],
                "near": test["near"],
                "repeated_in_test": test["repeated"],
            }
        )
    return rows
