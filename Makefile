# `make demo` and `make test` start from nothing: they make .venv and install into it.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest test-machines soak lint docs gallery wheel release-check bench-speed bench-scale clean

help:
	@echo "make demo   cluster the embedded digits data with missing views"
	@echo "make test   everything continuous integration runs"
	@echo "make test-oldest  the tests with the lowest versions of all dependencies"
	@echo "make test-machines  the tests of training as other processors would run them"
	@echo "make soak   half an hour of faults; SECONDS=600 for less, ONLY=\"kills disk\" for some; docs/reliability.md"
	@echo "make bench-speed  seconds per run and epoch on this machine, and how they grow"
	@echo "make bench-scale  five million samples from disk in bounded memory"
	@echo "make docs   the documentation as a site, in site/; examples that changed are executed"
	@echo "make gallery  execute all examples and write their pages"
	@echo "make wheel  the package in dist/, installed into an empty environment that runs the demonstration"
	@echo "make release-check  version, changelog, licences, wheel, sdist and documentation of a release"
	@echo "make lint   style, types and import contracts only"
	@echo "make clean  remove .venv and caches"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: $(READY)
	$(BIN)/acova demo --out demo --force

# Examples that changed are executed first. A warning is an error: a link that leads nowhere, a page that is not listed.
docs: $(READY)
	$(BIN)/python docs/_site/gallery.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

gallery: $(READY)
	$(BIN)/python docs/_site/gallery.py --again

wheel: $(READY)
	rm -rf dist build/empty
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build/empty && bin/acova --version && bin/acova demo --out demo --force --quiet
	test "$$(stat -c %s dist/*.whl)" -lt 1048576

bench-speed: $(READY)
	$(BIN)/python benchmarks/speed.py

bench-scale: $(READY)
	$(BIN)/python benchmarks/scale.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/lint-imports

# One thread per process: threads of processes that share cores wait for each other.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=auto --dist=worksteal

# Newest versions are what `make test` installs. Warnings are no errors here: old versions have others than new ones.
test-oldest:
	mkdir -p build
	$(PYTHON) release/lowest.py test > build/oldest.txt
	$(PYTHON) -m venv --clear build/oldest
	build/oldest/bin/python -m pip install --quiet --disable-pip-version-check -c build/oldest.txt ".[test]"
	OMP_NUM_THREADS=1 build/oldest/bin/python -m pytest --numprocesses=auto --dist=worksteal -W default \
	  tests/data tests/functional tests/networks tests/engine tests/estimators tests/compared \
	  tests/test_base.py tests/test_metrics.py tests/test_plots.py tests/test_report.py tests/test_cli.py

# The wheel is also installed into an empty environment (make wheel).
release-check: $(READY) wheel docs
	$(BIN)/python release/licences.py --check
	$(BIN)/python release/check.py

test-machines: $(READY)
	$(BIN)/python tests/machines.py

SECONDS ?= 1800
soak: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tests/soak.py --seconds $(SECONDS) $(ONLY)

clean:
	rm -rf .venv demo build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
