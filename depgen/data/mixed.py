"""Corpora made from others: with more to train on, and with other tokens."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from depgen.data.corpus import Corpus, Split, SplitStatistics, form_of
from depgen.data.detokenization import detokenize, rejoined
from depgen.data.sentences import rewritten_documents
from depgen.data.tokenization import tokenize
from depgen.errors import UserError, check_at_least
from depgen.locations import lines_sha256
from depgen.trees.sentence import Document, Sentence


class WithMoreTraining:
    """A corpus whose training split also has documents of other corpora; its other splits stay as they are.

    Args:
        corpus: the corpus.
        more: corpora whose training documents come after its own.
        max_more: the number of these documents that are taken, in all; None: all.
        name: what results call it; by default the names joined.
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(
        self, corpus: Corpus, *, more: Sequence[Corpus], max_more: int | None = None, name: str | None = None
    ) -> None:
        check_at_least(1, max_more=max_more)
        if not more:
            raise UserError("WithMoreTraining: expected at least one corpus in `more`, found none.")
        self.corpus, self.more, self.max_more = corpus, list(more), max_more
        self.name = name or " and ".join(each.name for each in (corpus, *self.more))
        self.form = form_of(corpus)

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split."""
        yield from self.corpus.documents(split)
        if split == "train":
            yield from islice((document for each in self.more for document in each.documents(split)), self.max_more)

    def fingerprint(self, split: Split) -> str:
        """A digest of all corpora, or the corpus's own where nothing is added."""
        if split != "train":
            return self.corpus.fingerprint(split)
        parts = [each.fingerprint(split) for each in (self.corpus, *self.more)]
        return lines_sha256(["WithMoreTraining", str(self.max_more), *parts])


class Retokenized:
    """A corpus with the tokens of `depgen.data.tokenization`: its tokens are joined to text, which is cut again.

    Trees go with the tokens that they are over, so the sentences have none.

    Args:
        corpus: of tokens with white space between them.
        apart: whether clitics and numbers are cut apart as in the EMNLP 2017 news (`don ' t`, `50 , 000`).
        name: what results call it; by default the corpus's name.
    """

    published: Mapping[Split, SplitStatistics] = {}

    def __init__(self, corpus: Corpus, *, apart: bool = False, name: str | None = None) -> None:
        self.corpus, self.apart, self.name = corpus, apart, name or corpus.name
        self.form = "stories" if form_of(corpus) == "stories" else None

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split."""
        return rewritten_documents(self.corpus.documents(split), self._again, corpus=self.name, split=split)

    def fingerprint(self, split: Split) -> str:
        """A digest of the corpus's split and of the rules."""
        return lines_sha256(["Retokenized", str(self.apart), self.corpus.fingerprint(split)])

    def _again(self, sentence: Sentence) -> Sentence:
        text = " ".join(sentence.words)
        return Sentence(tuple(tokenize(detokenize(rejoined(text) if self.apart else text))))
