localrules:
    image,


rule image:
    input:
        definition="envs/{name}.def",
        locks=lambda w: [*images.INSTALLERS, images.LOCKS[w.name]],
    output:
        "envs/{name}.sif",
    log:
        "results/logs/image/{name}.log",
    container:
        None
    shell:
        "python scripts/software/build_image.py --definition {input.definition} --output {output} > {log} 2>&1"
