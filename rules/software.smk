# Container images for `--sdm apptainer`. Without --sdm Snakemake ignores them, and jobs run in the environments of the Makefile.

from hardgrpo.runtime import images
from snakemake_interface_executor_plugins.settings import DeploymentMethod

IMAGE = images.PATHS
CONTAINERS = DeploymentMethod.APPTAINER in getattr(workflow.deployment_settings, "deployment_method", ())

if CONTAINERS:
    os.environ[warm.SOCKET] = warm.OFF  # the server of hardgrpo.runtime.warm is outside the container
    TEX = TEX or "latexmk"  # the image has it
    # This clone's package, also where --cleanenv keeps PYTHONPATH out.
    os.environ.update(APPTAINERENV_PYTHONPATH=source, SINGULARITYENV_PYTHONPATH=source)
    # Add the folders that jobs need to the user's bind list, under the variable's new and old name. Jobs on other nodes do so, too.
    for name in ("APPTAINER_BIND", "SINGULARITY_BIND"):
        os.environ[name] = ",".join(filter(None, [os.getenv(name), *images.outside(config)]))


localrules:
    image,


rule image:
    input:
        definition="envs/{name}.def",
        locks=lambda w: [*images.FIRST, images.LOCKS[w.name]],
    output:
        "envs/{name}.sif",
    log:
        "results/logs/image/{name}.log",
    wildcard_constraints:
        name=any_of(IMAGE),
    message:
        "Build the container image {output}"
    shell:
        "python scripts/software/build_image.py --definition {input.definition} --output {output} > {log} 2>&1"
