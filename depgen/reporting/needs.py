"""What an experiment needs that other commands make, read from its settings: parsers, and runs of other experiments."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from depgen.annotation.spacy import SpacyAnnotator, SpacyTagger
from depgen.annotation.supar import SuparAnnotator, SuparConstituencyAnnotator, SuparGraphAnnotator
from depgen.backbones.pretrained import PretrainedTransformer
from depgen.data.tasks import TaskData
from depgen.data.vocabulary import SubwordPieces
from depgen.evaluation.induced import InducedGraphs, InducedTrees

_PARSERS: Mapping[type, str] = {
    SpacyAnnotator: "pipeline",
    SpacyTagger: "pipeline",
    SuparAnnotator: "path",
    SuparGraphAnnotator: "path",
    SuparConstituencyAnnotator: "path",
}
"""Classes that load a trained parser, with the argument that names it."""
_RUNS: Mapping[type, str] = {
    TaskData: "encoder",
    InducedTrees: "run",
    InducedGraphs: "run",
    PretrainedTransformer: "pretrained",
    SubwordPieces: "tokenizer",
}
"""Classes that may load a run of another experiment, with the argument that names it."""


def parsers_in(settings: Mapping[str, Any]) -> list[str]:
    """The names of the parsers that settings load, each once; defaults of the classes included.

    >>> parsers_in({"data": {"init_args": {"annotator": "depgen.annotation.spacy.SpacyAnnotator"}}})
    ['ewt_lowercased']
    >>> parsers_in({"annotator": "depgen.annotation.supar.SuparGraphAnnotator"})
    ['ewt_graph']
    """
    return list(dict.fromkeys(str(name) for _, name in _named(settings, _PARSERS)))


def runs_in(settings: Mapping[str, Any]) -> dict[str, str]:
    """What settings load that may be a run, by the dotted name of the option that names each.

    >>> pairs = {"class_path": "depgen.data.tasks.TaskData", "init_args": {"encoder": "udgn_ptb/small"}}
    >>> runs_in({"data": pairs})
    {'data.init_args.encoder': 'udgn_ptb/small'}
    """
    return {option: str(name) for option, name in _named(settings, _RUNS) if name is not None}


def _named(settings: Any, classes: Mapping[type, str], place: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """The values of some classes' arguments, with the dotted names of their options."""
    if isinstance(settings, str):  # a class without arguments
        settings = {"class_path": settings}
    if isinstance(settings, Mapping):
        name = str(settings.get("class_path")).rpartition(".")[2]  # by whatever path, an earlier one too
        for kind, argument in classes.items():
            if name == kind.__name__:
                default = inspect.signature(kind).parameters[argument].default
                yield f"{place}init_args.{argument}", (settings.get("init_args") or {}).get(argument, default)
        for key, value in settings.items():
            if key != "class_path":
                yield from _named(value, classes, f"{place}{key}.")
    elif isinstance(settings, (list, tuple)):
        for each in settings:
            yield from _named(each, classes, place)
