# Each target sets up .venv by itself, from nothing but make and a Python from 3.11 to 3.14 (choose one with PYTHON=...).

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
LOWEST := $(VENV)/lowest
ALONE := $(VENV)/alone
DEMO_STAMP := $(VENV)/.fairopt-demo-installed
STAMP := $(VENV)/.fairopt-installed
DOCS_STAMP := $(VENV)/.fairopt-docs-installed
WORKERS ?= 2
SECONDS ?= 600
TESTS ?=
PYTHON ?=
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
CLUSTERS := --editable ./clusters  # after fairopt, which it asks for
# Before 3.13, Python does not start under LC_ALL=C if the path of the checkout, which pip writes, has an accent.
RELATIVE := for folder in $(VENV)/lib/python*/site-packages; do echo ../../../.. > "$$folder/_editable_impl_fairopt.pth"; \
  echo ../../../../clusters > "$$folder/_editable_impl_fairopt_clusters.pth"; done
FITS := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))

.PHONY: help demo test alone foreign coverage lowest lint docs refresh notebooks papers library mutants bench fuzz wheel clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(DEMO_STAMP) ## compare policies on a small cluster; pictures go to demo-out/
	@$(BIN)/fairopt demo
	@echo "The command is $(BIN)/fairopt; after '. $(BIN)/activate' the shell finds it as fairopt."

# Compiled modules are kept, as each of many processes would compile anew.
test: lint ## lint, then all tests: the package's, the docstrings', the documentation's and the notebooks'
	@echo "== tests (pytest, $(WORKERS) workers)"
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist=loadfile

alone: $(ALONE)/.installed ## tests of fairopt where fairopt-clusters is not installed, in .venv/alone
	@echo "== tests of fairopt alone (pytest, $(WORKERS) workers)"
	@$(ALONE)/bin/python -m pytest -q -n $(WORKERS) --dist=loadfile $(or $(TESTS),tests fairopt)

# It sets up an environment of its own in the copy, as that user.
foreign: $(DEMO_STAMP) ## tests (TESTS=..., or all) as another user, in a folder with a space, LANG=C, no HOME, one core
	@$(BIN)/python .ci/foreign.py $(TESTS)

# An absolute path, as tests start processes in other folders.
coverage: $(STAMP) ## all tests, and the lines of the package that none of them runs; fails below 95%
	@$(INSTALL) '.[all,measure]' $(CLUSTERS) && $(RELATIVE)
	@rm -f .coverage .coverage.*
	@COVERAGE_FILE="$(CURDIR)/.coverage" $(BIN)/python -m coverage run -m pytest -q -n $(WORKERS) --dist=loadfile
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report

lowest: $(STAMP) ## tests on the lowest versions that pyproject.toml allows (Python 3.11 or 3.12), in .venv/lowest
	@$(BIN)/python -m venv --clear $(LOWEST)
	@$(BIN)/python .ci/lowest.py > $(LOWEST)/constraints.txt
	@echo "== installing the lowest versions into $(LOWEST)"
	@$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(LOWEST)/constraints.txt \
	  --editable '.[plots,html,parquet,frames,polars,distributed,networks,testing,yaml]' $(CLUSTERS) \
	  jsonschema pytest pytest-xdist
	@echo "== tests (pytest, $(WORKERS) workers)"
	@$(LOWEST)/bin/python -m pytest -q -n $(WORKERS) --dist=loadfile -m "not slow"

lint: $(STAMP) ## style and format (ruff), and types (mypy)
	@echo "== style and format (ruff)"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "== types (mypy)"
	@$(BIN)/mypy fairopt clusters/fairopt_clusters
	@$(BIN)/mypy --strict --config-file= --cache-dir=.mypy_cache/client tests/client.py clusters/tests/cluster_client.py

docs: $(DOCS_STAMP) ## build the documentation (docs/_build/html; warnings are errors), and run its examples
	@rm -rf docs/generated docs/notebooks
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "== examples of README.md and docs/"
	@$(BIN)/python -m pytest -q tests/test_docs.py
	@echo "open docs/_build/html/index.html"

