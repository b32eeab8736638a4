"""A corpus without the sentences of another: what a model is to be tested on must not be what it was trained on."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from depgen.data.corpus import SPLITS, Corpus, Split, SplitStatistics, form_in, form_of
from depgen.data.sentences import rewritten_documents
from depgen.locations import lines_sha256
from depgen.trees.sentence import Document, Sentence


class WithoutSentences:
    """A corpus less every sentence that another one has too, word for word; empty documents go with them.

    Args:
        corpus: what is left of.
        excluded: whose sentences go, of all its splits.
        splits: the splits that they go from; all others stay as they are.
        name: what results call it; by default "A without B".
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(
        self, corpus: Corpus, *, excluded: Corpus, splits: Sequence[Split] = ("train", "valid"), name: str | None = None
    ) -> None:
        self.corpus, self.excluded, self.splits = corpus, excluded, tuple(splits)
        self.name = name or f"{corpus.name} without {excluded.name}"
        self.form = form_in(corpus) or form_of(excluded)  # sentences of another form would be nowhere in the corpus

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split; how many sentences went is logged."""
        documents = self.corpus.documents(split)
        if split not in self.splits:
            return documents
        return rewritten_documents(
            documents, self._without, corpus=self.name, split=split, what=f"sentences of {self.excluded.name}"
        )

    def fingerprint(self, split: Split) -> str:
        """A digest of both corpora, or the corpus's own where nothing goes."""
        if split not in self.splits:
            return self.corpus.fingerprint(split)
        parts = [self.corpus.fingerprint(split), *map(self.excluded.fingerprint, SPLITS)]
        return lines_sha256(["WithoutSentences", *parts])

    def _without(self, sentence: Sentence) -> Sentence:
        """The sentence, or one without words in place of one that the other corpus has."""
        return Sentence(()) if sentence.words in self._excluded else sentence

    @cached_property
    def _excluded(self) -> frozenset[tuple[str, ...]]:
        documents = (document for split in SPLITS for document in self.excluded.documents(split))
        return frozenset(sentence.words for document in documents for sentence in document.sentences)
