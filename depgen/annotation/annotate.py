"""The verb `annotate`: a corpus's trees made ahead, into the cache that training reads; or a parser trained."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from depgen.annotation.training import train_parser
from depgen.data.experiment import data_of
from depgen.data.module import CorpusData
from depgen.data.table import AnnotatedSplit, sizes_of
from depgen.errors import UserError, user_errors_unwrapped
from depgen.training.experiment import PAPER, Experiment, settings_of


def annotate(
    config: Path | None = None,
    size: str = PAPER,
    processes: int = 1,
    max_documents: int | None = None,
    train: Path | None = None,
    overwrite: bool = False,
) -> str:
    """Annotate the splits that an experiment trains on, ahead of `fit`; one line a split. Or train a parser.

    Args:
        config: the experiment's YAML.
        size: of the experiment: paper or small.
        processes: how many processes annotate at once; worth it for slow parsers and large corpora.
        max_documents: only the first documents of the training split, this many; by default as many as the experiment
            uses.
        train: the YAML of a parser, such as experiments/parser_ewt.yaml, which is trained into the cache, unless it is
            there; its scores are printed.
        overwrite: replace a parser of that name that was trained otherwise.

    Raises:
        UserError: neither YAML or both; the experiment names no annotator; corpus or parser missing.
    """
    if train is not None and config is None:
        return train_parser(**_arguments(train), overwrite=overwrite)
    if config is None or train is not None:
        raise UserError("Name an experiment by --config, or a parser to train by --train.")
    data = data_of(Experiment(config, size))
    if not isinstance(data, CorpusData) or data.annotator is None:
        raise UserError(f"{config} names no annotator under data.init_args, so there is nothing to annotate.")
    if max_documents is None:
        max_documents = data.max_documents
    lines = []
    for split in data.trees_for:
        annotated = AnnotatedSplit(data.corpus, split, data.annotator, max_documents if split == "train" else None)
        there, started = annotated.is_made(), time.perf_counter()
        sizes = sizes_of(annotated.table(processes=processes))
        seconds = max(time.perf_counter() - started, 1e-9)
        lines.append(
            f"{data.corpus.name} {split}: {sizes.documents:,} documents, {sizes.sentences:,} sentences, "
            f"{sizes.words:,} words{f' ({sizes.without_head:,} without a head)' if sizes.without_head else ''}; "
            f"{data.annotator.scheme}; "
            + ("already there" if there else f"{seconds:.1f} s, {sizes.words / seconds:,.0f} words/s")
        )
    return "\n".join(lines)


def _arguments(config: Path) -> Mapping[str, Any]:
    """What the YAML file of a parser says: corpus, name, parser and more (see `train_parser`)."""
    from jsonargparse import ArgumentError, ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    parser.add_function_arguments(train_parser, skip={"overwrite"})
    try:
        with user_errors_unwrapped():
            settings: dict[str, Any] = vars(parser.instantiate(parser.parse_object(settings_of(config))))
            return settings
    except ArgumentError as error:
        raise UserError(f"{config}: {error}") from error
