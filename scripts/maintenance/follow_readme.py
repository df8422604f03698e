"""Run the `make` commands in the code block of README.md, then the dry-runs of README.md, in a
minimal Debian, in a copy of this clone.

    sudo .venv/bin/python scripts/maintenance/follow_readme.py --root /var/lib/hardgrpo-debian             # all these commands
    sudo .venv/bin/python scripts/maintenance/follow_readme.py --root /var/lib/hardgrpo-debian --quick     # set-up and dry-runs

debootstrap installs Debian with the requirements that README.md names (make, and Python with
Debian's package python3-venv), with CA certificates, and with git, which tests and provenance need.
pip gets this machine's settings: the variables PIP_* and *_proxy, and the files and folders whose
absolute paths these variables name. The commands run as root in a chroot, which does not confine
root: an account that can change files of --root could become root of this machine. Therefore the
program refuses a folder if another account owns, or can write to, the folder or a folder above it.
Exception: other accounts may write to a folder above it that has the sticky bit, such as /tmp.
"""

import repository_files
from hardgrpo.runtime import errors, files
from hardgrpo.runtime.errors import UserError

import argparse
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = "python3,python3-venv,make,git,ca-certificates"
CLONE = "root/clone"
COMPLETE = ".debootstrap-complete"  # written into the folder after debootstrap
# Separate mount and process namespaces, so that no mount and no process remains after
# a command.
IN_NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec"]
# $0: folder of the Debian, $1: script to run there
MOUNT_AND_CHROOT = 'mount -t proc proc "$0/proc"; mkdir -p "$0/dev/shm"; mount -t tmpfs tmpfs "$0/dev/shm"; exec chroot "$0" sh -ec "$1"'


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--root",
        required=True,
        type=Path,
        help="folder of the Debian, which is created if necessary and kept; its clone is made anew",
    )
    parser.add_argument(
        "--release",
        default="bookworm",
        help="release of Debian to install, if --root is empty (default: %(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="only set-up and dry-runs")
    args = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise UserError(
            "an empty Debian needs root and debootstrap; run as root, after: apt-get install debootstrap"
        )
    make_debian(args.root, args.release)
    copy_clone(args.root / CLONE)
    variables = copy_settings_of_pip(args.root)
    for command in read_commands(files.read_text(ROOT / "README.md"), args.quick):
        print(f"\n$ {command}", flush=True)
        script = f"cd /{CLONE}; export PATH=/{CLONE}/.venv/bin:$PATH; {command}"
        run(
            [*IN_NAMESPACES, MOUNT_AND_CHROOT, args.root, script],
            {
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": "/root",
                "LC_ALL": "C.UTF-8",
                **variables,
            },
        )
    print("\nREADME.md was followed to its end")


def make_debian(root: Path, release: str) -> None:
    """Install a Debian in the folder `root`, or reuse the Debian that an earlier call installed.
    Raise a `UserError` for a folder with other content."""
    root.mkdir(parents=True, exist_ok=True)
    if not any(root.iterdir()):
        run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", release, root])
        (root / COMPLETE).touch()
    if not (root / COMPLETE).is_file():
        raise UserError(
            f"{root}: holds no Debian that an earlier call of this program completed; delete it, or name another folder"
        )


def read_commands(readme: str, quick: bool) -> list[str]:
    """The `make` commands in the code block of README.md, then the dry-runs in its text. With
    `quick`: `make setup`, then the dry-runs."""
    matches = re.findall(
        r"^    (make \w+)  |`(\.venv/bin/snakemake -n [^`]*)`", readme, re.MULTILINE
    )
    readme_commands = [block or inline for block, inline in matches]
    dry_runs = [command for command in readme_commands if "snakemake -n" in command]
    long_commands = [command for command in readme_commands if command not in dry_runs]
    return ["make setup", *dry_runs] if quick else [*long_commands, *dry_runs]


def copy_clone(folder: Path) -> None:
    """Copy the repository's files from the working tree and commit them. The clone of an earlier call
    is deleted first, so that no command finds environments or results."""
    if folder.exists():
        shutil.rmtree(folder)
    repository_files.copy_to(folder)
    git = [
        "git",
        "-C",
        folder,
        "-c",
        "user.name=readme",
        "-c",
        "user.email=readme@localhost",
        "-c",
        "commit.gpgsign=false",
    ]
    for command in ("init --quiet", "add --all", "commit --quiet --allow-empty --message=copied"):
        subprocess.run([*git, *command.split()], check=True)


def copy_settings_of_pip(root: Path) -> dict[str, str]:
    """Copy into the Debian: resolv.conf, hosts, and the files and folders whose absolute paths the
    variables of pip and of proxies name. Return {name: value} of these variables."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.lower().endswith("_proxy")
    }
    paths = {
        Path(word) for value in variables.values() for word in value.split() if word.startswith("/")
    }
    for path in [Path("/etc/resolv.conf"), Path("/etc/hosts"), *paths]:
        target = root / path.relative_to("/")
        if path.is_dir():
            shutil.copytree(path, target, dirs_exist_ok=True)
        elif path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return variables


def run(command: list, env: dict | None = None) -> None:
    """Run a command. Raise a `UserError` if it fails."""
    process = subprocess.run(command, env=env, check=False)
    if process.returncode:
        raise UserError(f"failed with exit status {process.returncode}: {command[-1]}")


if __name__ == "__main__":
    errors.run(main)
