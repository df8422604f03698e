# Estimate what a study will cost before it runs: see scripts/plan/plan.py. The rule has no input
# files, and no other rule uses its output.


localrules:
    plan,


rule plan:
    log:
        "results/logs/plan/plan.log",
    params:
        study=config["study"],
        call=startup.plan_arguments(workflow, machine.setting(workflow)),
    message:
        "Plan study {params.study}"
    shell:
        "python scripts/plan/plan.py {params.call} 2> {log} || {{ cat {log} >&2; exit 1; }}"
