# The whole project by name: `make help`. Works with GNU make 4.3, also with -j.
#
#   TORCH      what pip installs first: the default has a CPU build where the index offers one. TORCH= leaves the choice to
#              pip; for a CUDA build write TORCH='torch==2.13.0 --index-url ...'.
#   PYTHON     the interpreter for .venv; unset: the first of python3.11 to python3.14 and python3 on PATH.
#   SIZE       small (the default, for a laptop) or paper.
#   SEEDS      such as SEEDS="1 2 3"; unset: the table's.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c

TORCH ?= torch==2.13.0
PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3.14 python3))

python := .venv/bin/python
depgen := $(python) -m depgen
parallel := -n auto --maxprocesses 4 --dist worksteal
ready := .venv/.ready
developer := .venv/.developer
documented = $(subst /,.,$(patsubst %/__init__.py,%,$(wildcard depgen/*/__init__.py)))

options := $(addprefix --size ,$(SIZE)) $(if $(SEEDS),--seeds $(SEEDS))

.PHONY: help setup demo test test-all lint bench gpu-report parser report docs clean reproduce-dmlm-figure3 reproduce-udgn-figure5

help: ## list the targets
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)$$/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 28
	@echo '  Tables and case studies (those of DMLM also as reproduce-table2, ...):'
	@awk -F '^caption: *' 'NF > 1 { name = FILENAME; gsub(/.*\/|\.yaml$$/, "", name); gsub(/_/, "-", name); gsub(/"/, "", $$2); \
	    printf "  reproduce-%s\t%s\n", name, $$2 }' experiments/tables/*.yaml experiments/case_studies/*.yaml | expand -t 36
	@echo 'Variables: SIZE=small|paper  SEEDS="1 2"  TORCH=torch==2.13.0  PYTHON=python3.11'

setup: $(developer) ## make .venv and install depgen with everything for development

# Runs again only when pyproject.toml changes. pip refuses a Python that depgen does not run on.
$(ready): pyproject.toml
	test -x $(python) || $(PYTHON) -m venv .venv
	$(if $(strip $(TORCH)),$(python) -m pip install --quiet $(TORCH))
	$(python) -m pip install --quiet --editable '.[text-metrics,plots,names]'
	@touch $@

$(developer): $(ready)
	$(python) -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(ready) ## train Transformer and DM-Transformer on a small language: a table, a picture of a pair, a report page
	$(depgen) reproduce demo
	$(depgen) plot surprisal --runs transformer_controlled dmlm_controlled --output results/demo/surprisal.png \
	    --sentences "the king near the girls sleeps ." "the king near the girls sleep ."
	$(depgen) table demo --report --output results/demo.html

# Compiled modules are kept, whatever the shell says: without them each process compiles half a minute long. Each process
# takes its part of the tests, file after file, so that few files make their fixtures twice.
test: $(developer) ## run the tests but for slow ones, on a process for each core, at most four
	PYTHONDONTWRITEBYTECODE= $(python) -m pytest $(parallel)

test-all: $(developer) ## run the slow tests too: real runs, kills, compiled kernels, every command of README and guides
	PYTHONDONTWRITEBYTECODE= $(python) -m pytest $(parallel) -m 'not gpu and not real_data'

lint: $(developer) ## ruff format and check, mypy, import contracts
	$(python) -m ruff format --check .
	$(python) -m ruff check .
	$(python) -m mypy
	.venv/bin/lint-imports

bench: $(developer) ## measure speed and memory into results/bench/ (no corpus, no parser)
	$(python) -m pytest tests/benchmarks -o python_files='bench_*.py' -m '' -p no:xdist -s

# A machine without network, such as a lent GPU, uses what stands on it: `make gpu-report python=python3`.
gpu-report: ## on a GPU: its tests, and the speed and memory of every system at its paper's size, into results/
	$(python) -m pytest -m gpu -p no:xdist
	$(python) -m pytest tests/benchmarks/paper_sizes.py tests/benchmarks/bench_levels.py -m '' -p no:xdist -s
	$(depgen) reproduce gilt_table5 --size paper

parser: $(patsubst experiments/parser_%.yaml,parser/%,$(wildcard experiments/parser_*.yaml)) ## train every parser (tables train those that they need)

parser/%: experiments/parser_%.yaml $(ready)
	$(depgen) annotate --train $<

# A table or a case study; those of DMLM without their prefix, too. Runs that are at hand are taken, and two processes
# never train the same one.
reproduce-%: $(ready)
	$(depgen) reproduce $(or $(foreach name,$(subst -,_,$*),$(if $(wildcard experiments/tables/$(name).yaml \
	    experiments/case_studies/$(name).yaml),$(name))),dmlm_$(subst -,_,$*)) $(options)

reproduce-dmlm-figure3: $(ready) ## DMLM: where a DM-Transformer attends to, as a picture
	$(depgen) reproduce dmlm_table4 --rows DM-Transformer $(options)
	$(depgen) plot attention --run dmlm_news/$(or $(SIZE),small) --output results/dmlm_figure3/attention.png

reproduce-udgn-figure5: $(ready) ## UDGN: heads and relations as a picture
	$(depgen) reproduce udgn_table3 --rows UDGN $(options)
	$(depgen) plot heat-map --config experiments/correlations_ewt.yaml --run udgn_ewt/$(or $(SIZE),small) \
	    --output results/udgn_figure5/heat-map.png

report: $(ready) ## one page of your tables (of the tracked ones where you have none), curves and pictures: results/report.html
	$(depgen) table --report

# pdoc finds neither the modules nor the lazy names of a package with __all__: both are named to it.
docs: $(developer) ## write the pages of the Python interface, from the docstrings, into results/api/
	$(python) -c 'import sys, pathlib, depgen, pdoc; \
	    vars(depgen).update({name: getattr(depgen, name) for name in depgen.__all__}); \
	    pdoc.render.configure(docformat="google"); \
	    pdoc.pdoc("depgen", *sys.argv[1:], output_directory=pathlib.Path("results/api"))' $(documented)

clean: ## remove caches; .venv, runs and results stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find depgen tests -name __pycache__ -type d -prune -exec rm -rf {} +
