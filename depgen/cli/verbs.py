"""The table of verbs. Nothing heavy is imported until a verb is called, so that `depgen --help` answers at once."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

TRAINING_VERBS = {
    "fit": "train a system: --config X.yaml (with a second, Y.yaml, the run is named X+Y), or --resume RUN",
    "validate": "evaluate a run's best checkpoint on the validation split",
    "test": "evaluate a run's best checkpoint on the test split; without --config or --run, the newest run's",
    "predict": "write the trees or bracketings that a run finds in the test split into its folder; --input: see parse",
}
"""Verbs of Lightning's command line, with one line of help each."""


class Verb(NamedTuple):
    """A verb, of one word or two, that is a function with typed keyword arguments; what it returns is printed as text.

    Sequences are one or more values, separated by spaces; booleans that are false by default are a bare `--name`.

    Attributes:
        help: one line.
        target: "module:function", imported when the verb is called.
        positionals: parameters given by position; optional ones have a default.
        counts: whole numbers that are at least 1 where they are given.
        also: other names of parameters, of one letter or more.
        of_run: "module:function" from the run that is named by --run (None: the newest) to the name of its system and
            the dataclass of the options that this system adds, or None.
    """

    help: str
    target: str
    positionals: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    also: Mapping[str, str] = MappingProxyType({})
    of_run: str = ""


