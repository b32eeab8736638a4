"""Trained systems as parsers of sentences: what all of them have, and those that give trees."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from depgen.data.vocabulary import is_unknown
from depgen.decoding.heads import Decoding
from depgen.errors import UserError
from depgen.evaluation.trained import Trained
from depgen.evaluation.trees.head_networks import network_of, parser_of
from depgen.evaluation.trees.parsing import likely_heads, predicted_heads
from depgen.language_models.masked import HeadNetwork
from depgen.models.masked_transformer import MaskedTransformer
from depgen.trees.annotator import check_words
from depgen.trees.graph import sorted_edges
from depgen.trees.removal import put_words_back
from depgen.trees.sentence import Sentence
from depgen.trees.text_form import FORMS


@dataclass(frozen=True)
class SystemParser(ABC):
    """Gives each sentence the structure that a system finds in it.

    Attributes:
        trained: the system.
        tokens_per_batch: parsed at once, padding included.
        batch_size: the most sentences at once; None: any number.
    """

    trained: Trained
    tokens_per_batch: int = 8192
    batch_size: int | None = None

    @abstractmethod
    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with trees or graphs."""

    def kept(self, sentence: Sentence) -> list[bool]:
        """Whether the system reads each word of a sentence."""
        return self.trained.reading.kept(sentence)

    def unknown(self, sentence: Sentence) -> list[bool]:
        """Whether each word that the system reads is unknown to it; False for the words that it does not read."""
        read = iter(self.trained.reading.words(sentence))
        return [keep and is_unknown(self.trained.vocabulary, next(read)) for keep in self.kept(sentence)]


@dataclass(frozen=True)
class InducedParser(SystemParser):
    """Gives each sentence the tree that a system finds in it; see `depgen.evaluation.trees.induced_trees.InducedTrees`.

    Attributes:
        decoding: `tree` or `argmax`.
        attention_head: layer and attention head that a masked Transformer parses by, both 0-based; None: its own.
        others: systems whose consensus with the first one gives the trees.
    """

    decoding: Decoding = "tree"
    attention_head: tuple[int, int] | None = None
    others: tuple[Trained, ...] = ()

    def annotate(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with heads and relations; always a single root.

        Raises:
            UserError: a system does not parse, or not by that attention head, or there is no consensus; a sentence or a
                word is empty.
        """
        check_words(sentences)
        with self._network() as network:
            if self.trained.reading.form is None:
                raise UserError(
                    f"The corpus of {self.trained.run} does not say in which form its text is: name it by `form`, one "
                    f"of {', '.join(FORMS)} (depgen.trees.text_form)."
                )
            found = predicted_heads(
                network,
                self.trained.vocabulary,
                list(map(self.trained.reading.words, sentences)),
                decoding=self.decoding,
                as_trees=True,
                tokens_per_batch=self.tokens_per_batch,
                batch_size=self.batch_size,
            )
        return [
            sentence.with_heads(put_words_back(tree, self.kept(sentence)))
            for sentence, tree in zip(sentences, found, strict=True)
        ]

    def with_graphs(self, sentences: Sequence[Sentence], *, least: float) -> list[Sentence]:
        """Sentences that `annotate` returned, with graphs: their trees, and all heads that are at least so likely."""
        with self._network() as network:
            found = likely_heads(
                network,
                self.trained.vocabulary,
                list(map(self.trained.reading.words, sentences)),
                least=least,
                tokens_per_batch=self.tokens_per_batch,
                batch_size=self.batch_size,
            )
        graphs = []
        for sentence, pairs in zip(sentences, found, strict=True):
            places = [place for place, keep in enumerate(self.kept(sentence), start=1) if keep]
            arcs = {(head, word) for word, head in enumerate(sentence.heads or (), start=1)}
            arcs |= {(places[head - 1], places[word - 1]) for head, word in pairs}
            edges = sorted_edges((head, word, "root" if head == 0 else "dep") for head, word in arcs)
            graphs.append(replace(sentence, edges=edges))
        return graphs

    @contextmanager
    def _network(self) -> Iterator[HeadNetwork]:
        """The network, which parses by `attention_head` until it is given back."""
        systems = (self.trained, *self.others)
        with ExitStack() as stack:
            if self.attention_head is not None:
                for each in systems:
                    stack.enter_context(_parsing_by(self.attention_head, each))
            yield network_of(systems)


@contextmanager
def _parsing_by(attention_head: tuple[int, int], trained: Trained) -> Iterator[None]:
    """A masked Transformer parses by an attention head meanwhile."""
    network = parser_of(trained)
    if not isinstance(network, MaskedTransformer):
        raise UserError(
            f"attention_head is of masked Transformers: {trained.checkpoint} holds a {type(network).__name__}, which "
            "has its own parser."
        )
    before = network.parses_by
    network.parse_by(attention_head)
    try:
        yield
    finally:
        network.parses_by = before
