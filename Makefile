# The whole project by name: `make help`. Works with GNU make 4.3, also with -j.
#
#   TORCH    what pip installs first, so that the build is chosen on purpose: the default has a CPU build where the index
#            offers one. TORCH= leaves the choice to pip; for a CUDA build name one as pip would (TORCH='torch==2.13.0
#            --index-url ...').
#   PYTHON   the interpreter for .venv; unset: the first of python3.11 to python3.14, python3, python that is one of these.
#   PROFILE  small or paper; unset: small.
#   SEEDS    such as SEEDS="1 2 3"; unset: the table's own.
#   PRECISION of training, in place of the experiments': 32-true on a CPU without bf16 instructions, where it is up to
#            twice as fast (`depgen fit` says so there).
#   K, H     sizes of embeddings and hidden states that dclm-grid tries, such as K="32 48" H="64 128".
#   GRID     the table whose models dclm-grid trains, such as dclm_table2_wsj where LDC's Penn Treebank is at hand.
#   ADOPT    ADOPT=1: dclm-grid writes the best sizes into the experiments of that table.
#   GPT2     a folder of real weights (or a name, as `pretrained` takes it) that GPT-2 and DM-GPT-2 of DMLM's tables begin
#            from, in place of a small network's random ones; with their own tokenizer, at the profile's budget.
#   BASE     the commit that `make guard` compares with.
#   FIGURE3  the table whose DM-Transformer draws Figure 3; the sentence is one of news, hence table4.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

TORCH ?= torch==2.13.0
PYTHON ?=
PROFILE ?=
SEEDS ?=
PRECISION ?=
GPT2 ?=
FIGURE3 ?= table4
K ?= 32 48 64 96 128 256
H ?= 32 48 64 96 128 256
GRID ?= dclm_table2
ADOPT ?=

python := .venv/bin/python
depgen := $(python) -m depgen
ready := .venv/.ready
pythons := python3.11 python3.12 python3.13 python3.14
supported := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))

