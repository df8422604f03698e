"""Write envs/training.yaml and envs/figures.yaml, the conda environments of `--sdm conda`, from the pins in envs/*.txt.

    python scripts/maintenance/write_conda.py

Snakemake copies the file of an environment elsewhere before it uses it. The pins must therefore stand in the file itself.
"""

from pathlib import Path

from hardgrpo.runtime import errors, files, images

ROOT = Path(__file__).parents[2]


def environment(pins: str) -> str:
    """The text of an environment's file; `pins` is the text of a file in envs/."""
    lines = [line.split("#")[0].strip() for line in pins.splitlines()]
    header = "# Made by scripts/maintenance/write_conda.py from the pins; a test compares.\nchannels: [conda-forge, nodefaults]\ndependencies:\n"
    return header + "  - python=3.12\n  - pip\n  - pip:\n" + "".join(f"      - {line}\n" for line in lines if line)


def main() -> None:
    for name, pins in images.PINS.items():
        path = ROOT / f"envs/{name}.yaml"
        files.write_text(path, environment(files.read_text(ROOT / pins)))
        print(path)


if __name__ == "__main__":
    errors.run(main)
