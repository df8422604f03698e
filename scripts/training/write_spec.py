"""Write `spec.yaml`, the full specification of a run (model, task, subset, recipe, seed), for
train_grpo.py.
"""

from hardgrpo.runtime import errors, files
from hardgrpo.study.spec import Spec


def main() -> None:
    parser = errors.parser(__doc__, "--output")
    parser.add_argument("--run", required=True, type=files.as_object, help="its fields, as JSON")
    args = parser.parse_args()
    Spec(**args.run).write(args.output)


if __name__ == "__main__":
    errors.run(main)
