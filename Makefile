# Two commands do everything on a machine with Python 3.11 and make: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Wheels only: no compiler is ever needed. Versions come from constraints.txt.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --constraint constraints.txt

.PHONY: demo demo-service test test-packages slow check audit docs bench format constraints clean

demo: $(VENV)/.core
	rm -rf demo-out
	$(BIN)/equipoise demo --output demo-out

demo-service: $(VENV)/.service
	rm -rf demo-service-out
	$(BIN)/equipoise demo-service --output demo-service-out

test: $(VENV)/.dev
	$(BIN)/pytest --numprocesses auto --dist worksteal --durations 20

# What some tests of the service run besides Python: a database server, a browser, a reverse proxy, a clock that jumps.
# Tests that miss theirs are skipped, and say so.
test-packages:
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium faketime nginx-light postgresql > /dev/null

slow: $(VENV)/.dev
	$(BIN)/pytest --numprocesses auto --dist worksteal --durations 20 -m slow

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# Known vulnerabilities of everything that is pinned; needs a network where their database can be reached.
audit: $(VENV)/.dev
	$(PIP) pip-audit
	$(BIN)/pip-audit --strict --disable-pip --no-deps --requirement constraints.txt

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/statistic_throughput.py
	$(BIN)/python benchmarks/statistic_memory.py
	$(BIN)/python benchmarks/start_up.py
	$(BIN)/python benchmarks/likelihood_gradient.py
	$(BIN)/python benchmarks/auto_against_gibbs.py
	$(BIN)/python benchmarks/fifty_features.py
	$(BIN)/python benchmarks/batching.py
	$(BIN)/python benchmarks/logistic_draws.py
	$(BIN)/python benchmarks/settlement.py
	$(BIN)/python benchmarks/advice.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/estimators.py
	$(BIN)/python benchmarks/service_load.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Pin everything that every extra installs, by name and version only.
constraints: $(VENV)/.dev
	rm -rf $(VENV)/fresh && $(PYTHON) -m venv $(VENV)/fresh
	$(VENV)/fresh/bin/python -m pip install --quiet --only-binary :all: --editable '.[service,distributed,experiments,dev]'
	$(VENV)/fresh/bin/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==[^ @/]+$$' > constraints.txt
	rm -rf $(VENV)/fresh

clean:
	rm -rf $(VENV) demo-out demo-service-out site build dist

$(VENV)/.python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Equipoise needs Python 3.11 or newer, this is " + sys.version'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.core: $(VENV)/.python pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

$(VENV)/.service: $(VENV)/.core
	$(PIP) --editable '.[service]'
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) --editable '.[dev]'
	touch $@
