# On a bare machine with Python 3.11 or newer and make:
#
#   make demo     set up, then three structures in three acts, and a page, into runs/demo
#   make test     set up, then everything that keeps the tree true: lint, types, docs, tests
#   make screenshots  make the pictures of the studio in docs/images again
#   make soak     the exhaustive checks that are too slow for make test; PARTS="files kills" for
#                 some, LONG=1 for many more cases
#   make bench    set up, then ours beside other libraries in one table; QUICK=1 for minutes
#   make house    code lines, names, tests and docs, beside their budgets
#   make old WHICH=released   build an old version in .cache/old, to compare with
#   make reproduce  figures of the papers, into runs; PAPER=aggregative FIGURE=planning SCALE=full
#                 for one; without PAPER all of them, at the quick scale
#   make wheel    build the wheel and the source archive into dist
#   make bench-deep  the same for training, beside PyTorch, Tianshou and d3rlpy
#
# Everything is installed into .venv (for bench into .venv-bench, with the other libraries), anew
# only when pyproject.toml changes, and kernels are compiled then.
# Another interpreter: make test PYTHON=python3.13

PYTHON  ?= python3
WORKERS ?= 2

VENV := .venv
BIN  := $(VENV)/bin
# Where uv is installed, the versions of requirements.lock; elsewhere the newest that pip finds.
UV   := $(shell command -v uv 2>/dev/null)
PIP  := $(if $(UV),uv pip install --python $(BIN)/python --constraint requirements.lock,\
          $(BIN)/python -m pip --disable-pip-version-check install)

# Test and lint numbers should not depend on how many cores happen to be free.
export OMP_NUM_THREADS      ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS      ?= 1

.DEFAULT_GOAL := help
.PHONY: help demo test pytest wheel screenshots lint format docs bench bench-deep compare compare-deep house old reproduce soak clean

help:
	@sed -n '3,17s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.run
	$(BIN)/equipoise demo --run runs/demo

test: lint docs pytest

pytest: $(VENV)/.test
	EQUIPOISE_REQUIRE_PEERS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

wheel: $(VENV)/.test
	$(BIN)/python -m build --outdir dist

# The tests of the studio, which then keep what they see; they need Chromium.
screenshots: $(VENV)/.test
	EQUIPOISE_SCREENSHOTS=docs/images $(BIN)/python -m pytest -q tests/studio/test_rooms.py

# Damaged files, kills, planted faults, exhaustive checks of certificates: up to 90 minutes.
soak: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m soak $(PARTS) --workers $(WORKERS) $(if $(LONG),--long)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.test
	$(BIN)/sphinx-build -E -W --keep-going -q -b html -d .cache/doctrees docs site

house: $(VENV)/.test
	$(BIN)/python tests/architecture/house.py

old: $(VENV)/.test
	$(BIN)/python -m benchmarks.old $(or $(WHICH),released)

reproduce: $(VENV)/.run
	$(BIN)/equipoise reproduce $(or $(PAPER),--quick) $(addprefix --figure ,$(FIGURE)) \
	  $(if $(SCALE),--scale $(SCALE))

# Other libraries pin what they need: they have an environment of their own.
bench:
	@$(MAKE) --no-print-directory VENV=.venv-bench compare

compare: $(VENV)/.bench
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick)
	$(BIN)/python -m benchmarks.calls $(if $(QUICK),--quick)

bench-deep:
	@$(MAKE) --no-print-directory VENV=.venv-bench compare-deep

compare-deep: $(VENV)/.bench-deep
	$(BIN)/python -m benchmarks deep pretraining $(if $(QUICK),--quick)

clean:
	rm -rf $(VENV) .venv-bench build dist site jupyter_execute .pytest_cache .ruff_cache .hypothesis
	find src reproduction tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "equipoise needs Python 3.11 or newer, and '$(PYTHON)' was not found."; \
	  echo "Name one with: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "equipoise needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another with: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version 2>&1)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# One stamp for each set of requirements; it is older than pyproject.toml when that changes.
$(VENV)/.run: EXTRAS =
$(VENV)/.test: EXTRAS = [test]
$(VENV)/.bench: EXTRAS = [bench]
$(VENV)/.bench-deep: EXTRAS = [bench,torch]
$(VENV)/.run $(VENV)/.test $(VENV)/.bench $(VENV)/.bench-deep: pyproject.toml | $(BIN)/python
	@echo "Installing equipoise$(EXTRAS) into $(VENV) (a minute or two the first time)"
	@$(PIP) --quiet --editable '.$(EXTRAS)'
	@$(BIN)/python -m equipoise.core.kernels
	@touch $@
