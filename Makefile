# The whole project by name: `make help`. Works with GNU make 4.3, also with -j.
#
#   TORCH    what pip installs first, so that the build is chosen on purpose: the default has a CPU build where the index
#            offers one. TORCH= leaves the choice to pip; for a CUDA build name one as pip would (TORCH='torch==2.13.0
#            --index-url ...').
#   PYTHON   the interpreter for .venv; unset: the first of python3.11, python3.12, python3, python that is 3.11 or 3.12.
#   PROFILE  small or paper; unset: paper where a GPU is found, small elsewhere.
#   SEEDS    such as SEEDS="1 2 3"; unset: the table's own.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

TORCH ?= torch==2.13.0
PYTHON ?=
PROFILE ?=
SEEDS ?=

python := .venv/bin/python
depgen := $(python) -m depgen
ready := .venv/.ready
supported := import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))

comma := ,
space := $(subst ,, )
profile := $(if $(strip $(PROFILE)),--profile $(strip $(PROFILE)))
seeds := $(if $(strip $(SEEDS)),--seeds '[$(subst $(space),$(comma),$(strip $(SEEDS)))]')

# The rows of DMLM Table 2 that are built, as `depgen reproduce` spells them.
table2_rows := Transformer DM-Transformer DM-Transformer-left-chain DM-Transformer-random-trees
table2_targets := $(addprefix table2-,$(table2_rows))

.PHONY: help setup demo test lint bench parser reproduce-table2 reproduce-dmlm-table2 $(table2_targets) tables record clean

help: ## list the targets
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)$$/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 28
	@printf '  %s\n' 'Rows of Table 2, one target each:' $(addprefix '  ',$(table2_targets))
	@echo 'Variables: PROFILE=small|paper  SEEDS="1 2"  TORCH=torch==2.13.0  PYTHON=python3.11'

setup: $(ready) ## make .venv and install depgen with everything for development

# Runs again only when pyproject.toml changes.
$(ready): pyproject.toml
	@python="$(PYTHON)"; \
	if [ -z "$$python" ]; then \
	    for candidate in python3.11 python3.12 python3 python; do \
	        if "$$candidate" -c '$(supported)' 2>/dev/null; then \
	            python="$$candidate"; break; \
	        fi; \
	    done; \
	fi; \
	if [ -z "$$python" ]; then \
	    echo "depgen needs Python 3.11 or 3.12; none of python3.11, python3.12, python3, python on PATH is one." >&2; \
	    echo "Install one, or name it: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3.11" >&2; \
	    exit 1; \
	fi; \
	if ! $(python) -c '$(supported)' 2>/dev/null; then echo "making .venv with $$python"; "$$python" -m venv --clear .venv; fi
	$(if $(strip $(TORCH)),$(python) -m pip install --quiet $(TORCH))
	$(python) -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(ready) ## train Transformer and DM-Transformer on generated stories, test both, print the table
	$(depgen) reproduce demo

test: $(ready) ## run the tests on two processes
	$(python) -m pytest -n 2

lint: $(ready) ## ruff format and check, mypy, import contracts
	$(python) -m ruff format --check .
	$(python) -m ruff check .
	$(python) -m mypy
	.venv/bin/lint-imports

bench: $(ready) ## measure speed and memory into results/bench/ (no corpus, no parser)
	$(python) -m pytest tests/benchmarks -o python_files='bench_*.py' -m '' -p no:xdist -s

parser: $(ready) ## train the parsers that give silver trees: of stories, of cased text, of the PTB (once; needs DEPGEN_DATA)
	$(depgen) train-parser --config experiments/parser_ewt_lowercased.yaml
	$(depgen) train-parser --config experiments/parser_ewt.yaml
	$(depgen) train-parser --config experiments/parser_wsj_normalized.yaml
	$(depgen) train-parser --config experiments/parser_ewt_normalized.yaml

reproduce-table2: $(table2_targets) ## DMLM Table 2: the rows built so far, ours beside the paper's
	$(depgen) table dmlm_table2 $(profile) --format text

reproduce-dmlm-table2: reproduce-table2 ## the same

$(table2_targets): table2-%: $(ready)
	$(depgen) reproduce dmlm_table2 --row '$*' $(profile) $(seeds)

tables: $(ready) ## render every table of the results so far (Markdown, LaTeX, CSV, text)
	$(depgen) table demo --format text
	$(depgen) table dmlm_table2 $(profile) --format text

record: $(ready) ## copy the results of Table 2 to the tracked experiments/measured/
	$(depgen) record dmlm_table2 $(profile)

clean: ## remove caches; .venv, runs and results stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find depgen tests -name __pycache__ -type d -prune -exec rm -rf {} +
