# make demo    install, then the main job on the bundled sample, offline
# make test    install, then the tests
# make check   the whole gate: format, lint, types, tests
# make bench   install, then the benchmarks (several minutes; real topics and passages are fetched, or read from $IKAT_DATA)
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

# torch first: pip then takes the pinned build at hand, and no later requirement can change it
PIP = $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: demo test check lint bench clean

$(VENV)/demo: setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	$(PIP) --editable ".[demo]"
	touch $@

$(VENV)/dev: $(VENV)/demo
	$(PIP) --editable ".[dev]"
	touch $@

demo: $(VENV)/demo
	$(BIN)/ikat demo

test: $(VENV)/dev
	$(BIN)/python -m pytest

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test

bench: $(VENV)/dev
	$(PIP) --editable ".[bench]"
	$(BIN)/python experiments/performance/bench.py

clean:
	rm -rf $(VENV) demo-out
