"""Execute the definitions of the container images without Apptainer, and keep each result as an OCI
archive from which Apptainer can build an image without internet.

    sudo .venv/bin/python scripts/maintenance/check_images.py --folder /var/lib/hardgrpo-images --only figures
    apptainer build envs/figures.sif oci-archive:/var/lib/hardgrpo-images/figures.oci.tar

buildah runs the sections as `apptainer build` does: %files, %post (sh -ex), %environment, %test (sh
without options, after %environment). The base is the image that the definition pins or, if that
image cannot be pulled, a Debian 12 from debootstrap. The locks also support the Python of Debian
12, version 3.11. In the image for figures, the program then draws the figures and the supplement of
a small study from the study's committed summaries.

While an image is built, pip has the variables PIP_* and *_proxy of this machine. The image does not
contain them. The sections run as root in a chroot, which does not confine root: choose a --folder
that only root can write to.
"""

import repository_files
from hardgrpo.runtime import errors, files, images
from hardgrpo.runtime.errors import UserError

import argparse
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
STUDY = "mini"
# When Apptainer builds an image from an OCI image, it empties the files 90- and 91-environment.sh
# in /.singularity.d/env, and leaves further files of that folder as they are. Containers of the
# built image source all files of that folder.
ENVIRONMENT_FILE = "/.singularity.d/env/92-definition.sh"
TEST_FILE = "/.singularity.d/test"
DEBIAN_PACKAGES = "python3,python3-venv,ca-certificates"
COMPLETE = ".debootstrap-complete"  # empty file, written after debootstrap has ended


@dataclass(frozen=True)
class Definition:
    name: str
    base: str
    files: dict[str, str]
    post: str
    environment: str
    test: str


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder",
        required=True,
        type=Path,
        help="folder for base image, temporary files and archives; created if necessary and kept",
    )
    parser.add_argument("--only", choices=list(images.LOCKS), help="one image (default: all)")
    args = parser.parse_args()
    for program in ("buildah", "debootstrap"):
        if os.geteuid() != 0 or not shutil.which(program):
            raise UserError(
                f"the check of images needs root and {program}; run as root, after: apt-get install buildah debootstrap"
            )
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in [args.only] if args.only else images.LOCKS:
        check_image(read_definition(name), args.folder.resolve())


def read_definition(name: str) -> Definition:
    """The sections of envs/NAME.def. Raise a `UserError` for a missing section."""
    path = f"envs/{name}.def"
    head, *parts = re.split(r"(?m)^%(\w+)[ \t]*\n", files.read_text(ROOT / path))
    sections = dict(zip(parts[::2], parts[1::2]))
    base = re.search(r"(?m)^From: (\S+)$", head)
    missing = [key for key in ("files", "post", "environment", "test") if key not in sections]
    if missing or base is None:
        raise UserError(
            f"{path}: {f'no section %{missing[0]}' if missing else 'no line From:'}; restore the file from git"
        )
    return Definition(
        name,
        base[1],
        dict(line.split() for line in sections["files"].splitlines() if line.strip()),
        *(sections[key] for key in ("post", "environment", "test")),
    )


def check_image(definition: Definition, folder: Path) -> None:
    """Execute a definition and save the result as an OCI archive. Raise a `UserError` that names
    the failed section, if a section fails."""
    started = time.monotonic()
    container, base = make_container(definition, folder)
    try:
        for source, target in definition.files.items():
            buildah(folder, "copy", container, ROOT / source, target)
        step(f"{definition.name}: %post on {base}")
        settings = build_settings()
        run(folder, container, f"%post of {definition.name}", definition.post, "-ex", settings)
        write_file(folder, container, ENVIRONMENT_FILE, f"#!/bin/sh\n{definition.environment}")
        write_file(folder, container, TEST_FILE, f"#!/bin/sh\n\n{definition.test}")
        # Programs other than Apptainer read the environment from the OCI image's configuration.
        for name, value in read_exports(definition.environment).items():
            buildah(folder, "config", "--env", f"{name}={value}", container)
        step(f"{definition.name}: %test")
        run(folder, container, f"%test of {definition.name}", in_environment(TEST_FILE))
        if definition.name == "figures":
            step(f"{definition.name}: figures and supplement of study {STUDY}")
            draw_study(folder, container)
        archive = folder / f"{definition.name}.oci.tar"
        step(f"{definition.name}: {archive}")
        with files.atomic(archive) as path:
            buildah(folder, "commit", "--quiet", container, f"oci-archive:{path}")
    finally:
        buildah(folder, "rm", container)
    test_archive(definition, folder, archive)
    step(
        f"{definition.name}: {archive.stat().st_size / 1e9:.2f} GB on {base}, {time.monotonic() - started:.0f} s"
    )


def step(text: str) -> None:
    print(f"--- {text}", flush=True)


