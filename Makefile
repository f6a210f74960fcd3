# Every target makes the environment it needs, from a package index alone. `make help` lists them.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# A pyenv shim may be on PATH and still refuse to run, so each candidate is tried, newest first.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3.10 python3; do \
	$$python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' \
	>/dev/null 2>&1 && { echo $$python; break; }; done)

# The tests start thousands of interpreters. Where Python is told to store no bytecode, as in many
# containers, each of them compiles its framework anew, which takes longer than the tests themselves.
unexport PYTHONDONTWRITEBYTECODE

TEST := .venv/test
DEMO := .venv/demo
BIOME := tools/js/node_modules/.bin/biome
PIP_QUIET := --quiet --disable-pip-version-check --no-input

# What `make demo` records: tensorflow, jax or torch.
FRAMEWORK ?= tensorflow
SCRIPT_jax := jax_fit.py
SCRIPT_tensorflow := keras_fit.py
SCRIPT_torch := torch_train.py

# The frameworks' own start-up notices, which say nothing about the demo.
QUIET_jax := JAX_PLATFORMS=cpu
QUIET_tensorflow := TF_CPP_MIN_LOG_LEVEL=3 TF_ENABLE_ONEDNN_OPTS=0 CUDA_VISIBLE_DEVICES=-1 \
	PYTHONWARNINGS=ignore::UserWarning

help: ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do \
		printf '  make %-8s %s\n' "$$name" "$$text"; done

demo: $(DEMO)/.installed-$(FRAMEWORK) ## record a real training script and print its report; FRAMEWORK=jax or torch for another
	@echo '$$ tfprobe run --report -- python examples/$(SCRIPT_$(FRAMEWORK))'
	@PATH="$(CURDIR)/$(DEMO)/bin:$$PATH" $(QUIET_$(FRAMEWORK)) \
		$(DEMO)/bin/tfprobe run --report -- python examples/$(SCRIPT_$(FRAMEWORK))

demo-try: $(DEMO)/.installed-tensorflow ## try the fixes that the findings of a slow training script name
	@echo '$$ tfprobe try -- python examples/eager_loop.py'
	@PATH="$(CURDIR)/$(DEMO)/bin:$$PATH" $(QUIET_tensorflow) \
		$(DEMO)/bin/tfprobe try --yes -- python examples/eager_loop.py

test: lint mpirun ## lint, types and the quick tests; needs no TensorFlow
	$(TEST)/bin/python -m pytest --numprocesses=auto $(wildcard tests/architecture tests/unit tests/agent tests/process tests/planted tests/approval)

lint: ruff mypy biome ## check style and types, as `make test` does first

ruff: $(TEST)/.installed
	$(TEST)/bin/ruff check .
	$(TEST)/bin/ruff format --check .

mypy: $(TEST)/.installed
	$(TEST)/bin/mypy

format: $(TEST)/.installed $(BIOME) ## format Python, JavaScript and CSS
	$(TEST)/bin/ruff format .
	$(BIOME) format --write

# Where npm is missing, JavaScript and CSS are not checked; where CI=true, that fails.
ifneq ($(shell command -v npm 2>/dev/null),)
biome: $(BIOME)
	$(BIOME) check --error-on-warnings
else
biome:
	@echo 'There is no npm, so JavaScript and CSS were not checked; install Node.js 20 or newer.' >&2
	@test "$$CI" != true
endif

test-web: $(TEST)/.installed-web chromium ## drive every page in Debian's Chromium, with the network blocked
	$(TEST)/bin/python -m pytest --numprocesses=auto tests/web

matrix: $(TEST)/.installed mpirun ## record real jobs in every Python and TensorFlow that can be had here
	$(TEST)/bin/python -m tests.matrix $(CELLS)

planted: $(TEST)/.installed ## record programs with a planted cause, and print what the first finding says of each
	$(TEST)/bin/python -m tests.planted $(NAMES)

bench: $(TEST)/.installed ## measure what recording costs, beside the alternatives
	$(TEST)/bin/python benchmarks/overhead/run.py

