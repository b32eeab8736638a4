"""The verb `annotate`: a corpus's trees made ahead, into the cache that training reads."""

import time
from collections.abc import Sequence
from pathlib import Path

from depgen.data.corpus import SPLITS, Corpus, Split
from depgen.data.experiment import data_of
from depgen.data.module import CorpusData
from depgen.data.table import AnnotatedSplit, sizes_of
from depgen.errors import UserError
from depgen.training.experiment import PAPER, Experiment
from depgen.trees.annotator import Annotator


def annotate(config: Path, size: str = PAPER, processes: int = 1, max_documents: int | None = None) -> str:
    """Annotate the splits that an experiment trains on, ahead of `fit`; one line a split.

    Args:
        config: the experiment's YAML.
        size: of the experiment: paper or small.
        processes: how many processes annotate at once; worth it for slow parsers and large corpora.
        max_documents: only the first documents of the training split, this many; by default as many as the experiment
            uses.

    Raises:
        UserError: the experiment names no annotator; corpus or parser missing.
    """
    data = data_of(Experiment(config, size))
    if not isinstance(data, CorpusData) or data.annotator is None:
        raise UserError(f"{config} names no annotator under data.init_args, so there is nothing to annotate.")
    return annotate_corpus(
        data.corpus,
        data.annotator,
        data.trees_for,
        processes,
        max_documents=data.max_documents if max_documents is None else max_documents,
    )


def annotate_corpus(
    corpus: Corpus,
    annotator: Annotator | None,
    splits: Sequence[Split] = SPLITS,
    processes: int = 1,
    max_documents: int | None = None,
) -> str:
    """Annotate splits into `$DEPGEN_CACHE/tables`, or find them there; one line a split, as `annotate` does."""
    lines = []
    for split in splits:
        limit = max_documents if split == "train" else None
        annotated = AnnotatedSplit(corpus, split, annotator, limit)
        there, started = annotated.is_made(), time.perf_counter()
        sizes = sizes_of(annotated.table(processes=processes))
        seconds = max(time.perf_counter() - started, 1e-9)
        lines.append(
            f"{corpus.name} {split}: {sizes.documents:,} documents, {sizes.sentences:,} sentences, "
            f"{sizes.words:,} words{f' ({sizes.without_head:,} without a head)' if sizes.without_head else ''}; "
            f"{'no trees' if annotator is None else annotator.scheme}; "
            + ("already there" if there else f"{seconds:.1f} s, {sizes.words / seconds:,.0f} words/s")
        )
    return "\n".join(lines)