def make_container(definition: Definition, folder: Path) -> tuple[str, str]:
    """(name of a new container with the base, the base in words)."""
    pinned = subprocess.run(
        [*command(folder), "from", "--quiet", f"docker://{definition.base}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if pinned.returncode == 0:
        return pinned.stdout.strip(), definition.base
    reason = (pinned.stderr.strip().splitlines() or ["no message"])[-1]
    print(f"{definition.base}: not pulled ({reason})")
    debian = folder / "debian"
    if not (folder / COMPLETE).is_file():
        step("Debian 12 by debootstrap")
        shutil.rmtree(debian, ignore_errors=True)
        call(
            ["debootstrap", "--variant=minbase", f"--include={DEBIAN_PACKAGES}", "bookworm", debian]
        )
        (folder / COMPLETE).touch()
    container = buildah(folder, "from", "scratch")
    buildah(folder, "add", "--quiet", container, debian, "/")
    # As in the pinned image, Python and pip are in /usr/local.
    run(folder, container, "the base's Python", "python3 -m venv /usr/local")
    return container, "Debian 12 with its Python"


def build_settings() -> list[str]:
    """Options of `buildah run` that give pip this machine's variables PIP_* and *_proxy, and the
    files that they name."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.lower().endswith("_proxy")
    }
    paths = {word for value in variables.values() for word in value.split() if word[:1] == "/"}
    mounted = sorted(path for path in paths if os.path.exists(path) and path != os.devnull)
    return [
        *(f"--env={name}={value}" for name, value in variables.items()),
        *(f"--volume={path}:{path}:ro" for path in mounted),
    ]


def read_exports(environment: str) -> dict[str, str]:
    """The variables of an %environment section. A variable that the section unsets is empty."""
    exports = dict(re.findall(r"(?m)^\s*export (\w+)=(\S*)$", environment))
    unset = re.findall(r"(?m)^\s*unset (.+)$", environment)
    return exports | {name: "" for names in unset for name in names.split()}


def in_environment(script: str) -> str:
    """A script that sources the environment's files, as Apptainer does, then executes `script`."""
    return f'for file in /.singularity.d/env/*.sh; do . "$file"; done\nexec {script}\n'


def write_file(folder: Path, container: str, path: str, text: str) -> None:
    """Write an executable file in a container."""
    source = folder / "section.sh"
    source.write_text(text)
    buildah(folder, "copy", "--chmod", "755", container, source, path)
    source.unlink()


def draw_study(folder: Path, container: str) -> None:
    """Draw the figures and the supplement of a study in a container, from a copy of the
    repository's files. Raise a `UserError` if there is no figure or no supplement."""
    clone = folder / "clone"
    shutil.rmtree(clone, ignore_errors=True)
    repository_files.copy_to(clone)
    call_snakemake = f"python -m snakemake figures supplement --profile laptop --cores 2 --config study={STUDY} draw=reference"
    run(
        folder,
        container,
        f"study {STUDY} in the image",
        in_environment(call_snakemake),
        "-e",
        [f"--volume={clone}:/clone", "--workingdir=/clone", "--env=PYTHONPATH=/clone/src"],
    )
    paper = clone / f"paper/{STUDY}"
    if not (paper / "supplement.pdf").is_file() or not list(paper.glob("figures/*.png")):
        raise UserError(
            f"{paper}: no supplement.pdf or no figures; read the logs in {clone}/results"
        )
    print(
        f"{paper}: {len(list(paper.glob('figures/*.png')))} figures, supplement.pdf of {(paper / 'supplement.pdf').stat().st_size:,} bytes"
    )
    shutil.rmtree(clone)


def test_archive(definition: Definition, folder: Path, archive: Path) -> None:
    """Run %test again in a container from the archive. Raise a `UserError` if the test fails, or if
    the configuration of the archive contains this machine's settings."""
    container = buildah(folder, "from", "--quiet", f"oci-archive:{archive}")
    try:
        run(folder, container, f"%test of {archive.name}", in_environment(TEST_FILE))
        settings = buildah(folder, "inspect", "--format", "{{.OCIv1.Config.Env}}", container)
        if "PIP_" in settings or "_proxy" in settings.lower():
            raise UserError(f"{archive}: holds settings of this machine: {settings}")
    finally:
        buildah(folder, "rm", container)
        buildah(folder, "rmi", "--all", "--force")


def run(
    folder: Path,
    container: str,
    script_name: str,
    script: str,
    options: str = "-e",
    settings: list[str] = (),
) -> None:
    """Run a script in a container with /bin/sh. Raise a `UserError` if the script fails."""
    process = subprocess.run(
        [*command(folder), "run", "--isolation", "chroot", *settings, container]
        + ["--", "/bin/sh", options, "-c", script],
        check=False,
    )
    if process.returncode:
        raise UserError(f"{script_name}: exit status {process.returncode}; the lines above say why")


def command(folder: Path) -> list[str]:
    """The first words of every call of buildah. The storage of buildah is in `folder` and needs no
    overlay file system."""
    storage = ["--root", str(folder / "storage"), "--runroot", str(folder / "run")]
    return ["buildah", "--storage-driver", "vfs", *storage]


def buildah(folder: Path, *arguments) -> str:
    """The output of a call of buildah. Raise a `UserError` if it fails."""
    return call([*command(folder), *arguments])


def call(words: list) -> str:
    process = subprocess.run([*map(str, words)], stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode:
        raise UserError(
            f"failed with exit status {process.returncode}: {' '.join(map(str, words))}"
        )
    return process.stdout.strip()


if __name__ == "__main__":
    errors.run(main)
