"""Treebanks rewritten as the language-modelling Penn Treebank is, to train parsers for it and to find its lines in."""

from collections.abc import Iterator, Mapping
from functools import cached_property

from depgen.data.corpus import Corpus, Split, SplitStatistics
from depgen.data.sentences import rewritten_documents
from depgen.errors import UserError
from depgen.locations import lines_sha256
from depgen.trees.normalization import normalize
from depgen.trees.sentence import Document
from depgen.trees.text_form import FormName

RULES = "1"
"""Raised when the rules of `depgen.trees.normalization` change for the tags of the Penn Treebank or of UPOS."""


class NormalizedTreebank:
    """A treebank in lower case, without punctuation, with `N` for numbers and `<unk>` for words a corpus lacks.

    Sentences of nothing but punctuation are left out and counted, and so are documents of nothing else.

    Args:
        treebank: tagged by the Penn Treebank's tags, its trees given.
        words_of: the corpus whose training words are known.
        name: what results call it; the two names if not given.
    """

    published: Mapping[Split, SplitStatistics] = {}
    form: FormName = "ptb"

    def __init__(self, treebank: Corpus, *, words_of: Corpus, name: str | None = None) -> None:
        self.treebank, self.words_of = treebank, words_of
        self.name = name or f"{treebank.name} (normalised as {words_of.name})"

    def documents(self, split: Split) -> Iterator[Document]:
        """The documents of a split, normalised.

        Raises:
            UserError: the treebank has no tags.
        """
        return rewritten_documents(
            self._tagged(split), lambda each: normalize(each, self._vocabulary), corpus=self.name, split=split
        )

    def fingerprint(self, split: Split) -> str:
        """A digest of the treebank's split, of the training words and of the rules."""
        parts = [RULES, self.treebank.fingerprint(split), self.words_of.fingerprint("train")]
        return lines_sha256(["NormalizedTreebank", *parts])

    def _tagged(self, split: Split) -> Iterator[Document]:
        for document in self.treebank.documents(split):
            if any(sentence.tags is None for sentence in document.sentences):
                raise UserError(
                    f"{document.identifier}: expected tags, which tell punctuation from words, found none. Name a "
                    "treebank that is tagged, or the column that has its tags."
                )
            yield document

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return frozenset(word for document in self.words_of.documents("train") for word in document.words())
