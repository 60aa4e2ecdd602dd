# Two commands are enough: `make quickstart` and `make test`. Both set up .venv when it is missing or stale.
.DEFAULT_GOAL := help
.PHONY: help quickstart test test-all fuzz mutants chaos lint bench sbom clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Threads of two busy processes spin against each other; one thread each is faster on small machines.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
WORKERS ?= 2
MINUTES ?= 60
FAULTS ?= 500
# Tests and hypothesis examples are the same in every `make test`; these search at random, in a random order.
ifndef SEED
SEED := $(shell $(PYTHON) -c "import random; print(random.randrange(2**31))")
endif
SEARCH := --hypothesis-profile=search --hypothesis-seed=$(SEED) --shuffle=$(SEED)

help:
	@echo "make quickstart   train, check and compare three small networks on the digits, write a report"
	@echo "make test         lint and the default tests"
	@echo "make test-all     also the slow, browser and distributed tests, in random order and with random examples"
	@echo "make fuzz         the default tests in random order and with random examples, then every reader on damaged files;"
	@echo "                  MINUTES=60 READERS='npz gallery' SEED=... (repeats a search)"
	@echo "make mutants      break the code at random and list the faults that no test notices; MINUTES=60 PACKAGES=certify"
	@echo "make chaos        kill, starve and damage a short run and list the promises that break; FAULTS=500 SEED=0 MINUTES=60"
	@echo "make lint         ruff, format check, strict types, import directions"
	@echo "make bench        measure speed against peers and bare loops"
	@echo "make sbom         list the packages of the default install: dist/sbom.cdx.json (CycloneDX) and dist/licences.md"
	@echo "make clean        remove .venv, caches and runs/"

$(VENV)/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e .
	touch $@

$(VENV)/.dev: $(VENV)/.core requirements-oracles.txt
	$(PIP) install -c constraints.txt -e ".[dev,oracles]"
	$(PIP) install --no-deps -r requirements-oracles.txt
	touch $@

$(VENV)/.all: $(VENV)/.dev
	$(PIP) install -c constraints.txt -e ".[dev,oracles,browser,tensorboard]"
	touch $@

quickstart: $(VENV)/.core
	$(ONE_THREAD) $(BIN)/holdfast run recipes/digits.yaml

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_imports.py

test: lint
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n $(WORKERS)

test-all: lint $(VENV)/.all
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n $(WORKERS) -m "not gpu and not network" $(SEARCH)

fuzz: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n $(WORKERS) $(SEARCH)
	$(ONE_THREAD) $(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED) $(READERS)

mutants: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/python -m tests.mutants --minutes $(MINUTES) $(PACKAGES)

chaos: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/python -m tests.chaos --faults $(FAULTS) --seed $(SEED) --minutes $(MINUTES)

bench: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/python benchmarks/streams.py
	$(ONE_THREAD) $(BIN)/python benchmarks/pgd.py
	$(ONE_THREAD) $(BIN)/python benchmarks/memory.py
	$(ONE_THREAD) $(BIN)/python benchmarks/allocation.py
	$(ONE_THREAD) $(BIN)/python benchmarks/autoattack.py
	$(ONE_THREAD) $(BIN)/python benchmarks/certify.py
	$(ONE_THREAD) $(BIN)/python benchmarks/spider.py
	$(ONE_THREAD) $(BIN)/python benchmarks/corruptions.py
	$(ONE_THREAD) $(BIN)/python benchmarks/orthogonal.py
	$(ONE_THREAD) $(BIN)/python benchmarks/discriminative.py
	$(ONE_THREAD) $(BIN)/python benchmarks/curvature.py
	$(ONE_THREAD) $(BIN)/python benchmarks/frequency.py
	$(ONE_THREAD) $(BIN)/python benchmarks/training_cost.py
	$(ONE_THREAD) $(BIN)/python benchmarks/composites.py
	$(ONE_THREAD) $(BIN)/python benchmarks/safety.py

sbom: $(VENV)/.core
	$(BIN)/python -m tests.supply dist

clean:
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache .hypothesis .mutants .chaos .fuzz dist build
