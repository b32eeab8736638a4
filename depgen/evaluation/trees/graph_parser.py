"""A trained system that finds graphs as it reads, as a parser of the words of a text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from depgen.decoding.heads import Decoding
from depgen.errors import UserError, check_at_least
from depgen.evaluation.encoded_text import TextEncoder
from depgen.evaluation.text_documents import TextDocument
from depgen.evaluation.trained import Trained
from depgen.evaluation.trees.induced_parser import InducedParser, SystemParser
from depgen.evaluation.unit_scores import batches_of
from depgen.language_models.left_to_right import GraphNetwork
from depgen.trees.annotator import check_words
from depgen.trees.graph import sorted_edges
from depgen.trees.sentence import Edge, Sentence

BEAM_SIZE = 20
"""Hypotheses about the graph of a sentence, where no number is named: that of the GiLT paper."""


@dataclass(frozen=True)
class GraphParser(SystemParser):
    """Gives each sentence the likeliest graph that a system finds as it reads it; labels are `root` and `dep`.

    Words that the system does not read, such as punctuation, keep their place and have no arcs.

    Attributes:
        beam_size: hypotheses about the graph of a sentence.
    """

    beam_size: int = BEAM_SIZE

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with edges.

        Raises:
            UserError: a sentence or a word is empty, or a sentence is longer than the system reads.
        """
        check_words(sentences)
        network: object = self.trained.model
        assert isinstance(network, GraphNetwork)
        encoder = TextEncoder(self.trained, as_one=False)
        places = tuple(f"sentence {number}" for number in range(1, len(sentences) + 1))
        read = encoder.sentences(TextDocument("", tuple(sentences), places))
        filled = [place for place, each in enumerate(read) if len(each.encoding.ids)]
        units = encoder.units(TextDocument("", tuple(sentences), places), read)
        vocabulary, found = self.trained.vocabulary, [replace(each, edges=()) for each in sentences]
        for batch in batches_of(units, tokens_per_batch=self.tokens_per_batch, batch_size=self.batch_size):
            ids = [units[unit][0] for unit in batch]
            for unit, edges in zip(
                batch, network.parse(ids, vocabulary=vocabulary, beam_size=self.beam_size), strict=True
            ):
                each = read[filled[unit]]
                owner = np.flatnonzero(each.kept)[each.encoding.word_of_piece] + 1
                over_words = edges_over_words(edges, vocabulary.word_of_token(each.encoding.ids), owner)
                found[filled[unit]] = replace(found[filled[unit]], edges=over_words)
        return found


def edges_over_words(
    edges: Sequence[Edge], word: Int[np.ndarray, " tokens"], owner: Int[np.ndarray, " tokens"]
) -> tuple[Edge, ...]:
    """A graph over the words that tokens seem to spell, as one over the words that they belong to.

    Edges within a word go; of equal ones, one stays.

    Args:
        edges: between words as `word` numbers them.
        word: of each token, by its spelling, from 1.
        owner: of each token, the number of the text's word.

    >>> edges_over_words([(0, 2, "root"), (2, 1, "dep")], np.array([1, 2, 2]), np.array([1, 3, 3]))
    ((3, 1, 'dep'), (0, 3, 'root'))
    """
    numbers = [0, *owner[np.flatnonzero(np.diff(word, prepend=0))].tolist()]
    moved = {(numbers[head], numbers[dependent], label) for head, dependent, label in edges}
    return sorted_edges(edge for edge in moved if edge[0] != edge[1])


def parser_of_system(
    trained: Trained,
    *,
    decoding: Decoding = "tree",
    attention_head: tuple[int, int] | None = None,
    beam_size: int | None = None,
    tokens_per_batch: int = 8192,
    batch_size: int | None = None,
    others: Sequence[Trained] = (),
) -> SystemParser:
    """The parser of graphs or trees that a system is; see `depgen.evaluation.system.System.parse`.

    Raises:
        UserError: it is none, or lacks an option.
    """
    check_at_least(1, beam_size=beam_size)
    name = type(trained.model).__name__
    if isinstance(trained.model, GraphNetwork):
        if others:
            raise UserError(f"A consensus of several runs is of trees, and {name} gives graphs: name one run.")
        if attention_head is not None or decoding != "tree":
            raise UserError(f"decoding and attention_head are of trees, and {name} gives graphs: leave them out.")
        return GraphParser(trained, tokens_per_batch, batch_size, beam_size or BEAM_SIZE)
    if beam_size is not None:
        raise UserError(f"beam_size is of systems that search for graphs, and {name} gives trees: leave it out.")
    return InducedParser(trained, tokens_per_batch, batch_size, decoding, attention_head, tuple(others))
