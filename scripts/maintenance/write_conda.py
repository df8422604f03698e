"""Write envs/training.yaml and envs/figures.yaml, the conda environments of `--sdm conda`, from the locks envs/*.lock.

    python scripts/maintenance/write_conda.py

Snakemake copies the file of an environment elsewhere before it uses it. The lock must therefore stand in the file itself.
"""

from pathlib import Path

from hardgrpo.runtime import errors, files, images

ROOT = Path(__file__).parents[2]


def environment(lock: str) -> str:
    """The text of an environment's file; `lock` is the text of a lock in envs/."""
    requirements = lock.partition("\n\n")[2].replace("\\\n", "")  # after the options; a requirement in one line with its checksums
    lines = [" ".join(line.split()) for line in requirements.splitlines() if not line.lstrip().startswith("#")]
    header = "# Made by scripts/maintenance/write_conda.py from the lock; a test compares.\nchannels: [conda-forge, nodefaults]\ndependencies:\n"
    return header + "  - python=3.12\n  - pip\n  - pip:\n" + "".join(f"      - {line}\n" for line in lines)


def main() -> None:
    for name, lock in images.LOCKS.items():
        path = ROOT / f"envs/{name}.yaml"
        files.write_text(path, environment(files.read_text(ROOT / lock)))
        print(path)


if __name__ == "__main__":
    errors.run(main)
