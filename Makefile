# Two commands: `make prove` proves every theorem, `make test` runs lint, types and tests.
# `make soundness` tries for an hour or two to make the engines contradict each other, and prints a table of what was
# tried how often; `make soundness PARTS="forged hostile"` runs those parts of it alone.
# Both set up what they need in .venv first, and again only after pyproject.toml has changed.

PYTHON ?= python3
BIN := .venv/bin
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: prove test soundness
.DELETE_ON_ERROR:

prove: .venv/installed
	$(BIN)/mha-sym prove

test: .venv/installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto --dist worksteal

soundness: .venv/installed-for-tests
	$(BIN)/python -m tests.soundness.run $(PARTS)

# A stamp for each set of dependencies.  Installing in place: edits of the code need no new installation.
.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/installed-for-tests: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ .venv/installed

.venv/bin/python:
	$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }
