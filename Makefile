# One loop for people and for CI. `make` alone lists what there is.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LIBRARIES := .venv-libraries
LIBRARIES_STAMP := $(LIBRARIES)/.installed
PYTEST_ARGS ?=
TEST_PROCESSES ?= 3
# A file is for one process; those that take long come first (tests/conftest.py).
IN_PROCESSES = -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder
IMAGE ?= toast-planner:dev
EXTRAS ?=

# The first interpreter that runs and is new enough; PYTHON=/path/to/python overrides it.
PYTHON ?= $(shell for candidate in python3.11 python3.12 python3.13 python3 python; do \
	"$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' \
	  >/dev/null 2>&1 && command -v "$$candidate" && break; done)

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) \
	  | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(STAMP) ## Make .venv and install everything in it, at the pinned versions (once)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed and none was found;" \
	  "install one or run: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); echo "The venv module" \
	  "is missing; on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

.PHONY: demo
demo: setup ## Plan a real training step through the service, run it sharded, print the account
	$(BIN)/python -m toast.demo

.PHONY: test
test: imports ## Check the direction of imports, then run the tests (PYTEST_ARGS passes more)
	$(BIN)/python -m toast.search.kernel_cache
	$(BIN)/python -m pytest $(IN_PROCESSES) $(PYTEST_ARGS)

.PHONY: lint
lint: style format-check types imports ## Every static check

.PHONY: style
style: setup ## Ruff's rules
	$(BIN)/ruff check

.PHONY: format-check
format-check: setup ## Ruff's formatting, unchanged files
	$(BIN)/ruff format --check

.PHONY: types
types: setup ## Mypy, strict
	$(BIN)/mypy

.PHONY: imports
imports: setup ## The direction of imports between the rooms
	$(BIN)/lint-imports --no-logo

.PHONY: check
check: lint test ## All that CI runs

.PHONY: fmt
fmt: setup ## Format, and repair what Ruff can
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: libraries
libraries: setup $(LIBRARIES_STAMP) ## The tests that need public libraries, and the tutorial
	$(LIBRARIES)/bin/python -m pytest -m nightly tests/libraries tests/examples $(PYTEST_ARGS)

$(LIBRARIES_STAMP): pyproject.toml constraints.txt
	@test -x $(LIBRARIES)/bin/python || "$(PYTHON)" -m venv $(LIBRARIES)
	$(LIBRARIES)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  -e '.[dev,libraries]'
	@touch $@

.PHONY: tutorial
tutorial: setup $(LIBRARIES_STAMP) ## Run the tutorial, and write what it prints into its page
	$(LIBRARIES)/bin/python -m tools.tutorial --write

.PHONY: nightly
nightly: libraries ## The long tests, all others on many examples, then every benchmark
	$(BIN)/python -m pytest -m nightly $(PYTEST_ARGS)
	$(BIN)/python -m pytest $(IN_PROCESSES) --hypothesis-profile=thorough $(PYTEST_ARGS)
	@for file in benchmarks/bench_*.py; do \
	  test -e "$$file" || continue; \
	  name=$${file%.py}; echo "== $$name"; \
	  $(BIN)/python -m "$${name//\//.}"; \
	done
	$(BIN)/python -m benchmarks.accuracy all --time-limit 3600

.PHONY: accuracy
accuracy: setup ## Predicted against compiled: install the compilers, compile, write the page
	$(BIN)/python -m benchmarks.accuracy all

.PHONY: zoo
zoo: setup ## Programs of public libraries, half of them held out: lower, compile for an hour, write the page
	$(BIN)/python -m benchmarks.zoo all --memory-only --time-limit 3600

.PHONY: probes
probes: setup ## What the compilers do, asked again with small programs: install them, compile, compare
	$(BIN)/python -m benchmarks.probes run

.PHONY: planners
planners: setup ## Our plan against experts and peers: install the compilers, compile, write the page
	$(BIN)/python -m benchmarks.planners all

.PHONY: image
image: setup ## Build the container image with Docker, or with buildah where no engine runs
	$(BIN)/python -m tools.image_test --tag $(IMAGE) --extras "$(EXTRAS)" --build-only

.PHONY: image-test
image-test: setup ## Build the image, start it, ask it for a plan, stop it
	$(BIN)/python -m tools.image_test --tag $(IMAGE) --extras "$(EXTRAS)"

.PHONY: clean
clean: ## Remove the environment and everything that was generated
	rm -rf $(VENV) .venv-aot .venv-peer .venv-zoo $(LIBRARIES) build dist demo-out toast-out *.egg-info .pytest_cache .mypy_cache \
	  .ruff_cache .hypothesis .import_linter_cache .schemathesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
