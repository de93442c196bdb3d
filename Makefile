# Two commands do everything on a machine with Python 3.11 and make: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Wheels only: no compiler is ever needed. Versions come from constraints.txt.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --constraint constraints.txt

# Ledgers and databases sync every step to the disk: tests keep their files in memory, where there is room.
MEMORY := $(shell [ -w /dev/shm ] && [ $$(df --output=avail /dev/shm | tail -1) -gt 4000000 ] && echo /dev/shm)
PYTEST := $(if $(MEMORY),TMPDIR=$(MEMORY) )$(BIN)/python -m pytest --numprocesses logical --durations 20
# All distributions, with what the checks and tests need.
ALL := packages/equipoise[dev,distributed] packages/equipoise-service packages/equipoise-paper
UNIT := not (engine or process or statistical or slow or exhaustive)

.PHONY: demo demo-service test-unit test slow exhaustive coverage test-packages check release-check audit docs bench format constraints clean

demo: $(VENV)/.core
	rm -rf demo-out
	$(BIN)/equipoise demo --output demo-out

demo-service: $(VENV)/.service
	rm -rf demo-service-out
	$(BIN)/equipoise demo-service --output demo-service-out

# After every edit: no process is started, and no round is settled.
test-unit: $(VENV)/.dev
	$(PYTEST) -m '$(UNIT)'

# Every room and every promise once, without a database server or a browser.
test: $(VENV)/.dev
	$(PYTEST)

# Statistics at full power, faults, PostgreSQL, Chromium, the documents, the paper.
slow: $(VENV)/.dev
	$(PYTEST) -m 'slow and not exhaustive'

# Before a release: what takes too long for CI. Commit the file that it writes.
exhaustive: $(VENV)/.dev
	$(PYTEST) --timeout 3600 -m exhaustive --record tests/exhaustive.md

# Branches that `make test` takes, in all processes that it starts.
coverage: $(VENV)/.dev
	rm -f .coverage .coverage.*
	$(subst -m pytest,-m coverage run -m pytest,$(PYTEST))
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report
	$(BIN)/coverage html --quiet --directory build/coverage

# What some slow tests run besides Python: a database server, a browser, a reverse proxy, a clock that jumps.
# Tests that miss theirs are skipped, and say so.
test-packages:
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium faketime nginx-light postgresql > /dev/null

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/house.py --check
	$(BIN)/python scripts/release_check.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# What a tag needs besides: `make release-check TAG=v1.2.3`.
release-check: $(VENV)/.dev
	$(BIN)/python scripts/release_check.py --tag $(TAG)

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
	$(BIN)/python benchmarks/wide_models.py linear-50 logistic-30
	$(BIN)/python benchmarks/settlement.py
	$(BIN)/python benchmarks/advice.py
	$(BIN)/python benchmarks/estimators.py
	$(BIN)/python benchmarks/service_load.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Pin everything that every extra installs, by name and version only.
constraints: $(VENV)/.dev
	rm -rf $(VENV)/fresh && $(PYTHON) -m venv $(VENV)/fresh
	$(VENV)/fresh/bin/python -m pip install --quiet --only-binary :all: $(addprefix --editable ,$(ALL))
	$(VENV)/fresh/bin/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==[^ @/]+$$' > constraints.txt
	rm -rf $(VENV)/fresh

clean:
	rm -rf $(VENV) demo-out demo-service-out site build dist .coverage .coverage.*

$(VENV)/.python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Equipoise needs Python 3.11 or newer, this is " + sys.version'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.core: $(VENV)/.python packages/equipoise/pyproject.toml constraints.txt
	$(PIP) --editable packages/equipoise
	touch $@

$(VENV)/.service: $(VENV)/.core packages/equipoise-service/pyproject.toml
	$(PIP) --editable packages/equipoise --editable packages/equipoise-service
	touch $@

$(VENV)/.dev: $(VENV)/.core $(wildcard packages/*/pyproject.toml)
	$(PIP) $(addprefix --editable ,$(ALL))
	touch $@