wheel: $(TEST)/.installed ## build dist/*.whl and dist/*.tar.gz
	$(TEST)/bin/python -m build --outdir dist .

clean: ## remove the environments, caches and build results of this checkout
	rm -rf .venv tools/js/node_modules build dist .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(TEST)/.installed: pyproject.toml
	$(call environment,$(TEST))
	$(TEST)/bin/python -m pip install $(PIP_QUIET) --editable '.[test]'
	@touch $@

$(TEST)/.installed-web: $(TEST)/.installed
	$(TEST)/bin/python -m pip install $(PIP_QUIET) --editable '.[test,test-web]'
	@touch $@

# Not `npm ci`: it refuses a lock file without the binaries for every other system, which a registry
# need not have. `--no-save` leaves the lock file alone, and its checksums are checked.
$(BIOME): tools/js/package.json tools/js/package-lock.json tools/js/.npmrc
	@npm --prefix tools/js install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
	@touch $@

chromium:
	@test -x /usr/bin/chromium || { \
		as=; test "$$(id -u)" = 0 || as=sudo; \
		command -v apt-get >/dev/null && command -v $${as:-env} >/dev/null && \
		$$as apt-get update -qq && $$as apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; \
	} || { echo 'There is no /usr/bin/chromium, and it can be installed only by root or sudo, from Debian: apt-get install chromium.' >&2; exit 1; }

# Tests of jobs under mpirun are skipped where it cannot be had, and fail where CI=true.
mpirun:
	@command -v mpirun >/dev/null || { \
		as=; test "$$(id -u)" = 0 || as='sudo -n'; \
		command -v apt-get >/dev/null && $$as apt-get update -qq && \
		$$as apt-get install -qq -y --no-install-recommends openmpi-bin >/dev/null; \
	} || echo 'There is no mpirun, and it can be installed only by root or sudo, from Debian: apt-get install openmpi-bin.' >&2

$(DEMO)/.installed: pyproject.toml
	$(call environment,$(DEMO))
	$(DEMO)/bin/python -m pip install $(PIP_QUIET) --editable . scikit-learn
	@touch $@

$(DEMO)/.installed-jax: $(DEMO)/.installed
	@echo 'Installing JAX into $(DEMO), once.'
	$(DEMO)/bin/python -m pip install $(PIP_QUIET) jax optax
	@touch $@

# Not from the package index alone, whose PyTorch brings gigabytes of CUDA. Its own index has one
# without, which is the newer version of the two by its name; where it cannot be reached, pip goes on.
$(DEMO)/.installed-torch: $(DEMO)/.installed
	@echo 'Installing PyTorch into $(DEMO), once.'
	$(DEMO)/bin/python -m pip install $(PIP_QUIET) --retries 1 \
		--extra-index-url https://download.pytorch.org/whl/cpu torch numpy
	@touch $@

$(DEMO)/.installed-tensorflow: $(DEMO)/.installed
	@echo 'Installing TensorFlow into $(DEMO), once.'
	$(DEMO)/bin/python -m pip install $(PIP_QUIET) \
		'tensorflow-cpu>=2.12; platform_system == "Linux" and platform_machine == "x86_64"' \
		'tensorflow>=2.12; platform_system != "Linux" or platform_machine != "x86_64"'
	@touch $@

# Some systems ship Python without ensurepip; there the system's own pip fills the environment.
define environment
	@test -n '$(PYTHON)' || { echo 'No Python 3.10 to 3.13 found; set PYTHON=/path/to/python.' >&2; exit 1; }
	@rm -rf $(1)
	@$(PYTHON) -m venv $(1) >/dev/null 2>&1 || { \
		rm -rf $(1) && $(PYTHON) -m venv --without-pip $(1) && \
		$(PYTHON) -m pip --python $(1)/bin/python install $(PIP_QUIET) pip; }
endef

.PHONY: help demo demo-try test lint ruff mypy biome format test-web chromium mpirun matrix planted bench wheel clean
