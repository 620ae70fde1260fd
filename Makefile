# Needs python3 (3.11 or later) with pip and venv, and make. Every target sets up what it needs in .venv,
# once, and again when pyproject.toml or constraints.txt change.

PYTHON ?= python3
# Processes that run tests side by side.
JOBS ?= 2
# Tests that need nothing but the core.
CORE := tests/selection tests/methods tests/screening tests/duplicates tests/test_m*.py tests/test_p*.py

BIN := .venv/bin
# Half of pip's time would go to bytecode of modules that nothing here imports; Python writes what it needs.
PIP := python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
INSTALL := $(BIN)/$(PIP)
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test test-paper test-slow test-all test-lowest lint bench docs wheels clean

help: ## Say what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

demo: .venv/.installed-report ## Plant errors in a folder of images, clean it, and say what was found
	rm -rf build/demo
	mkdir -p build
	$(BIN)/gmmatch demo -o build/demo

test: lint ## Check style and types, and run every test of the library that is not slow
	$(PYTEST) -m "not slow" tests src

test-paper: .venv/.installed-dev-vision-text-ray ## Run the tests of gmmatch-paper that are not slow
	$(PYTEST) -m "not slow" paper

test-slow: .venv/.installed-dev-vision-text-ray ## Run the slow tests only
	$(PYTEST) -m slow

# One after the other even under make -j: all use every core.
test-all: test ## Run all tests
	$(MAKE) test-paper
	$(MAKE) test-slow

# Without extras: tests that need a package of theirs are left out.
test-lowest: ## Run quick tests of the core with the lowest versions that pyproject.toml allows
	rm -rf build/lowest
	$(PYTHON) -m venv build/lowest
	$(PYTHON) -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	print(*(line.replace('>=', '==') for line in project['dependencies']), sep='\n')" > build/lowest.txt
	build/lowest/bin/python -m pip install --quiet -c build/lowest.txt -e . pytest pytest-xdist hypothesis pandas imbalanced-learn
	build/lowest/bin/python -m pytest -n $(JOBS) -m "not slow" $(CORE)

lint: .venv/.installed-dev-vision-text-ray ## Check style and types
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

bench: .venv/.installed-bench ## Time gmmatch side by side with its peers
	$(BIN)/python -m benchmarks

docs: .venv/.installed-docs ## Build the documentation site into docs/_build/html
	$(BIN)/python -m sphinx -q -W --keep-going -j $(JOBS) docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

# The second wheel brings torch: what needs no more than the first is tried before.
wheels: .venv/.installed-dev-vision-text-ray ## Build both wheels into dist, and try them in an empty environment
	rm -rf dist build/empty
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir dist paper
	$(BIN)/python -m venv build/empty
	build/empty/bin/$(PIP) dist/gmmatch-*.whl
	build/empty/bin/python -I .ci/try_wheel.py library
	build/empty/bin/$(PIP) --find-links dist dist/gmmatch_paper-*.whl
	build/empty/bin/python -I .ci/try_wheel.py laboratory

clean: ## Remove whatever the targets above have made
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/api/generated docs/auto_examples docs/sg_execution_times.rst
	find src paper tests -name __pycache__ -type d -prune -exec rm -rf {} +

# ".installed-dev-vision-text-ray" means that the extras dev, vision, text and ray are installed.
.venv/.installed-%: pyproject.toml paper/pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing gmmatch with the extras $(subst -,$(comma) ,$*) ..."
	$(INSTALL) -e ".[$(subst -,$(comma),$*)]" -e ./paper
	@touch $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("gmmatch needs Python 3.11 or later, \
	and $(PYTHON) is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv

comma := ,
