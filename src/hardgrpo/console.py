"""`hardgrpo`: choose which prompts to annotate or to train on, and see whether a training was worth
it. Works in any folder. `hardgrpo keys` explains the workflow's configuration."""

import argparse

from hardgrpo.choice import command, worth
from hardgrpo.runtime import errors, interruption
from hardgrpo.study import keys


def main() -> None:
    errors.run(run)


def run() -> None:
    interruption.watch()
    parser = build_parser()
    args = parser.parse_args()
    args.run(args)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hardgrpo", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command.add_command(commands)
    worth.add_command(commands)
    keys.add_command(commands)
    return parser


if __name__ == "__main__":
    main()