documented = $(subst /,.,$(patsubst %/__init__.py,%,$(wildcard depgen/*/__init__.py)))

comma := ,
space := $(subst ,, )
profile := $(if $(strip $(PROFILE)),--profile $(strip $(PROFILE)))
seeds := $(if $(strip $(SEEDS)),--seeds '[$(subst $(space),$(comma),$(strip $(SEEDS)))]')
precision := $(if $(strip $(PRECISION)),--precision $(strip $(PRECISION)))
pretrained = $(if $(strip $(GPT2)),--pretrained '$(strip $(GPT2))')

# The tables, and their rows as `depgen reproduce` spells them.
systems := PRPN ON-LSTM AWD-LSTM DM-LSTM Transformer DM-Transformer GPT-2 DM-GPT-2
rows_table2 := $(systems) DM-LSTM-left-chain DM-Transformer-left-chain DM-Transformer-random-trees
rows_table4 := $(systems)
rows_table5 := $(systems)
rows_table7 := PRPN ON-LSTM AWD-LSTM DM-LSTM DM-LSTM-left-chain
rows_table13 := Transformer DM-Transformer GPT-2 DM-GPT-2
rows_beyond := Transformer $(addprefix DM-,gold-trees spaCy-trees SuPar-trees left-chain random-trees \
    gold-relation-weights gold-learned-gate)
rows_ptb-lines := Transformer $(addprefix DM-,gold-heads silver-heads induced-heads left-chain) Transformer-two-phases
rows_wikinews := Transformer DM-Transformer
parsers := Transformer StructFormer UDGN
rows_udgn-table1 := $(parsers) UDGN-trained-with-the-sample
tree_floors := next-word previous-word random-tree
rows_udgn-table2 := $(tree_floors) $(rows_udgn-table1)
rows_udgn-table3 := $(parsers)
rows_udgn-ewt := $(tree_floors) $(parsers)
rows_udgn-table4 := $(tree_floors) UDGN no-gates no-competition no-relative-bias
rows_udgn-rate := $(tree_floors) UDGN-2e-3 no-relative-bias-2e-3 UDGN-1e-3 no-gates-1e-3 no-competition-1e-3
similar := Transformer UDGN-frozen-parser UDGN
rows_udgn-table5 := $(similar) $(addsuffix -unseen-pairs,$(similar))
rows_udgn-table7 := $(parsers)
rows_udgn-table8 := $(tree_floors) UDGN no-nonlinearity positions-for-relative-bias Kirchhoff-marginals
rows_udgn-table9 := $(tree_floors) $(addprefix Wikinews-,1-8 1-4 1-2) Wikinews
rows_udgn-figure4 := $(tree_floors) 1-head 2-heads 4-heads 8-heads 16-heads
rows_udgn-figure6 := $(tree_floors) 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9
rows_dclm-table1 := PTB NANT Brown WSJ-sample WikiText-2 Wikinews ROCStories
rows_dclm-table2 := RNNLM DRNNLM HRNNLM ADCLM CODCLM CCDCLM
rows_dclm-table2-wikitext2 := $(rows_dclm-table2)
rows_dclm-table2-wikinews := $(rows_dclm-table2)
rows_dclm-table2-wsj := $(rows_dclm-table2)
rows_dclm-table2-nant := $(rows_dclm-table2)
rows_dclm-table3 := $(wordlist 2,6,$(rows_dclm-table2)) CODCLM-trained-on-Wikinews
rows_dclm-table3-wsj := $(wordlist 2,6,$(rows_dclm-table2)) CODCLM-trained-on-NANT
rows_dclm-figure3 := L-5 L-10
rows_dclm-figure3-wsj := $(rows_dclm-figure3)
rows_dclm-figure3-nant := $(rows_dclm-figure3)
rows_document-contexts := $(addprefix LSTM-,alone state-carried hierarchical attention context-to-output \
    context-to-context) $(addprefix Transformer-,alone context-as-prefix context-to-output attention \
    1-sentence-before-as-tokens 4-sentences-before-as-tokens)
rows_coherence-tasks := $(rows_dclm-table2)
rows_scoreboard := LSTM DM-LSTM ON-LSTM PRPN Transformer DM-Transformer GPT-2 DM-GPT-2 $(rows_dclm-table2) \
    Transformer-in-documents-no-context $(addprefix Transformer-,context-as-prefix context-to-output attention \
    1-sentence-before-as-tokens 4-sentences-before-as-tokens) UDGN StructFormer Masked-Transformer
series := udgn-figure4 udgn-figure6
weighted := $(addprefix dmlm-,table2 table4 table5 table13)
curves := dmlm-table7 dmlm-table13 dmlm-ptb-lines
tables := $(addprefix dmlm-,table2 table4 table5 table7 table13 beyond ptb-lines) wikinews \
    $(addprefix udgn-,table1 table2 table3 table4 rate table5 table7 table8 table9 ewt) $(series) \
    $(addprefix dclm-,table1 table2 $(addprefix table2-,wikitext2 wikinews wsj nant) table3 table3-wsj figure3 figure3-wsj \
        figure3-nant) \
    coherence-tasks document-contexts scoreboard
unsized := dclm-table1
short = $(1:dmlm-%=%)
studies := table8 table9 table16
row_targets := $(foreach table,$(call short,$(tables)),$(addprefix $(table)-,$(rows_$(table))))

.PHONY: help setup demo test test-matrix FORCE lint guard bench parser supar-parser union tables report record clean reproduce-table2 dclm-grid
.PHONY: scoreboard docs
.PHONY: $(addprefix reproduce-,$(tables)) $(patsubst %,reproduce-dmlm-%,$(studies) figure3) $(row_targets)
.PHONY: reproduce-udgn-figure5

help: ## list the targets
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)$$/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 28
	@echo '  Rows of these tables, one target each (table2-PRPN, ...):'
	@printf '    %-10s %s\n' $(foreach table,$(call short,$(tables)),'$(table)-' '$(rows_$(table))')
	@echo 'Variables: PROFILE=small|paper  SEEDS="1 2"  PRECISION=32-true  GPT2=FOLDER  TORCH=torch==2.13.0  PYTHON=python3.11'

setup: $(ready) ## make .venv and install depgen with everything for development

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
	$(python) -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(ready) ## train Transformer and DM-Transformer on generated stories, test both, print the table
	$(depgen) reproduce demo

# Compiled modules are kept, whatever the shell says: without them each process compiles half a minute long.
test: $(ready) ## run the tests on two processes
	PYTHONDONTWRITEBYTECODE= $(python) -m pytest -n 2

test-matrix: ## run the tests under each Python from 3.11 to 3.14 at hand, each in an environment in .matrix/
	@found=; failed=; for python in $(pythons); do \
	    "$$python" -c '$(supported)' 2>/dev/null || continue; \
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
	PYTHONDONTWRITEBYTECODE= .matrix/$*/bin/python -m pytest -n 2

lint: $(ready) ## ruff format and check, mypy, import contracts
	$(python) -m ruff format --check .
	$(python) -m ruff check .
	$(python) -m mypy
	.venv/bin/lint-imports

guard: $(ready) ## compare all numbers with those of another commit: make guard BASE=COMMIT (minutes; not a test)
	$(if $(strip $(BASE)),,$(error Name the commit to compare with: make guard BASE=COMMIT))
	$(python) -m tests.guard $(BASE)

bench: $(ready) ## measure speed and memory into results/bench/ (no corpus, no parser)
	$(python) -m pytest tests/benchmarks -o python_files='bench_*.py' -m '' -p no:xdist -s

parser: $(ready) ## train the parsers that give silver trees: of stories, of cased text, of the PTB (once; needs DEPGEN_DATA)
	$(depgen) train-parser --config experiments/parser_ewt_lowercased.yaml
	$(depgen) train-parser --config experiments/parser_ewt.yaml
	$(depgen) train-parser --config experiments/parser_wsj_normalized.yaml
	$(depgen) train-parser --config experiments/parser_ewt_normalized.yaml

supar-parser: $(ready) ## train SuPar's parser of dmlm_beyond's SuPar trees (once; needs DEPGEN_DATA)
	$(depgen) train-parser --config experiments/parser_ewt_supar$(supar_size).yaml

supar_size = $(if $(filter paper,$(PROFILE)),,_small)

# Raw stories with names still in, where they are at hand, join UNION's training split.
stories := $(abspath $(or $(DEPGEN_CACHE),$(HOME)/.cache/depgen)/rocstories)
raw_stories := $(or $(DEPGEN_DATA),data)/rocstories/raw_
further_stories := $(patsubst $(raw_stories)%,$(stories)/%,$(wildcard $(raw_stories)*.csv))
additional_train = --data.corpus.init_args.additional_train '[$(subst $(space),$(comma),$(further_stories))]'

union: $(ready) $(further_stories) ## train the story metric UNION for Table 2 (once; needs DEPGEN_DATA and `make parser`)
	$(depgen) train-union --config experiments/union_rocstories_small.yaml $(if $(further_stories),$(additional_train))

$(stories)/%.csv: $(raw_stories)%.csv | $(ready)
	$(depgen) delexicalize --source $< --output $@ $(if $(filter lowercased,$*),--tagger ewt_lowercased) \
	    --apart_from '[$(subst $(space),$(comma),$(wildcard $(raw_stories:raw_=valid.csv) $(raw_stories:raw_=test.csv)))]'

reproduce-table2: reproduce-dmlm-table2 ## the same as reproduce-dmlm-table2
reproduce-dmlm-table2: ## DMLM: endings of ROCStories by eight systems and three controls, ours beside the paper's
reproduce-dmlm-table4: ## DMLM: LM score and reverse LM score of news sentences written from nothing
reproduce-dmlm-table5: ## DMLM: perplexity of such sentences, nucleus 0.3 to 1.0
reproduce-dmlm-table7: ## DMLM: perplexity on the Penn Treebank, LSTMs, and learning curves
reproduce-dmlm-table13: ## DMLM: perplexity on the Penn Treebank, Transformers, and learning curves
reproduce-dmlm-table8: reproduce-dmlm-table2 ## DMLM: endings of the same stories side by side
reproduce-dmlm-table9: reproduce-dmlm-table5 ## DMLM: news sentences side by side
reproduce-dmlm-table16: reproduce-dmlm-table5 ## DMLM: more of them
reproduce-dmlm-ptb-lines: ## beyond the paper: gold, silver, induced trees and chains of the same lines of the Penn Treebank, and learning curves
reproduce-wikinews: ## beyond the paper: Table 4's measures on sentences of Wikinews
reproduce-dmlm-beyond: ## beyond the paper: sources of trees, relation weights, a learned gate
reproduce-dmlm-figure3: $(FIGURE3)-DM-Transformer ## DMLM: where a DM-Transformer attends to, as a picture
reproduce-udgn-table1: ## UDGN: perplexity of masked words, beside StructFormer and a masked Transformer
reproduce-udgn-table2: ## UDGN: trees learnt from raw text, beside floors and quoted systems
reproduce-udgn-table3: ## UDGN: which attention head goes with which relation, child to parent
reproduce-udgn-table4: ## UDGN: without gates, competition, relative bias
reproduce-udgn-rate: ## beyond the paper: the same at the small size, each beside UDGN at its own learning rate
reproduce-udgn-table5: ## UDGN: semantic textual similarity
reproduce-udgn-table7: ## UDGN: which attention head goes with which relation, parent to child
reproduce-udgn-table8: ## UDGN: without nonlinearity, with positions, with Kirchhoff marginals
reproduce-udgn-table9: ## UDGN: by the size of the training text
reproduce-udgn-ewt: ## beyond the paper: trees of UDGN and its baselines on UD English-EWT
reproduce-udgn-figure4: ## UDGN: by the number of attention heads, table and picture
reproduce-udgn-figure5: udgn-table3-UDGN ## UDGN: heads and relations as a picture
reproduce-udgn-figure6: ## UDGN: by the share of masked words, table and picture
reproduce-dclm-table1: ## DCLM: sizes of the corpora of documents that are at hand
reproduce-dclm-table2: ## DCLM: perplexity of documents by six models
reproduce-dclm-table2-wikitext2: ## DCLM: the same on WikiText-2
reproduce-dclm-table2-wikinews: ## DCLM: the same on Wikinews
reproduce-dclm-table2-wsj: ## DCLM: the same on LDC's Penn Treebank, where it is at hand
reproduce-dclm-table2-nant: ## DCLM: the same on North American News, where it is at hand
reproduce-dclm-table3: ## DCLM: how often a document is likelier than its shuffles, with the paper's z-test
reproduce-dclm-table3-wsj: ## DCLM: the same on LDC's Penn Treebank, where it is at hand
reproduce-dclm-figure3: ## DCLM: segments of 5 and 10 sentences, table and picture
reproduce-dclm-figure3-wsj: ## DCLM: the same on LDC's Penn Treebank, where it is at hand
reproduce-dclm-figure3-nant: ## DCLM: the same on North American News, where it is at hand
reproduce-coherence-tasks: ## beyond the paper: the order of sentences, the place of one, the ending of a story
reproduce-document-contexts: ## beyond the paper: contexts of documents over an LSTM and a Transformer
reproduce-scoreboard: ## every system with a likelihood on one corpus: perplexity, sizes, speed
scoreboard: reproduce-scoreboard ## the same as reproduce-scoreboard

define table_rules
$(addprefix $(2)-,$(rows_$(2))): $(2)-%: $$(ready)
	$$(depgen) reproduce $(subst -,_,$(1)) --row '$$*' $(if $(filter $(1),$(unsized)),,$$(profile) $$(seeds) $$(precision)) \
	    $(if $(filter $(1),$(weighted)),$$(if $$(filter GPT-2 DM-GPT-2,$$*),$$(pretrained)))

reproduce-$(1): $(addprefix $(2)-,$(rows_$(2)))
	$$(depgen) table $(subst -,_,$(1)) $(if $(filter $(1),$(unsized)),,$$(profile)) --format text --files
	$(if $(filter $(1),$(series)),$$(depgen) series $(subst -,_,$(1)) $$(profile))
	$(if $(filter $(1),$(curves)),$$(depgen) curves $(subst -,_,$(1)) $$(profile))
	$(if $(filter dclm-figure3%,$(1)),$$(depgen) curves $(subst -,_,$(1)) $$(profile) --against steps \
	    --measure log_likelihood)
endef
$(foreach table,$(tables),$(eval $(call table_rules,$(table),$(call short,$(table)))))

beyond-DM-SuPar-trees: supar-parser

$(addprefix reproduce-dmlm-,$(studies)): reproduce-dmlm-%:
	$(depgen) case-study dmlm_$* $(profile)

reproduce-udgn-figure5:
	$(depgen) heat-map --config experiments/correlations_ewt.yaml --table udgn_table3 $(profile) \
	    --output results/udgn_figure5/heat-map.png

reproduce-dmlm-figure3:
	$(depgen) attention --table dmlm_$(FIGURE3) $(profile) --output results/dmlm_figure3/attention.png

tables: $(ready) ## render every table and case study of the results so far (Markdown, LaTeX, CSV, text, HTML)
	$(depgen) table $(profile) --format text --files
	$(depgen) case-study $(profile)

dclm-grid: $(ready) ## DCLM: every size of K and H for each model of Table 2; the best on validation (ADOPT=1: adopted)
	$(depgen) grid $(GRID) $(profile) $(if $(strip $(ADOPT)),--adopt) \
	    --vary model.init_args.embedding_size=$(subst $(space),$(comma),$(strip $(K))) \
	    model.init_args.context.init_args.size=$(subst $(space),$(comma),$(strip $(H)))

report: $(ready) ## one page of all tables, curves and pictures at hand, and what is missing: results/report.html
	$(depgen) report

record: $(ready) ## copy all results of the tables to the tracked experiments/measured/
	$(depgen) record $(profile)

# pdoc finds neither the modules nor the lazy names of a package with __all__: both are named to it.
docs: $(ready) ## write the pages of the Python interface, from the docstrings, into results/api/
	$(python) -c 'import sys, pathlib, depgen, pdoc; \
	    vars(depgen).update({name: getattr(depgen, name) for name in depgen.__all__}); \
	    pdoc.render.configure(docformat="google"); \
	    pdoc.pdoc("depgen", *sys.argv[1:], output_directory=pathlib.Path("results/api"))' $(documented)

clean: ## remove caches; .venv, runs and results stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find depgen tests -name __pycache__ -type d -prune -exec rm -rf {} +
