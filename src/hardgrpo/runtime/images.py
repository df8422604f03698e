"""Container images for `--sdm apptainer`."""

LOCKS = {"training": "envs/gpu.lock", "figures": "envs/figures.lock"}
INSTALLERS = ("envs/pip.lock", "envs/build.lock")
PATHS = {name: f"envs/{name}.sif" for name in LOCKS}
