"""A corpus without the sentences of another: what a model is to be tested on must not be what it was trained on."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from depgen.data.corpus import SPLITS, Corpus, Split, SplitStatistics, form_in, form_of
from depgen.data.files import log_left_out
from depgen.locations import lines_sha256
from depgen.trees.sentence import Document


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
        if split not in self.splits:
            yield from self.corpus.documents(split)
            return
        left_out = 0
        for document in self.corpus.documents(split):
            kept = tuple(sentence for sentence in document.sentences if sentence.words not in self._excluded)
            left_out += len(document.sentences) - len(kept)
            if kept:
                yield Document(kept, document.identifier)
        log_left_out(left_out, f"sentences of {self.excluded.name}", corpus=self.name, split=split)

    def fingerprint(self, split: Split) -> str:
        """A digest of both corpora, or the corpus's own where nothing goes."""
        if split not in self.splits:
            return self.corpus.fingerprint(split)
        parts = [self.corpus.fingerprint(split), *map(self.excluded.fingerprint, SPLITS)]
        return lines_sha256(["WithoutSentences", *parts])

    @cached_property
    def _excluded(self) -> frozenset[tuple[str, ...]]:
        documents = (document for split in SPLITS for document in self.excluded.documents(split))
        return frozenset(sentence.words for document in documents for sentence in document.sentences)
