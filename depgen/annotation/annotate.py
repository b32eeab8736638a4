"""The verb `annotate`: a corpus's trees made ahead, into the cache that training reads."""

from collections.abc import Sequence
from pathlib import Path

from depgen.data.annotated import AnnotatedSplit
from depgen.data.corpus import SPLITS, Corpus, Split
from depgen.data.experiment import data_of
from depgen.data.text import CorpusData
from depgen.errors import UserError
from depgen.training.experiment import PAPER, Experiment
from depgen.trees.annotator import Annotator


def annotate(config: Path, size: str = PAPER, processes: int = 1, max_documents: int | None = None) -> str:
    """Annotate the splits that an experiment trains on, ahead of `fit`; one line a split.

    Args:
        config: the experiment's YAML.
        size: of the experiment: paper, or a folder of its sizes, such as small.
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
        whole_documents=data.joining == "whole",
        max_documents=data.max_documents if max_documents is None else max_documents,
    )


def annotate_corpus(
    corpus: Corpus,
    annotator: Annotator | None,
    splits: Sequence[Split] = SPLITS,
    processes: int = 1,
    whole_documents: bool = False,
    max_documents: int | None = None,
) -> str:
    """Annotate splits into `$DEPGEN_CACHE/annotations`, or find them there; one line a split, ready to print.

    Args:
        corpus: where the documents come from.
        annotator: what gives them trees.
        splits: which splits.
        processes: how many processes annotate at once.
        whole_documents: parse each document as one sentence.
        max_documents: only the first documents of the training split, this many; None for all.

    Raises:
        UserError: corpus or parser missing.
    """
    lines = []
    for split in splits:
        limit = max_documents if split == "train" else None
        annotated = AnnotatedSplit(corpus, split, annotator, whole_documents, limit)
        before = annotated.summary()
        annotated.table(processes=processes)
        summary = before or annotated.summary()
        speed = summary["words"] / max(summary["seconds"], 1e-9)
        left = summary.get("words_without_head", 0)  # which tables of older versions do not count, as they have none
        lines.append(
            f"{corpus.name} {split}: {summary['documents']:,} documents, {summary['sentences']:,} sentences, "
            f"{summary['words']:,} words{f' ({left:,} without a head)' if left else ''}; "
            f"{summary['scheme'] or 'no trees'}; "
            + ("already there" if before else f"{summary['seconds']:.1f} s, {speed:,.0f} words/s")
        )
    return "\n".join(lines)
