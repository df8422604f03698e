"""Write one split of a task: generated problems, or those of a local file, checked and with unique ids.

    python scripts/prepare_task.py --task swaps --split test --output results/tasks/swaps/test.jsonl \\
        --source '{"kind": "generated", "family": "swaps", "objects": [3], "length": [2], "seed": 1, "train": 10, "test": 5}'
"""

import argparse
import json

from hardgrpo import errors, files, tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", required=True, help="name of the task")
    parser.add_argument("--source", required=True, type=json.loads, help="the task's `source` in config.yaml, as JSON")
    parser.add_argument("--split", required=True, choices=tasks.SPLITS)
    parser.add_argument("--data", default="data", help="folder of local files")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()

    problems = tasks.prepare(args.task, args.source, args.split, args.data)
    files.write_jsonl(args.output, problems)
    print(f"{args.output}: {len(problems)} problems")


if __name__ == "__main__":
    errors.run(main)
