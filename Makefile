# make demo: set up and open the explorer; make test: set up and run the tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 7860

.PHONY: demo test lint setup setup-dev clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.ready
	@echo "opening the explorer on http://127.0.0.1:$(PORT) (stop with Ctrl-C)"
	$(BIN)/python app.py --port $(PORT)

test: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	@$(BIN)/python tests/run.py

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/mypy

$(VENV)/.exists:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed: install it (Debian: apt install python3 python3-venv) or run make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "the venv module is missing: install it (Debian: apt install python3-venv)"; exit 1; }
	@touch $@

$(VENV)/.ready: $(VENV)/.exists requirements.txt
	@echo "installing requirements (a few minutes the first time)"
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready requirements-dev.txt
	@echo "installing what the tests need"
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements-dev.txt
	@touch $@

setup: $(VENV)/.ready
setup-dev: $(VENV)/.ready-dev

clean:
	rm -rf $(VENV)
