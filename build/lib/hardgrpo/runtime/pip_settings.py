"""Run pip with only those settings of the user that affect downloads (index, proxy, certificates,
cache):

    python -I src/hardgrpo/runtime/pip_settings.py install -r envs/training.lock

Other settings (user, target, prefix, constraint, no-binary ...) would install packages elsewhere,
or refuse packages of a lock file. This program may run in an environment that has only pip, so it
imports only the standard library.
"""

import ast
import os
import platform
import re
import subprocess
import sys

# pip's options that affect downloads, by their long names
DOWNLOAD_OPTIONS = {
    "index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "cert", "client-cert",
    "proxy", "keyring-provider", "timeout", "default-timeout", "retries", "resume-retries", "cache-dir",
    "no-cache-dir", "use-deprecated", "use-feature",
}  # fmt: skip


def environment(command: str) -> dict[str, str]:
    """The environment for pip's `command` (install, download): this process's variables
    without PIP_*, and the user's settings of DOWNLOAD_OPTIONS as PIP_* variables. With these
    variables, pip reads no configuration file."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    settings = {"disable-pip-version-check": "1", "config-file": os.devnull}
    listing = config_list(variables)
    for section in ("global", command):  # the command's section takes precedence
        settings |= {
            name: value
            for place, name, value in listing
            if place == section and name in DOWNLOAD_OPTIONS
        }
    for name, value in os.environ.items():
        option = name.removeprefix("PIP_").lower().replace("_", "-")
        if name.startswith("PIP_") and option in DOWNLOAD_OPTIONS and value:
            settings[option] = value
    return variables | {
        f"PIP_{name.upper().replace('-', '_')}": " ".join(value.split())
        for name, value in settings.items()
    }


def config_list(variables: dict[str, str]) -> list[tuple[str, str, str]]:
    """[(section, option, value)] of pip's configuration files."""
    user_file = os.environ.get("PIP_CONFIG_FILE")
    variables = variables | ({"PIP_CONFIG_FILE": user_file} if user_file else {})
    command = [sys.executable, "-I", "-m", "pip", "config", "list"]
    process = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if process.returncode:
        sys.exit(
            f"error: pip cannot read its settings; correct them: {' '.join((process.stderr or process.stdout).split())}"
        )
    entries = (line.partition("=") for line in process.stdout.splitlines())
    return [(*key.rpartition(".")[::2], ast.literal_eval(value)) for key, _, value in entries]


def run_pip(arguments: list[str]) -> int:
    """Run pip. After pip's own messages, print what to do about each package that pip did not find.
    Return pip's exit status."""
    command = [sys.executable, "-I", "-m", "pip", *arguments]
    missing: dict[str, bool] = {}  # {requirement: has_other_versions}
    has_versions = False
    with subprocess.Popen(
        command, env=environment(arguments[0]), stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            if "(from versions:" in line:
                has_versions = "(from versions: none)" not in line
            if match := re.search(r"No matching distribution found for (\S+)", line):
                missing[match[1]] = has_versions
    for requirement, has_other_versions in missing.items():
        print(missing_package(requirement, has_other_versions), file=sys.stderr)
    return process.returncode


def missing_package(requirement: str, has_other_versions: bool) -> str:
    """The error message about a package that pip does not find. `has_other_versions`: whether pip
    finds other versions of the package."""
    python = ".".join(map(str, sys.version_info[:2]))
    system = f"Python {python} on {platform.system()} ({platform.machine()})"
    problem = (
        f"pip finds other versions, but no file of this version for {system}"
        if has_other_versions
        else f"pip finds no file of this package for {system}: the index does not have it, or cannot be reached (run 'pip config list' to see which index is set)"
    )
    return (
        f"error: {requirement}: {problem}; if the index has removed the file, put a copy into a folder and run again with PIP_FIND_LINKS=FOLDER"
        " (checksums are compared), or change the pin in envs/*.txt and run make locks: docs/reproduce.md#if-a-download-is-gone"
    )


if __name__ == "__main__":
    try:
        sys.exit(run_pip(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
