"""Start Snakemake after checking the files and options that Snakemake reads before the Snakefile.
`.venv/bin/snakemake` runs this module.

Snakemake itself ends with a traceback if an entry of --config or a file of --configfile is
malformed.
"""

import sys

import hardgrpo
from hardgrpo.runtime import user_settings

user_settings.ignore()
sys.excepthook = hardgrpo.show_failed_import

import argparse  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402

from snakemake import cli  # noqa: E402

from hardgrpo.runtime import files  # noqa: E402
from hardgrpo.runtime.errors import UserError  # noqa: E402


def main() -> None:
    sys.argv[0] = "snakemake"
    start = cli.args_to_api

    def check_and_start(args: argparse.Namespace, parser: argparse.ArgumentParser) -> bool:
        stop_at_errors(check, args)
        return start(args, parser)

    cli.args_to_api = check_and_start
    stop_at_errors(check_profiles)
    cli.main()


def stop_at_errors(function: Callable, *arguments) -> None:
    """Call a function. If it raises a `UserError`, end the program with the error's message."""
    try:
        function(*arguments)
    except UserError as error:
        sys.exit(f"error: {error}")


def check_profiles() -> None:
    """Raise a `UserError` for a profile's file that Snakemake cannot read. Snakemake's own message
    does not name the file."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--profile", nargs="*", default=[])
    for path in (Path(name) / "config.yaml" for name in parser.parse_known_args()[0].profile):
        if path.is_file():
            files.read_yaml(path)


def check(args: argparse.Namespace) -> None:
    """Raise a `UserError` for an entry of --config or a file of --configfile that Snakemake cannot
    read."""
    for entry in args.config or ():
        key, equals, value = entry.partition("=")
        if not equals:
            raise UserError(
                f"--config {entry}: expected NAME=VALUE, such as study=mini; write targets before the options"
            )
        *outer, name = key.split(".")
        if outer:
            text = "".join(f"{part}: {{" for part in outer) + f"{name}: {value}" + "}" * len(outer)
            raise UserError(
                f"--config {entry}: a key must not have dots; write `{text}` into a file and name the file: --configfile my.yaml"
            )
        try:
            cli.parse_config([entry])
        except ValueError:
            raise UserError(
                f"--config {entry}: '{key}' is not a key of the configuration; expected a key of config.yaml, such as study=mini"
            ) from None
    for name in args.configfile or ():
        files.read_yaml(name)


if __name__ == "__main__":
    main()
