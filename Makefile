# Everything here works with nothing but make and Python 3.11 or newer; the rest goes into $(VENV).
VENV ?= .venv
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := $(VENV)/bin
# The tests start hundreds of interpreters, each of which would compile the package without this.
export PYTHONDONTWRITEBYTECODE :=
# pytest-benchmark warns beside xdist, and warnings are errors here. Three processes for two cores:
# a fifth of the time they wait for the disk, or for other processes.
PYTEST := $(BIN)/python -m pytest --benchmark-disable -n 3 --dist worksteal
QUICK := "not long and not benchmark"

.PHONY: run test test-all test-long static check schema golden bench release-check clean
.DEFAULT_GOAL := help

.PHONY: help
help:
	@echo "make run       install into $(VENV) and run specs/digits-kmeans.yaml"
	@echo "make test      the tests, without the long ones"
	@echo "make test-all  all tests"
	@echo "make test-long the long ones alone"
	@echo "make prove     kills, crash states, power cuts and damage by the thousand; about two hours"
	@echo "make static    style, types, layers and schema; runs no test"
	@echo "make check     make static, and make test"
	@echo "make schema    update schemas/job.schema.json"
	@echo "make manual    update the manual's pages of keys, functions and commands, and the type of error codes"
	@echo "make golden    update the expected texts of the tests; look at the diff"
	@echo "make pictures  run all specs, and draw their pictures and those of the manual"
	@echo "make house     print how large the package is, and how much of it a job needs"
	@echo "make bench     print ratios, and which miss their aims; a quarter of an hour"
	@echo "make release-check  build, install into clean environments, and use what was built"
	@echo "make clean     remove $(VENV), caches and ./runs"

run: $(VENV)/.installed
	$(BIN)/jobrun run specs/digits-kmeans.yaml --resume never

# Rewriting the asserts of all modules takes longer than their import; tests that fail (exit code 1)
# are run again with it, to show the values, and have failed all the same.
test: $(VENV)/.installed-dev
	$(PYTEST) --assert=plain -m $(QUICK) || \
		{ code=$$?; [ $$code != 1 ] || $(PYTEST) --last-failed -m $(QUICK); exit $$code; }

test-all: $(VENV)/.installed-dev
	$(PYTEST) -m "not benchmark"

test-long: $(VENV)/.installed-dev
	$(PYTEST) -m "long and not benchmark"

.PHONY: prove
prove: $(VENV)/.installed-dev
	$(BIN)/python -m tests.durability.programme --kills 10000 --states 100000 --cuts 300
	$(BIN)/python -m tests.property.verdicts --programs 1000
	JOBRUN_TIMES=10 $(PYTEST) -m long tests/property tests/adversarial \
		tests/durability/test_machine.py tests/durability/test_readers.py

check: static test

static: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/jobrun schema | diff -u schemas/job.schema.json -
	$(BIN)/check-jsonschema --schemafile schemas/job.schema.json specs/*.yaml specs/ci/smoke.yaml

schema: $(VENV)/.installed-dev
	$(BIN)/jobrun schema --out schemas/job.schema.json

.PHONY: manual
manual: $(VENV)/.installed-dev
	$(BIN)/python -m tests.support.manual_reference
	$(BIN)/python -m tests.support.error_codes

golden: $(VENV)/.installed-dev
	JOBRUN_UPDATE_GOLDEN=1 $(PYTEST) -m "not long and not benchmark"

.PHONY: house
house: $(VENV)/.installed-dev
	$(BIN)/python -m tests.support.house

.PHONY: pictures
pictures: $(VENV)/.installed-dev
	$(BIN)/python -m tests.support.gallery
	$(BIN)/python -m tests.support.manual_pictures

bench: $(VENV)/.installed-dev
	$(BIN)/python -m tests.benchmarks

# Everything that can be checked of a release by a machine; it prints what is left.
release-check: static
	$(BIN)/python -m tests.support.release

clean:
	rm -rf $(VENV) runs specs/runs .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf .benchmarks
	find jobrun tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

# pip reads dependency groups since 25.1; the one that comes with Python 3.11 is older.
$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@ $(VENV)/.installed
