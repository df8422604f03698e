"""`make cluster` makes environments in a folder that several clones share. The locks of these tests
name only pip, setuptools and a package without code."""

import concurrent.futures
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from conftest import ROOT, World

pytestmark = pytest.mark.installs

# pip builds the clone's own package with this version
SETUPTOOLS = importlib.metadata.version("setuptools")
PIP = importlib.metadata.version("pip")


class Clone(World):
    """A small clone with a Makefile, and with locks that name packages of `wheels`."""

    def __init__(self, folder: Path, wheels: Path):
        super().__init__(folder)
        self.wheels = wheels
        for name in ("Makefile", "pyproject.toml"):
            shutil.copy2(ROOT / name, folder)
        self.lock("pip", pip=PIP)
        self.lock("build", setuptools=SETUPTOOLS)
        for name in ("training", "gpu"):
            self.lock(name, tests_packages="1.0", setuptools=SETUPTOOLS)

    def lock(self, name: str, checksum: str | None = None, **versions: str) -> None:
        """Write a lock of packages with the checksums of their wheels, or with `checksum`."""
        wheels = {
            package: self.wheels / f"{package}-{version}-py3-none-any.whl"
            for package, version in versions.items()
        }
        checksums = {
            package: checksum or hashlib.sha256(wheel.read_bytes()).hexdigest()
            for package, wheel in wheels.items()
        }
        lines = [
            f"{package}=={version} --hash=sha256:{checksums[package]}\n"
            for package, version in versions.items()
        ]
        (self.folder / f"envs/{name}.lock").write_text("".join(lines))

    def make(
        self, *arguments: str, wheels: bool = True, **variables: str
    ) -> subprocess.CompletedProcess:
        index = {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels) if wheels else "",
            "PIP_EXTRA_INDEX_URL": "",
        }
        index |= {"MAKEFLAGS": "", "MAKELEVEL": ""}  # these tests may themselves run under make
        command = ["make", f"PYTHON={sys.executable}", *arguments]
        environment = os.environ | index | variables
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def names(self) -> tuple[str, str]:
        return tuple((self.folder / link).resolve().name for link in (".venv", ".venv-gpu"))


