"""A vocabulary of a named corpus's words, for runs that learn from parts of it and are to share one."""

from collections import Counter

from depgen.data.corpus import Corpus
from depgen.data.vocabulary import AnyVocabulary, VocabularyBuilder, WordVocabulary
from depgen.locations import lines_sha256


class CorpusVocabulary:
    """Counts the words of a corpus's training split, whichever part of it a run learns from.

    Perplexities of runs on parts of different size compare only where all predict words out of the same vocabulary.

    Args:
        corpus: whose training split is counted.
        builder: makes the vocabulary from these counts; every word by default.
    """

    def __init__(self, corpus: Corpus, builder: VocabularyBuilder | None = None) -> None:
        self.corpus, self.builder = corpus, builder or WordVocabulary()

    def build(self, counts: Counter[str]) -> AnyVocabulary:
        """The vocabulary of the corpus; the counts of what the run learns from do not matter."""
        return self.builder.build(Counter(word for each in self.corpus.documents("train") for word in each.words()))

    def fingerprint(self) -> str:
        """Of the corpus and the builder."""
        parts = ["corpus vocabulary", self.corpus.fingerprint("train"), self.builder.fingerprint()]
        return lines_sha256(parts)
