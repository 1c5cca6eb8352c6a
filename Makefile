# Doors: make demo, make test, make bench. Each sets up what it needs in .venv.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ok
NATIVE := $(shell find native -type f 2>/dev/null)

.PHONY: setup demo test test-all lint unit native bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@command -v c++ >/dev/null || { echo "error: no C++ compiler; try: apt-get install g++"; exit 3; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "error: Python 3.10 or newer is needed"; exit 3; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt torch
	$(BIN)/pip install --quiet -c constraints.txt -e '.[test]'
	@touch $(STAMP)

# The library is rebuilt when a native source is newer than it.
build/.native: $(STAMP) $(NATIVE)
	@if [ -f build/.native ]; then $(BIN)/pip install --quiet -c constraints.txt --no-deps -e .; fi
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

unit: native
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m 'not slow'

test-all: native lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

bench: native
	$(BIN)/pip install --quiet -c constraints.txt -e '.[test,bench]'
	$(BIN)/cerne bench tokenizer
	$(BIN)/cerne bench train

clean:
	rm -rf build .venv
