"""The table of verbs. Nothing heavy is imported until a verb is called, so that `depgen --help` answers at once."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

TRAINING_VERBS = {
    "fit": "train a system: --config FILE; or continue a run: --resume RUN",
    "validate": "evaluate a run on the validation split",
    "test": "evaluate a run on the test split; by default the newest run",
    "predict": "write a run's trees or bracketings of the test split into its folder",
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
        spread: parameters that are dataclasses; each of their fields is an option. Others of a dataclass take theirs
            below their own name, as `--training.epochs`.
        of_run: "module:function" from the run that is named by --run (None: the newest) to the name of its system and
            the dataclass of the options that this system adds, or None.
    """

    help: str
    target: str
    positionals: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    also: Mapping[str, str] = MappingProxyType({})
    spread: tuple[str, ...] = ()
    of_run: str = ""


VERBS = {
    "generate": Verb(
        "generate texts, with or without prompts",
        "depgen.evaluation.text.generation:generate",
        counts=("number", "max_new_tokens", "batch_size"),
        also={"number": "n", "run": "checkpoint"},
        of_run="depgen.evaluation.text.generation:options_of_run",
    ),
    "parse": Verb(
        "parse text into CoNLL-U, SDP or brackets, with a run or a trained parser",
        "depgen.evaluation.trees.parse:parse",
        counts=("tokens_per_batch", "beam_size"),
    ),
    "score": Verb(
        "print log-probabilities and surprisals of words, sentences or documents",
        "depgen.evaluation.score:score",
        positionals=("file",),
        counts=("tokens_per_batch", "beam_size"),
    ),
    "minimal-pairs": Verb(
        "count how often a system prefers the grammatical sentence of a pair: BLiMP, or your own pairs",
        "depgen.evaluation.syntax.measures:minimal_pairs",
        positionals=("file",),
        counts=("tokens_per_batch", "beam_size"),
        spread=("options",),
    ),
    "syntactic-suites": Verb(
        "count how often SyntaxGym's predictions about surprisals hold of a system",
        "depgen.evaluation.syntax.measures:syntactic_suites",
        positionals=("file",),
        counts=("tokens_per_batch", "beam_size"),
        spread=("options",),
    ),
    "coherence": Verb(
        "count how often a run prefers a document to the same document rearranged",
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
        spread=("questions",),
    ),
    "evaluate-text": Verb(
        "compute BLEU, Self-BLEU, Distinct, BERTScore and others for a file of texts",
        "depgen.evaluation.text.evaluate_text:evaluate_text",
        positionals=("file",),
        counts=("resamples",),
        spread=("options",),
    ),
    "train-oracle": Verb(
        "train the language model that judges texts (LM score)",
        "depgen.evaluation.text.oracle:train_oracle",
    ),
    "annotate": Verb(
        "parse a configuration's corpus before training, into the cache; or train a parser",
        "depgen.annotation.annotate:annotate",
        counts=("processes", "max_documents"),
        also={"max_documents": "data.init_args.max_documents"},
    ),
    "train-union": Verb(
        "train the story metric UNION",
        "depgen.evaluation.union:train_union",
    ),
    "data-statistics": Verb("print the sizes of a corpus and the published ones", "depgen.data.record:data_statistics"),
    "reproduce": Verb(
        "train and test the missing rows of a table",
        "depgen.reporting.reproduce:reproduce",
        positionals=("table",),
    ),
    "table": Verb(
        "print a table: our results and the published numbers",
        "depgen.reporting.render:table",
        positionals=("table",),
    ),
    "compare": Verb(
        "compare existing runs on their test split: measures, intervals and paired tests",
        "depgen.reporting.compare_runs:compare_runs",
        positionals=("runs",),
    ),
    "record": Verb(
        "copy results into experiments/measured/",
        "depgen.reporting.record:record",
        positionals=("table",),
    ),
    "report": Verb(
        "write one HTML page with all tables, curves and pictures",
        "depgen.reporting.report:report",
    ),
    "case-study": Verb(
        "print texts of a table's systems, and the human text, for the same prompts",
        "depgen.reporting.case_study:case_study",
        positionals=("study",),
    ),
    "plot curves": Verb(
        "draw learning curves of runs, or of a table",
        "depgen.reporting.plots:plot_curves",
        positionals=("table",),
    ),
    "plot series": Verb(
        "draw a table as a curve, such as accuracy by number of attention heads",
        "depgen.reporting.plots:plot_series",
        positionals=("table",),
    ),
    "plot tradeoff": Verb(
        "draw quality against diversity of a table's texts by temperature",
        "depgen.reporting.plots:plot_tradeoff",
        positionals=("table",),
    ),
    "plot histogram": Verb(
        "draw how a table's measures are distributed over texts, such as their lengths",
        "depgen.reporting.plots:plot_histogram",
        positionals=("table",),
    ),
    "dependent-loss": Verb(
        "split a run's loss: future dependents of earlier words, and other words",
        "depgen.evaluation.dependents:dependent_loss",
        also={"run": "checkpoint"},
    ),
    "bracketing-f1": Verb(
        "compare a run's constituents with gold ones: unlabelled F1, and labelled F1 of TG",
        "depgen.evaluation.trees.bracketing:bracketing_f1",
        counts=("max_words", "seeds", "batch_size"),
    ),
    "head-correlations": Verb(
        "correlate attention heads with dependency relations",
        "depgen.evaluation.trees.correlations:head_correlations",
    ),
    "plot heat-map": Verb(
        "draw the correlations of attention heads with dependency relations",
        "depgen.reporting.system_plots:plot_heat_map",
    ),
    "parsing-scores": Verb(
        "compare a run's dependency trees with gold trees: directed and undirected accuracy",
        "depgen.evaluation.trees.parsing:parsing_scores",
        counts=("max_words", "seeds", "resamples", "tokens_per_batch"),
    ),
    "attachment-scores": Verb(
        "compare the trees or graphs of two files: UAS, LAS and UDA, or F1; also by relation or length",
        "depgen.evaluation.trees.file_scores:file_scores",
        positionals=("gold", "predicted"),
    ),
    "human-eval export": Verb(
        "write blinded sheets for raters",
        "depgen.evaluation.human:export",
        counts=("number", "raters", "per_sentence"),
        also={"number": "n"},
    ),
    "human-eval score": Verb(
        "compute the results of answered questionnaires",
        "depgen.reporting.human_scores:score",
        positionals=("folders",),
    ),
    "export-pretrained": Verb(
        "write a run's backbone and tokenizer for the transformers library",
        "depgen.evaluation.export:export_pretrained",
        also={"run": "checkpoint"},
    ),
    "push": Verb(
        "write a run as a folder with a model card; upload it to a repository",
        "depgen.evaluation.push:push",
        positionals=("run",),
    ),
    "plot trees": Verb(
        "draw dependency trees or graphs (HTML, SVG), those of a file or run under gold ones",
        "depgen.reporting.system_plots:plot_trees",
        positionals=("files",),
        counts=("beam_size", "first", "number"),
        also={"number": "n"},
    ),
    "plot attention": Verb("draw where a run attends to in a sentence", "depgen.reporting.system_plots:plot_attention"),
    "completion": Verb(
        "print a script for tab completion in your shell",
        "depgen.cli.completion:completion",
        positionals=("shell",),
    ),
}

GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Train and test a system": ("fit", "validate", "test"),
        "Use a run": (
            "generate",
            "score",
            "parse",
            "predict",
            "dependent-loss",
            "push",
            "export-pretrained",
        ),
        "Corpora and parsers": ("data-statistics", "annotate"),
        "Judge texts": ("evaluate-text", "train-union", "train-oracle"),
        "Judge trees and attention": (
            "parsing-scores",
            "attachment-scores",
            "bracketing-f1",
            "head-correlations",
        ),
        "Judge syntax": ("minimal-pairs", "syntactic-suites"),
        "Judge documents": ("coherence",),
        "Tables and reports": (
            "compare",
            "reproduce",
            "table",
            "report",
            "case-study",
            "record",
        ),
        "Plots": (
            "plot attention",
            "plot heat-map",
            "plot trees",
            "plot curves",
            "plot series",
            "plot tradeoff",
            "plot histogram",
        ),
        "Human evaluation": ("human-eval export", "human-eval score"),
        "Set up": ("completion",),
    }
)
"""The verbs by what a user wants to do; each is in one group."""


def as_sentence(help: str) -> str:
    """A verb's line of help as a sentence.

    >>> as_sentence("train a system")
    'Train a system.'
    """
    return f"{help[0].upper()}{help[1:]}."
