# Everything here works with nothing but make and Python 3.11 or newer; the rest goes into $(VENV).
VENV ?= .venv
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := $(VENV)/bin
# pytest-benchmark warns beside xdist, and warnings are errors here.
PYTEST := $(BIN)/python -m pytest --benchmark-disable -n 2 --dist worksteal

.PHONY: run test test-all static check schema golden bench release-check clean
.DEFAULT_GOAL := help

.PHONY: help
help:
	@echo "make run       install into $(VENV) and run specs/digits-kmeans.yaml"
	@echo "make test      the tests, without the long ones"
	@echo "make test-all  all tests"
	@echo "make prove     kills, crash states, power cuts and damage by the thousand; about an hour"
	@echo "make static    style, types, layers and schema; runs no test"
	@echo "make check     make static, and make test"
	@echo "make schema    write schemas/job.schema.json anew"
	@echo "make golden    write the expected texts of the tests anew; look at the diff"
	@echo "make pictures  run all specs, and draw specs/pictures anew"
	@echo "make bench     print ratios; no test depends on them"
	@echo "make release-check  build, install into clean environments, and use what was built"
	@echo "make clean     remove $(VENV), caches and ./runs"

run: $(VENV)/.installed
	$(BIN)/jobrun run specs/digits-kmeans.yaml --resume never

test: $(VENV)/.installed-dev
	$(PYTEST) -m "not long and not benchmark"

test-all: $(VENV)/.installed-dev
	$(PYTEST) -m "not benchmark"

.PHONY: prove
prove: $(VENV)/.installed-dev
	$(BIN)/python -m tests.durability.programme --kills 10000 --states 100000 --cuts 300

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

golden: $(VENV)/.installed-dev
	JOBRUN_UPDATE_GOLDEN=1 $(PYTEST) -m "not long and not benchmark"

.PHONY: pictures
pictures: $(VENV)/.installed-dev
	$(BIN)/python -m tests.support.gallery

bench: $(VENV)/.installed-dev
	$(BIN)/python -m tests.benchmarks.bench_startup
	$(BIN)/python -m tests.benchmarks.bench_compile
	$(BIN)/python -m tests.benchmarks.bench_epoch
	$(BIN)/python -m tests.benchmarks.bench_tasks
	$(BIN)/python -m tests.benchmarks.bench_queues
	$(BIN)/python -m tests.benchmarks.bench_sessions
	$(BIN)/python -m tests.benchmarks.bench_numeric
	$(BIN)/python -m tests.benchmarks.bench_profile
	$(BIN)/python -m tests.benchmarks.bench_nets
	$(BIN)/python -m tests.benchmarks.bench_checkpoint
	$(BIN)/python -m tests.benchmarks.bench_added
	$(BIN)/python -m tests.benchmarks.bench_durability
	$(BIN)/python -m tests.benchmarks.bench_durability --soak 10000

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
