"""Write the pretraining settings of a base model to a file.

    python scripts/inputs/write_settings.py --settings '{"steps": 1400}' \\
        --output results/models/tiny.settings.json
"""

from hardgrpo.runtime import errors, files

import argparse


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--settings", required=True, help="JSON object")
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    settings = files.parse_json(args.settings, "--settings", "expected a JSON object")
    if not isinstance(settings, dict):
        raise errors.UserError(
            f"--settings: expected a JSON object, found {type(settings).__name__}; correct the command"
        )
    files.write_text(args.output, args.settings + "\n")


if __name__ == "__main__":
    errors.run(main)
