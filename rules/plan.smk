# Estimate the cost of a study before it runs: see scripts/plan/plan.py. The rule declares no input
# and no output files: no other rule uses the files that the program writes.


localrules:
    plan,


rule plan:
    log:
        "results/logs/plan/plan.log",
    container:
        None
    params:
        study=config["study"],
        # this call of Snakemake, for the whole study
        call=[word for word in sys.argv[1:] if word != "plan"],
    message:
        "Plan study {params.study}"
    shell:
        "python scripts/plan/plan.py {params.call:q} 2> {log} || {{ cat {log} >&2; exit 1; }}"
