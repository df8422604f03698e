# Estimate what a study will cost before it runs: see scripts/plan/plan.py. The rule needs no files and makes none that others need.


localrules:
    plan,


rule plan:
    log:
        "results/logs/plan/plan.log",
    params:
        study=config["study"],
        given=plan_arguments(),
    message:
        "Plan study {params.study}"
    shell:
        "python scripts/plan/plan.py {params.given} 2> {log} || {{ cat {log} >&2; exit 1; }}"