VERBS = {
    "generate": Verb(
        "write texts with a trained system, from prompts or from nothing",
        "depgen.evaluation.text.generation:generate",
        counts=("number", "max_new_tokens", "batch_size"),
        also={"number": "n", "run": "checkpoint"},
        of_run="depgen.evaluation.text.generation:options_of_run",
    ),
    "parse": Verb(
        "parse raw text or CoNLL-U into CoNLL-U, with a run that parses or a trained parser",
        "depgen.evaluation.trees.parse:parse",
        counts=("tokens_per_batch",),
    ),
    "score": Verb(
        "log-probability and surprisal of the words, sentences and documents of a text, under any system",
        "depgen.evaluation.likelihood.score:score",
        positionals=("file",),
        counts=("tokens_per_batch",),
    ),
    "minimal-pairs": Verb(
        "how often a system finds the grammatical sentence of a pair likelier: BLiMP, or your own pairs",
        "depgen.evaluation.syntax.minimal_pairs:minimal_pairs",
        positionals=("file",),
        counts=("tokens_per_batch",),
    ),
    "syntactic-suites": Verb(
        "how often SyntaxGym's predictions hold of a system's surprisals",
        "depgen.evaluation.syntax.syntactic_suites:syntactic_suites",
        positionals=("file",),
        counts=("tokens_per_batch",),
    ),
    "coherence": Verb(
        "how often a run finds documents likelier than other orders, places of a sentence, or endings",
        "depgen.evaluation.coherence.assessment:coherence",
        counts=(
            "max_documents",
            "sentences",
            "shuffles",
            "insertions",
            "distractors",
            "resamples",
            "tokens_per_batch",
        ),
    ),
    "evaluate-text": Verb(
        "text metrics on a file of one text a line",
        "depgen.evaluation.text.evaluate_text:evaluate_text",
        positionals=("file",),
        counts=("resamples",),
    ),
    "train-oracle": Verb(
        "train the language model that judges texts by LM score and reverse LM score",
        "depgen.evaluation.text.oracle:train_oracle",
    ),
    "annotate": Verb(
        "give an experiment's corpus its trees ahead of training, into the cache",
        "depgen.annotation.annotate:annotate",
        counts=("processes", "max_documents"),
        also={"max_documents": "data.init_args.max_documents"},
    ),
    "train-parser": Verb(
        "train a dependency parser on a treebank",
        "depgen.annotation.train_parser:train_parser",
    ),
    "train-union": Verb(
        "train the story metric UNION on a corpus",
        "depgen.evaluation.union.train_union:train_union",
    ),
    "parser-agreement": Verb(
        "how often two annotators give a word the same head",
        "depgen.annotation.agreement:parser_agreement",
        counts=("documents",),
    ),
    "data-statistics": Verb("sizes of a corpus beside the published ones", "depgen.data.statistics:data_statistics"),
    "delexicalize": Verb(
        "replace names of people in raw stories by placeholders", "depgen.annotation.delexicalize:delexicalize_file"
    ),
    "reproduce": Verb(
        "train and test the rows of a table that are not done yet",
        "depgen.reporting.reproduce:reproduce",
        positionals=("table",),
    ),
    "grid": Verb(
        "train a table's systems at every combination of some sizes; --adopt: the best goes into the table",
        "depgen.reporting.grid:grid_of_table",
        positionals=("table",),
    ),
    "table": Verb(
        "render a table, or all, from the results at hand, beside the published numbers",
        "depgen.reporting.tables:table",
        positionals=("table",),
    ),
    "record": Verb(
        "copy the results of a table, or of all, into the tracked measurements",
        "depgen.reporting.record:record",
        positionals=("table",),
    ),
    "report": Verb(
        "one self-contained page of all tables, curves and pictures at hand, and of what is missing",
        "depgen.reporting.report:report",
    ),
    "case-study": Verb(
        "what the systems of a table wrote, side by side, the human text last",
        "depgen.reporting.case_study:case_study",
        positionals=("study",),
    ),
    "curves": Verb(
        "draw validation perplexity against tokens, steps or minutes of training, one line a run",
        "depgen.reporting.curves:draw_curves",
        positionals=("table",),
    ),
    "series": Verb(
        "draw a table's measures against what its rows vary, such as the number of attention heads",
        "depgen.reporting.series:draw_series",
        positionals=("table",),
    ),
    "dependent-loss": Verb(
        "a run's loss on tokens that are future dependents of earlier ones, and on the others",
        "depgen.evaluation.likelihood.dependents:dependent_loss",
        also={"run": "checkpoint"},
    ),
    "bracketing-f1": Verb(
        "unlabelled F1 of the constituents that a run's network has found, beside floors",
        "depgen.evaluation.trees.bracketing:bracketing_f1",
        counts=("max_words", "seeds", "batch_size"),
    ),
    "head-correlations": Verb(
        "which attention head goes with which dependency relation, and how closely",
        "depgen.evaluation.trees.correlations:head_correlations",
    ),
    "heat-map": Verb(
        "draw how closely each attention head goes with each dependency relation",
        "depgen.reporting.heat_map:draw_heat_map",
    ),
    "parsing-scores": Verb(
        "how right the dependency trees are that a run has learnt without trees, beside floors",
        "depgen.evaluation.trees.parsing:parsing_scores",
        counts=("max_words", "seeds", "resamples", "tokens_per_batch"),
    ),
    "human-eval export": Verb(
        "write blinded questionnaires: two systems compared, or a Turing test of several",
        "depgen.reporting.human_export:export",
        counts=("number", "raters"),
        also={"number": "n"},
    ),
    "human-eval score": Verb(
        "people's answers to such questionnaires, beside the published ones",
        "depgen.reporting.human_scores:score",
        positionals=("folders",),
    ),
    "export-pretrained": Verb(
        "write a run's backbone so that the transformers library loads it",
        "depgen.evaluation.export:export_pretrained",
        also={"run": "checkpoint"},
    ),
    "push": Verb(
        "write a run as a folder with a model card, and upload it where you name a repository",
        "depgen.evaluation.push:push",
        positionals=("run",),
    ),
    "draw": Verb(
        "draw dependency trees, those of a second file or of a run below the gold ones, as HTML, SVG, PDF or PNG",
        "depgen.reporting.trees:draw_trees",
        positionals=("files",),
        also={"number": "n"},
    ),
    "attention": Verb("draw the dependency attention of a sentence", "depgen.reporting.attention:draw_attention"),
    "completion": Verb(
        "print a script by which your shell completes verbs, options and file names",
        "depgen.cli.completion:completion",
        positionals=("shell",),
    ),
}


def as_sentence(help: str) -> str:
    """A verb's line of help as a sentence.

    >>> as_sentence("train a system")
    'Train a system.'
    """
    return f"{help[0].upper()}{help[1:]}."
