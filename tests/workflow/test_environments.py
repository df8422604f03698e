"""`make` makes environments. The locks of these tests name only pip, setuptools, uv and a package
without code."""

import concurrent.futures
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
from hardgrpo.runtime import files
from wheels import write_wheel

pytestmark = pytest.mark.nightly

# uv builds the clone's own package with this version of setuptools
INSTALLERS = ("pip", "setuptools", "uv")
PIP, SETUPTOOLS, UV = map(importlib.metadata.version, INSTALLERS)
# makes the packages of this environment visible in another one
VISIBLE = {"tests_packages.pth": sysconfig.get_path("purelib") + "\n"}


class Clone(World):
    """A small clone with a Makefile, and with locks that name packages of `wheels`."""

    def __init__(self, folder: Path, wheels: Path):
        super().__init__(folder)
        self.wheels = wheels
        for name in ("Makefile", "pyproject.toml"):
            shutil.copy2(ROOT / name, folder)
        self.lock("pip", pip=PIP)
        self.lock("build", setuptools=SETUPTOOLS)
        self.lock("uv", uv=UV)
        self.lock("cuda")
        for name in ("training", "gpu"):
            self.lock(name, tests_packages="1.0", setuptools=SETUPTOOLS)

    def lock(self, name: str, checksum: str | None = None, **versions: str) -> None:
        """Write a lock of packages with the checksums of their wheels, or with `checksum`."""
        lines = []
        for package, version in versions.items():
            wheel = self.wheels / f"{package}-{version}-py3-none-any.whl"
            digest = checksum or files.sha256(wheel)
            lines.append(f"{package}=={version} --hash=sha256:{digest}\n")
        (self.folder / f"envs/{name}.lock").write_text("".join(lines))

    def start(self, *command: str, **variables: str) -> subprocess.CompletedProcess:
        environment = os.environ | variables
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True
        )

    def call(self, *command: str, **variables: str) -> str:
        """The output of a command that must succeed."""
        done = self.start(*command, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def make(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "PIP_EXTRA_INDEX_URL": ""}
        index |= {"MAKEFLAGS": "", "MAKELEVEL": ""}  # these tests may themselves run under make
        return self.start("make", f"PYTHON={sys.executable}", *arguments, **index | variables)

    def make_well(self, *arguments: str, **variables: str) -> str:
        done = self.make(*arguments, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def assert_refused(self, *words: str) -> None:
        """Assert that `make setup` fails with these words and leaves no finished environment."""
        done = self.make("setup")
        assert done.returncode != 0 and not (self.folder / ".venv/training.ready").exists()
        assert all(word in done.stderr for word in words), done.stderr


@pytest.fixture
def wheels(tmp_path) -> Path:
    """A folder of wheels, so that nothing is downloaded: pip, setuptools, uv, and a package that
    makes the packages installed for these tests visible in another environment."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        write_wheel(folder, "tests_packages", version, VISIBLE)
    for package in map(importlib.metadata.distribution, INSTALLERS):
        path = folder / f"{package.name}-{package.version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for name in package.files:
                if name.suffix != ".pyc" and ".." not in name.parts:
                    wheel.write(package.locate_file(name), name)
                elif name.name == "uv":  # .venv/bin/uv
                    wheel.write(package.locate_file(name), f"uv-{UV}.data/scripts/uv")
    return folder


@pytest.fixture
def clone(tmp_path, wheels) -> Clone:
    return Clone(tmp_path / "clone", wheels)


def versions(clone: Clone, environment: str = ".venv") -> dict[str, str]:
    """{package: version} in an environment, without the packages that are installed for the tests."""
    folders = (clone.folder / environment / "lib").glob("python*/site-packages/*.dist-info")
    return dict(folder.stem.split("-", 1) for folder in folders)


def test_make_cluster_makes_two_environments_that_can_plan_and_run_a_study(clone):
    clone.make_well("cluster")
    for environment in (".venv", ".venv-gpu"):
        packages = {"pip": PIP, "setuptools": SETUPTOOLS, "tests_packages": "1.0"}
        assert packages | {"hardgrpo": "0.1.0"} == versions(clone, environment)
        assert (clone.folder / environment / "bin/hardgrpo").exists()
    assert clone.make_well("setup").strip().endswith("Nothing to be done for 'setup'.")

    # Snakemake in .venv plans a study for a cluster. On a node with GPUs, programs restart in
    # .venv-gpu.
    python = ".venv/bin/python"
    options = ("--profile", "slurm", "--config", "study=mini")
    assert "train_grpo" in clone.call(python, "-m", "snakemake", "-n", *options)
    code = "from hardgrpo.runtime import environments; print(environments.vllm_python(1))"
    path = clone.call(python, "-c", code, HARDGRPO_VLLM_PYTHON="").strip()
    assert path == str(clone.folder / ".venv-gpu/bin/python") and os.access(path, os.X_OK)

    # A changed lock makes its environment again, and no other one.
    for environment in (".venv", ".venv-gpu"):
        (clone.folder / environment / "old").touch()
    clone.lock("training", tests_packages="2.0")
    clone.make_well("cluster")
    assert versions(clone)["tests_packages"] == "2.0" and "setuptools" not in versions(clone)
    assert not (clone.folder / ".venv/old").exists() and (clone.folder / ".venv-gpu/old").exists()


@pytest.mark.skipif(not shutil.which("flock"), reason="this system has no flock")
def test_of_two_calls_at_once_one_makes_the_environment_and_the_other_waits(clone):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        processes = list(pool.map(clone.make, ["setup", "cluster"]))
    output = "".join(done.stdout + done.stderr for done in processes)
    assert not any(done.returncode for done in processes), output
    assert output.count("packages of envs/training.lock") == 1
    assert versions(clone).keys() >= {"pip", "tests_packages", "hardgrpo"}


def test_an_environment_that_was_not_finished_is_made_again(clone):
    assert clone.make("setup", PIP_FIND_LINKS="").returncode != 0
    clone.make_well("setup")
    # as left by a call that was killed
    (clone.folder / ".venv/training.ready").unlink()
    (clone.folder / ".venv/bin/python").unlink()
    (clone.folder / ".venv-uv/bin/uv").write_bytes(b"")
    (clone.folder / ".venv-uv/uv.lock").unlink()
    clone.make_well("setup")
    assert (clone.folder / ".venv/training.ready").exists()
    clone.call(".venv/bin/hardgrpo", "--help")


def test_a_package_with_another_checksum_is_refused(clone, wheels):
    failed = "error: envs/training.lock was not installed, for the reason above"
    clone.lock("training", checksum="0" * 64, tests_packages="1.0")
    clone.assert_refused(f"sha256:{'0' * 64}", "tests-packages==1.0", failed)
    assert "tests_packages" not in versions(clone)

    # A build of torch for CPUs with another checksum is refused, too.
    torch = write_wheel(wheels, "torch", "2.13.0+cpu", {})
    clone.lock("training", tests_packages="1.0")
    clone.assert_refused("torch==2.13.0+cpu", failed)
    torch.unlink()

    # A package without a checksum in the lock is refused, and a uv or a setuptools with another one.
    (clone.folder / "envs/training.lock").write_text("tests_packages==1.0\n")
    clone.assert_refused("require-hashes")
    clone.lock("training", tests_packages="1.0")
    for name, package in (("build", {"setuptools": SETUPTOOLS}), ("uv", {"uv": UV})):
        clone.lock(name, checksum="0" * 64, **package)
        clone.assert_refused("0" * 64)
        clone.lock(name, **package)
    clone.make_well("setup")


def test_torch_is_the_build_for_cpus_only_where_an_index_has_it_and_the_environment_wants_it(
    clone, wheels
):
    """The packages of cuda.lock belong to PyPI's build of torch."""
    for version in ("2.13.0", "2.13.0+cpu"):
        write_wheel(wheels, "torch", version, {})
    write_wheel(wheels, "nvidia_libraries", "1.0", {})
    for name in ("training", "gpu"):
        clone.lock(name, tests_packages="1.0", torch="2.13.0")
    clone.lock("cuda", nvidia_libraries="1.0")
    clone.lock("torch-cpu", torch="2.13.0+cpu")
    clone.make_well("cluster")
    assert versions(clone)["torch"] == "2.13.0+cpu" and "nvidia_libraries" not in versions(clone)
    assert versions(clone, ".venv-gpu")["torch"] == "2.13.0"

    (wheels / "torch-2.13.0+cpu-py3-none-any.whl").unlink()
    (clone.folder / ".venv/training.ready").unlink()
    clone.make_well("setup")
    assert versions(clone)["torch"] == "2.13.0" and "nvidia_libraries" in versions(clone)


def test_settings_of_the_user_and_of_environment_modules_do_not_matter(clone, tmp_path):
    """The settings are pip's files and variables, variables of Python and Matplotlib, modules of
    another Python, and a HOME in which no file can be written."""
    nowhere, modules = str(tmp_path / "nowhere"), tmp_path / "modules"
    (tmp_path / "settings/pip").mkdir(parents=True)
    (tmp_path / "settings/pip/pip.conf").write_text(
        f"[global]\nno-binary = :all:\ntarget = {nowhere}\n[install]\nuser = true\nprefix = {nowhere}\ndry-run = true\n"
    )
    for name in ("snakemake", "yaml", "numpy", "pandas", "pip", "setuptools", "pathlib", "sitecustomize"):  # fmt: skip
        (modules / name).mkdir(parents=True)
        (modules / name / "__init__.py").write_text("raise SystemExit('of another Python')\n")
    user = {
        "XDG_CONFIG_HOME": str(tmp_path / "settings"),
        "HOME": "/proc/nobody",
        "PYTHONPATH": str(modules),
        **dict.fromkeys(("PIP_CONSTRAINT", "PIP_TARGET", "PIP_ROOT", "PYTHONHOME"), nowhere),
        **dict.fromkeys(("PIP_USER", "PIP_REQUIRE_VIRTUALENV", "PYTHONSAFEPATH"), "1"),
        "PYTHONWARNINGS": "error",
        "MPLBACKEND": "module://nowhere",
    }
    clone.make_well("setup", **user)
    assert not Path(nowhere).exists()
    options = ["--profile", "laptop", "--cores", "1", "--config", "study=mini"]
    for arguments in (
        ["-n", *options],
        ["results/tasks/swaps/questions.jsonl", *options],
        ["paper/mini/figures", *options, "draw=reference"],
    ):
        clone.call(".venv/bin/snakemake", *arguments, **user)


def test_a_package_that_vanished_from_the_index_is_reported_with_a_remedy(clone, wheels, tmp_path):
    lock = clone.folder / "envs/training.lock"
    lock.write_text(f"tests_packages==3.0 --hash=sha256:{'0' * 64}\n")
    clone.assert_refused("tests-packages==3.0", "docs/reproduce.md#if-a-download-is-gone")
    lock.write_text(f"nowhere==1.0 --hash=sha256:{'0' * 64}\n")
    clone.assert_refused("nowhere was not found")
    # A second folder is also searched for the file, and the lock's checksum is compared.
    clone.lock("training", tests_packages="2.0", setuptools=SETUPTOOLS)
    second = tmp_path / "second"
    second.mkdir()
    name = "tests_packages-2.0-py3-none-any.whl"
    (wheels / name).rename(second / name)
    clone.make_well("setup", PIP_FIND_LINKS=f"{wheels} {second}")


@pytest.mark.parametrize("version", [(3, 10, 4), (3, 15, 0)])
def test_an_unsupported_version_of_python_is_reported_before_anything_is_made(
    clone, tmp_path, version
):
    python, text = tmp_path / "python3", ".".join(map(str, version))
    code = f"import sys; sys.version_info = {version}; exec(sys.argv[-1])"
    python.write_text(
        f'#!/bin/sh\ntest "$1" != --version || {{ echo Python {text}; exit; }}\n'
        f'exec {sys.executable} -c "{code}" "$@"\n'
    )
    python.chmod(0o755)
    done = clone.make("setup", f"PYTHON={python}")
    assert done.returncode != 0 and not (clone.folder / ".venv").exists()
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert f"Python 3.11, 3.12 or 3.13 is needed, and {python} is Python {text}" in line
    assert "make PYTHON=python3.13" in line
