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
        skipped_documents: number of training documents, from the first on, that others learn from: they are left out
            before `max_documents` counts.
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
        skipped_documents: int = 0,
        name: str | None = None,
    ) -> None:
        if max_words is not None and max_words < max(1, min_words):
            raise UserError(f"SingleSentences: no sentence has at least {min_words} words and at most {max_words}.")
        check_at_least(1, max_documents=max_documents, test_sentences=test_sentences)
        check_at_least(0, skipped_documents=skipped_documents)
        self.corpus, self.min_words, self.max_words = corpus, min_words, max_words
        self.max_documents, self.skipped_documents = max_documents, skipped_documents
        self.test_sentences = test_sentences
        self.name = name or f"{corpus.name} sentences"
        self.form = form_of(corpus)

    def documents(self, split: Split) -> Iterator[Document]:
        """The sentences of a split; identifiers are the document's and the sentence's number, from 1."""
        yield from islice(self._all(split), self.test_sentences if split == "test" else None)

    def _all(self, split: Split) -> Iterator[Document]:
        """The sentences of a split without the limit on those of the test split."""
        left_out = 0
        for document in islice(self.corpus.documents(split), *self._part(split)):
            for number, sentence in enumerate(document.sentences, start=1):
                if len(sentence) < self.min_words or (self.max_words is not None and len(sentence) > self.max_words):
                    left_out += 1
                    continue
                yield Document((sentence,), f"{document.identifier}:{number}")
        log_left_out(left_out, "sentences of other lengths", corpus=self.name, split=split)

    def fingerprint(self, split: Split) -> str:
        """The other corpus's, and the limits."""
        first, end = self._part(split)
        limit = self.test_sentences if split == "test" else None if end is None else end - first
        part = f" after {first}" * bool(first) + ("" if limit is None else f" first {limit}")
        return f"sentences {self.min_words} {self.max_words}{part} {self.corpus.fingerprint(split)}"

    def _part(self, split: Split) -> tuple[int, int | None]:
        """The first document of a split that is taken, and the one after the last; None: all to the end."""
        if split != "train":
            return 0, None
        first = self.skipped_documents
        return first, None if self.max_documents is None else first + self.max_documents


def rewritten_documents(
    documents: Iterable[Document],
    rewrite: Callable[[Sentence], Sentence],
    *,
    corpus: str,
    split: Split,
    what: str = "sentences without words",
) -> Iterator[Document]:
    """The documents with every sentence rewritten; what is left without words is left out and counted.

    Args:
        documents: of a split.
        rewrite: what becomes of a sentence.
        corpus: what the log calls the result.
        split: which one it is.
        what: what the log calls those that are left out.
    """
    left_out = 0
    for document in documents:
        sentences = [rewrite(sentence) for sentence in document.sentences]
        kept = tuple(sentence for sentence in sentences if sentence.words)
        left_out += len(sentences) - len(kept)
        if kept:
            yield Document(kept, document.identifier)
    log_left_out(left_out, what, corpus=corpus, split=split)
