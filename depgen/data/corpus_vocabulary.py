"""A vocabulary of a named corpus's words, for runs that learn from parts of it and are to share one."""

from collections.abc import Iterable

from depgen.data.corpus import Corpus
from depgen.data.vocabulary import Vocabulary, VocabularyBuilder, WordVocabulary
from depgen.locations import lines_sha256
from depgen.trees.sentence import Document


class CorpusVocabulary:
    """Builds on a corpus's training split, whichever part of it a run learns from.

    Perplexities of runs on parts of different size compare only where all predict words out of the same vocabulary.

    Args:
        corpus: whose training split the builder is given.
        builder: builds the vocabulary; every word by default.
    """

    def __init__(self, corpus: Corpus, builder: VocabularyBuilder | None = None) -> None:
        self.corpus, self.builder = corpus, builder or WordVocabulary()

    def build(self, documents: Iterable[Document]) -> Vocabulary:
        """The vocabulary of the corpus; the documents that the run learns from do not matter."""
        return self.builder.build(self.corpus.documents("train"))

    def fingerprint(self) -> str:
        """Of the corpus and the builder."""
        parts = ["corpus vocabulary", self.corpus.fingerprint("train"), self.builder.fingerprint()]
        return lines_sha256(parts)
