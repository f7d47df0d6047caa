# make run     start the server on an embedded store          (ARGS="--secure-port 7443" for flags)
# make test    everything but the long tests and benchmarks   (ARGS="-k watch" for pytest's flags)
# make slow    the long tests
# make lint    style, types, import rules, phrases
# make faults  kill, stop, fill and cut things under load, and count       (ARGS="--times 100 --fault 'server killed'")
# make attack  what others notice of hostile clients             (ARGS="--only lists --scale 2", ARGS="--list")
# make fuzz    feed every decoder what nobody would write      (ARGS="--minutes 10 --only patches --jobs 2")
# make docs    write the pages that are made from tables, and build the site in build/site
# make release build the files of a release in dist, the same bytes each time       (ARGS="--no-image")
# make bench   what it does per second, beside bare limits    (ARGS="get list")
#
# All of them work from nothing but make and Python 3.11 or later; what they need goes to .venv.

# The first of these that is new enough; or say which: make PYTHON=/opt/python3.13/bin/python3 run
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$python"; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
# Tests wait for servers nearly as long as they compute, and slow tests longer: for time to pass, too.
PROCESSORS = $(shell getconf _NPROCESSORS_ONLN)
TEST_WORKERS = $(or $(WORKERS),$(shell expr $(PROCESSORS) \* 5 / 2))
SLOW_WORKERS = $(or $(WORKERS),$(shell expr $(PROCESSORS) \* 3))
# Tests start hundreds of servers, and a server starts in two thirds of the time from bytecode. It is kept in the
# environment, whatever the shell says about writing it, so that none lies between the sources.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/pycache
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help run test slow faults attack fuzz lint docs release bench clean

help:
	@sed -n 's/^# make/make/p' Makefile

run: $(VENV)/.installed
	exec $(BIN)/apiserver $(ARGS)

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m "not slow" -n $(TEST_WORKERS) --dist worksteal $(ARGS)

# ARGS may select none of the tests that run alone: pytest exits with 5 then.
slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m "slow and not alone" -n $(SLOW_WORKERS) --dist worksteal $(ARGS)
	$(BIN)/python -m pytest -m "slow and alone" $(ARGS) || [ $$? = 5 ]

faults: $(VENV)/.installed-test
	$(BIN)/python -m tests.guarantees.faults $(ARGS)

attack: $(VENV)/.installed-test
	$(BIN)/python -m tests.hostile $(ARGS)

fuzz: $(VENV)/.installed-fuzz
	$(BIN)/python -m tests.fuzz $(ARGS)

lint: $(VENV)/.installed-test $(VENV)/.installed-lint $(VENV)/.installed-bench
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.phrases

docs: $(VENV)/.installed-docs
	$(BIN)/python -m tests.references
	$(BIN)/zensical build --clean --strict

release: $(VENV)/.installed-release
	$(BIN)/python deploy/release.py $(ARGS)

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "Python 3.11 or later \
	is required: install it, or say where it is, as in make PYTHON=/opt/python3.13/bin/python3 run" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) --editable .
	@touch $@

# Once, the bytecode of all tests is written by one process, and not by every worker at the same time.
$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) --editable ".[test]"
	@-$(BIN)/python -m pytest --collect-only --quiet >/dev/null
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-%: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) --editable ".[$*]"
	@touch $@ $(VENV)/.installed
