# Ringleader: what a person runs. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RINGLEADER := $(BIN)/ringleader
MODEL := smollm2-135m
# What a commit waits for; the long rows (every dialect, every ending, real rings) are make test's.
FAST_TESTS := tests/test_tidy.py tests/unit tests/sim tests/api -m "not ring" \
	--ignore=tests/unit/agent/tools/test_mcp_servers.py \
	--ignore=tests/unit/language/dialects --ignore=tests/unit/language/test_formats.py \
	--ignore=tests/unit/shard/test_closing.py --ignore=tests/unit/shard/test_closing_forms.py \
	--ignore=tests/unit/shard/test_prepared.py --ignore=tests/unit/shard/test_closing_strings.py

.DEFAULT_GOAL := help
.PHONY: help demo test sim conformance check lint setup run status bench soak fuzz proto reference clean model

help:  ## List the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup  ## Set everything up, start a ring of two shards, force a tool call, leave nothing running
	@$(RINGLEADER) demo

test: setup model  ## Run the whole test suite, in three processes
	@PYTHON=$(BIN)/python tests/run_all.sh

SEEDS := 10000
sim: setup  ## Run the simulated cluster through many seeds: make sim SEEDS=100000
	$(BIN)/python -m tests.sim.run_seeds $(SEEDS)

conformance: setup model  ## Prove tool calls and structured output in full: every dialect, a quarter of an hour
	@PYTHON=$(BIN)/python tests/conformance/run_all.sh

check: lint  ## Format, lint, strict types, house rules and fast tests (under two minutes)
	SIM_SEEDS=200 $(BIN)/python -m pytest -q -x $(FAST_TESTS)

lint: setup
	$(BIN)/ruff format --check src tests
	$(BIN)/ruff check src tests
	$(BIN)/mypy
	@$(MAKE) --no-print-directory proto OUT=$(VENV)/proto >/dev/null
	@diff -r -x __init__.py -x __pycache__ $(VENV)/proto/ringleader/v1 src/ringleader/v1 || \
		{ echo "generated code is stale: run make proto"; exit 1; }

setup: $(STAMP)  ## Make the virtual environment with all dependencies

$(STAMP): pyproject.toml
	@PYTHON="$(PYTHON)" deploy/setup.sh $(VENV)
	@touch $@

model: setup
	@$(RINGLEADER) models pull $(MODEL)

run: setup model  ## Start a node that serves the embedded model
	@$(RINGLEADER) node --model $(MODEL)

status: setup  ## Show the cluster of the node on this machine
	@$(RINGLEADER) status

KEEP :=
bench: setup model  ## Measure all that has a target, in a quarter of an hour; keep it with KEEP=docs/benchmarks
	@$(RINGLEADER) bench all $(if $(KEEP),--keep $(KEEP))

soak: setup model  ## Load a real node and its ring for ten minutes (SOAK_S=60: one); nothing may be left behind
	@$(BIN)/python -m tests.soak.run_soak $(MODEL)

OUT := src
proto: setup  ## Generate the protobuf code anew
	@mkdir -p $(OUT)
	$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=$(OUT) --pyi_out=$(OUT) --grpc_python_out=$(OUT) \
		proto/ringleader/v1/control.proto proto/ringleader/v1/ring.proto \
		proto/ringleader/v1/join.proto

MINUTES := 30
fuzz: setup  ## Fuzz every door of the API for half an hour, or so many: make fuzz MINUTES=5
	$(BIN)/python -m tests.api.fuzz --minutes $(MINUTES)

reference: setup  ## Write docs/reference anew from the API's routes and models
	$(BIN)/python -m ringleader.api.reference docs/reference

clean:  ## Remove the virtual environment and all caches
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
