"""The sizes of a corpus, beside the published ones."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from depgen.data.corpus import SPLITS, Corpus, Split
from depgen.data.experiment import corpus_of
from depgen.data.record import measure
from depgen.errors import UserError
from depgen.evaluation.measure import Measured


@dataclass(frozen=True)
class CorpusOptions:
    """The options of `corpus`.

    Attributes:
        config: an experiment, whose corpus is measured.
        corpus: whose documents, in place of an experiment's.
        splits: of it.
    """

    config: Path | None = None
    corpus: Corpus | None = None
    splits: Sequence[Split] = SPLITS


def corpus_sizes(options: CorpusOptions) -> Measured:
    """The sizes of a corpus's splits, each with the published ones below; there are no items.

    Tokens are words, with one end of sequence a document, which is also one of the types. `in_training` counts the
    documents that equal one of training but for blanks; `unknown` is the share of words that training lacks.
    """
    if (options.config is None) == (options.corpus is None):
        raise UserError("Name an experiment by --config, or a corpus by --corpus.")
    corpus = options.corpus if options.config is None else corpus_of(options.config)
    assert corpus is not None
    rows = []
    for split, sizes in measure(corpus, options.splits).items():
        rows.append({"level": "split", "name": split, "corpus": corpus.name, **asdict(sizes)})
        if published := corpus.published.get(split):
            rows.append({"level": "published", "name": split, "corpus": corpus.name, **asdict(published)})
    return Measured(pd.DataFrame(), pd.DataFrame(rows).convert_dtypes())
