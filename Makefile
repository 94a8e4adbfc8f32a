# Two commands do everything from a clean clone: `make audit` and `make test`. `make` lists all of
# them, by what stands behind ## beside each.
# PYTHON picks the interpreter that builds the environment, VENV where it lives. Versions are those
# of constraints.txt, which `make lock` renews; with LOCK= they are the newest.
PYTHON ?= python3
VENV   ?= .venv
OUT    ?= results
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
LOCK   ?= constraints.txt
PIP     = $(BIN)/python -m pip install --quiet $(if $(LOCK),--constraint $(LOCK))
# What builds the package, in an environment of pip's own, too.
HERE    = $(PIP) $(if $(LOCK),--build-constraint $(LOCK)) --editable

# Processes that run side by side or after each other share what Python compiles of the sources.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help audit test trust mutants nightly newest smoke lock lint notebooks outputs docs pages site pictures \
  release repository clean

help: ## this list
	@awk -F ' ## ' '/^[a-z]+:.* ## / { sub(/:.*/, "", $$1); printf "make %-11s %s\n", $$1, $$2 }' \
	  $(firstword $(MAKEFILE_LIST))

audit: $(STAMP)-audit ## audit a real table, redraw Figure 2; writes results/
	$(BIN)/gibbs-dp audit breast-cancer --num-information 0 --out $(OUT)/breast-cancer
	$(BIN)/gibbs-dp figure2 --out $(OUT)/figure2

test: $(STAMP)-test ## the tests, on two processes
	$(BIN)/python -m pytest -n 2 --dist worksteal

# What is too slow for `make test`, in under an hour: results are written to results/trust. Examples
# that hypothesis makes are the same in every `make test`, and others in every `make trust`, which
# prints how to repeat one that fails.
trust: $(STAMP)-test ## slow tests, faults, hostile files, attacks on privacy claims: under an hour
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "trust or hypothesis" --hypothesis-profile random
	$(BIN)/python benchmarks/fuzz.py --cases 1000 --out $(OUT)/trust
	$(BIN)/python benchmarks/faults.py --out $(OUT)/trust
	$(BIN)/python benchmarks/claims.py --runs 4000 --no-power --out $(OUT)/trust

# In a copy. It goes on from benchmarks/results/mutants.json. PART=2/8 is every eighth, from the second on.
mutants: $(STAMP)-test ## break formulas one at a time: which do no tests notice? A night
	$(BIN)/python benchmarks/mutants.py $(if $(PART),--part $(PART))

# On the newest versions: all tests, and the same with the correctness of the numbers and the counts
# of the saved results, which it replaces: benchmarks/results.
nightly: ## tests on the newest versions, trust with all counts, correctness: hours
	$(MAKE) newest VENV=$(VENV)-newest LOCK=

newest: $(STAMP)-test
	$(PIP) --upgrade --upgrade-strategy eager --editable '.[test]'
	$(BIN)/python -m pytest -n 2 --dist worksteal
	$(BIN)/python benchmarks/fuzz.py --cases 10000
	$(BIN)/python benchmarks/faults.py
	$(BIN)/python benchmarks/claims.py
	$(BIN)/python benchmarks/correctness.py --run

smoke: ## a few calls on the newest and oldest versions, on every Python at hand
	$(PYTHON) .ci/smoke.py

# The newest versions of what every extra, the build and the Makefile install: one set for all
# Pythons and platforms.
lock: ## constraints.txt anew: versions that all but nightly, smoke and release keep to
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --upgrade pip uv
	printf '%s\n' pip hatchling editables | $(VENV)-lock/bin/uv pip compile --quiet --upgrade --universal \
	  --python-version 3.11 --fork-strategy fewest --all-extras --no-annotate \
	  --custom-compile-command 'make lock' --output-file constraints.txt pyproject.toml -

lint: $(STAMP)-lint ## ruff check, ruff format --check, mypy (strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

notebooks: $(STAMP)-notebooks ## run the notebooks with small counts, check that .py and .ipynb agree
	GIBBS_DP_FAST=1 $(BIN)/python -m pytest -p no:cacheprovider --nbmake notebooks/*.ipynb
	$(BIN)/jupytext --to ipynb --test notebooks/*.py

# What a reader sees without running them: NOTEBOOKS="1_quickstart ..." are some of them.
outputs: $(STAMP)-notebooks ## run the notebooks in full, and store small outputs in them
	$(BIN)/python docs/store_outputs.py $(patsubst %,notebooks/%.ipynb,$(NOTEBOOKS))

docs: pages site ## the documentation: pages, then site

# A page is one test, of minutes on slow machines.
pages: $(STAMP)-docs ## run the code of README and of all pages, and compare what it prints
	$(BIN)/python -m pytest -n 2 --dist worksteal -o faulthandler_timeout=900 docs/tests

# GIBBS_DP_FAST=1 runs its notebooks with small counts.
site: $(STAMP)-docs ## build it into docs/build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/build/html
	@echo "The documentation is in docs/build/html/index.html."

# They are kept in the repository.
pictures: $(STAMP)-docs ## draw what README and the documentation show
	$(BIN)/python docs/make_pictures.py

# What a release uploads, built and tried; TAG is refused if it is not this version's.
release: ## build sdist and wheel into dist/, try both and every extra; nothing is uploaded
	$(PYTHON) .ci/release.py $(VENV)-release "$(TAG)"

# In every file that says so: make repository URL=https://... CONTACT=NAME@HOST, or one of the two.
repository: ## write where this is hosted, and whom to tell of security problems
	$(PYTHON) .ci/repository.py "$(URL)" "$(CONTACT)"

clean: ## remove environments, results and what was built
	rm -rf $(VENV) $(VENV)-newest $(VENV)-lock $(VENV)-release $(OUT) dist docs/build docs/generated \
	  docs/notebooks

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "gibbs_dp needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "Python's venv module is missing: on Debian run 'apt-get install python3-venv', then make again."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip

$(STAMP)-audit: $(VENV)/bin/python pyproject.toml $(LOCK)
	$(HERE) '.[tables]'
	@touch $@

$(STAMP)-test: $(VENV)/bin/python pyproject.toml $(LOCK)
	$(HERE) '.[test]'
	@touch $@

$(STAMP)-lint: $(VENV)/bin/python pyproject.toml $(LOCK)
	$(HERE) '.[test,lint]'
	@touch $@

$(STAMP)-docs: $(VENV)/bin/python pyproject.toml $(LOCK)
	$(HERE) '.[docs]'
	@touch $@

$(STAMP)-notebooks: $(VENV)/bin/python pyproject.toml $(LOCK)
	$(HERE) '.[test,notebooks]'
	@touch $@
