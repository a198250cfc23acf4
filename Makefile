# `make check` is the main job and `make test` runs all tests; both set up what they need on a fresh machine.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: check test regenerate lint bench fuzz clean

check: $(VENV)/.ready
	$(BIN)/kvaudit check

test: $(VENV)/.ready-dev
	$(BIN)/python -m pytest

regenerate: $(VENV)/.ready
	$(BIN)/kvaudit regenerate

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Ratios within one run, never asserted: see tests/bench.
bench: $(VENV)/.ready-dev
	$(BIN)/python -m pytest tests/bench -o addopts="--import-mode=importlib -p no:cacheprovider" \
	    --benchmark-columns=min,median,max,rounds --benchmark-sort=name

# Long and random, where the tests of CI are bounded and derandomised.
fuzz: $(VENV)/.ready-dev
	KVAUDIT_HYPOTHESIS=fuzz $(BIN)/python -m pytest -m "not slow"

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@
