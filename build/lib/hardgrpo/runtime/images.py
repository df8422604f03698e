"""Container images for `--sdm apptainer`: their paths, and the host's folders that a container must
bind."""

import os

from hardgrpo.runtime.errors import UserError

LOCKS = {"training": "envs/gpu.lock", "figures": "envs/figures.lock"}
INSTALLERS = ("envs/pip.lock", "envs/build.lock")  # installed before an image's own lock
PATHS = {name: f"envs/{name}.sif" for name in LOCKS}


def check() -> None:
    """Raise a `UserError` if an image is missing."""
    for path in PATHS.values():
        if not os.path.exists(path):
            raise UserError(
                f"{path}: no such image, and --sdm apptainer runs jobs in it; make it on a machine with internet"
                " access (`snakemake --profile laptop images`) or copy it here"
            )


def folders_to_bind(models: dict, data: str) -> list[str]:
    """The existing folders outside the current folder that a container must bind, because jobs
    read or write them. `models` is a section of the configuration, `data` the folder of local input
    files."""
    sources = [model["source"] for model in models.values()]
    model_folders = [
        os.path.expanduser(source["path"]) for source in sources if source["kind"] == "folder"
    ]
    folders = [data, *(os.path.join(data, path) for path in model_folders)]
    # These folders, results and paper may be symbolic links, whose targets must be bound, too.
    paths = [os.path.abspath(path) for path in folders] + [
        os.path.realpath(path) for path in ("results", "paper", *folders)
    ]
    current_folder = os.path.join(os.getcwd(), "")
    return sorted(
        {
            path
            for path in paths
            if os.path.exists(path) and not os.path.join(path, "").startswith(current_folder)
        }
    )
