# make demo    install, then the main job on the bundled sample, offline
# make test    install, then the tests
# make test-slow  the tests of ten seconds and more
# make test-portable  the tests of search as where PISA has no files
# make test-real  only the tests that read released files, from the folder shared/ beside the checkout
# make check   the whole gate: format, lint, types, tests, documentation
# make docs    install, then the site in docs/_build/html; a warning is an error
# make audit   look the installed packages up in the advisories; make coverage, make mutants (hours): how good the tests are
# make neighbours  the tests with packages of others that meet ours, and with a small language model (150 MB)
# make lucene  the tests with Java and Anserini, on an index as the organisers make it (140 MB)
# make versions the tests on every supported Python at hand, with pandas 2 and 3 (hours; several GB for each pair)
# make wheel   build the wheel, and run the tests with it in a folder outside of the checkout (several GB)
# make bench   install, then the benchmarks (several minutes; real topics and passages are fetched, or read from $IKAT_DATA)
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

# torch first: pip then takes the pinned build at hand, and no later requirement can change it. Its build for CPUs is a tenth of the size:
# make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
PIP = $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: demo test test-slow test-portable test-real check lint docs coverage mutants neighbours lucene versions wheel audit bench clean

$(VENV)/demo: setup.py constraints.txt
	@echo "Installing into $(VENV). This takes several minutes, most of them without output."
	$(PYTHON) -m venv $(VENV)
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	$(PIP) --editable ".[demo]"
	touch $@

$(VENV)/dev: $(VENV)/demo
	$(PIP) --editable ".[dev]"
	touch $@

demo: $(VENV)/demo
	$(BIN)/ikat demo

# A process per core. Tests start Python again: without its own files of compiled code, each start would compile the package.
export PYTHONDONTWRITEBYTECODE =
PYTEST = $(BIN)/python -m pytest --numprocesses auto --dist loadfile

test: $(VENV)/dev
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/dev
	$(PYTEST) -m slow

test-portable: $(VENV)/dev
	IKAT_TEST_PORTABLE=1 PYTHONPATH=$(CURDIR) $(PYTEST) tests/retrieve

# The environment may hold another checkout of the package: this one comes first.
test-real: $(VENV)/dev
	PYTHONPATH=$(CURDIR) $(PYTEST) -m real_data

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/dev
	$(BIN)/sphinx-build -W --keep-going -E -q docs docs/_build/html

check: lint test docs

coverage: $(VENV)/dev
	$(BIN)/coverage run -m pytest --numprocesses auto --dist loadfile
	$(BIN)/coverage combine
	$(BIN)/coverage report

mutants: $(VENV)/dev
	$(BIN)/python experiments/quality/faults.py
	OMP_NUM_THREADS=1 $(BIN)/mutmut run
	$(BIN)/mutmut results

neighbours: $(VENV)/dev
	$(PIP) nox
	$(BIN)/nox --session neighbours

lucene: $(VENV)/dev
	$(PIP) nox
	$(BIN)/nox --session lucene

# Interpreters that are not on the path are skipped.
versions: $(VENV)/demo
	$(PIP) nox
	$(BIN)/nox

wheel: $(VENV)/demo
	$(PIP) nox
	$(BIN)/nox --session wheel

# Needs the network; strict, because it calls packages without known advisories fine that it could not look up.
audit: $(VENV)/dev
	$(PIP) pip-audit
	$(BIN)/pip freeze --exclude-editable | sed 's/+.*//' > $(VENV)/frozen.txt
	$(BIN)/pip-audit --strict --disable-pip --no-deps --requirement $(VENV)/frozen.txt

bench: $(VENV)/dev
	$(PIP) --editable ".[bench]"
	$(BIN)/python experiments/performance/bench.py

clean:
	rm -rf $(VENV) demo-out
