# Every target sets itself up: it needs Python 3.11 or newer with pip, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow fuzz lint types layers docs dist bench sbom clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# What is installed is compared with the hashes of requirements/hashed.txt. The last line builds this package, and adds
# what other systems need besides, at the pinned versions. It compiles the kernels: by a C compiler, or by that of
# ziglang where there is none.
$(STAMP): pyproject.toml requirements/pinned.txt requirements/hashed.txt $(wildcard src/uncover/engines/kernels/*.[ch])
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "uncover needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes --no-deps --only-binary :all: --requirement requirements/hashed.txt
	command -v cc >/dev/null || $(INSTALL) --constraint requirements/pinned.txt ziglang
	$(INSTALL) --constraint requirements/pinned.txt --no-build-isolation --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP) ## run the demonstration: a simulated scene, from measurement to evaluated map
	$(BIN)/uncover demo

test: $(STAMP) ## lint, types, layers, tests and doctests
	$(MAKE) --jobs 2 lint types layers
	$(BIN)/python -m pytest -m 'not slow' -n auto --dist worksteal

test-slow: $(STAMP) ## the tests that take minutes
	$(BIN)/python -m pytest -m slow -n auto

fuzz: $(STAMP) ## hostile files for every reader (INPUTS: how many; SEED; MINUTES: bound on the time)
	cd tests && ../$(BIN)/python -m fuzzing --inputs $(or $(INPUTS),5000) --seed $(or $(SEED),0) --minutes $(or $(MINUTES),60)

lint: $(STAMP) ## style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## static types
	$(BIN)/mypy

layers: $(STAMP) ## who may import whom
	$(BIN)/lint-imports
	$(BIN)/python tools/import_cycles.py

docs: $(STAMP) ## build the documentation into docs/_build
	$(BIN)/sphinx-build -W -b html docs docs/_build

# Wheels have the compiled kernels inside. They run on this and on newer versions of the C library.
TARGETS ?= $(shell uname -m)-linux-gnu.2.17

dist: $(STAMP) ## build wheel and sdist into dist, and try them in empty environments (PYTHONS: interpreters; TARGETS: also aarch64-linux-gnu.2.17)
	rm -rf dist
	$(INSTALL) --constraint requirements/pinned.txt ziglang
	$(BIN)/python -m hatchling build --directory dist --target sdist
	for target in $(TARGETS); do KERNELS_TARGET=$$target $(BIN)/python -m hatchling build --directory dist --target wheel || exit 1; done
	$(BIN)/python tools/check_dist.py dist $(PYTHONS)

sbom: $(STAMP) ## write a software bill of materials (CycloneDX) into dist
	$(BIN)/python tools/sbom.py dist/sbom.json

bench: $(STAMP) ## measure: statistics by simulation, speed against peers
	$(INSTALL) --constraint requirements/pinned.txt --no-build-isolation --editable ".[bench]"
	$(BIN)/python -m benchmarks

clean: ## remove what the targets have made
	rm -rf $(VENV) build dist docs/_build src/uncover/engines/kernels/kernels.so demo-output .mypy_cache .ruff_cache .pytest_cache
