"""The table of verbs. Nothing heavy is imported until a verb is called, so that `depgen --help` answers at once."""

import importlib
import inspect
from collections import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

from depgen.errors import user_errors_unwrapped

TRAINING_VERBS = {
    "fit": "train a system: --config X.yaml (with a second, Y.yaml, the run is named X+Y), or --resume RUN",
    "validate": "evaluate a run's best checkpoint on the validation split",
    "test": "evaluate a run's best checkpoint on the test split; without --config or --run, the newest run's",
    "predict": "write the trees or bracketings that a run finds in the test split into its folder; --input: see parse",
}
"""Verbs of Lightning's command line, with one line of help each."""


@dataclass(frozen=True)
class Verb:
    """A verb, of one word or two, that is a function with typed keyword arguments; what it returns is printed as text.

    Sequences are one or more values, separated by spaces; booleans that are false by default are a bare `--name`.

    Attributes:
        help: one line.
        target: "module:function", imported when the verb is called.
        positionals: parameters given by position; optional ones have a default.
        counts: whole numbers that are at least 1 where they are given.
        also: other names of parameters, of one letter or more.
    """

    help: str
    target: str
    positionals: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    also: Mapping[str, str] = field(default_factory=dict)


VERBS = {
    "generate": Verb(
        "write texts with a trained system, from prompts or from nothing",
        "depgen.evaluation.generation:generate",
        counts=("number", "sentences", "max_new_tokens", "batch_size"),
        also={"number": "n", "run": "checkpoint"},
    ),
    "parse": Verb(
        "parse raw text or CoNLL-U into CoNLL-U, with a run that parses or a trained parser",
        "depgen.evaluation.parse:parse",
        counts=("tokens_per_batch",),
    ),
    "score": Verb(
        "log-probability and surprisal of the words, sentences and documents of a text, under any system",
        "depgen.evaluation.score:score",
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
        "depgen.evaluation.evaluate_text:evaluate_text",
        positionals=("file",),
        counts=("resamples",),
    ),
    "train-oracle": Verb(
        "train the language model that judges texts by LM score and reverse LM score",
        "depgen.evaluation.oracle:train_oracle",
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
        "depgen.evaluation.dependents:dependent_loss",
        also={"run": "checkpoint"},
    ),
    "bracketing-f1": Verb(
        "unlabelled F1 of the constituents that a run's network has found, beside floors",
        "depgen.evaluation.bracketing:bracketing_f1",
        counts=("max_words", "seeds", "batch_size"),
    ),
    "head-correlations": Verb(
        "which attention head goes with which dependency relation, and how closely",
        "depgen.evaluation.correlations:head_correlations",
    ),
    "heat-map": Verb(
        "draw how closely each attention head goes with each dependency relation",
        "depgen.reporting.heat_map:draw_heat_map",
    ),
    "parsing-scores": Verb(
        "how right the dependency trees are that a run has learnt without trees, beside floors",
        "depgen.evaluation.parsing:parsing_scores",
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
    "draw": Verb(
        "draw dependency trees, those of a second file or of a run below the gold ones, as HTML or SVG",
        "depgen.reporting.trees:draw_trees",
        positionals=("files",),
        also={"number": "n"},
    ),
    "attention": Verb("draw the dependency attention of a sentence", "depgen.reporting.attention:draw_attention"),
}


def as_sentence(help: str) -> str:
    """A verb's line of help as a sentence.

    >>> as_sentence("train a system")
    'Train a system.'
    """
    return f"{help[0].upper()}{help[1:]}."


def run_function(name: str, verb: Verb, arguments: Sequence[str]) -> str | None:
    """Parse a verb's arguments by its function's signature, call it, and return what it returns.

    Raises:
        UserError: raised by the function.
        SystemExit: arguments that do not parse (code 2), or help (code 0).
    """
    function = _target(verb.target)
    parser = _parser(name, verb, function)
    config = parser.parse_args(_spread([_underscored(each) for each in arguments], _lists(function)))
    with user_errors_unwrapped():
        ready = parser.instantiate_classes(config)
    result = function(
        **{key: value for key, value in vars(ready).items() if key in inspect.signature(function).parameters}
    )
    return None if result is None else str(result)


def _underscored(argument: str) -> str:
    """An option's name with underscores, as `--top-p` is read like `--top_p`; values stay as they are."""
    if not argument.startswith("--"):
        return argument
    name, separator, value = argument.partition("=")
    return f"--{name[2:].replace('-', '_')}{separator}{value}"


def _lists(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters that are sequences, and of what."""
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        for kind in (parameter.annotation, *get_args(parameter.annotation)):  # a union's
            if get_origin(kind) in (list, abc.Sequence):
                found[name] = get_args(kind)[0]
    return found


def _flags(function: Callable[..., Any]) -> list[str]:
    """The parameters that are booleans and false by default."""
    parameters = inspect.signature(function).parameters.items()
    return [name for name, each in parameters if each.annotation is bool and each.default is False]


def _spread(arguments: Sequence[str], lists: Collection[str]) -> list[str]:
    """Arguments in which options of several values, written as a list in YAML (`--splits [a, b]`), have these apart."""
    found, option = list[str](), ""
    for argument in arguments:
        name, separator, value = argument.partition("=") if argument.startswith("--") else (option, "", argument)
        option = name
        if name.removeprefix("--") in lists and value.startswith("[") and value.endswith("]"):
            found += [name] if separator else []
            found += filter(None, map(str.strip, value[1:-1].split(",")))
        else:
            found.append(argument)
    return found


def _target(path: str) -> Callable[..., Any]:
    module, _, function = path.partition(":")
    target = getattr(importlib.import_module(module), function)
    assert callable(target)
    return target  # type: ignore[no-any-return]


def _parser(name: str, verb: Verb, function: Callable[..., Any]) -> Any:  # noqa: ANN401  (jsonargparse is imported late)
    import docstring_parser
    from jsonargparse import Namespace
    from jsonargparse.typing import PositiveInt

    from depgen.cli.parsers import ShortComplaints

    parser = ShortComplaints(prog=f"depgen {name}", description=as_sentence(verb.help))
    parameters = inspect.signature(function).parameters
    assert not parameters.keys() & set(dir(Namespace)), "jsonargparse keeps such names under others"
    if "config" not in parameters:
        parser.add_argument("-c", "--config", action="config", help="a YAML file with values for the options")
    described = {
        each.arg_name: each.description for each in docstring_parser.parse(inspect.getdoc(function) or "").params
    }
    kinds = {each: parameter.annotation for each, parameter in parameters.items()}
    lists, flags = _lists(function), _flags(function)
    kinds |= lists
    kinds |= {each: PositiveInt if kinds[each] is int else PositiveInt | None for each in verb.counts}
    for positional in verb.positionals:
        parameter = parameters[positional]
        optional = parameter.default is not inspect.Parameter.empty
        extra = {"nargs": "?", "default": parameter.default} if optional else {}
        if positional in lists:
            extra["nargs"] = "*" if optional else "+"
        parser.add_argument(positional, type=kinds[positional], help=described.get(positional), **extra)
    for name in sorted({*lists} - {*verb.positionals}):
        default = parameters[name].default
        if default is inspect.Parameter.empty:
            extra = {"required": True}
        else:
            extra = {"default": default if default is None else list(default)}
        parser.add_argument(f"--{name}", nargs="+", type=kinds[name], help=described.get(name), **extra)
    for flag in flags:
        parser.add_argument(f"--{flag}", action="store_true", help=described.get(flag))
    for name in dict.fromkeys((*verb.also, *verb.counts)):
        names, other = [f"--{name}"], verb.also.get(name)
        if other is not None:
            names = [f"-{other}", *names] if len(other) == 1 else [*names, f"--{other}"]
        parser.add_argument(*names, type=kinds[name], default=parameters[name].default, help=described[name])
    own: set[str | int] = {*verb.positionals, *lists, *flags, *verb.counts, *verb.also}
    parser.add_function_arguments(function, as_group=False, skip=own, sub_configs=True)
    return parser
