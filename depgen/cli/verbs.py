"""The table of verbs. Nothing heavy is imported until a verb is called, so that `depgen --help` answers at once."""

from typing import NamedTuple


class Verb(NamedTuple):
    """A verb, of one word or two, that is a function with typed keyword arguments; what it returns is printed as text.

    Sequences are one or more values, separated by spaces; booleans that are false by default are a bare `--name`.

    Attributes:
        help: one line.
        target: "module:function", imported when the verb is called; empty for a verb of Lightning's command line.
        positionals: parameters given by position; optional ones have a default.
        options: "module:function" from the command line after the verb to dataclasses, whose fields are options too;
            the verb's function takes them by keyword.
    """

    help: str
    target: str = ""
    positionals: tuple[str, ...] = ()
    options: str = ""


GROUPS: dict[str, dict[str, Verb]] = {
    "Train and test a system": {
        "fit": Verb("train a system: --config FILE; or continue a run: --resume RUN"),
        "validate": Verb("evaluate a run on the validation split"),
        "test": Verb("evaluate a run on the test split; by default the newest run"),
    },
    "Use a run": {
        "generate": Verb(
            "generate texts, with or without prompts",
            "depgen.evaluation.verbs:generate",
            options="depgen.cli.verb_functions:options_of_generation",
        ),
        "score": Verb(
            "print log-probabilities and surprisals of words, sentences or documents",
            "depgen.evaluation.verbs:score",
            positionals=("file",),
        ),
        "parse": Verb(
            "parse text into CoNLL-U, SDP or brackets, with a run or a trained parser",
            "depgen.evaluation.verbs:parse",
        ),
        "predict": Verb("write a run's trees or bracketings of the test split into its folder"),
        "push": Verb(
            "write a run as a folder with a model card, or for transformers; upload it to a repository",
            "depgen.evaluation.push:push",
            positionals=("run",),
        ),
    },
    "Corpora and parsers": {
        "annotate": Verb(
            "parse a configuration's corpus before training, into the cache; or train a parser",
            "depgen.annotation.annotate:annotate",
        ),
    },
    "Evaluate": {
        "evaluate": Verb(
            "measure a system or texts: minimal pairs, suites, trees, coherence, generated texts and others",
            "depgen.cli.evaluate:evaluate",
            positionals=("measures",),
            options="depgen.cli.evaluate:options_of_measures",
        ),
    },
    "Tables and reports": {
        "compare": Verb(
            "compare existing runs on their test split: measures, intervals and paired tests",
            "depgen.reporting.compare_runs:compare_runs",
            positionals=("runs",),
        ),
        "reproduce": Verb(
            "train and test the missing rows of a table, or of a case study, and print it",
            "depgen.reporting.reproduce:reproduce",
            positionals=("table",),
        ),
        "table": Verb(
            "print a table of our results and published numbers; --record keeps it, --report makes a page",
            "depgen.reporting.pages:table",
            positionals=("table",),
        ),
    },
    "Plots": {
        "plot surprisal": Verb(
            "draw the surprisal of each word of a few sentences, such as a minimal pair's, under one or more runs",
            "depgen.reporting.system_plots:plot_surprisal",
        ),
        "plot attention": Verb(
            "draw where a run attends to in a sentence",
            "depgen.reporting.system_plots:plot_attention",
        ),
        "plot heat-map": Verb(
            "draw the correlations of attention heads with dependency relations",
            "depgen.reporting.system_plots:plot_heat_map",
            options="depgen.cli.evaluate:options_of_heat_map",
        ),
        "plot trees": Verb(
            "draw dependency trees or graphs (HTML, SVG), those of a file or run under gold ones",
            "depgen.reporting.system_plots:plot_trees",
            positionals=("files",),
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
        "plot seeds": Verb(
            "draw every run of a table's planned comparisons",
            "depgen.reporting.plots:plot_seeds",
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
    },
    "Human evaluation": {
        "human-eval export": Verb("write blinded sheets for raters", "depgen.reporting.human:export"),
        "human-eval score": Verb(
            "compute the results of answered questionnaires",
            "depgen.reporting.human:score",
            positionals=("folders",),
        ),
    },
}
"""The verbs by what a user wants to do."""

VERBS = {name: verb for verbs in GROUPS.values() for name, verb in verbs.items()}


def as_sentence(help: str) -> str:
    """A verb's line of help as a sentence.

    >>> as_sentence("train a system")
    'Train a system.'
    """
    return f"{help[0].upper()}{help[1:]}."
