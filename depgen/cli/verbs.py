"""The table of verbs. Nothing heavy is imported until a verb is called, so that `depgen --help` answers at once."""

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

TRAINING_VERBS = {
    "fit": "train a system: --config experiments/X.yaml, --resume to go on with a run that has stopped",
    "validate": "evaluate a run's best checkpoint on the validation split",
    "test": "evaluate a run's best checkpoint on the test split; without --config or --run, the newest run's",
    "predict": "call a run's predict_step on the test split",
}
"""Verbs of Lightning's command line, with one line of help each."""


@dataclass(frozen=True)
class Verb:
    """A verb that is a function with typed keyword arguments; what it returns is printed.

    Attributes:
        help: one line.
        target: "module:function", imported when the verb is called.
        positionals: parameters given by position; optional ones have a default.
        flags: boolean parameters given as a bare `--name`.
    """

    help: str
    target: str
    positionals: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


VERBS = {
    "generate": Verb(
        "write texts with a trained system, from prompts or from nothing",
        "depgen.evaluation.generation:generate",
        flags=("json",),
    ),
    "evaluate-text": Verb(
        "text metrics on a file of one text a line",
        "depgen.evaluation.text:evaluate_text",
        positionals=("file",),
        flags=("json",),
    ),
    "annotate": Verb(
        "give a corpus its trees ahead of training, into the cache", "depgen.annotation.annotate:annotate"
    ),
    "train-parser": Verb("train a dependency parser on a treebank", "depgen.annotation.train_parser:train_parser"),
    "data-statistics": Verb(
        "sizes of a corpus beside the published ones", "depgen.data.statistics:data_statistics", flags=("json",)
    ),
    "delexicalize": Verb(
        "replace names of people in raw stories by placeholders", "depgen.data.delexicalize:delexicalize_file"
    ),
    "reproduce": Verb(
        "train and test the rows of a table that are not done yet", "depgen.reporting.reproduce:reproduce", ("table",)
    ),
    "table": Verb(
        "render a table from the results at hand, beside the published numbers",
        "depgen.reporting.tables:table",
        ("table",),
    ),
    "record": Verb(
        "copy a table's results into the tracked measurements", "depgen.reporting.record:record", ("table",)
    ),
    "attention": Verb("draw the dependency attention of a sentence", "depgen.reporting.attention:draw_attention"),
}


def run_function(name: str, verb: Verb, arguments: Sequence[str]) -> str | None:
    """Parse a verb's arguments by its function's signature, call it, and return what it returns.

    Raises:
        UserError: raised by the function.
        SystemExit: arguments that do not parse (code 2), or help (code 0).
    """
    function = _target(verb.target)
    parser = _parser(name, verb, function)
    config = parser.parse_args(list(arguments))
    ready = parser.instantiate_classes(config)
    result = function(**{key: value for key, value in vars(ready).items() if key != "config"})
    assert result is None or isinstance(result, str), f"{verb.target} returned {type(result).__name__}"
    return result


def _target(path: str) -> Callable[..., Any]:
    module, _, function = path.partition(":")
    target = getattr(importlib.import_module(module), function)
    assert callable(target)
    return target  # type: ignore[no-any-return]


def _parser(name: str, verb: Verb, function: Callable[..., Any]) -> Any:  # noqa: ANN401  (jsonargparse is imported late)
    from depgen.cli.parsers import ShortComplaints

    parser = ShortComplaints(prog=f"depgen {name}", description=(inspect.getdoc(function) or verb.help).split("\n")[0])
    parser.add_argument("-c", "--config", action="config", help="a YAML file with values for the options")
    parameters = inspect.signature(function).parameters
    for positional in verb.positionals:
        parameter = parameters[positional]
        optional = parameter.default is not inspect.Parameter.empty
        extra = {"nargs": "?", "default": parameter.default} if optional else {}
        parser.add_argument(positional, type=parameter.annotation, **extra)
    for flag in verb.flags:
        parser.add_argument(f"--{flag}", action="store_true", help="print JSON" if flag == "json" else None)
    parser.add_function_arguments(function, as_group=False, skip={*verb.positionals, *verb.flags}, sub_configs=True)
    return parser
