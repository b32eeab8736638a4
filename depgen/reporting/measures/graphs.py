"""The sizes of the graphs that a row's system learns from."""

from collections.abc import Iterable

import numpy as np

from depgen.data.experiment import data_of
from depgen.data.rows import document_of_row
from depgen.data.table import AnnotatedSplit
from depgen.reporting.measures import Measure, Numbers, TrainedRow
from depgen.trees.sentence import Sentence

SIZES = ARCS, WORDS_OF_GRAPHS, WITHOUT_HEAD = "arcs_per_sentence", "words_per_sentence", "words_without_head"


class GraphStatistics(Measure):
    """Arcs and words a sentence of the graphs that a row learns from."""

    def measure(self, row: TrainedRow) -> Numbers:
        """`numbers_of_graphs` of the training sentences; none where the row learns from no graphs."""
        data = data_of(row.trained.run / "config.yaml")
        if data.annotator is None:
            return Numbers(not_computed=dict.fromkeys(SIZES, "it learns from no graphs"))
        table = AnnotatedSplit(data.corpus, "train", data.annotator, max_documents=data.max_documents).table()
        return numbers_of_graphs(sentence for each in table for sentence in document_of_row(each).sentences)


def numbers_of_graphs(sentences: Iterable[Sentence]) -> Numbers:
    """Mean arcs and words a sentence, arcs from the root included, and the share of words without a head, per cent.

    A tree is a graph with one arc a word. Sentences without either do not count.

    >>> numbers_of_graphs([Sentence(("a", "b"), edges=((0, 2, "root"),)), Sentence(("c",), heads=(0,))]).metrics
    {'arcs_per_sentence': 1.0, 'words_per_sentence': 1.5, 'words_without_head': 33.333333333333336}
    """
    counts = []
    for sentence in sentences:
        if sentence.edges is not None:
            dependents = [dependent for _, dependent, _ in sentence.edges]
            counts.append((len(dependents), len(sentence), len(sentence) - len({*dependents})))
        elif sentence.heads is not None:
            counts.append((len(sentence), len(sentence), 0))
    if not counts:
        return Numbers(not_computed=dict.fromkeys(SIZES, "no sentence has a graph"))
    arcs, words, without = np.array(counts).sum(0).tolist()
    return Numbers(
        {ARCS: arcs / len(counts), WORDS_OF_GRAPHS: words / len(counts), WITHOUT_HEAD: 100 * without / words}
    )
