# gymwire: every target makes its own virtual environment first; a machine needs Python 3.11-3.13, its `venv` and make.
#
#   make demo    play four environments on every wire, and print one table (JSON=FILE keeps it as data)
#   make test    everything that can run on this machine

.DEFAULT_GOAL := help
.PHONY: help demo test train learn check bench soak peers clean

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --no-input -q
# Leave PYTHON empty to take the first of python3.11, python3.12, python3.13, python3 that fits.
PYTHON ?=
# Whole test runs, or a part of one: make test T=tests/servers
T ?=

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.base ## Play four environments on all wires, one table (JSON=FILE: as data too)
	@$(PY) -m gymwire.adapters.demo $(if $(JSON),--json "$(JSON)")

test: $(VENV)/.dev ## All tests that this machine can run (T=PATH for a part)
	@$(if $(T),,$(PY) -m tests.peers.venvs)
	$(PY) -m pytest $(or $(T),-n 2 --dist loadfile)
	@$(if $(T),,$(PY) -m tests.trainer_stack)

train: $(VENV)/.dev ## A whole training run of a tiny policy on this machine's CPU, with its report
	@$(PY) -m tests.trainer_stack gymwire.trainer.first_run

learn: $(VENV)/.dev ## What is learned when our side fails, by how failures are treated (ARGS=--help)
	@$(PY) -m tests.trainer_stack tests.learn $(ARGS)

check: $(VENV)/.dev ## Format, lint, types on the built wheel, fast tests
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m tests.types_of_wheel
	$(PY) -m pytest -m "not peers and not slow" -q -n 2 --dist loadfile

bench: $(VENV)/.dev ## Cost of each wire beside its peers and a bare echo, of rollouts beside the bare engine
	@$(PY) -m tests.peers.venvs nemo_gym_0_7 openenv trainer_cpu
	$(PY) -m tests.bench

soak: $(VENV)/.dev ## 20 minutes at 200 sessions in flight: does everything return to where it began? (SECONDS=120: shorter)
	$(PY) -m tests.soak $(if $(SECONDS),--seconds $(SECONDS))

peers: $(VENV)/.dev ## Build the virtual environments of the real peers in advance
	@$(PY) -m tests.peers.venvs

clean: ## Remove what the targets made in this folder (the cache of peers stays)
	rm -rf $(VENV) build dist gymwire.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A venv that lacks its mark, or is older than pyproject.toml, is updated; one that cannot run is made anew.
$(VENV)/.base: pyproject.toml | $(VENV)/.made
	@echo "gymwire: installing into $(VENV) (the first time takes a minute) ..."
	@$(PIP) install -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.made
	@echo "gymwire: installing with development tools into $(VENV) (the first time takes a minute or two) ..."
	@$(PIP) install -e ".[dev]"
	@touch $@ $(VENV)/.base

$(VENV)/.made:
	@python=`sh .ci/python "$(PYTHON)"` && rm -rf $(VENV) && "$$python" -m venv $(VENV)
	@touch $@