refresh: $(STAMP) ## draw the README's picture again
	@$(BIN)/python docs/refresh.py

notebooks: $(STAMP) ## run the notebooks, and keep what they print and draw in them
	@$(BIN)/python notebooks/run.py

papers: $(STAMP) ## re-make every published number, and count them in the documentation
	@$(BIN)/python benchmarks/papers/all_papers.py

library: $(STAMP) ## make the instances of the library and their answers again
	@$(BIN)/python benchmarks/library/make.py

mutants: $(STAMP) ## changes in proofs, pools and properties that their own tests do not notice (an hour or more)
	@$(INSTALL) '.[all,measure]' $(CLUSTERS) && $(RELATIVE)
	@$(BIN)/python benchmarks/mutants.py

bench: $(STAMP) ## run every script in benchmarks/ but mutants.py
	@set -e; for script in $(filter-out %/mutants.py,$(shell grep -l __main__ benchmarks/*.py)); do \
	  echo "== $$script"; $(BIN)/python "$$script"; \
	done

fuzz: $(STAMP) ## look for wrong, refused and crashed answers for SECONDS=600; what fails is printed as code
	@$(BIN)/python benchmarks/fuzz.py --seconds $(SECONDS) --workers $(WORKERS)

wheel: $(STAMP) ## build both wheels, and try them, each alone, in an empty environment of each Python in PYTHONS
	@$(INSTALL) '.[release]' $(CLUSTERS) && $(RELATIVE)
	@rm -rf dist
	@$(BIN)/python -m build > /dev/null
	@$(BIN)/python -m build --outdir dist clusters > /dev/null
	@$(BIN)/python .ci/try_wheel.py $(PYTHONS)

clean: ## remove .venv and what tools left behind
	rm -rf $(VENV) .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist demo-out docs/_build docs/generated docs/notebooks

# A stamp, so that nothing is installed twice; a new pyproject.toml or a Python that went away installs again.
$(DEMO_STAMP): pyproject.toml clusters/pyproject.toml
	@if ! $(BIN)/python -c "$(FITS)" 2>/dev/null; then \
	  for candidate in $(or $(PYTHON),python3.12 python3.13 python3.11 python3.14 python3 python); do \
	    if "$$candidate" -c "$(FITS)" 2>/dev/null; then chosen="$$candidate"; break; fi; \
	  done; \
	  if [ -z "$$chosen" ]; then \
	    echo "make: no Python from 3.11 to 3.14 with venv found$(if $(PYTHON), under PYTHON=$(PYTHON))." >&2; \
	    echo "make: install one (on Debian and Ubuntu: python3-venv too), or say where: make PYTHON=/path/to/python3.12" >&2; \
	    exit 1; \
	  fi; \
	  echo "== setting up $(VENV) with $$("$$chosen" --version)"; \
	  "$$chosen" -m venv --clear $(VENV); \
	fi
	@echo "== installing fairopt, its plots and fairopt-clusters into $(VENV)"
	@$(INSTALL) '.[plots]' $(CLUSTERS) && $(RELATIVE)
	@touch $@

# What tests, lint and benchmarks need, beside what the demo needs.
$(STAMP): $(DEMO_STAMP)
	@echo "== installing the other extras and the tools into $(VENV)"
	@$(INSTALL) '.[all]' $(CLUSTERS) && $(RELATIVE)
	@touch $@

# What builds the documentation, beside all the rest.
$(DOCS_STAMP): $(STAMP)
	@echo "== installing what builds the documentation into $(VENV)"
	@$(INSTALL) '.[docs]' $(CLUSTERS) && $(RELATIVE)
	@touch $@

# fairopt without fairopt-clusters, and what its tests need.
$(ALONE)/.installed: $(STAMP) pyproject.toml
	@echo "== installing fairopt alone into $(ALONE)"
	@$(BIN)/python -m venv --clear $(ALONE)
	@$(ALONE)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	@for folder in $(ALONE)/lib/python*/site-packages; do echo ../../../../.. > "$$folder/_editable_impl_fairopt.pth"; done
	@touch $@
