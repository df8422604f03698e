"""Run pip with the user's settings that say where packages come from, and with no others of the user's settings:

    python -I src/hardgrpo/runtime/pip_settings.py install -r envs/training.lock

Other settings (user, target, prefix, constraint, no-binary ...) would put packages elsewhere, or refuse the packages of a lock. This file
runs in an environment that has only pip, so it imports only what Python brings along.
"""

import ast
import os
import subprocess
import sys

# Options of pip, by their long names.
SOURCES = {
    *("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "cert", "client-cert", "proxy", "keyring-provider"),
    *("timeout", "default-timeout", "retries", "resume-retries", "cache-dir", "no-cache-dir", "use-deprecated", "use-feature"),
}


def environment(command: str) -> dict[str, str]:
    """This process's environment for pip's command (`install`, `download`): of pip's settings only SOURCES, as variables PIP_..."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    settings = {"disable-pip-version-check": "1", "config-file": os.devnull}
    listing = config_list(variables)
    for section in ("global", command):  # a command's own section wins
        settings |= {name: value for place, name, value in listing if place == section and name in SOURCES}
    for name, value in os.environ.items():
        option = name.removeprefix("PIP_").lower().replace("_", "-")
        if name.startswith("PIP_") and option in SOURCES and value:
            settings[option] = value
    return variables | {f"PIP_{name.upper().replace('-', '_')}": " ".join(value.split()) for name, value in settings.items()}


def config_list(variables: dict[str, str]) -> list[tuple[str, str, str]]:
    """[(section, option, value)] of pip's configuration files."""
    files = {"PIP_CONFIG_FILE": os.environ["PIP_CONFIG_FILE"]} if os.environ.get("PIP_CONFIG_FILE") else {}
    call = [sys.executable, "-I", "-m", "pip", "config", "list"]
    done = subprocess.run(call, env=variables | files, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: pip cannot read its settings; correct them: {' '.join((done.stderr or done.stdout).split())}")
    entries = (line.partition("=") for line in done.stdout.splitlines())
    return [(*key.rpartition(".")[::2], ast.literal_eval(value)) for key, _, value in entries]


if __name__ == "__main__":
    os.execve(sys.executable, [sys.executable, "-I", "-m", "pip", *sys.argv[1:]], environment(sys.argv[1]))
