"""Container images for `--sdm apptainer`: which there are, and what a container has to be shown of the machine."""

import os

from hardgrpo.runtime.errors import UserError

PINS = {"training": "envs/gpu.txt", "figures": "envs/figures.txt"}
PATHS = {name: f"envs/{name}.sif" for name in PINS}


def check() -> None:
    """A `UserError` where an image is missing: said once before jobs are submitted, and not by each of them."""
    for path in PATHS.values():
        if not os.path.exists(path):
            raise UserError(
                f"{path}: no such image, and --sdm apptainer runs jobs in it; make it where there is internet"
                " (`snakemake --profile laptop images`) or copy it here"
            )


def outside(config: dict) -> list[str]:
    """Folders that jobs read or write and that a container does not see by itself, because they lie outside the current one."""
    sources = [model["source"] for model in config["models"].values()]
    models = [os.path.expanduser(source["path"]) for source in sources if source["kind"] == "folder"]
    named = [config["data"], *(os.path.join(config["data"], path) for path in models)]
    # Where a link lies inside, what it leads to has to be there too.
    places = [os.path.abspath(path) for path in named] + [os.path.realpath(path) for path in ("results", "paper", *named)]
    here = os.path.join(os.getcwd(), "")
    return sorted({path for path in places if os.path.exists(path) and not os.path.join(path, "").startswith(here)})
