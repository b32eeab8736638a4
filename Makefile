# The whole project by name: `make help`. Works with GNU make 4.3, also with -j. Tables, their rows and case studies are
# files in experiments/: no list of them is kept here.
#
#   TORCH      what pip installs first: the default has a CPU build where the index offers one. TORCH= leaves the choice to
#              pip; for a CUDA build write TORCH='torch==2.13.0 --index-url ...'.
#   PYTHON     the interpreter for .venv; unset: the first of python3.11 to python3.14, python3, python that is one of these.
#   SIZE       small (the default, for a laptop) or paper.
#   SEEDS      such as SEEDS="1 2 3"; unset: the table's.
#   PRECISION  of training, in place of the experiments': 32-true is up to twice as fast on a CPU without bf16 instructions.
#   GPT2       a folder of weights (or a name, as `pretrained` takes it) that GPT-2 and DM-GPT-2 begin from.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SECONDEXPANSION:
.PRECIOUS: table/% study/% .matrix/%/.ready

TORCH ?= torch==2.13.0

python := .venv/bin/python
depgen := $(python) -m depgen
parallel := -n auto --maxprocesses 4 --dist worksteal
everywhere := 'not gpu and not real_data'
ready := .venv/.ready
developer := .venv/.developer
pythons := python3.11 python3.12 python3.13 python3.14
supported := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
documented = $(subst /,.,$(patsubst %/__init__.py,%,$(wildcard depgen/*/__init__.py)))

space := $(subst ,, )
comma := ,
listed = $(subst $(space),$(comma),$(strip $(1)))
size := $(addprefix --size ,$(strip $(SIZE)))
run_size := $(or $(strip $(SIZE)),small)
options := $(strip $(size) $(if $(strip $(SEEDS)),--seeds '[$(call listed,$(SEEDS))]') \
    $(addprefix --precision ,$(strip $(PRECISION))) $(if $(strip $(GPT2)),--pretrained '$(strip $(GPT2))'))

.PHONY: help setup demo test test-all test-matrix FORCE lint bench parser union scoreboard tables report record docs clean
.PHONY: reproduce-dmlm-figure3 reproduce-itexp-figure3 reproduce-udgn-figure5

help: ## list the targets
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)$$/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 28
	@echo '  Tables and case studies (those of DMLM also as reproduce-table2, ...); a row is row/TABLE/ROW:'
	@awk -F '^caption: *' 'NF > 1 { name = FILENAME; gsub(/.*\/|\.yaml$$/, "", name); gsub(/_/, "-", name); gsub(/"/, "", $$2); \
	    printf "  reproduce-%s\t%s\n", name, $$2 }' experiments/tables/*.yaml experiments/case_studies/*.yaml | expand -t 36
	@echo 'Variables: SIZE=small|paper  SEEDS="1 2"  PRECISION=32-true  GPT2=FOLDER  TORCH=torch==2.13.0  PYTHON=python3.11'

setup: $(developer) ## make .venv and install depgen with everything for development

# Runs again only when pyproject.toml changes.
$(ready): pyproject.toml
	@python="$(PYTHON)"; \
	if [ -z "$$python" ]; then \
	    for candidate in $(pythons) python3 python; do \
	        if "$$candidate" -c '$(supported)' 2>/dev/null; then \
	            python="$$candidate"; break; \
	        fi; \
	    done; \
	fi; \
	if [ -z "$$python" ]; then \
	    echo "depgen needs Python 3.11 to 3.14; none of $(pythons) python3 python on PATH is one." >&2; \
	    echo "Install one, or name it: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3.11" >&2; \
	    exit 1; \
	fi; \
	if ! $(python) -c '$(supported)' 2>/dev/null; then echo "making .venv with $$python"; "$$python" -m venv --clear .venv; fi
	$(if $(strip $(TORCH)),$(python) -m pip install --quiet $(TORCH))
	$(python) -m pip install --quiet --editable '.[text-metrics,plots,names]'
	@touch $@

$(developer): $(ready)
	$(python) -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(ready) ## train Transformer and DM-Transformer on a small language; a table, their endings, a report page
	$(depgen) reproduce demo
	$(depgen) case-study demo_endings
	$(depgen) report --tables demo --output results/demo.html

# Compiled modules are kept, whatever the shell says: without them each process compiles half a minute long. Each process
# takes its part of the tests, file after file, so that few files make their fixtures twice.
test: $(developer) ## run the tests but for slow ones, on a process for each core, at most four
	PYTHONDONTWRITEBYTECODE= $(python) -m pytest $(parallel)

test-all: $(developer) ## run the slow tests too: real runs, kills, compiled kernels, every command of README and guides
	PYTHONDONTWRITEBYTECODE= $(python) -m pytest $(parallel) -m $(everywhere)

test-matrix: ## run all tests under each Python from 3.11 to 3.14 at hand, each in an environment in .matrix/
	@found=; failed=; for python in $(pythons); do \
	    "$$python" -c '$(supported)' 2>/dev/null || { echo "$$python: does not start, left out"; continue; }; \
	    found=1; $(MAKE) .matrix/$$python/tested || failed="$$failed $$python"; \
	done; \
	if [ -z "$$found" ]; then echo "None of $(pythons) on PATH starts: install one." >&2; exit 1; fi; \
	if [ -n "$$failed" ]; then echo "The tests fail under$$failed." >&2; exit 1; fi

.matrix/%/.ready: pyproject.toml
	$* -m venv --clear .matrix/$*
	$(if $(strip $(TORCH)),.matrix/$*/bin/python -m pip install --quiet $(TORCH))
	.matrix/$*/bin/python -m pip install --quiet --editable '.[dev]'
	@touch $@

.matrix/%/tested: .matrix/%/.ready FORCE
	PYTHONDONTWRITEBYTECODE= .matrix/$*/bin/python -m pytest $(parallel) -m $(everywhere)

lint: $(developer) ## ruff format and check, mypy, import contracts
	$(python) -m ruff format --check .
	$(python) -m ruff check .
	$(python) -m mypy
	.venv/bin/lint-imports

bench: $(developer) ## measure speed and memory into results/bench/ (no corpus, no parser)
	$(python) -m pytest tests/benchmarks -o python_files='bench_*.py' -m '' -p no:xdist -s

parser: $(patsubst experiments/parser_%.yaml,parser/%,$(wildcard experiments/parser_*.yaml)) ## train every parser (tables train those that they need)

parser/%: experiments/parser_%.yaml $(ready)
	$(depgen) annotate --train $<

union: $(ready) ## train the story metric UNION of Table 2, and the parser that it needs (wants BERT's weights at hand)
	$(depgen) reproduce dmlm_table2 --row PRPN --prepare $(options)

row/%: $(ready)
	$(depgen) reproduce '$(*D)' --row '$(*F)' $(options)

# First what the rows need, then the rows, each a process, then what is printed and drawn from them.
table/%: experiments/tables/%.yaml $(ready)
	$(depgen) reproduce $* --prepare $(options)  # checks the corpora; trains missing parsers, UNION, oracles
	+@if [ -x $(python) ]; then \
	    rows=$$($(depgen) reproduce $* --list $(size) | sed 's|^|row/$*/|'); $(MAKE) --no-print-directory $$rows; fi
	$(depgen) reproduce $* $(options)

study/%: experiments/case_studies/%.yaml $(ready)
	+@$(MAKE) --no-print-directory table/$$(sed -n 's/^table: *//p' $<)
	$(depgen) case-study $* $(size)

reproduce-%: table/$$(subst -,_,$$*)
	@:

reproduce-%: table/dmlm_$$(subst -,_,$$*)
	@:

reproduce-%: study/$$(subst -,_,$$*)
	@:

reproduce-%: study/dmlm_$$(subst -,_,$$*)
	@:

reproduce-figure3: reproduce-dmlm-figure3

reproduce-dmlm-figure3: row/dmlm_table4/DM-Transformer ## DMLM: where a DM-Transformer attends to, as a picture
	$(depgen) plot attention --run dmlm_news/$(run_size) --output results/dmlm_figure3/attention.png

reproduce-itexp-figure3: reproduce-itexp-table1 ## ITEXP: quality against diversity, the picture of its Table 1

reproduce-udgn-figure5: row/udgn_table3/UDGN ## UDGN: heads and relations as a picture
	$(depgen) plot heat-map --config experiments/correlations_ewt.yaml --run udgn_ewt/$(run_size) \
	    --output results/udgn_figure5/heat-map.png

scoreboard: reproduce-scoreboard ## every system with a likelihood on one corpus: perplexity, sizes, speed

tables: $(ready) ## render every table and case study of the results so far (Markdown, LaTeX, CSV, text, HTML)
	$(depgen) table $(size) --format text --files
	$(depgen) case-study $(size)

report: $(ready) ## one page of all tables, curves and pictures at hand, and what is missing: results/report.html
	$(depgen) report

record: $(ready) ## copy all results of the tables to the tracked experiments/measured/
	$(depgen) record $(size)

# pdoc finds neither the modules nor the lazy names of a package with __all__: both are named to it.
docs: $(developer) ## write the pages of the Python interface, from the docstrings, into results/api/
	$(python) -c 'import sys, pathlib, depgen, pdoc; \
	    vars(depgen).update({name: getattr(depgen, name) for name in depgen.__all__}); \
	    pdoc.render.configure(docformat="google"); \
	    pdoc.pdoc("depgen", *sys.argv[1:], output_directory=pathlib.Path("results/api"))' $(documented)

clean: ## remove caches; .venv, runs and results stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find depgen tests -name __pycache__ -type d -prune -exec rm -rf {} +