@pytest.fixture
def wheels(tmp_path) -> Path:
    """A folder of wheels, so that nothing is downloaded: pip, setuptools, and a package that makes
    the packages installed for these tests visible in another environment."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        info = f"tests_packages-{version}.dist-info"
        with zipfile.ZipFile(folder / f"tests_packages-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr("tests_packages.pth", sysconfig.get_path("purelib") + "\n")
            wheel.writestr(
                f"{info}/METADATA",
                f"Metadata-Version: 2.1\nName: tests-packages\nVersion: {version}\n",
            )
            wheel.writestr(
                f"{info}/WHEEL",
                "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            wheel.writestr(f"{info}/RECORD", "")
    for package in map(importlib.metadata.distribution, ("pip", "setuptools")):
        with zipfile.ZipFile(
            folder / f"{package.name}-{package.version}-py3-none-any.whl", "w"
        ) as wheel:
            for name in package.files:
                if name.suffix != ".pyc" and ".." not in name.parts:
                    wheel.write(package.locate_file(name), name)
    return folder


def change_times(folder: Path) -> dict[Path, int]:
    """{file: time of its last change in ns} of all files but compiled Python."""
    return {
        path: path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def test_clones_with_equal_locks_share_their_environments(tmp_path, wheels):
    shared = tmp_path / "shared"
    first, second, third = (Clone(tmp_path / name, wheels) for name in ("first", "second", "third"))
    # Two clones at once: one clone makes the environments, the other waits.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        processes = list(
            pool.map(lambda clone: clone.make("cluster", f"ENVIRONMENTS={shared}"), (first, third))
        )
    assert not any(done.returncode for done in processes), "".join(
        done.stdout + done.stderr for done in processes
    )
    for lock in ("pip", "build", "training", "gpu"):
        installed_locks = sum(
            done.stdout.count(f"packages of envs/{lock}.lock") for done in processes
        )
        assert installed_locks == (2 if lock in ("pip", "build") else 1), (
            "pip.lock and build.lock must be installed twice (.venv, .venv-gpu), other locks once"
        )
    assert (
        {path.name for path in shared.iterdir() if path.is_dir()}
        == set(first.names())
        == set(third.names())
    )

    # Snakemake in .venv plans a study for a cluster. On a node with GPUs, programs restart in
    # .venv-gpu.
    planned = subprocess.run(
        [".venv/bin/python", "-m", "snakemake", "-n", "--profile", "slurm", "--config", "study=mini"],
        cwd=first.folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert planned.returncode == 0 and "train_grpo" in planned.stdout + planned.stderr, (
        planned.stderr
    )
    vllm_python = subprocess.run(
        [sys.executable, "-c", "from hardgrpo.runtime import environments; print(environments.vllm_python(1))"],
        cwd=first.folder / "scripts", env={"PATH": os.defpath, "PYTHONPATH": str(first.folder / "src")}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    path = vllm_python.stdout.strip()
    assert path == str(first.folder / ".venv-gpu/bin/python") and os.access(path, os.X_OK)

    # Another clone uses the environments without installing a package. Later calls of make without
    # ENVIRONMENTS use the same folder.
    done = second.make("cluster", f"ENVIRONMENTS={shared}", wheels=False)
    assert done.returncode == 0 and second.names() == first.names(), done.stderr
    assert second.make("setup", wheels=False).returncode == 0 and second.names() == first.names()

    # The second clone gets a new environment after a change of its lock.
    second.lock("training", tests_packages="2.0", setuptools=SETUPTOOLS)
    assert second.make("setup").returncode == 0
    assert second.names()[0] != first.names()[0] and second.names()[1] == first.names()[1]
    before = change_times(shared)
    # With an empty ENVIRONMENTS, the environment is made in the clone, and the shared folder is
    # unchanged.
    done = second.make("setup", "ENVIRONMENTS=")
    assert done.returncode == 0 and not (second.folder / ".venv").is_symlink(), done.stderr
    assert change_times(shared) == before
    assert second.make("setup").stdout.strip().endswith("Nothing to be done for 'setup'.")
    # With ENVIRONMENTS the clone uses the shared environment again.
    assert (
        second.make("cluster", f"ENVIRONMENTS={shared}", wheels=False).returncode == 0
        and second.names()[1] == first.names()[1]
    )


def test_an_environment_that_was_not_finished_is_made_again(tmp_path, wheels):
    clone, shared = Clone(tmp_path / "clone", wheels), tmp_path / "shared"
    assert clone.make("setup", f"ENVIRONMENTS={shared}", wheels=False).returncode != 0
    done = clone.make("setup")
    assert done.returncode == 0 and (clone.folder / ".venv/training.ready").exists(), done.stderr


def test_a_package_with_another_checksum_is_refused(tmp_path, wheels):
    clone = Clone(tmp_path / "clone", wheels)
    clone.lock("training", checksum="0" * 64, tests_packages="1.0")
    done = clone.make("setup")
    assert done.returncode != 0 and not (clone.folder / ".venv/training.ready").exists()
    assert (
        f"Expected sha256 {'0' * 64}" in done.stderr
        and "tests_packages-1.0-py3-none-any.whl" in done.stderr
    )
    assert "error: envs/training.lock was not installed, for the reason above" in done.stdout
    installed = [path.name for path in (clone.folder / ".venv").rglob("*.dist-info")]
    assert not [name for name in installed if name.startswith("tests_packages")]

    # A build of torch for CPUs with another checksum is refused, too.
    (wheels / "torch-2.13.0+cpu-py3-none-any.whl").write_bytes(
        (wheels / "tests_packages-1.0-py3-none-any.whl").read_bytes()
    )
    done = clone.make("setup")
    assert (
        done.returncode != 0
        and "DO NOT MATCH THE HASHES" in done.stdout
        and "torch==2.13.0+cpu" in done.stdout
    )
    assert "error: envs/torch-cpu.lock was not installed, for the reason above" in done.stdout
    (wheels / "torch-2.13.0+cpu-py3-none-any.whl").unlink()

    # A package without a checksum in the lock is refused.
    (clone.folder / "envs/training.lock").write_text("tests_packages==1.0\n")
    done = clone.make("setup")
    assert done.returncode != 0 and "Hashes are required in --require-hashes mode" in done.stderr


def make_modules_of_another_python(folder: Path) -> str:
    """Fill `folder` with Python modules, as an environment module for another Python would add to
    PYTHONPATH. Each module ends a program that imports it. Return the entry of PYTHONPATH."""
    for name in (
        "snakemake",
        "yaml",
        "numpy",
        "pandas",
        "pip",
        "setuptools",
        "pathlib",
        "sitecustomize",
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(
            f"raise SystemExit('the {name} of another Python')\n"
        )
    return str(folder)


def test_settings_of_the_user_and_of_environment_modules_do_not_matter(tmp_path, wheels):
    """The settings are pip's files and variables, variables of Python and Matplotlib, modules of
    another Python, and a HOME in which no file can be written."""
    nowhere = str(tmp_path / "nowhere")
    (tmp_path / "settings/pip").mkdir(parents=True)
    (tmp_path / "settings/pip/pip.conf").write_text(
        f"[global]\nno-binary = :all:\ntarget = {nowhere}\n[install]\nuser = true\nprefix = {nowhere}\ndry-run = true\n"
    )
    user = {
        "XDG_CONFIG_HOME": str(tmp_path / "settings"),
        "HOME": "/proc/nobody",
        "PYTHONPATH": make_modules_of_another_python(tmp_path / "modules"),
    }
    user |= {
        "PIP_USER": "1",
        "PIP_CONSTRAINT": nowhere,
        "PIP_TARGET": nowhere,
        "PIP_REQUIRE_VIRTUALENV": "1",
        "PIP_ROOT": nowhere,
    }
    user |= {
        "PYTHONHOME": nowhere,
        "PYTHONSAFEPATH": "1",
        "PYTHONWARNINGS": "error",
        "MPLBACKEND": "module://nowhere",
    }
    clone = Clone(tmp_path / "clone", wheels)
    done = clone.make("setup", **user)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not Path(nowhere).exists()

    shutil.copytree(
        ROOT / "results/reference", clone.folder / "results/reference", dirs_exist_ok=True
    )
    options = ["--profile", "laptop", "--cores", "1", "--config", "study=mini"]
    for arguments in (
        ["-n", *options],
        ["results/tasks/swaps/questions.jsonl", *options],
        ["paper/mini/figures/pipeline.pdf", *options],
    ):
        call = [".venv/bin/snakemake", *arguments]
        done = subprocess.run(
            call,
            cwd=clone.folder,
            env=os.environ | user,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("folder", ["my envs", "it's", "a;b", ".venv/envs", "$(touch x)"])
def test_a_folder_for_environments_that_cannot_be_used_is_refused_before_anything_is_deleted(
    folder, tmp_path, wheels
):
    clone = Clone(tmp_path / "clone", wheels)
    (clone.folder / ".venv").mkdir()
    before = change_times(clone.folder)
    done = clone.make("setup", f"ENVIRONMENTS={folder.replace('$', '$$')}", wheels=False)
    assert (
        done.returncode != 0
        and f'ENVIRONMENTS="{folder}"' in done.stderr
        and "name a folder" in done.stderr
    )
    assert (clone.folder / ".venv").is_dir() and change_times(clone.folder) == before


def test_a_package_that_vanished_from_the_index_is_reported_with_a_remedy(tmp_path, wheels):
    clone = Clone(tmp_path / "clone", wheels)
    lock = clone.folder / "envs/training.lock"
    lock.write_text(f"tests_packages==3.0 --hash=sha256:{'0' * 64}\n")
    done = clone.make("setup")
    assert done.returncode != 0 and not (clone.folder / ".venv/training.ready").exists()
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "tests_packages==3.0: pip finds other versions" in line
    assert "PIP_FIND_LINKS=FOLDER" in line and "make locks" in line

    lock.write_text(f"nowhere==1.0 --hash=sha256:{'0' * 64}\n")
    done = clone.make("setup")
    assert done.returncode != 0 and "nowhere==1.0: pip finds no file of this package" in done.stderr
    # pip also searches a second folder for the file, and compares the lock's checksum.
    clone.lock("training", tests_packages="2.0", setuptools=SETUPTOOLS)
    second = tmp_path / "second"
    second.mkdir()
    (wheels / "tests_packages-2.0-py3-none-any.whl").rename(
        second / "tests_packages-2.0-py3-none-any.whl"
    )
    done = clone.make("setup", PIP_FIND_LINKS=f"{wheels} {second}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("version", [(3, 10, 4), (3, 15, 0)])
@pytest.mark.parametrize("usable", ["python3.12", None])
def test_an_unsupported_version_of_python_is_reported_before_anything_is_made(
    tmp_path, wheels, version, usable
):
    clone, folder = Clone(tmp_path / "clone", wheels), tmp_path / "bin"
    folder.mkdir()
    for name in ("python3.11", "python3.12", "python3.13"):
        (folder / name).write_text(f"#!/bin/sh\nexit {int(name != usable)}\n")
        (folder / name).chmod(0o755)
    code = (
        f"import runpy, sys; sys.version_info = {version}; sys.argv = sys.argv[2:];"
        " runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    (folder / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    (folder / "python3").chmod(0o755)
    done = clone.make(
        "setup", f"PYTHON={folder}/python3", PATH=os.pathsep.join([str(folder), os.environ["PATH"]])
    )
    assert done.returncode != 0 and not (clone.folder / ".venv").exists()
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert f"Python 3.11 to 3.13 is needed, this is {'.'.join(map(str, version))}" in line
    assert ("make PYTHON=python3.12" if usable else "uv python install 3.13") in line
    assert ("raise the pins" in line) == (version > (3, 13))
