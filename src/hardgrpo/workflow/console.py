"""`hardgrpo`: first results from your own files, without writing a configuration. Works in any
folder."""

import argparse

from hardgrpo.runtime import errors
from hardgrpo.workflow import choose, own_files, recorded_worth


def main() -> None:
    errors.run(run)


def run() -> None:
    args = build_parser().parse_args()
    own_files.check_clone()
    args.run(args)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hardgrpo", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    choose.add_command(commands)
    recorded_worth.add_command(commands)
    return parser


if __name__ == "__main__":
    main()
