"""The sentences of any corpus: as documents of their own, for systems that write one at a time, and rewritten."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from depgen.data.corpus import Corpus, Split, SplitStatistics, form_of
from depgen.data.files import log_left_out
from depgen.errors import UserError, check_at_least
from depgen.trees.sentence import Document, Sentence


class SingleSentences:
    """Every sentence of another corpus, one a document, in its order.

    Args:
        corpus: where the sentences come from.
        min_words: shorter ones are left out and counted, as headlines and credits often are.
        max_words: longer ones are left out and counted; None for any length.
        max_documents: number of training documents, from the first on, whose sentences are taken; None for all.
        test_sentences: number of sentences of the test split, from the first on; None for all.
        name: what results call it; by default the other corpus's name and "sentences".

    Raises:
        UserError: no length is both.
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(
        self,
        corpus: Corpus,
        *,
        min_words: int = 1,
        max_words: int | None = None,
        max_documents: int | None = None,
        test_sentences: int | None = None,
        name: str | None = None,
    ) -> None:
        if max_words is not None and max_words < max(1, min_words):
            raise UserError(f"SingleSentences: no sentence has at least {min_words} words and at most {max_words}.")
        check_at_least(1, max_documents=max_documents, test_sentences=test_sentences)
        self.corpus, self.min_words, self.max_words = corpus, min_words, max_words
        self.max_documents, self.test_sentences = max_documents, test_sentences
        self.name = name or f"{corpus.name} sentences"
        self.form = form_of(corpus)

    def documents(self, split: Split) -> Iterator[Document]:
        """The sentences of a split; identifiers are the document's and the sentence's number, from 1."""
        yield from islice(self._all(split), self.test_sentences if split == "test" else None)

    def _all(self, split: Split) -> Iterator[Document]:
        """The sentences of a split without the limit on those of the test split."""
        left_out = 0
        most = self.max_documents if split == "train" else None
        for document in islice(self.corpus.documents(split), most):
            for number, sentence in enumerate(document.sentences, start=1):
                if len(sentence) < self.min_words or (self.max_words is not None and len(sentence) > self.max_words):
                    left_out += 1
                    continue
                yield Document((sentence,), f"{document.identifier}:{number}")
        log_left_out(left_out, "sentences of other lengths", corpus=self.name, split=split)

    def fingerprint(self, split: Split) -> str:
        """The other corpus's, and the limits."""
        limit = {"train": self.max_documents, "test": self.test_sentences}.get(split)
        first = "" if limit is None else f" first {limit}"
        return f"sentences {self.min_words} {self.max_words}{first} {self.corpus.fingerprint(split)}"


def rewritten_documents(
    documents: Iterable[Document], rewrite: Callable[[Sentence], Sentence], *, corpus: str, split: Split
) -> Iterator[Document]:
    """The documents with every sentence rewritten; what is left without words is left out and counted.

    Args:
        documents: of a split.
        rewrite: what becomes of a sentence.
        corpus: what the log calls the result.
        split: which one it is.
    """
    left_out = 0
    for document in documents:
        sentences = [rewrite(sentence) for sentence in document.sentences]
        kept = tuple(sentence for sentence in sentences if sentence.words)
        left_out += len(sentences) - len(kept)
        if kept:
            yield Document(kept, document.identifier)
    log_left_out(left_out, "sentences without words", corpus=corpus, split=split)
